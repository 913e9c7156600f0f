r"""Upper bounds on the flow, stated as least times per request: by shared layers, ends, weights of devices, and prices.

*shared-layers*: the devices that carry a flow of F hold each layer with F together, and no device carries more, so

.. math:: L F \le \sum_i \max_c c \min(T_i(c), F).

The right side over F does not grow with F, so that the largest such F bounds the flow. *ends*: all that passes leaves
the source through a link to a device, and enters the sink from one, where no device carries more than it ever can.

*patterns* and *patterns-with-links*: the least F that weights exclude, by bisection; *patterns-with-hubs* where few
devices link all others. *prices*: the least F that prices of devices and links exclude, where the program is small.

**Prices of devices and links, which every request pays on its way.**

No device carries more than F, nor does a link. A link from device u to v is of use at the l layers that u ends with and
v begins behind: let a request on it pay :math:`a_{uvl} + b_{uvl}`, the first for what u sends, the second for what v
takes. A device that holds layers from s to e pays, for all that its links may carry there,

.. math:: p_{ise} = \sum_v a_{ive} \min(r_{iv}, F) + \sum_u b_{uis} \min(r_{ui}, F),

at most its price :math:`\pi_i`, and a request that passes it :math:`(\pi_i - p_{ise}) / \min(T_i(e - s), F)`: together
no more than :math:`\pi_i`. Where each way from the source to the sink, by any layers of the devices on it, costs D or
more, and :math:`\sum_i \pi_i < F D`, F is impossible. The prices are duals of the linear program that lets a device
hold parts of several intervals, and its links carry such a part at the ends of each.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import scipy

from instances import Bound, Result
from instances.deadline import Deadline, Stopwatch
from instances.flow.answer import FlowAnswer
from instances.flow.problem import SINK, SOURCE, FlowInstance
from instances.graph.tensors import FloatArray
from mtpp_models.flow.enumeration import alike_devices, enumerate_above, is_small
from mtpp_models.flow.weights import Hubs, exclude

# Columns of the largest program without shares, and what rounding may take, also of a flow stated a little larger.
_MOST_COLUMNS, _ROUNDING = 2_000, 1e-7
# Seconds of a program.
_LEAST, _MOST = 1e-3, 1e6


class Prices(NamedTuple):
    """Dual prices of devices and links that prove that a flow is impossible."""

    devices: FloatArray  # (n,) requests/s
    links: FloatArray  # (2, n + 2, n + 2, L + 1): a and b of links by their ends, at each number of layers


class _Program(NamedTuple):
    """Columns of the linear program of flows: tail and head of each arc, and the device or link it uses."""

    tail: list[int]  # number of a node: (device, layers done, before or behind the device); -1 for the source
    head: list[int]  # the same; -1 for the sink
    device: list[tuple[int, int]]  # device and number of layers, for the first columns
    link: list[tuple[int, int]]  # devices at the ends of the link, for the other columns


def has_prices(instance: FlowInstance) -> bool:
    """Whether the linear program for prices is small enough."""
    ways = (instance.layers + 1 - np.arange(instance.layers + 1))[None] * (instance.capacity > 0)
    links = int((instance.rates[: instance.n, : instance.n] > 0).sum())
    return int(ways.sum(axis=1)[instance.kind].sum()) + links * (instance.layers - 1) <= _MOST_COLUMNS


def find_prices(instance: FlowInstance, flow: float, deadline: Deadline) -> Prices | None:
    """Prices that prove that this flow [requests/s] is impossible; None if the linear program yields none in time."""
    if deadline.passed:
        return None
    n, layers, program = instance.n, instance.layers, _program(instance)
    capacity, rates = np.minimum(instance.capacity, flow)[instance.kind], np.minimum(instance.rates, flow)
    matrix, link_rows = _limits(instance, program, capacity, rates)
    passing, tail, head = len(program.tail), np.array(program.tail), np.array(program.head)
    columns, width = np.arange(passing), matrix.shape[1]
    kept = [(end[end >= 0], columns[end >= 0], sign) for end, sign in ((tail, -1.0), (head, 1.0))]
    places, columns_kept = (np.concatenate(arrays) for arrays in zip(*(row[:2] for row in kept), strict=True))
    signs = np.concatenate([np.full(len(row[0]), row[2]) for row in kept])
    conserved = scipy.sparse.coo_array((signs, (places, columns_kept)), shape=(2 * n * (layers + 1), width))
    seconds = min(max(deadline.left, _LEAST), _MOST)
    program_of = partial(scipy.optimize.linprog, method="highs", options={"time_limit": seconds})
    gain, limits = np.zeros(width), (np.arange(matrix.shape[0]) < n).astype(np.float64)
    gain[:passing] = -(tail < 0).astype(np.float64)
    answer = program_of(gain, matrix, limits, conserved.tocsr(), np.zeros(conserved.shape[0]))
    if answer.status != 0:
        return None
    duals = np.maximum(0.0, -answer.ineqlin.marginals)
    links = np.zeros((2, n + 2, n + 2, layers + 1))
    for row, place in link_rows:
        links[place] = duals[row]
    ends = _paid_by_ends(rates, links)
    largest = [max((ends[i, a, a + c] for c, a in _intervals(row)), default=0.0) for i, row in enumerate(capacity)]
    prices = Prices(np.maximum(duals[:n], np.array(largest) * (1 + _ROUNDING)), links)
    paid = float(prices.devices.sum())
    return prices if paid < flow * _cheapest(instance, capacity, prices, ends) * (1 - _ROUNDING) else None


def _intervals(capacity: FloatArray) -> Iterator[tuple[int, int]]:
    """Pairs (number of layers, first layer) of all intervals that a device with these capacities may hold."""
    return ((c, a) for c in np.flatnonzero(capacity).tolist() for a in range(len(capacity) - c))


def _limits(
    instance: FlowInstance, program: _Program, capacity: FloatArray, rates: FloatArray
) -> tuple[Any, list[tuple[int, tuple[int, int, int, int]]]]:
    """Sparse matrix of the rows for devices and links, and for each link row its index in `Prices.links`.

    The columns are those of `program`, followed by the share of each interval of layers.
    """
    n, layers, placed, passing = instance.n, instance.layers, len(program.device), len(program.tail)
    entries, link_rows, rows = list[tuple[int, int, float]](), list[tuple[int, tuple[int, int, int, int]]](), n + placed
    ends: tuple[dict[tuple[int, int], list[int]], ...] = (defaultdict(list), defaultdict(list))
    for k, (i, c) in enumerate(program.device):
        entries += [(i, passing + k, 1.0), (n + k, k, 1.0), (n + k, passing + k, -capacity[i, c])]
        ends[0][i, program.head[k] % (layers + 1)].append(passing + k)
        ends[1][i, program.tail[k] % (layers + 1)].append(passing + k)
    for k, (u, v) in enumerate(program.link, placed):
        done = program.tail[k] % (layers + 1) if program.tail[k] >= 0 else 0
        for side, device in enumerate((u, v)):
            if device < n:
                entries.append((rows, k, 1.0))
                entries += [(rows, column, -rates[u, v]) for column in ends[side][device, done]]
                link_rows.append((rows, (side, u, v, done)))
                rows += 1
    row, column, value = zip(*entries, strict=True)
    return scipy.sparse.coo_array((value, (row, column)), shape=(rows, passing + placed)).tocsr(), link_rows


def _paid_by_ends(rates: FloatArray, links: FloatArray) -> FloatArray:
    """(n, L + 1, L + 1) payments p_ise (see the module) for the links of device i with layers from s to e."""
    sent, taken = (links * rates[None, :, :, None]).sum(axis=2)[0], (links * rates[None, :, :, None]).sum(axis=1)[1]
    paid: FloatArray = (taken[:, :, None] + sent[:, None, :])[:-2]
    return paid


def _program(instance: FlowInstance) -> _Program:
    """The columns of the linear program: each interval of layers of a device, and each link after l layers."""
    n, layers, program = instance.n, instance.layers, _Program([], [], [], [])

    def before(i: int, done: int) -> int:
        return i * (layers + 1) + done

    def behind(i: int, done: int) -> int:
        return (n + i) * (layers + 1) + done

    def add(tail: int, head: int) -> None:
        program.tail.append(tail)
        program.head.append(head)

    for i, t in enumerate(instance.kind.tolist()):
        for c in np.flatnonzero(instance.capacity[t]).tolist():
            for begin in range(layers - c + 1):
                add(before(i, begin), behind(i, begin + c))
                program.device.append((i, c))
    for u, v in np.argwhere(instance.rates > 0).tolist():
        if u == n + SOURCE and v < n:
            add(-1, before(v, 0))
            program.link.append((u, v))
        elif v == n + SINK and u < n:
            add(behind(u, layers), -1)
            program.link.append((u, v))
        elif u < n and v < n:
            for done in range(1, layers):
                add(behind(u, done), before(v, done))
                program.link.append((u, v))
    return program


def _cheapest(instance: FlowInstance, capacity: FloatArray, prices: Prices, ends: FloatArray) -> float:
    """Price of the cheapest path from the source to the sink."""
    n, layers = instance.n, instance.layers
    link = np.where((instance.rates > 0)[:, :, None], prices.links.sum(axis=0), np.inf)
    before, behind = np.full((n, layers + 1), np.inf), np.full((n, layers + 1), np.inf)
    before[:, 0] = link[n + SOURCE, :n, 0]
    for done in range(layers):
        if done > 0:
            before[:, done] = (behind[:, done, None] + link[:n, :n, done]).min(axis=0)
        for c in range(1, layers - done + 1):
            part = np.full(n, np.inf)
            rest = prices.devices - ends[:, done, done + c]
            np.divide(rest, capacity[:, c], out=part, where=capacity[:, c] > 0)
            behind[:, done + c] = np.minimum(behind[:, done + c], before[:, done] + part)
    return float((behind[:, layers] + link[:n, n + SINK, layers]).min())


# Relative: what a flow is raised by before it is stated, and how near to the best flow bisection ends.
_SAFE, _CLOSE = 4e-9, 2e-5
# The same of programs that take long.
_NEAR = 2e-3
_STEPS, _SLACK = 60, 1e-9
# A flow below this part of the largest capacity is next to nothing.
_NOTHING = 1e-6

W = TypeVar("W")


def shared_layers(instance: FlowInstance) -> float:
    """Upper bound on the flow: every layer must be carried by some devices; links have no limits [requests/s]."""
    capacity = np.array(instance.capacity[instance.kind])
    layers = np.arange(instance.layers + 1)
    low, high = 0.0, float((capacity * layers).max(axis=1).sum() / instance.layers)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        # Where the layers are just enough, both sides are the same for many flows, but for rounding.
        carried = float((np.minimum(capacity, middle) * layers).max(axis=1).sum())
        if carried >= instance.layers * middle * (1 - _SLACK):
            low = middle
        else:
            high = middle
    return high * (1 + _SAFE)


def ends(instance: FlowInstance) -> float:
    """Upper bound on the flow from the links of the source, and of the sink [requests/s]."""
    n, fastest = instance.n, instance.capacity.max(axis=1)[instance.kind]
    sides = instance.rates[n + SOURCE, :n], instance.rates[:n, n + SINK]
    return min(float(np.minimum(side, fastest).sum()) for side in sides) * (1 + _SAFE)


def bound_flow(
    instance: FlowInstance,
    start: FlowAnswer | None = None,
    deadline: Deadline | None = None,
    tell: Callable[[str, float], None] = lambda method, flow: None,
) -> list[Result[FlowInstance, FlowAnswer]]:
    """Lower bounds on the time per request, the quickest method first; a better start gives better bounds.

    Parameters
    ----------
    start : FlowAnswer, optional
        A known answer; flows below its own are not tested.
    tell : callable
        Called with each method and the upper bound on the flow that it proved [requests/s].
    """
    deadline, watch = deadline or Deadline(), Stopwatch()
    bound = shared_layers(instance)
    results = [_result("shared-layers", instance, bound, {}, watch)]
    tell("shared-layers", bound)
    if (through := ends(instance)) < bound:
        bound = through
        results.append(_result("ends", instance, bound, {}, watch))
        tell("ends", bound)
    least, nothing = 0.0 if start is None else start.flow, _NOTHING * float(instance.capacity.max())

    def lowered(
        method: str, excluded: Callable[[float], W | None], low: float, high: float, close: float, flow: float
    ) -> tuple[float, W | None]:
        """Least flow above `low` that a method excludes, by bisection, and its proof; (`high`, None) without a proof.

        `flow` is the first value tested, `close` the relative gap at which bisection ends.
        """
        proof = None
        while high > low * (1 + close) and high > nothing and not deadline.passed:
            excluding = excluded(flow)
            if excluding is None:
                low = flow
            else:
                high, proof = flow, excluding
                tell(method, high)
            flow = (low * high) ** 0.5 if low > 0 else high / 2
        return high, proof

    begin = least * (1 + _CLOSE) if least > 0 else bound / 2  # the best flow may be the largest there is
    high, best = lowered("patterns", lambda flow: exclude(instance, flow, deadline), least, bound, _CLOSE, begin)
    if best is not None:
        method = "patterns-with-links" if best.has_links else "patterns"
        results.append(
            _result(method, instance, high * (1 + _SAFE), {"weights": best.weights, "second": best.second}, watch)
        )
    hubs, low = Hubs(instance), least or high / 2
    if hubs.are_of_use:
        high, weights = lowered(
            "patterns-with-hubs", lambda flow: hubs.exclude(flow, deadline), low, high, _NEAR, (low * high) ** 0.5
        )
        if weights is not None:
            witness: dict[str, object] = {"hubs": [instance.devices[i] for i in hubs.devices], "weights": weights}
            results.append(_result("patterns-with-hubs", instance, high * (1 + _SAFE), witness, watch))
    if has_prices(instance):
        low = least or high / 8
        high, prices = lowered(
            "prices", lambda flow: find_prices(instance, flow, deadline), low, high, _NEAR, low * (1 + _NEAR)
        )
        if prices is not None:
            names = [*instance.devices, "source", "sink"]
            rows = [
                [names[u], names[v], done, *prices.links[:, u, v, done].tolist()]
                for u, v, done in np.argwhere(prices.links.sum(axis=0) > 0).tolist()
            ]
            paid = [
                [name, price] for name, price in zip(instance.devices, prices.devices.tolist(), strict=True) if price
            ]
            witness = {"devices": paid, "links": rows}
            results.append(_result("prices", instance, high * (1 + _SAFE), witness, watch))
    return results


def _result(
    method: str, instance: FlowInstance, flow: float, witness: dict[str, object], watch: Stopwatch
) -> Result[FlowInstance, FlowAnswer]:
    bound = Bound(1 / flow if flow > 0 else 0.0, method, True, witness)
    return Result(method, instance, None, bound, watch.seconds(bound=watch.passed))


# The most that a decoder serves with any number of batches in flight and any tick, by branch and bound over both.
#
# A bracket is a number of batches in flight and ticks from a first to a last one. What each device serves in it at
# the most makes a question without steps; where that lets no more pass than the best flow, the bracket is closed, and
# else cut in two. Of a single tick it is the question itself.
#
# Devices may be several groups, each with batches in flight and a tick of its own, and no request passes from one to
# another. So the most that passes is the largest sum over disjoint groups of what passes each.


# Relative: what is no more than the best flow, by how much more weights exclude, and what is stated is raised by.
_EQUAL, _CLOSE_TICK, _SAFE_TICK = 1e-9, 2e-5, 4e-9
# Branches over the layers of devices for a bracket, and those that a bracket counts as.
_BRANCHES, _BRACKET = 50_000, 100
# Flows that weights are looked for, of a single tick.
_HALVES = 12
# Groups that differ in their numbers of devices of each family, at the most.
_MOST_GROUPS = 64

Counts: TypeAlias = tuple[int, ...]


class Bracket(NamedTuple):
    """A number of batches in flight, a range of ticks (lengths of a step), and an upper bound on the flow there."""

    order: float  # minus the upper bound on the flow, so that heaps pop the largest first [requests/s]
    in_flight: int  # number of batches in flight
    first: int  # index of the first tick among those for this number of batches
    last: int
    method: str  # method of the bound
    weights: list[float]  # of the kinds of devices, where these exclude larger flows; else empty


class Group(NamedTuple):
    """Upper bound on the flow through a group of devices with the same tick (length of a step)."""

    flow: float  # requests/s
    brackets: list[list[Any]]  # brackets that together exclude larger flows, as members of a file
    answer: FlowAnswer | None  # the best answer met by branch and bound
    solved: bool  # whether branch and bound was run


def bound_ticks(
    instance: FlowInstance, branches: int, start: FlowAnswer | None = None, deadline: Deadline | None = None
) -> Result[FlowInstance, FlowAnswer] | None:
    """A bound on the time of a request, and the best answer; None if there are too many kinds of groups.

    Take the division of the devices into groups with the largest sum of bounds, and solve its largest
    unsolved group; repeat until all its groups are solved, or the sum is no larger than the best flow.

    Parameters
    ----------
    branches : int
        Limit on the branches over layers of devices, for all brackets together.
    start : FlowAnswer, optional
        A known answer; the result is no worse.
    """
    assert instance.steps is not None
    deadline, watch, best = deadline or Deadline(), Stopwatch(), start
    if (reason := instance.unreachable()) is not None:
        return Result("ticks", instance, impossible=reason, seconds=watch.seconds(bound=watch.passed))
    families = alike_devices(instance)
    if math.prod(len(family) + 1 for family in families) > _MOST_GROUPS:
        return None
    every = tuple(len(family) for family in families)
    counts = [number for number in product(*(range(limit + 1) for limit in every)) if any(number)]
    groups = {number: _bound_group(_of(instance, families, number), 0, deadline, 0.0) for number in counts}
    while True:
        total, division = _largest_sum(every, {number: group.flow for number, group in groups.items()})
        unsolved = [number for number in division if not groups[number].solved]
        flow = 0.0 if best is None else best.flow
        if not unsolved or total <= flow * (1 + 2 * _SAFE_TICK) or branches <= 0 or deadline.passed:
            break
        largest = max(unsolved, key=lambda number: groups[number].flow)
        allowed, spare = max(1, branches // 2), flow - (total - groups[largest].flow)
        solved = _bound_group(_of(instance, families, largest), allowed, deadline, max(0.0, spare))
        groups[largest] = solved if solved.flow <= groups[largest].flow else groups[largest]._replace(solved=True)
        branches -= allowed // 4
        flows = {number: group.answer.flow for number, group in groups.items() if group.answer is not None}
        together, answers = _largest_sum(every, flows)
        if together > flow:
            best = _joined(instance, families, [(number, groups[number].answer) for number in answers])
    if total <= 0:
        reason = "whatever layers the devices hold and batches are in flight, no request passes"
        return Result("ticks", instance, impossible=reason, seconds=watch.seconds(bound=watch.passed))
    rows = [
        [[instance.devices[i] for i in _numbers(families, number)], group.flow, group.brackets]
        for number, group in groups.items()
    ]
    bound = Bound(1 / (total * (1 + _SAFE_TICK)), "ticks", True, {"groups": rows})
    return Result("ticks", instance, best, bound, watch.seconds(bound=watch.passed))


def _numbers(families: list[list[int]], counts: Counts) -> list[int]:
    """Indices of a group's devices: the first `counts` devices of each family of interchangeable ones."""
    return [i for family, count in zip(families, counts, strict=True) for i in family[:count]]


def _of(instance: FlowInstance, families: list[list[int]], counts: Counts) -> FlowInstance:
    return instance.of_devices(np.array(_numbers(families, counts)))


def _largest_sum(every: Counts, flows: Mapping[Counts, float]) -> tuple[float, list[Counts]]:
    """Largest sum of flows over groups that use at most the devices of each family, and these groups."""
    best: dict[Counts, tuple[float, list[Counts]]] = {}
    for counts in product(*(range(limit + 1) for limit in every)):
        best[counts] = (0.0, [])
        for group, flow in flows.items():
            rest = tuple(count - used for count, used in zip(counts, group, strict=True))
            if min(rest) >= 0 and best[rest][0] + flow > best[counts][0]:
                best[counts] = (best[rest][0] + flow, [*best[rest][1], group])
    return best[every]


def _joined(
    instance: FlowInstance, families: list[list[int]], answers: list[tuple[Counts, FlowAnswer | None]]
) -> FlowAnswer:
    """Answer made up of those of disjoint groups, each given by its number of devices of each family.

    Devices of a family are interchangeable, so groups take them one after the other.
    """
    interval, group = np.zeros((instance.n, 2), dtype=np.int64), np.zeros(instance.n, dtype=np.int64)
    left = [list(family) for family in families]
    for number, (counts, answer) in enumerate(answers):
        devices = _numbers(left, counts)
        left = [[i for i in family if i not in devices] for family in left]
        if answer is not None:
            interval[devices], group[devices] = answer.interval, number
    return FlowAnswer(instance, interval, group)


def _bound_group(instance: FlowInstance, branches: int, deadline: Deadline, flow: float) -> Group:
    """Upper bound on the flow through a group of devices; with `branches`, also its best answer above `flow`.

    Without branches, the bound is that of formulas alone.
    """
    assert instance.steps is not None
    ticks: dict[int, list[float]] = {m: instance.steps.ticks(m).tolist() for m in instance.numbers_in_flight}
    waiting = [_bracket(instance, ticks, m, 0, len(times) - 1) for m, times in ticks.items() if times]
    heapq.heapify(waiting)
    best: FlowAnswer | None = None
    solved, closed = branches > 0, list[Bracket]()
    while waiting and -waiting[0].order > flow * (1 + _EQUAL) and branches > 0 and not deadline.passed:
        bracket = heapq.heappop(waiting)
        inside, is_last = _inside(instance, ticks, bracket), bracket.first == bracket.last
        largest = enumerate_above(inside, flow, min(branches, _BRANCHES), deadline)
        branches -= _BRACKET + (largest.branches if largest is not None else _BRANCHES if is_small(inside) else 0)
        if largest is not None and largest.interval is not None:
            answer = FlowAnswer(instance, largest.interval)
            if answer.flow > flow:
                best, flow = answer, answer.flow
        if largest is not None and (largest.interval is None or is_last):
            closed.append(bracket._replace(order=-flow, method="enumeration"))
            continue
        excluded = None if largest is not None else _excluded(inside, bracket, flow, is_last, deadline)
        if excluded is not None:
            closed.append(excluded)
        elif is_last:
            closed.append(bracket)
        else:
            middle = (bracket.first + bracket.last) // 2
            for first, last in ((bracket.first, middle), (middle + 1, bracket.last)):
                heapq.heappush(waiting, _bracket(instance, ticks, bracket.in_flight, first, last))
        if closed and waiting and -waiting[0].order <= max(-bracket.order for bracket in closed):
            break
    leaves = [*closed, *waiting]
    highest = max([flow, *(-bracket.order for bracket in leaves)]) * (1 + _SAFE_TICK)
    return Group(
        highest, [_written(ticks, bracket) for bracket in sorted(leaves, key=lambda leaf: leaf[1:3])], best, solved
    )


def _excluded(
    inside: FlowInstance, bracket: Bracket, flow: float, by_halves: bool, deadline: Deadline
) -> Bracket | None:
    """The bracket with weights that exclude a flow not far above `flow`; None without such weights.

    With `by_halves`, bisection looks for the least flow that weights exclude; without, only `flow` with a small margin
    is tried.
    """
    low, high, excluded = flow, -bracket.order, None
    for step in range(_HALVES if by_halves else 1):
        above = low * (1 + _CLOSE_TICK) if step == 0 else (low + high) / 2
        weights = exclude(inside, above, deadline) if above > 0 else None
        if weights is None or weights.has_links:
            low = above
            continue
        excluded = bracket._replace(order=-above, method="patterns", weights=weights.weights[0])
        if step == 0:
            break
        high = above
    return excluded


def _bracket(instance: FlowInstance, ticks: dict[int, list[float]], in_flight: int, first: int, last: int) -> Bracket:
    """The bracket of these ticks with the better of the bounds *shared-layers* and *ends*."""
    bracket = Bracket(0.0, in_flight, first, last, "shared-layers", [])
    inside = _inside(instance, ticks, bracket)
    flow, through = shared_layers(inside), ends(inside)
    return bracket._replace(order=-min(flow, through), method="ends" if through < flow else "shared-layers")


def _inside(instance: FlowInstance, ticks: dict[int, list[float]], bracket: Bracket) -> FlowInstance:
    """Relaxed question of a bracket: each device has its largest capacity at any of the bracket's ticks."""
    times = ticks[bracket.in_flight]
    return instance.at(bracket.in_flight, times[bracket.first], times[bracket.last])


def _written(ticks: dict[int, list[float]], bracket: Bracket) -> list[Any]:
    """The bracket as members of a file: batches in flight, first and last tick, method, and weights if any."""
    times = ticks[bracket.in_flight]
    return [bracket.in_flight, times[bracket.first], times[bracket.last], bracket.method, bracket.weights]
