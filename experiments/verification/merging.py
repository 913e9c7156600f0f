r"""Merges of nodes that leave the optimum as it is, each proved by two inequalities.

Overflow counts parameters and the buffer alone, as the program over ideals does. Let v have no work.

(a) v reads nothing, and one node u alone reads all that v produces. Move v to the block of u. The block that v leaves
    costs no more than before: v took no time there and received nothing. The block of u saves to receive the tensors
    of v, and pays at most for the parameters of v: it costs no more where **saved >= held**.
(b) Nobody reads what v produces, and v reads from one node u alone. Move v to the block of u. The block that v leaves
    costs no more. The block of u saves to send what v alone read, and pays at most for the parameters of v: it costs
    no more where **saved >= held**.

Where everything fits into one block, nothing overflows and parameters cost nothing.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.verification.clock import Clock
from experiments.verification.exact_instance import ExactInstance, Tensor

__all__ = ["merge"]


def merge(exact: ExactInstance, clock: Clock) -> ExactInstance:
    """A smaller question with the same optimum, as long as peaks do not count.

    Nodes are numbered anew; tensors that nobody reads are gone.

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
    fits = exact.memory is None or sum(held) + sum(size for _, size in shared) + (exact.buffer or 0) <= exact.memory

    def target(v: int) -> int | None:
        """The node that v may join."""
        if work[v] or (read[v] and made[v]) or not (read[v] or made[v]):
            return None
        others = {tensors[t].producer for t in read[v]} | {u for t in made[v] for u in readers[t]}
        if len(others) > 1:
            return None
        saved = sum(tensors[t].time for t in made[v]) + sum(tensors[t].time for t in read[v] if readers[t] == {v})
        paid = 0 if fits else held[v] + sum(shared[g][1] for g in used[v])
        return others.pop() if saved >= paid else None

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
    return replace(
        exact,
        n=len(kept),
        work=[work[v] for v in kept],
        tensors=[Tensor(number[u], frozenset(number[v] for v in readers[t]), tensors[t].time) for u, t in left],
        held=[held[v] for v in kept],
        shared=[(frozenset(number[v] for v in users), size) for users, size in shared],
    )
