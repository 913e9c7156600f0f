"""Plans in files, ``mtpp-plan/1`` and ``/2``, as raw records: statements that are not checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from instances.certificates.claims import PLANNING, Envelope, check_question, envelope
from instances.certificates.provenance import check_written, opened
from instances.json_files import PLAN_FORMAT, TIMED_PLAN_FORMAT, Value
from instances.planning.problem import TrainingInstance
from instances.planning.question_file import question_document, question_from_document

__all__ = [
    "MOMENTS",
    "PROVENANCE",
    "QUESTION",
    "SHOWN",
    "StatedPlan",
    "StatedStage",
    "StatedTimeline",
    "plan_from_document",
    "timeline_from_document",
]

#: Members of every plan file that are there for people.
SHOWN = ("chain", "cluster", "key", "microbatches", "full_duplex", "memory", "stages")
#: Members that make a certificate of a plan file.
QUESTION = ("instance", "operations", "time", "bound", "ratio", "bounds")

#: Kinds of operations in ``starts`` and ``ends`` of a timed plan.
MOMENTS = ("forward", "backward", "weights", "send", "receive", "allreduce")
#: Where a timed plan comes from.
PROVENANCE = ("planner", "order_name", "seed", "time_limit", "version")

_TIMED = ("cuts", "devices", "recompute", "order", "starts", "ends", "peak_bytes")
_TIMED_SHOWN = ("chain", "cluster", "key")
_PASS = re.compile(r"(0|[1-9]\d{0,8})([FBIW])(0|[1-9]\d{0,8})")
_STAGE = ("layers", "devices", "forward", "backward", "allreduce")


@dataclass(frozen=True)
class StatedStage:
    """A stage as a file states it."""

    layers: tuple[str, ...]  # names of the first and the last one
    devices: tuple[str, ...]  # names of all of them
    forward: float  # seconds
    backward: float  # seconds
    allreduce: float  # seconds


@dataclass(frozen=True, kw_only=True)
class _StatedStages(Envelope):
    """Statements that all files of plans share: a question, stages, and claims that are not checked yet."""

    instance: TrainingInstance
    cuts: tuple[int, ...]
    devices: tuple[tuple[int, ...], ...]
    copies: dict[str, object]  # values of its question that the file repeats

    answer_name: ClassVar[str] = "plan"
    cost_name: ClassVar[str] = "time"


@dataclass(frozen=True, kw_only=True)
class StatedPlan(_StatedStages):
    """A plan as a file states it."""

    # In which order each stage and each channel works: "f" is forward, "b" backward.
    stage_orders: tuple[str, ...]
    channel_orders: tuple[str, ...]
    stages: tuple[StatedStage, ...]


def plan_from_document(document: Value) -> StatedPlan:
    """The plan of a file with its question.

    Raises
    ------
    InputError
        If this is no plan, it does not hold its question, or it names a field or a method that this project does not
        have; the message names the place.
    """
    document, stated_hash = opened(document, PLAN_FORMAT)
    check_question(document, QUESTION, "plan")
    fields = document.members(("format", "cuts", "devices", *SHOWN, *QUESTION))
    orders = fields["operations"].members(("stages", "channels"))
    instance = _question(fields["instance"], stated_hash)
    return StatedPlan(
        **envelope(fields, "time", PLANNING, stated_hash),
        instance=instance,
        cuts=tuple(fields["cuts"].whole_numbers()),
        devices=tuple(tuple(stage.whole_numbers()) for stage in fields["devices"].items()),
        stage_orders=tuple(orders["stages"].texts()),
        channel_orders=tuple(orders["channels"].texts()),
        stages=tuple(_stage(value) for value in fields["stages"].items()),
        copies={
            **_copies(fields, stated_hash),
            "microbatches": fields["microbatches"].whole(),
            "full_duplex": fields["full_duplex"].truth(),
            "memory": fields["memory"].optional_number(),
        },
    )


@dataclass(frozen=True, kw_only=True)
class StatedTimeline(_StatedStages):
    """A plan with all its times as a file states it."""

    recompute: tuple[bool, ...]
    # Passes of each group of devices in their order: a stage, a letter of "FBIW", and a microbatch.
    orders: tuple[tuple[tuple[int, str, int], ...], ...]
    # Of each kind of operation one row a stage, or channel, with one time a microbatch; None for what there is not.
    starts: dict[str, tuple[tuple[float | None, ...], ...]]
    ends: dict[str, tuple[tuple[float | None, ...], ...]]
    peaks: tuple[float, ...]  # bytes that a device of each group holds at most


def timeline_from_document(document: Value) -> StatedTimeline:
    """The timed plan of a file with its question.

    Raises
    ------
    InputError
        As `plan_from_document`.
    """
    document, stated_hash = opened(document, TIMED_PLAN_FORMAT)
    check_question(document, ("instance", "time", "bound", "ratio", "bounds"), "plan")
    certificate = tuple(name for name in QUESTION if name != "operations")
    fields = document.members(("format", *_TIMED, *_TIMED_SHOWN, *certificate), PROVENANCE)
    instance = _question(fields["instance"], stated_hash)
    if instance.network is None:
        fields["instance"].fail("a plan with all its times is one on shared network cards; its network is missing.")
    _check_provenance(fields)
    return StatedTimeline(
        **envelope(fields, "time", PLANNING, stated_hash),
        instance=instance,
        cuts=tuple(fields["cuts"].whole_numbers()),
        devices=tuple(tuple(stage.whole_numbers()) for stage in fields["devices"].items()),
        recompute=tuple(stage.truth() for stage in fields["recompute"].items()),
        orders=tuple(tuple(_pass(cell) for cell in order.items()) for order in fields["order"].items()),
        starts=_moments(fields["starts"]),
        ends=_moments(fields["ends"]),
        peaks=tuple(fields["peak_bytes"].numbers()),
        copies=_copies(fields, stated_hash),
    )


def _check_provenance(fields: dict[str, Value]) -> None:
    for name in PROVENANCE:
        if name in fields and name == "seed":
            fields[name].whole()
        elif name in fields and name == "time_limit":
            fields[name].optional_number()
        elif name in fields:
            fields[name].text()


def _question(value: Value, stated_hash: str | None) -> TrainingInstance:
    """The question, in newer files written as it is read."""
    instance = question_from_document(value)
    if stated_hash is not None:
        check_written(value, question_document(instance))
    return instance


def _copies(fields: dict[str, Value], stated_hash: str | None) -> dict[str, object]:
    """Parts of the question that the file repeats; names are no part of it in newer files."""
    if stated_hash is not None:
        return {"key": fields["key"].text()}
    return {name: fields[name].text() for name in _TIMED_SHOWN}


def _pass(cell: Value) -> tuple[int, str, int]:
    match = _PASS.fullmatch(cell.text())
    if match is None:
        cell.fail("this is no pass such as 0F3, the forward pass of microbatch 3 in stage 0.")
    return int(match[1]), match[2], int(match[3])


def _moments(value: Value) -> dict[str, tuple[tuple[float | None, ...], ...]]:
    return {
        name: tuple(tuple(moment.optional_number() for moment in row.items()) for row in rows.items())
        for name, rows in value.members(MOMENTS).items()
    }


def _stage(value: Value) -> StatedStage:
    fields = value.members(_STAGE)
    return StatedStage(
        layers=tuple(fields["layers"].texts()),
        devices=tuple(fields["devices"].texts()),
        forward=fields["forward"].number(),
        backward=fields["backward"].number(),
        allreduce=fields["allreduce"].number(),
    )
