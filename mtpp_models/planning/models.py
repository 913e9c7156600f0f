r"""Mixed-integer models of plans along an order of the devices: compact form, arc-flow form and makespan form.

**The compact form of the replication problem: stage by stage, with large constants (SPP, Section IV-B).**

In the notation of `mtpp_models.planning.models`, stages :math:`n = 1 … N`. :math:`z_{nk} = 1`: stage n ends with
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

**Arc-flow model: cuts of a chain and replicas of its stages, along a given order of the devices (SPP, Section IV-B).**

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

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

from instances.planning import Plan, TrainingInstance
from instances.planning.bounds import LinkSpeeds
from mtpp_models.solvers.modeling import NumericExpression, pyo

# Data of the replication models: costs along an order of devices, and stages worth a variable.


# Relative, of sums of floats.
_ROUNDING = 1e-9


class StagePrice(NamedTuple):
    """A possible stage: layers `k` + 1 … `e` on the `r` devices after the first `i`."""

    k: int
    e: int
    i: int
    r: int


class Channel(NamedTuple):
    """A possible transfer after `k` layers and `i` devices, from a stage of `q` replicas to one of `r`."""

    k: int
    i: int
    q: int
    r: int


class StageNetwork(NamedTuple):
    """Possible stages and channels as arcs and nodes of a network; its paths are plans."""

    stages: list[StagePrice]
    channels: list[Channel]


@dataclass(frozen=True, eq=False)
class ScaledTraining:
    """The coefficients of the models; times are in multiples of `unit`, so that objectives are near 1."""

    instance: TrainingInstance
    speeds: LinkSpeeds  # bandwidths along the order of the devices; plans use all of them
    unit: float  # positive [s]
    ceiling: float  # in units; plans that cost more need not be in a model

    @property
    def L(self) -> int:  # noqa: N802
        """Number of layers."""
        return self.instance.chain.n

    @property
    def V(self) -> int:  # noqa: N802
        """Number of devices."""
        return len(self.speeds.within) - 1

    @property
    def M(self) -> int:  # noqa: N802
        """Number of microbatches."""
        return self.instance.microbatches

    def passes(self, stage: StagePrice) -> tuple[float, float]:
        """Forward and backward time of a microbatch, f and b [unit]."""
        k, e, _, r = stage
        forward, backward = self._sums
        return (forward[r - 1][e] - forward[r - 1][k]) / r, (backward[r - 1][e] - backward[r - 1][k]) / r

    def allreduce(self, stage: StagePrice) -> float:
        """Time of the AllReduce, A [unit]."""
        k, e, i, r = stage
        return _over(2 * (r - 1) * (self._params[e] - self._params[k]), r * float(self.speeds.within[i + r, r]))

    def load(self, stage: StagePrice) -> float:
        """Time of a stage with its AllReduce in an iteration, M (f + b) + A [unit]."""
        return self.M * sum(self.passes(stage)) + self.allreduce(stage)

    def transfers(self, channel: Channel) -> tuple[float, float]:
        """Transfer times of a microbatch to the next stage and back, c^f and c^b [unit]."""
        k, i, q, r = channel
        forth, back = self.speeds.forth[i, q, r], self.speeds.back[i, q, r]
        forward_bytes, backward_bytes = self._between
        return _over(forward_bytes[k - 1], q * r * float(forth)), _over(backward_bytes[k - 1], q * r * float(back))

    def traffic(self, channel: Channel, *, makespan: bool = False) -> float:
        """Time that the channel is busy in an iteration, M (c^f + c^b) [unit].

        With `makespan`, in full duplex, the larger direction counts alone.
        """
        both = self.transfers(channel)
        return self.M * (max(both) if makespan and self.instance.full_duplex else sum(both))

    def fill(self, stage: StagePrice) -> float:
        """Fraction of a device's memory that the stage needs with one microbatch in flight."""
        k, e, _, r = stage
        if math.isinf(self.instance.memory):
            return 0.0
        needed = self.instance.parameter_copies * float(self._param_bytes[e] - self._param_bytes[k])
        return _over(needed + float(self._stored[e] - self._stored[k]) / r, self.instance.memory)

    def network(self, *, makespan: bool = False) -> StageNetwork:
        """The stages and channels that cost at most the ceiling and lie on a path from begin to end."""
        heads: list[set[tuple[int, int]]] = [set() for _ in range(self.L + 1)]  # place and replicas of the next stage
        tails: list[set[tuple[int, int]]] = [set() for _ in range(self.L + 1)]  # place after a stage and its replicas
        heads[0] = {(0, r) for r in range(1, self.V + 1)}
        stages, channels = [], []
        for k in range(self.L):
            for i, q in sorted(tails[k]):
                for r in range(1, self.V - i + 1):
                    channel = Channel(k, i, q, r)
                    if self._within_reach(self.traffic(channel, makespan=makespan)):
                        channels.append(channel)
                        heads[k].add((i, r))
            for i, r in sorted(heads[k]):
                for e in range(k + 1, self.L + 1):
                    stage = StagePrice(k, e, i, r)
                    if not self._within_reach(self.load(stage)) or self.fill(stage) > 1 + _ROUNDING:
                        break
                    if (e == self.L) == (i + r == self.V):
                        stages.append(stage)
                        tails[e].add((i + r, r))
        return self._that_reach_the_end(stages, channels)

    def _that_reach_the_end(self, stages: list[StagePrice], channels: list[Channel]) -> StageNetwork:
        """The network without stages and channels from which the end cannot be reached."""
        tails = {(self.L, self.V, r) for r in range(1, self.V + 1)}
        heads: set[tuple[int, int, int]] = set()
        network = StageNetwork([], [])
        s, c = len(stages), len(channels)
        for k in range(self.L - 1, -1, -1):
            while s > 0 and stages[s - 1].k == k:
                s -= 1
                _, e, i, r = stages[s]
                if (e, i + r, r) in tails:
                    network.stages.append(stages[s])
                    heads.add((k, i, r))
            while c > 0 and channels[c - 1].k == k:
                c -= 1
                _, i, q, r = channels[c]
                if (k, i, r) in heads:
                    network.channels.append(channels[c])
                    tails.add((k, i, q))
        return StageNetwork(network.stages[::-1], network.channels[::-1])

    def _within_reach(self, cost: float) -> bool:
        """Whether a cost is finite and no more than the ceiling, up to rounding."""
        return math.isfinite(cost) and cost <= self.ceiling * (1 + _ROUNDING)

    @cached_property
    def _sums(self) -> tuple[list[list[float]], list[list[float]]]:
        arrays = self.instance.arrays
        return (arrays.forward / self.unit).tolist(), (arrays.backward / self.unit).tolist()

    @cached_property
    def _param_bytes(self) -> list[float]:
        return self.instance.arrays.params.tolist()

    @cached_property
    def _stored(self) -> list[float]:
        return self.instance.arrays.stored.tolist()

    @cached_property
    def _params(self) -> list[float]:
        return [size / self.unit for size in self._param_bytes]

    @cached_property
    def _between(self) -> tuple[list[float], list[float]]:
        chain = self.instance.chain
        return (chain.forward_bytes / self.unit).tolist(), (chain.backward_bytes / self.unit).tolist()


def _over(size: float, rate: float) -> float:
    """`size` / `rate`; 0 if `size` is 0, else infinite if `rate` is 0."""
    if size == 0:
        return 0.0
    return size / rate if rate > 0 else math.inf


# Solvers leave integers near 0 and 1.
_HALF = 0.5


def compact(data: ScaledTraining) -> pyo.ConcreteModel:
    """Build the compact form, with equations (1) to (6)."""
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
    a = {(k, i, r): min(data.load(StagePrice(k - 1, k, i, r)), cap) for k in m.layers for i, r in m.D}
    fill = {(k, i, r): min(data.fill(StagePrice(k - 1, k, i, r)), 2.0) for k in m.layers for i, r in m.D}

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


def start_compact(m: pyo.ConcreteModel, stages: list[StagePrice]) -> None:
    """Set z and w to the stages of a plan."""
    for n in m.N:
        stage = stages[n - 1] if n <= len(stages) else None
        for k in m.layers:
            m.z[n, k].set_value(int(k == (m.layers.last() if stage is None else stage.e)))
        for i, r in m.D:
            m.w[n, i, r].set_value(int(stage is not None and (i, r) == stage[2:]))


def compact_stages(m: pyo.ConcreteModel) -> list[StagePrice]:
    """Read the stages from the values of z and w."""
    stages, begin = [], 0
    for n in m.N:
        end = next((k for k in m.layers if (m.z[n, k].value or 0) > _HALF), begin)
        stages += [StagePrice(begin, end, i, r) for i, r in m.D if (m.w[n, i, r].value or 0) > _HALF]
        begin = end
    return stages


Item = TypeVar("Item", StagePrice, Channel)
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class ReplicationForm:
    """A formulation of the replication problem."""

    name: str
    summary: str
    cost: Callable[[Plan], float]  # objective, W or Z of a plan [s]
    build: Callable[[ScaledTraining], pyo.ConcreteModel]  # makes the model, whose objective is that cost in units
    # Sets the integer variables of a model to the stages of a plan.
    start: Callable[[pyo.ConcreteModel, list[StagePrice]], None]
    stages: Callable[[pyo.ConcreteModel], list[StagePrice]]  # reads the stages from the values of a solved model


def arc_flow(data: ScaledTraining) -> pyo.ConcreteModel:
    """Build the arc-flow form, with equations (1) to (6)."""
    network = data.network()
    m = _paths("arc-flow", data, network)
    m.workload = pyo.Var(domain=pyo.NonNegativeReals, doc="longest time that a stage or a channel is busy")
    m.objective = pyo.Objective(expr=m.workload)
    load = {x: data.load(x) for x in network.stages}
    traffic = {y: data.traffic(y) for y in network.channels}
    x_with, y_after = _grouped(network.stages, _parts), _grouped(network.channels, _before)

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
    """Build the makespan form, with equations (1) to (3) and (6) to (11)."""
    network = data.network(makespan=True)
    m = _paths("makespan", data, network)
    m.makespan = pyo.Var(domain=pyo.NonNegativeReals, doc="time that no schedule of the plan goes below")
    m.objective = pyo.Objective(expr=m.makespan)
    passes = {x: data.passes(x) for x in network.stages}
    load = {x: data.load(x) for x in network.stages}
    transfers = {y: data.transfers(y) for y in network.channels}
    x_with, x_ends = _grouped(network.stages, _parts), _grouped(network.stages, _ends)
    y_after = _grouped(network.channels, _before)
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
    """A model with the variables and flow conservation of arc-flow and makespan form: (1) to (3) and (6)."""
    m = pyo.ConcreteModel(name)
    m.stages = pyo.Set(initialize=network.stages, dimen=4, doc="(k, e, i, r): layers k + 1 … e, r devices after i")
    m.channels = pyo.Set(initialize=network.channels, dimen=4, doc="(k, i, q, r): after k layers, i devices, q to r")
    m.x = pyo.Var(m.stages, domain=pyo.Binary, doc="(6) layers k + 1 … e are a stage on r devices after i")
    m.y = pyo.Var(m.channels, bounds=(0, 1), doc="(6) after k layers and i devices, q replicas send to r")
    x_to = _grouped(network.stages, lambda x: [(x.e, x.i + x.r, x.r)])
    x_from = _grouped(network.stages, lambda x: [(x.k, x.i, x.r)])
    y_from = _grouped(network.channels, lambda y: [(y.k, y.i, y.q)])
    y_to = _grouped(network.channels, lambda y: [(y.k, y.i, y.r)])
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


def _grouped(items: Iterable[Item], keys: Callable[[Item], Iterable[Key]]) -> dict[Key, list[Item]]:
    """Mapping from each key to the items that have it; an item may have several keys."""
    groups = defaultdict(list)
    for item in items:
        for key in keys(item):
            groups[key].append(item)
    return groups


def _parts(x: StagePrice) -> list[tuple[str, int]]:
    """Layers and devices of a stage, each as ("layer" or "device", number from 1)."""
    layers = [("layer", k) for k in range(x.k + 1, x.e + 1)]
    return layers + [("device", i) for i in range(x.i + 1, x.i + x.r + 1)]


def _ends(x: StagePrice) -> list[tuple[str, int]]:
    """Last layer and last device of a stage, as ("layer" or "device", number from 1)."""
    return [("layer", x.e), ("device", x.i + x.r)]


def _before(y: Channel) -> list[tuple[str, int]]:
    """Layer and device just before a channel, as ("layer" or "device", number from 1)."""
    return [("layer", y.k), ("device", y.i)]


def _start_path(m: pyo.ConcreteModel, stages: list[StagePrice]) -> None:
    for x in m.x:
        m.x[x].set_value(int(x in stages))


def _path(m: pyo.ConcreteModel) -> list[StagePrice]:
    """Stages of a solution, in their order."""
    return sorted(StagePrice(*x) for x in m.x if (m.x[x].value or 0) > _HALF)


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
