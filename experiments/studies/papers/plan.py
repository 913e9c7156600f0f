"""Plan of what is run for which numbers of a paper: rows of ``paper.toml`` (mtpp-paper/1), for one profile."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.studies.papers.verdicts import PAPERS, numbers
from heuristics import HEURISTICS
from instances import InputError
from instances.errors import one_of, unknown
from mtpp.runs.partition_job import check_method
from mtpp_models.solvers.registry import SOLVERS

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
    "partition": ("graphs", "k", "methods", "starts", "seeds", "solver", "gap", "threads", "limit", "take"),
    "training": ("seeds",),
    "placeto": ("budget",),
}


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
    OSError
        If it cannot be read.
    """
    if profile not in PROFILES:
        raise InputError(unknown(PROFILES, profile, "profile"))
    with open(path, "rb") as file:
        data = file.read(_MOST + 1)
    try:
        document = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {str(error).splitlines()[0]}.") from None
    if len(data) > _MOST or document.pop("format", None) != FORMAT or set(document) != {"row"}:
        raise InputError(f'{path} is no plan of papers; it has format = "{FORMAT}" and rows [[row]] alone.')
    if not isinstance(document["row"], list):
        raise InputError(f"{path}: write [[row]] for each row.")
    rows = [_Reader(f"{path}, row {i}", row, profile).row() for i, row in enumerate(document["row"], start=1)]
    _check_sets(path, rows)
    return rows


class _Reader:
    """Reads the members of one row; errors name the row and the member."""

    def __init__(self, place: str, row: Any, profile: str) -> None:
        if not isinstance(row, dict):
            raise InputError(f"{place} is no table.")
        self._place, self._row, self._profile = place, row, profile

    def row(self) -> Row:
        study = self._choice("study", tuple(_MEMBERS))
        paper = self._choice("paper", PAPERS)
        items_of_paper = {number.item for number in numbers() if number.paper == paper}
        items = tuple(self._names("items", items_of_paper))
        allowed = ("paper", "items", "study", *_MEMBERS[study])
        for name in self._row:
            if name not in allowed:
                raise self._error(f"{name!r} is unknown; a row of {study} has {', '.join(allowed)}.")
        if study == "training":
            return Row(paper, items, study, seeds=self._count("seeds"))
        if study == "placeto":
            return Row(paper, items, study, budget=self._choice("budget", BUDGETS))
        methods = tuple(self._checked("methods", _check))
        bounds = any(name not in HEURISTICS for name in methods)
        return Row(
            paper,
            items,
            study,
            graphs=self._choice("graphs", GRAPHS),
            k=tuple(self._whole("k", k) for k in self._list("k")),
            methods=methods,
            starts=tuple(self._names("starts", HEURISTICS)) if bounds else (),
            seeds=self._count("seeds"),
            solver=tuple(self._names("solver", SOLVERS)) if bounds else (),
            gap=self._number("gap") if bounds else Row.gap,
            threads=self._count("threads") if bounds else Row.threads,
            limit=self._number("limit") if bounds else None,
            paper_limit=self._number("limit", "paper") if bounds else None,
            take=self._count("take"),
        )

    def _value(self, name: str, profile: str | None = None) -> Any:
        """Value in the row for the profile."""
        if name not in self._row:
            raise self._error(f"{name!r} is missing.")
        value = self._row[name]
        if not isinstance(value, dict):
            return value
        wanted = profile or self._profile
        for other in value:
            if other not in (*PROFILES, _OTHERS):
                raise self._error(f"{name} has the profile {other!r}{one_of((*PROFILES, _OTHERS), other)}")
        if wanted not in value and _OTHERS not in value:
            raise self._error(f"{name} has nothing for the profile {wanted}.")
        return value.get(wanted, value.get(_OTHERS))

    def _choice(self, name: str, choices: Sequence[str]) -> str:
        value = self._value(name)
        if value not in choices:
            raise self._error(f"{name} is {value!r}{one_of(choices, value)}")
        return str(value)

    def _list(self, name: str) -> list[Any]:
        value = self._value(name)
        if not isinstance(value, list) or not value:
            raise self._error(f"{name} is no list, or an empty one.")
        return value

    def _names(self, name: str, choices: Mapping[str, Any] | set[str]) -> list[str]:
        for value in self._list(name):
            if not isinstance(value, str) or value not in choices:
                raise self._error(f"{name} has {value!r}{one_of(sorted(choices), value)}")
        return self._list(name)

    def _checked(self, name: str, check: Callable[[Any], None]) -> list[str]:
        for value in self._list(name):
            try:
                check(value)
            except InputError as error:
                raise self._error(str(error)) from None
        return self._list(name)

    def _count(self, name: str) -> int:
        return self._whole(name, self._value(name))

    def _whole(self, name: str, value: Any) -> int:
        if type(value) is not int or not 1 <= value <= _MOST:
            raise self._error(f"{name} = {value!r}: give a whole number, at least 1.")
        return value

    def _number(self, name: str, profile: str | None = None) -> float:
        value = self._value(name, profile)
        if type(value) not in (int, float) or not 0 < value <= _MOST:
            raise self._error(f"{name} = {value!r}: give a number above 0.")
        return float(value)

    def _error(self, what: str) -> InputError:
        return InputError(f"{self._place}: {what}")


def _check(method: Any) -> None:
    if not isinstance(method, str) or ":" in method:
        raise InputError(f"the method {method!r} is no name of a registry.")
    check_method(method)


def _check_sets(path: str | Path, rows: Sequence[Row]) -> None:
    """Refuse rows of partitioning of one item that have different graphs."""
    first: dict[tuple[str, str], tuple[str, int]] = {}
    for row in rows:
        for item in row.items:
            graphs = first.setdefault((row.paper, item), (row.graphs, row.take))
            if graphs != (row.graphs, row.take):
                raise InputError(f"{path}: {row.paper}, {item} is asked on two sets of graphs; choose one.")
