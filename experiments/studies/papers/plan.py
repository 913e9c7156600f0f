"""Plan of what is run for which numbers of a paper: rows of ``paper.toml`` (mtpp-paper/1), for one profile."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.studies.papers.verdicts import PAPERS, numbers
from heuristics import HEURISTICS
from instances import InputError
from instances.errors import unknown
from instances.json_files import Value, check_readable
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
