"""Execution on the paper's network: orders with a warm-up, their times, and the annealing of plans, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from instances.compiled import compiled
from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray
from instances.planning import Plan, Timeline, TrainingInstance
from instances.planning.bounds import transfer_time
from instances.planning.operations import Moments, PassLists, decoded
from instances.planning.problem import TrainingArrays
from instances.planning.simulator import warmed_up_orders

# Plans and start times as plain arrays, for kernels.


class Times(NamedTuple):
    """Times of the operations of a plan [s]."""

    f: FloatArray  # (S,): forward pass of a microbatch in each stage
    b: FloatArray  # (S,): backward pass of a microbatch in each stage
    cf: FloatArray  # (S - 1,): transfer of a microbatch to the next stage
    cb: FloatArray  # (S - 1,): transfer of its gradient back
    A: FloatArray  # (S,): AllReduce of each stage

    @classmethod
    def of(cls, plan: Plan) -> Times:
        """Times of a plan."""
        return cls(
            f=plan.forward_time,
            b=plan.backward_time,
            cf=plan.forward_transfer_time,
            cb=plan.backward_transfer_time,
            A=plan.allreduce_time,
        )


class Starts(NamedTuple):
    """Start times of operations, as in `Moments` [s]; a kernel fills them in."""

    forward: FloatArray
    backward: FloatArray
    send: FloatArray
    receive: FloatArray
    allreduce: FloatArray

    @classmethod
    def of(cls, stages: int, microbatches: int) -> Starts:
        """Allocate start times for a schedule."""
        stage, channel = (stages, microbatches), (stages - 1, microbatches)
        return cls(
            forward=np.zeros(stage),
            backward=np.zeros(stage),
            send=np.zeros(channel),
            receive=np.zeros(channel),
            allreduce=np.zeros(stages),
        )


class PlanState(NamedTuple):
    """A plan and its order of execution, as arrays that the search changes; rows beyond the stages are unused."""

    cuts: IntArray  # (s + 1,)
    replicas: IntArray  # (s + 1,): those of each stage, then the number of idle devices
    order: IntArray  # (V,): stages take their devices from it, one after the other
    # (3,): number of stages, distance of `steady`, and how much more than that forward passes may be ahead of
    # the gradients of weights, 0 if backward passes are in one piece.
    counts: IntArray

    @classmethod
    def of(cls, plan: Plan, distance: int, behind: int = 0) -> PlanState:
        """Arrays of a plan, with room for as many stages as there can be."""
        layers, devices, S = plan.instance.chain.n, plan.instance.cluster.n, plan.n_stages
        used = [device for stage in plan.devices for device in stage]
        idle = sorted(set(range(devices)) - set(used))
        cuts, replicas = np.zeros((2, min(layers, devices) + 1), dtype=np.int64)
        cuts[: S + 1], replicas[: S + 1] = plan.cuts, [*plan.replicas, len(idle)]
        return cls(cuts, replicas, np.array(used + idle), np.array([S, distance, behind]))

    def plan(self, instance: TrainingInstance) -> Plan:
        """Plan with this state."""
        stages = self.counts[0]
        return Plan.along(instance, self.cuts[: stages + 1], self.replicas[:stages], self.order)


# Simulator of plans and the kernels that call it in a loop, compiled by numba.


@compiled
def simulate(times: Times, warmup: IntArray, M: int, full_duplex: bool, starts: Starts) -> float:
    """Run one iteration event by event; fill in all starts and return the makespan.

    All events of one time end before anything starts. A channel takes what became ready first, on a tie activations.
    The last stage of an order with a warm-up of 1 runs both passes of a microbatch as one operation, as PE does.

    Parameters
    ----------
    times : Times
        Times of at least S stages, of which the first S are used.
    warmup : (S,) integers
        Forward passes of each stage before its first backward pass: not increasing, from 1 to M.
    starts : Starts
        Filled in.
    """
    f, b, cf, cb, A = times
    forward, backward, send, receive, allreduce = starts
    S = len(warmup)
    merged = warmup[S - 1] == 1
    # Machines: S stages, S - 1 channels, and in full duplex S - 1 channels back. Idle ones end at infinity.
    machines = 3 * S - 2 if full_duplex else 2 * S - 1
    ends = np.full(machines, np.inf)
    turning = np.zeros(machines, dtype=np.bool_)  # whether the machine works on a backward pass or its gradients
    started_forward, started_backward = np.zeros(S, dtype=np.int64), np.zeros(S, dtype=np.int64)
    ended_forward, ended_backward = np.zeros(S, dtype=np.int64), np.zeros(S, dtype=np.int64)
    sending, receiving = np.zeros(S, dtype=np.int64), np.zeros(S, dtype=np.int64)
    sent, received = np.zeros(S, dtype=np.int64), np.zeros(S, dtype=np.int64)
    makespan = 0.0
    now = 0.0
    while now < np.inf:
        for n in range(S):
            if ends[n] == now:
                ends[n] = np.inf
                if turning[n]:
                    m = ended_backward[n]
                    ended_backward[n] = m + 1
                    if n > 0:
                        receive[n - 1, m] = now  # ready; its start comes later
                    if m == M - 1:
                        allreduce[n] = now
                        makespan = max(makespan, now + A[n])
                else:
                    m = ended_forward[n]
                    ended_forward[n] = m + 1
                    if n < S - 1:
                        send[n, m] = now
        for c in range(S, machines):
            if ends[c] == now:
                ends[c] = np.inf
                n = c - S if c < 2 * S - 1 else c - (2 * S - 1)
                if turning[c]:
                    received[n] += 1
                else:
                    sent[n] += 1
        for n in range(S):
            if ends[n] < np.inf:
                continue
            m, k = started_forward[n], started_backward[n]
            if m < M and m - k < warmup[n]:
                if n == 0 or m < sent[n - 1]:
                    forward[n, m] = now
                    started_forward[n] = m + 1
                    if merged and n == S - 1:
                        backward[n, m] = now + f[n]
                        started_backward[n] = m + 1
                        turning[n] = True
                        ends[n] = now + (f[n] + b[n])
                    else:
                        turning[n] = False
                        ends[n] = now + f[n]
            elif k < M and (k < received[n] if n < S - 1 else k < ended_forward[n]):
                backward[n, k] = now
                started_backward[n] = k + 1
                turning[n] = True
                ends[n] = now + b[n]
        for n in range(S - 1):
            outgoing, incoming = S + n, 2 * S - 1 + n if full_duplex else S + n
            out, home = sending[n], receiving[n]
            may_send = ends[outgoing] == np.inf and out < ended_forward[n]
            may_receive = ends[incoming] == np.inf and home < ended_backward[n + 1]
            if may_send and may_receive and not full_duplex:
                may_send = send[n, out] <= receive[n, home]
                may_receive = not may_send
            if may_send:
                send[n, out] = now
                sending[n] = out + 1
                turning[outgoing] = False
                ends[outgoing] = now + cf[n]
            if may_receive:
                receive[n, home] = now
                receiving[n] = home + 1
                turning[incoming] = True
                ends[incoming] = now + cb[n]
        now = ends[0]
        for c in range(1, machines):
            now = min(now, ends[c])
    return makespan


@compiled
def anneal_plan(
    arrays: TrainingArrays, start: PlanState, steps: int, hot: float, cold: float, seed: int
) -> tuple[float, PlanState]:
    """Search for a plan with a small simulated makespan by simulated annealing; return the least makespan and its plan.

    The start fits into memory. `steps` changes are tried, while the temperature falls from `hot` to `cold`, both as
    fractions of the makespan.
    """
    np.random.seed(seed)
    M, n = arrays.microbatches, len(start.cuts) - 1
    shape = (n, M)
    times = Times(f=np.zeros(n), b=np.zeros(n), cf=np.zeros(n), cb=np.zeros(n), A=np.zeros(n))
    starts = Starts(
        forward=np.zeros(shape),
        backward=np.zeros(shape),
        send=np.zeros(shape),
        receive=np.zeros(shape),
        allreduce=np.zeros(n),
    )
    warmup = np.zeros(n, dtype=np.int64)
    current, candidate, best = copy_state(start), copy_state(start), copy_state(start)
    now, least = np.inf, np.inf
    for step in range(steps):
        limit = np.inf
        if step > 0:
            assign_state(candidate, current)
            if not change(candidate, M):
                continue
            temperature = now * hot * (cold / hot) ** (step / steps)
            limit = now - temperature * np.log(1.0 - np.random.random())
        S, distance = candidate.counts[0], candidate.counts[1]
        if _bound(arrays, candidate, times) > limit:
            continue
        for n in range(S):
            warmup[n] = min(M, distance * (S - 1 - n) + 1)
        makespan = simulate(times, warmup[:S], M, arrays.full_duplex, starts)
        if makespan <= limit:
            now, least = makespan, keep(candidate, makespan, current, best, least)
    return least, best


@compiled
def keep(candidate: PlanState, makespan: float, current: PlanState, best: PlanState, least: float) -> float:
    """Make a candidate the current plan, and the best one if its makespan is below `least`; return the new least."""
    assign_state(current, candidate)
    if makespan < least:
        assign_state(best, candidate)
    return min(makespan, least)


@compiled
def copy_state(state: PlanState) -> PlanState:
    """Copy of a plan."""
    return PlanState(state.cuts.copy(), state.replicas.copy(), state.order.copy(), state.counts.copy())


@compiled
def assign_state(target: PlanState, source: PlanState) -> None:
    """Copy the plan `source` into the arrays of `target`."""
    for n in range(len(target.cuts)):
        target.cuts[n], target.replicas[n] = source.cuts[n], source.replicas[n]
    for v in range(len(target.order)):
        target.order[v] = source.order[v]
    for i in range(len(target.counts)):
        target.counts[i] = source.counts[i]


@compiled
def _bound(arrays: TrainingArrays, state: PlanState, times: Times) -> float:
    """Fill in the times of all stages and channels; return the lower bound Z [s], infinite if the plan does not fit."""
    f, b, cf, cb, A = times
    S, distance = state.counts[0], state.counts[1]
    M, bandwidth, order = arrays.microbatches, arrays.bandwidth, state.order
    head, tail, bound = 0.0, 0.0, 0.0
    place = 0
    for n in range(S):
        i, j, r = state.cuts[n], state.cuts[n + 1], state.replicas[n]
        f[n] = (arrays.forward[r - 1, j] - arrays.forward[r - 1, i]) / r
        b[n] = (arrays.backward[r - 1, j] - arrays.backward[r - 1, i]) / r
        params = arrays.params[j] - arrays.params[i]
        in_flight = min(M, distance * (S - 1 - n) + 1)
        if arrays.copies * params + in_flight * (arrays.stored[j] - arrays.stored[i]) / r > arrays.memory:
            return np.inf
        slowest = np.inf
        for u in range(place, place + r):
            for v in range(place, u):
                slowest = min(slowest, bandwidth[order[u], order[v]], bandwidth[order[v], order[u]])
        A[n] = transfer_time(2 * (r - 1) * params, r * slowest)
        bound = max(bound, head + M * (f[n] + b[n]) + max(tail, A[n]))
        if n < S - 1:
            q = state.replicas[n + 1]
            forth, back = np.inf, np.inf
            for u in range(place, place + r):
                for v in range(place + r, place + r + q):
                    forth = min(forth, bandwidth[order[u], order[v]])
                    back = min(back, bandwidth[order[v], order[u]])
            cf[n] = transfer_time(arrays.forward_bytes[j], r * q * forth)
            cb[n] = transfer_time(arrays.backward_bytes[j], r * q * back)
            busy = max(cf[n], cb[n]) if arrays.full_duplex else cf[n] + cb[n]
            bound = max(bound, head + f[n] + M * busy + b[n] + tail)
            head += f[n] + cf[n]
            tail += b[n] + cb[n]
        place += r
    return bound


@compiled
def change(state: PlanState, M: int) -> bool:
    """Change one thing at random; return whether that was possible."""
    S = state.counts[0]
    kind = np.random.random()
    if kind < 0.35:
        return _move_cut(state, S)
    if kind < 0.6:
        return _move_replica(state, S)
    if kind < 0.9:
        return _reorder(state.order)
    if kind < 0.95:
        return _merge_or_split(state, S)
    state.counts[1] = np.random.randint(1, 7) if np.random.random() < 0.9 else M
    return True


@compiled
def _move_cut(state: PlanState, S: int) -> bool:
    """Move a cut by up to 3 layers; return whether it moved."""
    if S == 1:
        return False
    n = np.random.randint(1, S)
    low, high = state.cuts[n - 1] + 1, state.cuts[n + 1] - 1
    by = np.random.randint(1, 4) * (1 if np.random.random() < 0.5 else -1)
    cut = min(max(state.cuts[n] + by, low), high)
    moved = cut != state.cuts[n]
    state.cuts[n] = cut
    return moved


@compiled
def _move_replica(state: PlanState, S: int) -> bool:
    """Move a device from one stage to another, idle devices counting as a stage; return whether that was possible."""
    giver, taker = np.random.randint(0, S + 1), np.random.randint(0, S + 1)
    if giver == taker or state.replicas[giver] < (2 if giver < S else 1):
        return False
    if np.random.random() < 0.5:  # a device changes sides; else all ends between the two stages move
        place, to = np.random.randint(0, state.replicas[giver]), 0
        for n in range(max(giver, taker + 1)):
            if n < giver:
                place += state.replicas[n]
            if n <= taker:
                to += state.replicas[n]
        if taker > giver:
            to -= 1
        step = 1 if to > place else -1
        for at in range(place, to, step):
            state.order[at], state.order[at + step] = state.order[at + step], state.order[at]
    state.replicas[giver] -= 1
    state.replicas[taker] += 1
    return True


@compiled
def _reorder(order: IntArray) -> bool:
    """Swap two devices in the order, or reverse the segment between them; return whether the order changed."""
    i, j = np.random.randint(0, len(order)), np.random.randint(0, len(order))
    if i >= j:
        return False
    swap = np.random.random() < 0.7
    while i < j:
        order[i], order[j] = order[j], order[i]
        i, j = i + 1, i if swap else j - 1
    return True


@compiled
def _merge_or_split(state: PlanState, S: int) -> bool:
    n = np.random.randint(0, S)
    if np.random.random() < 0.5:
        if n == S - 1:
            return False
        state.replicas[n] += state.replicas[n + 1]
        for k in range(n + 1, S):
            state.cuts[k], state.replicas[k] = state.cuts[k + 1], state.replicas[k + 1]
        state.counts[0] = S - 1
        return True
    layers, devices = state.cuts[n + 1] - state.cuts[n], state.replicas[n]
    if layers < 2 or devices < 2:
        return False
    for k in range(S, n, -1):
        state.cuts[k + 1], state.replicas[k + 1] = state.cuts[k], state.replicas[k]
    state.cuts[n + 1] = state.cuts[n] + np.random.randint(1, layers)
    state.replicas[n] = np.random.randint(1, devices)
    state.replicas[n + 1] = devices - state.replicas[n]
    state.counts[0] = S + 1
    return True


# Execution of a plan: the order in which each stage takes its microbatches, and the times.
#
# Every order here is of one kind: stage n runs ``warmup[n]`` forward passes, then a backward and a forward pass in
# turns, each in the order of the microbatches. A stage waits for the next operation of its order; a channel serves
# first come, first served.


#: Warm-up of each stage, from the numbers of stages and microbatches.
Order = Callable[[int, int], IntArray]


def steady(stages: int, microbatches: int, distance: int) -> IntArray:
    """(S,) warm-up of ``distance (S - n) + 1`` forward passes in stage n = 1 … S, and at most all of them."""
    return np.minimum(microbatches, distance * np.arange(stages)[::-1] + 1)


def pe(stages: int, microbatches: int) -> IntArray:
    """(S,) warm-up of the paper's Algorithm 1 (PE): forward passes of each stage before its first backward pass.

    PE's queues put microbatch m into block j, a pass of a stage or a transfer, in cycle m + j - 1. So 4 (S - n) cycles
    lie between the forward and the backward pass of a microbatch in stage n.

    So 4 (S - n) passes lie between the forward and the backward pass of a microbatch in stage n.
    """
    return steady(stages, microbatches, 4)


def one_forward_one_backward(stages: int, microbatches: int) -> IntArray:
    """(S,) warm-up of PipeDream's order, 1F1B: the least that keeps every stage busy if transfers take no time."""
    return steady(stages, microbatches, 1)


def all_forward_first(stages: int, microbatches: int) -> IntArray:
    """(S,) warm-up of GPipe's order: all forward passes, then all backward passes."""
    return np.full(stages, microbatches)


def warmed_up(warmup: Sequence[int] | IntArray, microbatches: int) -> PassLists:
    """Each stage runs ``warmup[n]`` forward passes, then a backward and a forward pass in turns."""
    orders = warmed_up_orders(np.array(warmup, dtype=np.int64), microbatches)
    return decoded(orders.passes.reshape(len(warmup), -1), microbatches)


def execute(plan: Plan, warmup: IntArray) -> Timeline:
    """Start every operation as early as the order allows.

    The warm-up, (S,), is the forward passes of each stage before its first backward pass, such as ``pe(S, M)``.

    Raises
    ------
    InputError
        If the warm-up is not possible, or the plan does not fit into memory.
    """
    M = plan.instance.microbatches
    starts = Starts.of(plan.n_stages, M)
    _run(plan, warmup, starts)
    none, trained = np.full(starts.forward.shape, np.nan), starts.backward + plan.backward_time[:, None]
    reduced = np.where(plan.replicas > 1, starts.allreduce, trained.max(axis=1))
    start = Moments(starts.forward, starts.backward, none, starts.send, starts.receive, reduced)
    end = Moments(
        forward=starts.forward + plan.forward_time[:, None],
        backward=trained,
        weights=none,
        send=starts.send + plan.forward_transfer_time[:, None],
        receive=starts.receive + plan.backward_transfer_time[:, None],
        allreduce=reduced + plan.allreduce_time,
    )
    return Timeline(plan, warmed_up(warmup, M), start, end)


def iteration_time(plan: Plan, warmup: IntArray) -> float:
    """Makespan of `execute`, without its checks [s]."""
    return _run(plan, warmup, Starts.of(plan.n_stages, plan.instance.microbatches))


def _run(plan: Plan, warmup: IntArray, starts: Starts) -> float:
    """Makespan of a plan with a warm-up, (S,) forward passes; fills in the starts [s]."""
    M = plan.instance.microbatches
    if len(warmup) != plan.n_stages or (np.diff(warmup) > 0).any() or not 1 <= warmup[-1] <= warmup[0] <= M:
        raise InputError(
            f"The warm-up is {list(warmup)}; give each of the {plan.n_stages} stages from 1 to {M} forward passes, and "
            "none more than the stage before."
        )
    return simulate(Times.of(plan), np.asarray(warmup, dtype=np.int64), M, plan.instance.full_duplex, starts)
