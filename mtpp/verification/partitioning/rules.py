"""Check of the rules of a question beside its cost, as they are written: constraints, and a hard limit."""

from __future__ import annotations

from collections.abc import Sequence

from instances.partitioning.constraints import Constraints
from mtpp.verification.partitioning.costs import held
from mtpp.verification.partitioning.exact_instance import ExactInstance

__all__ = ["find_breach"]

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
