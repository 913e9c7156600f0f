"""Tiny questions with equal branches from a number."""

from __future__ import annotations

import math
import random
from itertools import pairwise

from subset_oracle import Case

__all__ = ["fork_and_join", "random_branch_case"]


def fork_and_join(r: random.Random) -> Case:
    """A fork, two to four equal chains and a join, all of about equal cost: blocks cut branches at different places."""
    e, length = r.choice(((2, 2), (2, 2), (2, 3), (3, 2), (4, 1)))
    chains = [[1 + e * place + b for place in range(length)] for b in range(e)]
    join = 1 + e * length
    costs = [(r.randrange(2, 7), r.randrange(1, 4), r.randrange(3)) for _ in range(length)]
    rows = [(r.randrange(2, 7), 2, 0), *(row for row in costs for _ in range(e)), (r.randrange(2, 7), 0, 0)]
    work, sizes, params = ([float(x) for x in column] for column in zip(*rows, strict=True))
    after = {0: [row[0] for row in chains]} | {u: [v] for row in chains for u, v in pairwise([*row, join])}
    tensors = [(u, sizes[u], readers) for u, readers in sorted(after.items())]
    memory = r.choice((math.inf, math.inf, 1.3 * sum(params) / 3))
    return Case(work, params, tensors, [], r.choice((3, 3, 4)), 1.0, memory, 0.0)


def random_branch_case(r: random.Random, most_nodes: int = 9) -> Case:
    """One or two families of equal branches between single nodes, k = 2 to 4, half of them with little memory.

    A single node sends one tensor to all branches, or one to each; a node of a branch sends to later ones of its own
    branch, to single nodes and sometimes to all other branches; parameters are shared along a branch and across them.
    """
    slots: list[list[int]] = []  # images of a node of a family, or a single node
    families: list[int] = []
    n = 0
    for number in range(r.choice((1, 1, 1, 2))):
        e = r.choice((2, 2, 3, 4))
        for _ in range(r.randint(1, max(1, (most_nodes - 1 - n) // e // (2 - number)))):
            if n + e <= most_nodes:
                slots.append([-1] * e)
                families.append(number)
                n += e
    for _ in range(r.randint(0, most_nodes - n)):
        slots.append([-1])
        families.append(-1)
    places = r.sample(range(len(slots)), len(slots))
    slots, families = [slots[i] for i in places], [families[i] for i in places]
    n = sum(map(len, slots))
    names = iter(r.sample(range(n), n))
    slots = [[next(names) for _ in slot] for slot in slots]
    # Names are any numbers, so that branches lie anywhere in the order.
    number = r.choice((lambda: float(r.randrange(6)), lambda: r.choice((0.0, 1.0, 4.0)), lambda: r.uniform(0, 5)))
    density = r.choice((0.3, 0.6, 1.0))
    work, params = [0.0] * n, [0.0] * n
    tensors: list[tuple[int, float, list[int]]] = []
    shared: list[tuple[float, list[int]]] = []
    for i, (slot, family) in enumerate(zip(slots, families, strict=True)):
        each, held = number(), number()
        for v in slot:
            work[v], params[v] = each, held
        for _ in range(r.choice((1, 1, 1, 2))):
            size, readers, separate = number(), [[] for _ in slot], r.random() < 0.3
            for later, other in zip(slots[i + 1 :], families[i + 1 :], strict=True):
                if r.random() > density:
                    continue
                if family == -1 and separate and other != -1:
                    tensors += [(slot[0], size, [v]) for v in later]
                elif family == other != -1:
                    crosses = r.random() < 0.15
                    for b in range(len(slot)):
                        readers[b] += [v for c, v in enumerate(later) if (c != b) == crosses]
                else:
                    readers = [row + later for row in readers]
            tensors += [(v, size, sorted(row)) for v, row in zip(slot, readers, strict=True)]
        if r.random() < 0.2:
            peers = [other for other, f in zip(slots, families, strict=True) if f == family]
            size = number()
            along = r.random() < 0.5 and family != -1
            users = [sorted(rows) for rows in zip(*peers, strict=True)] if along else [sorted(slot)]
            shared += [(size, row) for row in users]
    total = sum(params) + sum(size for size, _ in shared)
    k = r.randint(2, 4)
    memory = r.choice((math.inf, r.choice((1.05, 1.3, 2.0)) * total / k))
    return Case(work, params, sorted(tensors), shared, k, 1.0, memory, r.choice((None, 0.0, 1.0)))
