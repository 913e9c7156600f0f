"""Stages of a partition as PyTorch modules, or as stages of `torch.distributed.pipelining`.

Both put the calls of the program in the partition's order, block after block. A view of a tensor that crosses a cut is
made again in each block that reads it, so that what is sent is the tensor itself, once; a slice stays with the operator
that produced the whole, and the slice is sent. This is what the cost of a partition counts.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.split_module import split_module

from instances.errors import InputError
from instances.partitioning.partition import Partition
from instances.readers.pytorch.dataflow import Dataflow, label
from instances.readers.pytorch.export import decompose

_INPUTS = ("placeholder", "get_attr")


def arrange(program: ExportedProgram, partition: Partition) -> tuple[GraphModule, dict[Node, int]]:
    """The module of a program, its calls in the order of a partition.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        Program from which the graph of the partition was made.
    partition : Partition
        Partition of the graph of the program.

    Returns
    -------
    block : dict of Node to int
        Block of each call, never falling in the order of the graph; ``block.__getitem__`` is the callback that
        `torch.fx.passes.split_module.split_module` takes.

    Raises
    ------
    InputError
        If the graph of the partition was made from another program.
    """
    program = decompose(program)
    flow = Dataflow(program)
    names = partition.instance.graph.names
    if names != tuple(label(node) for node in flow.operators):
        raise InputError(
            f"The partition is of a graph of {len(names)} nodes, and not of this program, of {len(flow.operators)} "
            "operators; make the graph from the program by torch_export.from_exported_program."
        )
    with warnings.catch_warnings(action="ignore"):
        module = program.module(check_guards=False)
    arranged = _Arrangement(module, _calls_of(module, program, flow), partition)
    return GraphModule(module, arranged.graph), arranged.block


def split(program: ExportedProgram, partition: Partition) -> GraphModule:
    """Split a program into one module per block that is not empty; parameters and errors are those of `arrange`.

    The module returned calls ``submod_<block>`` in order; each holds the parameters that it uses.
    """
    module, block = arrange(program, partition)
    whole = split_module(module, None, block.__getitem__, keep_original_order=True)
    for call in whole.graph.nodes:
        if call.op == "call_module":
            _own_weights(whole, call)
    whole.graph.eliminate_dead_code()
    whole.delete_all_unused_submodules()
    whole.recompile()
    return whole


def split_policy(block: dict[Node, int]) -> Callable[[GraphModule], GraphModule]:
    """Policy with which `torch.distributed.pipelining.pipeline` cuts an arranged module.

    Parameters
    ----------
    block : dict of Node to int
        As `arrange` returns it, with the module for `pipeline`.

    Returns
    -------
    callable
        Argument ``split_policy`` of `pipeline`. It raises an `InputError` if the traced module is another one than the
        arranged module.

    Examples
    --------
    >>> module, block = arrange(program, partition)  # doctest: +SKIP
    >>> pipe = pipeline(module, mb_args, split_policy=split_policy(block))  # doctest: +SKIP
    """
    # The public pipe_split() is replaced by this operator while tracing; in a traced graph only the operator splits.
    from torch.distributed.pipelining._IR import aten_pipe_split_alias

    def policy(traced: GraphModule) -> GraphModule:
        # Tracing again takes all items of a tuple, also those that nobody reads.
        calls = [node for node in traced.graph.nodes if node.op == "call_function" and not _is_item(node)]
        blocks = {node: number for node, number in block.items() if not _is_item(node)}
        if [node.target for node in calls] != [node.target for node in blocks]:
            raise InputError(
                "The pipeline has traced another module than the arranged one; give it the one of arrange()."
            )
        before = None
        for node, number in zip(calls, blocks.values(), strict=True):
            if before is not None and number != before:
                with traced.graph.inserting_before(node):
                    cut = traced.graph.call_function(aten_pipe_split_alias)
                    cut.meta["nn_module_stack"] = node.meta.get("nn_module_stack", {})
            before = number
        traced.recompile()
        return traced

    return policy


def _is_item(node: Node) -> bool:
    return node.target is operator.getitem


def _own_weights(whole: GraphModule, call: Node) -> None:
    """Move the weights that a block takes as arguments into the block."""
    block = whole.get_submodule(str(call.target))
    placeholders = [node for node in block.graph.nodes if node.op == "placeholder"]
    for source, placeholder in zip(call.args, placeholders, strict=True):
        if source.op == "get_attr":
            owner, _, attribute = source.target.rpartition(".")
            weight = getattr(whole.get_submodule(owner), attribute)
            if isinstance(weight, torch.nn.Parameter):
                block.register_parameter(placeholder.name, weight)
            else:
                block.register_buffer(placeholder.name, weight)
            with block.graph.inserting_before(placeholder):
                placeholder.replace_all_uses_with(block.graph.get_attr(placeholder.name))
            block.graph.erase_node(placeholder)
    call.args = tuple(source for source in call.args if source.op != "get_attr")
    block.recompile()


def _calls_of(module: GraphModule, program: ExportedProgram, flow: Dataflow) -> dict[Node, int]:
    """Map the calls of the module to the numbers of their operators; refuse a program that differs from it."""
    calls, original = (
        [node for node in graph.nodes if node.op == "call_function"] for graph in (module.graph, program.graph)
    )
    signature = program.graph_signature
    changed = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if changed or [node.target for node in calls] != [node.target for node in original]:
        which = f" ({', '.join(changed[:3])}{', …' if len(changed) > 3 else ''})" if changed else ""
        raise InputError(
            f"The program changes its buffers or inputs{which}; export it in the mode for inference, module.eval(), or "
            "without what changes them. mtpp.partition takes it as it is."
        )
    return {call: flow.home[node] for call, node in zip(calls, original, strict=True) if node in flow.home}


class _Arrangement:
    """A new graph with the calls of a module, block after block."""

    def __init__(self, module: GraphModule, home: dict[Node, int], partition: Partition) -> None:
        self.graph = Graph()
        self.block: dict[Node, int] = {}
        self._home = home
        self._blocks = partition.block.tolist()
        self._copies: dict[tuple[Node, int | None], Node] = {}
        position = np.argsort(partition.order).tolist()
        output = next(node for node in module.graph.nodes if node.op == "output")
        calls = []
        for node in module.graph.nodes:
            if node.op in _INPUTS:
                self._copies[node, None] = self.graph.node_copy(node)
            elif node in home or (node in output.all_input_nodes and self._root(node) is not None):
                calls.append(node)
        calls.sort(key=lambda node: (self._where(node), position[home[self._root(node)]]))  # parts follow their whole
        for node in calls:
            self._copy(node, self._where(node))
        self.graph.node_copy(output, self._returned)
        self.graph.lint()

    def _root(self, node: Node) -> Node | None:
        """The call whose result a view shows; None for a view of an input or a parameter."""
        while node not in self._home and node.op not in _INPUTS:
            node = node.args[0]
        return node if node in self._home else None

    def _where(self, node: Node) -> int:
        """Block in which a node is computed; the last block for nodes that depend on no operator."""
        root = self._root(node)
        return max(self._blocks) if root is None else self._blocks[self._home[root]]

    def _in(self, node: Node, block: int) -> Node:
        """The node in a block's graph with the value of `node`: an input, an output of a call, or a view."""
        if node.op in _INPUTS:
            return self._copies[node, None]
        if node in self._home:
            return self._copies[node, self._where(node)]
        return self._copy(node, block)

    def _returned(self, node: Node) -> Node:
        """The new node of an output; an output that is a weight comes from the last block."""
        block = self._where(node)
        returned = self._in(node, block)
        if node.op == "get_attr":
            returned = self.graph.call_function(torch.ops.aten.alias.default, (returned,))
            self.block[returned] = block
        return returned

    def _copy(self, node: Node, block: int) -> Node:
        copy = self._copies.get((node, block))
        if copy is None:
            copy = self.graph.node_copy(node, lambda source: self._in(source, block))
            self._copies[node, block], self.block[copy] = copy, block
        return copy
