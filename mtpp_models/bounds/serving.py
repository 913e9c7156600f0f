r"""Pareto front of time per batch and context over all cuts of a model that is served by stages.

On a chain a stage is an interval :math:`[i, j)` of nodes. Its cost :math:`f(i, j)` and the largest context
:math:`c(i, j)` that it has room for depend on nothing else, so that two programs over the ends of stages are exact:

.. math::

    B_s(j) &= \min_i \max(B_{s-1}(i), f(i, j)) \quad \text{over intervals with } c(i, j) \ge C \\
    C_s(j) &= \max_i \min(C_{s-1}(i), c(i, j)) \quad \text{over intervals with } f(i, j) \le B

The first one gives the least bottleneck :math:`B` of a cut that holds :math:`C` tokens, the second the largest context
of a cut as fast as that: a point of the front. The next point holds more. They end where no cut does. The first point
is the best by bottleneck, then context; the last one by context, then bottleneck. The time is :math:`O(k n^2)` a point.
Over kinds of devices both are paths that count devices; with rates for pairs the second one halves over contexts.

With :math:`m < k` batches in flight a batch takes :math:`\max(B, S / m)`, where :math:`S` is the sum of the stages. For
a cap :math:`\beta` on stages a third program finds the least sum :math:`S(\beta)`, which falls as the cap rises:

.. math:: S_s(j) = \min_i S_{s-1}(i) + f(i, j) \quad \text{over intervals with } f(i, j) \le \beta, c(i, j) \ge C

So the least of :math:`\max(\beta, S(\beta) / m)` is at the first cap that is :math:`S(\beta) / m` or more, or at the
cap before it. The largest context as fast as that is halved for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from instances.errors import InputError, word
from instances.graph.tensors import FloatArray
from instances.partitioning.kind_paths import (
    CountedPath,
    RatedSteps,
    best_path,
    best_rated_path,
    best_sequence,
    counted_states,
    is_countable,
    is_rateable,
    layers_in_a_row,
    rated_path_within,
)
from instances.partitioning.partition import IDLE, Partition
from instances.partitioning.problem import Instance
from instances.partitioning.serving import MOST_TOKENS, ServedPartition, ServingInstance, largest_context

Truths = NDArray[np.bool_]
Answer = TypeVar("Answer")

# Bottlenecks are sums of floats: what differs by less may be the same number.
_ROUNDING = 1e-12
# Numbers of one pass over sums of stages that are few enough.
_MOST_SUMS = 2**27
_NO_PATH = CountedPath(math.inf, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class ServingFront:
    """Pareto front of time per batch and context.

    Parameters
    ----------
    points : tuple of ServedPartition
        From the fastest to the one with the largest context, both rising; none if no cut holds the required context.
    largest : float
        The largest context of any allowed cut [tokens of each sequence]; -1 if not even weights and activations fit.
    """

    points: tuple[ServedPartition, ...]
    largest: float


def serving_front(question: ServingInstance) -> ServingFront:
    """The exact Pareto front of time per batch and context.

    Raises
    ------
    InputError
        If the constraints of the question leave no cut at all, or there are too many numbers of devices to count.
    """
    stages = _StagesOfKinds(question) if not question.instance.is_alike else _Stages(question)
    largest = stages.most_context(math.inf)
    points = list[ServedPartition]()
    context = float(question.context)
    while (cost := stages.least_cost(context)) < math.inf:
        point = ServedPartition(question, stages.best(context, cost))
        if points and point.cost <= points[-1].cost * (1 + _ROUNDING):
            points.pop()  # as slow, and it holds less
        points.append(point)
        if point.capacity == math.inf:
            break
        context = point.capacity + 1
    return ServingFront(tuple(points), largest)


class _Stages:
    """Cuts into stages on devices of one kind, from the cost and largest context of each interval of nodes."""

    def __init__(self, question: ServingInstance) -> None:
        self.question = question
        self.k, self.n = question.instance.k, question.instance.graph.n
        self.cost = _costs(question)
        self.context = _contexts(question)
        self.legal = _legal(question)

    def least_cost(self, context: float) -> float:
        """Least time per batch of cuts with room for this context; infinite if there is none [time unit]."""
        costs = np.where(self.context >= context, self.cost, math.inf)
        if self.question.waits:
            return _least_of_caps(self.question, costs, lambda able: float(self._from_begin(able, np.add)[-1, self.n]))
        return float(self._from_begin(costs)[-1, self.n])

    def most_context(self, bottleneck: float) -> float:
        """Largest context of cuts with at most this bottleneck [tokens]."""
        return -float(self._from_begin(self._lacking(bottleneck))[-1, self.n])

    def best(self, context: float, cost: float) -> Partition:
        """A cut with the largest context among those with a time per batch of at most `cost`.

        `context` is a value that such a cut reaches.
        """
        if not self.question.waits:
            return self._cut(self._lacking(cost))
        within, total = self.cost <= cost * (1 + _ROUNDING), _most_sum(self.question, cost)
        able = np.where(within, self.cost, math.inf)

        def cut(least: float) -> Partition | None:
            costs = np.where(self.context >= least, able, math.inf)
            return self._cut(costs, np.add) if self._from_begin(costs, np.add)[-1, self.n] <= total else None

        return _last(cut, np.unique(self.context[within & (self.context >= context)]).tolist())

    def _lacking(self, bottleneck: float) -> FloatArray:
        """(n + 1, n + 1) minus the largest context of each interval [tokens]; infinite if it costs more."""
        return np.where(self.cost <= bottleneck, -self.context, math.inf)

    def _cut(self, value: FloatArray, join: np.ufunc = np.maximum) -> Partition:
        """The cut with the least maximum of `value` over its stages or, if `join` is addition, the least sum."""
        least = self._from_begin(value, join)
        block, end = np.zeros(self.n, dtype=np.int64), self.n
        for stage in reversed(range(self.k)):
            values = join(least[stage], np.where(self.legal[stage, :, end], value[:, end], math.inf))
            begin = int(values.argmin())
            block[begin:end] = stage
            end = begin
        return Partition(self.question.instance, block)

    def _from_begin(self, value: FloatArray, join: np.ufunc = np.maximum) -> FloatArray:
        """(k + 1, n + 1) least maximum, or sum if `join` is an addition, of cuts of each prefix into 0 … k stages."""
        least = np.full((self.k + 1, self.n + 1), math.inf)
        least[0, 0] = -math.inf if join is np.maximum else 0.0
        for stage in range(self.k):
            allowed = np.where(self.legal[stage], value, math.inf)
            least[stage + 1] = join(least[stage][:, None], allowed).min(axis=0)
        return least


def _least_of_caps(question: ServingInstance, costs: FloatArray, least_sum: Callable[[FloatArray], float]) -> float:
    """Least time per batch: that of the longest stage or, if larger, the sum divided by batches in flight.

    `costs` are those of stages, infinite where one is not allowed; `least_sum` returns the least sum over all cuts.
    """
    assert question.in_flight is not None
    caps, low = np.unique(costs[np.isfinite(costs)]).tolist(), 0
    high, best = len(caps), math.inf
    while low < high:
        middle = (low + high) // 2
        share = least_sum(np.where(costs <= caps[middle], costs, math.inf)) / question.in_flight
        best = min(best, max(caps[middle], share))
        low, high = (low, middle) if share <= caps[middle] else (middle + 1, high)
    return best


def _most_sum(question: ServingInstance, cost: float) -> float:
    """Largest sum of stage times that allows a time per batch of `cost`, with a margin for rounding."""
    assert question.in_flight is not None
    return cost * question.in_flight * (1 + _ROUNDING)


def _last(answer: Callable[[float], Answer | None], options: Sequence[float]) -> Answer:
    """The answer for the last option that has one (is not None), by bisection; the first option must have one."""
    last, low, high = answer(options[0]), 0, len(options)
    while high - low > 1:
        middle = (low + high) // 2
        other = answer(options[middle])
        last, low, high = (last, low, middle) if other is None else (other, middle, high)
    assert last is not None
    return last


class _StagesOfKinds:
    """Counterpart of `_Stages` for several kinds of devices: cuts that use at most the devices there are of each kind.

    A dynamic program over (position in the chain, number of devices used of each kind) gives them.
    """

    def __init__(self, question: ServingInstance) -> None:
        instance = question.instance
        self.question, self.instance, self.devices, n = question, instance, instance.machines, instance.graph.n
        rated = instance.rates is not None
        self.sizes = layers_in_a_row(instance.graph) if rated else None
        if rated and self.sizes is None:
            raise InputError(
                f"{instance.name}: with rates between kinds, layers are read by the next one alone; give each kind its "
                "bandwidth in their place."
            )
        if not (
            is_rateable(self.devices, n) if rated else self.devices.is_fixed or is_countable(self.devices.counts, n)
        ):
            raise InputError(
                f"{instance.name}: the numbers of devices of {instance.kinds} kinds multiply to too many; give fewer, "
                "or their order in a file (mtpp-devices/2)."
            )
        alone = [replace(question, instance=instance.of_kind(t)) for t in range(instance.kinds)]
        # From the node where a stage begins, and the one where it ends; with rates for pairs without transfers.
        self.cost = np.array([_costs(kind, still=rated)[:n, 1:] for kind in alone])
        room = np.array([_contexts(kind)[:n, 1:] for kind in alone])
        # Tokens that are lacking: 0 where any number fits, infinite where nothing does.
        self.lacking = np.where(room < 0, math.inf, np.maximum(0.0, MOST_TOKENS - room))
        self.sums = _Sums(instance, self.sizes) if question.waits else None

    def least_cost(self, context: float) -> float:
        """Least time per batch of cuts with room for this context [time unit]; infinite if there is none."""
        costs = np.where(self.lacking <= MOST_TOKENS - context, self.cost, math.inf)
        if self.sums is None:
            return self._path(costs).bottleneck
        return _least_of_caps(self.question, self.sums.priced(costs), self.sums.least)

    def most_context(self, bottleneck: float) -> float:
        """Largest context of cuts with at most this bottleneck [tokens]; infinite without a limit, -1 if none fits."""
        lacking = self._holding(bottleneck).bottleneck
        return math.inf if lacking == 0 else max(-1.0, MOST_TOKENS - lacking)

    def best(self, context: float, cost: float) -> Partition:
        """A cut with the largest context among those with a time per batch of at most `cost`.

        `context` is a value that such a cut reaches.
        """
        path = self._holding(cost) if self.sums is None else self._waiting(self.sums, context, cost)
        block, kind = np.zeros(self.instance.graph.n, dtype=np.int64), np.full(self.instance.k, IDLE)
        for b, start in enumerate(path.starts.tolist()):
            block[start:] = b
            kind[b] = path.kinds[b]
        return Partition(self.instance, block, kind=kind)

    def _waiting(self, sums: _Sums, context: float, cost: float) -> CountedPath:
        """The path with the largest context among those with a time per batch of at most `cost`.

        That time is the longest stage or, if larger, the sum of the stages divided by the batches in flight.
        """
        total = _most_sum(self.question, cost)

        def path(lacking: float) -> CountedPath | None:
            steps = sums.priced(np.where(self.lacking <= lacking, self.cost, math.inf))
            able = np.where(steps <= cost * (1 + _ROUNDING), steps, math.inf)
            return sums.path(able) if sums.least(able) <= total else None

        return _last(path, np.unique(self.lacking[self.lacking <= MOST_TOKENS - context])[::-1].tolist())

    def _holding(self, bottleneck: float) -> CountedPath:
        """The path with the largest context whose stages cost at most `bottleneck`."""
        if self.sizes is not None:
            return self._rated_holding(bottleneck)
        return self._path(np.where(self.cost <= bottleneck, self.lacking, math.inf))

    def _rated_holding(self, bottleneck: float) -> CountedPath:
        best, numbers = _NO_PATH, np.unique(self.lacking[np.isfinite(self.lacking)]).tolist()
        low, high = 0, len(numbers)
        while low < high:
            middle = (low + high) // 2
            steps = self._rated_steps(np.where(self.lacking <= numbers[middle], self.cost, math.inf))
            path = rated_path_within(steps, self.devices, self.instance.k, bottleneck)
            if path is None:
                low = middle + 1
            else:
                best, high = path._replace(bottleneck=numbers[middle]), middle
        return best

    def _rated_steps(self, costs: FloatArray) -> RatedSteps:
        assert self.sizes is not None
        assert self.instance.rates is not None
        return RatedSteps.of_row(costs, self.sizes, self.instance.rates)

    def _path(self, costs: FloatArray) -> CountedPath:
        if self.sizes is not None:
            return best_rated_path(self._rated_steps(costs), self.devices, self.instance.k) or _NO_PATH
        if self.devices.is_fixed:
            sequence = np.array(self.devices.sequence)
            return CountedPath(*best_sequence(costs, sequence), sequence)
        return best_path(costs, self.devices.counts, self.instance.k) or _NO_PATH


class _Sums:
    """Paths of stages over kinds of devices with the least sum of costs.

    A state is the number of devices of each kind used so far or, in a fixed order, the number of devices passed. With
    rates for pairs of kinds, a label is the kind of the stage before together with that chosen for the next one, as the
    transfers of a stage depend on both.

    Parameters
    ----------
    instance : Instance
    sizes : (n + 1,) floats, optional
        Bytes that pass between consecutive layers, where there are rates for pairs.
    """

    def __init__(self, instance: Instance, sizes: FloatArray | None) -> None:
        self.devices, self.rates, self.sizes, n = instance.machines, instance.rates, sizes, instance.graph.n
        kinds, total = instance.kinds, self.devices.total
        if self.devices.is_fixed:
            self.after = np.full((total + 1, kinds), -1)
            self.after[np.arange(total), list(self.devices.sequence)] = np.arange(1, total + 1)
        else:
            self.after = counted_states(self.devices.counts, instance.k)
        # Label before a stage, its kind, and the label behind it; the last label is the end.
        self.steps, self.begin = [(0, t, 0) for t in range(kinds)], [0]
        if sizes is not None:
            end = kinds * (kinds + 1)
            triples = product(range(kinds + 1), range(kinds), range(kinds + 1))
            self.steps = [(p * kinds + q, q, q * kinds + r if r < kinds else end) for p, q, r in triples]
            self.begin = list(range(kinds * kinds, end))
        if len(self.after) * len(self.steps) * n**2 > _MOST_SUMS:
            raise InputError(
                f"{instance.name}: the numbers of devices of {kinds} kinds multiply to too many for fewer batches in "
                f"flight than stages; leave out {word('in_flight')}, or give fewer devices."
            )

    def priced(self, costs: FloatArray) -> FloatArray:
        """(steps, n, n) costs of stages, with transfers if these depend on pairs of kinds; infinite if impossible."""
        n = costs.shape[1]
        whole = np.where(np.triu(np.ones((n, n), dtype=bool)), costs, math.inf)
        if self.sizes is None:
            return whole
        assert self.rates is not None
        kinds, prices = len(costs), list[FloatArray]()
        for source, q, target in self.steps:
            p, r = source // kinds, target % kinds if target < kinds * kinds else kinds
            into = self.sizes[:-1] / self.rates[p, q] if p < kinds else np.zeros(n)
            out = self.sizes[1:] / self.rates[q, r] if r < kinds else np.zeros(n)
            price = into[:, None] + whole[q] + out
            is_last = np.arange(n) == n - 1
            prices.append(np.where(is_last == (r == kinds), price, math.inf))
        return np.array(prices)

    def least(self, prices: FloatArray) -> float:
        """Least sum of stage costs of a complete path; infinite if there is none."""
        return float(self._sums(prices)[:, -1, -1].min())

    def path(self, prices: FloatArray) -> CountedPath:
        """A path with the least sum."""
        sums, fixed = self._sums(prices), self.devices.is_fixed
        last = sums[::-1, -1, -1]
        state, label, end = len(last) - 1 - int(last.argmin()), sums.shape[1] - 1, sums.shape[2] - 1
        steps = list[tuple[int, int]]()
        while state > 0:
            if fixed and sums[state - 1, label, end] == sums[state, label, end]:  # an idle device
                state -= 1
                steps.append((end, self.devices.sequence[state]))
            else:
                state, label, end, kind = self._before(prices, sums, (state, label, end))
                steps.append((end, kind))
        starts, kinds = np.array(steps[::-1]).T
        return CountedPath(float(last.min()), starts, kinds)

    def _before(self, prices: FloatArray, sums: FloatArray, at: tuple[int, int, int]) -> tuple[int, int, int, int]:
        """(state, label, position) before `at` on a path of least sum, and the kind of the stage between both."""
        state, label, end = at
        for price, (source, kind, target) in zip(prices, self.steps, strict=True):
            for before in np.flatnonzero(self.after[:state, kind] == state).tolist() if target == label else ():
                reached = sums[before, source, :end] + price[:end, end - 1]
                if end and reached.min() == sums[at]:
                    return before, source, int(reached.argmin()), kind
        raise AssertionError("a sum that nothing leads to")

    def _sums(self, prices: FloatArray) -> FloatArray:
        """(states, labels, n + 1) least sums of stage costs up to each position."""
        labels = 1 + max(target for _, _, target in self.steps)
        sums = np.full((len(self.after), labels, prices.shape[1] + 1), math.inf)
        sums[0, self.begin, 0] = 0.0
        for state, after in enumerate(self.after.tolist()):
            if state and self.devices.is_fixed:
                np.minimum(sums[state], sums[state - 1], out=sums[state])
            for price, (source, kind, target) in zip(prices, self.steps, strict=True):
                before = sums[state, source, :-1]
                if after[kind] >= 0 and before.min() < math.inf:
                    behind = sums[after[kind], target, 1:]
                    np.minimum(behind, (before[:, None] + price).min(axis=0), out=behind)
        return sums


def _costs(question: ServingInstance, *, still: bool = False) -> FloatArray:
    """(n + 1, n + 1) cost of each interval [time unit], without transfers if `still`.

    Sums run in the order of `Partition.costs`, so that both are the same number.
    """
    instance, graph = question.instance, question.instance.graph
    n, tensors = graph.n, graph.tensors
    readers = [tensors.consumers[a:b] for a, b in zip(tensors.start[:-1], tensors.start[1:], strict=True)]
    producer, time = tensors.producer.tolist(), (instance.tensor_time * (not still)).tolist()
    last = [int(nodes.max(initial=-1)) for nodes in readers]
    crossing = [[t for t in range(len(producer)) if producer[t] < p <= last[t]] for p in range(n + 1)]
    cost = np.zeros((n + 1, n + 1))
    for i in range(n):
        first = {t: int(readers[t][readers[t] >= i].min()) for t in crossing[i]}
        work = 0.0
        for j in range(i + 1, n + 1):
            work += float(graph.work[j - 1])
            receive, send = 0.0, 0.0
            for t in crossing[i]:
                receive += time[t] if first[t] < j else 0.0
            for t in crossing[j]:
                send += time[t] if producer[t] >= i else 0.0
            cost[i, j] = receive + work + send
    return cost


def _contexts(question: ServingInstance) -> FloatArray:
    """(n + 1, n + 1) largest context of each interval [tokens], exact; infinite without nodes, -1 where none fits."""
    instance, graph = question.instance, question.instance.graph
    buffer = instance.platform.activation_buffer
    needs = instance.needs.tolist() if buffer is None else [buffer] * graph.n
    sizes = [instance.platform.memory, *graph.param_bytes.tolist(), *needs, *question.token_bytes.tolist()]
    scale = max(float(x).as_integer_ratio()[1] for x in (*sizes, *(p.bytes for p in graph.parameters)))

    def whole(values: Iterable[float]) -> list[int]:
        """Bytes in units in which all sizes are whole numbers."""
        return [int(Fraction(x) * scale) for x in values]

    (memory,), param_bytes, need = whole([instance.platform.memory]), whole(graph.param_bytes.tolist()), whole(needs)
    users = [
        *zip(whole(p.bytes for p in graph.parameters), (sorted(set(p.users)) for p in graph.parameters), strict=True)
    ]
    before = [
        [(size, max((u for u in nodes if u < v), default=-1)) for size, nodes in users if v in nodes]
        for v in range(graph.n)
    ]
    token_bytes = [(question.in_flight or 1) * size for size in whole(question.token_bytes.tolist())]
    caches = [*zip(question.window.tolist(), token_bytes, strict=True)]
    contexts = np.full((graph.n + 1, graph.n + 1), math.inf)
    for i in range(graph.n):
        resident_bytes, peak, rates = 0, 0, dict[float, int]()
        for j in range(i + 1, graph.n + 1):
            resident_bytes += param_bytes[j - 1] + sum(size for size, user in before[j - 1] if user < i)
            peak, (window, rate) = max(peak, need[j - 1]), caches[j - 1]
            rates[window] = rates.get(window, 0) + rate
            free = memory - resident_bytes - peak
            if free < 0:  # longer ones hold no less
                contexts[i, j:] = -1.0
                break
            contexts[i, j] = largest_context(free, rates)
    return contexts


def _legal(question: ServingInstance) -> Truths:
    """(k, n + 1, n + 1) whether the constraints let a stage contain an interval."""
    instance, rules = question.instance, question.instance.rules
    n, k = instance.graph.n, instance.k
    legal = np.zeros((k, n + 1, n + 1), dtype=bool)
    ends = np.array([np.intersect1d(rules.group[:p], rules.group[p:]).size == 0 for p in range(n + 1)])
    counted = np.concatenate((np.zeros((len(rules.least), 1), dtype=np.int64), rules.counted.cumsum(axis=1)), axis=1)
    stages = np.arange(k)[:, None]
    for i in range(n + 1):
        enough = (counted[:, i:] - counted[:, i, None] >= rules.least[:, None]).all(axis=0) & ends[i] & ends[i:]
        first = np.concatenate(([0], np.maximum.accumulate(rules.first[i:])))
        last = np.concatenate(([k - 1], np.minimum.accumulate(rules.last[i:])))
        legal[:, i, i:] = enough & (first <= stages) & (stages <= last)
    return legal
