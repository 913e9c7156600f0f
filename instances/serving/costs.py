r"""Costs of the stages of a served decoder: what a step takes, and what devices hold.

A stage of layers :math:`[i, j)` runs on t devices of a server. In each step b sequences pass it, at a context of
:math:`c = I + O / 2` tokens in the mean, where prompts have I tokens and outputs O. With peaks, rates of memory and of
links of which parts :math:`η_f, η_b, η_l` are reached, e = 2 bytes of an activation, w of a weight and κ of a key or
value, a layer takes

.. math::

    & \max\Big(\frac{2 P b}{t η_f F}, \frac{w P_b}{t η_b M}\Big) +
      \max\Big(\frac{2 s c b}{t η_f F_{16}}, \frac{κ g c b}{\min(t, G) η_b M}\Big)
      && \text{products and attention} \\
    & + 2 \Big(α \log_2 t + \frac{2 (t - 1) e h b}{t η_l R_t}\Big) + \frac{e (8 h + 3 n) b}{t η_b M}
      && \text{two all-reduces, activations,}

and, where stages take prompts beside decoding, b / O times what a prompt takes in chunks that are full. P are weights
that a token is multiplied with; of E experts, k for each token, a step reads the part
:math:`1 - (1 - k / E)^b`. A visit of a stage adds :math:`σ + ρ b`, and one of another device than the stage before the
time to receive b activations. Stages that follow each other are linked within a server or between two.

A device holds its part of the weights, caches of all sequences in flight, and a reserve; it may be filled up to a part
of its memory.

Times are whole picoseconds: each coefficient is rounded to 10^-18 s, so that who checks finds the same numbers.

Source of the forms: rooflines as of Pope et al., "Efficiently scaling transformer inference", MLSys 2023. Constants are
fitted on half of the rows of TensorRT-LLM's published measurements (docs/serving.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from instances.errors import InputError
from instances.graph.tensors import IntArray
from instances.serving.model import LayerShape, Servers
from instances.serving.problem import CHUNK, PICO, DeploymentInstance

#: Units of coefficients (10^-18 s) in a picosecond.
FINE = 10**6
ACTIVATION_BYTES = 2
_FULL = 2**45  # bytes of a cache that no device has room for
#: Part of the rate of slots that t devices reach, near (log2 t)^-0.05.
SLOTS = {t: Fraction(part, 1000) for t, part in {1: 1000, 2: 1000, 4: 966, 8: 947, 16: 933, 32: 923, 64: 914}.items()}


@dataclass(frozen=True)
class _Line:
    """Time of a layer at b sequences [10^-18 s]: max(product b, weights + expert part) + fixed + each b."""

    product: int  # of matrix products, for each sequence
    weights: int  # to read the weights but those of experts
    experts: int  # to read all experts, of which a step reads a part
    count: int  # number of experts
    unused: int  # experts that a token does not take
    fixed: int  # of each step
    each: int  # further time for each sequence

    def at(self, b: int) -> int:
        """Time of the layer with b sequences [10^-12 s], rounded down."""
        read = self.weights
        if self.count:
            read += self.experts * (self.count**b - self.unused**b) // self.count**b
        return (max(self.product * b, read) + self.fixed + self.each * b) // FINE


def fine(seconds: Fraction) -> int:
    """The nearest whole number of 10^-18 s."""
    return round(seconds * PICO * FINE)


@dataclass(frozen=True, eq=False)
class StageTables:
    """Times of stages with b sequences, in whole picoseconds, by type of server, degree and layer.

    Parameters
    ----------
    time : (T, D, L + 1) integers
        Sums over the layers before each; the head belongs to the last one.
    visit : int
        Time of each visit of a stage.
    hops : (T, 2) integers
        Time to receive activations within servers of each type, and from another server.
    """

    time: IntArray
    visit: int
    hops: IntArray


class StageCosts:
    """Costs of all stages of a question, cached by number of sequences."""

    def __init__(self, question: DeploymentInstance) -> None:
        self.question = question
        self._tables: dict[int, StageTables] = {}

    @cached_property
    def _lines(self) -> list[list[list[_Line]]]:
        """Time of each layer: by type of servers, then tensor degree, then shape of layer."""
        question = self.question
        return [
            [[_line(question, servers, t, shape) for shape in question.model.shapes] for t in question.degrees]
            for servers in question.servers
        ]

    @cached_property
    def _heads(self) -> list[list[_Line]]:
        """Time of the head: by type of servers, then tensor degree."""
        return [[_head(self.question, servers, t) for t in self.question.degrees] for servers in self.question.servers]

    def at(self, b: int) -> StageTables:
        """Tables of times of all stages with b sequences."""
        if b not in self._tables:
            self._tables[b] = self._priced(b)
        return self._tables[b]

    def _priced(self, b: int) -> StageTables:
        question, order, ceiling = self.question, self.question.model.order, self.question.ceiling
        rows = []
        for lines_of_degrees, prompts, heads in zip(self._lines, self._prompts, self._heads, strict=True):
            of_servers = []
            for lines, alone, head in zip(lines_of_degrees, prompts, heads, strict=True):
                shapes = [b * t for t in alone] if question.prefill == "prompts" else [line.at(b) for line in lines]
                each = np.array([min(time, ceiling) for time in shapes], dtype=np.int64)[order]
                each[-1] = min(shapes[order[-1]] + head.at(b), ceiling)
                of_servers.append(np.concatenate(([0], np.cumsum(each))))
            rows.append(of_servers)
        visit, *hops = (min((fixed + b * each) // FINE, ceiling) for fixed, each in self._visits)
        return StageTables(np.array(rows, dtype=np.int64), visit, np.array(hops, dtype=np.int64).reshape(-1, 2))

    @cached_property
    def _visits(self) -> list[tuple[int, int]]:
        """(fixed time, time per sequence) [10^-18 s] of a visit to a stage, then of the hops between stages.

        After the visit come, for each type of servers, the hop within a server and the hop to another server.
        """
        question, constants = self.question, self.question.constants
        tokens = 1 + question.prompts_per_token * question.input
        if question.prefill == "prompts":
            tokens = Fraction(question.input)
        moved, latency = ACTIVATION_BYTES * question.model.hidden * tokens, fine(Fraction(constants.latency))
        rates = [rate for servers in question.servers for rate in (servers.within, question.between)]
        visit = fine(Fraction(constants.visit)), fine(Fraction(constants.sequence))
        return [visit, *((latency, fine(moved / Fraction(rate))) for rate in rates)]

    @cached_property
    def weights(self) -> IntArray:
        """(D, L + 1) bytes of weights on a device, by degree, over the layers before each, with embedding and head."""
        question, rows = self.question, []
        model = question.model
        for t in question.degrees:
            shapes = [
                _above(_width(question, shape) * (shape.weights + shape.experts * shape.expert) / t)
                + _above(_width(question, shape) * shape.whole)
                for shape in model.shapes
            ]
            by_layer = np.array(shapes, dtype=np.int64)[model.order]
            for layer, end, parameters in ((0, 0, model.embedding), (-1, 1, model.head)):
                by_layer[layer] += _above(_width_of_end(question, end) * parameters / t)
            rows.append(np.concatenate(([0], np.cumsum(by_layer))))
        return np.array(rows)

    @cached_property
    def tied(self) -> IntArray:
        """(D,) bytes saved on a device that holds both embedding and head where they share a table."""
        question = self.question
        sizes = [_width_of_end(question, 0) * question.model.tied / t for t in question.degrees]
        return np.array([math.floor(size) for size in sizes], dtype=np.int64)

    @cached_property
    def caches(self) -> IntArray:
        """(D, L + 1) bytes of a sequence's cache on a device, by degree, summed over the layers before each."""
        question, rows = self.question, []
        for t in question.degrees:
            shapes = [
                _above(
                    Fraction(question.cache_bytes)
                    * shape.cache
                    * _within(question.resident_tokens, shape)
                    / min(t, shape.key_heads)
                )
                for shape in question.model.shapes
            ]
            by_layer = np.array([min(size, _FULL) for size in shapes], dtype=np.int64)[question.model.order]
            rows.append(np.concatenate(([0], np.cumsum(by_layer))))
        return np.array(rows)

    @cached_property
    def largest_cache(self) -> int:
        """Bytes of a sequence's cache that at least one device must hold in any cut."""
        return int(np.diff(self.caches).min(axis=0).max())

    @cached_property
    def room(self) -> IntArray:
        """(T,) bytes of a device for weights and caches."""
        constants = self.question.constants
        return np.array(
            [
                math.floor(Fraction(constants.keep) * Fraction(servers.memory) - Fraction(constants.reserve))
                for servers in self.question.servers
            ],
            dtype=np.int64,
        )

    @cached_property
    def _prompts(self) -> list[list[list[int]]]:
        """Time of a single prompt in each layer [10^-12 s]: by type of servers, tensor degree, then shape of layer."""
        question, rows = self.question, []
        for servers in question.servers:
            of_servers = []
            for t in question.degrees:
                times = [fine(_alone(question, servers, t, shape)) // FINE for shape in question.model.shapes]
                if max(times) > question.ceiling:
                    raise InputError(f"a layer takes hours for a prompt on {servers.kind}; give shorter ones.")
                of_servers.append(times)
            rows.append(of_servers)
        return rows

    @cached_property
    def prompts(self) -> IntArray:
        """(T, D, L + 1) times of a single prompt [10^-12 s], sums over the layers before each."""
        by_layer = np.array(self._prompts, dtype=np.int64)[:, :, self.question.model.order]
        sums = np.zeros((*by_layer.shape[:2], by_layer.shape[2] + 1), dtype=np.int64)
        np.cumsum(by_layer, axis=2, out=sums[:, :, 1:])
        return sums


#: Fields of a question on which the costs of its stages do not depend.
_FREE = ("uniform", "batch", "tpot", "ttft", "objective", "topology", "runtime")


@lru_cache(maxsize=64)
def costs_of(question: DeploymentInstance) -> StageCosts:
    """Costs of the stages of a question, shared by those that differ in limits and objective alone."""
    names = [field.name for field in fields(question) if field.name not in _FREE]
    return _shared_costs(tuple((name, getattr(question, name)) for name in names))


@lru_cache(maxsize=64)
def _shared_costs(values: tuple[tuple[str, Any], ...]) -> StageCosts:
    return StageCosts(DeploymentInstance(**dict(values)))


def _above(size: Fraction) -> int:
    """The least whole number of bytes that is not below `size`."""
    return math.ceil(size)


def _width(question: DeploymentInstance, shape: LayerShape) -> Fraction:
    """Bytes of a weight of a layer."""
    return Fraction(shape.stored, shape.parameters) if shape.stored else Fraction(question.weight_bytes)


def _width_of_end(question: DeploymentInstance, end: int) -> Fraction:
    """Bytes of a weight of the embedding or of the head."""
    size, parameters = question.model.stored[end], (question.model.embedding, question.model.head)[end]
    return Fraction(size, parameters) if size and parameters else Fraction(question.end_bytes)


def _within(tokens: Fraction, shape: LayerShape) -> Fraction:
    """Number of tokens of a context that a layer keeps."""
    return min(tokens, Fraction(shape.window)) if shape.window else tokens


@dataclass(frozen=True)
class _Rates:
    """Rates that t devices of a server reach together, or each of them [1/s, bytes/s]."""

    products: Fraction  # FLOP/s of all devices in products with weights
    scores: Fraction  # FLOP/s of all devices in attention
    memory: Fraction  # bytes/s of all devices' memories
    link: Fraction  # bytes/s of each device in an all-reduce

    @classmethod
    def of(cls, question: DeploymentInstance, servers: Servers, t: int) -> _Rates:
        constants = question.constants
        peak = t * Fraction(constants.flops) * Fraction(servers.peak_flops)
        part = Fraction(constants.switch) if servers.switched else Fraction(constants.slot) * SLOTS[t]
        return cls(
            products=peak * Fraction(question.speedup(servers)),
            scores=peak,
            memory=t * Fraction(constants.bytes) * Fraction(servers.memory_bandwidth),
            link=part * Fraction(servers.within),
        )


def _parts(question: DeploymentInstance, servers: Servers, t: int, shape: LayerShape) -> tuple[_Line, Fraction]:
    """Time of a layer in a decoding step without attention, and the seconds that each sequence adds.

    Attention and prompts are added by the caller.
    """
    rates, w = _Rates.of(question, servers, t), _width(question, shape)
    hidden = question.model.hidden
    reduce = 2 * Fraction(2 * (t - 1) * ACTIVATION_BYTES * hidden, t) / rates.link
    activations = ACTIVATION_BYTES * (8 * hidden + 3 * shape.inner) / rates.memory
    line = _Line(
        product=fine(2 * (shape.weights + shape.chosen * shape.expert) / rates.products),
        weights=fine(w * shape.weights / rates.memory),
        experts=fine(w * shape.experts * shape.expert / rates.memory),
        count=shape.experts,
        unused=shape.experts - shape.chosen,
        fixed=fine(2 * Fraction(question.constants.latency) * (t.bit_length() - 1)),
        each=0,
    )
    return line, reduce + activations


def _line(question: DeploymentInstance, servers: Servers, t: int, shape: LayerShape) -> _Line:
    rates = _Rates.of(question, servers, t)
    line, each = _parts(question, servers, t, shape)
    context = _within(question.context, shape)
    scores = 2 * shape.scores * context / rates.scores
    keys = Fraction(question.cache_bytes) * shape.cache * context * t / (min(t, shape.key_heads) * rates.memory)
    each += max(scores, keys)
    if question.prompts_per_token:
        each += question.prompts_per_token * _prompt(question, line, each - max(scores, keys), rates, shape)
    return _Line(line.product, line.weights, line.experts, line.count, line.unused, line.fixed, fine(each))


def _prompt(question: DeploymentInstance, line: _Line, each: Fraction, rates: _Rates, shape: LayerShape) -> Fraction:
    """Seconds of a prompt that is processed in full chunks."""
    chunk = Fraction(line.at(CHUNK), PICO) + CHUNK * each
    return question.input * chunk / CHUNK + _attended(question, rates, shape)


def _alone(question: DeploymentInstance, servers: Servers, t: int, shape: LayerShape) -> Fraction:
    """Seconds of a prompt that is processed by itself."""
    rates = _Rates.of(question, servers, t)
    line, each = _parts(question, servers, t, shape)
    full, rest = divmod(question.input, CHUNK)
    times = full * (Fraction(line.at(CHUNK), PICO) + CHUNK * each)
    if rest:
        times += Fraction(line.at(rest), PICO) + rest * each
    return times + _attended(question, rates, shape)


def _attended(question: DeploymentInstance, rates: _Rates, shape: LayerShape) -> Fraction:
    """Seconds of causal attention of a prompt."""
    reach = _within(Fraction(question.input), shape)
    mean = reach - reach**2 / (2 * question.input)
    return 2 * shape.scores * question.input * mean / rates.scores


def _head(question: DeploymentInstance, servers: Servers, t: int) -> _Line:
    rates, logits = _Rates.of(question, servers, t), question.model.logits
    products = rates.products if question.end_bytes == question.weight_bytes else rates.scores
    return _Line(
        product=fine(2 * logits / products),
        weights=fine(_width_of_end(question, 1) * logits / rates.memory),
        experts=0,
        count=0,
        unused=0,
        fixed=0,
        each=0,
    )
