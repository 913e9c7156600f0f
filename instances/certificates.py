"""Files of answers, ``mtpp-answer/1``, as raw records: statements about an answer, none of them checked."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from instances.json_files import ANSWER_FORMAT, Value, finite_or_none
from instances.records import read

# Certificates as raw records: statements of a file about its answer, none of them checked.
#
# `Envelope` is what the files of all problems have: a question, an answer to it, and bounds. The members `provenance`
# of the file and of each bound say where they come from; nothing there is checked.


#: Solvers that a certificate may name; others could be programs of a stranger.
SOLVER_NAMES = ("highs", "scip", "gurobi", "cbc", "glpk", "cplex", "xpress", "cp-sat")

#: The problems; each has its own methods for bounds, and partitions over several kinds of devices have others.
PARTITION, KINDS, PLAN, TRAIN, PLACE, FLOW, SERVE = "partition", "kinds", "plan", "train", "place", "flow", "serve"
DEPLOY = "deploy"

#: Kind of check for the bounds of each method; those of solvers are trusted.
_RECHECKS = {
    PARTITION: {
        "simple": "formula",
        "pinned": "minimum cuts",
        "levels": "program",
        "pigeonhole": "minimum cuts",
        "ideals": "ideals",
        "carried": "trusted",
        "bisection": "trusted",
        "priced": "trusted",
        "priced-quick": "trusted",
    },
    # Partitions over kinds of devices.
    KINDS: {
        "simple": "formula",
        "pinned": "minimum cuts",
        "levels": "program",
        "ideals": "ideals",
        "priced": "trusted",
    },
    FLOW: dict.fromkeys(("shared-layers", "ends"), "formula")
    | {"enumeration": "enumeration", "ticks": "brackets", "prices": "prices"}
    | dict.fromkeys(("patterns", "patterns-with-links", "patterns-with-hubs"), "patterns"),
    DEPLOY: {"device-seconds": "formula", "chains": "boxes"},
    PLAN: {"z-any-order": "trusted", "z-fixed": "program", "z-split": "program", "work-any": "formula"},
    TRAIN: {"z-grid": "program", "turns-grid": "program", "apart-grid": "program", "work-grid": "formula"},
    PLACE: {
        "simple": "formula",
        "heads": "heads and tails",
        "windows": "heads and tails",
        "energetic": "heads and tails",
        "colocation": "heads and tails",
        "place-exact": "trusted",
        "place-cp": "trusted",
    },
}
# Bounds by prices, and the member without which they are trusted.
_BY_PRICES, _TREE = ("bisection", "priced", "priced-quick"), "tree"
_PART = "(cuts|windows|conflicts|joins|cutoff)"
_PARTS = rf"\+(all(-{_PART})*|{_PART}(\+{_PART})*)"
_OF_SOLVERS = {
    PARTITION: re.compile(
        rf"(bottleneck(-no-dag|-no-cut-io)?|guess-the-bottleneck(-tight)?|(exact|coarse-2|coarse-4)({_PARTS})?)(:lp)?"
    ),
    KINDS: re.compile(r"(bottleneck(-no-dag|-no-cut-io)?|exact)(:lp)?"),
}

#: Method of a bound that somebody states and nothing here has proved; it makes no answer optimal.
STATED = "stated"
_PRICE_TREE = ("prices", "tree", "multipliers", "apart")
#: Parameters of a bound, those that the check of its method reads.
WITNESSES: dict[str, tuple[str, ...]] = {
    "simple": ("shares",),
    "patterns": ("weights", "second"),
    "patterns-with-links": ("weights", "second"),
    "patterns-with-hubs": ("weights", "hubs"),
    "ticks": ("groups",),
    "prices": ("devices", "links"),
    "pinned": ("nodes",),
    "levels": ("nodes", "turn"),
    "pigeonhole": ("nodes",),
    "ideals": ("swaps",),
    "carried": ("from_k", "value", "proof"),
    "bisection": _PRICE_TREE[1:],
    "priced": (*_PRICE_TREE, "shares"),
    "priced-quick": _PRICE_TREE,
    "chains": ("chains", "prompts"),
    "heads": ("heads", "tails", "nodes"),
    "windows": ("heads", "tails", "window"),
    "energetic": ("heads", "tails", "horizon", "interval"),
    "colocation": ("heads", "tails", "horizon", "interval"),
}
_CLAIM = ("method", "value", "parameters", "recheck")
_MEMBERS = (
    *("format", "problem", "question_hash", "question", "answer"),
    *("cost", "bound", "ratio", "bounds", "impossible", "provenance"),
)


def recheck(method: str, problem: str = PARTITION, witness: Collection[str] = ()) -> str | None:
    """How a bound of this method is checked: "formula", "minimum cuts", "price tree", "ideals", …, or "trusted".

    `witness` names the members of the bound's witness. None where the problem has no such method; bounds on problems
    that are not of this project are trusted.
    """
    if method == STATED or (problem in _OF_SOLVERS and _OF_SOLVERS[problem].fullmatch(method)):
        return "trusted"
    if problem == PARTITION and method in _BY_PRICES and _TREE in witness:
        return "price tree"
    return _RECHECKS[problem].get(method) if problem in _RECHECKS else "trusted"


def has_bounds(problem: str) -> bool:
    """Whether answer files of a problem hold bounds; those of serving fronts do not need any."""
    return problem != SERVE


@dataclass(frozen=True)
class Claim:
    """A bound as a file states it."""

    place: str  # in the file, such as ``bounds[2]``
    method: str  # one that this project has
    value: float  # in the time unit of the work
    parameters: Value  # data for its check, such as the nodes that the bound rests on
    solver: str | None  # the solver that proved it, one of `SOLVER_NAMES`
    version: str | None  # version of the solver
    recheck: str  # stated kind of check
    kind: str  # true kind of check


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """Statements that certificates of all problems share: question, cost of the answer, bounds."""

    file: str
    instance: Any  # the question
    cost: float | None  # cost of the answer
    bound: float | None  # the best of the bounds
    ratio: float | None  # cost over bound
    claims: tuple[Claim, ...]  # one for each bound
    question_hash: str  # as the file states it

    #: Word for the answer.
    answer_name: ClassVar[str]

    @property
    def cost_name(self) -> str:
        """Noun of the cost of the answer."""
        return str(self.instance.cost_name)

    @property
    def true_hash(self) -> str:
        """Hash of the question."""
        return str(self.instance.question_hash)

    @property
    def question_words(self) -> str:
        """The question in one line, with sizes and digests but no names of graph, nodes or devices."""
        return str(self.instance.question_words)

    @property
    def label(self) -> str:
        """Name of the question, which its author chose."""
        return str(self.instance.label)


def answer_document(
    question: Any,
    answer: Mapping[str, Any] | None,
    cost: float | None,
    bounds: Sequence[Mapping[str, Any]] = (),
    bound: float | None = None,
    ratio: float | None = None,
    impossible: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The file of an answer to a question, or of bounds on all answers, as JSON; infinite numbers are null."""
    return {
        "format": ANSWER_FORMAT,
        "problem": question.problem,
        "question_hash": question.question_hash,
        "question": question.document(),
        "answer": answer,
        "cost": None if cost is None else finite_or_none(cost),
        "bound": bound,
        "ratio": None if ratio is None else finite_or_none(ratio),
        "bounds": list(bounds),
        "impossible": impossible,
        "provenance": provenance or {},
    }


def opened(document: Value, problem: str) -> dict[str, Value]:
    """Members of an answer file, after a check that it answers a question of this problem.

    Raises
    ------
    InputError
        If it is no such file; the message names the place.
    """
    document.check_format(ANSWER_FORMAT)
    fields = document.members(_MEMBERS)
    if fields["problem"].text() != problem:
        fields["problem"].fail(f"it answers a question of {fields['problem'].data!r}; give one of {problem!r}.")
    if problem != PARTITION and fields["impossible"].data is not None:
        fields["impossible"].fail("files of this problem hold no such proof; leave null there.")
    fields["provenance"].open_members(())
    return fields


Stated = TypeVar("Stated")


def stated_answer(fields: Mapping[str, Value], kind: type[Stated], **sizes: int) -> Stated:
    """The record of an answer; an `InputError` if the file has none."""
    if fields["answer"].data is None:
        fields["answer"].fail("there is none, so that there is nothing to check.")
    return read(fields["answer"], kind, **sizes)


def envelope(fields: Mapping[str, Value], problem: str) -> dict[str, Any]:
    """Parameters of an `Envelope` from the members of a file other than the question; `problem` as for `recheck`.

    Raises
    ------
    InputError
        As `read_claim`, and if cost, bound or ratio is not a number.
    """
    return {
        "file": fields["bounds"].file,
        **{name: fields[name].optional_number() for name in ("cost", "bound", "ratio")},
        "claims": tuple(read_claim(value, problem) for value in fields["bounds"].items()),
        "question_hash": fields["question_hash"].text(),
    }


def bound_members(method: str, value: float, witness: Mapping[str, Any], problem: str, **origin: Any) -> dict[str, Any]:
    """JSON object of a bound; parts of the witness that no check reads become provenance, beside `origin`."""
    read_by_check = WITNESSES.get(method, ())
    free = origin | {name: item for name, item in witness.items() if name not in read_by_check}
    return {
        "method": method,
        "value": value,
        "parameters": {name: item for name, item in witness.items() if name in read_by_check},
        "recheck": recheck(method, problem, witness) or "trusted",
        "provenance": {name: item for name, item in free.items() if item is not None},
    }


def read_claim(value: Value, problem: str = PARTITION) -> Claim:
    """Read a bound from a file; `problem` as for `recheck`.

    Raises
    ------
    InputError
        If a field is missing, unknown or of the wrong kind, or names an unknown method or solver.
    """
    fields = value.members(_CLAIM, ("provenance",))
    method = fields["method"].text()
    kind = recheck(method, problem, fields["parameters"].open_members(()))
    if kind is None:
        fields["method"].fail(f"there is no method {method!r} (mtpp list models).")
    members = fields["parameters"].members((), WITNESSES.get(method, ()))
    if "proof" in members:
        read_claim(members["proof"], problem)
    origin = fields["provenance"].open_members(()) if "provenance" in fields else {}
    solver, version = (_optional_text(origin, name) for name in ("solver", "version"))
    if solver is not None:
        origin["solver"].one_of(SOLVER_NAMES)
    return Claim(
        place=value.path,
        method=method,
        value=fields["value"].number(),
        parameters=fields["parameters"],
        solver=solver,
        version=version,
        recheck=fields["recheck"].text(),
        kind=kind,
    )


def _optional_text(fields: Mapping[str, Value], name: str) -> str | None:
    return None if name not in fields or fields[name].data is None else fields[name].text()


#: Beginnings of formats of earlier versions, and the verbs that write such files anew.
_EARLIER = {
    "certificate": "certify",
    "kinds": "certify",
    "partition": "partition",
    "plan": "plan",
    "placement": "place",
    "flow": "flow",
    "serving": "serve",
}


def refuse_earlier(document: Value) -> None:
    """Refuse an answer file of an earlier version by an `InputError`."""
    named = document.data.get("format") if isinstance(document.data, dict) else None
    match = re.fullmatch(r"mtpp-([a-z]+)/\d", named) if isinstance(named, str) else None
    if match is not None and match[1] in _EARLIER:
        document.fail(f"{named} is a format of an earlier version; write it anew with mtpp {_EARLIER[match[1]]}.")
