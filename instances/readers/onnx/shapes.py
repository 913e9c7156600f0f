"""Shapes of all tensors of a model whose inputs have fixed shapes.

ONNX infers most of them. It loses what lies behind a shape that the model computes, so then the symbolic inference
of onnxruntime is asked, and at last the model is run once. Both happen in a process of their own, which may fail,
hang or need too much memory without harm.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import onnx
from onnx import ModelProto, NodeProto, TypeProto

from instances.errors import InputError, one_line
from instances.readers.onnx.live_nodes import Scope
from instances.system.fresh_python import SubprocessError, run_module

__all__ = ["infer_shapes"]

_SECONDS = 120
# A loop in a loop needs one more round.
_ROUNDS = 10


def infer_shapes(model: ModelProto, path: str | Path, dims: Mapping[str, int]) -> tuple[Scope, str]:
    """The graph with the shape of every tensor that matters, and how they were found: "inference", "symbolic" or "run".

    The model has no weights, and its input shapes are fixed; `path` is where it comes from, for messages and for its
    weights. The dimensions are as for `set_dims`.

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
    """Loops at any depth, with their bodies and what is around them."""
    for live in scope.live:
        for body in live.bodies:
            if live.node.op_type == "Loop":
                yield live.node, body, scope
            yield from _loops(body)


def _settle_loop(node: NodeProto, body: Scope, scope: Scope) -> bool:
    """Give the state of a loop the shape that it begins with, and its outputs the shape that it keeps.

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
