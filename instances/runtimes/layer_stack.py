"""Numbered layers of a network, found by the names of its nodes: ``decoder.7``, ``/model/layers.7/attn/MatMul``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import IntArray
from instances.partitioning.constraints import Constraints

__all__ = ["LayerStack", "numbered"]

_NUMBER = re.compile(r"(?:^|[./])(?P<stem>[A-Za-z_]\w*)\.(?P<number>[0-9]{1,6})(?=[./]|$)")
#: Characters allowed in a stem: it becomes part of programs and settings.
_PLAIN = re.compile(r"[\w./]+")
_FEWEST = 2


@dataclass(frozen=True, eq=False)
class LayerStack:
    """Numbered layers of a network, with the nodes before and after them.

    Parameters
    ----------
    stem : str
        What layers are called before their number, such as ``decoder`` or ``model.layers``.
    layers : int
        Their number, L.
    unit : (n,) integers
        0 for a node before the layers, 1 to L for the node of a layer, L + 1 for a node after them. No edge goes to a
        smaller number, and each unit that has nodes reads from the one before it, so that it is in no earlier block.
    """

    stem: str
    layers: int
    unit: IntArray

    @classmethod
    def of(cls, graph: ComputationGraph) -> LayerStack:
        """The layers of a graph.

        Nodes without a number come before the layers if a layer reads from them, directly or not, and they read from
        none; after the layers if no layer reads from them; else they belong to the last layer that they read from.

        Raises
        ------
        InputError
            If its nodes have no numbered layers, those of several stacks, or layers that are not in a row.
        """
        stem, numbers = numbered(graph.names, graph.name, graph.work.tolist())
        unit = np.array([0 if number is None else number + 1 for number in numbers], dtype=np.int64)
        layers, named = int(unit.max()), unit > 0
        start, readers = graph.successors
        order = graph.topological_order.tolist()
        reaches = named.copy()
        for v in reversed(order):
            reaches[v] |= bool(reaches[readers[start[v] : start[v + 1]]].any())
        for v in order:
            if not named[v] and not reaches[v]:
                unit[v] = layers + 1
            below = readers[start[v] : start[v + 1]]
            for reader in below[~named[below]].tolist():
                unit[reader] = max(unit[reader], unit[v])
        return cls(stem, layers, _in_a_row(graph, unit))

    @property
    def unit_names(self) -> tuple[str, ...]:
        """The names of all units, by their numbers."""
        return ("before", *(f"{self.stem}.{i}" for i in range(self.layers)), "after")

    def members(self, unit: int) -> tuple[int, ...]:
        """The nodes of a unit."""
        return tuple(np.flatnonzero(self.unit == unit).tolist())

    def whole_units(self, front_with_first: bool, back_with_last: bool, every_block: str | None) -> Constraints:
        """The constraints that keep each unit in one block.

        Parameters
        ----------
        front_with_first, back_with_last : bool
            Whether what comes before the layers stays with the first one, and what comes after them with the last.
        every_block : {"layer", "unit"}, optional
            Of what every block needs one. Then the ends are in the first and in the last block.
        """
        units = {u: nodes for u in range(self.layers + 2) if (nodes := self.members(u))}
        needed = tuple(nodes[0] for u, nodes in units.items() if every_block == "unit" or 0 < u <= self.layers)
        if front_with_first:
            units[1] = units.pop(0, ()) + units[1]
        if back_with_last:
            units[self.layers] += units.pop(self.layers + 1, ())
        return Constraints(
            together=tuple(nodes for nodes in units.values() if len(nodes) > 1),
            at_least=() if every_block is None else ((1, needed),),
        )


def numbered(names: Sequence[str], network: str, work: Sequence[float]) -> tuple[str, list[int | None]]:
    """Find the common stem of the layers' names, and the number of the layer that each name is in; None for no layer.

    Of several stacks of layers, such as those of an encoder and a decoder, the one with more than half of the work
    counts, and the layers of others are none.

    Raises
    ------
    InputError
        If there are fewer than two layers, several stacks without such a one, or numbers are missing.

    Examples
    --------
    >>> numbered(["embed", "model.layers.0.mlp", "model.layers.1.mlp", "head"], "tiny", [1, 1, 1, 1])
    ('model.layers', [None, 0, 1, None])
    """
    matches = [_NUMBER.search(name) for name in names]
    stems = [_stem(name, match) for name, match in zip(names, matches, strict=True)]
    numbers: dict[str, set[int]] = {}
    for stem, match in zip(stems, matches, strict=True):
        if stem is not None and match is not None:
            numbers.setdefault(stem, set()).add(int(match["number"]))
    stacks = {stem: layers for stem, layers in numbers.items() if len(layers) >= _FEWEST}
    if not stacks:
        raise InputError(
            f"{network}: its names tell of no layers, such as decoder.0 and decoder.1; give a graph whose nodes are "
            "called after their layers."
        )
    loads = {
        stack: sum(node_work for node_work, other in zip(work, stems, strict=True) if other == stack)
        for stack in stacks
    }
    stem = max(stacks, key=lambda stack: loads[stack])
    layers = stacks[stem]
    if len(stacks) > 1 and 2 * loads[stem] <= sum(work):
        shown = ", ".join(map(_plain, list(stacks)[:3])) + (", …" if len(stacks) > 3 else "")
        raise InputError(
            f"{network} has {len(stacks)} stacks of layers ({shown}), none of them with half of the work; runtimes "
            "number the layers of one."
        )
    if layers != set(range(len(layers))):
        missing = min(set(range(len(layers))) - layers)
        raise InputError(
            f"{network}: there is a layer {_plain(stem)}.{max(layers)}, but none {_plain(stem)}.{missing}."
        )
    return _plain(stem), [
        int(match["number"]) if match is not None and candidate == stem else None
        for candidate, match in zip(stems, matches, strict=True)
    ]


def _stem(name: str, match: re.Match[str] | None) -> str | None:
    """Path before the layer number of a name; None if it has no number, or is no path."""
    stem = None if match is None else name[: match.end("stem")]
    return stem if stem is not None and _PLAIN.fullmatch(stem) else None


def _plain(stem: str) -> str:
    """The path of a module as PyTorch writes it, with dots."""
    return stem.strip("/").replace("/", ".")


def _in_a_row(graph: ComputationGraph, unit: IntArray) -> IntArray:
    """The units, unchanged; refused unless each layer reads from the one before it, and none from a later one."""
    ends = unit[graph.edges]
    for e in np.flatnonzero(ends[:, 0] > ends[:, 1])[:1]:
        u, v = graph.edges[e].tolist()
        raise InputError(
            f"{graph.name}: its layers are not in a row, as {graph.names[v]} of an earlier layer reads from "
            f"{graph.names[u]}."
        )
    units = np.unique(unit)
    linked = {tuple(pair) for pair in np.unique(ends, axis=0).tolist()}
    for before, after in zip(units[:-1].tolist(), units[1:].tolist(), strict=True):
        if (before, after) not in linked:
            name = graph.names[int(np.flatnonzero(unit == after)[0])]
            raise InputError(f"{graph.name}: its layers are not in a row, as {name} reads nothing of the layer before.")
    return unit
