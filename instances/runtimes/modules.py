"""Runtimes that take names of modules: accelerate and torchtitan."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from instances.errors import InputError, said
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import components
from instances.graph.views import merge_graph
from instances.partitioning.constraints import Constraints
from instances.partitioning.partition import Partition
from instances.runtimes.layers import TRANSFORMERS, Cut, LayerCut, LayerStack, ModuleNames, Naming
from instances.runtimes.runtime import LayerRuntime, Runtime

# Graphs in which each layer is a node, so that no plan cuts one.


def whole_layers(graph: ComputationGraph, runtime: Runtime) -> ComputationGraph:
    """The graph with a node for each part that a runtime does not divide: layers, front and back.

    Raises
    ------
    InputError
        If it has no layers in a row, or the runtime knows no layers.
    """
    if not isinstance(runtime, LayerRuntime):
        raise InputError(f"{said('runtime', runtime.name)}: it takes the stage of each operator, not layers of a plan.")
    runtime.rules(graph)  # refuses what no cut can express
    stack = LayerStack.of(runtime.seen(graph))
    unit = stack.unit.copy()
    if runtime.front_with_first:
        unit[unit == 0] = 1
    if runtime.back_with_last:
        unit[unit == stack.layers + 1] = stack.layers
    units, group = np.unique(unit, return_inverse=True)
    merged, _ = merge_graph(runtime.seen(graph), group)
    return replace(merged, names=tuple(stack.unit_names[u] for u in units), name=graph.name, source=graph.source)


# Modules of a program that a library moves as a whole, where tensors follow the calls of modules.
#
# Such a library moves tensors to the device of a module where the module is called, not inside of the code around it. A
# module is a *unit* if its own code mixes what lies at different places: tensors made outside of it, tensors made in
# its children, its own weights. So a layer is one, with its residual sums. Other modules are opened, the network
# always; what the code of an opened module reads is made where that code runs. The inputs of the network and its own
# weights are on the device of the first module. A module without weights is code of the one around it.


_OUTSIDE, _INSIDE, _WEIGHTS = 1, 2, 4
_ONE_PLACE = (0, _OUTSIDE, _INSIDE, _WEIGHTS)
_DEEPEST = 100
#: At the end of the names of operators that are alike.
_NUMBER = re.compile(r"_[0-9]+$")


@dataclass(frozen=True, eq=False)
class ModuleUnits:
    """Units of an exported program: outermost modules that must be on one device as a whole.

    Parameters
    ----------
    graph : ComputationGraph
        Graph of an exported program, whose nodes have names with the paths of their modules, and with the attribute
        ``input_readers``.
    """

    graph: ComputationGraph

    @staticmethod
    def stated_in(graph: ComputationGraph) -> bool:
        """Whether a graph states its modules and the readers of its inputs."""
        readers, calls = graph.attributes.get("input_readers"), graph.attributes.get("calls_elsewhere", {})
        if not (isinstance(readers, list) and isinstance(calls, dict)):
            return False
        if not all(isinstance(modules, list) for modules in calls.values()):
            return False
        paths = [*graph.names, *(str(module) for modules in calls.values() for module in modules)]
        return max(path.count(".") for path in paths) <= _DEEPEST

    @cached_property
    def unit(self) -> tuple[str, ...]:
        """(n,) path of the unit of each node; "" for code of modules that are divided."""
        return tuple(self._unit_of(module) for module in self._modules)

    def _unit_of(self, module: str) -> str:
        return next((above for above in _paths(module) if self._closed.get(above)), "")

    @cached_property
    def _closed(self) -> dict[str, bool]:
        return {above: self._is_closed(above) for module in self._direct_nodes for above in _paths(module)}

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Groups of nodes that must be on one device; the first contains the readers of the inputs."""
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
        label = components(pairs, self.graph.n, directed=False).tolist()
        members: dict[int, list[int]] = {label[v]: [] for v in (*first, *range(self.graph.n))}
        for v, component in enumerate(label):
            members[component].append(v)
        return tuple(map(tuple, members.values()))

    def places(self, block: Sequence[int]) -> dict[str, int]:
        """Block of each unit and of each weight outside units, by path; units in the block of the inputs come first.

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
        """Whether a module must be on one device as a whole.

        It must if its own code combines values from several sources, or if it contains no module.
        """
        sources: dict[int, int] = {}
        for v in self._direct_nodes.get(module, ()):
            places = _OUTSIDE * self._reads_input[v] | _WEIGHTS * self._holds[v]
            for u in self._makers[v]:
                inside = f"{self._modules[u]}.".startswith(f"{module}.")
                places |= sources.get(u, _INSIDE if inside else _OUTSIDE)
            sources[v] = places
        return not set(sources.values()).issubset(_ONE_PLACE) or module not in self._with_children

    @cached_property
    def _holds(self) -> list[bool]:
        """(n,) whether each node has parameters, of its own or shared ones."""
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
        """(n,) path of the innermost module with weights that contains the code of each node."""
        called = (calls[-1] for calls, holds in zip(self._calls, self._holds, strict=True) if holds and calls)
        modules = {above for module in called for above in _paths(module)}
        return tuple(next((module for module in reversed(calls) if module in modules), "") for calls in self._calls)

    @cached_property
    def _calls(self) -> list[list[str]]:
        """Paths of the modules that contain each node, or of those in whose calls it runs."""
        stated = self.graph.attributes.get("calls_elsewhere", {})
        return [[*map(str, stated.get(name) or _paths(name.rpartition(".")[0]))] for name in self.graph.names]

    @cached_property
    def _direct_nodes(self) -> dict[str, list[int]]:
        """The nodes in each module's own code, in topological order."""
        nodes: dict[str, list[int]] = {}
        for v in self.graph.topological_order.tolist():
            nodes.setdefault(self._modules[v], []).append(v)
        return nodes

    @cached_property
    def _with_children(self) -> set[str]:
        return {above for module in self._direct_nodes for above in [*_paths(module)][:-1]}


def _paths(module: str) -> Iterator[str]:
    """The module and its ancestors, such as ``a``, ``a.b`` and ``a.b.c``."""
    end = -1 if module else len(module)
    while end < len(module):
        end = module.find(".", end + 1)
        end = len(module) if end < 0 else end
        yield module[:end]


# Hugging Face accelerate: the device of each module, as ``device_map`` of `from_pretrained` or `dispatch_model`.


def _device_map(cut: LayerCut) -> str:
    """The device of each module, as JSON; empty stages take no device, tied parameters are on all that use them."""
    names = cut.naming.modules(TRANSFORMERS, "transformers", ends=True)
    device = dict(zip(sorted(set(cut.unit_stage)), cut.ranks, strict=False))
    devices = (
        dict.fromkeys(names.before, device[cut.first])
        | {names.layer(layer): device[stage] for layer, stage in enumerate(cut.unit_stage[1:-1])}
        | dict.fromkeys(names.after, device[cut.last])
    )
    for name, (unit, *_) in cut.naming.units.items():
        if not any(f"{name}.".startswith(f"{module}.") for module in devices):
            devices[name] = device[cut.unit_stage[unit]]
    return json.dumps(devices, indent=1) + "\n"


def _units(graph: ComputationGraph) -> ModuleUnits | None:
    """The units of a program; None without any, or if one contains all layers."""
    if not ModuleUnits.stated_in(graph):
        return None
    units = ModuleUnits(graph)
    try:
        stack = LayerStack.of(graph)
        stem = Naming.of_graph(graph, stack).modules(TRANSFORMERS, "transformers").stem
    except InputError:
        return units
    return None if any(unit and f"{stem}.".startswith(f"{unit}.") for unit in units.unit) else units


@dataclass(frozen=True)
class _Accelerate(LayerRuntime):
    """A runtime that moves tensors where modules are called, so that programs are cut between units."""

    def rules(self, graph: ComputationGraph) -> Constraints:
        """The constraints: units of programs are whole, in other graphs layers are."""
        units = _units(graph)
        if units is None:
            return super().rules(graph)
        return Constraints(together=tuple(group for group in units.groups if len(group) > 1))

    def settings(self, answer: Cut) -> str:
        """`device_map` as JSON text: the device of each unit of a program, or of each module of another graph."""
        units = _units(answer.instance.graph) if isinstance(answer, Partition) else None
        if units is None or not isinstance(answer, Partition):
            return super().settings(answer)
        used = sorted(set(answer.block.tolist()))
        devices = answer.device[used].tolist() if not answer.instance.is_alike else range(len(used))
        device = dict(zip(used, devices, strict=True))
        try:
            places = units.places(answer.block.tolist())
        except InputError as error:
            raise InputError(f"{error}; cut it again with {said('runtime', self.name)}.") from None
        return json.dumps({module: device[block] for module, block in places.items()}, indent=1) + "\n"


ACCELERATE = _Accelerate(
    "accelerate",
    "device_map of transformers and accelerate, JSON",
    "huggingface.co/docs/accelerate/concept_guides/big_model_inference",
    None,
    _device_map,
    every_stage=None,
    front_with_first=False,
    back_with_last=False,
    orders_devices=True,
    one_batch=True,
    one_device=True,
    version="1.15",
    names=(TRANSFORMERS, "transformers"),
)


# torchtitan: the modules of each stage, which may be a virtual one, by their names.


def torchtitan_default(layers: int, k: int) -> tuple[int, ...]:
    """Default number of layers of each stage.

    Embeddings and head count as a layer each; the stages are equal, the first ones with one more where they cannot be.

    Examples
    --------
    >>> torchtitan_default(32, 8)
    (4, 5, 4, 4, 4, 4, 4, 3)
    """
    counts = [(layers + 2) // k + (stage < (layers + 2) % k) for stage in range(k)]
    counts[0] -= 1
    counts[-1] -= 1
    return tuple(counts)


_HEADS = {"0.2": "output", "0.3": "lm_head"}


def _names(version: str) -> tuple[dict[str, ModuleNames], str]:
    """Modules of torchtitan's networks, in a version."""
    llama = ModuleNames(("tok_embeddings",), "layers", ("norm", _HEADS[version]))
    return {"llama-": llama, "mixtral-": llama}, "torchtitan"


def _parts(cut: LayerCut, version: str) -> list[list[str]]:
    names = cut.naming.modules(*_names(version), ends=True)
    return [
        [*(names.before if n == cut.first else ())]
        + [names.layer(layer) for layer in cut.members(n)]
        + [*(names.after if n == cut.last else ())]
        for n in range(cut.k)
    ]


def _toml(cut: LayerCut) -> str:
    """Section `[parallelism]` of torchtitan's TOML file for a cut, for versions up to 0.2."""
    parts = json.dumps(_parts(cut, "0.2"))
    return f"[parallelism]\npipeline_parallel_degree = {cut.devices}\nmodule_fqns_per_model_part = {parts}\n"


def _python(cut: LayerCut) -> str:
    """Field `parallelism` of torchtitan's `Trainer.Config` for a cut, in Python, for versions from 0.3 on."""
    parts = json.dumps(_parts(cut, "0.3"))
    return (
        "from torchtitan.config import ParallelismConfig\n\nparallelism = ParallelismConfig(\n"
        f"    pipeline_parallel_degree={cut.devices},\n    module_fqns_per_model_part={parts},\n)\n"
    )


def _runtime(version: str, write: Callable[[LayerCut], str], earlier: tuple[LayerRuntime, ...] = ()) -> LayerRuntime:
    return LayerRuntime.of_units(
        "torchtitan",
        "module_fqns_per_model_part of its configuration, Python; TOML up to 0.2",
        "torchtitan/distributed/pipeline_parallel.py",
        "#",
        write,
        version=version,
        names=_names(version),
        earlier=earlier,
    )


TORCHTITAN = _runtime("0.3", _python, (_runtime("0.2", _toml),))


# torch.distributed.pipelining: the modules at which stages begin.
#
# A program of torch.export that is cut anywhere between its operators goes through `instances.readers.pytorch.stages`.


def _split_points(cut: LayerCut) -> str:
    names = cut.naming.modules(TRANSFORMERS, "transformers")
    begins = [names.layer(layers[0]) if (layers := cut.members(n)) else names.after[0] for n in range(1, cut.k)]
    points = "".join(f'    "{module}": SplitPoint.BEGINNING,\n' for module in begins)
    return f"from torch.distributed.pipelining import SplitPoint\n\nsplit_spec = {{\n{points}}}\n"


PYTORCH = LayerRuntime.of_units(
    "torch",
    "split_spec of torch.distributed.pipelining.pipeline",
    "docs.pytorch.org/docs/stable/distributed.pipelining.html",
    "#",
    _split_points,
    version="2.13",
    names=(TRANSFORMERS, "transformers"),
)
