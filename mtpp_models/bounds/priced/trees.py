"""Branch-and-bound trees which prove that no block below the goal is worth its share of the prices."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import Instance
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from mtpp_models.bounds.priced.blocks import Gains, bound_of, choose, note, stakes_of, try_out, untried
from mtpp_models.bounds.priced.relaxation import (
    IN,
    OUT,
    BlockQuestion,
    Flows,
    begin_flow,
    constant_of,
    copy_flow,
    no_sets,
)
from mtpp_models.cuts.cuts import UNIT
from mtpp_models.cuts.max_flow import BoolArray

# Kernels of `mtpp_models.bounds.priced.prices`: expansion of the tree, node by node.


#: Leaves of a node that is explored.
CHILDREN = 2

# The multiplier at which children of a node begin is no smaller, over the goal.
_LEAST = 0.1


class Leaves(NamedTuple):
    """Leaves of a branch-and-bound tree, whose branchings put a node into the block or keep it out.

    Open leaves are in the first rows, the last of these is explored next; finished ones are in the last rows. Together
    they cover all node sets.
    """

    decided: NDArray[np.int8]  # (c, n): `IN`, `OUT`, or 0 if not decided
    multiplier: FloatArray  # (c,): Lagrange multiplier of the worth, in 2^-36 of the goal
    last: IntArray  # (c,): node decided last, from 1, negative if kept out; 0 if its gain is noted or does not count
    least: IntArray  # (c,): the bound before that decision

    @classmethod
    def root(cls, n: int) -> Leaves:
        """The root, a leaf without decisions, and room for the open leaves along one path."""
        size = 2 * n + 2
        nothing = np.zeros(size, dtype=np.int64)
        return cls(np.zeros((size, n), dtype=np.int8), np.full(size, float(UNIT)), nothing, nothing.copy())

    def grown(self, done: int) -> Leaves:
        """A copy with twice as many rows, the new ones between the open leaves and the `done` finished ones."""
        size, n = self.decided.shape
        decided = np.zeros((2 * size, n), dtype=np.int8)
        keep = size - done
        decided[:keep], decided[size + keep :] = self.decided[:keep], self.decided[keep:]
        return Leaves(decided, np.tile(self.multiplier, 2), np.tile(self.last, 2), np.tile(self.least, 2))


@compiled(nogil=True)
def explore(
    question: BlockQuestion, leaves: Leaves, flows: Flows, gains: Gains, depth: int, done: int, budget: int
) -> tuple[int, int, BoolArray]:
    """Explore at most `budget` nodes of the tree, as long as there is room for more leaves.

    Returns the numbers of open and finished leaves, and (n,) the nodes of a block below the goal that is worth its
    share; no nodes if none was met.
    """
    n = len(question.worth)
    sets = no_sets(n)
    few, many = sets.few, sets.many
    state, size = np.empty(n, dtype=np.int8), len(leaves.decided)
    while depth > 0 and budget > 0 and depth + done + CHILDREN <= size:
        budget -= 1
        row = depth - 1
        _go_on(question, leaves, flows, row, state)
        patient = (gains.times[0][state == 0] == 0).any()  # there may be nodes to try: gains from the best multiplier
        least, multiplier, cost = bound_of(state, question, flows, sets, leaves.multiplier[row], patient)
        if leaves.last[row] != 0:
            v = abs(leaves.last[row]) - 1
            note(gains, v, IN if leaves.last[row] > 0 else OUT, float(least - leaves.least[row]))
            leaves.last[row] = 0
        if least >= UNIT:
            done += 1
            leaves.decided[size - done] = leaves.decided[row]
            leaves.multiplier[size - done] = multiplier
            depth = row
            continue
        multiplier = max(multiplier, _LEAST * UNIT)
        # The sets are those of the last case, with overflow if there is any.
        constant = constant_of(question.constant[-1], many)
        cost += constant - constant_of(question.constant[-1], state == IN)
        overflow = float(constant)  # shared parameters left out, so a block may be found only further down
        for v in range(n):
            if many[v]:
                overflow += question.drain[-1, v] - question.drain[0, v]
        if cost - min(0.0, overflow) < UNIT and _is_convex(many, question.reach):
            return depth, done, many
        flows.state[0] = state
        stakes = stakes_of(state, question)
        if patient:
            nodes = untried(stakes, gains, few, many)[: max(1, budget // 2)]
            try_out(nodes, state, question, flows, gains, least, multiplier)
            budget -= 2 * len(nodes)
        v = choose(stakes, gains, few, many)
        if v < 0:
            return depth, done, state == IN
        leaves.decided[depth] = leaves.decided[row]
        leaves.decided[row, v], leaves.decided[depth, v] = OUT, IN
        leaves.last[row], leaves.last[depth] = -(v + 1), v + 1
        leaves.least[row] = leaves.least[depth] = least
        leaves.multiplier[row] = leaves.multiplier[depth] = multiplier
        place = _place(flows, row)
        copy_flow(flows, 0, place)
        flows.row[0], flows.row[place] = depth, row
        depth += 1
    return depth, done, np.zeros(n, dtype=np.bool_)


@compiled(inline="always")
def _place(flows: Flows, row: int) -> int:
    """The slot that keeps the flow of a leaf; slots 0 and 1 hold the current flow and a copy of it."""
    return 2 + row % (len(flows.row) - 2)


@compiled
def _go_on(question: BlockQuestion, leaves: Leaves, flows: Flows, row: int, state: NDArray[np.int8]) -> None:
    """Load the flow of a leaf into slot 0, and set `state`, (n,), to its decisions and their consequences."""
    place = _place(flows, row)
    if flows.row[0] != row:
        if flows.row[place] == row:
            copy_flow(flows, place, 0)
        else:
            begin_flow(question, flows)
    flows.row[0] = flows.row[place] = -1
    state[:] = flows.state[0]
    for v in np.flatnonzero(leaves.decided[row]):
        state[v] = leaves.decided[row, v]


@compiled
def _is_convex(block: BoolArray, reach: BoolArray) -> bool:
    inside = np.flatnonzero(block)
    for v in np.flatnonzero(~block):
        before, behind = False, False
        for u in inside:
            before |= reach[v, u]
            behind |= reach[u, v]
        if before and behind:
            return False
    return True


# Part of a tree of decisions on blocks: leaves that one thread explores, and what it remembers on the way.


@dataclass
class TreePart:
    """The part of a branch-and-bound tree that one thread explores."""

    leaves: Leaves  # open and finished ones
    flows: Flows  # maximum flows of ancestors, from which bounds of open leaves start
    gains: Gains  # how much past decisions on each node raised the bound
    max_decisions: int  # largest number of entries of `leaves.decided`
    open: int = 0  # number of open leaves
    done: int = 0  # number of finished leaves
    lost: bool = False  # whether finished leaves were dropped for lack of room

    @classmethod
    def none(cls, question: BlockQuestion, max_decisions: int) -> TreePart:
        """A part without leaves, with room for `max_decisions` entries of decisions."""
        n = len(question.worth)
        return cls(Leaves.root(n), Flows.of(question), Gains.none(n), max_decisions)

    def begin(self) -> None:
        """Restart with one open leaf, without decisions."""
        self.leaves, self.lost = Leaves.root(self.leaves.decided.shape[1]), False
        self.open, self.done = 1, 0
        self.flows.row[:] = -1

    def explore(self, question: BlockQuestion, budget: int) -> BoolArray:
        """Explore at most `budget` tree nodes; return the nodes of a block below the goal, (n,), or none."""
        self.open, self.done, block = explore(
            question, self.leaves, self.flows, self.gains, self.open, self.done, budget
        )
        return block

    def make_room(self) -> bool:
        """Make room for the children of a node; return whether there is room.

        Beyond `max_decisions` entries, finished leaves are dropped.
        """
        if self.open + self.done + CHILDREN <= len(self.leaves.decided):
            return True
        if self.leaves.decided.size < self.max_decisions:
            self.leaves = self.leaves.grown(self.done)
        elif self.done:
            self.done, self.lost = 0, True
        else:
            return False
        return True

    def drop(self) -> tuple[NDArray[np.int8], float]:
        """Remove the next open leaf; return (n,) its decisions, and its multiplier."""
        self.open -= 1
        return self.leaves.decided[self.open].copy(), float(self.leaves.multiplier[self.open])

    def add(self, decided: NDArray[np.int8], multiplier: float) -> None:
        """Add an open leaf, for which there must be room; it is explored next."""
        self.leaves.decided[self.open], self.leaves.multiplier[self.open] = decided, multiplier
        self.open += 1

    def reopen(self) -> None:
        """Make all finished leaves open ones."""
        for rows in self.leaves:
            rows[self.open : self.open + self.done] = rows[len(rows) - self.done :]
        self.open, self.done = self.open + self.done, 0

    def aim(self, question: BlockQuestion) -> None:
        """Prepare for another goal: drop flows and bounds that were computed for the goal before."""
        self.flows = Flows.of(question)
        self.leaves.last[:] = 0

    def share(self, other: TreePart) -> None:
        """Take every second open leaf of another part, and copy its gains; this part has no open leaf before."""
        while self.done + other.open + CHILDREN > len(self.leaves.decided):
            self.leaves = self.leaves.grown(self.done)
        moved, remaining = np.arange(0, other.open, 2), np.arange(1, other.open, 2)
        rows: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(self.leaves, other.leaves, strict=True)
        for mine, theirs in rows:
            mine[: len(moved)] = theirs[moved]
            theirs[: len(remaining)] = theirs[remaining]
        self.open, other.open = len(moved), len(remaining)
        for target, source in zip(self.gains, other.gains, strict=True):
            target[:] = source
        self.flows.row[:] = other.flows.row[:] = -1


# Trees of `mtpp_models.bounds.priced.prices` as witnesses, with which others prove the bound again.
#
# A witness holds the decisions of each leaf, in a tree of its own; the multiplier with which the leaf reaches the goal,
# as in `relaxation.py`; and pairs of nodes that no block below the goal holds, as few as leaves need that do not
# reach the goal without. Each leaf is bounded once more here, and pairs of leaves that are not needed become one.


#: Leaves of the largest tree that becomes a witness.
MOST_LEAVES = 50_000

#: Entry of a tree that is a leaf.
LEAF = -1

# Digits of a multiplier that are tried first.
_DIGITS = 4
# Leaves between two looks at the clock; and time for a witness, of which a part is that of the proof, and of what is
# left of it the part for one goal.
_BETWEEN, _SECONDS, _PART, _FOR_A_GOAL = 20, 1.0, 0.1, 0.6


class PriceProof(NamedTuple):
    """The leaves of a finished `BlockTree`: proof that no block below the goal is worth its share."""

    instance: Instance
    question: BlockQuestion
    decided: NDArray[np.int8]  # (c, n): decisions of the leaves
    multiplier: FloatArray  # (c,)


def before_witness(deadline: Deadline) -> Deadline:
    """Deadline for proofs that leaves time for their witness, which is done at most a second after `deadline`."""
    return deadline.share(1 - _PART)


@dataclass
class Proofs:
    """Proofs of rising goals, and the witness of the highest goal for which there was time to write it.

    Each proof kept has at most half as many leaves as the next one. So the witness of some proof takes little time, and
    all witnesses together take at most twice the time of the last.
    """

    value: float = 0.0  # goal that the witness proves; 0 without one
    witness: dict[str, Any] = field(default_factory=dict)
    highest: float = 0.0  # goal that was proved, with or without a witness
    goals: list[tuple[float, FloatArray | None, PriceProof]] = field(default_factory=list)

    def add(self, goal: float, proof: PriceProof | None, prices: FloatArray | None = None) -> None:
        """Record that a goal higher than those before is proved; keep the proof and the prices for the witness.

        `proof` is None if the search has dropped leaves; then the goal gets no witness.
        """
        self.highest = max(self.highest, goal)
        if proof is not None:
            while self.goals and 2 * len(self.goals[-1][2].decided) > len(proof.decided):
                self.goals.pop()
            self.goals.append((goal, prices, proof))

    @property
    def is_witnessed(self) -> bool:
        """Whether the highest goal that was proved has a witness."""
        return self.value >= self.highest

    def make_witness(self, deadline: Deadline, seconds: float, part: float = _PART) -> None:
        """Write the witness of the highest goal that the time allows; if it allows none, the old witness stays.

        The time is one second plus the fraction `part` of the `seconds` that proofs took; it is unlimited if the
        deadline is.
        """
        endless = deadline.end == math.inf and not deadline.interrupted.is_set()
        deadline = Deadline() if endless else Deadline.after(_SECONDS + part * seconds)
        for goal, prices, proof in reversed(self.goals):
            if goal <= self.value:
                return
            if witness := price_witness(proof, deadline.share(_FOR_A_GOAL)):
                self.value, self.witness = goal, witness | ({} if prices is None else {"prices": prices.tolist()})
                return


def price_witness(proof: PriceProof, deadline: Deadline) -> dict[str, Any]:
    """Members `tree`, `multipliers` and `apart` of the witness of a proof; none if time is up.

    Multipliers are fractions of the goal, for prices whose sum is the number of blocks.
    """
    entries, rows = _tree(proof.decided)
    decided, multiplier = proof.decided[rows], proof.multiplier[rows]
    share = proof.question.worth.sum() / min(proof.instance.k, proof.instance.graph.n)  # what a block is worth
    multiplier *= share / UNIT
    used = np.zeros_like(proof.question.apart)
    questions = proof.question._replace(apart=used), proof.question  # the pairs noted so far, and all
    flows = Flows.of(proof.question)
    row = 0
    while row < len(rows):
        if deadline.passed:
            return {}
        end = min(len(rows), row + _BETWEEN)
        if not _close(*questions, flows, decided[row:end], multiplier[row:end], share / UNIT):
            return {}
        row = end
    entries, leaves = _trimmed(entries, decided, multiplier, questions[0], flows, share / UNIT, deadline)
    return {"tree": entries, "multipliers": multiplier[leaves].tolist(), "apart": np.argwhere(np.triu(used)).tolist()}


def _tree(decided: NDArray[np.int8]) -> tuple[list[int], NDArray[np.intp]]:
    """Entries of a decision tree with these leaves in pre-order, and the rows of the leaves in that order.

    Any node that is decided in all leaves can be the root: the leaves with it inside form a tree, and so do the others.
    """
    entries: list[int] = []
    order: list[int] = []
    stack = [(np.arange(len(decided)), np.zeros(decided.shape[1], dtype=bool))]
    while stack:
        rows, path = stack.pop()
        if len(rows) == 1:
            entries.append(LEAF)
            order.append(int(rows[0]))
            continue
        node = int(((decided[rows] != 0).all(axis=0) & ~path).argmax())
        inside = decided[rows, node] == IN
        path[node] = True
        entries.append(node)
        stack += [(rows[~inside], path), (rows[inside], path.copy())]
    return entries, np.array(order)


def _trimmed(
    entries: list[int],
    decided: NDArray[np.int8],
    multiplier: FloatArray,
    question: BlockQuestion,
    flows: Flows,
    unit: float,
    deadline: Deadline,
) -> tuple[list[int], list[int]]:
    """Entries and rows of leaves of a smaller tree: sibling leaves are merged where the bound holds for both together.

    `decided` and `multiplier` of merged leaves are updated. When time is up, the tree so far is returned; it is valid.
    """
    stack: list[tuple[list[int], list[int]]] = []  # subtrees with their rows, reversed: the last ones first
    row = len(decided)
    for node in reversed(entries):
        if node == LEAF:
            row -= 1
            stack.append(([LEAF], [row]))
            continue
        (first, rows), (second, others) = stack.pop(), stack.pop()
        if len(rows) == len(others) == 1 and not deadline.passed:
            alone = decided[rows[0] : rows[0] + 1].copy()
            alone[0, node] = 0
            candidate = multiplier[rows[0] : rows[0] + 1].copy()
            if _close(question, question, flows, alone, candidate, unit):
                decided[rows[0]], multiplier[rows[0]] = alone[0], candidate[0]
                stack.append((first, rows))
                continue
        second += first
        second.append(node)
        others += rows
        stack.append((second, others))
    [(trimmed, leaves)] = stack
    return trimmed[::-1], leaves[::-1]


@compiled
def _close(
    some: BlockQuestion,
    question: BlockQuestion,
    flows: Flows,
    decided: NDArray[np.int8],
    multiplier: FloatArray,
    unit: float,
) -> bool:
    """Whether all leaves reach the goal; a multiplier that shows it is written into `multiplier` for each.

    `some` is the question with only a few of the pairs of nodes that exclude each other; pairs that a leaf needs are
    added to it. Multipliers are in the unit of the witness, `unit` times those of `bound_of`.
    """
    n = decided.shape[1]
    state = np.empty(n, dtype=np.int8)
    for row in range(len(decided)):
        value = _multiplier(some, flows, decided[row], multiplier[row], unit, state)
        if value < 0:
            value = _multiplier(question, flows, decided[row], multiplier[row], unit, state)
            if value < 0:
                return False
            _use(question.apart, decided[row], state, some.apart)
        multiplier[row] = value
    return True


@compiled
def _multiplier(
    question: BlockQuestion, flows: Flows, decided: NDArray[np.int8], begin: float, unit: float, state: NDArray[np.int8]
) -> float:
    """A multiplier that bounds a leaf by the goal, rounded to few digits if these suffice; -1 if there is none."""
    sets = no_sets(len(decided))
    value = begin / unit
    for patient in (True, False):
        short = _short(value * unit)
        state[:] = decided
        begin_flow(question, flows)
        least, reached, _ = bound_of(state, question, flows, sets, short / unit, patient)
        if least >= UNIT and reached == short / unit:
            return short
        if patient and least < UNIT:
            return -1.0
        if patient:
            value = reached
    return value * unit


@compiled(allocates=False)
def _short(number: float) -> float:
    """The number rounded to `_DIGITS` significant digits; 0 if it is not positive."""
    if number <= 0.0:
        return 0.0
    scale = 10.0 ** (_DIGITS - 1 - math.floor(math.log10(number)))
    return round(number * scale) / scale


@compiled
def _use(apart: BoolArray, decided: NDArray[np.int8], state: NDArray[np.int8], used: BoolArray) -> None:
    """Mark in `used` pairs of nodes that exclude each other: one for each node that the block excludes."""
    inside = np.flatnonzero(state == IN)
    for w in range(len(decided)):
        if decided[w] == OUT:
            continue
        pair = -1
        for v in inside:
            if used[v, w]:
                pair = -1
                break
            if pair < 0 and apart[v, w]:
                pair = int(v)
        if pair >= 0:
            used[pair, w] = used[w, pair] = True
