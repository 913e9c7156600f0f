r"""The exact model of placements with an order, for small graphs and any MIP solver.

:math:`x_{vd} = 1`: node v is on device d; :math:`s_v`: when it starts. :math:`y_{ch} = 1`: transfer c, of tensor t of
node u, leaves device h; :math:`a_c, p_c`: its start and its time. :math:`o = 1`: the first of a pair of nodes on one
device, or of transfers on one bus, comes first. No step takes longer than 1, the step time of a known placement.

.. math::

    \min\; & T \\
    & T \ge s_v + w_v + q_v, \quad s_v \ge e_v, \quad w_v = \sum_d w_{vd} x_{vd}   & \forall v                 (1) \\
    & \sum_d x_{vd} = 1                                                        & \forall v                     (2) \\
    & s_v \ge s_u + w_u + P_{uv} + (L_{uv} - P_{uv}) (x_{vd} - x_{ud})         & \forall u, v, d               (3) \\
    & y_{ch} \ge x_{uh} + x_{vd} - 1                                           & \forall c, h \ne d, v         (4) \\
    & p_c \ge c_{thd} (x_{uh} + x_{vd} - 1), \quad p_c \ge \min_h c_{thd} (x_{vd} - x_{ud}) & \forall c, h, d, v (5) \\
    & a_c \ge s_u + w_u, \quad s_v \ge a_c + p_c - M (1 - x_{vd} + x_{ud})     & \forall c, d, v               (6) \\
    & m_{uv} \ge x_{ud} + x_{vd} - 1                                           & \forall u, v, d               (7) \\
    & s_v \ge s_u + w_u + g_u - M (2 - o_{uv} - m_{uv})                        & \forall u, v                  (8) \\
    & s_u \ge s_v + w_v + g_v - M (1 + o_{uv} - m_{uv})                        & \forall u, v                  (9) \\
    & m_{cc'} \ge y_{ch} + y_{c'h} - 1                                         & \forall c, c', h             (10) \\
    & a_{c'} \ge a_c + p_c + g - M (2 - o_{cc'} - m_{cc'})                     & \forall c, c'                (11) \\
    & a_c \ge a_{c'} + p_{c'} + g - M (1 + o_{cc'} - m_{cc'})                  & \forall c, c'                (12) \\
    & T \ge a + b + \sum_{e_v \ge a, q_v \ge b} w_{vd} x_{vd}                  & \forall d, (a, b)            (13) \\
    & T \ge a + b + \sum_c \min_d c_{thd} y_{ch}                               & \forall h                    (14) \\
    & x_{ud} = x_{vd}                                                          & \forall d, u, v \in S        (15)

(3) holds for all u before v; for edges it says that a node reads what is complete. In (14), a is the least start of a
transfer, and b the least that is left at the end of one. M is what the two sides can differ by in a step of time 1. e,
q, P and L are those of `mtpp_models.placement.heads`, and the sets S share a device in all steps that short, as
`mtpp_models.placement.colocation` shows. Pairs of nodes with a path between them have a given order. Where devices are
equal, those of heavy nodes come first. Memory does not count: the optimum is a bound with any memory.
"""

from __future__ import annotations

from itertools import combinations, product

import pyomo.environ as pyo
from pyomo.core.expr import NumericExpression

from instances.placement.ordered import OrderedPlacement
from mtpp_models.placement.scaled_placement import ScaledPlacement

__all__ = ["exact", "exact_placement", "start_exact"]

# Solvers leave integers near 0 and 1.
_HALF = 0.5


def exact(data: ScaledPlacement) -> pyo.ConcreteModel:
    """Build the model: (1) to (15)."""
    m = pyo.ConcreteModel("place-exact")
    m.V = pyo.Set(initialize=list(data.nodes), doc="nodes v")
    m.D = pyo.Set(initialize=list(data.devices), doc="devices d, h")
    m.C = pyo.RangeSet(0, len(data.transfers) - 1, doc="transfers c")
    m.x = pyo.Var(m.V, m.D, domain=pyo.Binary, doc="node v is on device d")
    m.y = pyo.Var(m.C, m.D, bounds=(0, 1), doc="transfer c leaves device h")
    m.s = pyo.Var(m.V, bounds=lambda m, v: (data.head(v), 1), doc="start of node v")
    m.a = pyo.Var(m.C, bounds=(0, 1), doc="start of transfer c")
    m.p = pyo.Var(m.C, bounds=(0, 1), doc="time of transfer c")
    m.T = pyo.Var(bounds=(0, 1), doc="step time")
    m.objective = pyo.Objective(expr=m.T)
    _add_nodes(m, data)
    _add_transfers(m, data)
    _add_order_of_nodes(m, data)
    _add_order_of_transfers(m, data)
    _add_windows(m, data)
    return m


def _add_nodes(m: pyo.ConcreteModel, data: ScaledPlacement) -> None:
    between = {(u, v): (P, L) for u, v, P, L in data.detours}
    m.B = pyo.Set(initialize=list(between), dimen=2, doc="nodes u before v")
    m.E = pyo.Set(initialize=data.edges, dimen=2, doc="edges (u, v)")
    m.S = pyo.Set(initialize=data.together, dimen=2, doc="nodes (u, v) that share a device")

    @m.Expression(m.V, doc="time of node v")
    def w(m: pyo.ConcreteModel, v: int) -> NumericExpression:
        return sum(data.work(v, d) * m.x[v, d] for d in m.D)

    @m.Constraint(m.V, doc="(1) the step ends with its last node")
    def ends(m: pyo.ConcreteModel, v: int) -> NumericExpression:
        return m.s[v] + m.w[v] + data.tail(v) <= m.T

    @m.Constraint(m.V, doc="(2) every node is on one device")
    def placed(m: pyo.ConcreteModel, v: int) -> NumericExpression:
        return sum(m.x[v, d] for d in m.D) == 1

    @m.Constraint(m.E, doc="(3) a node reads what is complete")
    def reads(m: pyo.ConcreteModel, u: int, v: int) -> NumericExpression:
        return m.s[v] >= m.s[u] + m.w[u]

    @m.Constraint(m.B, m.D, doc="(3) and on another device waits for a transfer on each path")
    def far(m: pyo.ConcreteModel, u: int, v: int, d: int) -> NumericExpression:
        P, L = between[u, v]
        return m.s[v] >= m.s[u] + m.w[u] + P + (L - P) * (m.x[v, d] - m.x[u, d])

    @m.Constraint(m.S, m.D, doc="(15) some share a device")
    def together(m: pyo.ConcreteModel, u: int, v: int, d: int) -> NumericExpression:
        return m.x[u, d] == m.x[v, d]

    if data.instance.unequal is None:
        for (i, v), d in product(enumerate(data.rank), m.D):
            if d > i:
                m.x[v, d].fix(0)


def _add_transfers(m: pyo.ConcreteModel, data: ScaledPlacement) -> None:
    reached = [(c, d, v) for c, (t, targets) in enumerate(data.transfers) for d in targets for v in data.readers[t]]
    m.R = pyo.Set(initialize=reached, dimen=3, doc="transfer c brings to device d what v reads")
    maker = {c: data.producer[t] for c, (t, _) in enumerate(data.transfers)}
    latest = {c: data.last_start(transfer) for c, transfer in enumerate(data.transfers)}

    @m.Constraint(m.R, m.D, doc="(4) what is read elsewhere is moved")
    def moved(m: pyo.ConcreteModel, c: int, d: int, v: int, h: int) -> NumericExpression:
        return pyo.Constraint.Skip if h == d else m.y[c, h] >= m.x[maker[c], h] + m.x[v, d] - 1

    @m.Constraint(m.R, m.D, doc="(5) for so long")
    def lasts(m: pyo.ConcreteModel, c: int, d: int, v: int, h: int) -> NumericExpression:
        time = 0.0 if h == d else data.time(data.transfers[c].tensor, h, d)
        return m.p[c] >= time * (m.x[maker[c], h] + m.x[v, d] - 1) if time else pyo.Constraint.Skip

    @m.Constraint(m.R, doc="(5) for so long at least")
    def lasts_at_least(m: pyo.ConcreteModel, c: int, d: int, v: int) -> NumericExpression:
        time = min(data.time(data.transfers[c].tensor, h, d) for h in m.D if h != d)
        return m.p[c] >= time * (m.x[v, d] - m.x[maker[c], d]) if time else pyo.Constraint.Skip

    @m.Constraint(m.C, doc="(6) a tensor leaves when it is complete")
    def leaves(m: pyo.ConcreteModel, c: int) -> NumericExpression:
        return m.a[c] >= m.s[maker[c]] + m.w[maker[c]]

    @m.Constraint(m.R, doc="(6) a node waits for what it reads")
    def arrives(m: pyo.ConcreteModel, c: int, d: int, v: int) -> NumericExpression:
        M = max(0.0, latest[c] - data.head(v))
        return m.s[v] >= m.a[c] + m.p[c] - M * (1 - m.x[v, d] + m.x[maker[c], d])

    @m.Constraint(m.C, doc="(6) and somebody waits for it")
    def in_time(m: pyo.ConcreteModel, c: int) -> NumericExpression:
        return m.a[c] + m.p[c] <= latest[c]


def _fix_order(first: pyo.Var, same: pyo.Var, slack: float, slack_reversed: float) -> None:
    """Two of one device or bus, where some order takes longer than the step."""
    if slack < 0 and slack_reversed < 0:
        same.fix(0)
    elif slack < 0 or slack_reversed < 0:
        first.fix(int(slack >= 0))


def _add_order_of_nodes(m: pyo.ConcreteModel, data: ScaledPlacement) -> None:
    in_order = [(u, v) for u in m.V for v in m.V if data.is_before[u, v] and data.rest(u) > 0]
    m.pairs = pyo.Set(initialize=data.loose_pairs, dimen=2, doc="nodes (u, v) in either order")
    m.P = pyo.Set(initialize=data.loose_pairs + in_order, dimen=2, doc="nodes (u, v) that a device keeps apart")
    m.o = pyo.Var(m.pairs, domain=pyo.Binary, doc="node u comes first")
    m.same = pyo.Var(m.P, bounds=(0, 1), doc="m: nodes u and v are on one device")

    for u, v in m.pairs:
        _fix_order(m.o[u, v], m.same[u, v], data.slack_on_device(u, v), data.slack_on_device(v, u))

    @m.Constraint(m.P, m.D, doc="(7)")
    def meet(m: pyo.ConcreteModel, u: int, v: int, d: int) -> NumericExpression:
        return m.same[u, v] >= m.x[u, d] + m.x[v, d] - 1

    def after(u: int, v: int, unless: NumericExpression) -> NumericExpression:
        g = data.rest(u)
        M = max(0.0, 1 - data.tail(u) + g - data.head(v))
        return m.s[v] >= m.s[u] + m.w[u] + g - M * unless

    @m.Constraint(m.P, doc="(8) u runs and rests before v")
    def first(m: pyo.ConcreteModel, u: int, v: int) -> NumericExpression:
        return after(u, v, 2 - (m.o[u, v] if (u, v) in m.pairs else 1) - m.same[u, v])

    @m.Constraint(m.pairs, doc="(9) v runs and rests before u")
    def second(m: pyo.ConcreteModel, u: int, v: int) -> NumericExpression:
        return after(v, u, 1 + m.o[u, v] - m.same[u, v])


def _add_order_of_transfers(m: pyo.ConcreteModel, data: ScaledPlacement) -> None:
    g, transfers = data.bus_rest, data.transfers
    takes = [g > 0 or data.longest(transfer) > 0 for transfer in transfers]
    pairs = [(b, c) for b, c in combinations(m.C, 2) if (takes[b] or takes[c]) and not data.is_settled(b, c)]
    m.Q = pyo.Set(initialize=pairs, dimen=2, doc="transfers (b, c)")
    m.o_bus = pyo.Var(m.Q, domain=pyo.Binary, doc="o: transfer b comes first")
    m.same_bus = pyo.Var(m.Q, bounds=(0, 1), doc="m: transfers b and c are on one bus")

    for b, c in m.Q:
        slack = (data.slack_on_bus(transfers[i], transfers[j]) for i, j in ((b, c), (c, b)))
        _fix_order(m.o_bus[b, c], m.same_bus[b, c], *slack)

    @m.Constraint(m.Q, m.D, doc="(10)")
    def meet_bus(m: pyo.ConcreteModel, b: int, c: int, h: int) -> NumericExpression:
        return m.same_bus[b, c] >= m.y[b, h] + m.y[c, h] - 1

    def after(b: int, c: int, unless: NumericExpression) -> NumericExpression:
        M = max(0.0, data.last_start(transfers[b]) + g - data.first_end(transfers[c]))
        return m.a[c] >= m.a[b] + m.p[b] + g - M * unless

    @m.Constraint(m.Q, doc="(11) b moves, and the bus rests, before c")
    def first_moves(m: pyo.ConcreteModel, b: int, c: int) -> NumericExpression:
        return after(b, c, 2 - m.o_bus[b, c] - m.same_bus[b, c])

    @m.Constraint(m.Q, doc="(12) c moves, and the bus rests, before b")
    def second_moves(m: pyo.ConcreteModel, b: int, c: int) -> NumericExpression:
        return after(c, b, 1 + m.o_bus[b, c] - m.same_bus[b, c])


def _add_windows(m: pyo.ConcreteModel, data: ScaledPlacement) -> None:
    m.windows = pyo.Set(initialize=data.windows, dimen=2, doc="windows (a, b)")

    @m.Constraint(m.windows, m.D, doc="(13) what a device does in a window")
    def device_window(m: pyo.ConcreteModel, a: float, b: float, d: int) -> NumericExpression:
        inside = [v for v in m.V if data.head(v) >= a and data.tail(v) >= b]
        return a + b + sum(data.work(v, d) * m.x[v, d] for v in inside) <= m.T

    @m.Constraint(m.D, doc="(14) what a bus does between the first start and the last end")
    def bus_window(m: pyo.ConcreteModel, h: int) -> NumericExpression:
        if not data.transfers:
            return pyo.Constraint.Skip
        times = {c: data.shortest(transfer, h) for c, transfer in enumerate(data.transfers)}
        begin = min(data.first_end(transfer) for transfer in data.transfers)
        left = min(1 - data.last_start(transfer) for transfer in data.transfers)
        return begin + left + sum(times[c] * m.y[c, h] for c in m.C) <= m.T


def start_exact(m: pyo.ConcreteModel, data: ScaledPlacement) -> None:
    """Set the integer variables to those of the start."""
    timeline = data.start.timeline
    names = dict(zip(data.start.device.tolist(), data.start_device, strict=True))
    for v, d in m.x:
        m.x[v, d].set_value(int(data.start_device[v] == d))
    place = {v: i for i, v in enumerate(timeline.sequence)}
    for u, v in m.pairs:
        if not m.o[u, v].fixed:
            m.o[u, v].set_value(int(place[u] < place[v]))
    sent = {(x.tensor, names[d]): i for i, x in enumerate(timeline.transfers) for d in x.targets}
    never = len(sent)
    when = [min(sent.get((t, d), never) for d in targets) for t, targets in data.transfers]
    for b, c in m.Q:
        if not m.o_bus[b, c].fixed:
            m.o_bus[b, c].set_value(int(when[b] < when[c]))


def exact_placement(m: pyo.ConcreteModel, data: ScaledPlacement) -> OrderedPlacement:
    """The placement that the variables say."""
    device = {v: next(d for d in m.D if (m.x[v, d].value or 0) > _HALF) for v in m.V}
    starts = {v: float(m.s[v].value) for v in m.V}
    sent = {transfer: float(m.a[c].value or 0) for c, transfer in enumerate(data.transfers)}
    return data.placement(device, starts, sent)
