"""The tables of pipelined training: runs that resume, what the figures say of them, and claims that can fail."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import assert_misuse

from experiments.runs.log import Run, RunLog, read_runs
from experiments.runs.workers import local_workers
from experiments.studies.report import Report
from experiments.studies.spp.claims import claims
from experiments.studies.spp.frames import TITLES, training_frame
from experiments.studies.spp.jobs import (
    BOUND,
    STAGES,
    Question,
    TrainingJob,
    jobs_of,
    questions,
)
from experiments.studies.spp.tables import (
    figure_rows,
    make_training_tables,
    plot_stages,
    plot_sweep,
)
from heuristics.planning import PLANNERS
from instances.planning import Cluster, LayerChain, TrainingInstance

TIMES = {
    "spp": 1.0,
    "improved": 0.9,
    "data-parallel": 1.5,
    "gpipe": 1.8,
    "pipedream": 1.3,
    "pipedream-hierarchical": 1.4,
    "pipedream-original": 1.7,
    "hetpipe": 2.0,
    "hetpipe-stage": 1.9,
}


def tiny(microbatches: int = 2, servers: tuple[int, ...] = (1, 1)) -> TrainingInstance:
    chain = LayerChain([1.0, 1.0], [2.0, 2.0], [4.0], [4.0], [6.0, 6.0], name="tiny")
    return TrainingInstance(chain, Cluster.of_servers(servers, 2.0, 1.0), microbatches)


def asked() -> list[Question]:
    """Two points of each figure and row of each table, on two clusters; each an instance of its own."""
    points = [(figure, label) for figure in (*TITLES, "11") for label in ("first", "second")]
    return [
        Question(figure, label, tiny(2 * n + copy + 2)) for n, (figure, label) in enumerate(points) for copy in (0, 1)
    ]


def made_up(everything: list[Question], times: dict[str, float] = TIMES, **changes: dict[str, float]) -> list[Run]:
    """Runs with given times, others in the figures and points of `changes`, as in ``figure_6_second``."""
    runs = []
    for question in everything:
        if question.figure == "11":
            job = TrainingJob(question.instance, STAGES)
            runs.append(job.record(1.0, workloads=[3.0, 2.0, 1.0], times=[3.0, 2.0, 2.5]))
            continue
        here = times | changes.get(f"figure_{question.figure}_{question.label}", {})
        for method in PLANNERS:
            job = TrainingJob(question.instance, method)
            utilisation = 0.5 if question.label == "first" else 0.8
            runs.append(job.record(1.0, time=here[method], utilisation=utilisation, stages=2))
        runs.append(TrainingJob(question.instance, BOUND).record(1.0, bound=0.8))
    return runs


def failures(everything: list[Question], method: str) -> list[Run]:
    jobs = [job for job in jobs_of(everything) if job.method == method]
    return [job.record(error="The process died while it worked on this run (killed)") for job in jobs]


def verdicts(**changes: dict[str, float]) -> list[bool | None]:
    everything = asked()
    return [claim.holds for claim in claims(training_frame(everything, made_up(everything, **changes)))]


def test_questions_are_those_of_the_paper() -> None:
    """All points of the figures on three clusters, the rows of Table III once; quick ones are a part of them."""
    everything, quick = questions(quick=False), questions(quick=True)
    counts = pd.Series([question.figure for question in everything]).value_counts().to_dict()
    tables = {"III 1080ti-8": 7, "III v100-4": 7}
    assert counts == {"6": 15, "7": 12, "8": 15, "9": 9, "10": 15, "11": 3, **tables}
    assert {q.instance.key for q in quick} <= {q.instance.key for q in everything}
    assert {q.figure for q in quick} == {q.figure for q in everything}
    assert [q.label for q in everything if q.figure == "8"][::3] == ["8x4", "16x2", "4x8", "4x4,2x8", "6x2,3x4,1x8"]


def test_the_default_setting_is_run_once() -> None:
    """It stands in all figures."""
    everything = questions(quick=True)
    jobs = jobs_of(everything)
    assert len({job.key for job in jobs}) == len(jobs)
    default = next(q.instance.key for q in everything if q.label == "default")
    assert sum(job.instance.key == default for job in jobs) == len(PLANNERS) + 2


@pytest.mark.parametrize("method", [*PLANNERS, BOUND, STAGES])
def test_runs_hold_what_planners_answer(method: str) -> None:
    """A line of JSON with time, utilisation and stages, or the bound, or W and time by number of stages."""
    run = TrainingJob(tiny(), method).run()
    assert json.loads(json.dumps(run, allow_nan=False)) == run
    assert run["error"] is None
    if method == BOUND:
        assert 0 < run["bound"] <= PLANNERS["spp"].run(tiny(), np.random.default_rng(0)).time
    elif method == STAGES:
        assert len(run["workloads"]) == len(run["times"]) == 2
    else:
        assert run["time"] == PLANNERS[method].run(tiny(), np.random.default_rng(0)).time
        assert 0 < run["utilisation"] <= 1


def test_what_a_planner_refuses_is_an_answer() -> None:
    """Unequal servers are nothing for PipeDream in two levels: told, not tried again."""
    run = TrainingJob(tiny(servers=(1, 2)), "pipedream-hierarchical").run()
    assert run["error"].startswith("InputError: PipeDream's two levels")
    assert not TrainingJob.failed(run)
    assert TrainingJob.failed(TrainingJob(tiny(), "spp").record(1.0, "MemoryError: too much"))


def test_runs_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is done is not repeated; what failed is; other runs in the file are left alone."""
    jobs = [TrainingJob(tiny(), method) for method in ("spp", "gpipe")]
    done = jobs[0].record(1.0, time=123.0)
    with RunLog(tmp_path / "runs.jsonl") as log:
        log.append({"key": "other", "error": None})
        log.append(done)
        log.append(jobs[1].record(1.0, "MemoryError: too much"))
    with local_workers(1) as workers:
        first, second = Report(tmp_path / "runs.jsonl").make_runs(jobs, workers)
    assert first["time"] == 123.0
    assert second["error"] is None
    assert len(read_runs(tmp_path / "runs.jsonl")) == 3
    assert "1 runs are done already" in capsys.readouterr().err


def test_rows_are_geometric_means_over_clusters() -> None:
    """Two clusters, twice and eight times as long as SPP: four times in the mean, +300 %; gaps to the bound."""
    everything = [question for question in asked() if question.figure == "6"]
    runs = made_up(everything)
    for run in runs:
        if run["method"] == "gpipe" and run["question"] in {q.instance.key for q in everything[:2]}:
            run["time"] = 2.0 if run["question"] == everything[0].instance.key else 8.0
    header, rows = figure_rows(training_frame(everything, runs), "6")
    first = dict(zip(header, rows[0], strict=True))
    assert first["microbatches"] == "first"
    assert first["spp [s]"] == "1"
    assert first["gpipe"] == "+300.0 %"
    assert first["improved"] == "-10.0 %"
    assert first["spp over bound"] == "+25.0 %"
    assert dict(zip(header, rows[1], strict=True))["gpipe"] == "+80.0 %"


def test_a_missing_run_leaves_a_dash() -> None:
    everything = [question for question in asked() if question.figure == "8"]
    runs = made_up(everything)
    for run in runs:
        if run["method"] == "pipedream-hierarchical" and run["question"] == everything[0].instance.key:
            run |= {"time": None, "error": "InputError: no"}
    header, rows = figure_rows(training_frame(everything, runs), "8")
    assert [row[header.index("pipedream-hierarchical")] for row in rows] == ["–", "+40.0 %"]


def test_claims_are_true_or_not() -> None:
    """Each is reproduced by times that fit, and not by times that do not."""
    order = ["6", "6", "7", "8", "9", "10", "11", "III 1080ti-8", "III v100-4"]
    everything = asked()
    assert [claim.source for claim in claims(training_frame(everything, made_up(everything)))] == order
    slow_links = {"figure_7_first": {"data-parallel": 9.0, "hetpipe": 9.0}}
    assert verdicts(**slow_links) == [True] * 9
    assert [order[i] for i, holds in enumerate(verdicts()) if not holds] == ["7"]
    for figure, label, changes in (
        ("6", "second", {"pipedream": 0.9}),
        ("8", "first", {"gpipe": 1.0}),
        ("9", "second", {"pipedream": 1.1}),
        ("10", "second", {"spp": 1.2}),
        ("III v100-4", "first", {"data-parallel": 0.99}),
    ):
        broken = verdicts(**slow_links, **{f"figure_{figure}_{label}": changes})
        assert [order[i] for i, holds in enumerate(broken) if not holds] == [figure]


@pytest.mark.parametrize("method", ["gpipe", STAGES])
def test_claims_about_runs_that_failed_are_undecided(method: str) -> None:
    """A process that died says nothing about the paper; there are tables and pictures without it."""
    everything = asked()
    kept = [run for run in made_up(everything) if run["method"] != method]
    frame = training_frame(everything, [*kept, *failures(everything, method)])
    undecided = {claim.source for claim in claims(frame) if claim.holds is None}
    assert undecided == ({"11"} if method == STAGES else {"6", "7", "8", "III 1080ti-8", "III v100-4"})
    assert len(plot_stages(frame).get_lines()) == (2 if method == STAGES else 3)
    header, rows = figure_rows(frame, "6")
    assert (rows[0][header.index("gpipe")] == "–") == (method == "gpipe")


def test_pictures_show_the_runs() -> None:
    """One line for each planner and one for the bound, in seconds; W and time by stages with the fastest marked."""
    everything = asked()
    frame = training_frame(everything, made_up(everything))
    lines = {str(line.get_label()): line for line in plot_sweep(frame, "6").get_lines()}
    assert set(lines) == {*PLANNERS, "bound, one stage a device"}
    assert np.asarray(lines["gpipe"].get_ydata()).tolist() == [1.8, 1.8]
    time, workload, fastest = plot_stages(frame).get_lines()
    assert np.asarray(time.get_ydata()).tolist() == [3.0, 2.0, 2.5]
    assert np.asarray(workload.get_ydata()).tolist() == [3.0, 2.0, 1.0]
    assert np.asarray(fastest.get_xdata()).tolist() == [2]


def test_table_is_printed_and_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a file with all runs come tables, plots and claims, and nothing is run."""
    everything = asked()
    with RunLog("runs.jsonl") as log:
        for run in made_up(everything):
            log.append(run)
    before = Path("runs.jsonl").read_bytes()
    with local_workers(1) as workers:
        assert make_training_tables(everything, workers, Report(Path("runs.jsonl"), Path("tables"), "md")) == 0
    out = capsys.readouterr().out
    assert "Figure 5 (accuracy over time) is out of scope" in out
    assert "NOT reproduced" in out
    assert "improved over spp: -10.0 %" in out
    assert Path("runs.jsonl").read_bytes() == before
    names = ["figure-6", "figure-7", "figure-8", "figure-9", "figure-10", "figure-11"]
    for name in (*names, "table-iii-1080ti-8", "table-iii-v100-4"):
        assert all(Path("tables", f"{name}.{suffix}").stat().st_size for suffix in ("md", "csv", "tex", "png", "svg"))
    assert "not reproduced" in Path("tables", "claims.md").read_text().lower()


def test_wrong_use_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {"table training --format docx": "no format 'docx'", "table training --jobs 0": "--jobs 0"}
    assert_misuse(capsys, wrong | {"table quick --quick": "--quick"})
