"""Modules of a program that a library moves as a whole, where tensors follow the calls of modules.

Such a library moves tensors to the device of a module where the module is called, not inside of the code around it. A
module is a *unit* if its own code mixes what lies at different places: tensors made outside of it, tensors made in its
children, its own weights. So a layer is one, with its residual sums. Other modules are opened, the network always; what
the code of an opened module reads is made where that code runs. The inputs of the network and its own weights are on
the device of the first module. A module without weights is code of the one around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from instances.errors import InputError
from instances.graph.graph import ComputationGraph

__all__ = ["ModuleUnits"]

_OUTSIDE, _INSIDE, _WEIGHTS = 1, 2, 4
_ONE_PLACE = (0, _OUTSIDE, _INSIDE, _WEIGHTS)
_DEEPEST = 100
#: At the end of the names of operators that are alike.
_NUMBER = re.compile(r"_[0-9]+$")


@dataclass(frozen=True, eq=False)
class ModuleUnits:
    """The units of a program, whose nodes are called after their modules.

    Parameters
    ----------
    graph : ComputationGraph
        With the attribute ``input_readers``, as graphs of torch.export have it.
    """

    graph: ComputationGraph

    @staticmethod
    def stated_in(graph: ComputationGraph) -> bool:
        """Whether a graph tells of its modules, and of what reads its inputs."""
        readers, calls = graph.attributes.get("input_readers"), graph.attributes.get("calls_elsewhere", {})
        if not (isinstance(readers, list) and isinstance(calls, dict)):
            return False
        if not all(isinstance(modules, list) for modules in calls.values()):
            return False
        paths = [*graph.names, *(str(module) for modules in calls.values() for module in modules)]
        return max(path.count(".") for path in paths) <= _DEEPEST

    @cached_property
    def unit(self) -> tuple[str, ...]:
        """(n,) path of the unit that each node is in; "" for code of opened modules."""
        return tuple(self._unit_of(module) for module in self._modules)

    def _unit_of(self, module: str) -> str:
        return next((above for above in _paths(module) if self._closed.get(above)), "")

    @cached_property
    def _closed(self) -> dict[str, bool]:
        return {above: self._is_closed(above) for module in self._own_nodes for above in _paths(module)}

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Nodes that are on one device, the first group with those that read the inputs or weights of the network."""
        first: list[int] = []
        units: dict[str, list[int]] = {unit: [] for unit in self.unit}
        for v, unit in enumerate(self.unit):
            units[unit].append(v)
            if not unit and (self._reads_input[v] or (self._holds[v] and not self._modules[v])):
                first.append(v)
        code = units.pop("", [])
        groups: list[Sequence[int]] = [first, *units.values(), *((v, *self._makers[v]) for v in code)]
        for v, calls in enumerate(self._calls):  # what code of a unit calls is with it, also if it is elsewhere
            groups += [(v, *units[unit]) for unit in map(self._unit_of, calls) if unit not in ("", self.unit[v])]
        for shared in self.graph.parameters:  # operators that are alike are of one module with several names
            kinds = [_NUMBER.sub("", self.graph.names[user].rpartition(".")[2]) for user in shared.users]
            kinds = kinds if set(code).isdisjoint(shared.users) else [""] * len(kinds)
            groups += [
                [v for v, user_kind in zip(shared.users, kinds, strict=True) if user_kind == kind]
                for kind in set(kinds)
            ]
        pairs = np.array([(group[0], v) for group in groups for v in group], dtype=np.int64).reshape(-1, 2)
        links = coo_array((np.ones(len(pairs)), pairs.T), shape=(self.graph.n, self.graph.n))
        label = connected_components(links, directed=False)[1].tolist()
        members: dict[int, list[int]] = {label[v]: [] for v in (*first, *range(self.graph.n))}
        for v, component in enumerate(label):
            members[component].append(v)
        return tuple(map(tuple, members.values()))

    def places(self, block: Sequence[int]) -> dict[str, int]:
        """The block of each unit and of each weight outside of them, those on the device of the inputs first.

        Raises
        ------
        InputError
            If a group is in several blocks.
        """
        for group in self.groups:
            by_block = {block[v]: self.graph.names[v] for v in group}
            if len(by_block) > 1:
                (stage, a), (other_stage, b), *_ = sorted(by_block.items())
                raise InputError(
                    f"{self.graph.name}: {a} in stage {stage} has to be where {b} is, in stage {other_stage}"
                )
        main = block[self.groups[0][0]]
        places = {unit: block[v] for v, unit in enumerate(self.unit) if unit}
        place = dict(zip(self.graph.names, block, strict=True))
        elsewhere = self.graph.attributes.get("weights_elsewhere")
        for weight, reader in elsewhere.items() if isinstance(elsewhere, dict) else ():
            if not any(module in places for module in _paths(weight)):
                places[weight] = place.get(str(reader), main)
        return dict(sorted(places.items(), key=lambda item: item[1] != main))

    def _is_closed(self, module: str) -> bool:
        """Whether a module is a unit: its own code joins values from several places, or no other module is in it."""
        sources: dict[int, int] = {}
        for v in self._own_nodes.get(module, ()):
            places = _OUTSIDE * self._reads_input[v] | _WEIGHTS * self._holds[v]
            for u in self._makers[v]:
                inside = f"{self._modules[u]}.".startswith(f"{module}.")
                places |= sources.get(u, _INSIDE if inside else _OUTSIDE)
            sources[v] = places
        return not set(sources.values()).issubset(_ONE_PLACE) or module not in self._with_children

    @cached_property
    def _holds(self) -> list[bool]:
        """Whether each node reads weights."""
        shared = {user for parameter in self.graph.parameters for user in parameter.users}
        return [size > 0 or v in shared for v, size in enumerate(self.graph.param_bytes.tolist())]

    @cached_property
    def _reads_input(self) -> list[bool]:
        readers = set(map(str, self.graph.attributes["input_readers"]))
        return [name in readers for name in self.graph.names]

    @cached_property
    def _makers(self) -> list[list[int]]:
        start, before = self.graph.predecessors
        return [before[start[v] : start[v + 1]].tolist() for v in range(self.graph.n)]

    @cached_property
    def _modules(self) -> tuple[str, ...]:
        """(n,) path of the innermost module with weights in whose code each node is; "" for the code of the network."""
        called = (calls[-1] for calls, holds in zip(self._calls, self._holds, strict=True) if holds and calls)
        modules = {above for module in called for above in _paths(module)}
        return tuple(next((module for module in reversed(calls) if module in modules), "") for calls in self._calls)

    @cached_property
    def _calls(self) -> list[list[str]]:
        """Paths of the modules that each node is in, or of those in whose calls it runs."""
        stated = self.graph.attributes.get("calls_elsewhere", {})
        return [[*map(str, stated.get(name) or _paths(name.rpartition(".")[0]))] for name in self.graph.names]

    @cached_property
    def _own_nodes(self) -> dict[str, list[int]]:
        """The nodes in the code of each module itself, in topological order."""
        nodes: dict[str, list[int]] = {}
        for v in self.graph.topological_order.tolist():
            nodes.setdefault(self._modules[v], []).append(v)
        return nodes

    @cached_property
    def _with_children(self) -> set[str]:
        return {above for module in self._own_nodes for above in [*_paths(module)][:-1]}


def _paths(module: str) -> Iterator[str]:
    """The modules around one and itself, such as ``a``, ``a.b`` and ``a.b.c``."""
    end = -1 if module else len(module)
    while end < len(module):
        end = module.find(".", end + 1)
        end = len(module) if end < 0 else end
        yield module[:end]
