"""Conversion of an ONNX file to a computation graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from onnx import NodeProto

from instances.devices.roofline import Device
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import SharedParameter
from instances.readers.onnx.live_nodes import LiveNode, Scope
from instances.readers.onnx.model_file import drop_weights, load_model, set_dims
from instances.readers.onnx.module_paths import module_path
from instances.readers.onnx.operators import is_view
from instances.readers.onnx.pricing import Price, price
from instances.readers.onnx.profiling import measure
from instances.readers.onnx.shapes import infer_shapes
from instances.readers.onnx.types import TensorType

__all__ = ["build", "node_names", "typed_scope"]


def build(path: str | Path, dims: Mapping[str, int], device: Device, cost: str) -> tuple[ComputationGraph, list[int]]:
    """Read a model as `read_onnx` does, with a node for each operator that depends on an input; and list its views."""
    scope, way = typed_scope(path, dims)
    try:
        prices = [price(live, scope, device) for live in scope.live]
        work = [item.seconds for item in prices]
        roofline = f"{device.peak_flops:g} flop/s and {device.memory_bandwidth:g} bytes/s"
        source = f"ONNX file {Path(path).name}; roofline at {roofline}"
        if cost == "measured":
            seconds = measure(path, dims)
            work = [_measured(live, seconds) for live in scope.live]
            source = f"ONNX file {Path(path).name}; profile of onnxruntime, one thread, no fusion"
        attributes = _totals(prices) | {"dims": dict(dims), "shapes": way}
        graph = _assemble(scope, work, name=Path(path).stem, source=source, attributes=attributes)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except OverflowError:
        raise InputError(f"{path}: the sizes are too large to count; the model may be damaged.") from None
    return graph, [v for v, live in enumerate(scope.live) if is_view(live.node.op_type, live.node.domain)]


def typed_scope(path: str | Path, dims: Mapping[str, int]) -> tuple[Scope, str]:
    """The nodes of a model that run, with the shapes of their tensors, and how `infer_shapes` found these.

    Raises
    ------
    InputError
        If the file is not a valid model, or a shape is open.
    """
    model = load_model(path)
    drop_weights(model)
    set_dims(model, dims, path)
    scope, way = infer_shapes(model, path, dims)
    if not scope.live:
        raise InputError(f"{path}: nothing in the model depends on an input, so there is nothing to run.")
    return scope, way


def _assemble(
    scope: Scope, work: list[float], *, name: str, source: str, attributes: dict[str, object]
) -> ComputationGraph:
    produced: dict[str, tuple[int, int]] = {}
    outputs: list[list[float]] = []
    edges: list[tuple[int, int, int]] = []
    users: dict[str, list[int]] = {}
    for v, live in enumerate(scope.live):
        edges += [(u, v, i) for u, i in (produced[name] for name in live.reads if name in produced)]
        wanted = [name for name in live.node.output if name in scope.wanted]
        produced |= {name: (v, i) for i, name in enumerate(wanted)}
        outputs.append([float(scope.types[name].bytes) for name in wanted])
        for weight in live.weights:
            users.setdefault(weight, []).append(v)
    param_bytes = [0.0] * len(work)
    shared = []
    for weight in sorted(users, key=lambda weight: (users[weight], weight)):
        size = float(_weight(scope, weight).bytes)
        if len(users[weight]) == 1:
            param_bytes[users[weight][0]] += size
        else:
            shared.append(SharedParameter(weight, size, tuple(users[weight])))
    elements = sum(_weight(scope, weight).elements for weight in users)
    return ComputationGraph.from_edges(
        edges,
        work,
        outputs,
        param_bytes,
        names=node_names(scope),
        parameters=tuple(shared),
        name=name,
        source=source,
        attributes={**attributes, "parameter_count": elements},
    )


def _weight(scope: Scope, name: str) -> TensorType:
    weight = scope.weights[name]
    assert weight is not None, "shapes are known"
    return weight


def node_names(scope: Scope) -> tuple[str, ...]:
    """The names of the nodes where they have one of their own, behind the paths of their modules if those are told."""
    count = Counter(live.node.name for live in scope.live)

    def name(node: NodeProto) -> str:
        label = node.name if count[node.name] == 1 else ""
        label = label or f"{node.op_type} {', '.join(filter(None, node.output))}"
        path = module_path(node)
        return f"{path}.{label}" if path else label

    return tuple(name(live.node) for live in scope.live)


def _totals(prices: list[Price]) -> dict[str, object]:
    total = Price()
    for item in prices:
        total.add(item)
    unknown = {
        "unknown_operators": dict(sorted(total.unknown_operators.items())),
        "approximate_loops": total.approximate_loops,
    }
    counts = {"flops": total.flops, "multiply_adds": total.multiply_adds}
    return counts | {name: value for name, value in unknown.items() if value}


def _measured(live: LiveNode, seconds: Mapping[str, float]) -> float:
    name = next(filter(None, live.node.output), "")
    if name not in seconds:
        raise InputError(f"node {live.node.op_type} '{live.node.name or name}' is not in the profile; use roofline.")
    return seconds[name]
