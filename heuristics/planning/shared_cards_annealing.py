"""Annealing of plans on servers with shared network cards, scored by the simulator of shared ports."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from heuristics.planning.arrays import PlanState
from heuristics.planning.kernels import assign_state, change, copy_state, keep
from instances.compiled import compiled
from instances.devices.network import Ports
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.kernel_arrays import TrainingArrays
from instances.planning.link_speeds import transfer_time
from instances.planning.operations import BACKWARD, FORWARD, INPUT, WEIGHTS, Flows, Orders
from instances.planning.simulator import empty_log, run, warmed_up_orders

__all__ = ["Scored", "anneal_on_cards", "score"]


class Scored(NamedTuple):
    """Data needed to evaluate plans, beside the arrays of the question."""

    inputs: FloatArray  # as `TrainingInstance.input_sums`
    ports: Ports
    at_once: float  # as `TrainingInstance.at_once` where samples are whole, and 0 elsewhere
    recomputation: bool  # whether stages may recompute, which they do where they do not fit otherwise
    free: bool  # whether the order of passes may be changed


@compiled
def score(arrays: TrainingArrays, scored: Scored, state: PlanState, limit: float) -> float:
    """Simulated makespan of a plan; infinite if it does not fit into memory, or takes longer than `limit`."""
    (S, distance, behind), M = state.counts, arrays.microbatches
    ahead, kept = np.empty(S, dtype=np.int64), np.empty(S, dtype=np.int64)
    for n in range(S):
        ahead[n] = min(M, distance * (S - 1 - n) + 1)
        kept[n] = min(M, ahead[n] + behind)
    bound, flows = _flows(arrays, scored, state, ahead, kept)
    if not bound <= limit or bound == np.inf:
        return np.inf
    orders = warmed_up_orders(ahead, M)
    if behind > 0:
        none = np.zeros(0, dtype=np.int64)
        orders = Orders(none, np.zeros(S + 1, dtype=np.int64), np.minimum(ahead, kept), kept)
    return run(flows, orders, M, empty_log(S, M), limit)


@compiled
def anneal_on_cards(
    arrays: TrainingArrays, scored: Scored, start: PlanState, cooling: FloatArray, seed: int
) -> tuple[PlanState, float, PlanState]:
    """Search for a plan with a small simulated makespan by random changes, fewer and fewer of them for the worse.

    A change is tried for each entry of `cooling`, the temperature as a part of the makespan. Returned are the plan at
    the end, the least makespan and its plan.
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
    arrays: TrainingArrays, scored: Scored, state: PlanState, ahead: IntArray, kept: IntArray
) -> tuple[float, Flows]:
    """A bound on the time of the plan, infinite if it does not fit into memory, and its flows.

    With split backward passes, `kept` microbatches may be in flight, and is lowered to what fits.
    """
    (S, _, behind), M, order, ports = state.counts, arrays.microbatches, state.order, scored.ports
    P, V = len(ports.rate), len(order)
    passes, alone, load = np.zeros((4, S)), np.zeros(3 * S - 2), np.zeros((3 * S - 2, P))
    channel = np.empty(2 * S - 2, dtype=np.int64)
    here, there = np.zeros(P), np.zeros(P)
    head, tail, bound, place = 0.0, 0.0, 0.0, 0
    _count(here, ports.server, order, 0, state.replicas[0])
    for n in range(S):
        i, j, r = state.cuts[n], state.cuts[n + 1], state.replicas[n]
        f = (arrays.forward[r - 1, j] - arrays.forward[r - 1, i]) / r
        b = (arrays.backward[r - 1, j] - arrays.backward[r - 1, i]) / r
        first = (scored.inputs[r - 1, j] - scored.inputs[r - 1, i]) / r if behind > 0 else b
        in_flight = kept[n] if behind > 0 else ahead[n]
        if r == V and scored.at_once > 0.0:
            f, b, first, in_flight = f * scored.at_once, b * scored.at_once, first * scored.at_once, M
        params, stored = arrays.params[j] - arrays.params[i], arrays.stored[j] - arrays.stored[i]
        room = arrays.memory - arrays.copies * params
        if in_flight * stored / r > room:
            if behind > 0 and stored / r <= room and (r < V or scored.at_once == 0.0):
                kept[n] = int(room / (stored / r))
            elif behind == 0 and scored.recomputation and (in_flight * arrays.forward_bytes[i] + stored) / r <= room:
                b, first = b + f, first + f
            else:
                bound = np.inf
        passes[FORWARD, n], passes[BACKWARD, n], passes[INPUT, n], passes[WEIGHTS, n] = f, b, first, max(b - first, 0.0)
        k = 2 * S - 2 + n
        alone[k] = transfer_time(2 * (r - 1) * params, r * _slowest_within(arrays.bandwidth, order, place, r))
        _load_allreduce(load[k], 2 * (r - 1) * params / r, here, ports, r)
        alone[k] = max(alone[k], load[k].max())
        bound = max(bound, head + M * (f + b) + alone[k], head + M * (f + first) + tail)
        if n < S - 1:
            q = state.replicas[n + 1]
            there[:] = 0.0
            _count(there, ports.server, order, place + r, q)
            out, back = _slowest_between(arrays.bandwidth, order, place, r, q)
            alone[n] = transfer_time(arrays.forward_bytes[j], r * q * out)
            alone[S - 1 + n] = transfer_time(arrays.backward_bytes[j], r * q * back)
            _load_transfer(load[n], arrays.forward_bytes[j], here, there, ports, r, q)
            _load_transfer(load[S - 1 + n], arrays.backward_bytes[j], there, here, ports, q, r)
            alone[n] = max(alone[n], load[n].max())
            alone[S - 1 + n] = max(alone[S - 1 + n], load[S - 1 + n].max())
            cf, cb = alone[n], alone[S - 1 + n]
            channel[n], channel[S - 1 + n] = n, S - 1 + n if arrays.full_duplex else n
            bound = max(bound, head + f + M * (max(cf, cb) if arrays.full_duplex else cf + cb) + first + tail)
            head += f + cf
            tail += first + cb
            here[:] = there
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
    for u in range(place, place + r):
        counts[server[order[u]]] += 1.0


@compiled(allocates=False)
def _slowest_within(bandwidth: FloatArray, order: IntArray, place: int, r: int) -> float:
    slowest = np.inf
    for u in range(place, place + r):
        for v in range(place, u):
            slowest = min(slowest, bandwidth[order[u], order[v]], bandwidth[order[v], order[u]])
    return slowest


@compiled(allocates=False)
def _slowest_between(bandwidth: FloatArray, order: IntArray, place: int, r: int, q: int) -> tuple[float, float]:
    there, back = np.inf, np.inf
    for u in range(place, place + r):
        for v in range(place + r, place + r + q):
            there = min(there, bandwidth[order[u], order[v]])
            back = min(back, bandwidth[order[v], order[u]])
    return there, back


@compiled(allocates=False)
def _load_transfer(
    load: FloatArray, size: float, here: FloatArray, there: FloatArray, ports: Ports, q: int, r: int
) -> None:
    for h in range(ports.entering or len(load)):
        load[h] += transfer_time(size * here[h] * (r - there[h]) / (q * r), ports.rate[h])
        load[h + ports.entering] += transfer_time(
            size * there[h] * (q - here[h]) / (q * r), ports.rate[h + ports.entering]
        )


@compiled(allocates=False)
def _load_allreduce(load: FloatArray, size: float, here: FloatArray, ports: Ports, r: int) -> None:
    for h in range(ports.entering or len(load)):
        if 0.0 < here[h] < r:
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
    """Let the devices of two servers change places, as many as both have."""
    g, h = np.random.randint(0, server[-1] + 1), np.random.randint(0, server[-1] + 1)
    if g == h:
        return False
    mine, theirs = np.flatnonzero(server[order] == g), np.flatnonzero(server[order] == h)
    for i in range(min(len(mine), len(theirs))):
        order[mine[i]], order[theirs[i]] = order[theirs[i]], order[mine[i]]
    return True


@compiled
def _swap_groups(state: PlanState) -> bool:
    """Let two stages change their devices."""
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
