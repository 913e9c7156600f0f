"""Graphs of ONNX models: live nodes, shapes of their tensors, names of modules."""

from __future__ import annotations

import ast
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from instances.devices import Device
from instances.errors import InputError, is_refused, one_line
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import SharedParameter
from instances.json_files import check_readable
from instances.readers.onnx.model import (
    OpenDimensionsError,
    all_graphs,
    drop_weights,
    load_model,
    measure,
    proposals,
    set_dims,
)
from instances.readers.onnx.operators import LiveNode, Price, Scope, TensorType, is_view, price, tensor_type, type_of
from instances.system.processes import SubprocessError as SubprocessError
from instances.system.processes import run_module

# Weights that a model keeps in other files: a check of their paths, and copies for a model that is written again.


# Files are mapped into memory by pages [bytes].
_PAGE = 4096
_PIECE = 2**20
_NUMBER = re.compile(r"[0-9]{1,18}")


def weight_files(model: ModelProto) -> set[str]:
    """The external files that a model names for its weights."""
    return {_entries(tensor).get("location", "") for tensor in _external_tensors(model)}


def check_weights(model: ModelProto, folder: str | Path) -> None:
    """Refuse a model whose weights are not in `folder`, as `copy_weights` does, or exceed their files."""
    lengths: Counter[Path] = Counter()
    for path, _, length in {_source(tensor, Path(folder)) for tensor in _external_tensors(model)}:
        lengths[path] += length
    for path, length in lengths.items():
        if length > path.stat().st_size:  # else copies of a small file would fill the disk
            raise InputError(f"different weights overlap in '{path.name}'; give each a place of its own.")


def copy_weights(model: ModelProto, folder: str | Path, target: Path) -> bool:
    """Copy the weights of a model that lie in other files into one file beside it, in place.

    Parameters
    ----------
    model : ModelProto
        Names `target` for its weights afterwards.
    folder : str or path
        Where the files lie that it names now.
    target : Path
        The file to write; only if there is something to copy.

    Returns
    -------
    bool
        Whether there was.

    Raises
    ------
    InputError
        If a file is not in `folder`, or does not hold the weight.
    """
    tensors = list(_external_tensors(model))
    if not tensors:
        return False
    places: dict[tuple[Path, int, int], int] = {}
    with target.open("xb") as out:
        for tensor in tensors:
            source = _source(tensor, Path(folder))
            if source not in places:
                out.write(bytes(-out.tell() % _PAGE))
                places[source] = out.tell()
                _copy(*source, out, tensor)
            del tensor.external_data[:]
            for key, value in (("location", target.name), ("offset", places[source]), ("length", source[2])):
                tensor.external_data.add(key=key, value=str(value))
    return True


def _source(tensor: TensorProto, folder: Path) -> tuple[Path, int, int]:
    """File, offset and length of a weight."""
    entries, where = _entries(tensor), f"weight '{tensor.name}'"
    location = entries.get("location", "")
    parts = PurePosixPath(location).parts
    if not parts or location.startswith("/") or ".." in parts or any(letter in location for letter in "\\:\0"):
        raise InputError(f"{where} is said to lie in '{location}'; weights must lie beside the model.")
    path = folder / location
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise InputError(f"{where}: '{location}' is a link to outside of the model's folder; copy the file into it.")
    check_readable(path)
    kind = tensor_type(tensor.data_type, tensor.dims)
    numbers = [entries.get("offset", "0"), entries.get("length", "")]
    if kind is None or not _NUMBER.fullmatch(numbers[0]) or not _NUMBER.fullmatch(numbers[1] or "0"):
        raise InputError(f"{where} has no size or place; the model may be damaged.")
    offset, length, size = int(numbers[0]), int(numbers[1] or kind.bytes), path.stat().st_size
    if length != kind.bytes or offset + length > size:
        raise InputError(
            f"{where} of {kind.bytes} bytes is not in '{location}' ({length} bytes from {offset} on, of {size})."
        )
    return path, offset, length


def _copy(path: Path, offset: int, length: int, out: BinaryIO, tensor: TensorProto) -> None:
    """Append a piece of a file to another one, in small parts."""
    with path.open("rb") as file:
        file.seek(offset)
        while length:
            piece = file.read(min(length, _PIECE))
            if not piece:
                raise InputError(f"weight '{tensor.name}': '{path.name}' has become shorter.")
            out.write(piece)
            length -= len(piece)


def _entries(tensor: TensorProto) -> dict[str, str]:
    """Location, offset and length of a weight in another file, as texts."""
    return {entry.key: entry.value for entry in tensor.external_data}


def _external_tensors(model: ModelProto) -> Iterator[TensorProto]:
    for graph in all_graphs(model.graph):
        yield from (tensor for tensor in _tensors(graph) if tensor.data_location == TensorProto.EXTERNAL)


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)


# Paths of the PyTorch modules that nodes come from, as torch's exporter writes them beside the nodes.


_SCOPES = "pkg.torch.onnx.name_scopes"
#: Characters of the list of scopes that is read; the longest have some hundreds.
_MOST = 10_000


def module_path(node: NodeProto) -> str:
    """The path of the module that calls a node, such as ``model.layers.0.mlp``; empty if the file does not say.

    The metadata is a list of nested scopes: paths of modules from the root on, and the call itself.

    Examples
    --------
    >>> from onnx.helper import make_node
    >>> node = make_node("MatMul", ["x", "w"], ["y"])
    >>> entry = node.metadata_props.add(key=_SCOPES, value="['', 'layers.0', 'layers.0.linear', 'linear']")
    >>> module_path(node)
    'layers.0.linear'
    """
    text = next((entry.value for entry in node.metadata_props if entry.key == _SCOPES), "")
    if not text or len(text) > _MOST:
        return ""
    try:
        scopes = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ""
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        return ""
    return next((scope for scope in reversed(scopes[:-1]) if scope), "")


# Shapes of all tensors of a model whose inputs have fixed shapes.
#
# ONNX infers most of them. It loses what lies behind a shape that the model computes, so then the symbolic inference
# of onnxruntime is asked, and at last the model is run once. Both happen in a process of their own, which may fail,
# hang or need too much memory without harm.


_SECONDS = 120
# A loop in a loop needs one more round.
_ROUNDS = 10


def infer_shapes(model: ModelProto, path: str | Path, dims: Mapping[str, int]) -> tuple[Scope, str]:
    """The graph with all shapes on which costs depend, and the source of the shapes: "inference", "symbolic" or "run".

    The model has no weights, and its input shapes are fixed; `path` is the file, for messages and for its weights. The
    dimensions are as for `set_dims`.

    Raises
    ------
    InputError
        If a shape cannot be found; the message names the tensor.
    """
    model, scope = _infer_with_loops(model, path)
    if not any(scope.missing()):
        return scope, "inference"
    for way in ("symbolic", "run"):
        answer = _ask(way, model, path, dims)
        if answer is not None:
            model, scope = _infer_with_loops(answer, path)
            if not any(scope.missing()):
                return scope, way
    name = next(scope.missing())
    raise InputError(
        f"{path}: the shape of tensor '{name}' cannot be found; export the model with fixed shapes, or add it to the "
        "model's value_info."
    )


def _infer_with_loops(model: ModelProto, path: str | Path) -> tuple[ModelProto, Scope]:
    """The model with inferred shapes, where inference is repeated until the states of loops have shapes."""
    for _ in range(_ROUNDS):
        try:
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        except Exception as error:  # whatever C++ throws
            raise InputError(f"{path}: shape inference fails ({one_line(error, 200)}).") from None
        scope = Scope(model.graph)
        settled = [_settle_loop(*loop) for loop in _loops(scope)]
        if not any(settled):
            break
    return model, scope


def _loops(scope: Scope) -> Iterator[tuple[NodeProto, Scope, Scope]]:
    """All loops, nested ones as well, each with its body and the scope around it."""
    for live in scope.live:
        for body in live.bodies:
            if live.node.op_type == "Loop":
                yield live.node, body, scope
            yield from _loops(body)


def _settle_loop(node: NodeProto, body: Scope, scope: Scope) -> bool:
    """Give the state of a loop its initial shape, and its output the shape of the state; return whether any was open.

    Inference leaves both open, as a state may change its shape; where it does, the output stays open.
    """
    changed = False
    begins, inside = node.input[2:], body.graph.input[2:]
    for name, value in zip(begins, inside, strict=False):
        if name in scope.types and value.name not in body.types:
            value.type.CopyFrom(_fixed(value.type, scope.types[name].shape))
            changed = True
    for i, (name, value) in enumerate(zip(node.output, body.graph.output[1:], strict=False)):
        if name in scope.types or value.name not in body.types:
            continue
        shape = body.types[value.name].shape
        if i >= len(begins):
            trips = scope.number(node.input[0])
            if trips is None:
                continue
            shape = (trips, *shape)
        elif i >= len(inside) or body.types.get(inside[i].name, ((),))[0] != shape:
            continue
        scope.graph.value_info.add(name=name, type=_fixed(value.type, shape))
        changed = True
    return changed


def _fixed(kind: TypeProto, shape: tuple[int, ...]) -> TypeProto:
    return onnx.helper.make_tensor_type_proto(kind.tensor_type.elem_type, shape)


def _ask(way: str, model: ModelProto, path: str | Path, dims: Mapping[str, int]) -> ModelProto | None:
    """The model with the shapes that a separate process infers, `way` being "symbolic" or "run"; None if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        question, answer = Path(folder, "question.onnx"), Path(folder, "answer.onnx")
        question.write_bytes(model.SerializeToString())
        files = (question, answer, Path(path).resolve())
        asking = "instances.readers.onnx.shape_process"
        try:
            run_module(asking, way, *files, json.dumps(dict(dims)), folder=folder, seconds=_SECONDS).check_returncode()
            return onnx.load_model_from_string(answer.read_bytes())
        except (SubprocessError, OSError):
            return None


# Tensors whose shapes depend on values: stages need fixed shapes, and those of one run do not hold for the next.


# Operators that give as much as they find, and those whose result has the size that operands behind the first one say.
_FINDING = ("Compress", "NonMaxSuppression", "NonZero", "Range", "ConstantOfShape", "Unique", "If", "Loop")
_SIZED = ("Expand", "OneHot", "Pad", "Reshape", "Resize", "Slice", "Tile", "TopK", "Upsample")


def open_shapes(model: ModelProto, scope: Scope) -> frozenset[str]:
    """Names of tensors whose shapes depend on the values of the inputs.

    Parameters
    ----------
    model : ModelProto
        Model whose inputs have fixed dimensions.
    scope : Scope
        Nodes of the model.

    Returns
    -------
    frozenset of str
        Tensors after an operator whose output size depends on values, as far as shape inference does not know them.
    """
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    typed = {value.name for value in (*inferred.value_info, *inferred.output) if type_of(value) is not None}
    open_names: set[str] = set()
    for live in scope.live:
        if _is_open(live) or not open_names.isdisjoint(live.reads):
            open_names.update(name for name in live.node.output if name not in typed)
    return frozenset(open_names)


def _is_open(live: LiveNode) -> bool:
    """Whether the shape of a result depends on values of the inputs, not only on their shapes."""
    kind = live.node.op_type
    return kind in _FINDING or (kind in _SIZED and not set(live.reads).isdisjoint(live.node.input[1:]))


# Conversion of an ONNX file to a computation graph.


def build(path: str | Path, dims: Mapping[str, int], device: Device, cost: str) -> tuple[ComputationGraph, list[int]]:
    """Read a model as `read_onnx` does: a node for each operator that depends on an input; and list its views."""
    try:
        scope, way, by_values = typed_scope(path, dims)
    except OpenDimensionsError as error:  # sizes are proposed with which the model is read
        tried = ((sizes, {**dims, **sizes}) for sizes in proposals(error.missing))
        fitting = (sizes for sizes, all_sizes in tried if not is_refused(build, path, all_sizes, device, "roofline"))
        raise InputError(error.words(next(fitting, None))) from None
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
        if by_values:
            attributes["sizes_by_values"] = [name for name in scope.types if name in by_values]
        graph = _assemble(scope, work, name=Path(path).stem, source=source, attributes=attributes)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except OverflowError:
        raise InputError(f"{path}: the sizes are too large to count; the model may be damaged.") from None
    return graph, [v for v, live in enumerate(scope.live) if is_view(live.node.op_type, live.node.domain)]


def typed_scope(path: str | Path, dims: Mapping[str, int]) -> tuple[Scope, str, frozenset[str]]:
    """Nodes of a model that run, with shapes; source of the shapes (see `infer_shapes`); tensors of `open_shapes`.

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
    return scope, way, open_shapes(model, scope) if way == "run" else frozenset()


def _assemble(
    scope: Scope, work: list[float], *, name: str, source: str, attributes: dict[str, object]
) -> ComputationGraph:
    """Build the graph: a node for each operator that runs, the tensors it reads, and its weights."""
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
    """The names of the nodes, with the paths of their modules in front where these are known."""
    count = Counter(live.node.name for live in scope.live)

    def name(node: NodeProto) -> str:
        label = node.name if count[node.name] == 1 else ""
        label = label or f"{node.op_type} {', '.join(filter(None, node.output))}"
        path = module_path(node)
        return f"{path}.{label}" if path else label

    return tuple(name(live.node) for live in scope.live)


def _totals(prices: list[Price]) -> dict[str, object]:
    """Attributes of the graph: operations of all nodes, and nodes whose counts are not exact."""
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
    """Seconds of a node, from a profile."""
    name = next(filter(None, live.node.output), "")
    if name not in seconds:
        raise InputError(f"node {live.node.op_type} '{live.node.name or name}' is not in the profile; use roofline.")
    return seconds[name]
