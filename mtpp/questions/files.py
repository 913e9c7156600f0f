"""Answers of files as results: costs are computed anew, bounds are only stated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from instances import Bound, InputError, Result
from instances.certificates.claims import Claim
from instances.certificates.provenance import accepted, older_format
from instances.flow.file import FLOW_CERTIFICATE, flow_from_document
from instances.json_files import (
    CERTIFICATE_FORMAT,
    PLACEMENT_FORMAT,
    PLAN_FORMAT,
    TIMED_PLAN_FORMAT,
    Value,
)
from instances.partitioning.answer_file import AnswerFile
from instances.partitioning.kinds.answer import kinds_partition
from instances.partitioning.kinds.file import KINDS_CERTIFICATE, kinds_from_document
from instances.partitioning.stated import certificate_from_document
from instances.placement.stated import ORDERED_FORMAT, placement_from_document
from instances.planning.grid.stated import GRID_FORMAT, grid_from_document
from instances.results import STATED, exceeds

if TYPE_CHECKING:
    from instances.planning import Plan

__all__ = ["format_of", "plan_of_document", "result_of_document"]


def format_of(document: Value) -> str | None:
    """The format that a document names, of two that hold the same the older one; None if it names none."""
    named = document.open_members(()).get("format")
    return older_format(named.data) if named is not None and isinstance(named.data, str) else None


def result_of_document(document: Value) -> Result[Any, Any] | None:
    """The answer of a file that holds its question; None if the file holds no question.

    Raises
    ------
    InputError
        If the file is refused, or states a bound above the cost of its answer.
    """
    reader = _READERS.get(format_of(document) or "")
    return None if reader is None else reader(document)


def _certificate(document: Value) -> Result[Any, Any]:
    certificate = certificate_from_document(document)
    partition = None
    if certificate.impossible is not None:
        return Result("read", certificate.instance, impossible=f"{certificate.impossible.reason}, as the file states")
    if certificate.partition is not None:
        partition, _ = AnswerFile.of(document).certified()
    return _result(document, certificate.instance, partition, certificate.claims)


def _kinds(document: Value) -> Result[Any, Any]:
    certificate = kinds_from_document(document)
    if certificate.impossible is not None:
        return Result("read", certificate.instance, impossible=f"{certificate.impossible}, as the file states")
    return _result(document, certificate.instance, kinds_partition(document), certificate.claims)


def _placement(document: Value) -> Result[Any, Any]:
    from instances.placement.placement import OrderedPlacement, Placement

    stated = placement_from_document(document)
    device = list(stated.device)
    try:
        placement = Placement(stated.instance, device)
        if stated.device_order is not None and stated.bus_order is not None:
            placement = OrderedPlacement(stated.instance, device, stated.device_order, stated.bus_order)
    except InputError as error:
        document.fail(str(error))
    return _result(document, stated.instance, placement, stated.claims)


def _timeline(document: Value) -> Result[Any, Any]:
    from heuristics.planning.orders import execute_orders
    from instances.planning import Iteration
    from instances.planning.operations import KINDS
    from instances.planning.stated import timeline_from_document

    stated, plan = timeline_from_document(document), plan_of_document(document)
    orders = tuple(tuple((KINDS.index(letter), n, m) for n, letter, m in order) for order in stated.orders)
    try:
        timeline = execute_orders(plan, orders)
    except InputError as error:
        document.fail(str(error))
    return _result(document, stated.instance, Iteration(stated.instance, (timeline,)), stated.claims)


def _paper_plan(document: Value) -> Result[Any, Any]:
    """The plan, run in the order of passes that the file states."""
    from heuristics.planning.execution import execute
    from instances.planning import Iteration
    from instances.planning.plan_files import operations_document
    from instances.planning.stated import plan_from_document

    stated, plan = plan_from_document(document), plan_of_document(document)
    warmup = [len(order) - len(order.lstrip("f")) for order in stated.stage_orders]
    try:
        schedule = execute(plan, np.array(warmup))
    except InputError as error:
        document.fail(str(error))
    made = operations_document(schedule)
    if made != {"stages": list(stated.stage_orders), "channels": list(stated.channel_orders)}:
        document.fail("its passes are in an order that no planner makes; verify or export it.")
    return _result(document, stated.instance, Iteration(stated.instance, (schedule,)), stated.claims)


def plan_of_document(document: Value) -> Plan:
    """The stages and devices of a plan file with its question.

    Raises
    ------
    InputError
        If it is refused.
    """
    from instances.planning import Plan
    from instances.planning.stated import plan_from_document, timeline_from_document

    document.check_format(*accepted(PLAN_FORMAT, TIMED_PLAN_FORMAT))
    timed = format_of(document) == TIMED_PLAN_FORMAT
    stated = timeline_from_document(document) if timed else plan_from_document(document)
    try:
        return Plan(stated.instance, stated.cuts, stated.devices, getattr(stated, "recompute", ()))
    except InputError as error:
        document.fail(str(error))


def _grid(document: Value) -> Result[Any, Any]:
    from instances.planning.grid.grid_file import plan_of

    stated = grid_from_document(document)
    try:
        plan = plan_of(stated)
    except InputError as error:
        document.fail(str(error))
    return _result(document, stated.instance, plan, stated.claims)


def _flow(document: Value) -> Result[Any, Any]:
    from instances.flow.answer import FlowAnswer

    stated = flow_from_document(document)
    try:
        answer = None if stated.interval is None else FlowAnswer(stated.instance, stated.interval)
    except InputError as error:
        document.fail(str(error))
    return _result(document, stated.instance, answer, stated.claims)


def _result(document: Value, instance: Any, answer: Any, claims: Sequence[Claim]) -> Result[Any, Any]:
    best = max(claims, key=lambda claim: claim.value, default=None)
    bound = None
    if best is not None:
        if answer is not None and exceeds(best.value, answer.cost):
            document.fail(f"the bound {best.value:.6g} of {best.method} is above the cost; it is false.")
        bound = Bound(best.value, STATED, optimal=False, witness={"by": best.method})
    return Result("read", instance, answer, bound)


_READERS: dict[str, Callable[[Value], Result[Any, Any]]] = {
    CERTIFICATE_FORMAT: _certificate,
    PLAN_FORMAT: _paper_plan,
    TIMED_PLAN_FORMAT: _timeline,
    GRID_FORMAT: _grid,
    KINDS_CERTIFICATE: _kinds,
    FLOW_CERTIFICATE: _flow,
    PLACEMENT_FORMAT: _placement,
    ORDERED_FORMAT: _placement,
}
