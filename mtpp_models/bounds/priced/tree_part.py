"""Part of a tree of decisions on blocks: leaves that one thread explores, and what it remembers on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtpp_models.bounds.priced.block_relaxation import BlockQuestion, Flows
from mtpp_models.bounds.priced.branching import Gains
from mtpp_models.bounds.priced.tree_kernels import CHILDREN, Leaves, explore
from mtpp_models.cuts.max_flow import BoolArray

__all__ = ["TreePart"]


@dataclass
class TreePart:
    """Leaves that are open and done, flows from which open ones go on, and gains of decisions."""

    leaves: Leaves
    flows: Flows
    gains: Gains
    max_decisions: int  # that are kept
    open: int = 0
    done: int = 0
    lost: bool = False  # whether leaves that are done were forgotten

    @classmethod
    def none(cls, question: BlockQuestion, max_decisions: int) -> TreePart:
        """A part without leaves, for `max_decisions` decisions."""
        n = len(question.worth)
        return cls(Leaves.root(n), Flows.of(question), Gains.none(n), max_decisions)

    def begin(self) -> None:
        """Start with one leaf, in which nothing is decided."""
        self.leaves, self.lost = Leaves.root(self.leaves.decided.shape[1]), False
        self.open, self.done = 1, 0
        self.flows.row[:] = -1

    def explore(self, question: BlockQuestion, budget: int) -> BoolArray:
        """Explore at most so many nodes of the tree; (n,) the nodes of the first block found, none if none was."""
        self.open, self.done, block = explore(
            question, self.leaves, self.flows, self.gains, self.open, self.done, budget
        )
        return block

    def make_room(self) -> bool:
        """Make room for the children of a node, of done leaves beyond `max_decisions`; whether there is room."""
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
        """Take out the next open leaf: (n,) its decisions, and its multiplier."""
        self.open -= 1
        return self.leaves.decided[self.open].copy(), float(self.leaves.multiplier[self.open])

    def add(self, decided: NDArray[np.int8], multiplier: float) -> None:
        """Add an open leaf, for which there is room; it is the next one."""
        self.leaves.decided[self.open], self.leaves.multiplier[self.open] = decided, multiplier
        self.open += 1

    def reopen(self) -> None:
        """Open all leaves that are done."""
        for rows in self.leaves:
            rows[self.open : self.open + self.done] = rows[len(rows) - self.done :]
        self.open, self.done = self.open + self.done, 0

    def aim(self, question: BlockQuestion) -> None:
        """Go on at another goal: flows, and gains of what was decided last, were of the one before."""
        self.flows = Flows.of(question)
        self.leaves.last[:] = 0

    def share(self, other: TreePart) -> None:
        """Take over every second open leaf of another part, and the gains that it knows; this one has none open."""
        while self.done + other.open + CHILDREN > len(self.leaves.decided):
            self.leaves = self.leaves.grown(self.done)
        taken, kept = np.arange(0, other.open, 2), np.arange(1, other.open, 2)
        rows: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(self.leaves, other.leaves, strict=True)
        for mine, theirs in rows:
            mine[: len(taken)] = theirs[taken]
            theirs[: len(kept)] = theirs[kept]
        self.open, other.open = len(taken), len(kept)
        for target, source in zip(self.gains, other.gains, strict=True):
            target[:] = source
        self.flows.row[:] = other.flows.row[:] = -1
