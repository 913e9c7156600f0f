"""Pages of three papers: verdicts as tables."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from experiments.studies.mtpp.tables import Table, costs
from experiments.studies.papers.plan import OWN, Row, papers_of, read_plan
from experiments.studies.papers.study import PaperMeasures, PaperStudy
from experiments.studies.papers.verdicts import numbers
from experiments.studies.placeto.tables import placeto_sections, plot_curves
from experiments.studies.report import Finding, Section, write_sections
from experiments.studies.spp.tables import cells, plot_cells, table_iii_sections
from instances import InputError
from instances.json_files import check_writable, json_text
from mtpp.plots.profiles import plot_intervals, plot_performance
from mtpp.plots.style import save_figure
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
    """Write all files but the runs, which are there; what exists is replaced.

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
    """Cells with the numbers of the paper."""
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
    """A table with a row of the paper below each row that it has."""
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
    runs = [run for some in measures.runs.values() for run in some]
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
    """Rows of a plan that are about these papers; `InputError` as of `read_plan`."""
    chosen = papers_of(papers)
    return [row for row in read_plan(profile, OWN if plan is None else plan) if row.paper in chosen]


def make_papers(
    papers: str, profile: str, study: PaperStudy, out: Path, workers: Workers, *, quiet: bool = True
) -> tuple[pd.DataFrame, list[bool]]:
    """Make the runs of a study and write what they say; the numbers with verdicts, and whether each run failed."""
    (out / "runs").mkdir(parents=True, exist_ok=True)
    measures = study.run(out / "runs", workers, quiet=quiet)
    claims = measures.claims(papers_of(papers))
    write_measures(out, profile, study, measures, claims)
    return claims, measures.failed
