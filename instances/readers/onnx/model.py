"""ONNX models as files: types, nodes, tensors and weights beside them, and measured times of their operators.

Times are those of onnxruntime in one thread without optimisation, so that every node is one kernel. An operator without
a kernel is a function of others, which onnxruntime puts in its place without a name. Such operators are replaced here,
by the same functions, before the model is run again: their time is that of all nodes of theirs.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from numpy.typing import NDArray
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from instances.errors import InputError, extra, nearest, one_line, said
from instances.json_files import check_readable

# Suggestions for dimensions without a value, by their names.


#: Parts of names of dimensions, and a usual value; others are 1.
_USUAL = {"seq": 128, "len": 128, "token": 128, "height": 224, "width": 224, "sample": 16000, "frame": 100}
_SHOWN = 20
#: In place of 1, where a model does not take that, as one whose convolutions need more.
_LARGER = (512, 256, 64, 4096)
#: Proposals that are tried; each may run the model.
_TRIED = 16


class OpenDimensionsError(InputError):
    """Dimensions of inputs have no value; `missing` maps each to the first input that has it."""

    def __init__(self, missing: Mapping[str, str], path: str | Path, names: Iterable[str]) -> None:
        self.missing, self.path, self.names = missing, path, tuple(names)
        super().__init__(self.words(next(proposals(missing))))

    def __reduce__(self) -> tuple[type[OpenDimensionsError], tuple[Mapping[str, str], str | Path, tuple[str, ...]]]:
        return OpenDimensionsError, (self.missing, self.path, self.names)

    def words(self, sizes: Mapping[str, int] | None) -> str:
        """The error message with these sizes as an example; without an example if no sizes are known to work."""
        return f"{self.path}: {no_value(self.missing, sizes)} (the model has {', '.join(self.names)})."


def proposals(missing: Iterable[str]) -> Iterator[dict[str, int]]:
    """Sizes to try for dimensions: the usual ones first, then larger ones for all that are 1, and for each alone."""
    usual = {name: _usual(name) for name in missing}
    free = [name for name in usual if not _is_one(name)]
    changes = [[name for name in free if usual[name] == 1], *([name] for name in free)]
    larger = ({**usual, **dict.fromkeys(names, size)} for size in _LARGER for names in changes)
    tried: list[dict[str, int]] = []
    for sizes in islice((usual, *larger), _TRIED):
        if sizes not in tried:
            tried.append(sizes)
            yield sizes


def no_value(missing: Mapping[str, str], sizes: Mapping[str, int] | None) -> str:
    """Error message for dimensions without a value, from the first input of each dimension and example values.

    Examples
    --------
    >>> no_value({"batch": "x"}, {"batch": 1})
    "dimension 'batch' of input 'x' has no value; give for example dims='batch=1'"
    >>> no_value({"batch": "x", "seq_len": "x"}, {"batch": 1, "seq_len": 128})
    "dimensions 'batch', 'seq_len' have no value; give for example dims='batch=1' dims='seq_len=128'"
    """
    names = list(missing)[:_SHOWN]
    example = " ".join(said("dims", f"{name}={(sizes or {}).get(name, 'N')}") for name in names)
    example += "" if sizes else ", with sizes that the model takes, as none of the usual ones fit"
    if len(missing) == 1:
        return f"dimension '{names[0]}' of input '{missing[names[0]]}' has no value; give for example {example}"
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    listed = ", ".join(f"'{name}'" for name in names) + more
    return f"dimensions {listed} have no value; give for example {example}"


def _usual(name: str) -> int:
    lower = name.lower()
    return 1 if _is_one(lower) else next((value for part, value in _USUAL.items() if part in lower), 1)


def _is_one(name: str) -> bool:
    """Whether a dimension of this name usually is 1, such as a batch or the length of the past."""
    lower = name.lower()
    return "past" in lower or "batch" in lower or lower.endswith(":0")


# ONNX models as files: parsed without weights in other files, checked, and with a number for every input dimension.


# Larger constants are neither shapes nor axes.
_SMALL = 1024
_LARGEST_DIM = 2**31 - 1
# Limits on functions expanded where they are called: nodes, and bytes with all constants in them.
_MOST_INLINED = (2_000_000, 2**28)
_Key = tuple[str, str]  # domain and name of an operator
_DATA_FIELDS = (
    "raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "external_data",
    "data_location",
)  # fmt: skip


def load_model(path: str | Path) -> ModelProto:
    """Parse a model; weights in other files stay there, and functions of the model are inlined.

    Raises
    ------
    InputError
        If there is no such file, or it is not a model whose nodes are in topological order.
    """
    check_readable(path)
    try:
        model = onnx.load_model(str(path), format="protobuf", load_external_data=False)
        if model.functions:
            _check_functions(model, path)
            model = onnx.inliner.inline_local_functions(model)
    except InputError:
        raise
    except Exception as error:  # protobuf has several, and onnx hands on what C++ throws
        raise InputError(f"{path}: not an ONNX model, or cut short ({one_line(error, 100)}).") from None
    if not model.graph.node:
        raise InputError(f"{path}: the model has no node; give an ONNX model (ModelProto).")
    if not all(isinstance(text, str) for graph in all_graphs(model.graph) for text in _texts(graph)):
        raise InputError(f"{path}: a name in the model is not UTF-8; the file may be damaged.")
    _check_names(model.graph, set(), path)
    for graph in all_graphs(model.graph):
        _unify_constants(graph)
    return model


def _check_functions(model: ModelProto, path: str | Path) -> None:
    """Refuse functions that call themselves, and those that become too large when inlined."""
    bodies: dict[_Key, GraphProto] = {}
    for function in model.functions:  # all of one name together, whichever it stands for
        bodies.setdefault(_key(function, function.name), GraphProto()).node.extend(function.node)
    calls = {key: _calls(body) for key, body in bodies.items()}
    try:
        order = list(TopologicalSorter({key: calls[key].keys() & bodies.keys() for key in bodies}).static_order())
    except CycleError:
        raise InputError(f"{path}: a function of the model calls itself; export the model without functions.") from None
    sizes: dict[_Key, tuple[int, ...]] = {}
    for key in order:
        base = (0, bodies[key].ByteSize())
        sizes[key] = tuple(
            min(size, limit + 1) for size, limit in zip(_inlined(calls[key], sizes, base), _MOST_INLINED, strict=True)
        )
    total = _inlined(_calls(model.graph), sizes, (0, 0))
    if any(size > limit for size, limit in zip(total, _MOST_INLINED, strict=True)):
        raise InputError(
            f"{path}: its functions become more than {_MOST_INLINED[0]} nodes, or {_MOST_INLINED[1]} bytes, where they "
            "are called; export the model without functions."
        )


def _calls(graph: GraphProto) -> Counter[_Key]:
    """Number of nodes of each operator type in a graph and its bodies."""
    return Counter(_key(node, node.op_type) for part in all_graphs(graph) for node in part.node)


def _key(item: NodeProto | FunctionProto, name: str) -> _Key:
    return "" if item.domain == "ai.onnx" else item.domain, name


def _inlined(calls: Counter[_Key], sizes: Mapping[_Key, tuple[int, ...]], base: tuple[int, int]) -> tuple[int, int]:
    """Nodes and bytes of a graph when all functions that it calls are inlined.

    `base` is what the graph has itself; `sizes` has both numbers for each function, other operators are one node.
    """
    called = [(count, sizes.get(key, (1, 0))) for key, count in calls.items()]
    return base[0] + sum(count * size[0] for count, size in called), base[1] + sum(
        count * size[1] for count, size in called
    )


def subgraphs(node: NodeProto) -> list[GraphProto]:
    """Bodies of a control-flow node."""
    fields = node.attribute
    return [body for field in fields for body in ((field.g,) if field.HasField("g") else field.graphs)]


def all_graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and the bodies in it, at any depth."""
    yield graph
    for node in graph.node:
        for body in subgraphs(node):
            yield from all_graphs(body)


def inputs_of(graph: GraphProto) -> list[ValueInfoProto]:
    """Inputs that are not initializers; up to IR version 3 initializers are listed among the inputs."""
    initializers = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in initializers]


def captured(node: NodeProto) -> list[str]:
    """Names of outer tensors that the bodies of a control-flow node read."""
    names: dict[str, None] = {}
    for graph in subgraphs(node):
        inside = _initial_names(graph)
        for inner in graph.node:
            names |= dict.fromkeys(name for name in (*inner.input, *captured(inner)) if name and name not in inside)
            inside.update(inner.output)
        names |= dict.fromkeys(value.name for value in graph.output if value.name not in inside)
    return list(names)


def drop_weights(model: ModelProto) -> None:
    """Remove the values of all large constants, in place, so that the model is small enough to be copied."""
    for graph in all_graphs(model.graph):
        constants = (node for node in graph.node if node.op_type == "Constant")
        values = [attribute.t for node in constants for attribute in node.attribute if attribute.HasField("t")]
        for tensor in (*graph.initializer, *values):
            if _is_heavy(tensor):
                for field in _DATA_FIELDS:
                    tensor.ClearField(field)


def whole_numbers(graph: GraphProto) -> dict[str, NDArray[np.int64]]:
    """Small constants of 64-bit integers that are stored in the file itself, by name."""
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                tensors |= dict.fromkeys(node.output, attribute.t)
    values = {}
    for name, tensor in tensors.items():
        if tensor.data_type == TensorProto.INT64 and not _is_heavy(tensor):
            with suppress(ValueError):  # fewer values than the shape asks for
                values[name] = onnx.numpy_helper.to_array(tensor)
    return values


def set_dims(model: ModelProto, dims: Mapping[str, int], path: str | Path) -> None:
    """Give every dimension of the inputs a value, in place.

    Parameters
    ----------
    model : ModelProto
        Model whose input shapes are changed.
    dims : mapping of str to int
        By their names in the model, or as `INPUT:AXIS` where they have none. "batch" also stands for the first
        dimension of the inputs where that is a number; constant targets of Reshape follow it.
    path : str or path
        For messages.

    Raises
    ------
    InputError
        If a dimension is unknown, or is not a positive number.
    OpenDimensionsError
        If a dimension has no value.
    """
    inputs = inputs_of(model.graph)
    places = _places(inputs)
    for name, size in dims.items():
        if name not in places:
            end = nearest(places, name, f"it has {', '.join(places) or 'none'}")
            raise InputError(f"{path}: there is no dimension '{name}'{end}")
        if not 1 <= size <= _LARGEST_DIM:
            raise InputError(f"{path}: dimension {name} is {size}; give a whole number from 1 to {_LARGEST_DIM}.")
    old = {name: places[name][0].dim_value for name in dims if places[name][0].HasField("dim_value")}
    for name, size in dims.items():
        for dim in places[name]:
            dim.dim_value = size
    _require_shapes(inputs, places, path)
    for graph in all_graphs(model.graph):
        if old:  # shapes further on may hold the old number
            graph.ClearField("value_info")
        for value in (*graph.value_info, *graph.output):
            kind = value.type.tensor_type
            if old and value.type.HasField("tensor_type"):
                kind.ClearField("shape")
            for dim in kind.shape.dim if kind.HasField("shape") else ():
                if dim.dim_param in dims:
                    dim.dim_value = dims[dim.dim_param]
    if old.get("batch", dims.get("batch")) != dims.get("batch"):
        _follow_batch(model.graph, old["batch"], dims["batch"])


def _places(inputs: list[ValueInfoProto]) -> dict[str, list[TensorProto]]:
    """The protobuf entries of each named dimension, which may occur several times."""
    places: dict[str, list[TensorProto]] = {}
    first: list[TensorProto] = []
    for value in inputs:
        shape = value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ()
        for axis, dim in enumerate(shape):
            places.setdefault(dim.dim_param or f"{value.name}:{axis}", []).append(dim)
        first += [dim for dim in shape[:1] if dim.dim_value > 0]
    if first and "batch" not in places:
        places["batch"] = [dim for dim in first if dim.dim_value == first[0].dim_value]
    return places


def _require_shapes(inputs: list[ValueInfoProto], places: Mapping[str, object], path: str | Path) -> None:
    missing: dict[str, str] = {}
    for value in inputs:
        if not value.type.HasField("tensor_type"):
            raise InputError(f"{path}: input '{value.name}' is no tensor; only tensors have a size.")
        if not value.type.tensor_type.HasField("shape"):
            raise InputError(f"{path}: input '{value.name}' has no shape; export the model with one.")
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") or dim.dim_value < 0:
                missing.setdefault(dim.dim_param or f"{value.name}:{axis}", value.name)
    if missing:
        raise OpenDimensionsError(missing, path, places)


def _follow_batch(graph: GraphProto, old: int, new: int) -> None:
    """Let Reshape targets that begin with the old batch begin with the new one."""
    numbers = whole_numbers(graph)
    for i, node in enumerate(graph.node):
        if node.op_type == "Reshape" and len(node.input) == 2 and node.input[0] not in numbers:
            target = numbers.get(node.input[1])
            if target is not None and target.ndim == 1 and target[:1] == old:
                followed = f"{node.input[1]}, batch {new}, of node {i}"  # other nodes may read the target too
                target = np.concatenate(([new], target[1:]))
                graph.initializer.append(onnx.numpy_helper.from_array(target, followed))
                node.input[1] = followed


def _unify_constants(graph: GraphProto) -> None:
    """Give every Constant its value as a tensor, as onnxruntime's shape inference fails at other forms."""
    kinds = {"value_int": "i", "value_ints": "ints", "value_float": "f", "value_floats": "floats"}
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name in kinds:
                dtype = np.int64 if "int" in attribute.name else np.float32
                values = np.array(getattr(attribute, kinds[attribute.name]), dtype=dtype)
                attribute.CopyFrom(onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(values)))


def _is_heavy(tensor: TensorProto) -> bool:
    return math.prod(tensor.dims) > _SMALL or tensor.data_location == TensorProto.EXTERNAL


def _initial_names(graph: GraphProto) -> set[str]:
    """Names that exist before the first node of a graph runs: inputs and initializers."""
    sparse = {tensor.values.name for tensor in graph.sparse_initializer}
    return {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer} | sparse


def _texts(graph: GraphProto) -> Iterator[str | bytes]:
    """All names in a graph, as protobuf gives them: bytes where they are not UTF-8."""
    values = (*graph.input, *graph.output, *graph.value_info)
    yield from (item.name for item in (*values, *graph.initializer))
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    yield from (dim.dim_param for value in values for dim in value.type.tensor_type.shape.dim)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def _check_names(graph: GraphProto, outer: set[str], path: str | Path) -> None:
    """Refuse a graph in which a name is produced twice, or read before it is produced."""
    produced = outer | _initial_names(graph)
    for node in graph.node:
        place = f"{path}: node {node.op_type} '{node.name or ', '.join(node.output)}'"
        for name in node.input:
            if name and name not in produced:
                raise InputError(
                    f"{place} reads '{name}', which nothing before it produces; nodes must be in topological order."
                )
        for body in subgraphs(node):
            _check_names(body, produced, path)
        for name in node.output:
            if name and name in produced:
                raise InputError(f"{place} produces '{name}', which is there already; names must be unique.")
            produced.add(name)
    for value in graph.output:
        if value.name not in produced:
            raise InputError(f"{path}: output '{value.name}' is produced by no node.")


_RUNS = 10
_PREFIX = "node of "
_SUFFIX = "_kernel_time"


def measure(path: str | Path, dims: Mapping[str, int]) -> dict[str, float]:
    """Shortest measured time of each node over several runs [s], by the name of the node's first output.

    Raises
    ------
    InputError
        If onnxruntime is not installed or does not run the model.
    """
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        raise InputError(f"measuring needs onnxruntime; install the extra: {extra('onnx')}") from None
    model = load_model(path)
    set_dims(model, dims, path)
    typed = {value.name for value in (*model.graph.input, *model.graph.value_info)}
    for weight in model.graph.initializer:  # functions may depend on the types of what they read
        if weight.name not in typed:
            model.graph.value_info.append(
                onnx.helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims)
            )
    home = {name: next(filter(None, node.output)) for node in model.graph.node for name in node.output if name}
    times = _profile(model, path)
    while functions := _functions(model, times):
        try:
            model = onnx.inliner.inline_selected_functions(model, functions, inline_schema_functions=True)
        except RuntimeError as error:
            names = ", ".join(name for _, name in functions)
            raise InputError(f"{names} cannot be measured ({one_line(error, 200)}); use roofline.") from None
        times = _profile(model, path)
    seconds: dict[str, float] = {}
    for number, operator in enumerate(_operators(model, home)):
        if number in times:
            seconds[operator] = seconds.get(operator, 0.0) + times[number]
    return seconds


def _functions(model: ModelProto, times: Mapping[int, float]) -> list[tuple[str, str]]:
    """Operators (domain, name) without a time that ONNX defines by other operators, which can be timed."""
    opsets = {opset.domain: opset.version for opset in model.opset_import}
    functions = dict[tuple[str, str], None]()
    for number, node in enumerate(model.graph.node):
        if number not in times and onnx.defs.has(node.op_type, node.domain):
            schema: Any = onnx.defs.get_schema(node.op_type, opsets.get(node.domain, 1), node.domain)
            if schema.has_function or schema.has_context_dependent_function:
                functions[node.domain, node.op_type] = None
    return list(functions)


def _operators(model: ModelProto, home: Mapping[str, str]) -> list[str]:
    """For each node of an optimised model, the first output of its original operator; "" if unknown.

    `home` maps outputs of operators to the first output; nodes within an expanded function get that of their reader.
    """
    operators, readers = list[str](), dict[str, str]()
    for node in reversed(model.graph.node):
        operators.append(next((home.get(name) or readers.get(name, "") for name in node.output if name), ""))
        readers |= dict.fromkeys(node.input, operators[-1])  # within a function there are those of one operator alone
    return operators[::-1]


def _profile(model: ModelProto, path: str | Path) -> dict[int, float]:
    """Shortest time of each node by its index [s]; nodes without a kernel are missing. Nodes are renamed in place."""
    import onnxruntime

    for number, node in enumerate(model.graph.node):
        node.name = f"{_PREFIX}{number}"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_profiling = True
    options.log_severity_level = 4
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(Path(path).resolve().parent)
    )
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = str(Path(folder, "profile"))
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            rng = np.random.default_rng(0)
            feeds = {value.name: _example(value, rng) for value in inputs_of(model.graph)}
            for _ in range(_RUNS + 1):
                session.run(None, feeds)
            profile = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        except Exception as error:  # onnxruntime has no base class of its errors
            raise InputError(f"onnxruntime does not run the model ({one_line(error, 200)}).") from None
    return _least_times(profile)


def _example(value: ValueInfoProto, rng: np.random.Generator) -> NDArray[Any]:
    """A random array for an input; zeros for integers, as these may be indices."""
    kind = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    shape = [dim.dim_value for dim in kind.shape.dim]
    return rng.standard_normal(shape).astype(dtype) if np.issubdtype(dtype, np.floating) else np.zeros(shape, dtype)


def _least_times(profile: list[dict[str, Any]]) -> dict[int, float]:
    times: dict[int, float] = {}
    for event in profile:
        name = event.get("name", "")
        if event.get("cat") == "Node" and name.startswith(_PREFIX) and name.endswith(_SUFFIX):
            number = int(name.removeprefix(_PREFIX).removesuffix(_SUFFIX))
            times[number] = min(times.get(number, np.inf), event["dur"] * 1e-6)
    return times
