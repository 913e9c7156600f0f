"""Plans in a grid as raw records: what a file states, nothing of it checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from instances.certificates.claims import PLANNING, Envelope, check_question, envelope
from instances.certificates.provenance import accepted, check_written, opened
from instances.json_files import Value
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.question_file import question_from_document

__all__ = ["GRID_FORMAT", "RANK", "StatedGrid", "grid_from_document"]

GRID_FORMAT = "mtpp-plan/5"
#: Numbers of each device that works.
RANK = ("rank", "server", "gpu", "stage", "tp", "cp", "dp")

_CERTIFIED = ("instance", "time", "bound", "ratio", "bounds")
_GRID = ("pp", "tp", "cp", "ep", "dp", "v")
_PLAN = ("grid", "micro_batch", "global_batch", "zero", "cuts", "modes", "ranks", "memory", "starts", "sent", "key")
_PROVENANCE = ("planner", "time_limit", "version", "seed")


@dataclass(frozen=True, kw_only=True)
class StatedGrid(Envelope):
    """A plan in a grid as a file states it; nothing is checked but kinds of values and the question."""

    answer_name: ClassVar[str] = "plan"
    cost_name: ClassVar[str] = "time"

    instance: GridInstance
    key: str
    groups: int
    tensor: tuple[int, ...]
    context: int
    expert: int
    pipelines: int
    turns: int
    micro_batch: int
    global_batch: int
    zero: int
    cuts: tuple[int, ...]
    modes: tuple[str, ...]
    ranks: tuple[tuple[int, ...], ...]  # of each device: rank, server, device there, stage, tp, cp, dp
    memory: tuple[tuple[float, ...], ...]
    starts: tuple[tuple[float, ...], ...]
    sent: tuple[tuple[float, ...], ...]

    @property
    def label(self) -> str:
        """Name of the question, and its hash."""
        return f"{self.instance.label}, question {self.instance.key[:12]}"


def grid_from_document(document: Value) -> StatedGrid:
    """Read a plan file.

    Raises
    ------
    InputError
        If it is none, or lacks its question; the message names the place.
    """
    document.check_format(*accepted(GRID_FORMAT))
    check_question(document, _CERTIFIED, "plan")
    document, stated_hash = opened(document, GRID_FORMAT)
    members = document.members(("format", *_PLAN, *_CERTIFIED), _PROVENANCE)
    grid = members["grid"].members(_GRID)
    question = question_from_document(members["instance"])
    if stated_hash is not None:
        check_written(members["instance"], question.document())
    return StatedGrid(
        **envelope(members, "time", PLANNING, stated_hash),
        instance=question,
        key=members["key"].text(),
        groups=grid["pp"].whole(),
        tensor=tuple(grid["tp"].whole_numbers()),
        context=grid["cp"].whole(),
        expert=grid["ep"].whole(),
        pipelines=grid["dp"].whole(),
        turns=grid["v"].whole(),
        micro_batch=members["micro_batch"].whole(),
        global_batch=members["global_batch"].whole(),
        zero=members["zero"].whole(),
        cuts=tuple(members["cuts"].whole_numbers()),
        modes=tuple(item.text() for item in members["modes"].items()),
        ranks=tuple(
            tuple(one[name].whole() for name in RANK)
            for one in (item.members(RANK) for item in members["ranks"].items())
        ),
        memory=_rows(members["memory"]),
        starts=_rows(members["starts"]),
        sent=_rows(members["sent"]),
    )


def _rows(value: Value) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row.numbers()) for row in value.items())
