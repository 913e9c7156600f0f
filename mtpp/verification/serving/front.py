"""Check of a serving front: cost and context of its cuts, and that no other cut dominates one of them.

Of all stages, intervals of the chain, costs and contents are computed in exact numbers. That no cut is faster and holds
more is then a question of which ends of stages can be reached from the first node: in as many steps as there are
stages, each over an interval that is fast enough and has room enough.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from instances.errors import printable
from instances.json_files import Value
from instances.partitioning.stated_serving import StatedPoint, StatedServing, serving_from_document
from mtpp.verification.clock import Clock, Limits
from mtpp.verification.faults import ROUNDING, is_near, unequal
from mtpp.verification.fractions import as_float
from mtpp.verification.kinds.certificate import fault_of_devices
from mtpp.verification.kinds.paths import TooManyIdealsError, blocks_lead_through
from mtpp.verification.kinds.rates import stages_lead_below
from mtpp.verification.serving.operators import faults_of_chain
from mtpp.verification.serving.runtime_settings import faults_of_words
from mtpp.verification.serving.stages import (
    Stage,
    caches_of,
    context_of,
    holds,
    is_rated,
    stages_of,
    times_of_places,
    with_transfers,
)
from mtpp.verification.verdict import Verdict

__all__ = ["verify_serving"]

# More tokens than this are not counted one by one by floats, in which contexts are stated.
_MOST_TOKENS = 2**53


@dataclass(frozen=True, repr=False)
class _FrontVerdict(Verdict):
    """A verdict of several cuts, each proved as a whole."""

    @property
    def rests_on_trust(self) -> bool:
        """Whether the file does not hold what its chain was made of; every cut is proved again."""
        assert isinstance(self.certificate, StatedServing)
        return self.certificate.source is None

    @property
    def proved_of_all(self) -> str:
        """Statement on all cuts that is proved here."""
        return "" if self.faults else "no cut is faster and holds more context than one of these"

    def _standing(self) -> list[tuple[str, str]]:
        if self.faults:
            return super()._standing()
        lines = [("front", f"{self.standing}, computed anew; that no cut beats one is proved again")]
        if self.rests_on_trust:
            lines.append(("TRUSTED", "need and token_bytes: the file does not hold the operators of the decoder"))
        return lines

    def table(self) -> list[tuple[str, ...]]:
        """One row a cut, after a header."""
        assert isinstance(self.certificate, StatedServing)
        rows: list[tuple[str, ...]] = [
            ("cut", f"bottleneck [{printable(self.certificate.instance.time_unit)}]", "context")
        ]
        return rows + [
            (str(i), f"{point.bottleneck:.6g}", f"{point.context:.0f}")
            for i, point in enumerate(self.certificate.front)
        ]

    def document(self) -> dict[str, Any]:
        """The same as the members of a JSON object."""
        return super().document() | {"front": self.standing}


def verify_serving(document: Value, limits: Limits) -> Verdict:
    """Check everything in a serving front.

    Raises
    ------
    InputError
        If this is none.
    OutOfTimeError
        If the time ends before all is checked.
    """
    stated = serving_from_document(document)
    try:
        faults = [*faults_of_chain(stated), *_faults(stated, Clock(limits.seconds))]
    except TooManyIdealsError as error:
        document.fail(f"it cannot be checked: {error}.")
    count = len(stated.front)
    return _FrontVerdict(stated, None, (), tuple(faults), f"{count} cut{'s' if count > 1 else ''}")


def _faults(stated: StatedServing, clock: Clock) -> Iterator[str]:
    graph = stated.instance.graph
    links = {(int(u), int(v)) for u, v in graph.edges}
    if any((v - 1, v) not in links for v in range(1, graph.n)):
        yield "instance.graph: a node does not read from the one before it, so that not all cuts are intervals"
        return
    alone = _of_kinds(stated)
    most = max(one.instance.platform.memory for one in alone)
    if most == math.inf or any(
        size > 0 and Fraction(size) * _MOST_TOKENS <= Fraction(most) for size in stated.token_bytes.tolist()
    ):
        yield f"instance.token_bytes: there is room for more than {_MOST_TOKENS} tokens, which cannot be stated exactly"
        return
    if not stated.front:
        yield "front: there is no cut; nothing is claimed"
        return
    if not 0 <= stated.answer < len(stated.front):
        yield f"answer: there is no cut {stated.answer} among {len(stated.front)}"
    if is_rated(stated) and links != {(v - 1, v) for v in range(1, graph.n)}:
        yield "instance.graph: a node is read by others than the next one, and there are rates between kinds"
        return
    shapes = [fault for i, point in enumerate(stated.front) if (fault := _misshapen(stated, point, f"front[{i}]"))]
    if shapes:
        yield from shapes
        return
    yield from faults_of_words(stated)
    stages = [list(stages_of(one, clock, still=is_rated(stated))) for one in alone]
    by_place = [{(stage.first, stage.end): stage for stage in own} for own in stages]
    truths = []
    for i, point in enumerate(stated.front):
        kinds = _kinds(stated, point)
        found = [by_place[t].get(place) for t, place in zip(kinds, _intervals(stated, point), strict=True)]
        held = [stage for stage in found if stage is not None]
        if len(held) < len(found) or not all(_allowed(stated, s, stage) for s, stage in enumerate(held)):
            yield f"front[{i}]: a stage does not fit into the memory, or breaks a constraint"
            return
        contexts = [context_of(alone[t], stage) for t, stage in zip(kinds, held, strict=True)]
        held = with_transfers(stated, held, kinds)
        yield from _faults_of_point(stated, point, held, contexts, f"front[{i}]")
        truths.append((max(stage.cost for stage in held), min(contexts)))
    for i, ((cost, context), (more, larger)) in enumerate(pairwise(truths)):
        if not (cost < more and context < larger):
            yield f"front[{i + 1}]: bottleneck and context do not both rise"
    if truths[0][1] < stated.context:
        yield f"front[0]: it holds {truths[0][1]:.0f} tokens, and the question asks for {stated.context}"
    least: float = stated.context
    for i, (cost, context) in enumerate(truths):
        if least < math.inf and _reaches(stated, stages, least, cost * (1 - ROUNDING), clock):
            yield f"front[{i}]: another cut is faster, and holds {least:.0f} tokens or more"
        least = context + 1
    if least < math.inf and _reaches(stated, stages, least, None, clock):
        yield f"front: another cut holds {least:.0f} tokens or more"


def _misshapen(stated: StatedServing, point: StatedPoint, place: str) -> str | None:
    n, k = stated.instance.graph.n, stated.instance.k
    rises = all(a <= b for a, b in pairwise(point.block))
    if len(point.block) != n or not rises or point.block[0] < 0 or point.block[-1] >= k:
        return f"{place}.block: it is no list of {n} blocks from 0 to {k - 1} that never fall"
    if len(point.stages) != k:
        return f"{place}.stages: there are {len(point.stages)} of {k}"
    if stated.instance.is_alike:
        return None if point.kind is None else f"{place}.kind: all devices are alike"
    fault = fault_of_devices(stated.instance, point.block, point.kind or ())
    return None if fault is None else f"{place}: {fault}"


def _of_kinds(stated: StatedServing) -> list[StatedServing]:
    """The question for devices of each kind alone; one if all are alike."""
    instance = stated.instance
    if instance.is_alike:
        return [stated]
    return [replace(stated, instance=instance.of_kind(t)) for t in range(instance.kinds)]


def _kinds(stated: StatedServing, point: StatedPoint) -> list[int]:
    """Number of the kind of each stage; 0 where it is empty."""
    if stated.instance.is_alike:
        return [0] * stated.instance.k
    names = [kind.name for kind in stated.instance.machines.kinds]
    return [0 if name is None else names.index(name) for name in point.kind or ()]


def _intervals(stated: StatedServing, point: StatedPoint) -> list[tuple[int, int]]:
    return list(pairwise(bisect_left(point.block, stage) for stage in range(stated.instance.k + 1)))


def _faults_of_point(
    stated: StatedServing, point: StatedPoint, held: list[Stage], contexts: list[float], place: str
) -> Iterator[str]:
    """The numbers of a cut against those that are computed here."""
    cost = max(stage.cost for stage in held)
    if not is_near(point.bottleneck, cost):
        yield unequal(f"{place}.bottleneck", point.bottleneck, as_float(cost))
    if point.context != min(contexts):
        yield unequal(f"{place}.context", point.context, min(contexts))
    rows = zip(held, contexts, point.stages, strict=True)
    for s, (stage, context, (weights, token, activations, own)) in enumerate(rows):
        first = sum(
            (Fraction(x) * min(1, Fraction(w) if w < math.inf else 1) for x, w in caches_of(stated, stage)), Fraction(0)
        )
        true = (stage.weights, first, stage.activations)
        if not all(map(is_near, (weights, token, activations), true)) or own != context:
            yield f"{place}.stages[{s}]: {(weights, token, activations, own)!r} are not what it holds"


def _allowed(stated: StatedServing, s: int, stage: Stage) -> bool:
    """Whether an interval may be stage s by the constraints, as they are written."""
    rules, graph = stated.instance.constraints, stated.instance.graph
    inside = range(stage.first, stage.end)
    start, after = graph.successors
    return (
        all(len({v in inside for v in group}) <= 1 for group in rules.together)
        and all(first <= s <= last for v, first, last in rules.windows if v in inside)
        and all(int(r) in inside for v in rules.uncut if v in inside for r in after[start[v] : start[v + 1]])
        and all(sum(v in inside for v in nodes) >= count for count, nodes in rules.at_least)
    )


def _reaches(
    stated: StatedServing, stages: list[list[Stage]], context: float, below: Fraction | None, clock: Clock
) -> bool:
    """Whether some cut has all stages below a cost, and room for so many tokens."""
    able_of_kinds: list[list[Stage]] = []
    for one, own in zip(_of_kinds(stated), stages, strict=True):
        able_of_kinds.append([])
        for stage in own:
            clock.raise_if_late()
            if (below is None or stage.cost < below) and holds(one, stage, int(context)):
                able_of_kinds[-1].append(stage)
    if not stated.instance.is_alike and stated.instance.rates is not None:
        n = stated.instance.graph.n
        rows: list[list[list[Fraction | None]]] = [[[None] * (n - i) for _ in stages] for i in range(n)]
        for t, own in enumerate(able_of_kinds):
            for stage in own:
                if stage.first < stage.end:
                    rows[stage.first][t][stage.end - stage.first - 1] = stage.cost
        return stages_lead_below(stated.instance, times_of_places(stated), rows.__getitem__, below, clock)
    if not stated.instance.is_alike:
        blocks: list[list[list[int]]] = [[[] for _ in stages] for _ in range(stated.instance.graph.n)]
        for t, own in enumerate(able_of_kinds):
            for stage in own:
                if stage.first < stage.end:
                    blocks[stage.first][t].append(stage.end)
        return blocks_lead_through(stated.instance, blocks, clock)
    (able,) = able_of_kinds
    ends = {0}
    for s in range(stated.instance.k):
        ends = {stage.end for stage in able if stage.first in ends and _allowed(stated, s, stage)}
        clock.raise_if_late()
    return stated.instance.graph.n in ends
