"""Data of the program over ideals: the question in whole parts of a goal, the ideals met so far, where a search is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["IdealQuestion", "IdealSearch", "IdealTable", "LiveTensors", "NodeSets"]

#: Sets of nodes, a row each, as words of 64 bits.
NodeSets = NDArray[np.uint64]

_Ints = NDArray[np.int64]
_Words = NDArray[np.uint64]


class LiveTensors(NamedTuple):
    """Tensors that may be live at nodes that do not touch them, and what is live at those of the block looked at."""

    size: _Ints  # (t,)
    producer: _Ints  # (t,)
    readers: tuple[_Ints, _Ints]  # nodes that read each tensor
    read: tuple[_Ints, _Ints]  # tensors that each node reads
    touch: NodeSets  # (t, n / 64): producer and readers
    before: NodeSets  # (n, n / 64): nodes on all paths to each node
    behind: NodeSets  # (n, n / 64): nodes on all paths from it
    begun: NodeSets  # (t, n / 64): nodes behind its producer in the block, or behind a reader there if that is outside
    earlier: NodeSets  # (e, n / 64): these before each read
    passed: NodeSets  # (t, n / 64): nodes of the block at which each is live
    fresh: NodeSets  # (e, n / 64): what each read has added to these
    bytes: _Ints  # (n,): of all that is live at each node of the block


class IdealQuestion(NamedTuple):
    """A question in whole parts of a goal; rows are starts, (n + 1,), and numbers of tensors, parameters or nodes."""

    k: int
    limit: int  # what a block has to stay below
    total: int  # all work
    work: _Ints  # (n,)
    need: _Ints  # (n,): least memory beside the parameters
    held: _Ints  # (n,): parameters of one node
    time: _Ints  # (t,): of tensors, by their producers
    readers: _Ints  # (t,): their number
    producer: _Ints  # (t,)
    made: _Ints  # (n + 1,): starts of the tensors of each node
    read: tuple[_Ints, _Ints]  # tensors that each node reads
    used: tuple[_Ints, _Ints]  # parameters of several nodes that each node uses
    shared: _Ints  # (p,): their sizes
    behind: tuple[_Ints, _Ints]  # successors
    before: _Ints  # (n,): numbers of predecessors
    room: int  # memory for parameters and need
    fit: int  # 0 where memory does not matter, 1 where overflow takes time, 2 where it is forbidden
    code: _Words  # (n,): random numbers; the hash of a set is what they come to
    branch: _Ints  # (n,): which of the equal branches holds the node, or -1
    family: _Ints  # (b,): of each branch, whose branches stand one behind the other
    branches: tuple[_Ints, _Ints]  # nodes of each branch, in their order
    live: LiveTensors


class IdealTable(NamedTuple):
    """Ideals in the order in which they were met, and where they are by their hash."""

    ideals: _Words  # (c, n / 64)
    level: _Ints  # (c,)
    slot: _Ints  # (s,): number of an ideal, -1 where there is none; s is a power of two


class IdealSearch(NamedTuple):
    """Where a search is: of a path from an ideal to the one looked at, and of all nodes and tensors."""

    at: _Ints  # (4,): the ideal, the depth of the path or -1 before it, ideals in the table, steps so far
    taken: NDArray[np.int32]  # (n + 1,): node at each depth
    first: _Ints  # (n + 2,): where the nodes that may come next begin among `ready` at each depth
    following: _Ints  # (n + 1,): which of them comes next
    ready: NDArray[np.int32]  # nodes that may come next, of each depth
    work: _Ints  # (n + 1,): of the block at each depth, as the next ones
    received: _Ints
    sent: _Ints
    held: _Ints
    need: _Ints
    cut: _Ints  # (n + 1,): time of all tensors that are cut behind the ideal at each depth
    inside: NDArray[np.int8]  # (n,): 1 in the ideal, 2 in the block, else 0
    missing: _Ints  # (n,): predecessors outside
    left: _Ints  # (t,): readers outside
    reading: _Ints  # (t,): readers in the block
    using: _Ints  # (p,): users in the block
    words: _Words  # (n / 64,): the ideal looked at
    image: _Words  # (n / 64,): the same, its branches sorted
    hash: _Words  # (1,)
