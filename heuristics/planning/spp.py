"""SPP, the planner of the paper, and the search `improved`: device orders, PRM and cuts along an order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heuristics.method import Limits
from heuristics.planning.execution import Order, PlanState, anneal_plan, execute, iteration_time, pe, steady
from instances.compiled import compiled
from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray, components
from instances.planning import Cluster, Iteration, LayerChain, Plan, TrainingInstance
from instances.planning.bounds import LinkSpeeds, speeds_along, z_points
from instances.planning.problem import TrainingArrays

# RDO: an order of the devices by recursive minimum cuts (SPP, Algorithm 2).


BoolArray = NDArray[np.bool_]


def recursive_device_order(cluster: Cluster, *, smaller_first: bool = True) -> IntArray:
    """(V,) order of the devices in which slow links lie between distant positions.

    The devices are split along a global minimum cut of their bandwidths, and both sides are ordered alike. The paper
    does not say which side comes first; here it is the one with fewer devices, or the other one if not `smaller_first`,
    on a tie the one with the device of the smallest index. The slower direction of a link counts.
    """
    bandwidth = cluster.symmetric_bandwidth
    order: list[int] = []
    waiting = [np.arange(cluster.n)]
    while waiting:
        devices = waiting.pop()
        if len(devices) == 1:
            order.append(int(devices[0]))
            continue
        side = minimum_cut(bandwidth[np.ix_(devices, devices)])
        sizes = (int(side.sum()), int((~side).sum()))
        first = side if sizes[0] < sizes[1] or (sizes[0] == sizes[1] and side[0]) else ~side
        if not smaller_first and sizes[0] != sizes[1]:
            first = ~first
        waiting += [devices[~first], devices[first]]
    return np.array(order)


def minimum_cut(weight: FloatArray) -> BoolArray:
    """One side of a minimum cut of a graph with symmetric weights, as booleans.

    The first best cut of a phase of Stoer and Wagner (1997), vertices in the order of their indices. If the graph falls
    apart, its smallest component.
    """
    piece = components(np.argwhere(weight != 0), len(weight), directed=False)
    if piece.any():
        sizes = np.bincount(piece)[piece]  # of each one's component; the first of the smallest says which
        return np.asarray(piece == piece[sizes.argmin()])
    return _stoer_wagner(weight.copy())


@compiled
def _stoer_wagner(weight: FloatArray) -> BoolArray:
    """(n,) whether each vertex is on one side of a least cut, by Stoer and Wagner; overwrites the weights."""
    n = len(weight)
    group = np.arange(n)  # the vertex that stands for each one
    least, side = np.inf, np.zeros(n, dtype=np.bool_)
    for vertices in range(n, 1, -1):
        towards = np.zeros(n)
        seen = np.zeros(n, dtype=np.bool_)
        before, last = -1, -1
        for _ in range(vertices):
            tightest = -1
            for v in range(n):
                if group[v] == v and not seen[v] and (tightest < 0 or towards[v] > towards[tightest]):
                    tightest = v
            seen[tightest] = True
            before, last = last, tightest
            for v in range(n):
                if v != tightest:
                    towards[v] += weight[tightest, v]
        if towards[last] < least:
            least = towards[last]
            for v in range(n):
                side[v] = group[v] == last
        for v in range(n):
            weight[before, v] += weight[last, v]
            weight[v, before] = weight[before, v]
            if group[v] == last:
                group[v] = before
    return side


# PRM: cuts and replicas along a device order that minimise W, for every number of stages (SPP, Algorithm 4).


def plans_by_stages(
    instance: TrainingInstance, order: Sequence[int] | IntArray, execution: Order, *, allow_idle: bool = False
) -> list[Plan | None]:
    """Plans of least `Plan.workload` with 1, 2, … stages along an order of the devices.

    Stages take their devices from the order, (V,), one after the other; devices at both ends may stay idle if that is
    allowed, otherwise a plan uses all. A stage keeps the activations of as many microbatches as `execution` starts
    before its first backward pass. The plan with S stages is at index S - 1, for S up to the number of layers and of
    devices; None where no plan fits into memory or links are missing. On ties the last stage has the fewest devices,
    then the fewest layers, and the stage before it the fewest devices.
    """
    places = np.asarray(order, dtype=np.int64)
    best: list[Plan | None] = [None] * min(instance.chain.n, instance.cluster.n)
    for start in range(len(places) if allow_idle else 1):
        window = places[start:]
        for index, candidate in enumerate(_along(instance, window, execution, allow_idle)):
            current = best[index]
            if candidate is not None and (current is None or candidate.workload < current.workload):
                best[index] = candidate
    return best


def reversed_instance(instance: TrainingInstance) -> TrainingInstance:
    """The same question with the last layer first; plans and their W mirror each other."""
    chain, share = instance.chain, instance.replica_share
    mirrored = LayerChain(
        chain.forward[::-1],
        chain.backward[::-1],
        forward_bytes=chain.backward_bytes[::-1],
        backward_bytes=chain.forward_bytes[::-1],
        param_bytes=chain.param_bytes[::-1],
        stored_bytes=chain.stored[::-1],
        names=chain.names[::-1],
        name=chain.name,
    )
    return replace(
        instance, chain=mirrored, replica_share=share[::-1] if share is not None and share.ndim == 2 else share
    )


def _along(instance: TrainingInstance, order: IntArray, execution: Order, allow_idle: bool) -> list[Plan | None]:
    """Plan of least W for each number of stages; where it does not fit, the plan of the mirrored chain if that fits."""
    stages = min(instance.chain.n, len(order))
    free = _best_stages(replace(instance, memory=np.inf), order, np.ones(stages), allow_idle)
    plans: list[Plan | None] = []
    for answer in free:
        plans.append(None if answer is None else _fitting(instance, *answer, order, execution))
    if np.isinf(instance.memory) or all(plan is not None for plan in plans):
        return plans
    # The warm-up of a stage depends on how many come after it, so memory is a matter of the mirrored chain.
    in_flight = execution(stages, instance.microbatches)[::-1]
    tight = _best_stages(reversed_instance(instance), order[::-1], in_flight, allow_idle)
    for index, answer in enumerate(tight):
        if plans[index] is None and answer is not None:
            cuts, replicas, used = answer
            mirrored = [instance.chain.n - cut for cut in reversed(cuts)]
            devices = order[len(order) - used :]
            plans[index] = Plan.along(instance, mirrored, replicas[::-1], devices)
    return plans


def _fitting(
    instance: TrainingInstance, cuts: list[int], replicas: list[int], used: int, order: IntArray, execution: Order
) -> Plan | None:
    """The plan with these cuts and replicas along the order; None if it does not fit into memory or lacks links."""
    try:
        plan = Plan.along(instance, cuts, replicas, order[:used])
        plan.check_memory(execution(plan.n_stages, instance.microbatches))
    except InputError:
        return None
    return plan


def _best_stages(
    instance: TrainingInstance, order: IntArray, in_flight: FloatArray | IntArray, allow_idle: bool
) -> list[tuple[list[int], list[int], int] | None]:
    """Cuts, replicas and number of devices of the best plan for each number of stages."""
    speeds = speeds_along(instance.cluster, order, instance.ports)
    last, cut, replica = _prm(instance.arrays, speeds, np.asarray(in_flight, dtype=np.float64))
    answers: list[tuple[list[int], list[int], int] | None] = []
    for stages in range(1, len(last) + 1):
        by_devices = last[stages - 1] if allow_idle else last[stages - 1, -1:]
        row, r = np.unravel_index(by_devices.argmin(), by_devices.shape)
        if np.isinf(by_devices[row, r]):
            answers.append(None)
            continue
        used = int(row) if allow_idle else len(order)
        cuts, replicas, place, layer, devices = [instance.chain.n], [], used, instance.chain.n, int(r)
        for x in range(stages - 1, -1, -1):
            replicas.append(devices)
            state = (x, place, devices, layer)
            place, layer, devices = place - devices, int(cut[state]), int(replica[state])
            cuts.append(layer)
        answers.append((cuts[::-1], replicas[::-1], used))
    return answers


@compiled(error_model="numpy")
def _prm(arrays: TrainingArrays, speeds: LinkSpeeds, in_flight: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Return W(L, x, r, i) as ``last[x - 1, i, r]``; of all states, the cut and the replicas before the last stage.

    The cost of a channel does not depend on where the last stage ends, nor that of the last stage on the replicas
    before it. So H(k, x - 1, r, i) = min over q of max(W(k, x - 1, q, i), channel(k, q, r, i)) comes first, and
    W(l, x, r, i) = min over k of max(H(k, x - 1, r, i - r), stage(k, l, r, i)).
    """
    sums, M = arrays.forward + arrays.backward, arrays.microbatches
    forward_bytes, backward_bytes = arrays.forward_bytes, arrays.backward_bytes
    L, V, levels = sums.shape[1] - 1, len(speeds.within) - 1, len(in_flight)
    last = np.full((levels, V + 1, V + 1), np.inf)
    cut = np.zeros((levels, V + 1, V + 1, L + 1), dtype=np.int16)
    replica = np.zeros((levels, V + 1, V + 1, L + 1), dtype=np.int16)
    before = np.full((V + 1, V + 1, L + 1), np.inf)
    for x in range(levels):
        current = np.full((V + 1, V + 1, L + 1), np.inf)
        for i in range(x + 1, V + 1):
            for r in range(1, i - x + 1):
                if (x == 0) != (r == i):
                    continue
                # H over all places of the cut, with the replicas that reach it
                best = np.full(L + 1, np.inf)
                arg = np.zeros(L + 1, dtype=np.int16)
                if x == 0:
                    best[0] = 0.0
                for q in range(1, i - r - x + 2):
                    forth, back = speeds.forth[i - r, q, r], speeds.back[i - r, q, r]
                    for l in range(x, L):  # noqa: E741 (the paper's letter)
                        if before[i - r, q, l] < best[l]:
                            if forth == back:
                                size = forward_bytes[l] + backward_bytes[l]
                                channel = M * size / (q * r * forth) if size > 0.0 else 0.0
                            else:
                                channel = 0.0
                                if forward_bytes[l] > 0.0:
                                    channel += M * forward_bytes[l] / (q * r * forth)
                                if backward_bytes[l] > 0.0:
                                    channel += M * backward_bytes[l] / (q * r * back)
                            value = max(before[i - r, q, l], channel)
                            if value < best[l]:
                                best[l], arg[l] = value, q
                row = sums[r - 1]
                link = speeds.within[i, r]
                for l in range(x + 1, L + 1):  # noqa: E741
                    least, at = np.inf, 0
                    for k in range(l - 1 if x > 0 else 0, x - 1, -1):
                        params = arrays.params[l] - arrays.params[k]
                        stage = M * (row[l] - row[k]) / r
                        if r > 1 and params > 0.0:
                            stage += 2 * (r - 1) * params / (r * link)
                        stored = arrays.stored[l] - arrays.stored[k]
                        if stage >= least or arrays.copies * params + in_flight[x] * stored / r > arrays.memory:
                            break
                        value = max(best[k], stage)
                        if value < least:
                            least, at = value, k
                    current[i, r, l] = least
                    cut[x, i, r, l], replica[x, i, r, l] = at, arg[at]
                last[x, i, r] = current[i, r, L]
        before = current
    return last, cut, replica


# Cuts of a chain for rivals: by number of layers, by the slowest part, and by PipeDream's levels.


def even_counts(total: int, parts: int) -> list[int]:
    """Even whole numbers: they add up to `total` and differ by at most one, the larger ones first."""
    return [total // parts + (part < total % parts) for part in range(parts)]


def min_max_split(times: FloatArray, parts: int) -> list[int]:
    """Cuts, from 0 to the length, of a list into non-empty consecutive parts of least largest sum.

    Among ties each cut is as late as possible.
    """
    n = len(times)
    sums = np.concatenate(([0.0], np.cumsum(times)))
    best = np.concatenate(([0.0], np.full(n, np.inf)))
    choices = []
    for _ in range(parts):
        cost = np.maximum(best[:, None], sums - sums[:, None])
        cost[np.tril_indices(n + 1)] = np.inf
        choices.append(n - np.argmin(cost[::-1], axis=0))
        best = cost.min(axis=0)
    cuts = [n]
    for choice in reversed(choices):
        cuts.append(int(choice[cuts[-1]]))
    return cuts[::-1]


def hierarchical_split(
    chain: LayerChain, microbatches: int, servers: int, size: int, within: float, between: float
) -> list[tuple[int, int, list[tuple[int, int]]]]:
    """PipeDream's dynamic program in two levels, with one AllReduce an iteration.

    At each level, A(i, j, m), the time of the layers from i to before j on m units, is the least of one stage on all
    of them and of ``max(A(i, k, m - q), transfer at k, stage from k on q units)``. A stage on q units takes a q-th of
    the time on one, and its AllReduce. A unit is a device, then a server; a transfer counts once, however many units
    share it. On ties the last stage has the fewest layers, then the fewest units.

    Parameters
    ----------
    servers, size : int
        Number of servers, and devices in each.
    within, between : float
        Bandwidth of all links in a server, and between servers [bytes/s].

    Returns
    -------
    list of (int, int, list of (int, int))
        For each stage of the upper level: the layer after it, its servers, and for each of its inner stages the layer
        after it and its devices in a server.
    """
    sums = np.concatenate(([0.0], np.cumsum(chain.forward + chain.backward)))
    params = np.concatenate(([0.0], np.cumsum(chain.param_bytes)))
    crossing = microbatches * np.concatenate(([0.0], chain.forward_bytes + chain.backward_bytes))
    inner, *inner_choice = _level(microbatches * (sums - sums[:, None]), params, crossing, size, within)
    _, *outer_choice = _level(np.ascontiguousarray(inner[:, :, size]), params, crossing, servers, between)
    stages, start = [], 0
    for end, units in _stages(0, chain.n, servers, *outer_choice):
        stages.append((end, units, _stages(start, end, size, *inner_choice)))
        start = end
    return stages


def _stages(i: int, j: int, units: int, cut: IntArray, last: IntArray) -> list[tuple[int, int]]:
    """Layer after each stage, and its units, of the best split of the layers i … j - 1 on so many units."""
    stages = []
    while j > i:
        stages.append((j, int(last[i, j, units])))
        j, units = int(cut[i, j, units]), units - stages[-1][1]
    return stages[::-1]


@compiled(error_model="numpy")
def _level(
    time: FloatArray, params: FloatArray, crossing: FloatArray, units: int, bandwidth: float
) -> tuple[FloatArray, IntArray, IntArray]:
    """``A(i, j, m)`` with the layer at which the last stage begins and the units of the last stage."""
    L = len(time) - 1
    best = np.full((L + 1, L + 1, units + 1), np.inf)
    cut = np.zeros((L + 1, L + 1, units + 1), dtype=np.int64)
    last = np.zeros((L + 1, L + 1, units + 1), dtype=np.int64)
    stage = np.full((L + 1, L + 1, units + 1), np.inf)
    for i in range(L - 1, -1, -1):
        for j in range(i + 1, L + 1):
            stage[i, j, 1] = time[i, j]
            for m in range(2, units + 1):
                stage[i, j, m] = time[i, j] / m + 2 * (m - 1) * (params[j] - params[i]) / (m * bandwidth)
            for m in range(1, units + 1):
                best[i, j, m], cut[i, j, m], last[i, j, m] = stage[i, j, m], i, m
                for k in range(j - 1, i, -1):
                    for q in range(1, m):
                        value = max(best[i, k, m - q], crossing[k] / bandwidth, stage[k, j, q])
                        if value < best[i, j, m]:
                            best[i, j, m], cut[i, j, m], last[i, j, m] = value, k, q
    return best, cut, last


# SPP: PRM along RDO's order, PE for every number of stages (SPP, Algorithm 3).


def spp(instance: TrainingInstance) -> Iteration:
    """Plan as the SPP paper does: the fastest, under its schedule PE, of the plans of least W.

    For each number of stages there is one plan of least W, the busy time of its busiest stage or channel.

    Raises
    ------
    InputError
        If no plan fits into memory.
    """
    plan = fastest(instance, spp_plans(instance))
    return Iteration(instance, (execute(plan, pe(plan.n_stages, instance.microbatches)),))


def spp_plans(instance: TrainingInstance) -> list[Plan | None]:
    """Plans that SPP tries: at index S - 1 the plan with S stages, None where no such plan fits into memory."""
    return plans_by_stages(instance, recursive_device_order(instance.cluster), pe)


def fastest(instance: TrainingInstance, plans: Iterable[Plan | None]) -> Plan:
    """The first plan with the least makespan under PE.

    Raises
    ------
    InputError
        If there is none.
    """
    fitting = [plan for plan in plans if plan is not None]
    if not fitting:
        raise instance.no_plan
    return min(fitting, key=lambda plan: iteration_time(plan, pe(plan.n_stages, plan.instance.microbatches)))


# Beyond SPP: plans of least makespan bound along several device orders, then annealing of the makespan.
#
# W, which SPP minimises, charges its AllReduce to every stage and knows nothing of how long the pipeline takes to fill
# and to drain. The bound Z does, and the simulated makespan is what counts in the end.


#: Candidates of each number of stages along each order, and the largest number of stages that is searched.
_PLANS, _STAGES = 8, 16
#: Annealing: plans to start from, of different numbers of stages; most changes of each; operations simulated in all;
#: first and last temperature.
_STARTS, _STEPS, _OPERATIONS, _HOT, _COLD = 4, 100_000, 80_000_000, 0.005, 0.0002


class _Candidate(NamedTuple):
    time: float
    plan: Plan
    distance: int  # of `steady`; 4 is PE's


def improved(instance: TrainingInstance, rng: np.random.Generator, limits: Limits | None = None) -> Iteration:
    """Plan by annealing for the least simulated makespan; never worse than SPP.

    Interrupts are heeded once there is a plan; limits are checked before each annealing. An evaluation is a change in
    an annealing, and the target is a time [s].

    Raises
    ------
    InputError
        If no plan fits into memory.
    """
    candidates = list(_fitting_plan((plan for plan in spp_plans(instance) if plan is not None), (4,)))
    ceiling = min((candidate.time for candidate in candidates), default=np.inf)
    limits = limits or Limits()
    for order in device_orders(instance):
        if candidates and limits.deadline.interrupted.is_set():
            break
        candidates += _fitting_plan(least_bound_plans(instance, order, ceiling), (1, 2, 3, 4, instance.microbatches))
    if not candidates:
        raise instance.no_plan
    candidates.sort(key=lambda candidate: candidate.time)
    best_by_stages = {candidate.plan.n_stages: candidate for candidate in reversed(candidates)}
    starts = sorted(best_by_stages.values(), key=lambda candidate: candidate.time)[:_STARTS]
    for start in starts:
        if not limits.reached(min(candidate.time for candidate in candidates)):
            candidates.append(_annealed(start, rng, limits))
    best = min(candidates, key=lambda candidate: candidate.time)
    warmup = steady(best.plan.n_stages, instance.microbatches, best.distance)
    return Iteration(instance, (execute(best.plan, warmup),))


def _fitting_plan(plans: Iterable[Plan], distances: Sequence[int]) -> Iterator[_Candidate]:
    """Yield each plan with each warm-up distance with which it fits into memory."""
    for plan in plans:
        for distance in distances:
            warmup = steady(plan.n_stages, plan.instance.microbatches, distance)
            if (plan.memory_needed(warmup) <= plan.instance.memory).all():
                yield _Candidate(iteration_time(plan, warmup), plan, distance)


def device_orders(instance: TrainingInstance) -> list[IntArray]:
    """Orders of the devices that are tried."""
    cluster = instance.cluster
    order = recursive_device_order(cluster)
    return [order, order[::-1], recursive_device_order(cluster, smaller_first=False), np.arange(cluster.n)]


def least_bound_plans(instance: TrainingInstance, order: IntArray, ceiling: float) -> Iterator[Plan]:
    """Plans along `order` with the least bounds Z below `ceiling`, a few of each number of stages."""
    levels = min(instance.chain.n, instance.cluster.n, _STAGES)
    in_flight = steady(levels, instance.microbatches, 1)[::-1]
    points = z_points(
        instance, speeds_along(instance.cluster, order, instance.ports), ceiling, in_flight, allow_idle=True
    )
    counts: Counter[int] = Counter()
    for point in points.first.tolist():
        cuts, replicas, start = points.stages(point)
        counts[len(replicas)] += 1
        if counts[len(replicas)] <= _PLANS:
            yield Plan.along(instance, cuts, replicas, order[start:])


def _annealed(start: _Candidate, rng: np.random.Generator, limits: Limits) -> _Candidate:
    """The best plan of annealing from a start."""
    instance, stages = start.plan.instance, start.plan.n_stages
    steps = min(_STEPS, _OPERATIONS // (_STARTS * 4 * stages * instance.microbatches))
    steps = limits.allow(steps)
    state = PlanState.of(start.plan, start.distance)
    _, best = anneal_plan(instance.arrays, state, steps, _HOT, _COLD, int(rng.integers(2**31)))
    plan, distance = best.plan(instance), int(best.counts[1])
    warmup = steady(plan.n_stages, instance.microbatches, distance)
    return _Candidate(iteration_time(plan, warmup), plan, distance)
