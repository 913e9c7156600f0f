"""Plans as files state them; nothing is checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from instances.certificates import PLAN, Envelope, envelope, opened, stated_answer
from instances.json_files import Value
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
    cost_name: ClassVar[str] = "time"


@dataclass(frozen=True, kw_only=True)
class StatedTimeline(TimelineMembers, Envelope):
    """A plan with all its times as a file states it."""

    instance: TrainingInstance

    answer_name: ClassVar[str] = "plan"
    cost_name: ClassVar[str] = "time"


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
