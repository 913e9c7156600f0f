"""Operators of exported PyTorch programs: the tensors that they read and write, and their costs.

Sizes that depend on values, such as tokens of an expert, are given, or measured on one input.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry

from instances.errors import InputError, nearest, word

# Operators of an exported program, and the tensors between them.


#: Comparisons of sizes, which only guard what was exported.
_CHECKS = frozenset({operator.eq, operator.ge, operator.gt, operator.le, operator.lt, operator.ne})


@dataclass(frozen=True, eq=False)
class Weight:
    """A parameter, buffer or constant; tied ones are one weight."""

    name: str  # its first name in the program
    bytes: int
    elements: int  # how many numbers it holds, 0 for what is not trained
    readers: list[int] = field(default_factory=list)  # operators that use it, in the order of the graph


@dataclass(frozen=True, eq=False)
class Output:
    """A tensor that an operator produces, or a part of it that is read separately."""

    producer: int
    bytes: int
    readers: list[int] = field(default_factory=list)


class Dataflow:
    """Operators and tensors of a program in core ATen operators.

    A view of a whole tensor is that tensor; a part of a tensor (a slice, an item of a split) is a tensor of the
    operator that produced the whole. So views are no operators, and a tensor counts once however it is viewed.

    Parameters
    ----------
    program : ExportedProgram
        After decomposition.

    Attributes
    ----------
    operators : list of Node
        Nodes that compute something, in the order of the graph.
    home : dict of Node to int
        Number of the operator in whose block a node lies: operators, and parts of what they produce.
    outputs : list of Output
        Tensors that are read by an operator or returned.
    weights : list of Weight

    Raises
    ------
    InputError
        If a tensor has a dimension without a value.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self.operators: list[Node] = []
        self.home: dict[Node, int] = {}
        weight_of = _weights(program)
        self.weights = list(dict.fromkeys(weight_of.values()))
        # Origin of each node's value: a weight, an output, or None (an input); a list has one for each item.
        self.origin: dict[Node, Any] = {}
        created: list[Output] = []
        returned: set[Any] = set()
        for node in program.graph.nodes:
            value = node.meta.get("val")
            if node.op == "placeholder":
                self.origin[node] = weight_of.get(node.name)
            elif node.op == "output":
                returned = {origin for source in node.all_input_nodes for origin in self.origins(source)}
            elif node.op == "call_function" and value is not None and node.target not in _CHECKS:
                self.origin[node] = self._view(node, value) if _is_view(node) else self._operator(node, value)
                created += [output for output in self.origins(node) if isinstance(output, Output)]
        self.outputs = [output for output in dict.fromkeys(created) if output.readers or output in returned]

    def inputs(self, node: Node) -> Iterator[tuple[Node, int]]:
        """Input nodes of an operator with the bytes read from each; of an expanded tensor only the stored bytes."""
        for source in node.all_input_nodes:
            sizes = [origin.bytes for origin in self.origins(source) if origin is not None]
            size = sum(bytes_of(tensor, source) for tensor in tensors_of(source.meta.get("val")))
            yield source, min(size, sum(sizes)) if sizes else size

    def _operator(self, node: Node, value: Any) -> Any:
        """Record a node as an operator with its inputs; return its outputs."""
        number = len(self.operators)
        self.operators.append(node)
        self.home[node] = number
        for source in node.all_input_nodes:
            for origin in self.origins(source):
                if origin is not None and origin.readers[-1:] != [number]:
                    origin.readers.append(number)
        if isinstance(value, list | tuple):
            return [Output(number, sum(bytes_of(t, node) for t in tensors_of(item))) for item in value]
        return Output(number, sum(bytes_of(tensor, node) for tensor in tensors_of(value)))

    def _view(self, node: Node, value: Any) -> Any:
        """The tensors of which a node is a view, at no cost."""
        base = node.args[0]
        whole = self.origin.get(base) if isinstance(base, Node) else None
        if node.target is operator.getitem:
            if isinstance(whole, list):
                whole = whole[node.args[1]]
            part: Any = whole
        elif isinstance(value, list | tuple):
            part = [self._part(whole, item, node) for item in value]
        else:
            part = self._part(whole, value, node)
        if isinstance(part, list) and any(isinstance(item, Output) for item in part):
            self.home[node] = next(item.producer for item in part if isinstance(item, Output))
        elif isinstance(part, Output) and (node.target is operator.getitem or part is not whole):
            self.home[node] = part.producer
        return part

    def _part(self, whole: Any, value: Any, node: Node) -> Any:
        """The output `whole`, or a smaller output of the same producer where a view has only a part of its bytes."""
        if isinstance(whole, Output) and (size := bytes_of(value, node)) < whole.bytes:
            return Output(whole.producer, size)
        return whole

    def origins(self, node: Node) -> list[Weight | Output | None]:
        """Tensors behind a node: weights, outputs of operators, None for an input of the program."""
        origin = self.origin.get(node)
        return origin if isinstance(origin, list) else [origin]


def bytes_of(tensor: torch.Tensor, node: Node) -> int:
    """Size of the value of a node.

    Raises
    ------
    InputError
        If a dimension has no value.
    """
    for size in tensor.shape:
        if not isinstance(size, int):
            raise InputError(f"{node.name}: dimension '{size}' has no value; export the module with fixed shapes.")
    return math.prod(tensor.shape) * tensor.element_size()


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors in the value of a node."""
    items = value if isinstance(value, list | tuple) else [value]
    return [item for item in items if isinstance(item, torch.Tensor)]


def label(node: Node) -> str:
    """Label of a node: the path of its module, and its own name."""
    paths = _calls(node)
    return f"{paths[-1]}.{node.name}" if paths else str(node.name)


def _calls(node: Node) -> list[str]:
    """Paths of the modules in whose calls a node runs, outermost first, without the root."""
    return [path for path, _ in node.meta.get("nn_module_stack", {}).values() if path]


def calls_elsewhere(flow: Dataflow) -> dict[str, list[str]]:
    """Operators that run in a module called from outside its parent: label to paths of the modules in whose calls."""
    calls = {label(node): _calls(node) for node in flow.operators}
    return {name: chain for name, chain in calls.items() if any(not b.startswith(f"{a}.") for a, b in pairwise(chain))}


def input_readers(flow: Dataflow) -> list[str]:
    """Names of the operators that read an input of the program, or a view of one."""
    inputs = {node for node in flow.origin if None in flow.origins(node) and node not in flow.home}
    return [label(node) for node in flow.operators if not inputs.isdisjoint(node.all_input_nodes)]


def weights_elsewhere(program: ExportedProgram, flow: Dataflow) -> dict[str, str | None]:
    """Weights of modules that contain modules, or of which no operator reads a weight.

    Each comes with the label of its first reader, or None.
    """
    names = [label(node) for node in flow.operators]
    readers = {weight.name: weight.readers for weight in flow.weights}
    holders = {names[v].rpartition(".")[0] for nodes in readers.values() for v in nodes} - {""}
    modules = {name.rpartition(".")[0] for name in program.state_dict}
    around = {above for module in modules for above in accumulate(f"{part}." for part in module.split(".")[:-1])}
    return {
        name: next((names[v] for v in readers.get(name, ())), None)
        for name in program.state_dict
        if (module := name.rpartition(".")[0]) not in holders or f"{module}." in around
    }


def _is_view(node: Node) -> bool:
    """Whether the value of a node shares the memory of its first argument."""
    if node.target is operator.getitem or node.target is torch.ops.aten._unsafe_view.default:
        return True
    returns = getattr(getattr(node.target, "_schema", None), "returns", ())
    return any(result.alias_info is not None and not result.alias_info.is_write for result in returns)


def _weights(program: ExportedProgram) -> dict[str, Weight]:
    """The weight of each graph input that is one; inputs with the same tensor share a weight."""
    weights: dict[int, Weight] = {}
    result = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind not in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            continue
        tensor = program.state_dict.get(spec.target, program.constants.get(spec.target))
        if isinstance(tensor, torch.Tensor):
            elements = tensor.numel() if spec.kind is InputKind.PARAMETER else 0
            weight = Weight(spec.target, tensor.numel() * tensor.element_size(), elements)
            result[spec.arg.name] = weights.setdefault(id(tensor), weight)
    return result


# Costs of the operators of an exported program: flops by torch's own counter, and the bytes that they move.


_aten = torch.ops.aten
#: Operators that take some entries of their first argument.
_TAKING = (_aten.embedding, _aten.index, _aten.index_select, _aten.gather)
#: Core ATen operators whose time is more than that of moving their bytes.
_NOT_COUNTED = (_aten._cdist_forward, _aten._pdist_forward, _aten._fft_r2c, _aten._fft_c2c, _aten._fft_c2r)
_COUNTED_BY_BYTES = {torch.Tag.core, torch.Tag.pointwise, torch.Tag.reduction}


def flops_of(node: Node, module: GraphModule) -> int:
    """Floating-point operations of an operator, a call of `module`.

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
    """Bytes that an operator reads and writes; of a table it reads only the rows that it writes."""
    written = sum(bytes_of(tensor, node) for tensor in tensors_of(node.meta["val"]))
    read = dict(flow.inputs(node))
    if _packet(node) in _TAKING and node.args[0] in read:
        read[node.args[0]] = min(read[node.args[0]], written)
    return written + sum(read.values())


def is_unknown(node: Node) -> bool:
    """Whether an operator may take longer than its operations and bytes suggest."""
    if _packet(node) in flop_registry or node.target is torch.ops.higher_order.cond:
        return False
    if not isinstance(node.target, torch._ops.OpOverload):
        return True
    return _packet(node) in _NOT_COUNTED or not (_COUNTED_BY_BYTES & set(node.target.tags))


def _total(module: GraphModule) -> int:
    """Floating-point operations of all calls in a module."""
    return sum(flops_of(node, module) for node in module.graph.nodes if node.op == "call_function")


def _packet(node: Node) -> object:
    return getattr(node.target, "overloadpacket", node.target)


_SHOWN = 8


def open_sizes(program: ExportedProgram) -> list[str]:
    """Names of the sizes without a value, in the order of the program."""
    names: dict[str, None] = {}
    for node in program.graph.nodes:
        for tensor in _tensors(node):
            for size in tensor.shape:
                if not isinstance(size, int):
                    names |= dict.fromkeys(sorted(map(str, size.node.expr.free_symbols)))
    return list(names)


def fix_sizes(program: ExportedProgram, sizes: Mapping[str, int]) -> None:
    """Give all symbolic sizes of a program their values, in place.

    Raises
    ------
    InputError
        If a size has no value, one is not known, or a shape becomes negative.
    """
    names = open_sizes(program)
    if unknown := [name for name in sizes if name not in names]:
        end = nearest(names, unknown[0], f"it has {_shown(names) or 'none'}")
        raise InputError(f"{word('dims')}: the program has no open size {unknown[0]}{end}")
    if missing := [name for name in names if name not in sizes]:
        raise InputError(
            f"{missing_sizes(missing)}; export the module with fixed shapes or, in Python, give observe=True, to see "
            f"them on example inputs, or each as in dims={{'{missing[0]}': 64}}."
        )
    if names:
        for node in program.graph.nodes:
            if "val" in node.meta:
                node.meta["val"] = tree_map_only(torch.Tensor, lambda tensor: _fixed(tensor, sizes), node.meta["val"])


def missing_sizes(names: Sequence[str]) -> str:
    """The error that names the sizes without a value."""
    count = "1 size has" if len(names) == 1 else f"{len(names)} sizes have"
    return f"{count} no value: {_shown(names)}"


def observed_sizes(program: ExportedProgram, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, int]:
    """The values of a program's symbolic sizes in a run on these inputs.

    Raises
    ------
    InputError
        If the run fails, as without weights.
    """
    constants = {**program.state_dict, **program.constants}
    leaves = iter(tree_leaves((tuple(args), dict(kwargs))))
    inputs = [
        next(leaves) if spec.kind is InputKind.USER_INPUT else constants[str(spec.target)]
        for spec in program.graph_signature.input_specs
    ]
    observer = _Observer(program.graph_module)
    try:
        with torch.no_grad():
            observer.run(*inputs)
    except Exception as error:
        problem = str(error).strip().splitlines()
        raise InputError(
            f"The program cannot be run to see its sizes ({problem[0] if problem else type(error).__name__}); give a "
            f"module with weights, not on the meta device, or each size in {word('dims')}."
        ) from error
    return observer.sizes


class _Observer(Interpreter):
    """Records the value of each symbolic size that is a dimension of a tensor by itself."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.sizes: dict[str, int] = {}

    def run_node(self, n: Node) -> Any:
        """Run a node as usual, and compare its shapes with those that were exported."""
        result = super().run_node(n)
        real = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        for tensor, output in zip(_tensors(n), real, strict=False):
            for size, actual in zip(tensor.shape, output.shape, strict=False):
                if not isinstance(size, int) and size.node.expr.is_Symbol:
                    self.sizes.setdefault(str(size.node.expr), int(actual))
        return result


def _tensors(node: Node) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor)]


def _fixed(tensor: torch.Tensor, sizes: Mapping[str, int]) -> torch.Tensor:
    """An empty tensor of the same type on the meta device, whose symbolic sizes have become numbers."""
    if all(isinstance(size, int) for size in tensor.shape):
        return tensor
    shape = [_value(size, sizes) for size in tensor.shape]
    return torch.empty(shape, dtype=tensor.dtype, device="meta")


def _value(size: Any, sizes: Mapping[str, int]) -> int:
    """The value of a symbolic size under given values of all symbols."""
    if isinstance(size, int):
        return size
    expression = size.node.expr
    value = int(expression.subs({symbol: sizes[str(symbol)] for symbol in expression.free_symbols}))
    if value < 0:
        raise InputError(f"{word('dims')}: the size {expression} would be {value}; give other numbers.")
    return value


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
