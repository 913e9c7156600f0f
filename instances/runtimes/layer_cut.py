"""Cuts between layers, in the form of runtimes: the number of layers of each stage, and the stages of both ends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

from instances.errors import InputError, word
from instances.partitioning.partition import Partition
from instances.planning.plan import Plan
from instances.runtimes.layer_stack import LayerStack, numbered
from instances.runtimes.module_names import Naming

__all__ = ["LayerCut", "layers_in_words"]

_RANGE = " … "
_REMEDY_OF_PLANS = "plan a graph of whole layers, such as one of the level layer."


@dataclass(frozen=True, kw_only=True)
class LayerCut:
    """Stages of consecutive layers."""

    network: str
    stem: str  # name of layers before their number
    k: int  # number of stages
    unit_stage: tuple[
        int, ...
    ]  # (L + 2,) stage of what comes before the layers, of each layer, and of what comes after
    ranks: tuple[int, ...]  # (k,) the device that runs each stage, or the group of replicas
    naming: Naming  # what its modules are called
    replicas: int = 1  # devices that run each stage, each a part of the batch
    microbatches: int | None = None  # of an iteration; None for a partition
    context: int | None = None  # tokens that a sequence may have; None if nothing tells

    @property
    def layers(self) -> int:
        """Number of layers, L."""
        return len(self.unit_stage) - 2

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """(k,) number of layers of each stage."""
        return tuple(np.bincount(self.unit_stage[1:-1], minlength=self.k).tolist())

    @property
    def first(self) -> int:
        """Stage of the nodes before the layers, such as the embeddings."""
        return self.unit_stage[0]

    @property
    def last(self) -> int:
        """Stage of the nodes after the layers, such as the head."""
        return self.unit_stage[-1]

    @property
    def devices(self) -> int:
        """Number of devices, each replica counted once."""
        return len(set(self.ranks))

    def members(self, stage: int) -> list[int]:
        """The layers of a stage."""
        return [layer for layer, assigned in enumerate(self.unit_stage[1:-1]) if assigned == stage]

    @classmethod
    def of(cls, answer: Partition | Plan) -> LayerCut:
        """The cut of a partition or a plan.

        Raises
        ------
        InputError
            If a layer is cut, or there are no layers in a row; the message names it.
        """
        return _of_partition(answer) if isinstance(answer, Partition) else _of_plan(answer)


def layers_in_words(partition: Partition) -> str:
    """Numbers of layers, such as ``8,9``; with the kinds of devices where there are several: ``A100:8,L4:3*2``."""
    counts = LayerCut.of(partition).counts
    if partition.instance.is_alike:
        return ",".join(map(str, counts))
    used = [name for name in partition.kinds_by_name if name is not None]
    stages = [(f"{name}:{count}", len(list(same))) for (name, count), same in groupby(zip(used, counts, strict=True))]
    return ",".join(f"{stage}*{times}" if times > 1 else stage for stage, times in stages)


def _of_partition(partition: Partition) -> LayerCut:
    graph, block, ranks = partition.instance.graph, partition.block, range(partition.instance.k)
    if not partition.instance.is_alike:  # an idle device has no stage
        used, block = np.unique(block, return_inverse=True)
        ranks = partition.device[used].tolist()
    stack = LayerStack.of(graph)
    stages: list[int | None] = []
    for unit in range(stack.layers + 2):
        blocks = np.unique(block[list(stack.members(unit))]).tolist()
        if len(blocks) > 1:
            remedy = f"partition or certify it with {word('runtime')} and its name."
            raise InputError(f"{_cut_through(graph.name, stack.stem, stack.layers, unit, blocks)}; {remedy}")
        stages.append(blocks[0] if blocks else None)
    naming = Naming.of_graph(graph, stack)
    dims = graph.attributes.get("dims")
    sizes = dims if isinstance(dims, dict) else {}
    context = next((sizes[name] for name in ("context", "sequence") if type(sizes.get(name)) is int), None)
    return LayerCut(
        network=graph.name,
        stem=stack.stem,
        k=len(ranks),
        unit_stage=_filled(stages),
        ranks=tuple(ranks),
        naming=naming,
        context=context,
    )


def _of_plan(plan: Plan) -> LayerCut:
    chain = plan.instance.chain
    ends = [name.split(_RANGE) for name in chain.names]
    stem, numbers = numbered([*(e[0] for e in ends), *(e[-1] for e in ends)], chain.name, 2 * chain.forward.tolist())
    layers = 1 + max(number for number in numbers if number is not None)
    begin, end = _units(numbers, layers)
    stages: list[int | None] = [None] * (layers + 2)
    for n in range(plan.n_stages):
        first, final = begin[plan.cuts[n]], end[plan.cuts[n + 1] - 1]
        if stages[first] is not None:
            raise InputError(f"{_cut_through(chain.name, stem, layers, first, [n - 1, n])}; {_REMEDY_OF_PLANS}")
        stages[first : final + 1] = [n] * (final + 1 - first)
    sizes = set(plan.replicas.tolist())
    if len(sizes) > 1:
        raise InputError(
            f"{chain.name}: stages run on {min(sizes)} to {max(sizes)} devices; runtimes replicate all stages alike. "
            "Plan with as many devices as stages, or equal replicas."
        )
    ranks = tuple(plan.groups.index(group) for group in plan.devices)
    return LayerCut(
        network=chain.name,
        stem=stem,
        k=plan.n_stages,
        unit_stage=_filled(stages),
        ranks=ranks,
        naming=Naming.of_chain(chain.name, stem),
        replicas=sizes.pop(),
        microbatches=plan.instance.microbatches,
    )


def _units(numbers: list[int | None], layers: int) -> tuple[list[int], list[int]]:
    """Unit of the first and of the last node of each layer of a chain; `numbers` has first ones, then last ones.

    What has no number is before the layers, after them, or part of the layer before it.
    """
    half, seen = len(numbers) // 2, 0
    begin: list[int] = []
    end: list[int] = []
    for first, final in zip(numbers[:half], numbers[half:], strict=True):
        for number, units in ((first, begin), (final, end)):
            seen = seen if number is None else max(seen, number + 1)
            units.append(layers + 1 if number is None and seen == layers else seen)
    return begin, end


def _filled(stages: list[int | None]) -> tuple[int, ...]:
    """The stage of each unit; ends without nodes are in the stage of the layer next to them."""
    first, last = stages[0], stages[-1]
    inner = [stage for stage in stages[1:-1] if stage is not None]
    return (inner[0] if first is None else first, *inner, inner[-1] if last is None else last)


def _cut_through(network: str, stem: str, layers: int, unit: int, stages: list[int]) -> str:
    name = "before the layers" if unit == 0 else "after the layers" if unit > layers else f"in {stem}.{unit - 1}"
    return (
        f"{network}: what is {name} lies in stages {stages[0]} to {stages[-1]}, and runtimes cut between layers alone"
    )
