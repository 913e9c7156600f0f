r"""The compact form of the replication problem: stage by stage, with large constants (SPP, Section IV-B).

In the notation of `mtpp_models.planning.arc_flow`, stages :math:`n = 1 … N`. :math:`z_{nk} = 1`: stage n ends with
layer k. :math:`w_{nir} = 1`: it has the r devices after the first i. :math:`u_{nk} = \sum_{j \ge k} (z_{nj} -
z_{(n-1)j})`: it holds layer k. Stages after the last one are empty.

.. math::

    \min\; & W \\
    & \sum_k z_{nk} = 1, \quad z_{NL} = 1, \quad \sum_{i, r} w_{1ir} = \sum_r w_{10r} = 1             & (1) \\
    & 0 \le u_{nk} \le \sum_{i, r} w_{nir} \le \sum_j u_{nj}                 & \forall n, k           (2) \\
    & \sum_{r} w_{(n+1)ir} = \sum_{r} w_{n(i-r)r}                              & \forall n, i < V       (3) \\
    & W \ge \sum_k a_{kir} u_{nk} - (1 - w_{nir}) \textstyle\sum_k a_{kir}      & \forall n, i, r        (4) \\
    & W \ge \sum_k g_{kiqr} z_{nk} - (2 - w_{n(i-q)q} - w_{(n+1)ir}) \max_k g_{kiqr} & \forall n, i, q, r (5) \\
    & z, w \in \{0, 1\}                                                        &                       (6)

where :math:`a_{kir}` is what layer k adds to :math:`M t + A` on these devices, and :math:`g_{kiqr} = M c` of a channel
after k. With finite memory, there is a row like (4) for what a stage fills of it.
"""

from __future__ import annotations

import pyomo.environ as pyo
from pyomo.core.expr import NumericExpression

from mtpp_models.planning.costs import Channel, ScaledTraining, Stage

__all__ = ["compact", "compact_stages", "start_compact"]

# Solvers leave integers near 0 and 1.
_HALF = 0.5


def compact(data: ScaledTraining) -> pyo.ConcreteModel:
    """Build the compact form: (1) to (6)."""
    m = pyo.ConcreteModel("compact")
    L, V = data.L, data.V
    m.N = pyo.RangeSet(1, min(L, V), doc="stages n")
    m.layers = pyo.RangeSet(1, L, doc="layers k")
    m.N_before_last = pyo.Set(initialize=range(1, min(L, V)), doc="stages with a stage behind them")
    m.starts = pyo.RangeSet(0, V - 1, doc="places i")
    m.counts = pyo.Set(initialize=range(1, V), doc="numbers of devices that leave one")
    m.D = pyo.Set(initialize=[(i, r) for i in range(V) for r in range(1, V - i + 1)], dimen=2, doc="places i, r")
    m.z = pyo.Var(m.N, m.layers, domain=pyo.Binary, doc="stage n ends after layer k")
    m.w = pyo.Var(m.N, m.D, domain=pyo.Binary, doc="stage n has r devices from place i on")
    m.workload = pyo.Var(domain=pyo.NonNegativeReals, doc="longest time that a stage or a channel is busy")
    m.objective = pyo.Objective(expr=m.workload)
    last = m.N.last()
    # What costs more than the ceiling is out of reach, however much more.
    cap = 2 * data.ceiling
    a = {(k, i, r): min(data.load(Stage(k - 1, k, i, r)), cap) for k in m.layers for i, r in m.D}
    fill = {(k, i, r): min(data.fill(Stage(k - 1, k, i, r)), 2.0) for k in m.layers for i, r in m.D}

    @m.Expression(m.N, m.layers, doc="stage n holds layer k")
    def u(m: pyo.ConcreteModel, n: int, k: int) -> NumericExpression:
        ended = sum(m.z[n - 1, j] for j in range(k, L + 1)) if n > 1 else 0
        return sum(m.z[n, j] for j in range(k, L + 1)) - ended

    m.n_ends = pyo.Constraint(m.N, rule=lambda m, n: sum(m.z[n, k] for k in m.layers) == 1, doc="(1)")
    m.last_layer = pyo.Constraint(expr=m.z[last, L] == 1, doc="(1)")
    m.first_stage = pyo.Constraint(expr=sum(m.w[1, i, r] for i, r in m.D) == 1, doc="(1)")
    m.first_device = pyo.Constraint(expr=sum(m.w[1, 0, r] for r in range(1, V + 1)) == 1, doc="(1)")

    @m.Constraint(m.N, m.layers, doc="(2) a layer is in a stage once")
    def once(m: pyo.ConcreteModel, n: int, k: int) -> NumericExpression:
        return m.u[n, k] >= 0

    @m.Constraint(m.N, m.layers, doc="(2) a stage without devices has no layer")
    def no_layer(m: pyo.ConcreteModel, n: int, k: int) -> NumericExpression:
        return m.u[n, k] <= sum(m.w[n, i, r] for i, r in m.D)

    @m.Constraint(m.N, doc="(2) a stage without layers has no device")
    def no_device(m: pyo.ConcreteModel, n: int) -> NumericExpression:
        return sum(m.w[n, i, r] for i, r in m.D) <= sum(m.u[n, k] for k in m.layers)

    @m.Constraint(m.N, m.starts, doc="(3) a stage begins where the one before it ends")
    def next_device(m: pyo.ConcreteModel, n: int, i: int) -> NumericExpression:
        ending = sum(m.w[n, i - r, r] for r in range(1, i + 1))
        beginning = sum(m.w[n + 1, i, r] for r in range(1, V - i + 1)) if n < last else 0
        return pyo.Constraint.Skip if i == 0 and n == last else beginning == ending

    @m.Constraint(m.N, m.D, doc="(4) stage n on the r devices after i")
    def stage(m: pyo.ConcreteModel, n: int, i: int, r: int) -> NumericExpression:
        all_layers = sum(a[k, i, r] for k in m.layers)
        return m.workload >= sum(a[k, i, r] * m.u[n, k] for k in m.layers) - (1 - m.w[n, i, r]) * all_layers

    @m.Constraint(m.N, m.D, doc="memory")
    def memory(m: pyo.ConcreteModel, n: int, i: int, r: int) -> NumericExpression:
        all_layers = sum(fill[k, i, r] for k in m.layers)
        if all_layers <= 1:
            return pyo.Constraint.Skip
        return sum(fill[k, i, r] * m.u[n, k] for k in m.layers) <= 1 + (1 - m.w[n, i, r]) * all_layers

    @m.Constraint(m.N_before_last, m.counts, m.counts, m.counts, doc="(5)")
    def channel(m: pyo.ConcreteModel, n: int, i: int, q: int, r: int) -> NumericExpression:
        if q > i or r > V - i:
            return pyo.Constraint.Skip
        g = {k: min(data.traffic(Channel(k, i, q, r)), cap) for k in range(1, L)}
        if not any(g.values()):
            return pyo.Constraint.Skip
        unless = 2 - m.w[n, i - q, q] - m.w[n + 1, i, r]
        return m.workload >= sum(g[k] * m.z[n, k] for k in g) - unless * max(g.values())

    return m


def start_compact(m: pyo.ConcreteModel, stages: list[Stage]) -> None:
    """Set z and w to the stages of a plan."""
    for n in m.N:
        here = stages[n - 1] if n <= len(stages) else None
        for k in m.layers:
            m.z[n, k].set_value(int(k == (m.layers.last() if here is None else here.e)))
        for i, r in m.D:
            m.w[n, i, r].set_value(int(here is not None and (i, r) == here[2:]))


def compact_stages(m: pyo.ConcreteModel) -> list[Stage]:
    """Read the stages from the values of z and w."""
    stages, begin = [], 0
    for n in m.N:
        end = next((k for k in m.layers if (m.z[n, k].value or 0) > _HALF), begin)
        stages += [Stage(begin, end, i, r) for i, r in m.D if (m.w[n, i, r].value or 0) > _HALF]
        begin = end
    return stages
