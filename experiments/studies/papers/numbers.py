"""Numbers of the papers: as they print them, what is run for them, and verdicts of runs on them.

Rows of ``paper.toml`` (mtpp-paper/1) say what is run for which numbers, in each profile.
"""

from __future__ import annotations

import csv
import math
import tomllib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from experiments.studies.report import Finding
from heuristics import HEURISTICS
from instances import InputError
from instances.errors import unknown
from instances.json_files import Value, check_readable
from mtpp.runs.partition_job import check_method
from mtpp.runs.statistics import LEAST_CLUSTERS, SIGNIFICANT, Means, PairedTest
from mtpp_models.solvers.registry import SOLVERS

# Numbers of the three papers as they print them, and what each may be held against.


#: The papers, in the order of tables.
PAPERS = ("mtpp", "spp", "placeto")

_FOLDER = Path(__file__).parent
_OUT_OF_MEMORY = "OOM"


class PaperNumber(NamedTuple):
    """One number of a paper."""

    paper: str
    item: str  # table, figure or section
    row: str
    column: str
    value: str  # as printed, whose digits count; OOM for out of memory
    unit: str
    note: str  # what it is, and what is inferred

    @property
    def number(self) -> float | None:
        """The value; None where a method ran out of memory."""
        return None if self.value == _OUT_OF_MEMORY else float(self.value)


@dataclass(frozen=True)
class Comparison:
    """How a number of a paper is compared with a measurement."""

    comparable: str  # same (question and data), shape (on our graphs), setting (shown only), no
    kind: str  # equal, at most, at least, order; empty where nothing is compared
    tolerance: Decimal  # in the unit of the number, or a part of it
    relative: bool
    why: str  # what limits the comparison


def numbers() -> list[PaperNumber]:
    """All 459 numbers: those of ``claims.csv``, and the 63 cells of SPP's Table III."""
    return [*_claims(), *table_iii()]


def table_iii() -> list[PaperNumber]:
    """Seconds of an iteration by model, testbed and planner, from ``table3.csv``."""
    rows = []
    for cell in _read("table3.csv"):
        gain, row = cell["speedup_percent"], f"{cell['model']}, {cell['testbed']}"
        note = f"SPP is {gain} % faster" if gain else "out of memory" if cell["oom"] == "1" else ""
        value = cell["seconds"] or _OUT_OF_MEMORY
        rows.append(PaperNumber("spp", "Table III", row, cell["planner"], value, "s", note))
    return rows


def value_of(paper: str, item: str, row: str, column: str) -> float | None:
    """One number of a paper; None where a method ran out of memory.

    Raises
    ------
    KeyError
        If there is none in that place.

    Examples
    --------
    >>> value_of("placeto", "Table 1", "NASNet 2 GPUs", "expert")
    0.86
    """
    return _by_place()[paper, item, row, column].number


def comparison(number: PaperNumber) -> Comparison:
    """The comparison for a number: the first row of ``comparable.csv`` whose patterns match.

    Raises
    ------
    KeyError
        If none fits.
    """
    for paper, item, row, column, stated in _comparisons():
        patterns = ((number.item, item), (number.row, row), (number.column, column))
        if paper == number.paper and all(fnmatchcase(*pair) for pair in patterns):
            return stated
    raise KeyError(number)


@cache
def _claims() -> tuple[PaperNumber, ...]:
    return tuple(PaperNumber(**row) for row in _read("claims.csv"))


@cache
def _by_place() -> dict[tuple[str, str, str, str], PaperNumber]:
    return {number[:4]: number for number in numbers()}


@cache
def _comparisons() -> tuple[tuple[str, str, str, str, Comparison], ...]:
    rows = []
    for row in _read("comparable.csv"):
        text = row["tolerance"] or "0"
        tolerance = Decimal(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        comparison = Comparison(row["comparable"], row["kind"], tolerance, text.endswith("%"), row["why"])
        rows.append((row["paper"], row["item"], row["row"], row["column"], comparison))
    return tuple(rows)


def _read(name: str) -> list[dict[str, str]]:
    with open(_FOLDER / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# Verdicts: what a paper states, the interval that was measured, and what follows.


@dataclass(frozen=True)
class Part:
    """One measurement with its interval, used to decide on a claim.

    The interval of a number computed without chance, such as a plan's time, is that number; a missing end is NaN.
    """

    value: float
    low: float  # of the 95 % interval
    high: float
    text: str = ""  # what it is, where a claim has several
    at: Callable[[float], tuple[float, float]] | None = None  # interval at a level of error; None without chance
    test: PairedTest | None = None  # of the ratio of two methods
    # The least and the most that it could be if runs had the paper's time limit; none where that could change nothing.
    ends: Sequence[Part] = ()

    @classmethod
    def of(cls, means: Means, to: Callable[[float], float] = float, text: str = "", **more: Any) -> Part:
        """A part from the first of several means and its interval, both converted by `to`."""
        value, low, high = (to(float(end[0])) for end in means[:3])

        def at(level: float) -> tuple[float, float]:
            low, high = means.at(level)
            return to(float(low[0])), to(float(high[0]))

        return cls(value, low, high, text, at, **more)

    def tests(self, kind: str) -> int:
        """Number of statistical tests that this part adds to those of its item: 0 or 1."""
        if self.at is None or math.isnan(self.low):
            return 0
        return int(kind != "order" or any(end.test is None or end.test.can_reject for end in self.ends or (self,)))

    def __str__(self) -> str:
        ends = "" if math.isnan(self.low) or self.low == self.high else f" [{self.low:.4g}, {self.high:.4g}]"
        return f"{self.text} {self.value:.4g}{ends}".strip()


@dataclass(frozen=True)
class Measured:
    """Measurement for a number of a paper."""

    part: Part | None  # the number itself; None if it is missing
    graphs: int = 0
    clusters: int = 0
    parts: Sequence[Part] | None = None  # that decide; the number itself by default
    note: str = ""  # how it was measured, or why it is missing

    @property
    def deciding(self) -> Sequence[Part]:
        """The parts of the measurement on which the verdict rests."""
        return self.parts if self.parts is not None else [self.part] if self.part else []


#: A number, what it may be held against, and its measure.
Claim = tuple[PaperNumber, Comparison, Measured | None]


def judge_item(claims: Sequence[Claim]) -> list[tuple[Finding, str]]:
    """Verdicts on all numbers of an item with reasons, corrected for the number of tests (Holm).

    Step by step all that are not decided are judged at 0.05 over the number of their tests. Tests that could tell
    nothing apart, whatever the signs of the differences, do not count (Tarone, A Modified Bonferroni Method for
    Discrete Data, 1990).
    """
    verdicts: dict[int, tuple[Finding, str]] = {}
    left = set(range(len(claims)))
    while True:
        tests = sum(_tests(claims[i]) for i in left)
        verdicts |= {i: judge(*claims[i], SIGNIFICANT / max(1, tests)) for i in left}
        decided = {i for i in left if verdicts[i][0] in (Finding.HOLDS, Finding.FAILS)}
        if not decided:
            return [verdicts[i] for i in range(len(claims))]
        left -= decided


def _tests(claim: Claim) -> int:
    _, comparison, measured = claim
    if measured is None or comparison.comparable in ("setting", "no"):
        return 0
    return sum(part.tests(comparison.kind) for part in measured.deciding)


def judge(
    number: PaperNumber, comparison: Comparison, measured: Measured | None, error: float = SIGNIFICANT
) -> tuple[Finding, str]:
    """Verdict on a number of a paper, and its reason; `error` is the level of the test."""
    if comparison.comparable == "setting":
        return Finding.NOT_COMPARABLE, "a setting of the paper, shown only"
    if comparison.comparable == "no":
        return Finding.NOT_COMPARABLE, comparison.why
    if measured is None:
        return Finding.UNDECIDED, "not measured"
    parts = measured.deciding
    if measured.parts is None and not parts:
        return Finding.UNDECIDED, measured.note or "not measured"
    findings, reasons = [], []
    for part in parts:
        finding, reason = _judged(number, comparison, part, measured.clusters, error)
        findings.append(finding)
        reasons.append(f"{part}{reason}" if part.text or len(parts) > 1 else reason.lstrip(": "))
    total = Finding.all_of(findings)
    deciding = [reason for reason, finding in zip(reasons, findings, strict=True) if finding is total and reason]
    return total, "; ".join(text for text in (*deciding, measured.note, comparison.why) if text)


def _judged(
    number: PaperNumber, comparison: Comparison, part: Part, clusters: int, error: float
) -> tuple[Finding, str]:
    """Verdict on one interval at a level of error, and the reason if it is undecided."""
    if math.isnan(part.value):
        return Finding.UNDECIDED, ": a value is missing"
    if math.isnan(part.low + part.high):
        few = f": no interval from fewer than {LEAST_CLUSTERS} clusters" if clusters < LEAST_CLUSTERS else ""
        return Finding.UNDECIDED, few or ": no interval"
    ends = part.ends or (part,)
    findings = [_finding(number, comparison, end, error) for end in ends]
    if len(set(findings)) > 1:
        reached = " and ".join(f"{end.value:.4g} ({finding})" for end, finding in zip(ends, findings, strict=True))
        return Finding.UNDECIDED, f": with the paper's time limit between {reached}"
    if findings[0] is Finding.TIE and part.test is not None:
        equal, of = part.test.clusters - part.test.differ, part.test.clusters
        return Finding.TIE, f": equal on {equal} of {of} clusters" if part.test.is_tie else ": equal as printed"
    return findings[0], ": the interval leaves both open" if findings[0] is Finding.UNDECIDED else ""


def _finding(number: PaperNumber, comparison: Comparison, part: Part, error: float) -> Finding:
    """Verdict on one interval at a level of error."""
    if comparison.kind == "order":
        return order_of(part, error, number.value)
    low, high = (part.low, part.high) if part.at is None else part.at(1 - error)
    return decide(comparison.kind, number.value, comparison.tolerance, low, high, relative=comparison.relative)


def order_of(part: Part, error: float, printed: str) -> Finding:
    """Whether the ratio of two methods is below 1, above it, or they tie.

    They tie if the interval at that level of error says that they differ by less than half of the last digit of the
    printed number. They are told apart if the p value of the paired test is below `error` and 1 outside of the 95 %
    interval, as in `Pair`. Otherwise, they tie if they are equal on most clusters. Without chance, only what
    is equal ties.
    """
    if part.test is None or part.at is None:
        equal, differ = math.isclose(part.value, 1.0, rel_tol=1e-9), True
    else:
        low, high = part.at(1 - error)
        rounding = float(_half_of_last_digit(printed) / Decimal(printed))
        equal, differ = 1 - rounding <= low and high <= 1 + rounding, part.test.p < error
    if not equal and differ and not part.low <= 1 <= part.high:
        return Finding.HOLDS if part.high < 1 else Finding.FAILS
    return Finding.TIE if equal or (part.test is not None and part.test.is_tie) else Finding.UNDECIDED


def decide(kind: str, paper: str, tolerance: Decimal, low: float, high: float, *, relative: bool = False) -> Finding:
    """Verdict on an interval.

    Parameters
    ----------
    kind : str
        "equal": inside of the paper's number ± t, fails if apart from that; "at most" and "at least": one side of it.
    paper : str
        The number as printed.
    tolerance : Decimal
        t is that and half of the last digit of the number.
    low, high : float
        Ends of the interval.
    relative : bool
        Whether the tolerance is a part of the number.

    Examples
    --------
    >>> [decide("equal", "1.18", Decimal("0.01"), *x).value for x in ((1.175, 1.185), (1.195, 1.2), (1.18, 1.2))]
    ['holds', 'fails', 'undecided']
    """
    value = Decimal(paper)
    t = tolerance * (abs(value) if relative else 1) + _half_of_last_digit(paper)
    lower, upper = float(value - t), float(value + t)
    if kind == "at most":
        return _three(high <= upper, low > upper)
    if kind == "at least":
        return _three(low >= lower, high < lower)
    assert kind == "equal"
    return _three(lower <= low and high <= upper, low >= upper or high <= lower)


def _half_of_last_digit(printed: str) -> Decimal:
    return Decimal((0, (5,), int(Decimal(printed).as_tuple().exponent) - 1))


def percent_above(ratio: float) -> float:
    """Excess of a ratio over 1 [%]."""
    return 100 * (ratio - 1)


def _three(holds: bool, fails: bool) -> Finding:
    return Finding.of(True if holds else False if fails else None)


FORMAT = "mtpp-paper/1"
#: Extents of the study, from a first look to the paper's own.
PROFILES = ("smoke", "quick", "laptop", "cluster", "paper")
GRAPHS = ("networks", "regal")
BUDGETS = ("least", "quick", "full")
OWN = Path(__file__).with_name("paper.toml")

#: Stands for the profiles that a value does not name.
_OTHERS = "others"
_MOST = 1_000_000  # bytes of a file, and of most numbers in it
_MEMBERS = {
    "partition": ("graphs", "k", "methods", "seeds", "take"),
    "training": ("seeds",),
    "placeto": ("budget",),
}
# Of rows with bounds, besides those.
_OF_BOUNDS = ("starts", "solver", "gap", "threads", "limit")


@dataclass(frozen=True)
class Row:
    """Runs for some tables or figures (items) of a paper, in one profile."""

    paper: str
    items: tuple[str, ...]
    study: str  # partition, training or placeto
    graphs: str = ""  # of partition: networks, or regal
    k: tuple[int, ...] = ()
    methods: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()  # heuristics whose best partition the bounds start from
    seeds: int = 1  # of searches, 0 to one less; of training, clusters that are drawn
    solver: tuple[str, ...] = ()  # the first one that is there
    gap: float = 1e-4
    threads: int = 1
    limit: float | None = None  # seconds, of bounds
    paper_limit: float | None = None  # that of the paper
    take: int = 0  # graphs
    budget: str = ""  # of placeto


def papers_of(word: str) -> tuple[str, ...]:
    """Names of papers: all for "all", else the given name alone.

    Raises
    ------
    InputError
        If there is no paper of this name.
    """
    if word == "all":
        return PAPERS
    if word not in PAPERS:
        raise InputError(unknown((*PAPERS, "all"), word, "paper"))
    return (word,)


def read_plan(profile: str, path: str | Path = OWN) -> list[Row]:
    """Rows for a profile.

    Raises
    ------
    InputError
        If there is no such profile, or the file has unknown names, lacks something for the profile, or asks
        for one item on two sets of graphs.
    """
    if profile not in PROFILES:
        raise InputError(unknown(PROFILES, profile, "profile"))
    check_readable(path)
    with open(path, "rb") as file:
        data = file.read(_MOST + 1)
    try:
        document = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {str(error).splitlines()[0]}.") from None
    if len(data) > _MOST or document.pop("format", None) != FORMAT or set(document) != {"row"}:
        raise InputError(f'{path} is no plan of papers; it has format = "{FORMAT}" and rows [[row]] alone.')
    rows = [_row(value, profile) for value in Value(document["row"], str(path), "row").items()]
    _check_sets(path, rows)
    return rows


def _row(value: Value, profile: str) -> Row:
    """A row of the file with its values for a profile."""
    stated = value.open_members(("paper", "items", "study"))
    study, paper = stated["study"].one_of(_MEMBERS), stated["paper"].one_of(PAPERS)
    value.members(("paper", "items", "study", *_MEMBERS[study]), _OF_BOUNDS if study == "partition" else ())
    members = {name: _for_profile(item, profile) for name, item in stated.items()}
    items = _names(members["items"], {number.item for number in numbers() if number.paper == paper})
    if study == "training":
        return Row(paper, items, study, seeds=_count(members["seeds"]))
    if study == "placeto":
        return Row(paper, items, study, budget=members["budget"].one_of(BUDGETS))
    methods = tuple(_method(item) for item in _listed(members["methods"]))
    row = Row(
        paper,
        items,
        study,
        graphs=members["graphs"].one_of(GRAPHS),
        k=tuple(_count(item) for item in _listed(members["k"])),
        methods=methods,
        seeds=_count(members["seeds"]),
        take=_count(members["take"]),
    )
    if all(name in HEURISTICS for name in methods):
        return row
    value.open_members(_OF_BOUNDS)
    return replace(
        row,
        starts=_names(members["starts"], HEURISTICS),
        solver=_names(members["solver"], SOLVERS),
        gap=_positive(members["gap"]),
        threads=_count(members["threads"]),
        limit=_positive(members["limit"]),
        paper_limit=_positive(_for_profile(stated["limit"], "paper")),
    )


def _for_profile(value: Value, profile: str) -> Value:
    """The value for a profile: its own or the general one in a table by profile, else the value itself."""
    if not isinstance(value.data, dict):
        return value
    values = value.members((), (*PROFILES, _OTHERS))
    name = profile if profile in values else _OTHERS
    if name not in values:
        value.fail(f"there is nothing for the profile {profile}.")
    return values[name]


def _listed(value: Value) -> list[Value]:
    return value.items() or value.fail("the list is empty.")


def _names(value: Value, choices: Collection[str]) -> tuple[str, ...]:
    return tuple(item.one_of(choices) for item in _listed(value))


def _count(value: Value) -> int:
    if not 1 <= value.whole() <= _MOST:
        value.fail("give a whole number, at least 1.")
    return value.whole()


def _positive(value: Value) -> float:
    if not 0 < value.number() <= _MOST:
        value.fail("give a number above 0.")
    return value.number()


def _method(value: Value) -> str:
    """The name of a method of a registry."""
    if ":" in value.text():
        value.fail(f"the method {value.data!r} is no name of a registry.")
    with value.refusing():
        check_method(value.text())
    return value.text()


def _check_sets(path: str | Path, rows: Sequence[Row]) -> None:
    """Refuse rows of partitioning of one item that have different graphs."""
    first: dict[tuple[str, str], tuple[str, int]] = {}
    for row in rows:
        for item in row.items:
            graphs = first.setdefault((row.paper, item), (row.graphs, row.take))
            if graphs != (row.graphs, row.take):
                raise InputError(f"{path}: {row.paper}, {item} is asked on two sets of graphs; choose one.")
