"""Sizes of an exported program that depend on values, such as tokens of an expert: given, or measured on one input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Interpreter, Node
from torch.utils._pytree import tree_leaves, tree_map_only

from instances.errors import InputError, nearest, word

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
