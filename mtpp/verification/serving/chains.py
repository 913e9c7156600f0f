"""Stages of deployments, computed again: times, bytes, and whether some chain is fast enough.

Numbers are rational until a coefficient is rounded to 10^-18 s, as the definition says (docs/serving.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import accumulate
from math import prod

import numpy as np

from instances.compiled import compiled
from instances.errors import InputError
from instances.graph.tensors import IntArray
from instances.serving.model import LayerShape, Servers
from instances.serving.problem import CACHES, PICO, WEIGHTS, DeploymentInstance
from mtpp.verification.verdict import Clock, UndecidedError

_UNITS = 10**6  # of 10^-18 s in a picosecond
_CHUNK, _ACTIVATION = 8192, 2
_FULL = 2**45  # bytes of a cache that no device has room for
#: Part of the rate of slots that devices reach, by degree, in thousandths.
_SLOTS = {1: 1000, 2: 1000, 4: 966, 8: 947, 16: 933, 32: 923, 64: 914}


power = lru_cache(maxsize=64)(pow)


def _rounded(seconds: Fraction) -> int:
    return round(seconds * PICO * _UNITS)


class ExactStages:
    """Times and bytes of all stages of a question."""

    def __init__(self, question: DeploymentInstance, clock: Clock) -> None:
        self.question, self.clock = question, clock
        self.order = [int(shape) for shape in question.model.order]
        self.width, self.bits = WEIGHTS[question.weights]
        plain = Fraction(self.width if self.width >= 1 else 2)
        model = question.model
        sizes = zip(model.stored, (model.embedding, model.head), strict=True)
        self.ends = [Fraction(size, count) if size and count else plain for size, count in sizes]
        self.is_one_width = plain == self.width
        self.widths = [
            Fraction(shape.stored, shape.weights + shape.whole + shape.experts * shape.expert)
            if shape.stored
            else Fraction(self.width)
            for shape in model.shapes
        ]
        self.ceiling = 2**61 // question.model.layers  # longer times count as this one, so that sums have 64 bits
        self.times = cache(self._times)

    def _rates(self, servers: Servers, t: int) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """Rates of t devices: FLOP/s of weights and of attention, bytes/s of memory, and bytes/s of a link."""
        constants = self.question.constants
        gain = {16: 1.0, 8: servers.eight, 4: servers.four}[self.bits]
        plain = Fraction(constants.flops) * Fraction(servers.peak_flops) * t
        memory = Fraction(constants.bytes) * Fraction(servers.memory_bandwidth) * t
        part = Fraction(constants.slot) * Fraction(_SLOTS[t], 1000)
        link = (Fraction(constants.switch) if servers.switched else part) * Fraction(servers.within)
        return plain * Fraction(gain), plain, memory, link

    def _product(self, servers: Servers, t: int, shape: LayerShape, b: int) -> int:
        """Time of a layer's products with weights at b sequences, with the fixed part of its all-reduces [10^-18 s]."""
        products, _, memory, _ = self._rates(servers, t)
        computed = _rounded(Fraction(2 * (shape.weights + shape.chosen * shape.expert)) / products) * b
        width = self.widths[self.question.model.shapes.index(shape)]
        read = _rounded(width * shape.weights / memory)
        if shape.experts:
            every = _rounded(width * (shape.experts * shape.expert) / memory)
            taken = power(shape.experts, b) - power(shape.experts - shape.chosen, b)
            read += every * taken // power(shape.experts, b)
        doublings = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4, 32: 5, 64: 6}[t]
        return max(computed, read) + _rounded(2 * doublings * Fraction(self.question.constants.latency))

    def _passing(self, servers: Servers, t: int, shape: LayerShape) -> Fraction:
        """Seconds that each token adds to a layer by all-reduces and by moving activations."""
        _, _, memory, link = self._rates(servers, t)
        hidden = self.question.model.hidden
        reduces = Fraction(4 * (t - 1) * hidden * _ACTIVATION, t) / link
        return reduces + Fraction(_ACTIVATION * (8 * hidden + 3 * shape.inner)) / memory

    def _prompt_attention(self, servers: Servers, t: int, shape: LayerShape) -> Fraction:
        tokens = self.question.input
        reach = min(tokens, shape.window) if shape.window else tokens
        pairs = tokens * (Fraction(reach) - Fraction(reach * reach, 2 * tokens))
        return 2 * shape.scores * pairs / self._rates(servers, t)[1]

    def _layer(self, servers: Servers, t: int, shape: LayerShape, b: int) -> int:
        """Time of a layer in a step of b sequences [10^-12 s]."""
        question = self.question
        _, plain, memory, _ = self._rates(servers, t)
        context = Fraction(2 * question.input + question.output, 2)
        if shape.window:
            context = min(context, Fraction(shape.window))
        copies = Fraction(t, min(t, shape.key_heads))
        each = self._passing(servers, t, shape) + max(
            2 * shape.scores * context / plain, Fraction(CACHES[question.kv]) * shape.cache * context * copies / memory
        )
        if question.prefill == "mixed":
            chunk = Fraction(self._product(servers, t, shape, _CHUNK) // _UNITS, PICO)
            prompt = chunk + _CHUNK * self._passing(servers, t, shape)
            prompt = prompt * question.input / _CHUNK + self._prompt_attention(servers, t, shape)
            each += prompt / question.output
        return (self._product(servers, t, shape, b) + b * _rounded(each)) // _UNITS

    def _head(self, servers: Servers, t: int, b: int) -> int:
        logits, (products, plain, memory, _) = self.question.model.logits, self._rates(servers, t)
        computed = _rounded(2 * logits / (products if self.is_one_width else plain))
        return max(computed * b, _rounded(self.ends[1] * logits / memory)) // _UNITS

    def _times(self, b: int) -> IntArray:
        """(T, D, L + 1) prefix sums over layers of their times [10^-12 s]; the head counts with the last layer.

        T types of servers, D tensor degrees and L layers.
        """
        rows, alone = [], self.question.prefill == "prompts"
        for servers in self.question.servers:
            of_servers = []
            for t in self.question.degrees:
                self.clock.raise_if_late()
                shapes = [
                    b * self._single(servers, t, shape) if alone else self._layer(servers, t, shape, b)
                    for shape in self.question.model.shapes
                ]
                each = [shapes[shape] for shape in self.order]
                each[-1] += self._head(servers, t, b)
                of_servers.append([0, *accumulate(min(time, self.ceiling) for time in each)])
            rows.append(of_servers)
        return np.array(rows, dtype=np.int64)

    def prompts(self) -> IntArray:
        """(T, D, L + 1) prefix sums over layers of the times of one prompt [10^-12 s]; dimensions as in `_times`."""
        rows = []
        for servers in self.question.servers:
            of_servers = []
            for t in self.question.degrees:
                shapes = [self._single(servers, t, shape) for shape in self.question.model.shapes]
                if max(shapes) > self.ceiling:
                    raise InputError("question: a layer takes hours for a prompt; give shorter prompts.")
                of_servers.append([0, *accumulate(shapes[shape] for shape in self.order)])
            rows.append(of_servers)
        return np.array(rows, dtype=np.int64)

    def _single(self, servers: Servers, t: int, shape: LayerShape) -> int:
        seconds, tokens = self._prompt_attention(servers, t, shape), self.question.input
        for part, count in ((_CHUNK, tokens // _CHUNK), (tokens % _CHUNK, 1)):
            product = Fraction(self._product(servers, t, shape, part) // _UNITS, PICO)
            seconds += count * (product + part * self._passing(servers, t, shape)) if part > 0 else 0
        return _rounded(seconds) // _UNITS

    def visit(self, b: int) -> int:
        """Fixed time of a stage for each batch, whatever its layers [10^-12 s]."""
        constants = self.question.constants
        time = _rounded(Fraction(constants.visit)) + b * _rounded(Fraction(constants.sequence))
        return min(time // _UNITS, self.ceiling)

    def hop(self, s: int, b: int, *, within: bool) -> int:
        """Time to receive a batch on servers of type s, from a stage on the same server or another one [10^-12 s]."""
        question = self.question
        prompts = Fraction(question.input, question.output) if question.prefill == "mixed" else Fraction(0)
        rate = Fraction(question.servers[s].within if within else question.between)
        tokens = 1 + prompts
        if question.prefill == "prompts":
            tokens = Fraction(question.input)
        each = _rounded(_ACTIVATION * question.model.hidden * tokens / rate)
        return min((_rounded(Fraction(question.constants.latency)) + b * each) // _UNITS, self.ceiling)

    def weights(self, t: int) -> list[int]:
        """(L + 1,) prefix sums over layers of weight bytes on a device, with embedding and head."""
        model = self.question.model
        shapes = [
            -(-width * (shape.weights + shape.experts * shape.expert) // t) - (-width * shape.whole // 1)
            for width, shape in zip(self.widths, model.shapes, strict=True)
        ]
        sums = [0]
        for shape in self.order:
            sums.append(sums[-1] + int(shapes[shape]))
        first, last = (
            int(-(-width * size // t)) for width, size in zip(self.ends, (model.embedding, model.head), strict=True)
        )
        sums = [sums[0], *(size + first for size in sums[1:])]
        sums[-1] += last
        return sums

    def tied(self, t: int) -> int:
        """Bytes of the table that embedding and head share, of which a device with both holds only one."""
        return int(self.ends[0] * self.question.model.tied // t)

    def caches(self, t: int) -> list[int]:
        """(L + 1,) prefix sums over layers of cache bytes of a sequence on a device."""
        question = self.question
        tokens = Fraction(question.input + question.output)
        if question.reserve == "mean":
            tokens -= Fraction(question.output, 2)
        if question.prefill == "prompts":
            tokens = Fraction(question.input)
        sums = [0]
        for number in self.order:
            shape = question.model.shapes[number]
            resident = min(tokens, Fraction(shape.window)) if shape.window else tokens
            size = Fraction(CACHES[question.kv]) * shape.cache * resident
            sums.append(sums[-1] + min(int(-(-size // min(t, shape.key_heads))), _FULL))
        return sums

    def room(self, s: int) -> int:
        """Bytes of a device for weights and caches."""
        constants = self.question.constants
        return int(
            (Fraction(constants.keep) * Fraction(self.question.servers[s].memory) - Fraction(constants.reserve)) // 1
        )


# Whether some chain keeps limits of its stages, their sum and prompts: from the last layer to the first.


@dataclass(frozen=True)
class Goal:
    """Limits of a chain, and sequences in flight."""

    sequences: int  # in flight
    longest: int  # most time of one stage [10^-12 s]
    limit: int  # most time of all stages together [10^-12 s]
    patience: int  # most time of a prompt in all stages [10^-12 s]


#: Labels of a state at most; more of them leave a question open.
_LABELS = 64
#: Labels and steps of a dynamic program at most.
_MOST_LABELS, _MOST_STEPS = 2**25, 2**32


@compiled
def chain_exists(
    time: IntArray,
    prompt: IntArray,
    weights: IntArray,
    caches: IntArray,
    tied: IntArray,
    room: IntArray,
    degrees: IntArray,
    visit: int,
    within: IntArray,
    between: IntArray,
    devices: IntArray,
    counts: IntArray,
    sequences: int,
    longest: int,
    limit: int,
    patience: int,
    labels: int,
) -> int:
    """1 if some chain keeps the limits, 0 if none does, -1 if there were too many labels to say.

    A state is a layer, the servers left for stages from this layer on, and the free devices of the server in use; its
    labels are pairs of sums, of step times and of prompt times, from there to the end.
    """
    types, layers = len(counts), time.shape[2] - 1
    vectors, free_states = 1, 1
    for s in range(types):
        vectors *= counts[s] + 1
        free_states += devices[s]
    size = np.zeros((layers + 1, vectors, free_states), dtype=np.int64)
    sums = np.zeros((layers + 1, vectors, free_states, labels, 2), dtype=np.int64)
    size[layers] = 1
    left = np.zeros(types, dtype=np.int64)
    for j in range(layers - 1, -1, -1):
        for vector in range(vectors):
            rest = vector
            for s in range(types):
                left[s] = rest % (counts[s] + 1)
                rest //= counts[s] + 1
            for place in range(free_states):
                if j == 0 and (place > 0 or vector < vectors - 1):
                    continue
                stage, free, offset = -1, 0, 1
                for s in range(types):
                    if place >= offset and place < offset + devices[s]:
                        stage, free = s, place - offset
                    offset += devices[s]
                step, offset = 1, 1
                for s in range(types):
                    for begins in range(2):
                        room_for = devices[s] if begins else free
                        if (begins and left[s] == 0) or (not begins and s != stage):
                            continue
                        hop = 0
                        if j > 0:
                            hop = between[s] if begins else within[s]
                        after = vector - step if begins else vector
                        for d in range(len(degrees)):
                            if degrees[d] > room_for:
                                continue
                            target = offset + room_for - degrees[d]
                            for i in range(j + 1, layers + 1):
                                took = time[s, d, i] - time[s, d, j] + visit + hop
                                bytes_held = weights[d, i] - weights[d, j] + sequences * (caches[d, i] - caches[d, j])
                                if i - j == layers:
                                    bytes_held -= tied[d]
                                if took > longest or bytes_held > room[s]:
                                    break
                                asks = prompt[s, d, i] - prompt[s, d, j]
                                for a in range(size[i, after, target]):
                                    x = took + sums[i, after, target, a, 0]
                                    y = asks + sums[i, after, target, a, 1]
                                    if x > limit or y > patience:
                                        continue
                                    beaten = False
                                    for c in range(size[j, vector, place]):
                                        if sums[j, vector, place, c, 0] <= x and sums[j, vector, place, c, 1] <= y:
                                            beaten = True
                                    if beaten:
                                        continue
                                    kept = 0
                                    for c in range(size[j, vector, place]):
                                        if sums[j, vector, place, c, 0] < x or sums[j, vector, place, c, 1] < y:
                                            sums[j, vector, place, kept] = sums[j, vector, place, c]
                                            kept += 1
                                    if kept == labels:
                                        return -1
                                    sums[j, vector, place, kept, 0] = x
                                    sums[j, vector, place, kept, 1] = y
                                    size[j, vector, place] = kept + 1
                    step *= counts[s] + 1
                    offset += devices[s]
    return 1 if size[0, vectors - 1, 0] > 0 else 0


class ChainChecks:
    """Tests whether chains within limits exist, with tables that are computed once."""

    def __init__(self, stages: ExactStages) -> None:
        self.stages, question = stages, stages.question
        self.degrees = question.degrees
        self.weights = np.array([stages.weights(t) for t in self.degrees], dtype=np.int64)
        self.caches = np.array([stages.caches(t) for t in self.degrees], dtype=np.int64)
        self.tied = np.array([stages.tied(t) for t in self.degrees], dtype=np.int64)
        self.room = np.array([stages.room(s) for s in range(len(question.servers))], dtype=np.int64)
        self.has_patience = question.ttft < np.inf
        self.prompts = stages.prompts() * self.has_patience

    def exists(self, devices: list[tuple[int, int]], batch: int, goal: Goal, degree: int) -> bool | None:
        """Whether a chain of stages of a tensor degree, any if 0, meets a goal at a batch size; None if undecided."""
        stages = self.stages
        steps = prod(count + 1 for count, _ in devices) * (1 + sum(size for _, size in devices))
        layers, labels = len(stages.order), _LABELS if self.has_patience else 1
        if steps * layers * labels > _MOST_LABELS or steps * layers**2 * len(self.degrees) > _MOST_STEPS:
            raise UndecidedError(f"there are too many devices for a dynamic program: {devices}")
        chosen = [d for d, t in enumerate(self.degrees) if degree in (0, t)]
        if goal.sequences * int(np.diff(self.caches).min(axis=0).max()) > max(self.room.tolist()):
            return False
        types = range(len(devices))
        result = chain_exists(
            stages.times(batch)[:, chosen],
            self.prompts[:, chosen],
            self.weights[chosen],
            self.caches[chosen],
            self.tied[chosen],
            self.room,
            np.array([self.degrees[d] for d in chosen], dtype=np.int64),
            stages.visit(batch),
            np.array([stages.hop(s, batch, within=True) for s in types], dtype=np.int64),
            np.array([stages.hop(s, batch, within=False) for s in types], dtype=np.int64),
            np.array([size for _, size in devices], dtype=np.int64),
            np.array([count for count, _ in devices], dtype=np.int64),
            goal.sequences,
            goal.longest,
            goal.limit,
            goal.patience,
            labels,
        )
        return None if result < 0 else bool(result)
