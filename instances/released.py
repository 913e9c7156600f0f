"""Answer files of version 0.2.0 as documents of today; they go with the next minor version.

Whatever these files repeat of their question is dropped. No hash binds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from instances.certificates import ANSWER_FORMAT, PARTITION, PLACE, PLAN, SERVE, bound_members
from instances.json_files import Value

#: Formats that no release has written, and the verbs that write such files anew.
_UNRELEASED = {
    **dict.fromkeys(("mtpp-certificate/2", "mtpp-kinds/1", "mtpp-kinds/2"), "certify"),
    **dict.fromkeys(("mtpp-plan/3", "mtpp-plan/4"), "plan"),
    **dict.fromkeys(("mtpp-plan/5", "mtpp-plan/6"), "train"),
    **dict.fromkeys(("mtpp-placement/3", "mtpp-placement/4"), "place"),
    **dict.fromkeys(("mtpp-flow/1", "mtpp-flow/2"), "flow"),
    "mtpp-serving/2": "serve",
}
_BOUND = ("method", "value", "parameters", "recheck")
_ORIGIN = ("optimal", "solver", "version", "seconds")
_CERTIFIED = ("instance", "bound", "ratio", "bounds")


def current(document: Value) -> Value:
    """The document as it is, or in the format of today where version 0.2.0 wrote it.

    Raises
    ------
    InputError
        If its format has never been released, or it lacks what it needs; the message names the place.
    """
    named = document.data.get("format") if isinstance(document.data, dict) else None
    if not isinstance(named, str):
        return document
    if named in _UNRELEASED:
        document.fail(f"{named} was never released; write it anew with mtpp {_UNRELEASED[named]}.")
    if named not in _RELEASED:
        return document
    return Value(_RELEASED[named](document), document.file, document.path)


def _certificate(document: Value) -> dict[str, Any]:
    """Of ``mtpp-certificate/1``."""
    fields = document.members(("format", "partition", "bottleneck", *_CERTIFIED), ("version", "impossible", "steps"))
    question = _partitioning(fields["instance"])
    answer = fields["partition"].data
    if answer is not None:
        answer = _some(fields["partition"], ("block", "order", "stages", "costs", "crossing"))
    document_of_today = _answer(PARTITION, fields, question, answer, "bottleneck")
    impossible = fields["impossible"].data if "impossible" in fields else None
    if isinstance(impossible, str):
        impossible = {"reason": impossible, "proof": None}
    return document_of_today | {"impossible": impossible}


def _partition(document: Value) -> dict[str, Any]:
    """Of ``mtpp-partition/1``, as a partition by hand."""
    names = ("block", "order", "k", "graph", "graph_hash", "bandwidth", "memory", "activation_buffer")
    shown = ("format", "bottleneck", "stages", "costs", "crossing")
    fields = document.members(("format", "block", "k"), (*names, *shown, "fit", "constraints"))
    return {name: item.data for name, item in fields.items() if name not in shown}


def _plan(document: Value) -> dict[str, Any]:
    """Of ``mtpp-plan/1``."""
    return _planned(document, ("cuts", "devices", "operations", "stages"))


def _timeline(document: Value) -> dict[str, Any]:
    """Of ``mtpp-plan/2``."""
    return _planned(document, ("cuts", "devices", "recompute", "order", "starts", "ends", "peak_bytes"))


def _planned(document: Value, answer: tuple[str, ...]) -> dict[str, Any]:
    """Of a plan, whose answer has these members."""
    fields = document.open_members((*_CERTIFIED, "time", *answer))
    return _answer(PLAN, fields, fields["instance"].data, {name: fields[name].data for name in answer}, "time")


def _placement(document: Value) -> dict[str, Any]:
    """Of ``mtpp-placement/1`` and ``/2``."""
    fields = document.open_members((*_CERTIFIED, "device", "sequence", "peak_memory", "nodes", "step_time"))
    names = ("device", "sequence", "peak_memory", "nodes", "device_order", "bus_order")
    answer = {name: fields[name].data for name in names if name in fields}
    return _answer(PLACE, fields, fields["instance"].data, answer, "step_time")


def _serving(document: Value) -> dict[str, Any]:
    """Of ``mtpp-serving/1``, whose cost is that of its first cut."""
    fields = document.members(("format", "instance", "front", "answer", "runtime", "words"))
    served = ("token_bytes", "window", "context", "batch")
    question = fields["instance"].open_members((*served, "need", "graph"))
    chain = Value({name: item.data for name, item in question.items() if name not in served}, document.file)
    first = fields["front"].items()[:1]
    cost = first[0].open_members(("bottleneck",))["bottleneck"].data if first else None
    answer = {"chosen": fields["answer"].data, **{name: fields[name].data for name in ("front", "runtime", "words")}}
    chained = {"chain": _partitioning(chain) | {"by_need": True}, **{name: question[name].data for name in served}}
    sums: dict[str, Any] = {"bound": None, "ratio": None, "bounds": [], "cost": cost}
    return _answer(SERVE, {name: Value(item, document.file) for name, item in sums.items()}, chained, answer, "cost")


def _partitioning(instance: Value) -> dict[str, Any]:
    """A question of partitioning."""
    fields = instance.open_members(("graph",))
    question = {name: item.data for name, item in fields.items() if name != "graph_hash"}
    if "constraints" in fields:
        rules = {name: item.data for name, item in fields["constraints"].open_members(()).items()}
        for name, row in (("windows", _windows), ("at_least", _counts)):
            if name in rules:
                items = fields["constraints"].open_members(())[name].items()
                rules[name] = [line for item in items for line in row(item)]
        question["constraints"] = rules
    return question


def _windows(item: Value) -> list[list[Any]]:
    fields = item.members(("nodes", "first", "last"))
    return [[v.data, fields["first"].data, fields["last"].data] for v in fields["nodes"].items()]


def _counts(item: Value) -> list[list[Any]]:
    fields = item.members(("count", "nodes"))
    return [[fields["count"].data, fields["nodes"].data]]


def _some(value: Value, names: tuple[str, ...]) -> dict[str, Any]:
    """Some members of an object."""
    fields = value.open_members(names)
    return {name: fields[name].data for name in names}


def _answer(problem: str, fields: dict[str, Value], question: Any, answer: Any, cost: str) -> dict[str, Any]:
    """A document of today."""
    return {
        "format": ANSWER_FORMAT,
        "problem": problem,
        "question_hash": None,
        "question": question,
        "answer": answer,
        "cost": fields[cost].data,
        "bound": fields["bound"].data,
        "ratio": fields["ratio"].data,
        "bounds": [_bound(item, problem) for item in fields["bounds"].items()],
        "impossible": None,
        "provenance": {},
    }


def _bound(item: Value, problem: str) -> dict[str, Any]:
    """A bound of today."""
    fields = item.members(_BOUND, _ORIGIN)
    witness = {name: value.data for name, value in fields["parameters"].open_members(()).items()}
    if "proof" in witness:
        witness["proof"] = _bound(fields["parameters"].open_members(())["proof"], problem)
    origin = {name: fields[name].data for name in _ORIGIN[1:] if name in fields}
    return bound_members(fields["method"].text(), fields["value"].data, witness, problem, **origin)


_RELEASED: dict[str, Callable[[Value], dict[str, Any]]] = {
    "mtpp-certificate/1": _certificate,
    "mtpp-partition/1": _partition,
    "mtpp-plan/1": _plan,
    "mtpp-plan/2": _timeline,
    "mtpp-placement/1": _placement,
    "mtpp-placement/2": _placement,
    "mtpp-serving/1": _serving,
}
