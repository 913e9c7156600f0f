"""PRM: cuts and replicas along a device order that minimise W, for every number of stages (SPP, Algorithm 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from heuristics.planning.execution import Order
from instances.compiled import compiled
from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray
from instances.planning import LayerChain, Plan, TrainingInstance
from instances.planning.kernel_arrays import TrainingArrays
from instances.planning.link_speeds import LinkSpeeds, speeds_along

__all__ = ["plans_by_stages", "reversed_instance"]


def plans_by_stages(
    instance: TrainingInstance, order: Sequence[int] | IntArray, execution: Order, *, allow_idle: bool = False
) -> list[Plan | None]:
    """Plans of least `Plan.workload` with 1, 2, … stages along an order of the devices.

    Stages take their devices from the order, (V,), one after the other; devices at both ends may stay idle if that is
    allowed, otherwise a plan uses all. What a stage keeps in memory is the warm-up of the execution. The plan with S
    stages is at place S - 1, for S up to the number of layers and of devices; None where no plan fits into memory or
    links are missing. On ties the last stage has the fewest devices, then the fewest layers, and the stage before it
    the fewest devices.
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
        here = np.full((V + 1, V + 1, L + 1), np.inf)
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
                    here[i, r, l] = least
                    cut[x, i, r, l], replica[x, i, r, l] = at, arg[at]
                last[x, i, r] = here[i, r, L]
        before = here
    return last, cut, replica
