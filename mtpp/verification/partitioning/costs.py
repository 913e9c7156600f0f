"""Costs of a partition, computed a second time from the equations of the paper, its side constraints and its stages."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any, NamedTuple

from instances.partitioning.constraints import Constraints
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


class Terms(NamedTuple):
    """The four terms of eq. (3) of a block, in the unit of the instance."""

    receive: int
    work: int
    overflow: int
    send: int


def bottleneck(exact: ExactInstance, block: Sequence[int], order: Sequence[int]) -> Fraction:
    """Cost of the slowest block of a partition without fault, eq. (4), in the time unit of the work.

    Where the memory is a hard limit, it is not looked at.
    """
    return max(sum(terms) for terms in block_terms(exact, block, order).values()) * exact.unit


def block_terms(exact: ExactInstance, block: Sequence[int], order: Sequence[int]) -> dict[int, Terms]:
    """Cost terms of each block that is not empty, eq. (3); the partition has no fault."""
    receive, work, send = ([0] * exact.k for _ in range(3))
    for v, time in enumerate(exact.work):
        work[block[v]] += time
    for producer, readers, time, _ in exact.tensors:
        home = block[producer]
        elsewhere = {block[v] for v in readers} - {home}
        for b in elsewhere:  # received once, however many read it there
            receive[b] += time
        send[home] += time if elsewhere else 0
    over = dict.fromkeys(set(block), 0)
    if exact.memory is not None and not exact.fit:
        params, peaks = held(exact, block, order)
        over = {b: max(0, params[b] + peaks[b] - exact.memory) for b in over}
    return {b: Terms(receive[b], work[b], over[b], send[b]) for b in over}


def held(
    exact: ExactInstance, block: Sequence[int], order: Sequence[int]
) -> tuple[defaultdict[int, int], dict[int, int]]:
    """Parameters and activations of each block that is not empty."""
    params: defaultdict[int, int] = defaultdict(int)
    for v, size in enumerate(exact.held):
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
    for producer, readers, _, size in exact.tensors:
        touched: defaultdict[int, list[int]] = defaultdict(list)
        for v in (producer, *readers):
            touched[block[v]].append(step[v])
        for b, times in touched.items():  # live from the first step that touches it to the last
            change[b][min(times)] += size
            change[b][max(times) + 1] -= size
    return {b: max(accumulate(row)) for b, row in change.items()}


# Check of the rules of a question beside its cost, as they are written: constraints, and a hard limit.


# Nodes that are named.
_SHOWN = 3


def find_breach(
    exact: ExactInstance, constraints: Constraints, names: Sequence[str], block: Sequence[int], order: Sequence[int]
) -> str | None:
    """Find the first rule that a partition breaks; None if it obeys all.

    Parameters
    ----------
    exact : ExactInstance
    constraints : Constraints
    names : sequence of str
        Of the nodes.
    block, order : sequence of int
        Of a partition without fault.
    """

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
    if exact.fit and exact.memory is not None:
        params, peaks = held(exact, block, order)
        for b in sorted(peaks):
            if params[b] + peaks[b] > exact.memory:
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
        The same.
    stated : Stated

    Yields
    ------
    str
    """
    rows = {"costs": (stated.costs, _stages), "crossing": (stated.crossing, _crossings)}
    for member, (claims, compute) in rows.items():
        truth = list(compute(instance, exact, stated))
        if len(claims) != len(truth):
            yield unequal(f"partition.{member}", f"{len(claims)} items", f"{len(truth)} items")
            continue
        for i, (claim, row) in enumerate(zip(claims, truth, strict=True)):
            for name, true in row.items():
                claimed = getattr(claim, name)
                if not _same(claimed, true):
                    shown = as_float(true) if isinstance(true, Fraction) else true
                    yield unequal(f"partition.{member}[{i}].{name}", claimed, shown)


def _same(claimed: object, true: object) -> bool:
    if isinstance(claimed, float) and isinstance(true, Fraction):
        return math.isfinite(claimed) and is_near(claimed, true)
    return claimed == true


def _stages(instance: Instance, exact: ExactInstance, stated: Stated) -> Iterator[Mapping[str, Any]]:
    names, state_bytes = instance.graph.names, instance.graph.state_bytes.tolist()
    bandwidth = instance.platform.bandwidth
    unit = exact.unit * (1 if math.isinf(bandwidth) else Fraction(bandwidth))  # of bytes
    params, peaks = held(exact, stated.block, stated.order)
    terms = block_terms(exact, stated.block, stated.order)
    slowest = max(map(sum, terms.values()))
    nodes: dict[int, list[int]] = {}
    for v in stated.order:
        nodes.setdefault(stated.block[v], []).append(v)
    for b, own in sorted(nodes.items()):
        cost, states = sum(terms[b]), sum(Fraction(state_bytes[v]) for v in own)
        yield {
            "stage": b,
            "first": names[own[0]],
            "last": names[own[-1]],
            "nodes": len(own),
            **{name: time * exact.unit for name, time in terms[b]._asdict().items()},
            "cost": cost * exact.unit,
            "share": Fraction(cost, slowest) if slowest else Fraction(1),
            "param_bytes": params[b] * unit - states,
            "state_bytes": Fraction(states),
            "peak_bytes": peaks[b] * unit,
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
                "time": tensor.time * exact.unit,
            }
