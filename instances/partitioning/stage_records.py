"""Records of the stages of an answer and of the tensors between them, as files and tables hold them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instances.json_files import Value

__all__ = ["Crossing", "Stage", "read_crossing", "read_stage"]


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
    receive: float
    work: float
    overflow: float
    send: float
    cost: float
    share: float
    param_bytes: float
    state_bytes: float
    peak_bytes: float

    def document(self) -> dict[str, Any]:
        """Members of a JSON object; null where a time is infinite."""
        return _finite(vars(self))


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
    bytes: float
    time: float

    def document(self) -> dict[str, Any]:
        """Members of a JSON object."""
        return _finite(vars(self) | {"readers": list(self.readers)})


def read_stage(value: Value) -> Stage:
    """A stage as a file states it; an `InputError` if a member is missing, unknown or of the wrong kind."""
    fields = value.members(tuple(Stage.__dataclass_fields__))
    return Stage(
        stage=fields["stage"].whole(),
        first=fields["first"].text(),
        last=fields["last"].text(),
        nodes=fields["nodes"].whole(),
        **_numbers(fields, {*fields} - {"stage", "first", "last", "nodes"}),
    )


def read_crossing(value: Value) -> Crossing:
    """A tensor between blocks as a file states it; an `InputError` as for `read_stage`."""
    fields = value.members(tuple(Crossing.__dataclass_fields__))
    return Crossing(
        producer=fields["producer"].text(),
        readers=tuple(fields["readers"].whole_numbers()),
        node=fields["node"].whole(),
        output=fields["output"].whole(),
        source=fields["source"].whole(),
        **_numbers(fields, {"bytes", "time"}),
    )


def _numbers(fields: Mapping[str, Value], names: set[str]) -> dict[str, Any]:
    numbers = {name: fields[name].optional_number() for name in names}
    return {name: math.inf if number is None else number for name, number in numbers.items()}


def _finite(members: dict[str, Any]) -> dict[str, Any]:
    return {name: None if item == math.inf else item for name, item in members.items()}
