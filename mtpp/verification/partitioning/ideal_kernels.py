"""Kernels of the search over ideals, compiled by numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from mtpp.verification.partitioning.exact_instance import IdealQuestion, IdealSearch, IdealTable, LiveTensors, NodeSets

# Tensors that are live while a node runs that does not touch them, in a block built node by node; compiled.
#
# Let w be a node of a block, a set that with two nodes holds all on paths between them. In each order of the block,
# what is before w in the graph runs before it. So a tensor is live while w runs if w is before one of its readers in
# the block and behind its producer or, where that is outside, behind another reader in the block. All such w lie in the
# block. The peak of the block is at least what w touches and all that is live there.


_WORD = 64
_ONE = np.uint64(1)

_Ints = NDArray[np.int64]
_Inside = NDArray[np.int8]


@compiled
def sets_along_edges(order: _Ints, behind: tuple[_Ints, _Ints], words: int) -> tuple[NodeSets, NodeSets]:
    """Ancestors and descendants of each node as sets of bits, both without the node."""
    n = len(order)
    to, fro = np.zeros((n, words), np.uint64), np.zeros((n, words), np.uint64)
    if words == 0:
        return to, fro
    for v in order:
        for e in range(behind[0][v], behind[0][v + 1]):
            to[behind[1][e]] |= to[v]
            to[behind[1][e], v // _WORD] |= _ONE << np.uint64(v % _WORD)
    for v in order[::-1]:
        for e in range(behind[0][v], behind[0][v + 1]):
            u = behind[1][e]
            fro[v] |= fro[u]
            fro[v, u // _WORD] |= _ONE << np.uint64(u % _WORD)
    return to, fro


@compiled(allocates=False)
def add_reader(v: int, outputs: _Ints, need: _Ints, live: LiveTensors) -> int:
    """Update the bytes live at nodes of the block when v joins; return the largest new total, or 0 if none grew.

    The tensors of v are those from `outputs[v]` to `outputs[v + 1]` - 1.
    """
    largest, words = 0, live.passed.shape[1]
    for e in range(live.read[0][v], live.read[0][v + 1]):
        t = live.read[1][e]
        for w in range(words):
            fresh = live.downstream[t, w] & live.before[v, w] & ~live.touch[t, w] & ~live.passed[t, w]
            live.fresh[e, w] = fresh
            live.passed[t, w] |= fresh
            live.earlier[e, w] = live.downstream[t, w]
            live.downstream[t, w] |= live.behind[v, w]
            if fresh:
                for u in range(_WORD * w, min(_WORD * (w + 1), len(need))):
                    if (fresh >> np.uint64(u % _WORD)) & _ONE:
                        live.bytes[u] += live.size[t]
                        largest = max(largest, need[u] + live.bytes[u])
    for t in range(outputs[v], outputs[v + 1] if words > 0 else outputs[v]):
        for w in range(words):
            live.downstream[t, w] = live.behind[v, w]
    return largest


@compiled(allocates=False)
def remove_reader(v: int, outputs: _Ints, live: LiveTensors) -> None:
    """Undo `add_reader` for v, the node that joined last."""
    words = live.passed.shape[1]
    for e in range(live.read[0][v], live.read[0][v + 1]):
        t = live.read[1][e]
        for w in range(words):
            fresh = live.fresh[e, w]
            live.passed[t, w] &= ~fresh
            live.downstream[t, w] = live.earlier[e, w]
            if fresh:
                for u in range(_WORD * w, min(_WORD * (w + 1), len(live.bytes))):
                    if (fresh >> np.uint64(u % _WORD)) & _ONE:
                        live.bytes[u] -= live.size[t]
    for t in range(outputs[v], outputs[v + 1] if words > 0 else outputs[v]):
        for w in range(words):
            live.downstream[t, w] = 0


@compiled
def live_in_rest(inside: _Inside, need: _Ints, live: LiveTensors) -> int:
    """Largest number of bytes live at any node if all nodes outside ideal and block were one block."""
    total = np.zeros(len(need), np.int64)
    for t in range(len(live.size)):
        for w in range(live.passed.shape[1]):
            downstream = upstream = np.uint64(0)
            for e in range(live.readers[0][t], live.readers[0][t + 1]):
                if inside[live.readers[1][e]] == 0:
                    downstream |= live.behind[live.readers[1][e], w]
                    upstream |= live.before[live.readers[1][e], w]
            if inside[live.producer[t]] == 0:
                downstream = live.behind[live.producer[t], w]
            passed = downstream & upstream & ~live.touch[t, w]
            if passed:
                for u in range(_WORD * w, min(_WORD * (w + 1), len(need))):
                    if (passed >> np.uint64(u % _WORD)) & _ONE:
                        total[u] += live.size[t]
    largest = 0
    for v in range(len(need)):
        if inside[v] == 0:
            largest = max(largest, need[v] + total[v])
    return largest


# One ideal for all that become one another where equal branches change places, compiled.
#
# Nodes that change places stand side by side in a topological order, branch by branch. A set is sorted where no branch
# holds the first node in which it differs from the branch before. As the exchange of a chain of ideals is a chain of
# the same costs, sorted ideals stand for all.
#
# Around a sorted ideal I sets grow by nodes in their order, where a node is late if the branch before its own holds the
# same, of I and now. Let J be an ideal around I, sorted among the branches that are equal in I; exchanges of these make
# such a J of any other, and leave the costs of J without I as they are. J without its last node is so too: the branch
# behind has none of the nodes behind that one but those of I, and lacks the next image of it, which would be later. In
# what is left the node was not late, or else J were not sorted. So J is met, and by one order alone.


_Words = NDArray[np.uint64]


@compiled(allocates=False)
def is_late(v: int, question: IdealQuestion, inside: NDArray[np.int8]) -> bool:
    """Whether to skip v: the equal branch before its own has the same nodes in ideal and block, so it grows first."""
    b = question.branch[v]
    if b <= 0 or question.family[b - 1] != question.family[b]:
        return False
    start, nodes = question.branches
    for q in range(start[b + 1] - start[b]):  # noqa: SIM110 - numba has no all() and any() of generators
        if inside[nodes[start[b] + q]] != inside[nodes[start[b - 1] + q]]:
            return False
    return True


@compiled(allocates=False)
def sort_branches(words: _Words, code: np.uint64, question: IdealQuestion) -> np.uint64:
    """Sort the equal branches of a set in place, as one form for all exchanges; return its new hash."""
    start, nodes = question.branches
    for b in range(1, len(question.family)):
        c = b
        while c > 0 and question.family[c - 1] == question.family[c] and _is_greater(c, words, question):
            for q in range(start[c + 1] - start[c]):
                u, v = nodes[start[c] + q], nodes[start[c - 1] + q]
                if _holds(words, u) != _holds(words, v):
                    words[u // _WORD] ^= np.uint64(1) << np.uint64(u % _WORD)
                    words[v // _WORD] ^= np.uint64(1) << np.uint64(v % _WORD)
                    code ^= question.code[u] ^ question.code[v]
            c -= 1
    return code


@compiled(allocates=False)
def _is_greater(b: int, words: _Words, question: IdealQuestion) -> bool:
    """Whether a branch holds the first node in which it differs from the one before."""
    start, nodes = question.branches
    for q in range(start[b + 1] - start[b]):
        mine, other = _holds(words, nodes[start[b] + q]), _holds(words, nodes[start[b - 1] + q])
        if mine != other:
            return mine
    return False


@compiled(inline="always", allocates=False)
def _holds(words: _Words, v: int) -> bool:
    return (words[v // _WORD] >> np.uint64(v % _WORD)) & np.uint64(1) == np.uint64(1)


# The program over ideals for one goal, compiled, in whole numbers alone.
#
# A partition below the goal is a chain of ideals, the sets that are closed under predecessors. Ideals that some b
# blocks below the limit can fill, and no fewer, make level b; they wait in a list, level by level, and in a table by
# their hash. Each in turn is extended by nodes that may follow, so that each larger ideal is met once: of the nodes
# that may come next one is the first that is taken, and those before it stay out. Where equal branches change places,
# one ideal stands for all that become one another, and nodes are taken in their order (`is_late`). Four rules
# need no ideal that is passed by:
#
# R1. Where the work behind J and the time to receive all that is cut there is at least the limit times the blocks left,
# J
#     is of no use: later blocks do that work, and each tensor that is cut is received by one of them.
# R2. A block grows no further where its work, or what the blocks behind it have no room for, and the time to receive,
# and
#     its overflow are at least the limit: of a larger block all of these are no less.
# R3. Let v be a node that may follow I, at most b blocks fill I + v, and its work and what v alone still reads take at
#     least the time of its own tensors that are read. Then I is passed by. In any chain behind I take v out of its
#     block,
#     which holds none of its predecessors: that block loses the work of v and what v alone received, receives at most
#     the tensors of v, and holds and needs no more. So what follows I follows I + v.
# R4. Where all that is left makes a block below the limit, there is a chain.


#: Why a search stops: it came to its end; a chain was found; the table is full; its steps are used up.
DONE, FOUND, FULL, PAUSED = 0, 1, 2, 3

# Words of sets that take as long as a step.
_WORDS_A_STEP = 16


@compiled
def search_ideals(question: IdealQuestion, table: IdealTable, search: IdealSearch, steps: int) -> int:
    """Continue a search for some steps; return `DONE`, `FOUND`, `PAUSED`, or `FULL`: the ideal is begun again later."""
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
    """Enter the first `count` ideals of a table into its empty slots."""
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
    """Prepare the search from the next ideal; return whether all nodes behind it make a block below the limit.

    An ideal that cannot lead to all nodes in the blocks left, or that a larger one replaces, is skipped.
    """
    n, at = len(question.work), search.at
    words, level = table.ideals[at[0]], table.level[at[0]]
    search.words[:] = words
    search.missing[:] = question.before
    search.unread[:] = question.readers
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
                search.unread[question.read[1][e]] -= 1
        else:
            rest += question.params[v]
            need = max(need, question.need[v])
            for e in range(question.used[0][v], question.used[0][v + 1]):
                g = question.used[1][e]
                rest += question.shared[g] if search.using[g] == 0 else 0
                search.using[g] = 1
    search.using[:] = 0
    search.hash[0] = code
    cut = 0
    for t in range(len(question.time)):
        if search.inside[question.producer[t]] and search.unread[t] > 0:
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
    search.work[0], search.received[0], search.sent[0], search.params[0], search.need[0] = 0, 0, 0, 0, 0
    search.cut[0] = cut
    at[1] = 0
    return False


@compiled
def _is_absorbed(question: IdealQuestion, table: IdealTable, search: IdealSearch, level: int) -> bool:
    """Whether a node could join the ideal at no extra cost (rule R3), so that the larger ideal replaces this one."""
    for v in range(len(question.work)):
        if search.inside[v] or search.missing[v] > 0:
            continue
        saved = question.work[v]
        for e in range(question.read[0][v], question.read[0][v + 1]):
            t = question.read[1][e]
            saved += question.time[t] if search.unread[t] == 1 else 0
        for t in range(question.outputs[v], question.outputs[v + 1]):
            saved -= question.time[t] if question.readers[t] > 0 else 0
        if saved < 0:
            continue
        _flip(v, question, search)
        number = table.slot[_place(question, table, search)]
        _flip(v, question, search)
        if number >= 0 and table.level[number] <= level:
            return True
    return False


@compiled(allocates=False)
def _extend(question: IdealQuestion, table: IdealTable, search: IdealSearch, until: int) -> int:
    """Enter in the table all larger ideals whose new nodes are a block below the limit; `DONE`, `FULL` or `PAUSED`."""
    at, limit = search.at, question.limit
    level = table.level[at[0]]
    later_blocks = question.k - level - 1  # blocks
    ideal_work = 0
    for v in range(len(question.work)):
        ideal_work += question.work[v] if search.inside[v] == 1 else 0
    least = question.total - ideal_work - later_blocks * limit  # R2: work that the blocks behind have no room for
    while at[1] >= 0:
        if at[3] >= until:
            return PAUSED
        depth = at[1]
        if search.following[depth] >= search.first[depth + 1]:
            if depth > 0:
                _remove(search.path[depth], question, search)
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
        over = _overflow(question, search.params[down] + search.need[down])
        if max(search.work[down], least) + search.received[down] + over >= limit:
            _remove(v, question, search)
            continue
        rest = question.total - ideal_work - search.work[down]
        cost = search.work[down] + search.received[down] + search.sent[down] + over
        if cost < limit and rest + search.cut[down] < later_blocks * limit:  # R1
            place = _place(question, table, search)
            if table.slot[place] < 0:
                number = at[2]
                if number == len(table.level) or 2 * number >= len(table.slot):
                    return FULL
                for w in range(len(search.image)):
                    table.ideals[number, w] = search.image[w]
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
        search.path[down], search.following[down], search.first[down + 1] = v, begin, end
        at[1] = down
    return DONE


@compiled(allocates=False)
def _add(v: int, depth: int, question: IdealQuestion, search: IdealSearch) -> None:
    """Add a node to the block, and write the sums of the next depth."""
    received, sent, cut, params = search.received[depth], search.sent[depth], search.cut[depth], search.params[depth]
    for e in range(question.read[0][v], question.read[0][v + 1]):
        t = question.read[1][e]
        search.unread[t] -= 1
        if search.inside[question.producer[t]] == 1:
            received += question.time[t] if search.reading[t] == 0 else 0
        elif search.unread[t] == 0:
            sent -= question.time[t]
        cut -= question.time[t] if search.unread[t] == 0 else 0
        search.reading[t] += 1
    for t in range(question.outputs[v], question.outputs[v + 1]):
        if question.readers[t] > 0:
            sent += question.time[t]
            cut += question.time[t]
    params += question.params[v]
    for e in range(question.used[0][v], question.used[0][v + 1]):
        g = question.used[1][e]
        params += question.shared[g] if search.using[g] == 0 else 0
        search.using[g] += 1
    for e in range(question.behind[0][v], question.behind[0][v + 1]):
        search.missing[question.behind[1][e]] -= 1
    live = add_reader(v, question.outputs, question.need, question.live)
    search.inside[v] = 2
    _flip(v, question, search)
    down = depth + 1
    search.work[down] = search.work[depth] + question.work[v]
    search.received[down], search.sent[down], search.cut[down], search.params[down] = received, sent, cut, params
    search.need[down] = max(search.need[depth], question.need[v], live)


@compiled(allocates=False)
def _remove(v: int, question: IdealQuestion, search: IdealSearch) -> None:
    """Remove v, the node that was added last."""
    remove_reader(v, question.outputs, question.live)
    for e in range(question.read[0][v], question.read[0][v + 1]):
        search.unread[question.read[1][e]] += 1
        search.reading[question.read[1][e]] -= 1
    for e in range(question.used[0][v], question.used[0][v + 1]):
        search.using[question.used[1][e]] -= 1
    for e in range(question.behind[0][v], question.behind[0][v + 1]):
        search.missing[question.behind[1][e]] += 1
    search.inside[v] = 0
    _flip(v, question, search)


@compiled(inline="always", allocates=False)
def _flip(v: int, question: IdealQuestion, search: IdealSearch) -> None:
    search.words[v // _WORD] ^= np.uint64(1) << np.uint64(v % _WORD)
    search.hash[0] ^= question.code[v]


@compiled(allocates=False)
def _place(question: IdealQuestion, table: IdealTable, search: IdealSearch) -> int:
    """Slot of the current ideal in the hash table, or the empty slot where it belongs."""
    last = len(table.slot) - 1
    for w in range(len(search.image)):
        search.image[w] = search.words[w]
    code = sort_branches(search.image, search.hash[0], question)
    place = int(np.int64(code & np.uint64(last)))
    while table.slot[place] >= 0:
        number, same = table.slot[place], True
        for w in range(len(search.image)):
            same &= table.ideals[number, w] == search.image[w]
        if same:
            break
        place = (place + 1) & last
    return place


@compiled(inline="always", allocates=False)
def _overflow(question: IdealQuestion, load: int) -> int:
    if question.fit == 0 or load <= question.room:
        return 0
    return question.limit if question.fit == 2 else load - question.room
