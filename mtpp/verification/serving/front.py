"""Check of serving fronts: cuts, their costs and capacities."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, groupby, pairwise
from operator import add
from typing import Any, NamedTuple

from instances.errors import printable
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray
from instances.json_files import Value
from instances.partitioning.stated import StatedPoint, StatedServing, serving_from_document
from mtpp.verification.partitioning.costs import fault_of_devices
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.partitioning.paths import blocks_lead_through, least_sum_of_stages, stages_lead_below
from mtpp.verification.serving.runtime_settings import faults_of_words
from mtpp.verification.verdict import (
    ROUNDING,
    Clock,
    Limits,
    UndecidedError,
    Verdict,
    as_float,
    faults_of_cost,
    is_near,
    unequal,
)

# The chain of a serving front, made a second time of the operators of its decoder.
#
# A node of the chain takes the time of its operators one after the other and holds their parameters. It needs room for
# the most that one of them reads and makes. Of their states, caches at the stated context, it holds the part that does
# not grow as parameters, of each batch in flight, and the rest grows by a token each, up to the window: which part and
# how far the file states.


_Tensors = Counter[tuple[int, tuple[int, ...]]]


def faults_of_chain(stated: StatedServing) -> Iterator[str]:
    """Yield all numbers of the chain that its operators contradict; none without operators."""
    source, chain = stated.source, stated.instance.graph
    if source is None or stated.context < 1:  # what is less is named elsewhere
        return
    operators, layer = source.operators, source.layer.tolist()
    if operators.time_unit != chain.time_unit:
        yield unequal("question.chain.graph.time_unit", chain.time_unit, operators.time_unit)
    if set(layer) != set(range(chain.n)):
        yield "question.decoder.layer: a node of the chain has no operator"
        return
    params, shared = _params(operators, layer, chain.n)
    fixed, states = [*map(Fraction, source.constant.tolist())], _sums(operators.state_bytes.tolist(), layer, chain.n)
    caches = [batches(stated) * size for size in fixed]
    columns = {
        **_works_of_kinds(stated, source.works, layer),
        "chain.graph.work": (chain.work.tolist(), _sums(operators.work.tolist(), layer, chain.n)),
        "chain.graph.param_bytes": (chain.param_bytes.tolist(), [*map(add, params, caches)]),
        "chain.graph.state_bytes": (chain.state_bytes.tolist(), [Fraction(0)] * chain.n),
        "chain.need": (stated.instance.needs.tolist(), _needs(operators, layer, chain.n)),
        "token_bytes": (
            stated.token_bytes.tolist(),
            [
                (state - still) / Fraction(min(stated.context, window)) if window > 0 else Fraction(0)
                for state, still, window in zip(states, fixed, stated.window.tolist(), strict=True)
            ],
        ),
    }
    for name, (claimed, true) in columns.items():
        for v, (value, sum_of_operators) in enumerate(zip(claimed, true, strict=True)):
            if not is_near(value, sum_of_operators):
                yield unequal(f"question.{name}[{v}]", value, as_float(sum_of_operators))
    for v, (state, still, window) in enumerate(zip(states, fixed, stated.window.tolist(), strict=True)):
        if window == 0 and state > still:
            yield f"question.window[{v}]: it is 0, and a cache of the operators grows"
    yield from _unequal_tensors(_tensors(chain, list(range(chain.n))), _tensors(operators, layer))
    if sorted((p.users, p.bytes) for p in chain.parameters) != shared:
        yield "question.chain.graph.parameters: they are not those that operators of several nodes share"


def _sums(values: list[float], layer: list[int], n: int) -> list[Fraction]:
    total = [Fraction(0)] * n
    for node, value in zip(layer, values, strict=True):
        total[node] += Fraction(value)
    return total


def _works_of_kinds(
    stated: StatedServing, works: FloatArray | None, layer: list[int]
) -> dict[str, tuple[list[float], list[Fraction]]]:
    """Stated work of each layer on each kind, and its sum over operators."""
    if works is None or stated.instance.is_alike:
        return {}
    rows = zip(stated.instance.work.tolist(), works.tolist(), strict=True)
    n = stated.instance.graph.n
    return {f"chain.kinds[{t}].works": (row, _sums(column, layer, n)) for t, (row, column) in enumerate(rows)}


def _params(operators: ComputationGraph, layer: list[int], n: int) -> tuple[list[Fraction], list[tuple[object, float]]]:
    """Parameters of each node alone, and parameters shared by nodes."""
    params, shared = _sums(operators.param_bytes.tolist(), layer, n), []
    for parameter in operators.parameters:
        users = tuple(sorted({layer[v] for v in parameter.users}))
        if len(users) == 1:
            params[users[0]] += Fraction(parameter.bytes)
        elif users:
            shared.append((users, float(parameter.bytes)))
    return params, sorted(shared)


def _needs(operators: ComputationGraph, layer: list[int], n: int) -> list[Fraction]:
    """Largest number of bytes read and made by an operator of each node."""
    touched = [Fraction(0)] * operators.n
    tensors = operators.tensors
    start, readers = tensors.start.tolist(), tensors.consumers.tolist()
    for t, (producer, size) in enumerate(zip(tensors.producer.tolist(), tensors.bytes.tolist(), strict=True)):
        for v in (producer, *readers[start[t] : start[t + 1]]):
            touched[v] += Fraction(size)
    needs = [Fraction(0)] * n
    for node, size in zip(layer, touched, strict=True):
        needs[node] = max(needs[node], size)
    return needs


def _tensors(graph: ComputationGraph, place: list[int]) -> _Tensors:
    """Bytes of tensors that leave a layer, by (layer of the producer, layers of the readers)."""
    tensors_by_place: _Tensors = Counter()
    tensors = graph.tensors
    start, readers = tensors.start.tolist(), tensors.consumers.tolist()
    for t, (producer, size) in enumerate(zip(tensors.producer.tolist(), tensors.bytes.tolist(), strict=True)):
        home = place[producer]
        reading = tuple(sorted({place[v] for v in readers[start[t] : start[t + 1]]} - {home}))
        if reading:
            tensors_by_place[home, reading] += Fraction(size)  # type: ignore[assignment]
    return tensors_by_place


def _unequal_tensors(claimed: _Tensors, true: _Tensors) -> Iterator[str]:
    for home, reading in claimed.keys() | true.keys():
        value, sum_of_operators = Fraction(claimed[home, reading]), Fraction(true[home, reading])
        if not is_near(as_float(value), sum_of_operators):
            where = f"from node {home} to {', '.join(map(str, reading))}"
            yield unequal(f"question.chain.graph: bytes {where}", as_float(value), as_float(sum_of_operators))


# Stages of a serving front in exact numbers: what they cost, hold and have room for.


def batches(stated: StatedServing) -> int:
    """Number of batches whose caches each stage holds."""
    return 1 if stated.in_flight is None else stated.in_flight


def time_a_batch(stated: StatedServing, costs: Sequence[Fraction]) -> Fraction:
    """Time from batch to batch: that of the slowest stage or, if larger, the sum divided by batches in flight."""
    return max(costs) if stated.in_flight is None else max(max(costs), sum(costs, Fraction(0)) / stated.in_flight)


class LayerRange(NamedTuple):
    """Cost and memory of an interval of nodes on a device of a kind."""

    cost: Fraction  # in the time unit of the work; where there are rates for pairs of kinds, without transfers
    weights: Fraction  # bytes
    activations: Fraction  # bytes
    room: Fraction  # bytes for caches
    first: int  # node
    end: int


def passing_bytes(exact: ExactInstance) -> list[int]:
    """(n + 1,) bytes that cross each position before, between and after the nodes of a row [`exact.byte_unit`]."""
    passing = [0] * (exact.n + 1)
    for producer, readers, size in exact.tensors:
        passing[producer + 1] += size if readers else 0
    return passing


def with_transfers(exact: ExactInstance, stages: list[LayerRange], kinds: list[int]) -> list[LayerRange]:
    """Add transfer times to stage costs if pairs of kinds have rates."""
    if not exact.is_rated:
        return stages
    passing, costs = passing_bytes(exact), [stage.cost for stage in stages]
    filled = [s for s, stage in enumerate(stages) if stage.first < stage.end]
    for s, t in pairwise(filled):
        time = passing[stages[t].first] * exact.receiving[kinds[s]][kinds[t]]
        costs[s] += time
        costs[t] += time
    return [stage._replace(cost=cost) for stage, cost in zip(stages, costs, strict=True)]


def stages_of(stated: StatedServing, exact: ExactInstance, t: int, clock: Clock) -> Iterator[LayerRange]:
    """Yield all intervals that fit on kind t without caches, with their costs, by the first node, the shorter first."""
    graph, buffer = stated.instance.graph, stated.instance.activation_buffer
    params, needs = [Fraction(size) for size in graph.param_bytes.tolist()], stated.instance.needs.tolist()
    shared = list[list[tuple[Fraction, int]]]([] for _ in params)  # by user: bytes, and the user before or -1
    for parameter in graph.parameters:
        for before, user in pairwise([-1, *sorted(set(parameter.users))]):
            shared[user].append((Fraction(parameter.bytes), before))
    tensors = [(producer, sorted(readers), size) for producer, readers, size in exact.tensors if not exact.is_rated]
    touching = [[tensor for tensor in tensors if v == tensor[0] or v in tensor[1]] for v in range(exact.n)]
    memory = Fraction(stated.instance.machines.kinds[t].memory)
    for first in range(exact.n + 1):
        yield LayerRange(Fraction(0), Fraction(0), Fraction(0), memory, first, first)
        weights, work, moved = Fraction(0), 0, 0
        activations = Fraction(0 if buffer is None else buffer)
        for v in range(first, exact.n):
            clock.raise_if_late()
            weights += params[v] + sum(size for size, before in shared[v] if before < first)
            activations = max(activations, Fraction(needs[v])) if buffer is None else activations
            if weights + activations > memory:
                break  # longer ones hold no less
            work += exact.work[t][v]
            for producer, readers, size in touching[v]:
                moved += size * (_is_cut(producer, readers, first, v + 1) - _is_cut(producer, readers, first, v))
            room = memory - weights - activations
            yield LayerRange(exact.cost(t, work, moved), weights, activations, room, first, v + 1)


def _is_cut(producer: int, readers: list[int], first: int, end: int) -> bool:
    """Whether of the producer and the sorted readers of a tensor some lie in an interval and some outside."""
    count = _inside(readers, first, end)
    return count < len(readers) if first <= producer < end else count > 0


def _inside(nodes: list[int], first: int, end: int) -> int:
    """Number of the sorted nodes that lie in an interval."""
    return bisect_left(nodes, end) - bisect_left(nodes, first)


def caches_of(stated: StatedServing, stage: LayerRange) -> list[tuple[float, float]]:
    """Cache bytes per token of each node, and the number of tokens after which it stops growing."""
    return [(stated.token_bytes[v], stated.window[v]) for v in range(stage.first, stage.end)]


def resident_bytes(stated: StatedServing, caches: list[tuple[float, float]], context: int) -> list[Fraction]:
    """Bytes of the first 0, 1, … caches of all batches in flight at a context."""
    layer_bytes = (Fraction(x) * (context if w >= context else Fraction(w)) for x, w in caches)
    return [batches(stated) * size for size in accumulate(layer_bytes, initial=Fraction(0))]


def holds(stated: StatedServing, stage: LayerRange, context: int) -> bool:
    """Whether a stage has room for a context."""
    return resident_bytes(stated, caches_of(stated, stage), context)[-1] <= stage.room


def context_of(stated: StatedServing, stage: LayerRange) -> float:
    """Largest context for which a stage has room, by bisection; infinite if the cache stops growing."""
    caches = caches_of(stated, stage)
    final = max((math.ceil(w) for x, w in caches if x > 0 and w < math.inf), default=0)
    if not any(x > 0 and w == math.inf for x, w in caches) and holds(stated, stage, final):
        return math.inf
    above = 1
    while holds(stated, stage, above):
        above *= 2
    below = 0
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if holds(stated, stage, middle) else (below, middle)
    return float(below)


# Check of a serving front: cost and context of its cuts, and that no other cut dominates one of them.
#
# Of all stages, intervals of the chain, costs and contents are computed in exact numbers. That no cut is faster and
# holds more is then a question of which ends of stages can be reached from the first node: in as many steps as there
# are stages, each over an interval that is fast enough and has room enough.


# More tokens than this are not counted one by one by floats, in which contexts are stated.
_MOST_TOKENS = 2**53


@dataclass(frozen=True, repr=False)
class _FrontVerdict(Verdict):
    """Verdict on a front, all of whose cuts are proved."""

    @property
    def rests_on_trust(self) -> bool:
        """Whether the file lacks the operators behind its chain; the cuts are proved in any case."""
        assert isinstance(self.certificate, StatedServing)
        return self.certificate.source is None

    @property
    def proved_of_all(self) -> str:
        """The statement on all cuts that is proved here."""
        return "" if self.faults else "no cut is faster and holds more context than one of these"

    def _standing(self) -> list[tuple[str, str]]:
        if self.faults:
            return super()._standing()
        lines = [("front", f"{self.standing}, computed anew; that no cut beats one is proved again")]
        assert isinstance(self.certificate, StatedServing)
        if self.certificate.in_flight is None:
            stages = self.certificate.instance.k
            lines.append(("caches", f"contexts count those of one batch in flight, and the speed needs up to {stages}"))
        if self.rests_on_trust:
            lines.append(("TRUSTED", "need and token_bytes: the file does not hold the operators of the decoder"))
        return lines

    def table(self) -> list[tuple[str, ...]]:
        """Header, and a row for each cut."""
        assert isinstance(self.certificate, StatedServing)
        rows: list[tuple[str, ...]] = [
            ("cut", f"bottleneck [{printable(self.certificate.instance.time_unit)}]", "context")
        ]
        return rows + [
            (str(i), f"{point.bottleneck:.6g}", f"{point.context:.0f}")
            for i, point in enumerate(self.certificate.front)
        ]

    def document(self) -> dict[str, Any]:
        """The verdict as JSON members."""
        return super().document() | {"front": self.standing}


def verify_serving(document: Value, limits: Limits) -> Verdict:
    """Check all that can be checked in a serving front.

    Raises
    ------
    InputError
        If the document is no serving front.
    OutOfTimeError
        If the time ends before all is checked.
    """
    stated = serving_from_document(document)
    try:
        faults = [*faults_of_chain(stated), *_faults(stated, Clock(limits.seconds))]
    except UndecidedError as error:
        document.fail(f"it cannot be checked: {error}.")
    count = len(stated.front)
    return _FrontVerdict(stated, None, (), tuple(faults), f"{count} cut{'s' if count > 1 else ''}")


def _faults(stated: StatedServing, clock: Clock) -> Iterator[str]:
    if (fault := _unusable(stated)) is not None:
        yield fault
        return
    if not 0 <= stated.chosen < len(stated.front):
        yield f"answer.chosen: there is no cut {stated.chosen} among {len(stated.front)}"
    exact = ExactInstance.of(stated.instance)
    points = [(point, f"answer.front[{i}]") for i, point in enumerate(stated.front)]
    shapes = [fault for point, place in points if (fault := _misshapen(stated, point, place))]
    if shapes:
        yield from shapes
        return
    yield from faults_of_words(stated)
    stages = [list(stages_of(stated, exact, t, clock)) for t in range(len(exact.counts))]
    by_place = [{(stage.first, stage.end): stage for stage in row} for row in stages]
    truths, rules = [], _Rules(stated)
    for point, place in points:
        kinds = _kinds(stated, point)
        of_places = [by_place[t].get(layers) for t, layers in zip(kinds, _intervals(stated, point), strict=True)]
        cut = [stage for stage in of_places if stage is not None]
        if len(cut) < len(of_places) or not all(rules.allow(s, stage.first, stage.end) for s, stage in enumerate(cut)):
            yield f"{place}: a stage does not fit into the memory, or breaks a constraint"
            return
        contexts = [context_of(stated, stage) for stage in cut]
        cut = with_transfers(exact, cut, kinds)
        yield from _faults_of_point(stated, point, cut, contexts, place)
        truths.append((time_a_batch(stated, [stage.cost for stage in cut]), min(contexts)))
    yield from faults_of_cost(stated.cost, truths[0][0])
    if stated.bound is not None or stated.ratio is not None:
        yield "bound, ratio: a front has none"
    yield from _faults_of_front(stated, exact, stages, truths, clock)


def _unusable(stated: StatedServing) -> str | None:
    """Why nothing about a front can be checked; None if it can."""
    instance, graph = stated.instance, stated.instance.graph
    row = {(v - 1, v) for v in range(1, graph.n)}
    links = {(int(u), int(v)) for u, v in graph.edges}
    largest = max(kind.memory for kind in instance.machines.kinds)
    sizes = [Fraction(size) for size in stated.token_bytes.tolist() if size > 0]
    if not row <= links:
        return "question.chain.graph: a node does not read from the one before it, so that not all cuts are intervals"
    if largest == math.inf or any(size * _MOST_TOKENS <= Fraction(largest) for size in sizes):
        return f"question.token_bytes: there is room for over {_MOST_TOKENS} tokens, which cannot be stated exactly"
    if instance.rates is not None and links != row:
        return "question.chain.graph: a node is read by others than the next one, and there are rates between kinds"
    return None if stated.front else "answer.front: there is no cut; nothing is claimed"


def _faults_of_front(
    stated: StatedServing,
    exact: ExactInstance,
    stages: list[list[LayerRange]],
    truths: list[tuple[Fraction, float]],
    clock: Clock,
) -> Iterator[str]:
    """Yield cuts that another cut beats, or may beat, by true times per batch and contexts (`truths`)."""
    for i, ((cost, context), (more, larger)) in enumerate(pairwise(truths)):
        if not (cost < more and context < larger):
            yield f"answer.front[{i + 1}]: time a batch and context do not both rise"
    if truths[0][1] < stated.context:
        yield f"answer.front[0]: it holds {truths[0][1]:.0f} tokens, and the question asks for {stated.context}"
    least: float = stated.context
    for i, (cost, context) in enumerate(truths):
        if least < math.inf and _reaches(stated, exact, stages, least, cost * (1 - ROUNDING), clock):
            yield f"answer.front[{i}]: another cut is faster, and holds {least:.0f} tokens or more"
        least = context + 1
    if least < math.inf and _reaches(stated, exact, stages, least, None, clock):
        yield f"answer.front: another cut holds {least:.0f} tokens or more"


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


def _kinds(stated: StatedServing, point: StatedPoint) -> list[int]:
    """Number of the kind of each stage; 0 where it is empty."""
    if stated.instance.is_alike:
        return [0] * stated.instance.k
    names = [kind.name for kind in stated.instance.machines.kinds]
    return [0 if name is None else names.index(name) for name in point.kind or ()]


def _intervals(stated: StatedServing, point: StatedPoint) -> list[tuple[int, int]]:
    return list(pairwise(bisect_left(point.block, stage) for stage in range(stated.instance.k + 1)))


def _faults_of_point(
    stated: StatedServing, point: StatedPoint, cut: list[LayerRange], contexts: list[float], place: str
) -> Iterator[str]:
    """Yield numbers of a cut that differ from those computed here."""
    cost = max(stage.cost for stage in cut)
    if not is_near(point.bottleneck, cost):
        yield unequal(f"{place}.bottleneck", point.bottleneck, as_float(cost))
    if point.context != min(contexts):
        yield unequal(f"{place}.context", point.context, min(contexts))
    rows = zip(cut, contexts, point.stages, strict=True)
    for s, (stage, context, (weights, token, activations, stated_context)) in enumerate(rows):
        caches = caches_of(stated, stage)
        first = sum((Fraction(x) * min(1, Fraction(w) if w < math.inf else 1) for x, w in caches), Fraction(0))
        true = (stage.weights, batches(stated) * first, stage.activations)
        if not all(map(is_near, (weights, token, activations), true)) or stated_context != context:
            yield f"{place}.stages[{s}]: {(weights, token, activations, stated_context)!r} are not what it holds"


class _Rules:
    """The constraints of a question, with sorted lists of nodes, so that those within an interval are soon counted."""

    def __init__(self, stated: StatedServing) -> None:
        rules = stated.instance.constraints
        start, after = stated.instance.graph.successors
        readers = [(v, after[start[v] : start[v + 1]].tolist()) for v in rules.uncut]
        self.windows = rules.windows
        self.together = [sorted(set(group)) for group in rules.together]
        self.uncut = [(v, min(nodes), max(nodes)) for v, nodes in readers if nodes]
        self.at_least = [(count, sorted(nodes)) for count, nodes in rules.at_least]

    def allow(self, s: int, first: int, end: int) -> bool:
        """Whether stage s may be an interval."""
        return (
            all(_inside(group, first, end) in (0, len(group)) for group in self.together)
            and all(low <= s <= high for v, low, high in self.windows if first <= v < end)
            and all(first <= low and high < end for v, low, high in self.uncut if first <= v < end)
            and all(_inside(nodes, first, end) >= count for count, nodes in self.at_least)
        )


def _reaches(
    stated: StatedServing,
    exact: ExactInstance,
    stages: list[list[LayerRange]],
    context: float,
    below: Fraction | None,
    clock: Clock,
) -> bool:
    """Whether some cut has room for a context and takes less than `below` per batch."""
    n, waits = exact.n, stated.waits
    caches = resident_bytes(
        stated, [*zip(stated.token_bytes.tolist(), stated.window.tolist(), strict=True)], int(context)
    )
    able: list[list[LayerRange]] = [[] for _ in stages]
    for t, row in enumerate(stages):
        for _, begun in groupby(row, lambda stage: stage.first):
            clock.raise_if_late()
            of_first = list(begun)  # longer ones hold more, and have less room
            count = bisect_left(of_first, True, key=lambda stage: caches[stage.end] - caches[stage.first] > stage.room)
            able[t] += [stage for stage in of_first[:count] if below is None or stage.cost < below]
    if stated.instance.is_alike:
        unit, rules = exact.scales[0].unit, _Rules(stated)
        steps: list[list[tuple[LayerRange, int]]] = [[] for _ in range(n + 1)]
        for stage in able[0]:
            steps[stage.first].append((stage, int(stage.cost / unit) if waits else 0))
        sums = {0: 0}
        for s in range(exact.k):
            longer = dict[int, int]()
            for first, total in sums.items():
                for stage, cost in steps[first]:
                    if rules.allow(s, first, stage.end):
                        longer[stage.end] = min(longer.get(stage.end, total + cost), total + cost)
            sums = longer
            clock.raise_if_late()
        return n in sums and (not waits or below is None or sums[n] * unit < below * batches(stated))
    costs: list[list[list[Fraction | None]]] = [[[None] * (n - i) for _ in stages] for i in range(n)]
    blocks: list[list[list[int]]] = [[[] for _ in stages] for _ in range(n)]
    for t, row in enumerate(able):
        for stage in row:
            if stage.first < stage.end:
                costs[stage.first][t][stage.end - stage.first - 1] = stage.cost
                blocks[stage.first][t].append(stage.end)
    if waits and below is not None:
        least = least_sum_of_stages(exact, passing_bytes(exact), costs.__getitem__, below, clock)
        return least is not None and least < below * batches(stated)
    if exact.is_rated:
        return stages_lead_below(exact, passing_bytes(exact), costs.__getitem__, below, clock)
    return blocks_lead_through(exact, blocks, clock)
