r"""The exact model of placements, and its solution.

**The exact model of placements with an order, for small graphs and any MIP solver.**

:math:`x_{vd} = 1`: node v is on device d; :math:`m_{uv} = 1`: nodes u and v share one; :math:`s_v`: when v starts.
:math:`y_c = 1`: there is transfer c, of tensor t of node u, to the device of its reader v; no earlier reader of t is
there. :math:`a_c, p_c`: its start and its time. :math:`o = 1`: the first of a pair of nodes on one device, or of
transfers on one bus, comes first. No step takes longer than 1, the step time of a known placement.

.. math::

    \min\; & T \\
    & T \ge s_v + w_v + q_v, \quad s_v \ge e_v, \quad w_v = \sum_d w_{vd} x_{vd}   & \forall v                 (1) \\
    & \sum_d x_{vd} = 1                                                        & \forall v                     (2) \\
    & m_{uv} \ge x_{ud} + x_{vd} - 1, \quad 1 - m_{uv} \ge |x_{ud} - x_{vd}|   & \forall u, v, d               (3) \\
    & s_v \ge s_u + w_u + P_{uv} + (L_{uv} - P_{uv}) (1 - m_{uv})              & \forall u, v                  (4) \\
    & y_c \ge 1 - m_{uv} - \sum_{c' < c} m_{v'v}                               & \forall c                     (5) \\
    & p_c \ge \min_{h, d} c_{thd} (1 - m_{uv}), \quad p_c \ge c_{thd} (x_{uh} + x_{vd} - 1) & \forall c, h \ne d (6) \\
    & a_c \ge s_u + w_u, \quad s_{v'} \ge a_c + p_c - M (1 - m_{vv'})          & \forall c, v'                 (7) \\
    & s_v \ge s_u + w_u + g_u - M (2 - o_{uv} - m_{uv})                        & \forall u, v                  (8) \\
    & s_u \ge s_v + w_v + g_v - M (1 + o_{uv} - m_{uv})                        & \forall u, v                  (9) \\
    & a_{c'} \ge a_c + p_c + g - M (4 - o_{cc'} - y_c - y_{c'} - m_{uu'})      & \forall c, c'                (10) \\
    & a_c \ge a_{c'} + p_{c'} + g - M (3 + o_{cc'} - y_c - y_{c'} - m_{uu'})   & \forall c, c'                (11) \\
    & T \ge a + b + \sum_{e_u \ge a, q_u \ge b} \min_d w_{ud} m_{uv}           & \forall v, (a, b)            (12) \\
    & T \ge a + b + \sum_{e_v \ge a, q_v \ge b} w_{vd} x_{vd}                  & \forall d, (a, b)            (13) \\
    & T \ge a + b + \sum_c \min_{h, d} c_{thd} y_c                             & \forall u                    (14)

(4) holds for all u before v; for edges it says that a node reads what is complete. With `broadcast`, a tensor has one
transfer for all readers; each may need it, and waits for it unless u is there: (7) has :math:`M m_{uv'}`. In (14), a is
the least start of the transfers of u, and b the least that is left at their ends. M is what the two sides can differ by
in a step of time 1. e, q, P and L are those of `mtpp_models.placement.bounds`. Nodes that share a device in
all steps that short, as `mtpp_models.placement.cp` shows, have one x and one m; of those that never do, m is 0.
Pairs of nodes with a path between them have a given order. Where devices are equal, the heaviest node is on the first
one, and each of the next on one that an earlier one uses, or the one after. Memory does not count: the optimum is a
bound with any memory.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

from instances import Bound, InputError, Result
from instances.deadline import Stopwatch
from instances.placement.placement import OrderedPlacement, Placement
from instances.placement.problem import PlacementInstance
from instances.results import PROOF_TOLERANCE
from mtpp_models.placement.bounds import heads_of, share_devices
from mtpp_models.placement.cp import probe_sharing
from mtpp_models.placement.scaled_placement import ScaledPlacement, Transfer
from mtpp_models.solvers.interface import Controls, SolverFaultError, SolverOutcome, Termination
from mtpp_models.solvers.modeling import NumericExpression, pyo
from mtpp_models.solvers.registry import find_solver

# Solvers leave integers near 0 and 1.
_HALF = 0.5


def exact(data: ScaledPlacement) -> pyo.ConcreteModel:
    """Build the model with equations (1) to (14)."""
    m = pyo.ConcreteModel("place-exact")
    m.V = pyo.Set(initialize=list(data.nodes), doc="nodes v")
    m.D = pyo.Set(initialize=list(data.devices), doc="devices d, h")
    m.A = pyo.Set(initialize=data.anchors, doc="nodes, one of all that share a device anyway, by falling work")
    m.C = pyo.RangeSet(0, len(data.deliveries) - 1, doc="transfers c")
    m.x = pyo.Var(m.A, m.D, domain=pyo.Binary, doc="node v is on device d")
    m.y = pyo.Var(m.C, bounds=(0, 1), doc="there is transfer c")
    m.s = pyo.Var(m.V, bounds=lambda m, v: (data.head(v), 1), doc="start of node v")
    m.a = pyo.Var(m.C, bounds=(0, 1), doc="start of transfer c")
    m.p = pyo.Var(m.C, bounds=(0, 1), doc="time of transfer c")
    m.T = pyo.Var(bounds=(0, 1), doc="step time")
    m.objective = pyo.Objective(expr=m.T)
    _add_sharing(m, data)
    _add_nodes(m, data)
    _add_transfers(m, data)
    _add_order_of_nodes(m, data)
    _add_order_of_transfers(m, data)
    _add_windows(m, data)
    return m


def _add_sharing(m: pyo.ConcreteModel, data: ScaledPlacement) -> None:
    place = {v: i for i, v in enumerate(m.A)}
    m.pairs = pyo.Set(initialize=list(combinations(m.A, 2)), dimen=2, doc="pairs (u, v) of these")
    m.same = pyo.Var(m.pairs, bounds=(0, 1), doc="m: nodes u and v are on one device")
    for u, v in m.pairs:
        if data.shared.apart[u, v]:
            m.same[u, v].fix(0)

    @m.Expression(m.V, m.V, doc="m of any pair")
    def m_(m: pyo.ConcreteModel, u: int, v: int) -> NumericExpression:
        first, second = sorted((data.anchor[u], data.anchor[v]), key=lambda node: place[node])
        return m.same[first, second] if first != second else 1

    @m.Constraint(m.A, doc="(2) every node is on one device")
    def placed(m: pyo.ConcreteModel, v: int) -> NumericExpression:
        return sum(m.x[v, d] for d in m.D) == 1

    @m.Constraint(m.pairs, m.D, doc="(3) those on one device share it")
    def meet(m: pyo.ConcreteModel, u: int, v: int, d: int) -> NumericExpression:
        return m.same[u, v] >= m.x[u, d] + m.x[v, d] - 1

    @m.Constraint(m.pairs, m.D, doc="(3) and the others do not")
    def part(m: pyo.ConcreteModel, u: int, v: int, d: int) -> NumericExpression:
        return 1 - m.same[u, v] >= m.x[u, d] - m.x[v, d]

    if not data.instance.is_symmetric:
        return
    for (i, v), d in product(enumerate(m.A), m.D):
        if d > i:
            m.x[v, d].fix(0)

    @m.Constraint(m.A, m.D, doc="equal devices are taken one after the other")
    def in_turn(m: pyo.ConcreteModel, v: int, d: int) -> NumericExpression:
        if not 1 < d <= place[v]:
            return pyo.Constraint.Skip
        return m.x[v, d] <= sum(m.x[u, d - 1] for u in m.A if place[u] < place[v])


def _add_nodes(m: pyo.ConcreteModel, data: ScaledPlacement) -> None:
    between = {(u, v): (P, L) for u, v, P, L in data.detours}
    m.B = pyo.Set(initialize=list(between), dimen=2, doc="nodes u before v")
    m.E = pyo.Set(initialize=data.edges, dimen=2, doc="edges (u, v)")

    @m.Expression(m.V, doc="time of node v")
    def w(m: pyo.ConcreteModel, v: int) -> NumericExpression:
        if data.instance.is_symmetric:
            return data.least(v)
        return sum(data.work(v, d) * m.x[data.anchor[v], d] for d in m.D)

    @m.Constraint(m.V, doc="(1) the step ends with its last node")
    def ends(m: pyo.ConcreteModel, v: int) -> NumericExpression:
        return m.s[v] + m.w[v] + data.tail(v) <= m.T

    @m.Constraint(m.E, doc="(4) a node reads what is complete")
    def reads(m: pyo.ConcreteModel, u: int, v: int) -> NumericExpression:
        return m.s[v] >= m.s[u] + m.w[u]

    @m.Constraint(m.B, doc="(4) and on another device waits for a transfer on each path")
    def far(m: pyo.ConcreteModel, u: int, v: int) -> NumericExpression:
        P, L = between[u, v]
        return m.s[v] >= m.s[u] + m.w[u] + P + (L - P) * (1 - m.m_[u, v])


def _add_transfers(m: pyo.ConcreteModel, data: ScaledPlacement) -> None:
    deliveries, broadcast = data.deliveries, data.instance.broadcast
    served = [(c, v) for c, transfer in enumerate(deliveries) for v in transfer.readers]
    m.R = pyo.Set(initialize=served, dimen=2, doc="transfer c is for node v")
    waiting = [(c, v) for c, transfer in enumerate(deliveries) for v in data.readers[transfer.tensor]]
    maker = {c: data.producer[transfer.tensor] for c, transfer in enumerate(deliveries)}

    @m.Constraint(m.R, doc="(5) what is read elsewhere is moved")
    def moved(m: pyo.ConcreteModel, c: int, v: int) -> NumericExpression:
        earlier = [b for b in range(c) if deliveries[b].tensor == deliveries[c].tensor]
        return m.y[c] >= 1 - m.m_[maker[c], v] - sum(m.m_[deliveries[b].readers[0], v] for b in earlier)

    @m.Constraint(m.R, doc="(6) for so long at least")
    def lasts_at_least(m: pyo.ConcreteModel, c: int, v: int) -> NumericExpression:
        return m.p[c] >= data.quickest(deliveries[c]) * (1 - m.m_[maker[c], v])

    if not data.instance.is_symmetric:

        @m.Constraint(m.R, m.D, m.D, doc="(6) for so long")
        def lasts(m: pyo.ConcreteModel, c: int, v: int, h: int, d: int) -> NumericExpression:
            if h == d:
                return pyo.Constraint.Skip
            on = m.x[data.anchor[maker[c]], h] + m.x[data.anchor[v], d]
            return m.p[c] >= data.time(deliveries[c].tensor, h, d) * (on - 1)

    @m.Constraint(m.C, doc="(7) a tensor leaves when it is complete")
    def leaves(m: pyo.ConcreteModel, c: int) -> NumericExpression:
        return m.a[c] >= m.s[maker[c]] + m.w[maker[c]]

    @m.Constraint(waiting, doc="(7) a node waits for what it reads")
    def arrives(m: pyo.ConcreteModel, c: int, v: int) -> NumericExpression:
        M = max(0.0, data.last_start(deliveries[c]) - data.head(v))
        unless = m.m_[maker[c], v] if broadcast else 1 - m.m_[deliveries[c].readers[0], v]
        return m.s[v] >= m.a[c] + m.p[c] - M * unless


def _add_order_of_nodes(m: pyo.ConcreteModel, data: ScaledPlacement) -> None:
    in_order = [(u, v) for u in m.V for v in m.V if data.is_before[u, v] and data.rest(u) > 0]
    loose = [(u, v) for u, v in data.loose_pairs if not data.shared.apart[u, v]]
    m.loose = pyo.Set(initialize=loose, dimen=2, doc="nodes (u, v) in either order")
    m.kept = pyo.Set(initialize=in_order, dimen=2, doc="nodes u before v that rest between")
    m.o = pyo.Var(m.loose, domain=pyo.Binary, doc="node u comes first")

    for u, v in m.loose:
        if data.slack_on_device(u, v) < 0 or data.slack_on_device(v, u) < 0:
            m.o[u, v].fix(int(data.slack_on_device(u, v) >= 0))

    def after(u: int, v: int, unless: NumericExpression) -> NumericExpression:
        g = data.rest(u)
        M = max(0.0, 1 - data.tail(u) + g - data.head(v))
        return m.s[v] >= m.s[u] + m.w[u] + g - M * unless

    @m.Constraint(m.loose, doc="no device has time for both")
    def never(m: pyo.ConcreteModel, u: int, v: int) -> NumericExpression:
        has_time = max(data.slack_on_device(u, v), data.slack_on_device(v, u)) >= 0
        return pyo.Constraint.Skip if has_time else m.m_[u, v] <= 0

    @m.Constraint(m.loose, doc="(8) u runs and rests before v")
    def first(m: pyo.ConcreteModel, u: int, v: int) -> NumericExpression:
        return after(u, v, 2 - m.o[u, v] - m.m_[u, v])

    @m.Constraint(m.loose, doc="(9) v runs and rests before u")
    def second(m: pyo.ConcreteModel, u: int, v: int) -> NumericExpression:
        return after(v, u, 1 + m.o[u, v] - m.m_[u, v])

    @m.Constraint(m.kept, doc="(8) where u comes first anyway")
    def kept_apart(m: pyo.ConcreteModel, u: int, v: int) -> NumericExpression:
        return after(u, v, 1 - m.m_[u, v])


def _add_order_of_transfers(m: pyo.ConcreteModel, data: ScaledPlacement) -> None:
    g, transfers = data.bus_rest, data.deliveries
    maker = {c: data.producer[transfer.tensor] for c, transfer in enumerate(transfers)}
    takes = [g > 0 or data.longest(transfer) > 0 for transfer in transfers]
    pairs = [
        (b, c)
        for b, c in combinations(m.C, 2)
        if (takes[b] or takes[c])
        and not data.shared.apart[maker[b], maker[c]]
        and not data.is_settled(transfers[b], transfers[c])
    ]
    m.Q = pyo.Set(initialize=pairs, dimen=2, doc="transfers (b, c)")
    m.o_bus = pyo.Var(m.Q, domain=pyo.Binary, doc="o: transfer b comes first")

    @m.Expression(m.Q, doc="3 if both are on one bus")
    def meeting(m: pyo.ConcreteModel, b: int, c: int) -> NumericExpression:
        return m.y[b] + m.y[c] + m.m_[maker[b], maker[c]]

    def slack(b: int, c: int) -> float:
        return data.slack_on_bus(transfers[b], transfers[c])

    for b, c in m.Q:
        if slack(b, c) < 0 or slack(c, b) < 0:
            m.o_bus[b, c].fix(int(slack(b, c) >= 0))

    def after(b: int, c: int, unless: NumericExpression) -> NumericExpression:
        M = max(0.0, data.last_start(transfers[b]) + g - data.first_end(transfers[c]))
        return m.a[c] >= m.a[b] + m.p[b] + g - M * unless

    @m.Constraint(m.Q, doc="no bus has time for both")
    def never_both(m: pyo.ConcreteModel, b: int, c: int) -> NumericExpression:
        return pyo.Constraint.Skip if max(slack(b, c), slack(c, b)) >= 0 else m.meeting[b, c] <= 2

    @m.Constraint(m.Q, doc="(10) b moves, and the bus rests, before c")
    def first_moves(m: pyo.ConcreteModel, b: int, c: int) -> NumericExpression:
        return after(b, c, 4 - m.o_bus[b, c] - m.meeting[b, c])

    @m.Constraint(m.Q, doc="(11) c moves, and the bus rests, before b")
    def second_moves(m: pyo.ConcreteModel, b: int, c: int) -> NumericExpression:
        return after(c, b, 3 + m.o_bus[b, c] - m.meeting[b, c])


def _add_windows(m: pyo.ConcreteModel, data: ScaledPlacement) -> None:
    m.windows = pyo.Set(initialize=data.windows, dimen=2, doc="windows (a, b)")
    inside = {(a, b): [v for v in m.V if data.head(v) >= a and data.tail(v) >= b] for a, b in m.windows}

    @m.Constraint(m.windows, m.A, doc="(12) what the device of a node does in a window")
    def window_beside(m: pyo.ConcreteModel, a: float, b: float, v: int) -> NumericExpression:
        return a + b + sum(data.least(u) * m.m_[u, v] for u in inside[a, b]) <= m.T

    @m.Constraint(m.windows, m.D, doc="(13) what a device does in a window")
    def device_window(m: pyo.ConcreteModel, a: float, b: float, d: int) -> NumericExpression:
        return a + b + sum(data.work(v, d) * m.x[data.anchor[v], d] for v in inside[a, b]) <= m.T

    @m.Constraint(m.A, doc="(14) what a bus does between the first start and the last end")
    def bus_window(m: pyo.ConcreteModel, u: int) -> NumericExpression:
        deliveries = {c: x for c, x in enumerate(data.deliveries) if data.anchor[data.producer[x.tensor]] == u}
        if not deliveries:
            return pyo.Constraint.Skip
        begin = min(data.first_end(transfer) for transfer in deliveries.values())
        behind = min(1 - data.last_start(transfer) for transfer in deliveries.values())
        return begin + behind + sum(data.quickest(transfer) * m.y[c] for c, transfer in deliveries.items()) <= m.T


def start_exact(m: pyo.ConcreteModel, data: ScaledPlacement) -> None:
    """Set the integer variables to those of the start."""
    timeline, places = data.start.timeline, data.start.device.tolist()
    for v, d in m.x:
        m.x[v, d].set_value(int(data.start_device[v] == d))
    place = {v: i for i, v in enumerate(timeline.sequence)}
    for u, v in m.loose:
        if not m.o[u, v].fixed:
            m.o[u, v].set_value(int(place[u] < place[v]))
    sent = {(x.tensor, d): i for i, x in enumerate(timeline.transfers) for d in x.targets}

    def when(transfer: Transfer) -> int:
        return min(sent.get((transfer.tensor, places[v]), len(sent)) for v in transfer.readers)

    for b, c in m.Q:
        if not m.o_bus[b, c].fixed:
            m.o_bus[b, c].set_value(int(when(data.deliveries[b]) < when(data.deliveries[c])))


def exact_placement(m: pyo.ConcreteModel, data: ScaledPlacement) -> OrderedPlacement:
    """Read the placement from the values of the variables."""
    device = {v: next(d for d in m.D if (m.x[data.anchor[v], d].value or 0) > _HALF) for v in m.V}
    starts = {v: float(m.s[v].value) for v in m.V}
    sent = {transfer: float(m.a[c].value or 0) for c, transfer in enumerate(data.deliveries)}
    return data.placement(device, starts, sent)


# Solve the exact model of placements with any MIP solver, and keep only what is proved.


EXACT = "place-exact"

#: With more nodes the model is too large to say more than other bounds do.
MOST_NODES = 40

_ROUNDING = 1e-9
# Part of the time for trials.
_PROBING = 0.3


def prove_exact(start: OrderedPlacement, controls: Controls) -> Result[PlacementInstance, Placement]:
    """A lower bound, and the better of `start` and the solver's placement; a feasible one is better than any other.

    Raises
    ------
    InputError
        If the graph has more than 40 nodes.
    SolverNotAvailableError
        If the solver cannot run here.
    SolverFaultError
        If the solver fails, or its bound is refuted by a placement.
    """
    instance, watch = start.instance, Stopwatch()
    if instance.graph.n > MOST_NODES:
        raise InputError(
            f"{EXACT} takes graphs of at most {MOST_NODES} nodes, this one has {instance.graph.n}; use place-cp, or "
            "colocation, which needs no solver."
        )
    driver = find_solver(controls.options.solver).with_options(controls.options)
    shared = share_devices(heads_of(instance), start.step_time, controls.deadline)
    data = ScaledPlacement(start, probe_sharing(shared, controls.deadline.share(_PROBING)))
    model = exact(data)
    start_exact(model, data)
    built = watch.passed
    stopped = controls.deadline.interrupted.is_set()
    controls = replace(controls, label=f"{instance.label} {EXACT}")
    outcome = SolverOutcome(Termination.STOPPED) if stopped else driver.solve(model, controls)
    if outcome.termination is Termination.INFEASIBLE:
        raise SolverFaultError(driver.name, "says that there is no placement, against one that is known")
    candidate = start if outcome.objective is None else exact_placement(model, data)
    best = min((start, candidate), key=lambda placement: placement.preference)
    stated = 0.0 if outcome.bound is None else outcome.bound - driver.margin * max(1.0, abs(outcome.bound))
    proved, least = max(0.0, stated) * data.unit, min(start.step_time, candidate.step_time)
    if proved > least * (1 + _ROUNDING):
        raise SolverFaultError(driver.name, f"states the bound {proved:.6g} against a step time of {least:.6g}")
    closed = outcome.termination is Termination.OPTIMAL and proved >= best.step_time * (1 - PROOF_TOLERANCE)
    return Result(
        method=EXACT,
        instance=instance,
        answer=best,
        bound=Bound(proved, EXACT, closed, controls.options.user_options),
        seconds=watch.seconds(build=built, solve=watch.passed - built),
        solver=f"{driver.name} {driver.version()}",
        log=outcome.log,
        interrupted=controls.deadline.interrupted.is_set(),
    )
