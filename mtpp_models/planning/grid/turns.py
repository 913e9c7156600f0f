r"""A bound for plans whose devices run several stages in turns, in Megatron-LM's order.

For a model of equal layers with one layer before and one after them, as language models have. Layers between the first
and the last that differ count as equal ones with the least of all their numbers: no plan takes longer with these. Group
g of S holds some of the equal layers, the first group also what comes before, the last one what comes after. In this
order it begins with :math:`(v - 1) S + 2 (S - g) - 1` forward passes: S of each turn but the last, of that one :math:`r
= \min(S, 2 (S - g) - 1)`, all kept at once, as S divides M. With τ the time of both passes of its layers, F of forward
passes, f and b of the passes of one layer, c of a transfer, at the best degree and link where other groups run them,
and A of what follows the last backward pass of the first layer:

- its passes lie between g forward and g backward passes of other groups: :math:`T ≥ g (f + b + 2 c) + M τ + A`;
- its first backward pass follows all forward passes of a microbatch, of time P, and S - g - 1 backward passes, and till
  then it has run no more than S forward passes of its layers, less S - r of its last turn. If that has n layers, and r
  < S, :math:`T ≥ P + (3 S - 2) c + (S - 1) b + M τ - S F + n (S - r) f + A`, so that n is small;
- τ includes the least recomputation with which r microbatches of its layers fit, and S of those of other turns.

A time is impossible if, for all degrees and S, groups that stay below it cannot hold all layers: the most layers of
each group and degree are added up by a program over devices, for each largest degree, which some group must have. The
bound is the largest such time, by bisection.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.grid.arrays import GridArrays
from instances.planning.grid.configurations import NONE, Configuration, ConfiguredChain, ConfiguredLayer
from instances.planning.grid.plan import GridPlan
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.program import stage_costs
from instances.planning.grid.settings import Setting, even_work, settings_of

__all__ = ["turns_bound"]

_STEPS = 24


def turns_bound(plan: GridPlan) -> float | None:
    """Time that no plan in turns is below, at most that of this plan [s]; None of less than four layers."""
    question, high = plan.instance, plan.time
    if question.layers < 4:
        return None
    works = [even_work(question, *one) for one in settings_of(question)]
    question = replace(question, chains=tuple(map(_equal_between_ends, question.chains)))
    both = zip(works, settings_of(question), strict=True)
    low = min([high, *works])
    rooms = [room for work, one in both if work < high and (room := _Room(question, *one)).holds(high)]
    if not rooms:
        return high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        holding = [room for room in rooms if room.holds(middle)]
        if holding:
            high, rooms = middle, holding
        else:
            low = middle
    return low


def _equal_between_ends(chain: ConfiguredChain) -> ConfiguredChain:
    """Chain whose layers but the first and the last have the least numbers of all of these, in all ways to run one."""
    first, *between, last = chain.layers
    if len({layer.kind for layer in between}) == 1:
        return chain
    ways = {(one.degrees, one.recompute): one for layer in between for one in layer.configurations}
    for layer in between:
        for one in layer.configurations:
            way = one.degrees, one.recompute
            ways[way] = Configuration(
                **{
                    name: min(getattr(ways[way], name), value) if isinstance(value, float) else value
                    for name, value in vars(one).items()
                }
            )
    alike = [replace(one, forward=ways[one.degrees, NONE].forward) for one in ways.values()]
    equal = ConfiguredLayer("between", "between", tuple(alike))
    return replace(chain, layers=(first, *[equal] * len(between), last))


class _Tables(NamedTuple):
    """Times of groups by their numbers of equal layers, of T degrees."""

    degrees: IntArray  # (T,)
    tau: FloatArray  # (3, H, T, L - 1): both passes of a first, an inner, a last group, for microbatches held
    forward: FloatArray  # (3, T, L - 1): forward passes of these
    plain: FloatArray  # (T, L): both passes of each layer, without recomputation
    there: FloatArray  # (T, L): forward pass of each layer
    after: FloatArray  # (T,): what follows the passes of the first layer
    transfer: FloatArray  # (T,): least time between two stages of groups up to a degree


class _Room:
    """Groups of one setting."""

    def __init__(self, question: GridInstance, setting: Setting, arrays: GridArrays) -> None:
        self.M = question.global_batch // (setting.pipelines * setting.micro_batch)
        self.K = question.servers.devices // (setting.pipelines * setting.context)
        L, fixed = question.layers, question.fixed.pp
        most = min(L // 2, self.K)
        self.groups = [S for S in range(2, most + 1) if self.M % S == 0 and fixed in (None, S)]
        costs = stage_costs(question, arrays, setting, min(self.M, max(self.groups, default=1)))
        counts = np.arange(1, L - 1)

        def by_count(table: FloatArray) -> FloatArray:
            """Of the ends with so many equal layers, or of these alone; of none of them nothing."""
            rows = (table[..., 0, 1 + counts], table[..., 1, 1 + counts], table[..., L - 1 - counts, L])
            return np.ascontiguousarray([np.insert(row, 0, 0.0, axis=-1) for row in rows])

        self.tables = _Tables(
            degrees=costs.degrees,
            tau=by_count(costs.tau),
            forward=by_count(costs.forward),
            plain=np.diff(arrays.forward + arrays.backward, axis=1),
            there=np.diff(arrays.forward, axis=1),
            after=np.ascontiguousarray(costs.after[:, 0, 1]),
            transfer=np.minimum.accumulate(costs.transfer[:, :-1].min(axis=1)),
        )

    def holds(self, ceiling: float) -> bool:
        """Whether some number of groups may hold all layers below a time."""
        return any(_holds(self.tables, S, self.M, self.K, ceiling) for S in self.groups)


@compiled
def _holds(tables: _Tables, S: int, M: int, K: int, ceiling: float) -> bool:
    """Whether S groups below a time may hold all layers, for some largest degree."""
    T = len(tables.degrees)
    equal = tables.plain.shape[1] - 2
    for top in range(T):
        covered = np.full((2, K + 1), -1)  # most layers without a group of the largest degree, and with one
        covered[0, 0] = 0
        for g in range(S - 1, -1, -1):
            more = np.full((2, K + 1), -1)
            for t in range(top + 1):
                number = _most_layers(tables, S, M, g, t, top, ceiling)
                degree = tables.degrees[t]
                for before in range(2 if number > 0 else 0):
                    now = 1 if t == top else before
                    for k in range(degree, K + 1):
                        if covered[before, k - degree] >= 0:
                            more[now, k] = max(more[now, k], covered[before, k - degree] + number)
            covered = more
        if covered[1].max() >= equal:
            return True
    return False


@compiled
def _most_layers(tables: _Tables, S: int, M: int, g: int, t: int, top: int, ceiling: float) -> int:
    """Most equal layers of group g with a degree, all groups at most that of place `top`; 0 if none is below a time."""
    plain, there = tables.plain[: top + 1], tables.there[: top + 1]
    back, c, L = plain - there, tables.transfer[top], plain.shape[1]
    kind, r = 0 if g == 0 else 2 if g == S - 1 else 1, min(S, 2 * (S - g) - 1)
    around = filled = tables.after[: top + 1].min()
    if g > 0:
        around += plain[:, 0].min() + (g - 1) * plain[:, 1].min() + 2 * g * c
        filled += back[:, 0].min() + (g - 1) * back[:, 1].min()
    if g < S - 1:
        filled += back[:, L - 1].min() + (S - g - 2) * back[:, 1].min()
    filled += there[:, 0].min() + (L - 2) * there[:, 1].min() + there[:, L - 1].min() + (3 * S - 2) * c
    found = 0
    for count in range(1, L - 1):
        tau = tables.tau[kind, r - 1, t, count]
        if M * tau + around >= ceiling:
            break
        if r < S:
            more = count * (there[t, 1] - there[:, 1].min()) - S * tables.forward[kind, t, count]
            more += (S - r) * there[t, L - 1] if kind == 2 else 0.0
            step, last, before = (S - r) * there[t, 1], count - 1, count
            while last < before:  # a longer time leaves less room for the last turn, which makes the time longer
                slack = ceiling - filled - M * tau - more
                if slack < (step if kind == 1 else 0.0):
                    tau = np.inf
                    break
                before = last
                last = int(min(slack / step, last)) if step > 0 else last
                apart = tables.tau[1, S - 1, t, count - last] + last * plain[t, 1]
                tau = max(tau, apart + (plain[t, L - 1] if kind == 2 else 0.0))
            if M * tau + around >= ceiling:
                continue
        found = count
    return found
