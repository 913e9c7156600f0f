"""Certificates as raw records: statements of a file about its answer, none of them checked.

Certificates of partitions are files of their own, ``mtpp-certificate/1``. Files of plans and of placements are
certificates when they hold their question. `Envelope` is what all three have.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from instances.json_files import Value

__all__ = [
    "FLOW",
    "KINDS",
    "PARTITIONING",
    "PLACEMENT",
    "PLANNING",
    "SOLVER_NAMES",
    "Claim",
    "Envelope",
    "check_question",
    "envelope",
    "read_claim",
    "recheck",
]

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
