"""Write a page for each of three papers: tables of its numbers beside ours, with verdicts."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from experiments.studies.mtpp import Table, costs
from experiments.studies.papers.numbers import (
    OWN,
    Claim,
    Measured,
    PaperNumber,
    Row,
    comparison,
    judge_item,
    numbers,
    papers_of,
    read_plan,
)
from experiments.studies.papers.partition import PartitionMeasures, PartitionRuns, seconds_of
from experiments.studies.papers.training import (
    BUDGETS,
    PlacementMeasures,
    TrainingMeasures,
    training_jobs,
    training_questions,
)
from experiments.studies.placeto import jobs_of, placeto_sections, plot_curves
from experiments.studies.report import Finding, Report, Section, write_sections
from experiments.studies.spp.tables import cells, plot_cells, table_iii_sections
from heuristics.placement.placeto import require_torch
from instances import InputError
from instances.json_files import check_writable, json_text
from mtpp.plots.profiles import plot_intervals, plot_performance
from mtpp.plots.style import save_figure
from mtpp.runs.job import Job, Run
from mtpp.runs.workers import Workers, this_process, workers_at
from mtpp.versions import package_version

# Files of ``mtpp paper``: verdicts, tables, figures, ratios, and their hashes.


FORMAT = "mtpp-verdicts/1"
SUMS = "SHA256SUMS"
#: Fields of a run in the file of ratios.
_RATIOS = (
    *("question", "instance", "cluster", "n", "m", "k", "method", "solver", "time_limit", "seed", "simple"),
    *("bottleneck", "bound", "optimal", "seconds", "cpu_seconds", "error", "sources"),
)
#: Fields of runs that say where they come from, as verdicts name them.
_PROVENANCE = {"commit": "commit", "host": "host", "cpu": "cpu", "start": "date"}


def write_measures(
    folder: Path, profile: str, study: PaperStudy, measures: PaperMeasures, claims: pd.DataFrame
) -> None:
    """Write all result files except the runs; existing files are replaced.

    Raises
    ------
    OSError, InputError
        If a file cannot be written.
    """
    for name in ("tables", "figures"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    write_sections(_sections(measures, claims), folder / "tables")
    for name, ax in _figures(measures).items():
        save_figure(ax, folder / "figures" / f"{name}.svg")
    ratios = pd.DataFrame([{name: run.get(name) for name in _RATIOS} for run in measures.runs["partition"]])
    _write(folder / "ratios.csv.gz", _zipped(ratios))
    document = {
        "format": FORMAT,
        "profile": profile,
        "version": package_version(),
        **_provenance(measures),
        "left_out": study.left_out,
        "runs": [_file(path) for path in sorted((folder / "runs").glob("*.jsonl"))],
        "claims": [_plain(row) for row in claims.to_dict("records")],
    }
    _write(folder / "verdicts.json", json_text(document).encode())
    files = sorted(
        path for path in folder.rglob("*") if path.is_file() and path.name != SUMS and path.suffix != ".lock"
    )
    lines = [f"{_hash(path)}  {path.relative_to(folder).as_posix()}\n" for path in files]
    _write(folder / SUMS, "".join(lines).encode())


def count_section(claims: pd.DataFrame) -> Section:
    """Numbers of verdicts by paper and item."""
    words = [finding.value for finding in Finding]
    body = []
    for (paper, item), group in claims.groupby(["paper", "item"], sort=False):
        body.append([str(paper), str(item), *(str(int((group["verdict"] == word).sum())) for word in words)])
    total = [str(int((claims["verdict"] == word).sum())) for word in words]
    title = f"{len(claims)} numbers of the papers"
    return Section("verdicts", title, ["paper", "item", *words], [*body, ["all", "", *total]])


def _sections(measures: PaperMeasures, claims: pd.DataFrame) -> list[Section]:
    header = [
        "paper",
        "item",
        "row",
        "column",
        "value",
        "unit",
        "here",
        "low",
        "high",
        "clusters",
        "graphs",
        "verdict",
        "why",
    ]
    rows = [[_text(row[name]) for name in header] for row in claims.to_dict("records")]
    sections = [Section("claims", "Numbers of the papers", header, rows, numbers=claims), count_section(claims)]
    sections += [_beside(table) for table in measures.partition.tables()]
    if len(measures.training.frame):
        sections += table_iii_sections(measures.training.frame)
    if measures.placement.runs:
        sections += placeto_sections(measures.placement.runs, measures.placement.budget)
    return sections


def _figures(measures: PaperMeasures) -> dict[str, Axes]:
    drawn: dict[str, Axes] = {}
    for table in measures.partition.tables():
        drawn[table.name] = plot_intervals(_with_theirs(table), table.title)
    for item, name in (("Table 1", "networks"), ("Table 4", "regal")):
        try:
            cost = costs(measures.partition.frame(item))
        except InputError:  # no runs
            continue
        drawn[f"performance-{name}"] = plot_performance(cost)
    if len(measures.training.frame):
        drawn["spp-table-iii"] = plot_cells(cells(measures.training.frame))
    if measures.placement.runs:
        drawn["placeto-curves"] = plot_curves(measures.placement.runs)
    return drawn


def _with_theirs(table: Table) -> pd.DataFrame:
    """The cells of a table, each with the paper's number."""
    theirs, cells = _theirs(table), table.cells
    places = zip(cells["row"], cells["column"], strict=True)
    return cells.assign(theirs=pd.Series([theirs.get(place) for place in places], index=cells.index, dtype=float))


def _theirs(table: Table) -> dict[tuple[str, str], float | None]:
    item = table.title.removeprefix("MTPP, ").partition(":")[0]
    return {
        (number.row, number.column): number.number
        for number in numbers()
        if (number.paper, number.item) == ("mtpp", item)
    }


def _beside(table: Table) -> Section:
    """A table with a row of the paper's numbers below each row."""
    theirs, (header, rows) = _theirs(table), table.rows()
    body = []
    for row in rows:
        body.append(row)
        paper = [theirs.get((row[0], column)) for column in header[1:]]
        if any(value is not None for value in paper):
            body.append(["in the paper", *("–" if value is None else f"{value:.3f}" for value in paper)])
    return Section(table.name, table.title, header, body, table.note, numbers=table.numbers)


def _provenance(measures: PaperMeasures) -> dict[str, str]:
    """Commits, machines and the last day of the runs."""
    runs = [run for group in measures.runs.values() for run in group]
    facts = {}
    for name, word in _PROVENANCE.items():
        values = sorted({str(run[name]) for run in runs if run.get(name)})
        if values:
            facts[word] = values[-1][:10] if name == "start" else ", ".join(values)
    return facts


def _file(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {"file": f"runs/{path.name}", "sha256": hashlib.sha256(data).hexdigest(), "lines": data.count(b"\n")}


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row as JSON members: missing values are null, counts are whole numbers."""
    plain = {str(name): None if isinstance(x, float) and not math.isfinite(x) else x for name, x in row.items()}
    counts = {name: plain[name] for name in ("clusters", "graphs")}
    return plain | {name: None if count is None else int(count) for name, count in counts.items()}


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _zipped(frame: pd.DataFrame) -> bytes:
    """CSV in gzip, the same for the same numbers."""
    import gzip

    return gzip.compress(frame.to_csv(index=False, lineterminator="\n").encode(), mtime=0)


def _hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, data: bytes) -> None:
    check_writable(path)
    path.write_bytes(data)


# Three papers by one call: `paper`.


def paper(
    papers: str = "all",
    profile: str = "laptop",
    out: str | Path = "paper",
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    regal: str | Path | None = None,
    plan: str | Path | None = None,
) -> pd.DataFrame:
    """Make the runs behind the numbers of three papers, and hold each number against what was measured.

    The runs go into files below `out`; a second call makes those that are missing. Tables, figures and the verdicts
    (mtpp-verdicts/1) are written beside them.

    Parameters
    ----------
    papers : str
        "mtpp", "spp", "placeto", or "all".
    profile : str
        Extent: "smoke", "quick", "laptop", "cluster" or "paper".
    out : str or path
        Folder.
    jobs : int
        Processes. With more than one, a script calls this under ``if __name__ == "__main__":``.
    scheduler : str, optional
        Address of a scheduler of dask.distributed, whose workers are used instead.
    regal : str or path, optional
        Folder of REGAL's test graphs; without it graphs in their style stand in.
    plan : str or path, optional
        Another file of what is run (mtpp-paper/1).

    Returns
    -------
    DataFrame
        A row for each number: paper, item, row, column, value, unit and note; `here` with `low` and `high`, the ends of
        its 95 % interval, missing where there is none; `clusters` and `graphs` that it rests on; `verdict` (holds,
        fails, tie, undecided, not comparable) and `why`.

    Raises
    ------
    InputError
        Before any run is made.
    """
    rows = rows_of(papers, profile, plan)
    study = PaperStudy(rows, None if regal is None else str(regal), profile)
    crew: AbstractContextManager[Workers] = workers_at(scheduler, jobs) if scheduler or jobs > 1 else this_process()
    with crew as workers:
        return make_papers(papers, profile, study, Path(out), workers)[0]


def rows_of(papers: str, profile: str, plan: str | Path | None) -> list[Row]:
    """Rows of a plan that are about these papers; an `InputError` as from `read_plan`."""
    chosen = papers_of(papers)
    return [row for row in read_plan(profile, OWN if plan is None else plan) if row.paper in chosen]


def make_papers(
    papers: str, profile: str, study: PaperStudy, out: Path, workers: Workers, *, quiet: bool = True
) -> tuple[pd.DataFrame, list[bool]]:
    """Make the runs of a study and write the verdicts; return them, and whether each run failed."""
    (out / "runs").mkdir(parents=True, exist_ok=True)
    measures = study.run(out / "runs", workers, quiet=quiet)
    claims = measures.claims(papers_of(papers))
    write_measures(out, profile, study, measures, claims)
    return claims, measures.failed


# All runs behind the numbers of papers: what they are, what they cost, and what they say.


_ENDS = {"here": "value", "low": "low", "high": "high"}

#: Seconds of a run of pipelined training, and hours of all runs of placement by their budget.
_TRAINING, _PLACEMENT = 1.0, {"": 0.0, "least": 0.02, "quick": 0.3, "full": 2.0}


@dataclass(frozen=True)
class PaperMeasures:
    """Runs of a study, and the measures made of them."""

    partition: PartitionMeasures
    training: TrainingMeasures
    placement: PlacementMeasures
    runs: dict[str, list[Run]]  # by study
    failed: list[bool]  # whether each run failed

    def claims(self, papers: Sequence[str]) -> pd.DataFrame:
        """A row for each number of these papers: the number, the measurement, the verdict and its reason."""
        rows = {number: self._claim(number) for number in numbers() if number.paper in papers}
        items: dict[tuple[str, str], list[Claim]] = {}
        for number, claim in rows.items():
            items.setdefault((number.paper, number.item), []).append(claim)
        verdicts = {
            claim[0]: verdict
            for claims in items.values()
            for claim, verdict in zip(claims, judge_item(claims), strict=True)
        }
        return pd.DataFrame([_row(claim, *verdicts[number]) for number, claim in rows.items()])

    def _claim(self, number: PaperNumber) -> Claim:
        allowed = self.partition.comparison_of(number) if number.paper == "mtpp" else comparison(number)
        return number, allowed, self._measured(number)

    def _measured(self, number: PaperNumber) -> Measured | None:
        if number.paper == "mtpp":
            return self.partition.measured(number)
        return self.training.measured(number) if number.paper == "spp" else self.placement.measured(number)


def _row(claim: Claim, verdict: Finding, why: str) -> dict[str, Any]:
    """A row of the frame of verdicts."""
    number, _, measured = claim
    part = None if measured is None else measured.part
    counts = (None, None) if measured is None or part is None else (measured.clusters, measured.graphs)
    ends = {name: None if part is None else _none_if_nan(getattr(part, end)) for name, end in _ENDS.items()}
    return {
        **number._asdict(),
        **ends,
        "clusters": counts[0],
        "graphs": counts[1],
        "verdict": str(verdict),
        "why": why,
    }


@dataclass
class PaperStudy:
    """Jobs for the rows of a plan.

    Raises
    ------
    InputError
        If a graph, a method or a folder is refused.
    """

    rows: Sequence[Row]
    regal: str | None = None  # folder of REGAL's test graphs
    profile: str | None = None  # its name, which runs of partitioning keep
    left_out: list[str] = field(default_factory=list)  # what is not run, and why

    def __post_init__(self) -> None:
        rows = [row for row in self.rows if row.study == "partition"]
        self.partition = PartitionRuns(rows, self.regal, self.profile)
        self.left_out += self.partition.left_out
        self._asked = training_questions([row for row in self.rows if row.study == "training"])
        self._budget = next((row.budget for row in self.rows if row.study == "placeto"), "")
        self.jobs: dict[str, Sequence[Job]] = {"partition": self.partition.jobs, "training": training_jobs(self._asked)}
        self._no_torch = _no_torch() if self._budget else ""
        if self._no_torch:
            self.left_out.append(self._no_torch)
        ready = self._budget and not self._no_torch
        self.jobs["placeto"] = jobs_of(BUDGETS[self._budget]) if ready else []

    def costs(self) -> Section:
        """Largest numbers of runs and processor hours, by study; those of searches are estimates."""
        hours = {
            "partition": sum(seconds_of(job) for job in self.partition.jobs) / 3600,
            "training": _TRAINING * len(self.jobs["training"]) / 3600,
            "placeto": _PLACEMENT[self._budget] if self.jobs["placeto"] else 0.0,
        }
        rows = [[name, str(len(jobs)), f"{hours[name]:.2f}"] for name, jobs in self.jobs.items()]
        total = ["all", str(sum(map(len, self.jobs.values()))), f"{sum(hours.values()):.2f}"]
        return Section("costs", "What this takes", ["study", "runs", "core-hours at most"], [*rows, total])

    def run(self, folder: Path, workers: Workers, *, quiet: bool) -> PaperMeasures:
        """Make the runs that are missing in the files of a folder.

        Raises
        ------
        OSError, InputError
            If a file cannot be written.
        KeyboardInterrupt
            After Ctrl-C; the runs that are done are in the files.
        """
        runs, failed = {}, []
        for name, jobs in self.jobs.items():
            runs[name] = Report(folder / f"{name}.jsonl", quiet=quiet).make_runs(jobs, workers) if jobs else []
            failed += [
                job.failed(run) for job, run in zip({job.key: job for job in jobs}.values(), runs[name], strict=True)
            ]
        placement = PlacementMeasures(runs["placeto"], BUDGETS[self._budget or "quick"], self._no_torch)
        partition = PartitionMeasures(self.partition, runs["partition"], self.regal is not None)
        return PaperMeasures(partition, TrainingMeasures(self._asked, runs["training"]), placement, runs, failed)


def _no_torch() -> str:
    try:
        require_torch()
    except InputError as error:
        return f"not run: {error}"
    return ""


def _none_if_nan(value: float) -> float | None:
    return None if value != value else float(value)  # NaN
