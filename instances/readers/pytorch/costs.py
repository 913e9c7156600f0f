"""Costs of the operators of an exported program: flops by torch's own counter, and the bytes that they move."""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import flop_registry

from instances.readers.pytorch.dataflow import Dataflow, bytes_of, tensors_of

__all__ = ["bytes_moved", "flops_of", "is_unknown"]

_aten = torch.ops.aten
#: Operators that take some entries of their first argument.
_TAKING = (_aten.embedding, _aten.index, _aten.index_select, _aten.gather)
#: Core ATen operators whose time is more than that of moving their bytes.
_NOT_COUNTED = (_aten._cdist_forward, _aten._pdist_forward, _aten._fft_r2c, _aten._fft_c2c, _aten._fft_c2r)
_COUNTED_BY_BYTES = {torch.Tag.core, torch.Tag.pointwise, torch.Tag.reduction}


def flops_of(node: Node, module: GraphModule) -> int:
    """Floating-point operations of an operator, which is a call of `module`.

    An operator of control flow counts as its most expensive body, once.
    """
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        bodies = [
            module.get_submodule(str(source.target)) for source in node.all_input_nodes if source.op == "get_attr"
        ]
        return max((_total(body) for body in bodies if isinstance(body, GraphModule)), default=0)
    count = flop_registry.get(_packet(node))
    if count is None:
        return 0
    args, kwargs = tree_map_only(Node, lambda source: source.meta["val"], (node.args, node.kwargs))
    return int(count(*args, **kwargs, out_val=node.meta["val"]))


def bytes_moved(node: Node, flow: Dataflow) -> int:
    """Bytes that an operator reads and writes; of a table of which it takes some rows, it reads what it writes."""
    written = sum(bytes_of(tensor, node) for tensor in tensors_of(node.meta["val"]))
    read = dict(flow.inputs(node))
    if _packet(node) in _TAKING and node.args[0] in read:
        read[node.args[0]] = min(read[node.args[0]], written)
    return written + sum(read.values())


def is_unknown(node: Node) -> bool:
    """Whether an operator may take longer than its flops and bytes say."""
    if _packet(node) in flop_registry or node.target is torch.ops.higher_order.cond:
        return False
    if not isinstance(node.target, torch._ops.OpOverload):
        return True
    return _packet(node) in _NOT_COUNTED or not (_COUNTED_BY_BYTES & set(node.target.tags))


def _total(module: GraphModule) -> int:
    return sum(flops_of(node, module) for node in module.graph.nodes if node.op == "call_function")


def _packet(node: Node) -> object:
    return getattr(node.target, "overloadpacket", node.target)
