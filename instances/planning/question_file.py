"""Questions of planning as JSON: chains, ``mtpp-chain/1``, clusters, ``mtpp-cluster/1``, and both with a setting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from instances.devices.cluster import Cluster
from instances.devices.network import Network
from instances.errors import InputError
from instances.graph.tensors import FloatArray
from instances.json_files import CHAIN_FORMAT, CLUSTER_FORMAT, Value, finite_or_none
from instances.planning.problem import LayerChain, TrainingInstance

__all__ = [
    "chain_document",
    "chain_from_document",
    "cluster_document",
    "cluster_from_document",
    "question_document",
    "question_from_document",
]

_LAYER = ("forward", "backward")
_BETWEEN = ("forward_bytes", "backward_bytes")
_LAYER_OPTIONAL = ("name", "param_bytes", "stored_bytes", "input_backward", *_BETWEEN)
_CLUSTER_OPTIONAL = ("name", "servers", "names", "bandwidth", "within", "between")
_QUESTION = ("chain", "cluster", "microbatches", "full_duplex", "memory", "parameter_copies", "replica_share")
_SHARED = ("network", "samples", "recomputation", "dtype", "sequence")


def chain_document(chain: LayerChain) -> dict[str, Any]:
    """The chain as the JSON document of its file."""
    columns = {
        "name": chain.names,
        "forward": chain.forward.tolist(),
        "backward": chain.backward.tolist(),
        "param_bytes": chain.param_bytes.tolist(),
        "stored_bytes": chain.stored.tolist(),
        "forward_bytes": [*chain.forward_bytes.tolist(), 0.0],
        "backward_bytes": [*chain.backward_bytes.tolist(), 0.0],
    }
    if chain.input_backward is not None:
        columns["input_backward"] = chain.input_backward.tolist()
    layers = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {"format": CHAIN_FORMAT, "name": chain.name, "source": chain.source, "layers": layers}


def chain_from_document(document: Value, name: str = "chain") -> LayerChain:
    """Build a chain from its JSON document; `name` is for one that has none.

    Each entry of ``layers`` has ``forward`` and ``backward`` [s], and may have ``name``, ``param_bytes``,
    ``stored_bytes``, ``input_backward``, and ``forward_bytes`` and ``backward_bytes`` between it and the next layer;
    sizes default to 0, ``stored_bytes`` to the activations of the layer before, ``input_backward``, the part of
    ``backward`` that yields gradients of inputs, to half of it.

    Raises
    ------
    InputError
        If it is not a chain; the message names the place.
    """
    document.check_format(CHAIN_FORMAT)
    fields = document.members(("format", "layers"), ("name", "source"))
    layers = [layer.members(_LAYER, _LAYER_OPTIONAL) for layer in fields["layers"].items()]
    for label in _BETWEEN:
        if layers and label in layers[-1] and layers[-1][label].number() != 0:
            layers[-1][label].fail("there is no layer after the last one; leave it out.")

    def column(label: str) -> FloatArray:
        return np.array([layer[label].number() if label in layer else 0.0 for layer in layers])

    forward_bytes, backward_bytes = (column(label)[:-1] for label in _BETWEEN)
    stored = np.concatenate(([0.0], forward_bytes))
    for index, layer in enumerate(layers):
        if "stored_bytes" in layer:
            stored[index] = layer["stored_bytes"].number()
    first = None
    if any("input_backward" in layer for layer in layers):
        first = column("backward") / 2
        for index, layer in enumerate(layers):
            if "input_backward" in layer:
                first[index] = layer["input_backward"].number()
    try:
        return LayerChain(
            forward=column("forward"),
            backward=column("backward"),
            forward_bytes=forward_bytes,
            backward_bytes=backward_bytes,
            param_bytes=column("param_bytes"),
            stored_bytes=stored[: len(layers)],
            names=tuple(layer["name"].text() if "name" in layer else str(index) for index, layer in enumerate(layers)),
            name=fields["name"].text() if "name" in fields else name,
            source=fields["source"].text() if "source" in fields else "",
            input_backward=first,
        )
    except InputError as error:
        document.fail(str(error))


def cluster_document(cluster: Cluster) -> dict[str, Any]:
    """The cluster as the JSON document of its file."""
    document = {"format": CLUSTER_FORMAT, "name": cluster.name, "servers": list(cluster.servers)}
    return document | {"names": list(cluster.names), "bandwidth": cluster.bandwidth.tolist()}


def cluster_from_document(document: Value, name: str = "cluster") -> Cluster:
    """Build a cluster from its JSON document; `name` is for one that has none.

    It has ``servers``, the devices of each, and either ``bandwidth``, V rows of V numbers, or ``within`` and
    ``between``, as in `Cluster.of_servers`. All in bytes/s.

    Raises
    ------
    InputError
        If it is not a cluster; the message names the place.
    """
    document.check_format(CLUSTER_FORMAT)
    fields = document.members(("format",), _CLUSTER_OPTIONAL)
    name = fields["name"].text() if "name" in fields else name
    servers = fields["servers"].whole_numbers() if "servers" in fields else []
    if ("bandwidth" in fields) == ("within" in fields) or ("between" in fields and "within" not in fields):
        document.fail("give either 'bandwidth', or 'within' and 'between'.")
    rates = {label: _numbers(fields[label]) for label in ("bandwidth", "within", "between") if label in fields}
    names = tuple(fields["names"].texts()) if "names" in fields else ()
    try:
        if "bandwidth" in rates:
            return Cluster(rates["bandwidth"], tuple(servers), names, name)
        return Cluster.of_servers(servers, rates["within"], rates.get("between", 0.0), name)
    except InputError as error:
        document.fail(str(error))


def question_document(instance: TrainingInstance) -> dict[str, Any]:
    """The question as a member of a plan file; no limit of memory and an even share of replicas are null."""
    document = {
        "chain": chain_document(instance.chain),
        "cluster": cluster_document(instance.cluster),
        "microbatches": instance.microbatches,
        "full_duplex": instance.full_duplex,
        "memory": finite_or_none(instance.memory),
        "parameter_copies": instance.parameter_copies,
        "replica_share": None if instance.replica_share is None else instance.replica_share.tolist(),
    }
    if instance.network is None:
        return document
    rates = instance.network.rates
    return document | {
        "network": {"half": instance.network.half, "rates": None if rates is None else list(rates)},
        "samples": instance.samples,
        "recomputation": instance.recomputation,
        "dtype": instance.dtype,
        "sequence": instance.sequence,
    }


def question_from_document(document: Value) -> TrainingInstance:
    """Build a question from the member of a plan file.

    Raises
    ------
    InputError
        If it is none; the message names the place.
    """
    fields = document.members(_QUESTION, _SHARED)
    memory, share = fields["memory"].optional_number(), fields["replica_share"]
    chain, cluster = chain_from_document(fields["chain"]), cluster_from_document(fields["cluster"])
    values: dict[str, Any] = {
        "microbatches": fields["microbatches"].whole(),
        "full_duplex": fields["full_duplex"].truth(),
        "memory": math.inf if memory is None else memory,
        "parameter_copies": fields["parameter_copies"].number(),
        "replica_share": None if share.data is None else _numbers(share),
    }
    try:
        return TrainingInstance(chain, cluster, **values, **_shared(fields))
    except InputError as error:
        document.fail(str(error))


def _shared(fields: dict[str, Value]) -> dict[str, Any]:
    """Parameters of a question on shared network cards; none for the paper's network."""
    if "network" not in fields:
        return {}
    network = fields["network"].members(("half", "rates"))
    rates = None if network["rates"].data is None else tuple(network["rates"].numbers())
    return {
        "network": Network(network["half"].truth(), rates),
        "samples": _whole(fields, "samples"),
        "recomputation": "recomputation" in fields and fields["recomputation"].truth(),
        "dtype": fields["dtype"].text() if "dtype" in fields and fields["dtype"].data is not None else None,
        "sequence": _whole(fields, "sequence"),
    }


def _whole(fields: dict[str, Value], name: str) -> int | None:
    return None if name not in fields or fields[name].data is None else fields[name].whole()


def _numbers(value: Value) -> Any:
    """A number, or lists of numbers."""
    return [_numbers(item) for item in value.items()] if isinstance(value.data, list) else value.number()
