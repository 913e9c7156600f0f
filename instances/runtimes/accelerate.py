"""Hugging Face accelerate: the device of each module, as ``device_map`` of `from_pretrained` or `dispatch_model`."""

from __future__ import annotations

import json
from dataclasses import dataclass

from instances.errors import InputError, said
from instances.graph.graph import ComputationGraph
from instances.partitioning.constraints import Constraints
from instances.partitioning.partition import Partition
from instances.planning.plan import Plan
from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.layer_stack import LayerStack
from instances.runtimes.module_names import TRANSFORMERS, Naming
from instances.runtimes.module_units import ModuleUnits
from instances.runtimes.runtime import LayerRuntime

__all__ = ["ACCELERATE"]


def _write(cut: LayerCut) -> str:
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
    """The units of a program; None if there are none, or one holds all layers: then its code moves tensors itself."""
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
        """Units of programs are whole; of other graphs layers are."""
        units = _units(graph)
        if units is None:
            return super().rules(graph)
        return Constraints(together=tuple(group for group in units.groups if len(group) > 1))

    def settings(self, answer: Partition | Plan) -> str:
        """The device of each unit of a program; of other graphs as of layers."""
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
    _write,
    every_stage=None,
    front_with_first=False,
    back_with_last=False,
    orders_devices=True,
    one_device=True,
    version="1.15",
    names=(TRANSFORMERS, "transformers"),
)
