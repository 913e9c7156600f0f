"""Records of the stages of an answer and of the tensors between them, as files and tables hold them."""

from __future__ import annotations

from dataclasses import dataclass

from instances.records import Limit

__all__ = ["Crossing", "Stage"]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A block that is not empty: what it holds and what it costs.

    Parameters
    ----------
    stage : int
        Number of the block.
    first, last : str
        Names of the first and the last node that it executes.
    nodes : int
    receive, work, overflow, send, cost : float
        The terms of eq. (3) and their sum, in the time unit of the work.
    share : float
        Cost over bottleneck, from 0 to 1.
    param_bytes, state_bytes, peak_bytes : float
        Its parameters, its states and its peak of activations [bytes].
    """

    stage: int
    first: str
    last: str
    nodes: int
    receive: Limit
    work: Limit
    overflow: Limit
    send: Limit
    cost: Limit
    share: Limit
    param_bytes: Limit
    state_bytes: Limit
    peak_bytes: Limit


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """A tensor that some other block reads than the one that makes it.

    Parameters
    ----------
    producer : str
        Name of the node that makes it.
    node, output : int
        Number of that node, and of the tensor among its outputs.
    source : int
        Block of the producer.
    readers : tuple of int
        Other blocks that read it, in order.
    bytes : float
    time : float
        To move it once, in the time unit of the work.
    """

    producer: str
    node: int
    output: int
    source: int
    readers: tuple[int, ...]
    bytes: Limit
    time: Limit
