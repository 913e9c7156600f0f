"""Certificates as raw records: statements of a file about its answer, none of them checked, and their provenance."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from instances.json_files import Value

# Certificates as raw records: statements of a file about its answer, none of them checked.
#
# Certificates of partitions are files of their own, ``mtpp-certificate/1``. Files of plans and of placements are
# certificates when they hold their question. `Envelope` is what all three have.


#: Solvers that a certificate may name; others could be programs of a stranger.
SOLVER_NAMES = ("highs", "scip", "gurobi", "cbc", "glpk", "cplex", "xpress", "cp-sat")

#: The problems, whose bounds have methods of their own.
PARTITIONING, PLANNING, PLACEMENT, KINDS, FLOW = "partitioning", "planning", "placement", "kinds", "flow"

#: Kind of check for the bounds of each method; those of solvers are trusted.
_RECHECKS = {
    PARTITIONING: {
        "simple": "formula",
        "pinned": "minimum cuts",
        "pigeonhole": "minimum cuts",
        "ideals": "ideals",
        "carried": "trusted",
        "bisection": "trusted",
        "priced": "trusted",
        "priced-quick": "trusted",
        "stated": "trusted",
    },
    # Partitions over kinds of devices.
    KINDS: {"simple": "formula", "pinned": "minimum cuts", "ideals": "ideals", "priced": "trusted"},
    FLOW: dict.fromkeys(("shared-layers", "ends"), "formula")
    | dict.fromkeys(("patterns", "patterns-with-links", "patterns-with-hubs"), "patterns"),
    PLANNING: {
        "z-any-order": "trusted",
        "z-fixed": "program",
        "z-split": "program",
        "work-any": "formula",
        "z-grid": "program",
        "turns-grid": "program",
        "work-grid": "formula",
    },
    PLACEMENT: {
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
    PARTITIONING: re.compile(
        rf"(bottleneck(-no-dag|-no-cut-io)?|guess-the-bottleneck(-tight)?|(exact|coarse-2|coarse-4)({_PARTS})?)(-lp)?"
    ),
    KINDS: re.compile(r"(bottleneck(-no-dag|-no-cut-io)?|exact)(-lp)?"),
}

#: Parameters that a bound may have, in partitioning and in placement.
_OPTIONS = ("time_limit", "gap", "threads", "seed")
_PRICE_TREE = ("prices", "tree", "multipliers", "apart")
_PARAMETERS = (
    "nodes",
    *_PRICE_TREE,
    "shares",
    "weights",
    "second",
    "hubs",
    "from_k",
    "value",
    "proof",
    "swaps",
    "model",
    "by",
    *_OPTIONS,
)
_PARAMETERS_OF_TIMES = ("heads", "tails", "window", "horizon", "interval")
#: Those that the check of a method reads; all others are of no use, and newer files hold none of them.
_WITNESSES = {
    "simple": ("shares",),
    "patterns": ("weights", "second"),
    "patterns-with-links": ("weights", "second"),
    "patterns-with-hubs": ("weights", "hubs"),
    "pinned": ("nodes",),
    "pigeonhole": ("nodes",),
    "ideals": ("swaps",),
    "carried": ("from_k", "value", "proof"),
    "bisection": _PRICE_TREE[1:],
    "priced": (*_PRICE_TREE, "shares"),
    "priced-quick": _PRICE_TREE,
    "heads": ("heads", "tails", "nodes"),
    "windows": ("heads", "tails", "window"),
    "energetic": ("heads", "tails", "horizon", "interval"),
    "colocation": ("heads", "tails", "horizon", "interval"),
}
_CLAIM = ("method", "value", "parameters", "recheck")
_CLAIM_FREE = ("solver", "version", "seconds", "optimal")  # the last one in older files


def recheck(method: str, problem: str = PARTITIONING, witness: Collection[str] = ()) -> str | None:
    """Kind of check: "formula", "minimum cuts", "price tree", "ideals", "heads and tails", or "trusted".

    It is that of bounds of a method whose witness has the members named. The problem is `PARTITIONING`, `PLANNING` or
    `PLACEMENT`; None where it has no such method.
    """
    if problem in _OF_SOLVERS and _OF_SOLVERS[problem].fullmatch(method):
        return "trusted"
    if problem == PARTITIONING and method in _BY_PRICES and _TREE in witness:
        return "price tree"
    return _RECHECKS[problem].get(method)


@dataclass(frozen=True)
class Claim:
    """A bound as a file states it."""

    place: str  # in the file, such as ``bounds[2]``
    method: str  # one that this project has
    value: float  # in the time unit of the work
    parameters: Value  # data for its check, such as the nodes that the bound rests on
    solver: str | None  # one of `SOLVER_NAMES`
    version: str | None  # of the solver
    recheck: str  # stated kind of check
    kind: str  # true kind of check


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """Statements that certificates of all problems share: question, cost of the answer, bounds."""

    file: str
    instance: Any  # the question
    cost: float | None  # of the answer
    bound: float | None  # the best of the bounds
    ratio: float | None  # cost over bound
    claims: tuple[Claim, ...]  # one a bound
    question_hash: str | None = None  # as the file states it; None in older formats

    #: Words for the answer and its cost.
    answer_name: ClassVar[str]
    cost_name: ClassVar[str]

    @property
    def true_hash(self) -> str:
        """Hash of the question."""
        return str(self.instance.question_hash)

    @property
    def question_words(self) -> str:
        """The question without names, in one line."""
        return str(self.instance.question_words)

    @property
    def label(self) -> str:
        """Name of the question, which its author chose."""
        return str(self.instance.label)


def check_question(document: Value, members: Iterable[str], verb: str) -> None:
    """Refuse an answer that does not say which question it answers.

    Raises
    ------
    InputError
        If one of the members is missing that make a certificate of it; the message names the verb that writes them.
    """
    for name in members:
        if name not in document.open_members(()):
            document.fail(f"its question and bounds are missing (no '{name}'); write it anew with mtpp {verb}.")


def envelope(fields: Mapping[str, Value], cost: str, problem: str, question_hash: str | None) -> dict[str, Any]:
    """Parameters of an `Envelope` from the members of a file, one of which, `cost`, holds the cost.

    Raises
    ------
    InputError
        As `read_claim`, and if a number is none.
    """
    numbers = {"cost": fields[cost], "bound": fields["bound"], "ratio": fields["ratio"]}
    return {
        "file": fields["bounds"].file,
        **{name: value.optional_number() for name, value in numbers.items()},
        "claims": tuple(
            read_claim(value, problem, bound=question_hash is not None) for value in fields["bounds"].items()
        ),
        "question_hash": question_hash,
    }


def read_claim(value: Value, problem: str = PARTITIONING, *, bound: bool = False) -> Claim:
    """A bound of a certificate of a problem, which is as for `recheck`.

    `bound` is whether it stands in a newer file, which holds nothing that no check reads.

    Raises
    ------
    InputError
        If a field is missing, unknown or of the wrong kind, or names a method or a solver that there is not.
    """
    fields = value.members(_CLAIM, _CLAIM_FREE)
    if "optimal" in fields:
        fields["optimal"].truth()
    if "seconds" in fields:
        fields["seconds"].number()
    method, solver = fields["method"].text(), _optional_text(fields, "solver")
    members = fields["parameters"].members((), (*_PARAMETERS, *_PARAMETERS_OF_TIMES))
    kind = recheck(method, problem, fields["parameters"].data)
    if kind is None:
        fields["method"].fail(f"there is no method {method!r} (mtpp list models).")
    if solver is not None and solver not in SOLVER_NAMES:
        fields["solver"].fail(f"there is no solver {solver!r}; known are {', '.join(SOLVER_NAMES)}.")
    if bound:
        fields["parameters"].members((), (*_WITNESSES.get(method, ()), *_OPTIONS, "model", "by"))
        if "proof" in members:
            read_claim(members["proof"], problem, bound=True)
    return Claim(
        place=value.path,
        method=method,
        value=fields["value"].number(),
        parameters=fields["parameters"],
        solver=solver,
        version=_optional_text(fields, "version"),
        recheck=fields["recheck"].text(),
        kind=kind,
    )


def _optional_text(fields: Mapping[str, Value], name: str) -> str | None:
    return None if name not in fields or fields[name].data is None else fields[name].text()


# Where an answer comes from, apart from what it says: the member ``provenance`` of certificates.
#
# A file of a newer format holds the hash of its question as ``question_hash``, and in ``provenance`` all that neither
# belongs to the question nor is checked, by its place: ``{"instance.name": "bert-base", "bounds[0].seconds": 0.5}``.
# All other members are of the question, which is written in one way only, or checked. `with_provenance` and `opened`
# turn documents of older formats, which hold everything in its place, into these and back.


#: Formats with a provenance, and those with everything in its place that they stand for.
BOUND_FORMATS = {
    "mtpp-certificate/2": "mtpp-certificate/1",
    "mtpp-plan/3": "mtpp-plan/1",
    "mtpp-plan/4": "mtpp-plan/2",
    "mtpp-plan/6": "mtpp-plan/5",
    "mtpp-placement/3": "mtpp-placement/1",
    "mtpp-placement/4": "mtpp-placement/2",
    "mtpp-serving/2": "mtpp-serving/1",
    "mtpp-kinds/2": "mtpp-kinds/1",
    "mtpp-flow/2": "mtpp-flow/1",
}
_NEWER = {older: newer for newer, older in BOUND_FORMATS.items()}

_BOUND = r"bounds\[\d+\](\.parameters\.proof)*"
_GRAPH = r"\.(name|source|attributes|parameters\[\d+\]\.name)"
#: What needs no check, by its place.
_FREE = re.compile(
    rf"instance\.name|{_BOUND}\.(solver|version|seconds|parameters\.(time_limit|gap|threads|seed|model|by))"
    rf"|instance\.(graph|operators){_GRAPH}|instance\.(chain\.(name|source)|chains\[\d+\]\.(name|source)|cluster\.name)"
    r"|impossible\.reason|steps|notes|repeatable|basis|planner|order_name|seed|time_limit|version|graph|chain|cluster|partition\.graph"
)
_STEP = re.compile(r"\.?([a-z_]+)|\[(\d{1,9})\]")
_MOST_PLACES = 10**6
_FOR_PEOPLE = ("basis", "notes", "repeatable")
_OPTIMAL = re.compile(rf"{_BOUND}\.optimal")


class Opened(NamedTuple):
    """A document in the older format, with everything in its place."""

    document: Value
    question_hash: str | None  # as the file states it; None in older formats


def older_format(named: str) -> str:
    """The format with everything in its place that stands behind a format."""
    return BOUND_FORMATS.get(named, named)


def accepted(*formats: str) -> tuple[str, ...]:
    """The older formats, and the newer ones of each."""
    return (*formats, *(_NEWER[older] for older in formats if older in _NEWER))


def with_provenance(document: Mapping[str, Any], question_hash: str) -> dict[str, Any]:
    """The newer format of a document in an older one."""
    provenance: dict[str, Any] = {}
    kept = _without_free(document, "", provenance)
    head = {"format": _NEWER[document["format"]], "question_hash": question_hash}
    return head | {name: item for name, item in kept.items() if name != "format"} | {"provenance": provenance}


def opened(document: Value, *formats: str) -> Opened:
    """The document in one of the older formats, as it is where it is one.

    Raises
    ------
    InputError
        If it is neither, or its provenance names a place that there is not or that needs a check.
    """
    named = document.check_format(*accepted(*formats))
    if named in formats:
        return Opened(document, None)
    fields = document.open_members(("question_hash", "provenance"))
    places = fields["provenance"].open_members(())
    if len(places) > _MOST_PLACES:
        fields["provenance"].fail(f"there are {len(places)} entries; give {_MOST_PLACES} or fewer.")
    whole = {name: item for name, item in document.data.items() if name not in ("question_hash", "provenance")}
    for place in _present(whole, ""):
        document.fail(f"{place}: this is no part of the question, and belongs into 'provenance'.")
    copied: set[int] = set()
    for place, item in places.items():
        if place in _FOR_PEOPLE:
            continue
        if not _FREE.fullmatch(place):
            fields["provenance"].fail(f"'{place[:80]}' is no place of what needs no check.")
        if not _put(whole, place, item.data, copied):
            fields["provenance"].fail(f"there is no place '{place[:80]}' in this file.")
    whole["format"] = BOUND_FORMATS[named]
    return Opened(Value(whole, document.file, document.path), fields["question_hash"].text())


def check_written(value: Value, expected: Mapping[str, Any]) -> None:
    """Refuse a question that is not written as it is read, so that nothing in it goes unread.

    Raises
    ------
    InputError
        The message names the first place that differs.
    """
    place = _difference(value.data, expected, value.path)
    if place is not None:
        value.fail(f"{place} is not written as this project writes it; write the file anew.")


def _without_free(value: Any, path: str, provenance: dict[str, Any]) -> Any:
    """A copy without what belongs into the provenance, which takes it."""
    if isinstance(value, Mapping):
        kept = {}
        for name, item in value.items():
            place = f"{path}.{name}" if path else name
            if _FREE.fullmatch(place):
                provenance |= {} if item is None else {place: item}
            elif not _OPTIMAL.fullmatch(place):
                kept[name] = _without_free(item, place, provenance)
        return kept
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return [_without_free(item, f"{path}[{i}]", provenance) for i, item in enumerate(value)]
    return value


def _present(document: dict[str, Any], path: str) -> list[str]:
    """The first place that holds what belongs into the provenance, or is known to older formats alone."""
    provenance: dict[str, Any] = {}
    kept = _without_free(document, path, provenance)
    if provenance:
        return [next(iter(provenance))]
    return [] if kept == document else ["bounds: 'optimal'"]


def _put(whole: dict[str, Any], place: str, item: Any, copied: set[int]) -> bool:
    """Put an item to its place, in copies of what is on the way; return whether there is such a place."""
    steps = [name or int(index) for name, index in _STEP.findall(place)]
    at: Any = whole
    for step in steps[:-1]:
        in_object = isinstance(step, str) and isinstance(at, dict) and step in at
        if not in_object and not (isinstance(step, int) and isinstance(at, list) and step < len(at)):
            return False
        inner = at[step]
        if id(inner) not in copied:
            if not isinstance(inner, dict | list):
                return False
            at[step] = inner = inner.copy()
            copied.add(id(inner))
        at = inner
    if not isinstance(at, dict):
        return False
    at[steps[-1]] = item
    return True


def _difference(found: Any, expected: Any, path: str) -> str | None:
    """The first place where two documents differ; numbers are equal whether whole or not."""
    if isinstance(found, dict) and isinstance(expected, Mapping):
        for name in [*found, *expected]:
            place = f"{path}.{name}"
            if name not in found or name not in expected:
                return place
            if (deeper := _difference(found[name], expected[name], place)) is not None:
                return deeper
        return None
    if isinstance(found, list) and isinstance(expected, list | tuple):
        if len(found) != len(expected):
            return path
        pairs = enumerate(zip(found, expected, strict=True))
        return next((bad for i, (a, b) in pairs if (bad := _difference(a, b, f"{path}[{i}]")) is not None), None)
    return None if found == expected and isinstance(found, bool) == isinstance(expected, bool) else path
