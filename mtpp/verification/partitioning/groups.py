"""Merging of nodes that must share a block: together, uncut, and all that lie between them.

Written again from the words of the constraints. A node set that edges leave and come back to has to take what they pass
along, as no edge points backwards; so, once the groups are merged, all nodes on a circle share a block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from instances.partitioning.constraints import Constraints
from mtpp.verification.partitioning.exact_instance import ExactInstance, Tensor

__all__ = ["merge_groups", "shared_blocks"]


def shared_blocks(exact: ExactInstance, constraints: Constraints) -> list[int]:
    """(n,) numbers of groups; nodes of one number are in one block in every order.

    Parameters
    ----------
    exact : ExactInstance
    constraints : Constraints
    """
    leader = list(range(exact.n))

    def lead(v: int) -> int:
        while leader[v] != v:
            leader[v] = v = leader[leader[v]]
        return v

    for nodes in (*constraints.together, *((v, *exact.after[v]) for v in constraints.uncut)):
        for v in nodes[1:]:
            leader[lead(v)] = lead(nodes[0])
    home = [lead(v) for v in range(exact.n)]
    after: defaultdict[int, set[int]] = defaultdict(set)
    before: defaultdict[int, set[int]] = defaultdict(set)
    for u, v in exact.edges:
        after[home[u]].add(home[v])
        before[home[v]].add(home[u])
    circle: dict[int, int] = {}
    for start in reversed(_by_end(sorted(set(home)), after)):  # who reaches `start` and ends later is reached by it
        stack = [start]
        while stack:
            v = stack.pop()
            if v not in circle:
                circle[v] = start
                stack += before[v]
    number = {start: i for i, start in enumerate(sorted(set(circle.values())))}
    return [number[circle[home[v]]] for v in range(exact.n)]


def merge_groups(exact: ExactInstance, group: Sequence[int]) -> ExactInstance:
    """Merge each group into one node; a partition that keeps the groups costs no less than its merged form.

    A merged node reads and writes at once at least what one of its members does.

    Parameters
    ----------
    exact : ExactInstance
    group : (n,) int
        Of `shared_blocks`.
    """
    count = max(group) + 1
    work, held, need = [0] * count, [0] * count, [0] * count
    for v, g in enumerate(group):
        work[g] += exact.work[v]
        held[g] += exact.held[v]
        need[g] = max(need[g], exact.need[v])
    return replace(
        exact,
        n=count,
        work=work,
        tensors=[
            Tensor(group[producer], frozenset(group[v] for v in readers) - {group[producer]}, time, size)
            for producer, readers, time, size in exact.tensors
        ],
        held=held,
        shared=[(frozenset(group[v] for v in users), size) for users, size in exact.shared],
        need=need,
        runs_nodes=exact.runs_nodes and count == exact.n,
    )


def _by_end(nodes: Iterable[int], after: Mapping[int, set[int]]) -> list[int]:
    """The nodes in the order in which a search in depth is done with them."""
    seen: set[int] = set()
    done: list[int] = []
    for start in nodes:
        stack = [(start, False)]
        while stack:
            v, left = stack.pop()
            if left:
                done.append(v)
            elif v not in seen:
                seen.add(v)
                stack.append((v, True))
                stack += [(w, False) for w in after[v] if w not in seen]
    return done
