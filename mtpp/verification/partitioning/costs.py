"""Costs of a partition, computed a second time from the equations of the paper, its side constraints and its stages."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any, NamedTuple

from instances.partitioning.problem import Instance
from instances.partitioning.stated import Stated
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.verdict import as_float, is_near, unequal

# Costs of a partition, computed a second time from the equations of the paper: eq. (1) to (4).


def find_fault(exact: ExactInstance, block: Sequence[int], order: Sequence[int]) -> str | None:
    """Find the first reason why blocks and an order are no partition; None if they are one."""
    n = exact.n
    if len(block) != n:
        return f"there are {len(block)} blocks for {n} nodes"
    for v in range(n):
        if not 0 <= block[v] < exact.k:
            return f"node {v} is in block {block[v]} of {exact.k}"
    for u, v in sorted(exact.edges):
        if block[u] > block[v]:
            return f"edge {u} -> {v} points backwards, from block {block[u]} to {block[v]}"
    if sorted(order) != list(range(n)):
        return "the order is not a permutation of the nodes"
    position = {v: step for step, v in enumerate(order)}
    for u, v in sorted(exact.edges):
        if position[u] > position[v]:
            return f"edge {u} -> {v} points backwards in the order"
    return None


def fault_of_devices(instance: Instance, block: Sequence[int], names: Sequence[str | None]) -> str | None:
    """Why the named kinds cannot be assigned to the blocks; None if they can."""
    devices, kinds = instance.machines, [kind.name for kind in instance.machines.kinds]
    if len(names) != instance.k:
        return f"there are {len(names)} kinds for {instance.k} blocks"
    used = [0] * len(kinds)
    for b, name in enumerate(names):
        if (b in block) != (name is not None):
            return f"block {b} is {'not ' if b in block else ''}empty, and its kind is {name!r}"
        if name is None:
            continue
        if name not in kinds:
            return f"block {b} is on {name!r}, which there is not"
        t = kinds.index(name)
        used[t] += 1
        if devices.is_fixed and devices.sequence[b] != t:
            return f"block {b} is on {name}, and device {b} is a {kinds[devices.sequence[b]]}"
    for t, kind in enumerate(devices.kinds):
        if used[t] > kind.count:
            return f"{used[t]} blocks are on {kind.name}, of which there are {kind.count}"
    return None


class Terms(NamedTuple):
    """The four terms of eq. (3) for a block, in the time unit of the work."""

    receive: Fraction
    work: Fraction
    overflow: Fraction
    send: Fraction


def bottleneck(exact: ExactInstance, block: Sequence[int], order: Sequence[int], kind: Sequence[int]) -> Fraction:
    """Cost of the slowest block of a partition, eq. (4), in the time unit of the work.

    A hard limit on memory is not checked here.
    """
    return max(sum(terms, Fraction(0)) for terms in block_terms(exact, block, order, kind).values())


def block_terms(
    exact: ExactInstance, block: Sequence[int], order: Sequence[int], kind: Sequence[int]
) -> dict[int, Terms]:
    """Cost terms of each non-empty block of a partition without fault, eq. (3).

    Parameters
    ----------
    kind : (k,) int
        Kind of the device of each block; any number for an empty block.
    """
    work = [0] * exact.k
    for v, b in enumerate(block):
        work[b] += exact.work[kind[b]][v]
    # Bytes of each block by the kind that sends them, and by the kind of the slowest reader, for which they are sent.
    received, sent = defaultdict[tuple[int, int], int](int), defaultdict[tuple[int, int], int](int)
    for producer, readers, size in exact.tensors:
        home = block[producer]
        elsewhere = {block[v] for v in readers} - {home}
        for b in elsewhere:  # received once, however many read it there
            received[b, kind[home]] += size
        if elsewhere:
            sent[home, max({kind[b] for b in elsewhere}, key=exact.sending[kind[home]].__getitem__)] += size
    receive, send = [Fraction(0)] * exact.k, [Fraction(0)] * exact.k
    for (b, s), size in received.items():
        receive[b] += size * exact.receiving[s][kind[b]]
    for (b, t), size in sent.items():
        send[b] += size * exact.sending[kind[b]][t]
    over = {} if exact.fit else overflows(exact, block, order, kind)
    return {
        b: Terms(receive[b], exact.cost(kind[b], work[b], 0), exact.cost(kind[b], 0, over.get(b, 0)), send[b])
        for b in set(block)
    }


def overflows(exact: ExactInstance, block: Sequence[int], order: Sequence[int], kind: Sequence[int]) -> dict[int, int]:
    """For each block that overflows, the bytes beyond the memory of its kind [`exact.byte_unit`]."""
    if all(limit is None for limit in exact.memory):
        return {}
    params, peaks = block_bytes(exact, block, order)
    limits = {b: exact.memory[kind[b]] for b in sorted(peaks)}
    above = {b: params[b] + peaks[b] - limit for b, limit in limits.items() if limit is not None}
    return {b: size for b, size in above.items() if size > 0}


def block_bytes(
    exact: ExactInstance, block: Sequence[int], order: Sequence[int]
) -> tuple[defaultdict[int, int], dict[int, int]]:
    """Parameters and activations of each non-empty block [`exact.byte_unit`]."""
    params: defaultdict[int, int] = defaultdict(int)
    for v, size in enumerate(exact.params):
        params[block[v]] += size
    for users, size in exact.shared:
        for b in {block[v] for v in users}:
            params[b] += size
    return params, _peaks(exact, block, order) if exact.buffer is None else dict.fromkeys(set(block), exact.buffer)


def _peaks(exact: ExactInstance, block: Sequence[int], order: Sequence[int]) -> dict[int, int]:
    """Largest sum of live tensors over the steps of each block."""
    step: dict[int, int] = {}
    steps: defaultdict[int, int] = defaultdict(int)
    for v in order:
        step[v] = steps[block[v]]
        steps[block[v]] += 1
    change = {b: [0] * (count + 1) for b, count in steps.items()}
    for producer, readers, size in exact.tensors:
        touched: defaultdict[int, list[int]] = defaultdict(list)
        for v in (producer, *readers):
            touched[block[v]].append(step[v])
        for b, times in touched.items():  # live from the first step that touches it to the last
            change[b][min(times)] += size
            change[b][max(times) + 1] -= size
    return {b: max(accumulate(row)) for b, row in change.items()}


# Check of the rules of a question besides its cost, as they are written: constraints, and a hard limit.


# Nodes that are named.
_SHOWN = 3


def find_breach(
    instance: Instance, exact: ExactInstance, block: Sequence[int], order: Sequence[int], kind: Sequence[int]
) -> str | None:
    """Find the first rule that a partition breaks: constraints, kinds of devices, memory; None without one.

    Parameters
    ----------
    instance : Instance
    exact : ExactInstance
        The same question in exact numbers.
    block, order, kind : sequence of int
        Block and order of a well-formed partition, which may still break constraints; the kind of each block's device.
    """
    constraints, names = instance.constraints, instance.graph.names

    def said(nodes: Sequence[int]) -> str:
        return ", ".join(f"{v} ({names[v]})" for v in nodes[:_SHOWN]) + (", …" if len(nodes) > _SHOWN else "")

    for nodes in constraints.together:
        for v in nodes:
            if block[v] != block[nodes[0]]:
                return (
                    f"nodes {said((nodes[0], v))} are in blocks {block[nodes[0]]} and {block[v]}, but belong together"
                )
    for v, first, last in constraints.windows:
        if not first <= block[v] <= last:
            return f"node {said((v,))} is in block {block[v]}, but may be in blocks {first} to {last}"
    for v in constraints.uncut:
        for reader in exact.after[v]:
            if block[reader] != block[v]:
                return f"nodes {said((v, reader))} are in blocks {block[v]} and {block[reader]}, but no output is cut"
    for count, nodes in constraints.at_least:
        inside = [0] * exact.k
        for v in nodes:
            inside[block[v]] += 1
        if min(inside) < count:
            least = inside.index(min(inside))
            return f"block {least} has {inside[least]} of the nodes {said(nodes)}, but needs at least {count}"
    for v, b in enumerate(block):
        if v in exact.barred[kind[b]]:
            return f"node {said((v,))} cannot run on {instance.machines.kinds[kind[b]].name}"
    for b in overflows(exact, block, order, kind) if exact.fit else ():
        members = [v for v in order if block[v] == b]
        return f"block {b} does not fit into the memory; it holds the nodes {said(members)}"
    return None


# Check of the stages that a partition states and of the tensors between them, in exact numbers.


def faults_of_stages(instance: Instance, exact: ExactInstance, stated: Stated) -> Iterator[str]:
    """Yield stated numbers and names of stages that are false.

    Parameters
    ----------
    instance : Instance
    exact : ExactInstance
        The same question in exact numbers.
    stated : Stated

    Yields
    ------
    str
    """
    rows = {"costs": (stated.costs, _stages), "crossing": (stated.crossing, _crossings)}
    for member, (claims, compute) in rows.items():
        truth = list(compute(instance, exact, stated))
        if len(claims) != len(truth):
            yield unequal(f"answer.{member}", f"{len(claims)} items", f"{len(truth)} items")
            continue
        for i, (claim, row) in enumerate(zip(claims, truth, strict=True)):
            for name, true in row.items():
                if not _same(claimed := getattr(claim, name), true):
                    computed = as_float(true) if isinstance(true, Fraction) else true
                    yield unequal(f"answer.{member}[{i}].{name}", claimed, computed)


def _same(claimed: object, true: object) -> bool:
    if isinstance(claimed, float) and isinstance(true, Fraction):
        return math.isfinite(claimed) and is_near(claimed, true)
    return claimed == true


def _stages(instance: Instance, exact: ExactInstance, stated: Stated) -> Iterator[Mapping[str, Any]]:
    names, state_bytes = instance.graph.names, instance.graph.state_bytes.tolist()
    params, peaks = block_bytes(exact, stated.block, stated.order)
    terms = block_terms(exact, stated.block, stated.order, [0] * exact.k)
    slowest = max(map(sum, terms.values()))
    nodes: dict[int, list[int]] = {}
    for v in stated.order:
        nodes.setdefault(stated.block[v], []).append(v)
    for b, members in sorted(nodes.items()):
        cost, states = sum(terms[b]), sum(Fraction(state_bytes[v]) for v in members)
        yield {
            "stage": b,
            "first": names[members[0]],
            "last": names[members[-1]],
            "nodes": len(members),
            **terms[b]._asdict(),
            "cost": cost,
            "share": cost / slowest if slowest else Fraction(1),
            "param_bytes": params[b] * exact.byte_unit - states,
            "state_bytes": Fraction(states),
            "peak_bytes": peaks[b] * exact.byte_unit,
        }


def _crossings(instance: Instance, exact: ExactInstance, stated: Stated) -> Iterator[Mapping[str, Any]]:
    graph = instance.graph
    first: dict[int, int] = {}
    for t, (tensor, size) in enumerate(zip(exact.tensors, graph.tensors.bytes.tolist(), strict=True)):
        node, source = tensor.producer, stated.block[tensor.producer]
        output = t - first.setdefault(node, t)
        elsewhere = {stated.block[v] for v in tensor.readers} - {source}
        if elsewhere:
            yield {
                "producer": graph.names[node],
                "node": node,
                "output": output,
                "source": source,
                "readers": tuple(sorted(elsewhere)),
                "bytes": Fraction(size),
                "time": exact.cost(0, 0, tensor.size),
            }
