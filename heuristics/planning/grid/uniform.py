"""The best plan in a grid with equal stages, and what runtimes can express."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import pairwise, product

import numpy as np

from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.grid.configurations import FULL, NONE, ConfiguredChain, Degrees
from instances.planning.grid.plan import PLACINGS, GridPlan, first_recomputed
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.program import Setting
from instances.planning.grid.recomputation import GridArrays

# Uniform plans: the same tensor degree, number of layers and recomputation in all stages.


@dataclass(frozen=True)
class Sketch:
    """A plan that has not been checked yet, with an estimate of its time."""

    estimate: float  # [s]
    setting: Setting
    cuts: tuple[int, ...]
    tensor: tuple[int, ...]
    modes: tuple[str, ...]  # empty if they are still to be chosen


#: Runtimes that may lay the stages of a pipeline side by side; the others lay replicas so.
_WITH_BOTH = (None, "megatron")


def built(question: GridInstance, sketch: Sketch, runtime: str | None = None) -> list[GridPlan]:
    """The plan in each order of assigning devices (`PLACINGS`) that the runtime has; empty if it does not fit."""
    plans, setting = list[GridPlan](), sketch.setting
    single = setting.expert > 1 or setting.pipelines == 1 or len(sketch.tensor) == 1 or runtime not in _WITH_BOTH
    stages = setting.micro_batch, setting.pipelines, sketch.cuts, sketch.tensor, sketch.modes
    others = setting.context, setting.expert, setting.zero
    for placing in PLACINGS[: 1 if single else 2]:
        with suppress(InputError):
            plans.append(plans[0].placed(placing) if plans else GridPlan(question, *stages, *others, placing))
    return plans


def least_step(plan: GridPlan) -> float:
    """Lower bound on the time of a plan [s]: all passes of a group, and those that others must run before or after.

    For interleaved plans also the bound of `mtpp_models.planning.grid`: one microbatch passes all stages, and the group
    runs most passes of the other microbatches before its last pass.
    """
    S, v, M = plan.groups, plan.turns, plan.microbatches
    forward, backward, sent, after = plan.forward_time, plan.backward_time, plan.transfer_time, plan.after_time
    both = (forward + backward).reshape(v, S).sum(axis=0)
    there, back = (np.cumsum(times[: S - 1] + sent[: S - 1]) for times in (forward, backward))
    through = M * both + np.append(0.0, there)
    least = max((through + after[:S]).max(), (through + np.append(0.0, back)).max() + after[0])
    if v > 1:
        first = np.minimum(S, 2 * (S - np.arange(S)) - 1)
        turn = (S - first) * forward[-S:] + (S - 1) * backward[-S:]
        holds = (first < S) | (M == S)
        whole = both.sum() + 2 * sent.sum() + after[0]
        least = max(least, whole + ((M - S) * both + turn)[holds].max())
    return float(least)


@lru_cache(maxsize=1 << 14)
def even_cuts(chain: ConfiguredChain, stages: int) -> tuple[int, ...] | None:
    """Cuts into stages with equal numbers of the most frequent layers, one more in the first stages.

    Layers before and after the most frequent ones join the first and the last stage. If these are more than half of all
    layers, or the most frequent layers are fewer than the stages, all layers count as equal. None if there are fewer
    layers than stages.
    """
    begin, end = _most_frequent(chain)
    if 2 * (end - begin) < chain.n or end - begin < stages:
        begin, end = 0, chain.n
    if stages > end - begin:
        return None
    return (0, *_inner_cuts(begin, end, stages, first=True), chain.n)


@lru_cache(maxsize=1 << 12)
def regular_cuts(chain: ConfiguredChain, stages: int) -> tuple[tuple[int, ...], ...]:
    """Simple cuts, each a tuple of layer indices: equal numbers of layers in all stages, up to one.

    The additional layer is in the first or in the last stages. Either all layers count as equal, or the layers before
    and after the most frequent ones are in the first and the last stage, or in stages of their own.
    """
    every: dict[tuple[int, ...], None] = {}
    for begin, end in (_most_frequent(chain), (0, chain.n)):
        for before, after, first in product(range(1 + (begin > 0)), range(1 + (end < chain.n)), (True, False)):
            inner = stages - before - after
            if 1 <= inner <= end - begin:
                middle = _inner_cuts(begin, end, inner, first=first)
                every[(0, *[begin] * before, *middle, *[end] * after, chain.n)] = None
    return tuple(every)


def _inner_cuts(begin: int, end: int, stages: int, *, first: bool) -> list[int]:
    """Cuts between stages with equal numbers of layers, one more in the first stages or in the last ones."""
    size, extra = divmod(end - begin, stages)
    counts = np.full(stages, size)
    counts[slice(0, extra) if first else slice(stages - extra, None)] += 1
    cuts: list[int] = (begin + np.cumsum(counts)[:-1]).tolist()
    return cuts


@lru_cache(maxsize=64)
def _most_frequent(chain: ConfiguredChain) -> tuple[int, int]:
    """Index of the first layer of the most frequent kind, and the index after the last one."""
    kinds = [layer.kind for layer in chain.layers]
    common, _ = Counter(kinds).most_common(1)[0]
    return kinds.index(common), len(kinds) - kinds[::-1].index(common)


class _Sums:
    """Prefix sums of costs over layers; layers use one mode of recomputation if they have it, else none."""

    def __init__(self, chain: ConfiguredChain, degrees: Degrees, mode: str) -> None:
        ways = {layer.kind: {way.recompute: way for way in layer.modes(degrees)} for layer in chain.kinds.values()}
        chosen = {kind: mode if mode in modes else NONE for kind, modes in ways.items()}
        self.modes = tuple(chosen[layer.kind] for layer in chain.layers)
        layers = [ways[layer.kind][chosen[layer.kind]] for layer in chain.layers]
        self.applies = mode == NONE or mode in self.modes
        self.times, self.stored, self.numbers = (
            np.cumsum([0.0, *values])
            for values in (
                [layer.forward + layer.backward for layer in layers],
                [layer.stored_bytes for layer in layers],
                [layer.parameters + layer.expert_parameters for layer in layers],
            )
        )
        self.working = max(layer.working_bytes for layer in layers)
        self.output = max(layer.output_bytes for layer in layers)


def uniform_sketches(question: GridInstance, settings: Sequence[tuple[Setting, GridArrays]]) -> Iterator[Sketch]:
    """Uniform plans that may fit, of all tensor degrees and numbers of groups and turns, the least estimate first.

    Turns are the stages of each group. An interleaved plan that fits only with recomputation comes once, with its modes
    still to be chosen. Plans are estimated lazily, in the order of their lower bounds.
    """
    if not settings:
        return
    shapes = [_shapes(question, arrays, setting) for setting, arrays in settings]
    which = np.concatenate([np.full(len(rows), i) for i, rows in enumerate(shapes)])
    place = np.concatenate([np.arange(len(rows)) for rows in shapes])
    rows, ready = np.concatenate(shapes), list[tuple[float, int, int, Sketch]]()
    for n in np.lexsort((which, place, rows[:, 0])).tolist():
        while ready and ready[0][0] <= rows[n, 0]:
            yield heappop(ready)[-1]
        sketch = _sketch(question, settings[which[n]][0], *rows[n, 1:].astype(int).tolist())
        if sketch is not None:
            heappush(ready, (sketch.estimate, int(place[n]), int(which[n]), sketch))
    yield from (sketch for *_, sketch in sorted(ready, key=lambda item: item[:3]))


def _shapes(question: GridInstance, arrays: GridArrays, setting: Setting) -> FloatArray:
    """(n, 5) rows of uniform plans: lower bound of the estimate [s], turns, tensor degree, groups, index of a mode."""
    chain, fixed, servers = question.chain(setting.micro_batch), question.fixed, question.servers
    D, M = setting.pipelines * setting.context, question.global_batch // (setting.pipelines * setting.micro_batch)
    modes, degrees = np.arange(len(question.modes)), arrays.degrees
    tables = [[_sums(chain, (t, setting.context, setting.expert), mode) for mode in question.modes] for t in degrees]
    turns, groups = _turns_and_groups(question.layers)
    allowed = (turns == 1) | ((groups > 1) & (M % groups == 0))
    for wanted, values in ((fixed.pp, groups), (fixed.v, turns)):
        allowed &= (wanted is None) | (values == wanted)
    n, t, mode = (
        axis.ravel() for axis in np.meshgrid(np.flatnonzero(allowed), np.arange(len(degrees)), modes, indexing="ij")
    )
    v, S = turns[n], groups[n]
    of = np.array(
        [
            [(sums.times[-1], sums.stored[-1], sums.numbers[-1], sums.output, sums.applies) for sums in row]
            for row in tables
        ]
    )
    times, stored, numbers, output, applies = np.moveaxis(of, 2, 0)[:, t, mode]
    fits = applies.astype(bool) & (
        stored + numbers * sum(question.state_bytes.kept(setting.zero, D)) <= 1.001 * S * question.memory
    )
    after = question.state_bytes.summed(setting.zero) * (D - 1) / D / servers.rate(inside=True)
    after += question.update_time / (D if setting.zero else 1)
    passing = times * (1 - 1 / S) / v + 2 * (S * v - 1) * output / servers.rate(inside=True)
    least = ((M * times + numbers * after) / S + passing) * (1 - 1e-9)
    rows = np.column_stack((least, v, degrees[t], S, mode))
    return rows[(S * degrees[t] * D <= servers.devices) & (fits | ((v > 1) & (mode == 0)))]


@lru_cache(maxsize=64)
def _turns_and_groups(layers: int) -> tuple[IntArray, IntArray]:
    """(m,) turns (stages of each group) and (m,) groups of all uniform plans with at most `layers` stages."""
    pairs = [(v, S) for v in range(1, layers + 1) for S in range(1, layers // v + 1)]
    turns, groups = np.array(pairs).T
    return turns, groups


def _sketch(question: GridInstance, setting: Setting, v: int, t: int, S: int, mode: int) -> Sketch | None:
    """The uniform plan with v turns, tensor degree t, S groups and this mode; None if it cannot fit."""
    chain, degrees = question.chain(setting.micro_batch), (t, setting.context, setting.expert)
    M = question.global_batch // (setting.pipelines * setting.micro_batch)
    cuts = even_cuts(chain, S * v)
    if cuts is None:
        return None
    sums, places = _sums(chain, degrees, question.modes[mode]), np.array(cuts)
    bytes_each = sum(question.state_bytes.kept(setting.zero, setting.pipelines * setting.context))
    fits = sums.applies and _may_fit(sums, places, v, M, question.memory, bytes_each)
    if not fits and (v == 1 or mode > 0):
        return None
    estimate = _estimate(sums, places, t, S, v, M, question, setting)
    return Sketch(estimate, setting, cuts, (t,) * S, sums.modes if fits else ())


@lru_cache(maxsize=1 << 10)
def _sums(chain: ConfiguredChain, degrees: Degrees, mode: str) -> _Sums:
    return _Sums(chain, degrees, mode)


def _differences(sums: FloatArray) -> FloatArray:
    """Differences of neighbours, like `numpy.diff`, whose checks take longer than the work."""
    return sums[1:] - sums[:-1]


def _may_fit(sums: _Sums, cuts: IntArray, v: int, M: int, memory: float, bytes_each: float) -> bool:
    """Whether each group may fit, by a lower bound on the bytes that it keeps.

    An interleaved group is counted with the microbatches before its first backward pass: S of each turn but the last.
    """
    stages = np.arange(len(cuts) - 1, 0, -1)
    S = len(stages) // v
    in_flight = np.minimum(M, stages) if v == 1 else np.minimum(S, 2 * stages - 1)
    needed = in_flight * _differences(sums.stored[cuts]) + _differences(sums.numbers[cuts]) * bytes_each
    return bool((needed.reshape(v, -1).sum(axis=0) <= 1.001 * memory).all())


def _estimate(
    sums: _Sums, cuts: IntArray, t: int, S: int, v: int, M: int, question: GridInstance, setting: Setting
) -> float:
    """Estimated time of a step in the better of the `PLACINGS`, with the transfers that pipelines do not hide [s]."""
    servers, width = question.servers, t * setting.context
    all_near = S * setting.pipelines * width <= servers.size
    beside = max(1, servers.size // (S * width))  # whole pipelines in a server
    near = {
        (all_near, servers.most_in_ring(width, t, setting.pipelines)),
        (S * width <= servers.size, 0 if all_near else min(setting.context, servers.size // t) * beside),
    }
    D, sizes = setting.pipelines * setting.context, question.state_bytes
    passes, numbers = _differences(sums.times[cuts]), _differences(sums.numbers[cuts])
    gathered = sizes.gradients * (setting.zero >= 2) + 2 * sizes.weights * (setting.zero == 3)
    estimates = []
    for stages, ranks in near:
        rate, _ = question.ring_rates(ranks, (t, setting.context, setting.expert))
        shared = (D - 1) / D / rate
        sent = numbers * gathered * shared
        times = np.maximum(passes + question.exposed * sent, sent)
        passing = (times.sum() - times.max()) / v
        passing += 2 * (S * v - 1) * servers.transfer(sums.output, inside=stages)
        after = sizes.summed(setting.zero) * shared + question.update_time / (D if setting.zero else 1)
        groups = (M * times + numbers * after).reshape(v, S).sum(axis=0)
        estimates.append(float(groups.max() + passing))
    return min(estimates)


# Plans that a runtime can run: one tensor degree, whole layers, and recomputation as it says it.


MEGATRON = "megatron"


def expressible(question: GridInstance, sketch: Sketch, runtime: str | None) -> list[Sketch]:
    """The plan as the runtime can run it, with more recomputation if needed; none if it cannot.

    Runtimes take one tensor degree. Megatron-LM recomputes the first layers of each stage, equally many; torchtitan and
    fully sharded replicas all layers or none. Layers that cannot recompute, as those of embeddings, do not count. If
    the question asks for a number of first layers to recompute, they do so with any runtime.
    """
    chain, count = question.chain(sketch.setting.micro_batch), question.fixed.recomputed
    if count is None:
        if runtime is None or (len(set(sketch.tensor)) == 1 and set(sketch.modes) == {NONE}):
            return [sketch]
        if FULL not in sketch.modes:  # all layers recompute a part
            return [sketch] if len(set(sketch.tensor)) == 1 else []
        count = max(sum(mode != NONE for mode in sketch.modes[i:j]) for i, j in pairwise(sketch.cuts))
        count = count if runtime == MEGATRON else chain.n
    if runtime is not None and len(set(sketch.tensor)) > 1:
        return []
    return [replace(sketch, modes=first_recomputed(chain, sketch.cuts, count))]
