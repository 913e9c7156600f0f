"""Process that infers the shapes of a model by methods that may crash.

Its arguments are the way ("symbolic" or "run"), a file of the model without weights, the file to write, the file of the
model itself, and dimensions as JSON. It writes the model with more types of tensors, or ends with an error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

from instances.readers.onnx.model import all_graphs, inputs_of, load_model, set_dims, subgraphs
from instances.readers.onnx.operators import type_of
from instances.system.processes import limit_process

# Memory limit of a process: this [bytes], and some copies of the weights.
_MEMORY = 2**31
_COPIES = 4


def infer_symbolically(model: ModelProto) -> ModelProto:
    """The types of tensors by symbolic shape inference of onnxruntime."""
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    stripped = ModelProto()
    stripped.CopyFrom(model)
    del stripped.graph.initializer[:]
    listed = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:  # it wants to read them all; an input has no value to read
        if _has_values(tensor):
            stripped.graph.initializer.append(tensor)
        elif tensor.name not in listed:
            value = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            stripped.graph.input.append(value)
    # As its function infer_shapes, which writes a file where it does not find all.
    inference = SymbolicShapeInference(int_max=2**31 - 1, auto_merge=False, guess_output_rank=False, verbose=0)
    inference._preprocess(stripped)
    while inference.run_:
        inference._infer_impl()
    inference._update_output_from_vi()
    model.graph.ClearField("value_info")
    model.graph.value_info.extend(inference.out_mp_.graph.value_info)
    for output, inferred in zip(model.graph.output, inference.out_mp_.graph.output, strict=True):
        output.CopyFrom(inferred)
    return model


def _has_values(tensor: TensorProto) -> bool:
    try:
        return onnx.numpy_helper.to_array(tensor).size > 0
    except ValueError:  # dropped
        return False


def run_once(model: ModelProto, weights: Path, dims: Mapping[str, int]) -> ModelProto:
    """Add the types of tensors as seen in a run of the model whose inputs are all ones."""
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    typed = {value.name for value in values if type_of(value) is not None}
    wanted = [name for node in model.graph.node for name in node.output if name and name not in typed]
    full = load_model(weights)
    set_dims(full, dims, weights)
    onnx.external_data_helper.load_external_data_for_model(full, str(weights.parent))
    for graph in all_graphs(full.graph):
        graph.ClearField("value_info")
    model.graph.value_info.extend(_types_of_run(full, wanted))
    _run_branches(model.graph, full)
    return model


def _types_of_run(model: ModelProto, wanted: list[str]) -> list[ValueInfoProto]:
    """Types of the wanted tensors, from a run of the model."""
    if not wanted:  # onnxruntime refuses to give nothing
        return []
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # each thread takes memory
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {value.name: _ones(value) for value in inputs_of(model.graph)}
    return [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip(wanted, session.run(wanted, feeds), strict=True)
    ]


def _run_branches(graph: GraphProto, model: ModelProto) -> None:
    """Add the types in branches of a graph, each run in place of its condition if possible.

    Parameters
    ----------
    graph : GraphProto
        Without weights; the types go into its branches.
    model : ModelProto
        The last nodes of it are those of the graph, with weights.
    """
    first = len(model.graph.node) - len(graph.node)
    for place, operator in enumerate(graph.node, first):
        for number, bare in enumerate(subgraphs(operator) if operator.op_type == "If" else ()):
            until = ModelProto()
            until.CopyFrom(model)
            branch = subgraphs(model.graph.node[place])[number]
            del until.graph.node[place:]
            until.graph.node.extend(branch.node)
            until.graph.initializer.extend(branch.initializer)
            try:
                inferred = _types_of_run(until, [name for node in branch.node for name in node.output if name])
            except Exception:  # onnxruntime has no base class of its errors; such a branch stays open
                continue
            types = {value.name: value for value in inferred}
            for value in (*bare.value_info, *bare.output):
                if value.name in types:
                    value.CopyFrom(types[value.name])
            typed = {value.name for value in bare.value_info}
            bare.value_info.extend(value for name, value in types.items() if name not in typed)
            _run_branches(bare, until)


def _ones(value: ValueInfoProto) -> NDArray[Any]:
    kind = value.type.tensor_type
    shape = [dim.dim_value for dim in kind.shape.dim]
    return np.ones(shape, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))


def _size(weights: Path) -> int:
    """Bytes of a model and of the files that it names."""
    graph = onnx.load_model(str(weights), load_external_data=False).graph
    entries = (entry for tensor in graph.initializer for entry in tensor.external_data if entry.key == "location")
    files = {weights, *(weights.parent / entry.value for entry in entries)}
    return sum(file.stat().st_size for file in files if file.exists())


def main(way: str, question: str, answer: str, weights: str, dims: str) -> None:
    """Infer the types of a model's tensors, by method `way`, and write the model with them to the file `answer`."""
    sys.modules["torch"] = None  # type: ignore[assignment] # onnxruntime's tools load it, for nothing and for seconds
    model = onnx.load(question)
    limit_process(memory=_MEMORY + _COPIES * _size(Path(weights)))
    typed = infer_symbolically(model) if way == "symbolic" else run_once(model, Path(weights), json.loads(dims))
    Path(answer).write_bytes(typed.SerializeToString())


if __name__ == "__main__":
    main(*sys.argv[1:])
