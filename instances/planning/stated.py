"""Questions and plans as files state them; nothing is checked."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from instances.certificates import PLANNING, Envelope, check_question, check_written, envelope, opened
from instances.devices import Cluster, Network
from instances.errors import InputError
from instances.graph.tensors import FloatArray
from instances.json_files import CHAIN_FORMAT, CLUSTER_FORMAT, PLAN_FORMAT, TIMED_PLAN_FORMAT, Value, finite_or_none
from instances.planning.problem import LayerChain, TrainingInstance

# Questions of planning as JSON: chains, ``mtpp-chain/1``, clusters, ``mtpp-cluster/1``, and both with a setting.


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
    """A whole number, None where it is missing or null."""
    return None if name not in fields or fields[name].data is None else fields[name].whole()


def _numbers(value: Value) -> Any:
    """A number, or lists of numbers."""
    return [_numbers(item) for item in value.items()] if isinstance(value.data, list) else value.number()


# Plans in files, ``mtpp-plan/1`` and ``/2``, as raw records: statements that are not checked.


#: Members of every plan file that are there for people.
SHOWN = ("chain", "cluster", "key", "microbatches", "full_duplex", "memory", "stages")
#: Members that make a certificate of a plan file.
QUESTION = ("instance", "operations", "time", "bound", "ratio", "bounds")

#: Kinds of operations in ``starts`` and ``ends`` of a timed plan.
MOMENTS = ("forward", "backward", "weights", "send", "receive", "allreduce")
#: Where a timed plan comes from.
PROVENANCE = ("planner", "order_name", "seed", "time_limit", "version")

_TIMED = ("cuts", "devices", "recompute", "order", "starts", "ends", "peak_bytes")
_TIMED_SHOWN = ("chain", "cluster", "key")
_PASS = re.compile(r"(0|[1-9]\d{0,8})([FBIW])(0|[1-9]\d{0,8})")
_STAGE = ("layers", "devices", "forward", "backward", "allreduce")


@dataclass(frozen=True)
class StatedStage:
    """A stage as a file states it."""

    layers: tuple[str, ...]  # names of the first and the last one
    devices: tuple[str, ...]  # names of all of them
    forward: float  # seconds
    backward: float  # seconds
    allreduce: float  # seconds


@dataclass(frozen=True, kw_only=True)
class _StatedStages(Envelope):
    """Statements that all files of plans share: a question, stages, and claims that are not checked yet."""

    instance: TrainingInstance
    cuts: tuple[int, ...]
    devices: tuple[tuple[int, ...], ...]
    copies: dict[str, object]  # values of its question that the file repeats

    answer_name: ClassVar[str] = "plan"
    cost_name: ClassVar[str] = "time"


@dataclass(frozen=True, kw_only=True)
class StatedPlan(_StatedStages):
    """A plan as a file states it."""

    # In which order each stage and each channel works: "f" is forward, "b" backward.
    stage_orders: tuple[str, ...]
    channel_orders: tuple[str, ...]
    stages: tuple[StatedStage, ...]


def plan_from_document(document: Value) -> StatedPlan:
    """The plan of a file with its question.

    Raises
    ------
    InputError
        If this is no plan, it does not hold its question, or it names a field or a method that this project does not
        have; the message names the place.
    """
    document, stated_hash = opened(document, PLAN_FORMAT)
    check_question(document, QUESTION, "plan")
    fields = document.members(("format", "cuts", "devices", *SHOWN, *QUESTION))
    orders = fields["operations"].members(("stages", "channels"))
    instance = _question(fields["instance"], stated_hash)
    return StatedPlan(
        **envelope(fields, "time", PLANNING, stated_hash),
        instance=instance,
        cuts=tuple(fields["cuts"].whole_numbers()),
        devices=tuple(tuple(stage.whole_numbers()) for stage in fields["devices"].items()),
        stage_orders=tuple(orders["stages"].texts()),
        channel_orders=tuple(orders["channels"].texts()),
        stages=tuple(_stage(value) for value in fields["stages"].items()),
        copies={
            **_copies(fields, stated_hash),
            "microbatches": fields["microbatches"].whole(),
            "full_duplex": fields["full_duplex"].truth(),
            "memory": fields["memory"].optional_number(),
        },
    )


@dataclass(frozen=True, kw_only=True)
class StatedTimeline(_StatedStages):
    """A plan with all its times as a file states it."""

    recompute: tuple[bool, ...]
    # Passes of each group of devices in their order: a stage, a letter of "FBIW", and a microbatch.
    orders: tuple[tuple[tuple[int, str, int], ...], ...]
    # Of each kind of operation one row a stage, or channel, with one time a microbatch; None for what there is not.
    starts: dict[str, tuple[tuple[float | None, ...], ...]]
    ends: dict[str, tuple[tuple[float | None, ...], ...]]
    peaks: tuple[float, ...]  # bytes that a device of each group holds at most


def timeline_from_document(document: Value) -> StatedTimeline:
    """The timed plan of a file with its question.

    Raises
    ------
    InputError
        As `plan_from_document`.
    """
    document, stated_hash = opened(document, TIMED_PLAN_FORMAT)
    check_question(document, ("instance", "time", "bound", "ratio", "bounds"), "plan")
    certificate = tuple(name for name in QUESTION if name != "operations")
    fields = document.members(("format", *_TIMED, *_TIMED_SHOWN, *certificate), PROVENANCE)
    instance = _question(fields["instance"], stated_hash)
    if instance.network is None:
        fields["instance"].fail("a plan with all its times is one on shared network cards; its network is missing.")
    _check_provenance(fields)
    return StatedTimeline(
        **envelope(fields, "time", PLANNING, stated_hash),
        instance=instance,
        cuts=tuple(fields["cuts"].whole_numbers()),
        devices=tuple(tuple(stage.whole_numbers()) for stage in fields["devices"].items()),
        recompute=tuple(stage.truth() for stage in fields["recompute"].items()),
        orders=tuple(tuple(_pass(cell) for cell in order.items()) for order in fields["order"].items()),
        starts=_moments(fields["starts"]),
        ends=_moments(fields["ends"]),
        peaks=tuple(fields["peak_bytes"].numbers()),
        copies=_copies(fields, stated_hash),
    )


def _check_provenance(fields: dict[str, Value]) -> None:
    """Refuse a planner, seed, limit or version of the wrong type; none of them is kept."""
    for name in PROVENANCE:
        if name in fields and name == "seed":
            fields[name].whole()
        elif name in fields and name == "time_limit":
            fields[name].optional_number()
        elif name in fields:
            fields[name].text()


def _question(value: Value, stated_hash: str | None) -> TrainingInstance:
    """The question, in newer files written as it is read."""
    instance = question_from_document(value)
    if stated_hash is not None:
        check_written(value, question_document(instance))
    return instance


def _copies(fields: dict[str, Value], stated_hash: str | None) -> dict[str, object]:
    """Parts of the question that the file repeats; names are no part of it in newer files."""
    if stated_hash is not None:
        return {"key": fields["key"].text()}
    return {name: fields[name].text() for name in _TIMED_SHOWN}


def _pass(cell: Value) -> tuple[int, str, int]:
    """Stage, letter of the kind, and microbatch of a pass such as 0F3."""
    match = _PASS.fullmatch(cell.text())
    if match is None:
        cell.fail("this is no pass such as 0F3, the forward pass of microbatch 3 in stage 0.")
    return int(match[1]), match[2], int(match[3])


def _moments(value: Value) -> dict[str, tuple[tuple[float | None, ...], ...]]:
    """Times of all kinds of operations, null as None [s]."""
    return {
        name: tuple(tuple(moment.optional_number() for moment in row.items()) for row in rows.items())
        for name, rows in value.members(MOMENTS).items()
    }


def _stage(value: Value) -> StatedStage:
    fields = value.members(_STAGE)
    return StatedStage(
        layers=tuple(fields["layers"].texts()),
        devices=tuple(fields["devices"].texts()),
        forward=fields["forward"].number(),
        backward=fields["backward"].number(),
        allreduce=fields["allreduce"].number(),
    )
