"""Tensors whose shapes depend on values: stages need fixed shapes, and those of one run do not hold for the next."""

from __future__ import annotations

import onnx
from onnx import ModelProto

from instances.readers.onnx.live_nodes import LiveNode, Scope, type_of

__all__ = ["open_shapes"]

# Operators that give as much as they find, and those whose result has the size that operands behind the first one say.
_FINDING = ("Compress", "NonMaxSuppression", "NonZero", "Range", "ConstantOfShape", "Unique", "If", "Loop")
_SIZED = ("Expand", "OneHot", "Pad", "Reshape", "Resize", "Slice", "Tile", "TopK", "Upsample")


def open_shapes(model: ModelProto, scope: Scope) -> frozenset[str]:
    """Find the tensors whose shape depends on the values of the inputs.

    Parameters
    ----------
    model : ModelProto
        With fixed dimensions of its inputs.
    scope : Scope
        Its nodes.

    Returns
    -------
    frozenset of str
        What lies behind an operator whose result has the size that values say, and whose shape inference does not know.
    """
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    typed = {value.name for value in (*inferred.value_info, *inferred.output) if type_of(value) is not None}
    open_names: set[str] = set()
    for live in scope.live:
        if _is_open(live) or not open_names.isdisjoint(live.reads):
            open_names.update(name for name in live.node.output if name not in typed)
    return frozenset(open_names)


def _is_open(live: LiveNode) -> bool:
    kind = live.node.op_type
    return kind in _FINDING or (kind in _SIZED and not set(live.reads).isdisjoint(live.node.input[1:]))
