"""Times of a model's operators in onnxruntime: one thread, no optimisation, so that every node is one kernel."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ValueInfoProto

from instances.errors import InputError, extra, one_line
from instances.readers.onnx.model import inputs_of, load_model, set_dims

_RUNS = 10
_PREFIX = "node of "
_SUFFIX = "_kernel_time"


def measure(path: str | Path, dims: Mapping[str, int]) -> dict[str, float]:
    """Least seconds of each node of a model with its weights over some runs, by the name of the node's first output.

    Raises
    ------
    InputError
        If onnxruntime is not installed or does not run the model.
    """
    try:
        import onnxruntime
    except ImportError:
        raise InputError(f"measuring needs onnxruntime; install the extra: {extra('onnx')}.") from None
    model = load_model(path)
    set_dims(model, dims, path)
    for node in model.graph.node:
        node.name = _PREFIX + next(filter(None, node.output), "")
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
    """A random array for an input; zeros if it is of whole numbers, as an index must exist."""
    kind = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    shape = [dim.dim_value for dim in kind.shape.dim]
    return rng.standard_normal(shape).astype(dtype) if np.issubdtype(dtype, np.floating) else np.zeros(shape, dtype)


def _least_times(profile: list[dict[str, Any]]) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for event in profile:
        name = event.get("name", "")
        if event.get("cat") == "Node" and name.startswith(_PREFIX) and name.endswith(_SUFFIX):
            output = name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
            seconds[output] = min(seconds.get(output, np.inf), event["dur"] * 1e-6)
    return seconds
