r"""The program over ideals for one goal, compiled, in whole numbers alone.

A partition below the goal is a chain of ideals, the sets that are closed under predecessors. Ideals that some b blocks
below the limit can fill, and no fewer, make level b; they wait in a list, level by level, and in a table by their hash.
Each in turn is extended by nodes that may follow, so that each larger ideal is met once: of the nodes that may come
next one is the first that is taken, and those before it stay out. Where equal branches change places, one ideal stands
for all that become one another, and nodes are taken in their order (`swap_kernel.py`). Four rules need no ideal that is
passed by:

R1. Where the work behind J and the time to receive all that is cut there is at least the limit times the blocks left, J
    is of no use: later blocks do that work, and each tensor that is cut is received by one of them.
R2. A block grows no further where its work, or what the blocks behind it have no room for, and the time to receive, and
    its overflow are at least the limit: of a larger block all of these are no less.
R3. Let v be a node that may follow I, at most b blocks fill I + v, and its work and what v alone still reads take at
    least the time of its own tensors that are read. Then I is passed by. In any chain behind I take v out of its block,
    which holds none of its predecessors: that block loses the work of v and what v alone received, receives at most
    the tensors of v, and holds and needs no more. So what follows I follows I + v.
R4. Where all that is left makes a block below the limit, there is a chain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from mtpp.verification.partitioning.ideal_records import IdealQuestion, IdealSearch, IdealTable
from mtpp.verification.partitioning.live_kernel import add_reader, live_in_rest, remove_reader
from mtpp.verification.partitioning.swap_kernel import is_late, sort_branches

__all__ = [
    "DONE",
    "FOUND",
    "FULL",
    "PAUSED",
    "fill_slots",
    "search_ideals",
]

#: Why a search stops: it came to its end; a chain was found; the table is full; its steps are used up.
DONE, FOUND, FULL, PAUSED = 0, 1, 2, 3

_WORD = 64
# Words of sets that take as long as a step.
_WORDS_A_STEP = 16

_Words = NDArray[np.uint64]


@compiled
def search_ideals(question: IdealQuestion, table: IdealTable, search: IdealSearch, steps: int) -> int:
    """Go on for some steps; `DONE`, `FOUND`, `FULL` or `PAUSED`. Where the table is full, the ideal begins again."""
    at = search.at
    until = at[3] + steps
    while at[0] < at[2]:
        if at[1] < 0:
            if at[3] >= until:
                return PAUSED
            if _begin(question, table, search):
                return FOUND
            if at[1] < 0:
                at[0] += 1
                continue
        outcome = _extend(question, table, search, until)
        if outcome != DONE:
            if outcome == FULL:
                at[1] = -1
            return outcome
        at[0], at[1] = at[0] + 1, -1
    return DONE


@compiled
def fill_slots(table: IdealTable, code: _Words, count: int) -> None:
    """Enter the first ideals of a table into its slots, which are empty."""
    last = len(table.slot) - 1
    for i in range(count):
        value = np.uint64(0)
        for v in range(len(code)):
            if (table.ideals[i, v // _WORD] >> np.uint64(v % _WORD)) & np.uint64(1):
                value ^= code[v]
        place = np.int64(value & np.uint64(last))
        while table.slot[place] >= 0:
            place = (place + 1) & last
        table.slot[place] = i


@compiled
def _begin(question: IdealQuestion, table: IdealTable, search: IdealSearch) -> bool:
    """Prepare to extend the next ideal, unless it is of no use; whether the rest makes a block below the limit."""
    n, at = len(question.work), search.at
    words, level = table.ideals[at[0]], table.level[at[0]]
    search.words[:] = words
    search.missing[:] = question.before
    search.left[:] = question.readers
    search.reading[:] = 0
    search.using[:] = 0
    work, code = 0, np.uint64(0)
    rest, need = 0, 0
    for v in range(n):
        search.inside[v] = (words[v // _WORD] >> np.uint64(v % _WORD)) & np.uint64(1)
        if search.inside[v]:
            work += question.work[v]
            code ^= question.code[v]
            for e in range(question.behind[0][v], question.behind[0][v + 1]):
                search.missing[question.behind[1][e]] -= 1
            for e in range(question.read[0][v], question.read[0][v + 1]):
                search.left[question.read[1][e]] -= 1
        else:
            rest += question.held[v]
            need = max(need, question.need[v])
            for e in range(question.used[0][v], question.used[0][v + 1]):
                g = question.used[1][e]
                rest += question.shared[g] if search.using[g] == 0 else 0
                search.using[g] = 1
    search.using[:] = 0
    search.hash[0] = code
    cut = 0
    for t in range(len(question.time)):
        if search.inside[question.producer[t]] and search.left[t] > 0:
            cut += question.time[t]
    if question.total - work + cut + _overflow(question, rest + need) < question.limit:
        at[3] += len(question.live.readers[1]) * question.live.passed.shape[1] // _WORDS_A_STEP
        need = max(need, live_in_rest(search.inside, question.need, question.live))
        if question.total - work + cut + _overflow(question, rest + need) < question.limit:
            return True  # R4
    if level + 1 >= question.k or _is_absorbed(question, table, search, level):
        return False
    count = 0
    for v in range(n):
        if not search.inside[v] and search.missing[v] == 0:
            search.ready[count] = v
            count += 1
    search.first[0], search.first[1], search.following[0] = 0, count, 0
    search.work[0], search.received[0], search.sent[0], search.held[0], search.need[0] = 0, 0, 0, 0, 0
    search.cut[0] = cut
    at[1] = 0
    return False


@compiled
def _is_absorbed(question: IdealQuestion, table: IdealTable, search: IdealSearch, level: int) -> bool:
    """R3: whether some node may join the ideal, and nothing is lost by it."""
    for v in range(len(question.work)):
        if search.inside[v] or search.missing[v] > 0:
            continue
        saved = question.work[v]
        for e in range(question.read[0][v], question.read[0][v + 1]):
            t = question.read[1][e]
            saved += question.time[t] if search.left[t] == 1 else 0
        for t in range(question.made[v], question.made[v + 1]):
            saved -= question.time[t] if question.readers[t] > 0 else 0
        if saved < 0:
            continue
        _flip(v, question, search)
        known = table.slot[_place(question, table, search)]
        _flip(v, question, search)
        if known >= 0 and table.level[known] <= level:
            return True
    return False


@compiled
def _extend(question: IdealQuestion, table: IdealTable, search: IdealSearch, until: int) -> int:
    """Walk over all larger ideals whose new nodes can make a block below the limit, and note those that they do."""
    at, limit = search.at, question.limit
    level = table.level[at[0]]
    left = question.k - level - 1  # blocks
    ideal_work = 0
    for v in range(len(question.work)):
        ideal_work += question.work[v] if search.inside[v] == 1 else 0
    least = question.total - ideal_work - left * limit  # R2: work that the blocks behind have no room for
    while at[1] >= 0:
        if at[3] >= until:
            return PAUSED
        depth = at[1]
        if search.following[depth] >= search.first[depth + 1]:
            if depth > 0:
                _remove(search.taken[depth], question, search)
            at[1] -= 1
            continue
        v = search.ready[search.following[depth]]
        search.following[depth] += 1
        if is_late(v, question, search.inside):
            continue
        reads = question.read[0][v + 1] - question.read[0][v]
        at[3] += 1 + reads * question.live.passed.shape[1] // _WORDS_A_STEP
        _add(v, depth, question, search)
        down = depth + 1
        over = _overflow(question, search.held[down] + search.need[down])
        if max(search.work[down], least) + search.received[down] + over >= limit:
            _remove(v, question, search)
            continue
        rest = question.total - ideal_work - search.work[down]
        cost = search.work[down] + search.received[down] + search.sent[down] + over
        if cost < limit and rest + search.cut[down] < left * limit:  # R1
            place = _place(question, table, search)
            if table.slot[place] < 0:
                number = at[2]
                if number == len(table.level) or 2 * number >= len(table.slot):
                    return FULL
                table.ideals[number] = search.image
                table.level[number], table.slot[place] = level + 1, number
                at[2] += 1
        begin = search.first[down]
        end = begin
        in_order = len(question.family) > 0
        for e in range(search.first[depth] if in_order else search.following[depth], begin):
            if not in_order or search.ready[e] > v:
                search.ready[end] = search.ready[e]
                end += 1
        for e in range(question.behind[0][v], question.behind[0][v + 1]):
            if search.missing[question.behind[1][e]] == 0:
                search.ready[end] = question.behind[1][e]
                end += 1
        search.taken[down], search.following[down], search.first[down + 1] = v, begin, end
        at[1] = down
    return DONE


@compiled
def _add(v: int, depth: int, question: IdealQuestion, search: IdealSearch) -> None:
    """Add a node to the block, and write the sums of the next depth."""
    received, sent, cut, held = search.received[depth], search.sent[depth], search.cut[depth], search.held[depth]
    for e in range(question.read[0][v], question.read[0][v + 1]):
        t = question.read[1][e]
        search.left[t] -= 1
        if search.inside[question.producer[t]] == 1:
            received += question.time[t] if search.reading[t] == 0 else 0
        elif search.left[t] == 0:
            sent -= question.time[t]
        cut -= question.time[t] if search.left[t] == 0 else 0
        search.reading[t] += 1
    for t in range(question.made[v], question.made[v + 1]):
        if question.readers[t] > 0:
            sent += question.time[t]
            cut += question.time[t]
    held += question.held[v]
    for e in range(question.used[0][v], question.used[0][v + 1]):
        g = question.used[1][e]
        held += question.shared[g] if search.using[g] == 0 else 0
        search.using[g] += 1
    for e in range(question.behind[0][v], question.behind[0][v + 1]):
        search.missing[question.behind[1][e]] -= 1
    live = add_reader(v, question.made, question.need, question.live)
    search.inside[v] = 2
    _flip(v, question, search)
    down = depth + 1
    search.work[down] = search.work[depth] + question.work[v]
    search.received[down], search.sent[down], search.cut[down], search.held[down] = received, sent, cut, held
    search.need[down] = max(search.need[depth], question.need[v], live)


@compiled
def _remove(v: int, question: IdealQuestion, search: IdealSearch) -> None:
    """Take the node out again that was added last."""
    remove_reader(v, question.made, question.live)
    for e in range(question.read[0][v], question.read[0][v + 1]):
        search.left[question.read[1][e]] += 1
        search.reading[question.read[1][e]] -= 1
    for e in range(question.used[0][v], question.used[0][v + 1]):
        search.using[question.used[1][e]] -= 1
    for e in range(question.behind[0][v], question.behind[0][v + 1]):
        search.missing[question.behind[1][e]] += 1
    search.inside[v] = 0
    _flip(v, question, search)


@compiled(inline="always")
def _flip(v: int, question: IdealQuestion, search: IdealSearch) -> None:
    search.words[v // _WORD] ^= np.uint64(1) << np.uint64(v % _WORD)
    search.hash[0] ^= question.code[v]


@compiled
def _place(question: IdealQuestion, table: IdealTable, search: IdealSearch) -> int:
    """Slot of the ideal looked at, or the empty one where it belongs."""
    last = len(table.slot) - 1
    search.image[:] = search.words
    code = sort_branches(search.image, search.hash[0], question)
    place = int(np.int64(code & np.uint64(last)))
    while table.slot[place] >= 0:
        known, same = table.ideals[table.slot[place]], True
        for w in range(len(search.image)):
            same &= known[w] == search.image[w]
        if same:
            break
        place = (place + 1) & last
    return place


@compiled(inline="always")
def _overflow(question: IdealQuestion, load: int) -> int:
    if question.fit == 0 or load <= question.room:
        return 0
    return question.limit if question.fit == 2 else load - question.room
