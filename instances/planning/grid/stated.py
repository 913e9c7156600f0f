"""Plans with degrees as files state them; nothing is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from instances.certificates import TRAIN, Envelope, envelope, opened, stated_answer
from instances.json_files import Value
from instances.planning.grid.problem import GridInstance
from instances.records import Named

# Plans with degrees of parallelism as raw records: statements of a file, none of them checked.


class Rank(NamedTuple):
    """A device in use: its server, number there, stage, and index in each degree."""

    rank: int
    server: int
    gpu: int  # its number there
    stage: int
    tp: int
    cp: int
    dp: int


class Degrees(NamedTuple):
    """Numbers of groups of devices, of devices that share a layer, and of equal pipelines."""

    pp: int
    tp: tuple[int, ...]  # of each group
    cp: int
    ep: int
    dp: int
    v: int


@dataclass(frozen=True, kw_only=True)
class GridMembers:
    """Members of the answer of a file with a plan."""

    degrees: Annotated[Degrees, Named("grid")]
    micro_batch: int
    zero: int
    cuts: tuple[int, ...]
    modes: tuple[str, ...]
    ranks: tuple[Rank, ...]
    memory: tuple[tuple[float, ...], ...]
    starts: tuple[tuple[float, ...], ...]
    sent: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, kw_only=True)
class StatedGrid(GridMembers, Envelope):
    """A plan as a file states it; only the types of values and the question are checked."""

    answer_name: ClassVar[str] = "plan"
    cost_name: ClassVar[str] = "time"

    instance: GridInstance

    @property
    def groups(self) -> int:
        """Number of groups of devices."""
        return self.degrees.pp

    @property
    def tensor(self) -> tuple[int, ...]:
        """Tensor degree of each group."""
        return self.degrees.tp

    @property
    def context(self) -> int:
        """Number of devices that share a sequence."""
        return self.degrees.cp

    @property
    def expert(self) -> int:
        """Number of devices among which experts are divided."""
        return self.degrees.ep

    @property
    def pipelines(self) -> int:
        """Number of equal pipelines."""
        return self.degrees.dp

    @property
    def turns(self) -> int:
        """Number of stages of each device."""
        return self.degrees.v


def grid_from_document(document: Value) -> StatedGrid:
    """Read a plan file.

    Raises
    ------
    InputError
        If it is no plan file, or lacks its question; the message names the place.
    """
    fields = opened(document, TRAIN)
    question = GridInstance.of_document(fields["question"])
    return StatedGrid(**envelope(fields, TRAIN), instance=question, **vars(stated_answer(fields, GridMembers)))
