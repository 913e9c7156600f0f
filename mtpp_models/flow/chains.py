r"""The fastest chain of stages on servers for serving, with a proof.

**The shortest chain.** For m batches of b sequences, let :math:`f_j(q)` be the least sum of times of stages that hold
the first j layers, each of at most :math:`β` and within the memory, where q says how many servers of each type are in
use, and how many devices of the last one are free. A step takes t of these, or begins a new server.

**All m and b.** Times do not fall with b, so that all m in :math:`[m_1, m_2]` and b in :math:`[x, y]` give a rate of at
most :math:`b / \max_i T_i(x)` and :math:`m_2 y / \sum_i T_i(x)`, and need room for :math:`m_1 x` sequences. A *box*
of m and b is refuted if no chain at x has stages short enough, and a sum short enough, for a rate above the best known
one; otherwise it is cut in two. Refuted boxes that cover all m and b prove the rate.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import IntArray
from instances.serving.answer import Chain, ServedChain, Stage
from instances.serving.costs import costs_of
from instances.serving.problem import PICO, DeploymentInstance

#: Labels of a state, where prompts have a limit of time.
_LABELS = 16
#: Labels and steps of a dynamic program at most.
_MOST_LABELS, _MOST_STEPS = 2**23, 2**32


@compiled
def _shortest(
    time: IntArray,
    prompt: IntArray,
    weights: IntArray,
    caches: IntArray,
    tied: IntArray,
    room: IntArray,
    degrees: IntArray,
    visit: int,
    hops: IntArray,
    devices: IntArray,
    counts: IntArray,
    sequences: int,
    longest: int,
    limit: int,
    patience: int,
    kept: int,
) -> tuple[int, bool, IntArray]:
    """The chain with the least sum of stage times; each takes at most `longest`, all their prompts at most `patience`.

    A label-setting dynamic program over layers and devices in use. Each state keeps at most `kept` labels, Pareto
    optimal pairs (sum of stage times, sum of prompt times). Beyond that, two labels are merged into one that dominates
    both; then `is_exact` is false, and the stages may not be feasible.

    Returns
    -------
    least : int
        Sum of stage times; -1 if there is no chain within `limit`.
    is_exact : bool
        Whether no labels were merged.
    stages : (p, 5) integers
        Type of server, whether it begins a new server, index of the degree, first layer and end; the last stage first.
    """
    types, layers = len(counts), time.shape[2] - 1
    place = np.zeros(types + 1, dtype=np.int64)  # of the first state with a device of these servers
    radix = np.ones(types + 1, dtype=np.int64)
    for s in range(types):
        place[s + 1] = place[s] + devices[s]
        radix[s + 1] = radix[s] * (counts[s] + 1)
    currents = place[types] + 1  # servers of the last stage with their free devices, or none
    states = radix[types] * currents
    number = np.zeros((layers + 1, states), dtype=np.int64)
    label = np.zeros((layers + 1, states, kept, 2), dtype=np.int64)
    parent = np.full((layers + 1, states, kept, 4), -1, dtype=np.int64)  # layer, state, label, degree
    number[0, 0] = 1
    is_exact = True
    for j in range(layers):
        for state in range(states):
            if number[j, state] == 0:
                continue
            used, current = state // currents, state % currents
            last, free = -1, 0
            if current > 0:
                for s in range(types):
                    if current - 1 < place[s + 1]:
                        last, free = s, current - 1 - place[s]
                        break
            for s in range(types):
                for fresh in range(2):
                    if fresh == 0:
                        if s != last:
                            continue
                        available, index = free, used
                    else:
                        if used // radix[s] % (counts[s] + 1) >= counts[s]:
                            continue
                        available, index = devices[s], used + radix[s]
                    hop = hops[s, fresh] if j > 0 else 0
                    for d in range(len(degrees)):
                        if degrees[d] > available:
                            break
                        target = index * currents + 1 + place[s] + available - degrees[d]
                        for i in range(j + 1, layers + 1):
                            took = time[s, d, i] - time[s, d, j] + visit + hop
                            size = weights[d, i] - weights[d, j] + sequences * (caches[d, i] - caches[d, j])
                            if j == 0 and i == layers:
                                size -= tied[d]
                            if took > longest or size > room[s]:
                                break
                            waits = prompt[s, d, i] - prompt[s, d, j]
                            for a in range(number[j, state]):
                                total, asked = label[j, state, a, 0] + took, label[j, state, a, 1] + waits
                                if total > limit or asked > patience:
                                    continue
                                rest = 0
                                for c in range(number[i, target]):
                                    if label[i, target, c, 0] <= total and label[i, target, c, 1] <= asked:
                                        rest = -1
                                        break
                                if rest < 0:
                                    continue
                                for c in range(number[i, target]):
                                    if label[i, target, c, 0] < total or label[i, target, c, 1] < asked:
                                        label[i, target, rest] = label[i, target, c]
                                        parent[i, target, rest] = parent[i, target, c]
                                        rest += 1
                                if rest == kept:
                                    is_exact = False
                                    rest -= 1
                                    total = min(total, label[i, target, rest, 0])
                                    asked = min(asked, label[i, target, rest, 1])
                                label[i, target, rest, 0], label[i, target, rest, 1] = total, asked
                                parent[i, target, rest, 0], parent[i, target, rest, 1] = j, state
                                parent[i, target, rest, 2], parent[i, target, rest, 3] = a, d
                                number[i, target] = rest + 1
    least, state, a = limit + 1, 0, 0
    for target in range(states):
        for c in range(number[layers, target]):
            if label[layers, target, c, 0] < least:
                least, state, a = label[layers, target, c, 0], target, c
    stages = np.zeros((layers, 5), dtype=np.int64)
    if least > limit:
        return -1, is_exact, stages[:0]
    count, i = 0, layers
    while i > 0:
        j, before, c, d = parent[i, state, a]
        current, s = state % currents, 0
        while current - 1 >= place[s + 1]:
            s += 1
        stages[count] = s, int(state // currents != before // currents), d, j, i
        count, i, state, a = count + 1, j, before, c
    return least, is_exact, stages[:count]


@dataclass(frozen=True)
class Box:
    """A set of configurations: from `fewest` to `most` batches in flight, `small` to `large` sequences in each batch.

    It also has a range of cycle times.
    """

    fewest: int
    most: int
    small: int
    large: int
    quickest: int = 0  # least cycle time [10^-12 s]
    slowest: int = 0  # largest cycle time [10^-12 s]
    degree: int | None = None  # of all stages; None if they may differ

    @property
    def sequences(self) -> int:
        """Largest number of sequences in flight."""
        return self.most * self.large

    def halves(self) -> Iterator[Box]:
        """The box divided in two along the side with the larger ratio of its ends; along cycle times last."""
        if self.most * self.small >= self.fewest * self.large and self.fewest < self.most:
            middle = math.isqrt(self.fewest * self.most)
            yield replace(self, most=middle)
            yield replace(self, fewest=middle + 1)
        elif self.small < self.large:
            middle = math.isqrt(self.small * self.large)
            yield replace(self, large=middle)
            yield replace(self, small=middle + 1)
        elif self.quickest < self.slowest:
            middle = (self.quickest + self.slowest) // 2
            yield replace(self, slowest=middle)
            yield replace(self, quickest=middle + 1)

    def document(self, longest: int) -> list[int]:
        """The box as a list for files; cycle times are left out where they are 0 to `longest`."""
        cycles = [] if (self.quickest, self.slowest) == (0, longest) else [self.quickest, self.slowest]
        return [self.fewest, self.most, self.small, self.large, self.degree or 0, *cycles]


@dataclass
class ChainProof:
    """Proof that no chain on these devices is faster than `rate`: refuted boxes that cover all configurations."""

    devices: tuple[tuple[int, int], ...]  # for each type: number of servers, and devices of a server
    rate: Fraction  # tokens in a picosecond
    chain: Chain | None = None  # a chain with that rate; None if the rate is the given one
    boxes: list[Box] = field(default_factory=list)
    is_complete: bool = True

    def document(self, longest: int) -> dict[str, Any]:
        """The proof as members of a file; `longest` is the largest cycle time [10^-12 s]."""
        rate, boxes = [self.rate.numerator, self.rate.denominator], [box.document(longest) for box in self.boxes]
        return {"devices": list(map(list, self.devices)), "rate": rate, "boxes": boxes}


class ChainSearch:
    """Search for the fastest chain on devices of servers.

    Parameters
    ----------
    question : DeploymentInstance
    """

    def __init__(self, question: DeploymentInstance) -> None:
        self.question, self.costs = question, costs_of(question)
        self.degrees = np.array(question.degrees, dtype=np.int64)
        prompt = int(np.diff(self.costs.prompts).min(axis=(0, 1)).sum()) if question.ttft < math.inf else 0
        self.slowest = question.slowest_cycle(prompt)  # no chain with longer ones keeps the limit of the first token

    def fastest(self, devices: Sequence[tuple[int, int]], rate: Fraction, deadline: Deadline) -> ChainProof:
        """The fastest chain, if any is faster than `rate`, with the proof that none is faster.

        Parameters
        ----------
        devices : pairs
            For each type, the number of servers and the devices of a server.
        rate : Fraction
            Rate that the chain has to exceed [tokens in a picosecond].
        deadline : Deadline
        """
        proof, question = ChainProof(tuple(devices), rate, is_complete=self.is_small(devices)), self.question
        if not proof.is_complete:
            return proof
        root = Box(1, question.most_batches(devices), 1, question.most_sequences, slowest=question.longest_cycle)
        roots = [replace(root, degree=t) for t in question.degrees] if question.uniform else [root]
        if 0 <= self.slowest < question.longest_cycle:
            quick, slow = {"slowest": self.slowest}, {"quickest": self.slowest + 1}
            roots = [replace(box, **half) for box in roots for half in (quick, slow)]
        heap = [(-math.inf, number, box) for number, box in enumerate(roots)]
        ticket = len(heap)
        while heap:
            _, _, box = heapq.heappop(heap)
            if deadline.passed and (proof.rate > 0 or ticket > len(roots)):  # a first chain, however short the time
                proof.is_complete = False
                break
            total, stages = self._shortest(proof, box)
            if total < 0:
                proof.boxes.append(box)
                continue
            better = self._improve(proof, box, stages)
            for piece in list(box.halves()) or [box] * better:
                heapq.heappush(heap, (-piece.sequences / total, ticket, piece))
                ticket += 1
            if not better and box.small == box.large and box.fewest == box.most and box.quickest == box.slowest:
                proof.is_complete = False  # labels were merged
        return proof

    def is_small(self, devices: Sequence[tuple[int, int]]) -> bool:
        """Whether the dynamic program over servers, and devices of each, is small enough in memory and time."""
        states = math.prod(count + 1 for count, _ in devices) * (1 + sum(size for _, size in devices))
        layers, labels = self.question.model.layers, _LABELS if self.question.ttft < math.inf else 1
        steps = states * layers**2 * len(self.degrees)
        return states * layers * labels <= _MOST_LABELS and steps <= _MOST_STEPS

    def _shortest(self, proof: ChainProof, box: Box) -> tuple[int, tuple[Stage, ...]]:
        """Least sum of stage times [10^-12 s] of the chains in a box that may exceed the rate, and its stages.

        The sum is -1 if there is no such chain.
        """
        question, costs = self.question, self.costs
        limit = box.slowest
        longest = limit // box.fewest
        if proof.rate > 0:
            longest = min(longest, math.ceil(box.large / proof.rate) - 1)
            limit = min(limit, math.ceil(box.sequences / proof.rate) - 1)
        tables = costs.at(box.small)
        counts, sizes = (np.array(row, dtype=np.int64) for row in zip(*proof.devices, strict=True))
        number = None if box.degree is None else question.degrees.index(box.degree)
        chosen = slice(None) if number is None else slice(number, number + 1)
        patience = question.patience(box.quickest)
        work = (tables.time[:, chosen, -1] * self.degrees[chosen].astype(float)).min(axis=1)
        if longest <= 0 or patience < 0 or (counts * sizes * (longest / work)).sum() < 1 - 1e-9:
            return -1, ()  # all devices together are too slow, wherever layers are cut
        if box.fewest * box.small * costs.largest_cache > int(costs.room.max()):
            return -1, ()
        has_limit = question.ttft < math.inf
        total, _, rows = _shortest(
            tables.time[:, chosen],
            costs.prompts[:, chosen] * has_limit,
            costs.weights[chosen],
            costs.caches[chosen],
            costs.tied[chosen],
            costs.room,
            self.degrees[chosen],
            tables.visit,
            tables.hops,
            sizes,
            counts,
            box.fewest * box.small,
            longest,
            limit,
            patience,
            _LABELS if has_limit else 1,
        )
        stages, used = [], [-1] * len(counts)
        for s, fresh, d, first, end in rows[::-1].tolist():
            used[s] += fresh
            degree = question.degrees[d if number is None else number]
            stages.append(Stage(s, used[s], degree, first, end))
        return int(total), tuple(stages)

    def _improve(self, proof: ChainProof, box: Box, stages: tuple[Stage, ...]) -> bool:
        """Whether a chain of these stages with numbers from the box exceeds the rate; the proof then stores it."""
        before, prompts = proof.rate, self.question.prefill == "prompts"
        for batches in sorted({box.fewest, min(max(box.fewest, len(stages)), box.most), box.most}):
            low, high = box.small, box.large
            while low < high:  # the largest batch that is allowed
                middle = (low + high + 1) // 2
                is_allowed = ServedChain(self.question, Chain(stages, batches, middle, prompts)).is_allowed
                low, high = (middle, high) if is_allowed else (low, middle - 1)
            for batch in sorted({box.small, (box.small + low) // 2, low}):
                chain = ServedChain(self.question, Chain(stages, batches, batch, prompts))
                rate = chain.rate / PICO
                if rate > proof.rate and chain.is_allowed:
                    proof.rate, proof.chain = rate, chain.chain
        return proof.rate > before
