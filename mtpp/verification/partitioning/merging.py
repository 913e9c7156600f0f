r"""Merges of nodes that leave the optimum as it is, each proved by two inequalities.

Overflow counts parameters and, where no buffer is kept, the largest need of a node, as the program over ideals does.
Let v have no work, and no larger need than u.

(a) v reads nothing, and one node u alone reads all that v produces. Move v to the block of u. The block that v leaves
    costs no more than before: v took no time there and received nothing. The block of u saves to receive the tensors
    of v, and pays at most for the parameters of v: it costs no more where **saved >= held**.
(b) Nobody reads what v produces, and v reads from one node u alone. Move v to the block of u. The block that v leaves
    costs no more. The block of u saves to send what v alone read, and pays at most for the parameters of v: it costs
    no more where **saved >= held**.

Where everything fits into one block, nothing overflows and parameters cost nothing. Where the memory is a hard limit,
no saving pays for parameters that do not fit.
"""

from __future__ import annotations

from dataclasses import replace

from mtpp.verification.clock import Clock
from mtpp.verification.partitioning.exact_instance import ExactInstance, Tensor

__all__ = ["merge"]


def merge(exact: ExactInstance, clock: Clock) -> tuple[ExactInstance, list[int]]:
    """A smaller question with the same optimum, as long as of the peaks only the needs of single nodes count.

    Nodes get new numbers; tensors without readers are removed. The list says where each node of the question has gone.

    Raises
    ------
    OutOfTimeError
    """
    home = list(range(exact.n))  # where each node has gone
    work, held = list(exact.work), list(exact.held)
    shared = [(set(users), size) for users, size in exact.shared]
    tensors = [tensor for tensor in exact.tensors if tensor.readers]
    readers = [set(tensor.readers) for tensor in tensors]
    made: list[set[int]] = [set() for _ in range(exact.n)]
    read: list[set[int]] = [set() for _ in range(exact.n)]
    for t, tensor in enumerate(tensors):
        made[tensor.producer].add(t)
        for v in tensor.readers:
            read[v].add(t)
    used: list[set[int]] = [set() for _ in range(exact.n)]
    for g, (users, _) in enumerate(shared):
        for v in users:
            used[v].add(g)

    def target(v: int) -> int | None:
        """The node that v may join."""
        if work[v] or (read[v] and made[v]) or not (read[v] or made[v]):
            return None
        others = {tensors[t].producer for t in read[v]} | {u for t in made[v] for u in readers[t]}
        if len(others) > 1 or exact.need[v] > exact.need[u := others.pop()]:
            return None
        saved = sum(tensors[t].time for t in made[v]) + sum(tensors[t].time for t in read[v] if readers[t] == {v})
        paid = held[v] + sum(shared[g][1] for g in used[v]) if exact.may_overflow else 0
        return u if (0 if exact.fit else saved) >= paid else None

    waiting = list(range(exact.n))
    while waiting:
        clock.raise_if_late()
        v = waiting.pop()
        if home[v] != v or (u := target(v)) is None:
            continue
        home[v] = u
        held[u] += held[v]
        for g in used[v]:
            shared[g][0].discard(v)
            shared[g][0].add(u)
            used[u].add(g)
        for t in made[v]:  # read by u alone
            read[u].discard(t)
        for t in read[v]:  # produced by u
            readers[t].discard(v)
            if not readers[t]:
                made[u].discard(t)
        made[v], read[v] = set(), set()
        waiting.append(u)
    kept = [v for v in range(exact.n) if home[v] == v]
    number = {v: i for i, v in enumerate(kept)}
    left = [(v, t) for v in kept for t in sorted(made[v])]
    merged = replace(
        exact,
        n=len(kept),
        work=[work[v] for v in kept],
        tensors=[
            Tensor(number[u], frozenset(number[v] for v in readers[t]), tensors[t].time, tensors[t].size)
            for u, t in left
        ],
        held=[held[v] for v in kept],
        shared=[(frozenset(number[v] for v in users), size) for users, size in shared],
        need=[exact.need[v] for v in kept],
        runs_nodes=False,
    )

    def where(v: int) -> int:
        while home[v] != v:
            v = home[v]
        return number[v]

    return merged, [where(v) for v in range(exact.n)]
