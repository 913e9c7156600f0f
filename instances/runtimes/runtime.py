"""Interface of all runtimes: a name, settings for an answer, and the constraints that make a cut legal for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from instances.errors import InputError, WordError, said
from instances.graph.graph import ComputationGraph
from instances.machines import device_named
from instances.partitioning.constraints import NO_CONSTRAINTS, Constraints
from instances.partitioning.partition import Partition
from instances.runtimes.layers import Cut, LayerCut, LayerStack, ModuleNames, Naming

#: Needs of every stage: a layer, or any unit, that is a layer, the nodes before them or the nodes after them.
LAYER, UNIT = "layer", "unit"


@dataclass(frozen=True)
class Runtime(ABC):
    """A program that runs pipelines."""

    name: str  # to ask for
    summary: str  # one line: what is handed over
    reference: str  # where the format is described
    comment: str | None  # begin of a line that the runtime ignores; None if there are no such lines
    #: Release whose settings these are, such as "0.3"; empty if they are the same in all that are known.
    version: str = field(default="", kw_only=True)
    earlier: tuple[Runtime, ...] = field(default=(), kw_only=True)  # the same in releases with other settings
    one_batch: bool = field(default=False, kw_only=True)  # whether one batch at a time goes through all stages
    caveats: tuple[str, ...] = field(default=(), kw_only=True)  # what it does that no cost counts, in sentences
    #: Option that it wants for a model in bf16 on devices without such numbers; empty if it sees to that itself.
    without_bf16: str = field(default="", kw_only=True)

    def caveats_on(self, devices: Iterable[str]) -> tuple[str, ...]:
        """`caveats`, and one more if a device of these names lacks bf16 and the runtime then needs an option."""
        halves = {name for name in devices if (listed := device_named(name)) is not None and listed.half == "fp16"}
        if not halves or not self.without_bf16:
            return self.caveats
        names = f"{' and '.join(sorted(halves))} {'has' if len(halves) == 1 else 'have'} no bf16"
        return *self.caveats, f"{names}; for a model in bf16 {self.name} wants {self.without_bf16}"

    def of_version(self, version: str | None) -> Runtime:
        """The runtime with the settings of a release; None means the latest known.

        Raises
        ------
        InputError
            If the settings of the release are not known.
        """
        releases = (self, *self.earlier)
        for runtime in releases:
            if version is None or (runtime.version and f"{version}.".startswith(f"{runtime.version}.")):
                return runtime
        names = ", ".join(runtime.version for runtime in releases if runtime.version)
        advice = (
            f"settings are known of {names}; name one of these, or" if names else "it has the same settings in all;"
        )
        raise WordError("runtime_version", version, f"{advice} leave it out.")

    def seen(self, graph: ComputationGraph) -> ComputationGraph:
        """The graph without work and parameters that the runtime keeps outside the devices."""
        return graph

    @abstractmethod
    def rules(self, graph: ComputationGraph) -> Constraints:
        """The constraints that make each answer of a question valid for the runtime.

        Raises
        ------
        InputError
            If no cut of the graph is valid.
        """

    @abstractmethod
    def settings(self, answer: Cut) -> str:
        """Settings that make the runtime execute the answer, with a line break at the end.

        Raises
        ------
        InputError
            If it cannot express the answer; the message says what, and what to do.
        """


@dataclass(frozen=True)
class LayerRuntime(Runtime):
    """A runtime that cuts between layers."""

    write: Callable[[LayerCut], str]
    every_stage: str | None = LAYER  # need of each stage, if any
    front_with_first: bool = True  # whether what comes before the layers is where the first one is
    back_with_last: bool = True  # whether what comes after the layers is where the last one is
    orders_devices: bool = False  # whether its settings say which device runs a stage; else stage n is on device n
    reaches_hosts: bool = False  # whether its settings say the address of a device on another host
    one_device: bool = False  # whether a module runs in one stage, also one that is called in several
    in_turns: bool = False  # whether a device may run several stages, the devices in the same order each turn
    #: Modules of built-in networks, and the library that calls them so; None if the settings name no modules.
    names: tuple[Mapping[str, ModuleNames], str] | None = None

    @classmethod
    def of_units(
        cls,
        name: str,
        summary: str,
        reference: str,
        comment: str | None,
        write: Callable[[LayerCut], str],
        **more: Any,
    ) -> LayerRuntime:
        """A runtime that cuts between any units, and can run several stages on a device (interleaved)."""
        more |= {"every_stage": UNIT, "in_turns": True, "front_with_first": False, "back_with_last": False}
        return cls(name, summary, reference, comment, write, **more)

    def rules(self, graph: ComputationGraph) -> Constraints:
        """Constraints: each layer in one stage, no stage too small, the ends where the runtime has them."""
        stack = LayerStack.of(graph)
        naming = Naming.of_graph(graph, stack)
        if self.names is not None:
            naming.modules(*self.names)
        rules = stack.whole_units(*self._with_layers(naming), self.every_stage)
        torn = [units for units in naming.units.values() if len(units) > 1] if self.one_device else []
        whole = tuple(tuple(stack.members(unit)[0] for unit in units) for units in torn)
        return rules + Constraints(together=whole)

    def settings(self, answer: Cut) -> str:
        """Settings that make the runtime execute the answer."""
        cut = LayerCut.of(answer)
        self._check(cut)
        return self.write(cut)

    def _with_layers(self, naming: Naming) -> tuple[bool, bool]:
        """Whether nodes before the layers stay with the first layer, and nodes after them with the last one.

        They do if the runtime requires it, or if its settings name modules and these nodes are in no module.
        """
        named = self.names is not None and naming.tells(self.names[1])
        return self.front_with_first or (named and naming.before == ()), (
            self.back_with_last or (named and naming.after == ())
        )

    def _check(self, cut: LayerCut) -> None:
        again = f"cut it again with {said('runtime', self.name)}."
        front, first, *_ = cut.unit_stage
        *_, last, back = cut.unit_stage
        if any(a > b for a, b in pairwise(cut.unit_stage)):
            raise InputError(f"{cut.network}: its layers are not in the order of the stages; {again}")
        with_first, with_last = self._with_layers(cut.naming)
        for part, layer, bound in ((front, first, with_first), (back, last, with_last)):
            if bound and part != layer:
                side, which = ("before", "first") if part == front else ("after", "last")
                raise InputError(
                    f"{self.name} keeps what comes {side} the layers with the {which} one, and here they are in stages "
                    f"{part} and {layer}; {again}"
                )
        for module, units in cut.naming.units.items() if self.one_device else ():
            stages = {cut.unit_stage[unit] for unit in units}
            if len(stages) > 1:
                raise InputError(
                    f"{self.name} keeps a module on one device, and {module} of {cut.network} runs in stages "
                    f"{min(stages)} and {max(stages)}; {again}"
                )
        sizes = cut.counts if self.every_stage == LAYER else [cut.unit_stage.count(n) for n in range(cut.k)]
        if self.every_stage is not None and 0 in sizes:
            lacking = "no layer" if self.every_stage == LAYER else "nothing"
            raise InputError(
                f"Stage {sizes.index(0)} of {cut.k} holds {lacking}, and {self.name} has none such; {again}"
            )
        if (remote := [place for place in cut.addresses if place is not None]) and not self.reaches_hosts:
            raise InputError(f"{self.name} is told of no device at {remote[0]}; give devices of this host alone.")
        moved = [n for n, rank in enumerate(cut.ranks) if n != rank]
        if moved and cut.devices == cut.k:
            if self.orders_devices:
                return
            raise InputError(
                f"{self.name} runs stage n on device n, and here stage {moved[0]} is on device {cut.ranks[moved[0]]}; "
                "number the devices in the order of the stages, or give them in a fixed order (mtpp-devices/2)."
            )
        if moved:
            turns = tuple(n % cut.devices for n in range(cut.k))
            if not self.in_turns:
                raise InputError(
                    f"{self.name} runs one stage on a device, and here {cut.devices} run {cut.k}; plan without turns."
                )
            if cut.ranks != turns or cut.k % cut.devices:
                raise InputError(
                    f"{self.name} runs stages in turns, stage n on device n mod {cut.devices}; this plan does not."
                )


@dataclass(frozen=True)
class NodeRuntime(Runtime):
    """Runtime that may cut anywhere between operators, which it identifies by their names."""

    write: Callable[[Partition], str]

    def rules(self, graph: ComputationGraph) -> Constraints:
        """No constraints: any cut is legal, where each operator has a name of its own."""
        for name, count in Counter(graph.names).items():
            if count > 1:
                raise InputError(
                    f"{graph.name}: {count} operators are called {name}, and {self.name} tells them apart by name."
                )
        return NO_CONSTRAINTS

    def settings(self, answer: Cut) -> str:
        """Settings that make the runtime execute the answer."""
        if not isinstance(answer, Partition):
            raise InputError(
                f"{self.name} takes the stage of each operator, which layers do not tell; give a partition."
            )
        self.rules(answer.instance.graph)
        return self.write(answer)
