"""Times of a model's operators in onnxruntime: one thread, no optimisation, so that every node is one kernel.

An operator without a kernel is a function of others, which onnxruntime puts in its place without a name. Such operators
are replaced here, by the same functions, before the model is run again: their time is that of all nodes of theirs.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from numpy.typing import NDArray
from onnx import ModelProto, ValueInfoProto

from instances.errors import InputError, extra, one_line
from instances.readers.onnx.model import inputs_of, load_model, set_dims

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
