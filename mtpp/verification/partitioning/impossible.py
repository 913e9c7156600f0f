"""Check of the claim that there is no partition, as nothing fits into hard memory limits, or no kind can run it.

Blocks hold their parameters, shared ones once a block, and beside them the largest need of a node, or a buffer, which
the room is less by. So none fits where the bytes of some nodes and the largest of their needs are more than the room of
all devices that may hold them: of all nodes and devices (sum), of nodes that may be in some blocks only (windows), or
of one node or group on each device that can run it (node). At least one of these blocks is not empty, which counts
where the room is below 0. Else ideals may show that no chain of blocks fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from instances.partitioning.problem import Instance
from instances.partitioning.stated_impossible import StatedImpossible
from mtpp.verification.clock import OutOfTimeError
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.partitioning.ideals import UndecidedError
from mtpp.verification.verdict import NoAnswer

__all__ = ["check_impossible"]


def check_impossible(
    instance: Instance,
    exact: ExactInstance,
    group: Sequence[int],
    stated: StatedImpossible,
    fits_nowhere: Callable[[], bool],
) -> NoAnswer:
    """Prove again that there is no partition, by the proof that the file names.

    Parameters
    ----------
    instance : Instance
    exact : ExactInstance
        With one node for each group of nodes that have to share a block; of any kind.
    group : (n,) integers
        Node of `exact` that holds each node of the file.
    stated : StatedImpossible
    fits_nowhere : callable
        Whether all ideals show it; it raises an `UndecidedError` or an `OutOfTimeError`.
    """
    if stated.kind is None:
        return NoAnswer(stated.reason, False, "trusted, as its proof is not in the file")
    if stated.kind == "ideals":
        return _by_ideals(exact, stated, fits_nowhere)
    machines, inside, blocks = instance.machines, set(group), instance.k
    kinds: Iterable[int] = machines.sequence
    if stated.kind == "node":
        inside, blocks = {group[stated.numbers["node"]]}, 1
        members = [v for v, g in enumerate(group) if g in inside]
        kinds = [t for t in range(instance.kinds) if not any(math.isinf(instance.work[t, v]) for v in members)]
    elif stated.kind == "windows":
        first, last = stated.numbers["first"], stated.numbers["last"]
        inside, blocks = set(_forced_into(instance, exact, group, first, last)), last - first + 1
        kinds = machines.sequence[first : last + 1] if machines.is_fixed else kinds
    room = _room(instance, kinds, blocks)
    if inside and room is not None and _load(instance, group, inside) > room:
        return NoAnswer(stated.reason, True, f"re-proved by its formula ({stated.kind})")
    return NoAnswer(stated.reason, False, "false", f"its proof ({stated.kind}) does not show that nothing fits")


def _by_ideals(exact: ExactInstance, stated: StatedImpossible, fits_nowhere: Callable[[], bool]) -> NoAnswer:
    try:
        if fits_nowhere():
            return NoAnswer(stated.reason, True, "re-proved by all ideals")
    except UndecidedError as error:
        return NoAnswer(stated.reason, False, f"not re-checked: {error}")
    except OutOfTimeError:
        return NoAnswer(stated.reason, False, "not re-checked within the time limit")
    peaks = ", but for their peaks," if any(exact.need) else ""
    return NoAnswer(stated.reason, False, "false", f"{exact.k} blocks that fit{peaks} exist")


def _room(instance: Instance, kinds: Iterable[int], blocks: int) -> Fraction | None:
    """The most bytes that so many blocks on devices of these kinds have room for; None without a limit.

    One of them is not empty. Below all numbers of bytes where there is no device.
    """
    limits = [instance.machines.kinds[t].memory for t in kinds]
    if any(not instance.fit or math.isinf(limit) for limit in limits):
        return None
    rooms = [Fraction(limit) - Fraction(instance.activation_buffer or 0) for limit in limits]
    largest = sorted((room for room in rooms if room > 0), reverse=True)[:blocks]
    return max([*rooms, sum(largest, Fraction(0))]) if any(room >= 0 for room in rooms) else Fraction(-1)


def _load(instance: Instance, group: Sequence[int], inside: set[int]) -> Fraction:
    """Least bytes of blocks that hold some groups: parameters and states, shared ones once, and the largest need."""
    graph = instance.graph
    members = {v for v, g in enumerate(group) if g in inside}
    held = [*graph.param_bytes.tolist(), *graph.state_bytes.tolist()]
    load = sum((Fraction(held[v]) + Fraction(held[graph.n + v]) for v in members), Fraction(0))
    load += sum((Fraction(p.bytes) for p in graph.parameters if members.intersection(p.users)), Fraction(0))
    if instance.activation_buffer is not None:
        return load
    needs = [Fraction(0)] * graph.n if instance.need is None else [Fraction(x) for x in instance.need.tolist()]
    tensors, start = graph.tensors, graph.tensors.start.tolist()
    readers = tensors.consumers.tolist()
    for t, (producer, size) in enumerate(zip(tensors.producer.tolist(), tensors.bytes.tolist(), strict=True)):
        for v in {producer, *readers[start[t] : start[t + 1]]} if instance.need is None else ():
            needs[v] += Fraction(size)
    return load + max((needs[v] for v in members), default=Fraction(0))


def _forced_into(instance: Instance, exact: ExactInstance, group: Sequence[int], first: int, last: int) -> list[int]:
    """Groups that may be in the blocks from the first to the last and in no others, as no edge points backwards."""
    low, high = [0] * exact.n, [exact.k - 1] * exact.n
    for v, begin, end in instance.constraints.windows:
        low[group[v]] = max(low[group[v]], begin)
        high[group[v]] = min(high[group[v]], end)
    for v in exact.order:
        low[v] = max([low[v], *(low[u] for u in exact.before[v])])
    for v in reversed(exact.order):
        high[v] = min([high[v], *(high[w] for w in exact.after[v])])
    return [g for g in range(exact.n) if first <= low[g] and high[g] <= last]
