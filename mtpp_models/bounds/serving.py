r"""All cuts of a serving question that no other beats in both context and bottleneck.

On a chain a stage is an interval :math:`[i, j)` of nodes. Its cost :math:`f(i, j)` and the largest context
:math:`c(i, j)` that it has room for depend on nothing else, so that two programs over the ends of stages are exact:

.. math::

    B_s(j) &= \min_i \max(B_{s-1}(i), f(i, j)) \quad \text{over intervals with } c(i, j) \ge C \\
    C_s(j) &= \max_i \min(C_{s-1}(i), c(i, j)) \quad \text{over intervals with } f(i, j) \le B

The first one gives the least bottleneck :math:`B` of a cut that holds :math:`C` tokens, the second the largest context
of a cut as fast as that: a point of the front. The next point holds more. They end where no cut does. The first point
is the best by bottleneck, then context; the last one by context, then bottleneck. The time is :math:`O(k n^2)` a point.
Over kinds of devices both are paths that count devices; with rates for pairs the second one halves over contexts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from instances.errors import InputError
from instances.graph.tensors import FloatArray
from instances.partitioning.kind_paths import (
    CountedPath,
    RatedSteps,
    best_path,
    best_rated_path,
    best_sequence,
    is_countable,
    is_rateable,
    layers_in_a_row,
    rated_path_within,
)
from instances.partitioning.partition import IDLE, Partition
from instances.partitioning.serving import MOST_TOKENS, ServedPartition, ServingInstance, largest_context

Truths = NDArray[np.bool_]

# Bottlenecks are sums of floats: what differs by less may be the same number.
_ROUNDING = 1e-12
_NO_PATH = CountedPath(math.inf, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class ServingFront:
    """Pareto front of bottleneck and context.

    Parameters
    ----------
    points : tuple of ServedPartition
        From the fastest to the one with the largest context, both rising; none if no cut holds the required context.
    largest : float
        The largest context of any legal cut [tokens of each sequence]; -1 if not even weights and activations fit.
    """

    points: tuple[ServedPartition, ...]
    largest: float


def serving_front(question: ServingInstance) -> ServingFront:
    """The Pareto front of bottleneck and capacity, exact.

    Raises
    ------
    InputError
        If the constraints of the question leave no cut at all.
    """
    stages = _StagesOfKinds(question) if not question.instance.is_alike else _Stages(question)
    largest = stages.most_context(math.inf)
    points = list[ServedPartition]()
    context = float(question.context)
    while (bottleneck := stages.least_bottleneck(context)) < math.inf:
        point = ServedPartition(question, stages.best(context, bottleneck))
        if points and bottleneck <= points[-1].bottleneck * (1 + _ROUNDING):
            points.pop()  # as slow, and it holds less
        points.append(point)
        if point.capacity == math.inf:
            break
        context = point.capacity + 1
    return ServingFront(tuple(points), largest)


class _Stages:
    """Arrays of (n + 1, n + 1) by the first node of an interval and its end: cost, largest context, and legality."""

    def __init__(self, question: ServingInstance) -> None:
        self.question = question
        self.k, self.n = question.instance.k, question.instance.graph.n
        self.cost = _costs(question)
        self.context = _contexts(question)
        self.legal = _legal(question)

    def least_bottleneck(self, context: float) -> float:
        """Least bottleneck [time unit] of cuts with room for this context [tokens]; infinite if there is none."""
        return float(self._from_begin(np.where(self.context >= context, self.cost, math.inf))[-1, self.n])

    def most_context(self, bottleneck: float) -> float:
        """Largest context [tokens] of cuts with at most this bottleneck."""
        return float(self._contexts_within(bottleneck)[-1, self.n])

    def best(self, context: float, bottleneck: float) -> Partition:
        """The cut of at most this bottleneck with the largest context, which is at least `context`."""
        best = self._contexts_within(bottleneck)
        within = np.where(self.cost <= bottleneck, self.context, -math.inf)
        block, end = np.zeros(self.n, dtype=np.int64), self.n
        for stage in reversed(range(self.k)):
            contexts = np.minimum(best[stage], np.where(self.legal[stage, :, end], within[:, end], -math.inf))
            begin = int(contexts.argmax())
            block[begin:end] = stage
            end = begin
        return Partition(self.question.instance, block)

    def _contexts_within(self, bottleneck: float) -> FloatArray:
        return -self._from_begin(np.where(self.cost <= bottleneck, -self.context, math.inf))

    def _from_begin(self, value: FloatArray) -> FloatArray:
        """(k + 1, n + 1) by stages and nodes covered: the least over cuts of the largest value of a stage."""
        least = np.full((self.k + 1, self.n + 1), math.inf)
        least[0, 0] = -math.inf
        for stage in range(self.k):
            allowed = np.where(self.legal[stage], value, math.inf)
            least[stage + 1] = np.maximum(least[stage][:, None], allowed).min(axis=0)
        return least


class _StagesOfKinds:
    """The same over kinds of devices: paths of stages, the devices of each kind counted, or in their fixed order."""

    def __init__(self, question: ServingInstance) -> None:
        instance = question.instance
        self.instance, self.devices, n = instance, instance.machines, instance.graph.n
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

    def least_bottleneck(self, context: float) -> float:
        """Least bottleneck of cuts with so much context; infinite if there is none."""
        return self._path(np.where(self.lacking <= MOST_TOKENS - context, self.cost, math.inf)).bottleneck

    def most_context(self, bottleneck: float) -> float:
        """Largest context of cuts with at most this bottleneck."""
        lacking = self._holding(bottleneck).bottleneck
        return math.inf if lacking == 0 else max(-1.0, MOST_TOKENS - lacking)

    def best(self, context: float, bottleneck: float) -> Partition:
        """A cut as fast as that which holds most, which is at least `context`."""
        path = self._holding(bottleneck)
        block, kind = np.zeros(self.instance.graph.n, dtype=np.int64), np.full(self.instance.k, IDLE)
        for b, start in enumerate(path.starts.tolist()):
            block[start:] = b
            kind[b] = path.kinds[b]
        return Partition(self.instance, block, kind=kind)

    def _holding(self, bottleneck: float) -> CountedPath:
        """A path within the bottleneck whose cost are the tokens that it lacks, as few as may be."""
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
        return RatedSteps(costs, self.sizes, self.instance.rates)

    def _path(self, costs: FloatArray) -> CountedPath:
        if self.sizes is not None:
            return best_rated_path(self._rated_steps(costs), self.devices, self.instance.k) or _NO_PATH
        if self.devices.is_fixed:
            sequence = np.array(self.devices.sequence)
            return CountedPath(*best_sequence(costs, sequence), sequence)
        return best_path(costs, self.devices.counts, self.instance.k) or _NO_PATH


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
    """(n + 1, n + 1) largest context of each interval [tokens], exactly; infinite for no nodes, -1 where none fits."""
    instance, graph = question.instance, question.instance.graph
    memory = Fraction(instance.platform.memory)
    param_bytes = [Fraction(size) for size in graph.param_bytes.tolist()]
    buffer = instance.platform.activation_buffer
    need = instance.needs.tolist() if buffer is None else [buffer] * graph.n
    users = [(Fraction(p.bytes), sorted(set(p.users))) for p in graph.parameters]
    before = [
        [(size, max((u for u in nodes if u < v), default=-1)) for size, nodes in users if v in nodes]
        for v in range(graph.n)
    ]
    contexts = np.full((graph.n + 1, graph.n + 1), math.inf)
    for i in range(graph.n):
        resident_bytes, peak = Fraction(0), 0.0
        for j in range(i + 1, graph.n + 1):
            resident_bytes += param_bytes[j - 1] + sum(size for size, user in before[j - 1] if user < i)
            peak = max(peak, need[j - 1])
            free = memory - resident_bytes - Fraction(peak)
            if free < 0:  # longer ones hold no less
                contexts[i, j:] = -1.0
                break
            contexts[i, j] = largest_context(free, question.token_bytes[i:j], question.window[i:j])
    return contexts


def _legal(question: ServingInstance) -> Truths:
    """(k, n + 1, n + 1) whether the constraints let a stage contain an interval."""
    instance, rules = question.instance, question.instance.rules
    n, k = instance.graph.n, instance.k
    legal = np.zeros((k, n + 1, n + 1), dtype=bool)
    ends = np.array([np.intersect1d(rules.group[:p], rules.group[p:]).size == 0 for p in range(n + 1)])
    counted = np.concatenate((np.zeros((len(rules.least), 1), dtype=np.int64), rules.counted.cumsum(axis=1)), axis=1)
    for i in range(n + 1):
        for j in range(i, n + 1):
            enough = bool((counted[:, j] - counted[:, i] >= rules.least).all())
            if enough and ends[i] and ends[j]:
                first, last = rules.first[i:j].max(initial=0), rules.last[i:j].min(initial=k - 1)
                legal[first : last + 1, i, j] = True
    return legal
