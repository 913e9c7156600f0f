"""Plans for servers with shared network cards: a search, and simulated annealing of simulated step times."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from heuristics.method import Limits
from heuristics.planning.execution import (
    PlanState,
    assign_state,
    change,
    copy_state,
    keep,
    one_forward_one_backward,
    steady,
)
from heuristics.planning.orders import (
    better_cuts,
    execute_orders,
    interleaved_plans,
    parts_of,
    portfolio,
    steady_order,
    unsplit_orders,
    zero_bubble,
)
from heuristics.planning.spp import (
    device_orders,
    even_counts,
    improved,
    least_bound_plans,
    plans_by_stages,
    recursive_device_order,
    spp,
)
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.devices import Ports
from instances.errors import InputError, check_one_of
from instances.graph.tensors import FloatArray, IntArray
from instances.planning import Iteration, Plan, TrainingInstance
from instances.planning.bounds import transfer_time
from instances.planning.operations import BACKWARD, FORWARD, INPUT, WEIGHTS, Flows, Orders
from instances.planning.problem import TrainingArrays
from instances.planning.simulator import empty_log, run, warmed_up_orders
from instances.planning.timeline import Timeline

# Annealing of plans on servers with shared network cards, scored by the simulator of shared ports.


class Scored(NamedTuple):
    """Data besides `TrainingArrays` with which plans are simulated."""

    inputs: FloatArray  # as `TrainingInstance.input_sums`
    ports: Ports
    at_once: float  # as `TrainingInstance.at_once` where samples are whole, and 0 elsewhere
    recomputation: bool  # whether stages may recompute, which they do where they do not fit otherwise
    free: bool  # whether the order of passes may be changed


@compiled
def score(arrays: TrainingArrays, scored: Scored, state: PlanState, limit: float) -> float:
    """Simulated makespan of a plan; infinite if it does not fit into memory, or takes longer than `limit`."""
    (S, distance, behind), M = state.counts, arrays.microbatches
    ahead, flight_limit = np.empty(S, dtype=np.int64), np.empty(S, dtype=np.int64)
    for n in range(S):
        ahead[n] = min(M, distance * (S - 1 - n) + 1)
        flight_limit[n] = min(M, ahead[n] + behind)
    bound, flows = _flows(arrays, scored, state, ahead, flight_limit)
    if not bound <= limit or bound == np.inf:
        return np.inf
    orders = warmed_up_orders(ahead, M)
    if behind > 0:
        none = np.zeros(0, dtype=np.int64)
        orders = Orders(none, np.zeros(S + 1, dtype=np.int64), np.minimum(ahead, flight_limit), flight_limit)
    return run(flows, orders, M, empty_log(S, M), limit)


@compiled
def anneal_on_cards(
    arrays: TrainingArrays, scored: Scored, start: PlanState, cooling: FloatArray, seed: int
) -> tuple[PlanState, float, PlanState]:
    """Search for a plan with a small simulated makespan by simulated annealing.

    A change is tried for each entry of `cooling`, the temperature as a fraction of the makespan. Returned are the last
    plan, the least makespan and its plan.
    """
    np.random.seed(seed)
    current, candidate, best = copy_state(start), copy_state(start), copy_state(start)
    now = score(arrays, scored, current, np.inf)
    least = now
    for temperature in cooling:
        assign_state(candidate, current)
        if not _change(candidate, arrays.microbatches, scored):
            continue
        limit = now - now * temperature * np.log(1.0 - np.random.random())
        makespan = score(arrays, scored, candidate, limit)
        if makespan <= limit:
            now, least = makespan, keep(candidate, makespan, current, best, least)
    return current, least, best


@compiled
def _flows(
    arrays: TrainingArrays, scored: Scored, state: PlanState, ahead: IntArray, flight_limit: IntArray
) -> tuple[float, Flows]:
    """Lower bound on the time of the plan [s], infinite if it does not fit into memory, and its operations.

    With split backward passes, `flight_limit` is the number of microbatches that may be in flight in each stage; it is
    lowered to what fits.
    """
    (S, _, behind), M, order, ports = state.counts, arrays.microbatches, state.order, scored.ports
    P, V = len(ports.rate), len(order)
    passes, alone, load = np.zeros((4, S)), np.zeros(3 * S - 2), np.zeros((3 * S - 2, P))
    channel = np.empty(2 * S - 2, dtype=np.int64)
    counts, next_counts = np.zeros(P), np.zeros(P)
    head, tail, bound, place = 0.0, 0.0, 0.0, 0
    _count(counts, ports.server, order, 0, state.replicas[0])
    for n in range(S):
        i, j, r = state.cuts[n], state.cuts[n + 1], state.replicas[n]
        f = (arrays.forward[r - 1, j] - arrays.forward[r - 1, i]) / r
        b = (arrays.backward[r - 1, j] - arrays.backward[r - 1, i]) / r
        first = (scored.inputs[r - 1, j] - scored.inputs[r - 1, i]) / r if behind > 0 else b
        in_flight = flight_limit[n] if behind > 0 else ahead[n]
        if r == V and scored.at_once > 0.0:
            f, b, first, in_flight = f * scored.at_once, b * scored.at_once, first * scored.at_once, M
        params, stored = arrays.params[j] - arrays.params[i], arrays.stored[j] - arrays.stored[i]
        room = arrays.memory - arrays.copies * params
        if in_flight * stored / r > room:
            if behind > 0 and stored / r <= room and (r < V or scored.at_once == 0.0):
                flight_limit[n] = int(room / (stored / r))
            elif behind == 0 and scored.recomputation and (in_flight * arrays.forward_bytes[i] + stored) / r <= room:
                b, first = b + f, first + f
            else:
                bound = np.inf
        passes[FORWARD, n], passes[BACKWARD, n], passes[INPUT, n], passes[WEIGHTS, n] = f, b, first, max(b - first, 0.0)
        k = 2 * S - 2 + n
        alone[k] = transfer_time(2 * (r - 1) * params, r * _slowest_within(arrays.bandwidth, order, place, r))
        _load_allreduce(load[k], 2 * (r - 1) * params / r, counts, ports, r)
        alone[k] = max(alone[k], load[k].max())
        bound = max(bound, head + M * (f + b) + alone[k], head + M * (f + first) + tail)
        if n < S - 1:
            q = state.replicas[n + 1]
            next_counts[:] = 0.0
            _count(next_counts, ports.server, order, place + r, q)
            out, back = _slowest_between(arrays.bandwidth, order, place, r, q)
            alone[n] = transfer_time(arrays.forward_bytes[j], r * q * out)
            alone[S - 1 + n] = transfer_time(arrays.backward_bytes[j], r * q * back)
            _load_transfer(load[n], arrays.forward_bytes[j], counts, next_counts, ports, r, q)
            _load_transfer(load[S - 1 + n], arrays.backward_bytes[j], next_counts, counts, ports, q, r)
            alone[n] = max(alone[n], load[n].max())
            alone[S - 1 + n] = max(alone[S - 1 + n], load[S - 1 + n].max())
            cf, cb = alone[n], alone[S - 1 + n]
            channel[n], channel[S - 1 + n] = n, S - 1 + n if arrays.full_duplex else n
            bound = max(bound, head + f + M * (max(cf, cb) if arrays.full_duplex else cf + cb) + first + tail)
            head += f + cf
            tail += first + cb
            counts[:] = next_counts
        place += r
    for p in range(P):
        total = 0.0
        for k in range(3 * S - 2):
            total += load[k, p] * (M if k < 2 * S - 2 else 1)
        bound = max(bound, total)
    for k in range(3 * S - 2):
        if alone[k] > 0.0:
            load[k] /= alone[k]
    return bound, Flows(passes, alone, load, np.arange(S), channel, (2 if arrays.full_duplex else 1) * (S - 1))


@compiled(allocates=False)
def _count(counts: FloatArray, server: IntArray, order: IntArray, place: int, r: int) -> None:
    """Count the r devices from a position of the order on by server, adding to `counts`."""
    for u in range(place, place + r):
        counts[server[order[u]]] += 1.0


@compiled(allocates=False)
def _slowest_within(bandwidth: FloatArray, order: IntArray, place: int, r: int) -> float:
    """Slowest link among the r devices from position `place` of the order on [bytes/s]; infinite if r is 1."""
    slowest = np.inf
    for u in range(place, place + r):
        for v in range(place, u):
            slowest = min(slowest, bandwidth[order[u], order[v]], bandwidth[order[v], order[u]])
    return slowest


@compiled(allocates=False)
def _slowest_between(bandwidth: FloatArray, order: IntArray, place: int, r: int, q: int) -> tuple[float, float]:
    """Slowest links from the r devices at position `place` of the order to the next q, and back [bytes/s]."""
    forth, back = np.inf, np.inf
    for u in range(place, place + r):
        for v in range(place + r, place + r + q):
            forth = min(forth, bandwidth[order[u], order[v]])
            back = min(back, bandwidth[order[v], order[u]])
    return forth, back


@compiled(allocates=False)
def _load_transfer(
    load: FloatArray, size: float, senders: FloatArray, receivers: FloatArray, ports: Ports, q: int, r: int
) -> None:
    """Add the seconds that a transfer from q devices to r loads each port, given how many of both each server has."""
    for h in range(ports.entering or len(load)):
        load[h] += transfer_time(size * senders[h] * (r - receivers[h]) / (q * r), ports.rate[h])
        load[h + ports.entering] += transfer_time(
            size * receivers[h] * (q - senders[h]) / (q * r), ports.rate[h + ports.entering]
        )


@compiled(allocates=False)
def _load_allreduce(load: FloatArray, size: float, counts: FloatArray, ports: Ports, r: int) -> None:
    """Add the seconds that an AllReduce of r devices in several servers loads each of their ports."""
    for h in range(ports.entering or len(load)):
        if 0.0 < counts[h] < r:
            load[h] += transfer_time(size, ports.rate[h])
            load[h + ports.entering] += transfer_time(size, ports.rate[h + ports.entering])


@compiled
def _change(state: PlanState, M: int, scored: Scored) -> bool:
    """Change one thing at random; return whether that was possible."""
    kind = np.random.random()
    if kind < 0.05:
        return _swap_servers(state.order, scored.ports.server)
    if kind < 0.1:
        return _swap_groups(state)
    if kind < 0.13 and scored.free and state.counts[2] > 0:
        state.counts[2] = min(M, 2 ** np.random.randint(0, 6))
        return True
    distance = state.counts[1]
    changed = change(state, M)
    if not scored.free and state.counts[1] != distance:
        state.counts[1] = distance
        return False
    return changed


@compiled
def _swap_servers(order: IntArray, server: IntArray) -> bool:
    """Exchange the devices of two random servers in the order, as many as both have; return whether it changed."""
    g, h = np.random.randint(0, server[-1] + 1), np.random.randint(0, server[-1] + 1)
    if g == h:
        return False
    mine, theirs = np.flatnonzero(server[order] == g), np.flatnonzero(server[order] == h)
    for i in range(min(len(mine), len(theirs))):
        order[mine[i]], order[theirs[i]] = order[theirs[i]], order[mine[i]]
    return True


@compiled
def _swap_groups(state: PlanState) -> bool:
    """Exchange the devices of two random stages; return whether the order changed."""
    S = state.counts[0]
    n, k = np.random.randint(0, S), np.random.randint(0, S)
    if n >= k:
        return False
    ends = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(state.replicas[:S])))
    before, places = state.order.copy(), np.arange(S)
    places[n], places[k] = k, n
    at, counts = 0, state.replicas.copy()
    for stage in range(S):
        source = places[stage]
        state.replicas[stage] = counts[source]
        for u in range(ends[source], ends[source + 1]):
            state.order[at] = before[u]
            at += 1
    return True


# Plans for servers with shared network cards.
#
# Starts are an even plan, the plans of SPP and of `improved` for the paper's network, and those of least load and least
# bound along several orders of the devices, with the bandwidths that transfers see if they have their cards for
# themselves. Annealing of the simulated time follows, then other orders of the passes: no start is lost.


#: Searches of each effort: PRM along one order, Z-DP along several, annealing, annealing until time is up.
EFFORTS = (0, 1, 2, 3)
#: Annealing: most changes of a start; plans to start from, and of each kind if there are two; temperatures from and to.
_STEPS, _STARTS, _FEWER, _HOT, _COLD = 20_000, 5, 2, 0.005, 0.0002
#: Changes between two looks at the clock.
_PIECE = 500
#: Passes simulated from one start, if no change is refused at once: a quarter of a microsecond each.
_OPERATIONS = 6_000_000
#: Plans whose orders are varied.
_VARIED = 4
#: Layers times devices beyond which dynamic programs along all orders take too long: they get a share of the time.
_LARGE = 3000
#: Distances of `steady` that are tried. Of each word for orders the distance, None for all of those, and how far the
#: gradients of weights may stay behind, 0 where backward passes are in one piece.
_DISTANCES, _ALL = (1, 2, 3, 4, 5, 6, 10**6), 10**6
_WAYS: dict[str, tuple[tuple[int | None, int], ...]] = {
    "auto": ((None, 0), (1, 1), (1, 4), (2, 4), (1, _ALL)),
    "unsplit": ((None, 0),),
    "1f1b": ((1, 0),),
    "pe": ((4, 0),),
    "gpipe": ((_ALL, 0),),
    "zb-h1": ((1, 1),),
    "zb": ((1, 1), (1, 4), (2, 4), (1, _ALL)),
    "interleaved": ((None, 0),),
}

#: Requirements of orders besides memory, by the beginning of their word.
_NEEDS = {
    "in": ": even groups, 2 or more, must divide {devices} devices and {microbatches} microbatches",
    "zb": ": stages that recompute do not split their backward passes",
}
#: Which orders of passes may be chosen.
ORDERS = tuple(_WAYS)

Tell = Callable[[str, float], None]


@dataclass(frozen=True)
class Effort:
    """Settings of the search: level of effort, allowed orders of passes, and a listener for progress."""

    level: int = 2  # one of `EFFORTS`
    orders: str = "auto"
    tell: Tell | None = None  # told the phase and the best time after each

    def __post_init__(self) -> None:
        check_one_of("effort", self.level, EFFORTS)
        check_one_of("orders", self.orders, ORDERS)


class _Candidate(NamedTuple):
    time: float
    state: PlanState


def improved_on_cards(
    instance: TrainingInstance, rng: np.random.Generator, limits: Limits | None = None, effort: Effort = Effort()
) -> Iteration:
    """Plan for the simulated time on shared cards; never worse than SPP or `improved` there, if time suffices for them.

    Raises
    ------
    InputError
        If no plan fits into memory, or none can take the given orders.
    """
    search = _Search(instance, rng, limits or Limits(), effort)
    search.start()
    if effort.level > 0:
        search.least_bounds()
    if effort.level > 1:
        search.anneal()
    return Iteration(instance, (search.ordered(),))


def on_cards(iteration: Iteration, instance: TrainingInstance) -> Iteration:
    """Execute on shared cards, in the same order of passes, an iteration that was planned for the paper's network.

    Servers that run pipelines of their own do not share cards, except when they add up their gradients.

    Raises
    ------
    InputError
        If the plan does not fit into memory there.
    """
    if iteration.plan is None:
        return replace(iteration, instance=instance, synchronisation=_through_cards(iteration, instance))
    (schedule,) = iteration.schedules
    plan = replace(iteration.plan, instance=instance)
    return Iteration(instance, (execute_orders(plan, schedule.orders, "as planned"),))


class _Search:
    def __init__(self, instance: TrainingInstance, rng: np.random.Generator, limits: Limits, effort: Effort) -> None:
        self.instance, self.rng, self.limits, self.effort = instance, rng, limits, effort
        self.candidates: list[_Candidate] = []
        self.timelines: list[Timeline] = []
        M = instance.microbatches
        self.ways = [(d or distance, min(M, behind)) for d, behind in _WAYS[effort.orders] for distance in _DISTANCES]
        self.ways = list(dict.fromkeys((min(M, distance), behind) for distance, behind in self.ways))
        assert instance.ports is not None
        self.scored = Scored(
            inputs=instance.input_sums,
            ports=instance.ports,
            at_once=instance.at_once if instance.samples is not None else 0.0,
            recomputation=instance.recomputation,
            free=effort.orders in ("auto", "unsplit", "zb", "interleaved"),
        )
        self.hurried = limits.deadline.left < math.inf and instance.chain.n * instance.cluster.n > _LARGE

    def start(self) -> None:
        """Add an even plan, then plans of least load along one order of the devices."""
        self._add("even", self._even())
        self._add("prm", self._least_load(recursive_device_order(self.instance.cluster)))

    def least_bounds(self) -> None:
        """Add plans of `spp` and `improved`, and plans of least load and least bound along more device orders."""
        planners: dict[str, Callable[[TrainingInstance], Iteration]]
        interrupt = Limits(Deadline(interrupted=self.limits.deadline.interrupted))
        planners = {"spp": spp, "improved": partial(improved, rng=self.rng, limits=interrupt)}
        for name, planner in planners.items():
            if self._stops() or (name == "improved" and self.hurried):
                break
            try:
                (schedule,) = on_cards(planner(self.instance.in_paper), self.instance).schedules
            except InputError:  # does not fit as the paper counts memory
                continue
            self.timelines.append(schedule)
            self._add(name, [schedule.plan])
        for order in self._device_orders():
            if not self._stops():
                self._add("prm", self._least_load(order))
            if not (self._stops() or self.hurried):
                self._add("z-dp", least_bound_plans(self.instance, order, self._least()))

    def anneal(self) -> None:
        """Anneal the best plan of each of several numbers of stages, with split backward passes and without."""
        kinds: dict[bool, dict[int, _Candidate]] = {}
        for candidate in sorted(self.candidates, key=lambda candidate: -candidate.time):
            kinds.setdefault(bool(candidate.state.counts[2]), {})[int(candidate.state.counts[0])] = candidate
        for by_stages in kinds.values():
            starts = sorted(by_stages.values(), key=lambda candidate: candidate.time)
            for start in starts[: _STARTS if len(kinds) == 1 else _FEWER]:
                self._anneal_from(start)
        while self.effort.level == 3 and self.limits.deadline.left < math.inf and not self._stops():
            self._anneal_from(self._different()[0])

    def ordered(self) -> Timeline:
        """The best plan in the best order of passes that could be executed in time."""
        chosen = list(self.timelines) if self.effort.orders in ("auto", "unsplit") else []
        for timeline in self._executed():
            chosen.append(timeline)
            if self.limits.deadline.passed:
                break
        if not chosen:
            raise self._refusal()
        best = min(chosen, key=lambda timeline: timeline.makespan)
        self._tell("orders", best.makespan)
        return best

    def _executed(self) -> Iterator[Timeline]:
        """Yield timelines of the best plans in all allowed orders of passes, then of interleaved plans."""
        for candidate in self._different()[:_VARIED]:
            yield from self._in_orders(candidate)
        if self.effort.orders in ("auto", "interleaved"):
            best: Timeline | None = None
            for plan, orders in interleaved_plans(self.instance, self._device_orders()):
                timeline = execute_orders(plan, orders, "interleaved")
                best = timeline if best is None or timeline.makespan < best.makespan else best
                yield timeline
            if best is not None and self.effort.level > 1:
                yield better_cuts(best, self.limits.deadline)

    def _in_orders(self, candidate: _Candidate) -> Iterator[Timeline]:
        """Yield timelines of a candidate in the order that scored it, and in the other allowed orders."""
        kinds, (_, distance, behind) = self.effort.orders, candidate.state.counts.tolist()
        plan = candidate.state.plan(self.instance)
        if kinds == "interleaved":
            return
        if behind > 0:
            yield execute_orders(plan, *zero_bubble(plan, distance, behind))
        if behind == 0 or plan.instance.recomputation:
            plan = _fitted(plan, distance)
        if behind == 0 and kinds != "gpipe":
            yield execute_orders(plan, *steady_order(plan, distance))
        for name, orders in portfolio(plan) if kinds.startswith(("auto", "zb")) else unsplit_orders(plan):
            if kinds in ("auto", "unsplit", name) or (kinds == "zb" and name.startswith(kinds)):
                yield execute_orders(plan, orders, name)

    def _different(self) -> list[_Candidate]:
        """The candidates by rising time, without repetitions of a plan."""
        seen: dict[tuple[object, ...], _Candidate] = {}
        for candidate in sorted(self.candidates, key=lambda candidate: candidate.time):
            S = candidate.state.counts[0]
            key = (*candidate.state.cuts[: S + 1], *candidate.state.replicas[:S], *candidate.state.order)
            seen.setdefault(key, candidate)
        return list(seen.values())

    def _even(self) -> Iterator[Plan]:
        """Yield plans with about equally many layers and devices in each stage, on all servers and on some."""
        layers, server = self.instance.chain.n, self.instance.cluster.server
        for part in parts_of(self.instance.cluster):
            for stages in sorted({1, len(set(server[part].tolist())), len(part)}):
                if stages <= layers:
                    cuts = np.cumsum([0, *even_counts(layers, stages)])
                    with contextlib.suppress(InputError):
                        yield Plan.along(self.instance, cuts, even_counts(len(part), stages), part.tolist())

    def _least_load(self, order: IntArray) -> Iterator[Plan]:
        """Yield the plan of least load for each number of stages, along an order of the devices."""
        execution = _one_in_flight if self.instance.recomputation else one_forward_one_backward
        return (plan for plan in plans_by_stages(self.instance, order, execution) if plan is not None)

    def _device_orders(self) -> list[IntArray]:
        """Orders of the devices that are tried, each once."""
        cluster = self.instance.cluster
        sizes = np.repeat(cluster.servers, cluster.servers)
        by_size = [np.argsort(sign * sizes, kind="stable") for sign in (-1, 1)]
        return list({tuple(order.tolist()): order for order in [*device_orders(self.instance), *by_size]}.values())

    def _add(self, phase: str, plans: Iterable[Plan]) -> None:
        """Add plans as candidates, each with all warm-ups that fit; stops after at least one plan if time is up."""
        for plan in plans:
            for distance, behind in self.ways:
                state = PlanState.of(plan, distance, behind)
                time = score(self.instance.arrays, self.scored, state, np.inf)
                if time < np.inf:
                    self.candidates.append(_Candidate(time, state))
            if self._stops():
                break
        self._tell(phase, self._least())

    def _anneal_from(self, start: _Candidate) -> None:
        """Anneal from a candidate; each new best plan becomes a candidate."""
        limit = _OPERATIONS // int(2 * start.state.counts[0] * self.instance.microbatches)
        steps = self.limits.allow(max(1, min(_STEPS, limit)))
        cooling, state = _HOT * (_COLD / _HOT) ** (np.arange(steps) / steps), start.state
        for piece in np.array_split(cooling, -(-steps // _PIECE)):
            if self._stops():
                return
            seed = int(self.rng.integers(2**31))
            state, least, best = anneal_on_cards(self.instance.arrays, self.scored, state, piece, seed)
            if least < self._least():
                self.candidates.append(_Candidate(least, best))
        self._tell("annealing", self._least())

    def _least(self) -> float:
        """Least time of all candidates so far [s]; infinite without one."""
        return min((candidate.time for candidate in self.candidates), default=math.inf)

    def _stops(self) -> bool:
        return bool(self.candidates) and self.limits.reached(self._least())

    def _tell(self, phase: str, time: float) -> None:
        if self.effort.tell is not None and time < math.inf:
            self.effort.tell(phase, time)

    def _refusal(self) -> InputError:
        """Error for a search without an answer: nothing fits, or nothing in these orders."""
        if not self.candidates:
            return self.instance.no_plan
        kinds, V, M = self.effort.orders, self.instance.cluster.n, self.instance.microbatches
        why = _NEEDS.get(kinds[:2], "").format(devices=V, microbatches=M)
        return InputError(f"No plan found can take the orders '{kinds}' within memory{why}; choose auto.")


def _one_in_flight(stages: int, _microbatches: int) -> IntArray:
    return np.ones(stages, dtype=np.int64)


def _fitted(plan: Plan, distance: int) -> Plan:
    """Set recomputation for the stages that do not fit without it."""
    M = plan.instance.microbatches
    ahead = [M] if plan.is_at_once else steady(plan.n_stages, M, distance)
    return replace(plan, recompute=tuple((plan.memory_needed(ahead) > plan.instance.memory).tolist()))


def _through_cards(iteration: Iteration, instance: TrainingInstance) -> float:
    """Time of an AllReduce between all servers, which loads both ports of each [s]."""
    cluster, ports = instance.cluster, instance.ports
    assert ports is not None
    outside = cluster.server[:, None] != cluster.server
    if not outside.any() or iteration.synchronisation == 0:
        return iteration.synchronisation
    lanes = 1 if ports.entering else 2
    return iteration.synchronisation * max(1.0, lanes * float(cluster.bandwidth[outside].min() / ports.rate.min()))
