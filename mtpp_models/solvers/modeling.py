"""Pyomo: imported at the first model that is built, as searches and other bounds need none of it; names in its files.

A name is that of the component and its index, joined by points, as in ``y.conv1.2``. A node is called by the end of
its name in letters, digits and single underscores, whatever case two of them differ in. Where that is not unique, two
underscores and the number of the node follow.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from instances import ComputationGraph
from instances.deadline import CLOCK

if TYPE_CHECKING:
    import pyomo.environ as pyo
    from pyomo.core.expr import NumericExpression
else:
    NumericExpression = Any

    class _Late:
        def __getattr__(self, name: str) -> object:
            value = getattr(load_pyomo(), name)
            setattr(self, name, value)
            return value

    pyo = _Late()


#: What Pyomo imports where SciPy is there before it, half a second, and needs for no linear model.
_UNUSED = ("scipy.stats", "scipy.integrate", "scipy.spatial")


def load_pyomo() -> Any:
    """Import Pyomo; the clock of time limits stands still meanwhile."""
    if "pyomo.environ" in sys.modules:
        return sys.modules["pyomo.environ"]
    CLOCK.halt()
    empty = {name: ModuleType(name) for name in _UNUSED if name not in sys.modules}
    sys.modules.update(empty)
    try:
        return import_module("pyomo.environ")
    finally:
        for name in empty:
            del sys.modules[name]
        CLOCK.resume()


def standard_form(model: pyo.ConcreteModel) -> Any:
    """Pyomo's standard form of a linear model; None if a row without variables is violated."""
    from pyomo.common.errors import InfeasibleConstraintException
    from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

    try:
        return LinearStandardFormCompiler().write(model, mixed_form=True)
    except InfeasibleConstraintException:
        return None


# Names of variables and rows in files: with the node's name, short, unique, and what all solvers accept.


# Characters of a node in a name. CBC takes names of 100, and a row has at most two nodes.
_LONGEST_NAME = 28
_OTHERS = re.compile(r"[^A-Za-z0-9]+")
# What the numbers of an index are, by the name of the set; "" is left out, as the tensor tells its producer.
_KINDS = {
    "V": ("node",),
    "V_needing": ("node",),
    "T": ("tensor",),
    "E": ("node", "node"),
    "S": ("node", "node", "number"),
    "reads": ("tensor", "", "node"),
    "uses": ("number", "node"),
}


class Labels:
    """Names of variables and rows by the names of the graph's nodes; a labeler for Pyomo's writers.

    Parameters
    ----------
    graph : ComputationGraph, optional
        Graph of the model; without it, names contain indices as they are.
    """

    def __init__(self, graph: ComputationGraph | None = None) -> None:
        self.nodes = [] if graph is None else _unique(graph.names)
        self.tensors = [] if graph is None else _of_tensors(graph, self.nodes)
        self._kinds: dict[str, tuple[str, ...]] = {}

    def __call__(self, component: Any) -> str:
        """The name of a variable, a constraint or an objective."""
        parent = component.parent_component()
        name = str(parent.name).replace("[", ".").replace("]", "")
        if not parent.is_indexed():
            return name
        index = component.index()
        index = index if isinstance(index, tuple) else (index,)
        if name not in self._kinds:
            self._kinds[name] = _kinds_of(parent)
        parts = [self._part(kind, i) for kind, i in zip(self._kinds[name], index, strict=True) if kind]
        return ".".join([name, *parts])

    def _part(self, kind: str, i: Any) -> str:
        if kind == "number":
            return str(i)
        return self.nodes[i] if kind == "node" else self.tensors[i]


def _kinds_of(parent: Any) -> tuple[str, ...]:
    kinds: list[str] = []
    for part in parent.index_set().subsets():
        kinds += _KINDS.get(part.local_name, ("number",) * (part.dimen or 1))
    return tuple(kinds)


def _unique(names: tuple[str, ...]) -> list[str]:
    short = [_end_of(_OTHERS.sub("_", name).strip("_")) for name in names]
    count = Counter(label.lower() for label in short)
    return [label if label and count[label.lower()] == 1 else f"{label}__{v}" for v, label in enumerate(short)]


def _end_of(name: str) -> str:
    """Shorten a name to its last whole words, or to a part of the last one."""
    if len(name) <= _LONGEST_NAME:
        return name
    end = name[-_LONGEST_NAME:]
    return end.partition("_")[2] or end.strip("_")


def _of_tensors(graph: ComputationGraph, nodes: list[str]) -> list[str]:
    """Names of the tensors: the producer's, with `__o` and a number if it has several outputs."""
    producers = graph.tensors.producer.tolist()
    outputs, seen = Counter(producers), Counter[int]()
    labels = []
    for u in producers:
        labels.append(nodes[u] if outputs[u] == 1 else f"{nodes[u]}__o{seen[u]}")
        seen[u] += 1
    return labels
