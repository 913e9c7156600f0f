"""Plans in files, ``mtpp-plan/1``, as raw records: what a file states, and nothing that is believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from instances.certificate_file import PLANNING, Envelope, check_question, envelope
from instances.json_files import PLAN_FORMAT, Value
from instances.planning.problem import TrainingInstance
from instances.planning.question_file import question_from_document

__all__ = ["QUESTION", "SHOWN", "StatedPlan", "StatedStage", "plan_from_document"]

#: Members of every plan file that are there for people.
SHOWN = ("chain", "cluster", "key", "microbatches", "full_duplex", "memory", "stages")
#: Members that make a certificate of a plan file.
QUESTION = ("instance", "operations", "time", "bound", "ratio", "bounds")

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
class StatedPlan(Envelope):
    """A plan as a file states it: a question, stages, and claims that nobody has checked yet."""

    instance: TrainingInstance
    cuts: tuple[int, ...]
    devices: tuple[tuple[int, ...], ...]
    # In which order each stage and each channel works: "f" is forward, "b" backward.
    stage_orders: tuple[str, ...]
    channel_orders: tuple[str, ...]
    stages: tuple[StatedStage, ...]
    copies: dict[str, object]  # what the file says once more of its question

    answer_name: ClassVar[str] = "plan"
    cost_name: ClassVar[str] = "time"

    @property
    def label(self) -> str:
        """Chain, cluster and setting."""
        return f"{self.instance.label}, key {self.instance.key}"


def plan_from_document(document: Value) -> StatedPlan:
    """The plan of a file with its question.

    Raises
    ------
    InputError
        If this is no plan, it does not hold its question, or it names a field or a method that this project does not
        have; the message names the place.
    """
    document.check_format(PLAN_FORMAT)
    check_question(document, QUESTION, "plan")
    fields = document.members(("format", "cuts", "devices", *SHOWN, *QUESTION))
    orders = fields["operations"].members(("stages", "channels"))
    return StatedPlan(
        **envelope(fields, "time", PLANNING),
        instance=question_from_document(fields["instance"]),
        cuts=tuple(fields["cuts"].whole_numbers()),
        devices=tuple(tuple(stage.whole_numbers()) for stage in fields["devices"].items()),
        stage_orders=tuple(orders["stages"].texts()),
        channel_orders=tuple(orders["channels"].texts()),
        stages=tuple(_stage(value) for value in fields["stages"].items()),
        copies={
            "chain": fields["chain"].text(),
            "cluster": fields["cluster"].text(),
            "key": fields["key"].text(),
            "microbatches": fields["microbatches"].whole(),
            "full_duplex": fields["full_duplex"].truth(),
            "memory": fields["memory"].optional_number(),
        },
    )


def _stage(value: Value) -> StatedStage:
    fields = value.members(_STAGE)
    return StatedStage(
        layers=tuple(fields["layers"].texts()),
        devices=tuple(fields["devices"].texts()),
        forward=fields["forward"].number(),
        backward=fields["backward"].number(),
        allreduce=fields["allreduce"].number(),
    )
