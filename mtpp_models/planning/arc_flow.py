r"""Arc-flow model: cuts of a chain and replicas of its stages, along a given order of the devices (SPP, Section IV-B).

**Arc-flow form.** A plan is a path through a network. :math:`x_{keir} = 1`: the layers after k up to e are a stage, on
the r devices after the first i. :math:`y_{kiqr} = 1`: after k layers and i devices, a stage of q replicas sends to one
of r. With :math:`t = f + b` and :math:`c = c^f + c^b`, W is the longest time that a stage or a channel is busy:

.. math::

    \min\; & W \\
    & \sum_{e, r} x_{0e0r} = 1                                                                       & (1) \\
    & \sum_{k} x_{ke(i-q)q} = \sum_{r} y_{eiqr}               & \forall e < L, i, q                   (2) \\
    & \sum_{q} y_{kiqr} = \sum_{e} x_{keir}                   & \forall k > 0, i, r                   (3) \\
    & W \ge \sum_{x \text{ with } k} (M t + A)\, x             & \forall \text{ layers and devices } k (4) \\
    & W \ge \sum_{y \text{ after } k} M c\, y                  & \forall \text{ layers and devices } k (5) \\
    & x \in \{0, 1\}, \quad 0 \le y \le 1.                     &                                       (6)

One row for arcs that exclude each other is much stronger than one for each. Arcs that cost more than a known plan are
left out, and with them what no path reaches any more. With integral x there is one stage before and one after each
place, so y is integral by itself.

**Makespan form.** The same network with Z, which no schedule of the plan beats. :math:`F_k` and :math:`D_k` are the
times that a microbatch takes in the stages and channels up to layer k: forward, and in both passes.

.. math::

    \min\; & Z \\
    F_k &= F_{k-1} + \sum_{x \text{ ends at } k} f\, x + \sum_{y \text{ after } k} c^f\, y        & (7) \\
    D_k &= D_{k-1} + \sum_{x \text{ ends at } k} t\, x + \sum_{y \text{ after } k} c\, y          & (8) \\
    Z &\ge D_{k-1} + \sum_{x \text{ with } k} M t\, x                                            & (9) \\
    Z &\ge F_{k-1} + \sum_{x \text{ with } k} (M t + A)\, x                                      & (10) \\
    Z &\ge D_k + \sum_{y \text{ after } k} (M - 1) c\, y                                         & (11)

for all layers k, and for all devices in their order. In full duplex (11) has :math:`M \max(c^f, c^b) - c`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import pyomo.environ as pyo
from pyomo.core.expr import NumericExpression

from instances.planning import Plan
from mtpp_models.planning.compact import compact, compact_stages, start_compact
from mtpp_models.planning.costs import Channel, ScaledTraining, Stage, StageNetwork

__all__ = ["FORMS", "ReplicationForm", "arc_flow", "makespan"]

# Solvers leave integers near 0 and 1.
_HALF = 0.5

Item = TypeVar("Item", Stage, Channel)
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class ReplicationForm:
    """A formulation of the replication problem."""

    name: str
    summary: str
    cost: Callable[[Plan], float]  # objective, W or Z of a plan [s]
    build: Callable[[ScaledTraining], pyo.ConcreteModel]  # makes the model, whose objective is that cost in units
    # Sets the integer variables of a model to the stages of a plan.
    start: Callable[[pyo.ConcreteModel, list[Stage]], None]
    stages: Callable[[pyo.ConcreteModel], list[Stage]]  # the stages that the variables of a solved model say


def arc_flow(data: ScaledTraining) -> pyo.ConcreteModel:
    """Build the arc-flow form: (1) to (6)."""
    network = data.network()
    m = _paths("arc-flow", data, network)
    m.workload = pyo.Var(domain=pyo.NonNegativeReals, doc="longest time that a stage or a channel is busy")
    m.objective = pyo.Objective(expr=m.workload)
    load = {x: data.load(x) for x in network.stages}
    traffic = {y: data.traffic(y) for y in network.channels}
    x_with, y_after = _by(network.stages, _parts), _by(network.channels, _before)

    m.P = pyo.Set(initialize=list(x_with), dimen=2, doc="layers and devices k")
    m.P_before = pyo.Set(initialize=list(y_after), dimen=2, doc="layers and devices k before a channel")

    @m.Constraint(m.P, doc="(4) stages with layer or device k")
    def stage(m: pyo.ConcreteModel, what: str, k: int) -> NumericExpression:
        return m.workload >= sum(load[x] * m.x[x] for x in x_with[what, k])

    @m.Constraint(m.P_before, doc="(5) channels after layer or device k")
    def channel(m: pyo.ConcreteModel, what: str, k: int) -> NumericExpression:
        return m.workload >= sum(traffic[y] * m.y[y] for y in y_after[what, k])

    return m


def makespan(data: ScaledTraining) -> pyo.ConcreteModel:
    """Build the makespan form: (1) to (3) and (6) to (11)."""
    network = data.network(makespan=True)
    m = _paths("makespan", data, network)
    m.makespan = pyo.Var(domain=pyo.NonNegativeReals, doc="time that no schedule of the plan goes below")
    m.objective = pyo.Objective(expr=m.makespan)
    passes = {x: data.passes(x) for x in network.stages}
    load = {x: data.load(x) for x in network.stages}
    transfers = {y: data.transfers(y) for y in network.channels}
    x_with, x_ends, y_after = _by(network.stages, _parts), _by(network.stages, _ends), _by(network.channels, _before)
    m.P = pyo.Set(initialize=list(x_with), dimen=2, doc="layers and devices k")
    m.kinds = pyo.Set(initialize=("layer", "device"), doc="what k counts")
    m.P_or_0 = pyo.RangeSet(0, max(data.L, data.V), doc="k, and 0 before the first")
    m.F = pyo.Var(m.kinds, m.P_or_0, doc="(7) forward time up to k")
    m.D = pyo.Var(m.kinds, m.P_or_0, doc="(8) time of both passes up to k")
    for what in m.kinds:
        m.F[what, 0].fix(0)
        m.D[what, 0].fix(0)

    @m.Constraint(m.P, doc="(7)")
    def forward(m: pyo.ConcreteModel, what: str, k: int) -> NumericExpression:
        computed = sum(passes[x][0] * m.x[x] for x in x_ends[what, k])
        return m.F[what, k] == m.F[what, k - 1] + computed + sum(transfers[y][0] * m.y[y] for y in y_after[what, k])

    @m.Constraint(m.P, doc="(8)")
    def both(m: pyo.ConcreteModel, what: str, k: int) -> NumericExpression:
        computed = sum(sum(passes[x]) * m.x[x] for x in x_ends[what, k])
        return m.D[what, k] == m.D[what, k - 1] + computed + sum(sum(transfers[y]) * m.y[y] for y in y_after[what, k])

    @m.Constraint(m.P, doc="(9) the pipeline drains after the stage")
    def drains(m: pyo.ConcreteModel, what: str, k: int) -> NumericExpression:
        return m.makespan >= m.D[what, k - 1] + sum(data.M * sum(passes[x]) * m.x[x] for x in x_with[what, k])

    @m.Constraint(m.P, doc="(10) the stage synchronises")
    def synchronises(m: pyo.ConcreteModel, what: str, k: int) -> NumericExpression:
        return m.makespan >= m.F[what, k - 1] + sum(load[x] * m.x[x] for x in x_with[what, k])

    @m.Constraint(m.P, doc="(11) channels after k")
    def channel(m: pyo.ConcreteModel, what: str, k: int) -> NumericExpression:
        more = {y: data.traffic(y, makespan=True) - sum(transfers[y]) for y in y_after[what, k]}
        return m.makespan >= m.D[what, k] + sum(more[y] * m.y[y] for y in more)

    return m


def _paths(name: str, data: ScaledTraining, network: StageNetwork) -> pyo.ConcreteModel:
    """Variables and flow conservation: (1) to (3) and (6)."""
    m = pyo.ConcreteModel(name)
    m.stages = pyo.Set(initialize=network.stages, dimen=4, doc="(k, e, i, r): layers k + 1 … e, r devices after i")
    m.channels = pyo.Set(initialize=network.channels, dimen=4, doc="(k, i, q, r): after k layers, i devices, q to r")
    m.x = pyo.Var(m.stages, domain=pyo.Binary, doc="(6) layers k + 1 … e are a stage on r devices after i")
    m.y = pyo.Var(m.channels, bounds=(0, 1), doc="(6) after k layers and i devices, q replicas send to r")
    x_to = _by(network.stages, lambda x: [(x.e, x.i + x.r, x.r)])
    x_from = _by(network.stages, lambda x: [(x.k, x.i, x.r)])
    y_from = _by(network.channels, lambda y: [(y.k, y.i, y.q)])
    y_to = _by(network.channels, lambda y: [(y.k, y.i, y.r)])
    m.path = pyo.Constraint(expr=sum(m.x[x] for x in network.stages if x.k == 0) == 1, doc="(1)")

    m.ends = pyo.Set(initialize=[end for end in x_to if end[0] < data.L], dimen=3, doc="(e, i, q) where stages end")
    m.begins = pyo.Set(
        initialize=[begin for begin in x_from if begin[0] > 0], dimen=3, doc="(k, i, r) where they begin"
    )

    @m.Constraint(m.ends, doc="(2) after a stage comes a channel")
    def leave(m: pyo.ConcreteModel, e: int, i: int, q: int) -> NumericExpression:
        return sum(m.x[x] for x in x_to[e, i, q]) == sum(m.y[y] for y in y_from[e, i, q])

    @m.Constraint(m.begins, doc="(3) after a channel comes a stage")
    def enter(m: pyo.ConcreteModel, k: int, i: int, r: int) -> NumericExpression:
        return sum(m.y[y] for y in y_to[k, i, r]) == sum(m.x[x] for x in x_from[k, i, r])

    return m


def _by(items: Iterable[Item], keys: Callable[[Item], Iterable[Key]]) -> dict[Key, list[Item]]:
    found = defaultdict(list)
    for item in items:
        for key in keys(item):
            found[key].append(item)
    return found


def _parts(x: Stage) -> list[tuple[str, int]]:
    """Layers and devices of a stage, from 1."""
    layers = [("layer", k) for k in range(x.k + 1, x.e + 1)]
    return layers + [("device", i) for i in range(x.i + 1, x.i + x.r + 1)]


def _ends(x: Stage) -> list[tuple[str, int]]:
    """Last layer and last device of a stage."""
    return [("layer", x.e), ("device", x.i + x.r)]


def _before(y: Channel) -> list[tuple[str, int]]:
    """Layer and device before a channel."""
    return [("layer", y.k), ("device", y.i)]


def _start_path(m: pyo.ConcreteModel, stages: list[Stage]) -> None:
    for x in m.x:
        m.x[x].set_value(int(x in stages))


def _path(m: pyo.ConcreteModel) -> list[Stage]:
    return sorted(Stage(*x) for x in m.x if (m.x[x].value or 0) > _HALF)


_ALL = (
    ReplicationForm(
        "arc-flow", "least W as a path of stages and channels", lambda plan: plan.workload, arc_flow, _start_path, _path
    ),
    ReplicationForm(
        "compact",
        "least W stage by stage; its relaxation proves next to nothing, so it takes far longer",
        lambda plan: plan.workload,
        compact,
        start_compact,
        compact_stages,
    ),
    ReplicationForm("makespan", "least Z, a path too", lambda plan: plan.makespan_bound, makespan, _start_path, _path),
)

#: Name to form.
FORMS = {form.name: form for form in _ALL}
