"""Plans, with and without degrees of parallelism, as files state them; nothing is checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from instances.certificates import PLAN, TRAIN, Envelope, envelope, opened, stated_answer
from instances.json_files import Value
from instances.planning.grid.problem import GridInstance
from instances.planning.problem import TrainingInstance
from instances.records import By, Named

# Plans in files as raw records: statements that are not checked.


#: Kinds of operations in ``starts`` and ``ends`` of a timed plan.
MOMENTS = ("forward", "backward", "weights", "send", "receive", "allreduce")

#: For each kind of operation, a row for each stage or channel with a time for each microbatch; None where missing.
Moments = dict[str, tuple[tuple[float | None, ...], ...]]

_PASS = re.compile(r"(0|[1-9]\d{0,8})([FBIW])(0|[1-9]\d{0,8})")


def _pass(cell: Value) -> tuple[int, str, int]:
    """Stage, letter (F, B, …) and microbatch of a pass such as 0F3."""
    match = _PASS.fullmatch(cell.text())
    if match is None:
        cell.fail("this is no pass such as 0F3, the forward pass of microbatch 3 in stage 0.")
    return int(match[1]), match[2], int(match[3])


def _moments(value: Value) -> Moments:
    return {
        name: tuple(tuple(moment.optional_number() for moment in row.items()) for row in rows.items())
        for name, rows in value.members(MOMENTS).items()
    }


#: A pass as files have it, such as 0F3.
Cell = Annotated[tuple[int, str, int], By(_pass, lambda cell: "".join(map(str, cell)))]


class StatedStage(NamedTuple):
    """A stage as a file states it."""

    layers: tuple[str, ...]  # names of the first and the last one
    devices: tuple[str, ...]  # names of all of them
    forward: float  # time of a forward pass [s]
    backward: float  # time of a backward pass [s]
    allreduce: float  # time of the AllReduce [s]


class StatedOrders(NamedTuple):
    """Order of the operations of each stage and each channel: "f" is forward, "b" backward."""

    stages: tuple[str, ...]
    channels: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PlanMembers:
    """Members of the answer file of a plan on the paper's network."""

    cuts: tuple[int, ...]
    devices: tuple[tuple[int, ...], ...]
    operations: StatedOrders
    stages: tuple[StatedStage, ...]


@dataclass(frozen=True, kw_only=True)
class TimelineMembers:
    """Members of the answer file of a plan on shared network cards, with all times."""

    cuts: tuple[int, ...]
    devices: tuple[tuple[int, ...], ...]
    recompute: tuple[bool, ...]
    # Passes of each group of devices in their order: a stage, a letter of "FBIW", and a microbatch.
    orders: Annotated[tuple[tuple[Cell, ...], ...], Named("order")]
    starts: Annotated[Moments, By(_moments)]
    ends: Annotated[Moments, By(_moments)]
    peaks: Annotated[tuple[float, ...], Named("peak_bytes")]  # bytes that a device of each group holds at most


@dataclass(frozen=True, kw_only=True)
class StatedPlan(PlanMembers, Envelope):
    """A plan as a file states it."""

    instance: TrainingInstance

    answer_name: ClassVar[str] = "plan"


@dataclass(frozen=True, kw_only=True)
class StatedTimeline(TimelineMembers, Envelope):
    """A plan with all its times as a file states it."""

    instance: TrainingInstance

    answer_name: ClassVar[str] = "plan"


def plan_from_document(document: Value) -> StatedPlan | StatedTimeline:
    """The plan that a file states, with its question; with all its times if servers share network cards.

    Raises
    ------
    InputError
        If this is no plan, it does not hold its question, or it names a field or a method that this project does not
        have; the message names the place.
    """
    fields = opened(document, PLAN)
    instance, shared = TrainingInstance.of_document(fields["question"]), envelope(fields, PLAN)
    if instance.network is None:
        return StatedPlan(**shared, instance=instance, **vars(stated_answer(fields, PlanMembers)))
    return StatedTimeline(**shared, instance=instance, **vars(stated_answer(fields, TimelineMembers)))


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
