"""Three papers by one call: `paper`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pandas as pd

from experiments.studies.papers.output import write_measures
from experiments.studies.papers.plan import OWN, Row, papers_of, read_plan
from experiments.studies.papers.study import PaperStudy
from mtpp.runs.workers import Workers, this_process, workers_at

__all__ = ["make_papers", "paper", "rows_of"]


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
        fails, undecided, not comparable) and `why`.

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
