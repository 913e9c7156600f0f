r"""Lower bounds from node prices: the cheapest block that is worth its share.

Give each node any price :math:`\ge 0`. In a partition into k blocks some block is worth at least a k-th of all
prices together, so OPT is at least the cost of the cheapest convex set that is worth that much:

.. math::

    \min\; & \sum_v \mathrm{work}(v)\, s_v + \sum_t \tfrac{\mathrm{bytes}(t)}{B}\, c_t + \mathrm{overflow} \\
    & \sum_v \mathrm{price}(v)\, s_v \ge \tfrac1k \sum_v \mathrm{price}(v)                                    \\
    & s_v = y_{v2} - y_{v1}, \quad y_{v1} \le y_{v2}                      & \forall v                          \\
    & y_{vb} \le y_{ub}                                                   & \forall (u, v) \in E, b \in \{1, 2\} \\
    & c_t \ge s_u - s_v, \quad c_t \ge s_v - s_u                          & \forall t \text{ from } u \text{ to } v \\
    & s, y \in \{0, 1\}, \quad 0 \le c \le 1.

With price = work this is the three-superblock relaxation of the paper, (14). The prices of `mtpp_models.prices` make
every block of a good partition equally scarce, and the bound then comes close to the configuration program.

The search for a proof is destructive: a model that admits costs up to a goal T alone is infeasible sooner than it is
solved, and an infeasible one proves OPT >= T. A block that it finds below T corrects the prices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event

import numpy as np
import pyomo.environ as pyo
from pyomo.core.expr import NumericExpression

from instances import Bound, Instance, Partition, Result
from instances.certificates import PROOF_TOLERANCE
from instances.interrupts import catch_interrupt
from instances.tensors import FloatArray, IntArray
from mtpp_models.answers import solve_case
from mtpp_models.conflicts import conflicts
from mtpp_models.constraints import add_assignment, add_dag, add_overflow, x
from mtpp_models.crowds import cliques
from mtpp_models.formulation import Case, ScaledInstance, as_modelled
from mtpp_models.outcome import Controls
from mtpp_models.prices import PriceSearch
from mtpp_models.simple import simple
from mtpp_models.solvers import Solver
from mtpp_models.three_superblock import around

__all__ = ["PRICED", "cheapest_block", "priced", "prove_with"]

PRICED = "priced"

# Prices below this part of a share count as 0, which keeps the bound valid; solvers drop such small coefficients.
_TINY = 1e-8


def cheapest_block(
    data: ScaledInstance,
    prices: FloatArray,
    ceiling: float | None = None,
    apart: Sequence[tuple[int, ...]] = (),
) -> pyo.ConcreteModel:
    """Build the model of the cheapest block that is worth its share.

    Parameters
    ----------
    data : ScaledInstance
    prices : (n,) floats
        Not negative, not all 0.
    ceiling : float, optional
        In multiples of the unit of `data`; blocks that cost more do not count.
    apart : sequence of tuple of int
        Sets of nodes of which a block below the ceiling holds one at most.

    Returns
    -------
    pyomo.environ.ConcreteModel
    """
    m = pyo.ConcreteModel("priced")
    add_assignment(m, data, k=3)
    add_dag(m, data)
    add_overflow(m, data, [2])
    m.T = pyo.Set(initialize=data.tensors, doc="tensors t that somebody reads")
    m.R = pyo.Set(initialize=data.reads, dimen=3, doc="reads (t, u, v): v reads tensor t of u")
    m.s = pyo.Var(m.V, domain=pyo.Binary, doc="node v lies in the block")
    m.c = pyo.Var(m.T, bounds=(0, 1), doc="tensor t is cut")

    @m.Constraint(m.V, doc="between what is before the block and what is behind it")
    def inside(m: pyo.ConcreteModel, v: int) -> NumericExpression:
        return m.s[v] == x(m, v, 2)

    @m.Constraint(m.R, doc="the tensor of u leaves the block")
    def leaves(m: pyo.ConcreteModel, t: int, u: int, v: int) -> NumericExpression:
        return m.c[t] >= m.s[u] - m.s[v]

    @m.Constraint(m.R, doc="the tensor of u enters the block")
    def enters(m: pyo.ConcreteModel, t: int, u: int, v: int) -> NumericExpression:
        return m.c[t] >= m.s[v] - m.s[u]

    @m.Constraint(range(len(apart)), doc="nodes that share no block below the ceiling")
    def alone(m: pyo.ConcreteModel, i: int) -> NumericExpression:
        return sum(m.s[v] for v in apart[i]) <= 1

    worth = prices / prices.max()
    worth[worth * data.k < _TINY * worth.sum()] = 0
    worth *= data.k / worth.sum()
    # Rounding must not cut off a block that is worth its share exactly.
    m.share = pyo.Constraint(
        expr=sum(worth[v] * m.s[v] for v in np.flatnonzero(worth).tolist()) >= 1 - 1e-7, doc="(14), over its share"
    )
    # A tensor that costs more than the ceiling is not cut anyhow; solvers refuse coefficients of any size.
    most = math.inf if ceiling is None else 2 * ceiling
    cost = sum(data.work[v] * m.s[v] for v in m.V) + sum(min(most, data.cut_time[t]) * m.c[t] for t in m.T)
    m.cost = pyo.Var(bounds=(0, ceiling), doc="cost of the block")
    m.total = pyo.Constraint(expr=m.cost >= cost + (m.overflow[2] if data.has_overflow else 0))
    m.objective = pyo.Objective(expr=m.cost)
    return m


# Rounds of searches for prices, at first and after each block that corrects them, unless time runs out before that.
_FIRST_ROUNDS, _MORE_ROUNDS = 200, 50
# Of the time that is left: for these rounds, and for one proof.
_FIRST, _MORE, _PROOF = 0.2, 0.05, 0.35
# How far the first goal lies from *simple* to the cost at which the prices are worth k blocks, and the last one begins.
_RISE, _NEARLY = 0.6, 0.998
# How far it falls towards the bound after a proof that took too long.
_RETREAT = 0.4
# A block this far below the goal ends a proof, within these parts of its time.
_TOO_CHEAP, _SOON, _LATE = 0.99, 0.1, 0.7
# The part of all time that is too little for another proof after one that took too long.
_LITTLE = 0.15
# Attempts, that it may end without a clock.
_PROOFS = 200
# What counts as the goal reached.
_CLOSE = 1e-6
# Where *simple* is 0, goals below this part of the bottleneck are given up.
_NEGLIGIBLE = 1e-3
# Seconds that are not worth another proof.
_SHORTEST = 0.05


def priced(start: Partition, solver: Solver | None, controls: Controls) -> Result:
    """Look for good prices and prove what they are worth.

    Parameters
    ----------
    start : Partition
        The better, the better the prices.
    solver : Solver
    controls : Controls
        Without a time limit, the same seed gives the same bound.

    Returns
    -------
    Result
        The bound's witness holds the prices, unless it is *simple*.
    """
    assert solver is not None
    begin = time.monotonic()
    instance = start.instance
    floor = simple(instance)
    # All nodes together are worth their share as well.
    everything = Partition(as_modelled(instance), np.zeros(instance.graph.n, dtype=np.int64)).bottleneck
    bound = Bound(floor, PRICED, optimal=min(start.bottleneck, everything) <= floor)
    if bound.optimal:
        return Result(PRICED, instance, start, bound, {"solve": time.monotonic() - begin})
    limit = math.inf if controls.time_limit is None else controls.time_limit
    with catch_interrupt() as interrupted:

        def left() -> float:
            return 0.0 if interrupted.is_set() else limit - (time.monotonic() - begin)

        search = PriceSearch(start, controls.seed)
        _improve(search, _FIRST_ROUNDS, _FIRST, left)
        least = floor or _NEGLIGIBLE * start.bottleneck
        goal = floor + _RISE * (search.ceiling - floor)
        for _ in range(_PROOFS):
            goal = max(bound.value, min(goal, search.ceiling))
            if left() < _SHORTEST or bound.optimal:
                break
            if goal < least:  # without their overflow, blocks cost next to nothing
                bound = replace(bound, optimal=True)
                break
            prices, share = search.prices, _PROOF * left()
            limits = replace(controls, time_limit=share if share < math.inf else None, interrupted=interrupted)
            value, superblock = prove_with(prices, goal, instance, solver, limits)
            if value > bound.value:
                closed = value >= start.bottleneck * (1 - PROOF_TOLERANCE)
                bound = Bound(value, PRICED, closed, {"prices": prices.tolist(), "seed": controls.seed})
            if value >= goal * (1 - _CLOSE):
                if goal >= search.ceiling:
                    bound = replace(bound, optimal=True)
                    break
                goal += (search.ceiling - goal) * (0.5 if goal < _NEARLY * search.ceiling else 1.0)
            elif superblock is not None:
                block = superblock == 1
                cost, is_new = search.cost(block), search.add(block)
                solved = value >= cost * (1 - _CLOSE)
                if solved and not is_new:  # the search for prices has it in view and can do no better
                    bound = replace(bound, optimal=True)
                    break
                _improve(search, _MORE_ROUNDS, _MORE, left)
                # What these prices were worth at most lies above the bound and below the goal.
                goal = (goal + cost) / 2
                goal += 0.0 if solved else (bound.value - goal) * _RETREAT
            elif left() < _LITTLE * limit:
                break
            else:
                goal += (bound.value - goal) * _RETREAT
    seconds = {"solve": time.monotonic() - begin}
    name = f"{solver.name} {solver.version()}"
    return Result(PRICED, instance, start, bound, seconds, name, interrupted=interrupted.is_set())


def _improve(search: PriceSearch, rounds: int, part: float, left: Callable[[], float]) -> None:
    end = (1 - part) * left()
    search.improve(rounds, lambda: left() < end or left() <= 0)


class _Stop(Event):
    """Ctrl-C, of which a solver may be the first to hear, or a block that is too cheap."""

    def __init__(self, interrupted: Event) -> None:
        super().__init__()
        self._interrupted, self.too_cheap = interrupted, False

    def is_set(self) -> bool:
        return self.too_cheap or self._interrupted.is_set()

    def set(self) -> None:
        self._interrupted.set()


def prove_with(
    prices: FloatArray, goal: float, instance: Instance, solver: Solver, controls: Controls
) -> tuple[float, IntArray | None]:
    """What given prices prove, at most `goal`, and a block that stands in the way of more.

    Parameters
    ----------
    prices : (n,) floats
        Not negative, not all 0.
    goal : float
        Positive, at least *simple*.
    instance : Instance
    solver : Solver
    controls : Controls

    Returns
    -------
    tuple
        The bound in the time unit of the work, and (n,) the superblock of each node: the block, 1, is worth its share
        and costs less than `goal`. None if no such block was found.
    """
    begin, tell = time.monotonic(), controls.report
    limit = math.inf if controls.time_limit is None else controls.time_limit
    stop = _Stop(controls.interrupted)

    def report(seconds: float, incumbent: float | None, bound: float | None, nodes: int | None) -> None:
        if incumbent is not None and incumbent < _TOO_CHEAP and _SOON * limit < seconds < _LATE * limit:
            stop.too_cheap = True
        tell(seconds, None, None if bound is None else min(1.0, bound) * goal, nodes)

    apart = _apart(instance, goal, _SOON * limit)
    controls = replace(controls.since(begin), report=report, interrupted=stop)
    data = ScaledInstance(instance, goal)
    case = Case(PRICED, lambda: cheapest_block(data, prices, 1.0, apart), lambda partition: around(partition, 1))
    answer = solve_case(case, data, solver, controls, None, False)
    return float(min(goal * (1 - solver.margin), answer.bound)), answer.superblock


def _apart(instance: Instance, goal: float, seconds: float) -> list[tuple[int, ...]]:
    pairs = np.zeros((instance.graph.n, instance.graph.n), dtype=bool)
    u, v = conflicts(instance, goal, seconds).T
    pairs[u, v] = pairs[v, u] = True
    return cliques(pairs, pairs)
