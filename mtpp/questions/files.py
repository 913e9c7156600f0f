"""Answers given as objects, or as files whose costs are computed anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from instances import Bound, InputError, Instance, Partition, Result
from instances.certificates import STATED, Claim
from instances.errors import printable, said, word
from instances.flow.problem import flow_from_document
from instances.json_files import Value
from instances.partitioning.partition_file import AnswerFile, read_partition, served_cut, stated_partition
from instances.partitioning.serving import ServedPartition, ServingInstance
from instances.partitioning.stated import certificate_from_document, serving_from_document
from instances.placement.problem import StatedPlacement, placement_from_document
from instances.planning import Iteration, Plan
from instances.planning.grid.plan import GridPlan, plan_of
from instances.planning.operations import KINDS
from instances.planning.stated import grid_from_document
from instances.readers import is_model
from instances.records import written
from instances.results import exceeds
from instances.serving.answer import answer_of
from instances.serving.problem import deployment_from_document
from mtpp.questions.partitioning import PartitioningWords, platform_of, rules_of, runtime_of
from mtpp.questions.reading import ReadingWords, read_graph
from mtpp.questions.words import GraphLike, chosen, pick

if TYPE_CHECKING:
    from instances.placement.placement import Placement
    from instances.planning.stated import StatedPlan, StatedTimeline

# Answers that are given: as objects, or as files whose costs are computed anew.


#: A partition, what is proved of one, or a file.
PartitionLike: TypeAlias = "Partition | Result | str | PathLike[str]"


def refuse_model(file: str | PathLike[str]) -> None:
    """Refuse a model where the file or folder of an answer is expected.

    Raises
    ------
    InputError
        With the command that writes an answer.
    """
    if is_model(fspath(file)):
        name, out = printable(fspath(file)), said("out", "answer.json")
        raise InputError(f"{name}: this is a model, no answer; certify it with {out}, which writes one.")


def as_partition(start: Partition | Result | str | PathLike[str] | None, instance: Instance) -> Partition | None:
    """A partition for a question, given as an object, a result or a file.

    Raises
    ------
    InputError
        If the object or file holds no partition, or the partition is of another question.
    """
    if not isinstance(start, str | PathLike):
        return given_partition(start)
    refuse_model(start)
    return read_partition(fspath(start), instance)


def refuse_another(holder: str, graph: GraphLike | None, kind: type[Mapping[str, Any]], words: Any) -> None:
    """Raise an `InputError` for a graph and keyword arguments of `kind` beside what holds its question."""
    others = [*(["the graph"] if graph is not None else []), *map(word, chosen(kind, words))]
    if others:
        raise InputError(f"{holder} holds its question; leave out {', '.join(others)}.")


def given_partition(start: Partition | Result | None) -> Partition | None:
    """A partition given as an object or as a result.

    Raises
    ------
    InputError
        If the result holds no partition, or the object is neither.
    """
    if isinstance(start, Result):
        if start.partition is None:
            raise InputError(f"{start.method} found no partition to start from; give one, or leave it out.")
        return start.partition
    if start is not None and not isinstance(start, Partition):
        raise InputError(f"A partition, a result or a file is needed here, no {type(start).__name__}.")
    return start


def partition_of_file(
    file: str, answer: AnswerFile, graph: GraphLike | None, words: PartitioningWords, again: str
) -> tuple[Partition, tuple[Claim, ...]]:
    """The partition of a file, and the bounds that it states.

    Parameters
    ----------
    file : str
        Name of the file, for messages.
    answer : AnswerFile
    graph : GraphLike, optional
        Graph of the partition; not for a certificate, which holds its graph.
    words : PartitioningWords
        Keyword arguments of the question, which replace values in the file.
    again : str
        How to name the graph, for messages.

    Raises
    ------
    InputError
        If graph or keyword arguments are missing, of no use or refused.
    """
    if answer.holds_graph:
        refuse_another(f"{file}: a certificate", graph, PartitioningWords, words)
        return answer.certified()
    if words["devices"] is not None:
        raise InputError(f"{file}: its blocks have no kinds of devices; leave {word('devices')} out.")
    if graph is None:
        raise InputError(f"{file}: it does not hold its graph; name that: {again}")
    loaded = graph.graph if isinstance(graph, Instance) else read_graph(graph, pick(ReadingWords, words))
    if words["runtime"] is not None and answer.graph_hash not in (None, loaded.content_hash):
        loaded = runtime_of(words["runtime"]).seen(loaded)
    costs, rules = words["communication"] == "cost", words["constraints"]

    def platform(k: int, stated: Mapping[str, float | None]) -> Any:
        return platform_of(loaded, k, words, stated, costs=costs)

    partition = answer.partition(loaded, platform, None if rules is None else rules_of(rules, loaded))
    return partition, ()


# Answers of files as results: costs are computed anew, bounds are only stated.


def read_certificate(document: Value) -> Result[Any, Any]:
    """The partition of a certificate, as a result."""
    certificate = certificate_from_document(document)
    if certificate.impossible is not None:
        return Result("read", certificate.instance, impossible=f"{certificate.impossible.reason}, as the file states")
    with document.refusing():
        partition = stated_partition(certificate)
    return _result(document, certificate.instance, partition, certificate.claims)


def read_placement(document: Value) -> Result[Any, Any]:
    """The placement of a certificate, as a result."""
    return _read(document, placement_from_document, placement_of)


def placement_of(stated: StatedPlacement) -> Placement:
    """The placement that a file states, with its orders if it states them; an `InputError` if it is none."""
    from instances.placement.placement import OrderedPlacement, Placement

    device = list(stated.device)
    if stated.device_order is None or stated.bus_order is None:
        return Placement(stated.instance, device)
    return OrderedPlacement(stated.instance, device, stated.device_order, stated.bus_order)


def read_plan(document: Value) -> Result[Any, Any]:
    """The plan of a file, simulated with its order of passes."""
    from heuristics.planning.execution import execute
    from heuristics.planning.orders import execute_orders
    from instances.planning.plan_files import operations_document
    from instances.planning.stated import StatedPlan, plan_from_document

    stated = plan_from_document(document)
    plan = _plan_of(document, stated)
    with document.refusing():
        if isinstance(stated, StatedPlan):
            warmup = [len(order) - len(order.lstrip("f")) for order in stated.operations.stages]
            timeline = execute(plan, np.array(warmup))
            if operations_document(timeline) != written(stated.operations):
                document.fail("its passes are in an order that no planner makes; verify or export it.")
        else:
            orders = tuple(tuple((KINDS.index(letter), n, m) for n, letter, m in order) for order in stated.orders)
            timeline = execute_orders(plan, orders)
    return _result(document, stated.instance, Iteration(stated.instance, (timeline,)), stated.claims)


def _plan_of(document: Value, stated: StatedPlan | StatedTimeline) -> Plan:
    with document.refusing():
        return Plan(stated.instance, stated.cuts, stated.devices, getattr(stated, "recompute", ()))


def read_grid(document: Value) -> Result[Any, Any]:
    """The plan for a global batch of a file, as a result."""
    return _read(document, grid_from_document, plan_of)


def read_flow(document: Value) -> Result[Any, Any]:
    """The flow of a certificate, as a result."""
    from instances.flow.answer import FlowAnswer

    stated = flow_from_document(document)
    with document.refusing():
        number = {name: x for x, group in enumerate(stated.groups) for name in group.sequences}
        group = [number.get(name, 0) for name in stated.instance.devices]
        answer = None if stated.interval is None else FlowAnswer(stated.instance, stated.interval, group)
    return _result(document, stated.instance, answer, stated.claims)


def _read(document: Value, state: Callable[[Value], Any], make: Callable[[Any], Any]) -> Result[Any, Any]:
    """The answer of a file, as a result: `state` reads what the file states, and `make` the answer of that."""
    stated = state(document)
    with document.refusing():
        answer = make(stated)
    return _result(document, stated.instance, answer, stated.claims)


def _result(document: Value, instance: Any, answer: Any, claims: Sequence[Claim]) -> Result[Any, Any]:
    best = max(claims, key=lambda claim: claim.value, default=None)
    bound = None
    if best is not None:
        if answer is not None and exceeds(best.value, answer.cost):
            document.fail(f"the bound {best.value:.6g} of {best.method} is above the cost; it is false.")
        bound = Bound(best.value, STATED, optimal=False, witness={"by": best.method})
    return Result("read", instance, answer, bound)


def read_front(document: Value) -> Result[Any, Any]:
    """The front of a file; costs and contexts are computed anew."""
    from instances.runtimes.serving_front import Front

    stated = serving_from_document(document)
    if not 0 <= stated.chosen < len(stated.front):
        document.fail(f"there is no cut {stated.chosen} among {len(stated.front)}.")
    with document.refusing():
        numbers = stated.token_bytes, stated.window, stated.context, stated.batch
        question = ServingInstance(stated.instance, *numbers, stated.source, stated.in_flight)
        points = tuple(ServedPartition(question, served_cut(stated.instance, point)) for point in stated.front)
        front = Front(question, points, points[stated.chosen], stated.runtime)
    return Result("read", question, front)


def read_deployment(document: Value) -> Result[Any, Any]:
    """The deployment of a file; its numbers are computed anew."""
    return _read(document, deployment_from_document, lambda stated: answer_of(stated.instance, stated.answer))


def cut_of_deployment(document: Value) -> tuple[Any, str | None]:
    """The deployment of a file, and its best bound in words."""
    result = read_deployment(document)
    if result.bound is None:
        return result.answer, None
    if result.instance.objective == "cost":
        return result.answer, f"no deployment gives 1e6 tokens for less than {result.bound.value * 1e6:.4g}"
    return result.answer, f"at most {1 / result.bound.value:.6g} tokens/s"


def cut_of_certificate(document: Value) -> tuple[Partition, str | None]:
    """The partition of a certificate, and its best bound in words."""
    partition, claims = AnswerFile.of(document).certified()
    return partition, _bound_in_words(partition.instance, claims)


def cut_of_front(document: Value) -> tuple[ServedPartition, str | None]:
    """The chosen cut of a serving front, and the front's claim about all cuts, in words."""
    front = read_front(document).answer
    assert front is not None
    return front.chosen, "no cut is faster and holds more context"


def cut_of_plan(document: Value) -> tuple[Plan, str | None]:
    """The plan of a file, without its schedule, and the file's best bound in words."""
    from instances.planning.stated import plan_from_document

    stated = plan_from_document(document)
    return _plan_of(document, stated), _bound_in_words(stated.instance, stated.claims)


def cut_of_grid(document: Value) -> tuple[GridPlan, str | None]:
    """The plan for a global batch, and its best bound in words."""
    plan = read_grid(document).answer
    assert plan is not None
    return plan, _bound_in_words(plan.instance, grid_from_document(document).claims)


def no_cut(document: Value) -> tuple[Any, str | None]:
    """Refuse a file whose answer is not a cut into stages, by an `InputError`."""
    document.fail("this holds no cut into stages; give a partition or a plan.")


def _bound_in_words(question: Any, claims: Sequence[Claim]) -> str | None:
    if not claims:
        return None
    best = max(claims, key=lambda claim: claim.value)
    return f"no answer takes less than {best.value:.6g} {question.time_unit}, by {best.method}"
