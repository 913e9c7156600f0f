"""Chains, clusters and plans in files: ``mtpp-chain/1``, ``mtpp-cluster/1``, ``mtpp-plan/1``, and clusters as CSV."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from instances.errors import InputError
from instances.graph.tensors import FloatArray
from instances.json_files import (
    CHAIN_FORMAT,
    CLUSTER_FORMAT,
    PLAN_FORMAT,
    Value,
    parse_json,
    read_json,
    read_text,
    write_json,
)
from instances.planning.chain import LayerChain
from instances.planning.cluster import Cluster
from instances.planning.from_graph import collapse
from instances.planning.plan import Plan
from instances.planning.problem import TrainingInstance
from instances.readers import load_graph
from instances.readers.pipedream import input_nodes, recognises_pipedream

__all__ = [
    "CHAIN_FORMAT",
    "CLUSTER_FORMAT",
    "PLAN_FORMAT",
    "load_chain",
    "plan_document",
    "read_chain",
    "read_cluster",
    "read_plan",
    "read_profile",
    "save_chain",
    "save_cluster",
    "save_plan",
]

_LAYER = ("forward", "backward")
_BETWEEN = ("forward_bytes", "backward_bytes")
_LAYER_OPTIONAL = ("name", "param_bytes", "stored_bytes", *_BETWEEN)
_BACKWARD = re.compile(r"^\S+ -- .*backward_compute_time=([^,\s]+)", re.MULTILINE)


def load_chain(spec: str | Path, **options: Any) -> LayerChain:
    """A chain from a file, or from a computation graph.

    Parameters
    ----------
    spec : str or path
        A chain file, a PipeDream profile, or whatever `load_graph` takes, which is collapsed.
    **options
        Of `load_graph`, such as ``dims={"batch": 4}``.

    Raises
    ------
    InputError
        If there is no such file or network, or its content is refused.
    """
    path = Path(spec)
    if path.is_file() and path.suffix not in (".onnx", ".pt2"):
        text = read_text(path)
        if f'"{CHAIN_FORMAT}"' in text:
            for name, value in options.items():
                if value or value == "":
                    raise InputError(f"{path}: a chain file takes no {name}; leave it out.")
            return read_chain(path)
        if recognises_pipedream(text):
            return read_profile(path, **options)
    return collapse(load_graph(spec, **options))


def read_profile(path: str | Path, **options: Any) -> LayerChain:
    """A PipeDream profile, ``graph.txt``, as a chain with its own backward times.

    Parameters
    ----------
    path : str or path
    **options
        Of `load_graph`; with ``input_work="drop"`` the backward pass of Input nodes takes no time either.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    graph = load_graph(path, reader="pipedream", **options)
    try:
        backward = np.array([float(number) for number in _BACKWARD.findall(read_text(path))]) / 1000
        if options.get("input_work") == "drop":
            backward[input_nodes(graph)] = 0.0
        return collapse(graph, backward)
    except (ValueError, InputError) as error:
        raise InputError(f"{path}: a backward_compute_time is not a number of ms, 0 or more ({error}).") from None


def read_chain(path: str | Path) -> LayerChain:
    """Read a chain file.

    Each entry of ``layers`` has ``forward`` and ``backward`` [s], and may have ``name``, ``param_bytes``,
    ``stored_bytes``, and ``forward_bytes`` and ``backward_bytes`` between it and the next layer; sizes default to 0,
    ``stored_bytes`` to the activations of the layer before.

    Raises
    ------
    InputError
        If the file cannot be read; the message names the place.
    """
    document = read_json(path)
    fields = _fields(document, CHAIN_FORMAT, ("layers",), ("name", "source"))
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
    try:
        return LayerChain(
            forward=column("forward"),
            backward=column("backward"),
            forward_bytes=forward_bytes,
            backward_bytes=backward_bytes,
            param_bytes=column("param_bytes"),
            stored_bytes=stored[: len(layers)],
            names=tuple(layer["name"].text() if "name" in layer else str(index) for index, layer in enumerate(layers)),
            name=fields["name"].text() if "name" in fields else Path(path).stem,
            source=fields["source"].text() if "source" in fields else "",
        )
    except InputError as error:
        document.fail(str(error))


def save_chain(chain: LayerChain, path: str | Path) -> None:
    """Write a chain file.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    columns = {
        "name": chain.names,
        "forward": chain.forward.tolist(),
        "backward": chain.backward.tolist(),
        "param_bytes": chain.param_bytes.tolist(),
        "stored_bytes": chain.stored.tolist(),
        "forward_bytes": [*chain.forward_bytes.tolist(), 0.0],
        "backward_bytes": [*chain.backward_bytes.tolist(), 0.0],
    }
    layers = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    write_json(path, {"format": CHAIN_FORMAT, "name": chain.name, "source": chain.source, "layers": layers})


def read_cluster(path: str | Path) -> Cluster:
    """Read a cluster from JSON, or from a CSV table of V lines with V bandwidths each.

    JSON has ``servers``, the devices of each, and either ``bandwidth``, V rows of V numbers, or ``within`` and
    ``between``, as in `Cluster.of_servers`. All in bytes/s.

    Raises
    ------
    InputError
        If the file cannot be read; the message names the place.
    """
    text = read_text(path)
    if not text.lstrip().startswith("{"):
        return _cluster_from_table(text, path)
    document = parse_json(text, str(path))
    fields = _fields(document, CLUSTER_FORMAT, (), ("name", "servers", "names", "bandwidth", "within", "between"))
    name = fields["name"].text() if "name" in fields else Path(path).stem
    servers = fields["servers"].whole_numbers() if "servers" in fields else []
    if ("bandwidth" in fields) == ("within" in fields) or ("between" in fields and "within" not in fields):
        document.fail("give either 'bandwidth', or 'within' and 'between'.")
    try:
        if "bandwidth" in fields:
            names = tuple(item.text() for item in fields["names"].items()) if "names" in fields else ()
            return Cluster(_numbers(fields["bandwidth"]), tuple(servers), names, name)
        between = _numbers(fields["between"]) if "between" in fields else 0.0
        return Cluster.of_servers(servers, _numbers(fields["within"]), between, name)
    except InputError as error:
        if str(error).startswith(str(path)):
            raise
        document.fail(str(error))


def save_cluster(cluster: Cluster, path: str | Path) -> None:
    """Write a cluster as JSON.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    document = {"format": CLUSTER_FORMAT, "name": cluster.name, "servers": list(cluster.servers)}
    write_json(path, document | {"names": list(cluster.names), "bandwidth": cluster.bandwidth.tolist()})


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan as the JSON document of its file; stages and times are there for people."""
    instance = plan.instance
    stages = [
        {
            "layers": [instance.chain.names[plan.cuts[n]], instance.chain.names[plan.cuts[n + 1] - 1]],
            "devices": [instance.cluster.names[v] for v in plan.devices[n]],
            "forward": float(plan.forward_time[n]),
            "backward": float(plan.backward_time[n]),
            "allreduce": float(plan.allreduce_time[n]),
        }
        for n in range(plan.n_stages)
    ]
    return {
        "format": PLAN_FORMAT,
        "chain": instance.chain.name,
        "cluster": instance.cluster.name,
        "key": instance.key,
        "microbatches": instance.microbatches,
        "full_duplex": instance.full_duplex,
        "memory": instance.memory if math.isfinite(instance.memory) else None,
        "cuts": list(plan.cuts),
        "devices": [list(stage) for stage in plan.devices],
        "stages": stages,
    }


def save_plan(plan: Plan, path: str | Path) -> None:
    """Write a plan file.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    write_json(path, plan_document(plan))


def read_plan(path: str | Path, instance: TrainingInstance) -> Plan:
    """Read a plan file as an answer to `instance`; cuts and devices count, all else is computed anew.

    Raises
    ------
    InputError
        If the file cannot be read, was made for another instance, or the plan is not possible.
    """
    document = read_json(path)
    shown = ("chain", "cluster", "microbatches", "full_duplex", "memory", "stages", "key")
    fields = _fields(document, PLAN_FORMAT, ("cuts", "devices"), shown)
    if "key" in fields and fields["key"].text() != instance.key:
        fields["key"].fail("the plan was made for another chain, cluster or setting; use that one.")
    devices = tuple(tuple(stage.whole_numbers()) for stage in fields["devices"].items())
    try:
        return Plan(instance, tuple(fields["cuts"].whole_numbers()), devices)
    except InputError as error:
        document.fail(str(error))


def _fields(document: Value, name: str, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Value]:
    document.check_format(name)
    return document.members(("format", *required), optional)


def _numbers(value: Value) -> Any:
    """A number, or lists of numbers."""
    return [_numbers(item) for item in value.items()] if isinstance(value.data, list) else value.number()


def _cluster_from_table(text: str, path: str | Path) -> Cluster:
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                rows.append([float(cell) for cell in line.split(",")])
            except ValueError:
                raise InputError(f"{path}, line {number}: expected numbers between commas, bytes/s.") from None
            if len(rows[-1]) != len(rows[0]):
                raise InputError(f"{path}, line {number}: {len(rows[-1])} numbers, but {len(rows[0])} before.")
    try:
        return Cluster(np.array(rows), name=Path(path).stem)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
