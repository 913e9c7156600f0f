"""The tables of pipelined training: runs that resume, what the figures say of them, and claims that can fail."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import assert_misuse
from spp_runs import as_in_the_paper, asked, failures, made_up, tiny, verdicts

from experiments.studies.report import Report
from experiments.studies.spp.jobs import (
    BASELINES,
    BOTH_SIDES,
    BOUND,
    CALIBRATION,
    GUARANTEES,
    STAGES,
    TABLE,
    TrainingJob,
    both_sides,
    cycles,
    jobs_of,
    questions,
    speed_up,
    training_frame,
)
from experiments.studies.spp.tables import (
    cell_rows,
    cells,
    claims,
    correlations,
    figure_rows,
    make_training_tables,
    plot_cells,
    plot_stages,
    plot_sweep,
)
from heuristics.planning import PLANNERS
from instances.planning.chains import simulation
from mtpp.runs.job import RunLog, read_runs
from mtpp.runs.workers import local_workers
from mtpp.text.tables import aligned


def test_questions_are_those_of_the_paper() -> None:
    """All points of the figures on three clusters, the rows of Table III once; quick ones are a part of them."""
    everything, quick = questions(quick=False), questions(quick=True)
    counts = pd.Series([question.figure for question in everything]).value_counts().to_dict()
    tables = {"III 1080ti-8": 7, "III v100-4": 7}
    assert counts == {"6": 15, "7": 12, "8": 15, "9": 9, "10": 15, "11": 3, **tables}
    assert {q.instance.key for q in quick} <= {q.instance.key for q in everything}
    assert {(q.figure, q.label) for q in quick} == {(q.figure, q.label) for q in everything}
    assert [q.label for q in everything if q.figure == "8"][::3] == ["8x4", "16x2", "4x8", "4x4,2x8", "6x2,3x4,1x8"]


def test_the_default_setting_is_run_once() -> None:
    """It stands in all figures."""
    everything = questions(quick=True)
    jobs = jobs_of(everything)
    assert len({job.key for job in jobs}) == len(jobs)
    default = next(q.instance.key for q in everything if q.label == "default")
    assert sum(job.instance.key == default for job in jobs) == len(PLANNERS) + 4


def test_each_figure_is_asked_what_it_needs() -> None:
    """All compare planners with the bound, but 11; 8 and 9 take both sides of a cut, too, Table III its settings."""
    extras = {"8": BOTH_SIDES, "9": BOTH_SIDES, "III v100-4": CALIBRATION, "6": None}
    for figure, extra in extras.items():
        one = next(question for question in questions(quick=True) if question.figure == figure)
        methods = [*PLANNERS, BOUND, GUARANTEES] + [extra] * (extra is not None)
        assert [job.method for job in jobs_of([one])] == methods
    assert {job.method for job in jobs_of([q for q in questions(quick=True) if q.figure == "11"])} == {STAGES}


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


def test_an_allreduce_takes_as_often_its_time_as_a_setting_says() -> None:
    """In data parallelism 6 s of work and an AllReduce of 12 s, at full and at half bandwidth."""
    run = TrainingJob(tiny(), CALIBRATION).run()
    assert run["settings"]["data-parallel"][:6] == [18.0, 30.0, 54.0, 30.0, 54.0, 102.0]


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
    """Each holds by times that fit, and not by times that do not."""
    changes = {"figure_7_first": {"data-parallel": 9.0, "hetpipe": 9.0}, "figure_10_second": {"gpipe": 3.0}}
    before = verdicts(**changes)
    assert before["text"] == [True] * 5
    assert before["Figure 4"] == [True]
    assert before["Figure 11"] == [None, True, None]  # three stages say nothing of four or six
    for figure in ("6", "7", "8", "10"):
        assert all(before[f"Figure {figure}"])
    assert before["Figure 9"] == [True, None]  # the labels made up are no numbers of layers
    assert not any(verdicts()["Figure 7"] + verdicts()["Figure 10"][1:])
    for figure, label, times in (
        ("6", "second", {"pipedream": 0.9}),
        ("8", "first", {"gpipe": 1.0}),
        ("9", "second", {"pipedream": 1.1}),
        ("10", "second", {"spp": 1.2}),
    ):
        after = verdicts(
            **(changes | {f"figure_{figure}_{label}": changes.get(f"figure_{figure}_{label}", {}) | times})
        )
        broken = {source for source in before if after[source] != before[source]}
        assert broken == {f"Figure {figure}"} | ({"text"} if "data-parallel" in times else set())


def test_claims_that_fail_say_what_the_other_side_of_the_cuts_gives() -> None:
    everything = asked()
    frame = training_frame(everything, made_up(everything, figure_8_first={"gpipe": 0.9}))
    (claim,) = [claim for claim in claims(frame) if claim.source == "Figure 8"]
    assert claim.measured == "closest: GPipe at first, -10.0 %; with both sides of each cut first +12.5 %"


def test_claims_of_table_iii() -> None:
    """The paper's own times make them all true; other times or memories do not."""
    everything, runs = as_in_the_paper()
    own = claims(training_frame(everything, runs))
    table = [claim for claim in own if claim.source == "Table III"]
    assert [claim.holds for claim in table] == [True] * 6
    assert table[0].measured == "47"
    everything, runs = as_in_the_paper(spp=2.0, hetpipe=3.0)
    holds = [claim.holds for claim in claims(training_frame(everything, runs)) if claim.source == "Table III"]
    assert holds == [False, False, False, False, False, True]
    runs[0]["needs"]["gpipe"] = 1e11
    assert claims(training_frame(everything, runs))[-1].holds is False
    undecided = [claim.holds for claim in claims(training_frame(everything, runs[1:])) if claim.source == "Table III"]
    assert undecided == [None] * 5 + [True]


def test_the_paper_s_table_is_that_of_the_data() -> None:
    """All 63 cells of the file, and their percentages but for rounding in the row of XLNet, as the paper has it."""
    if "MTPP_DATA" not in os.environ:
        pytest.skip("no published data")
    data = pd.read_csv(Path(os.environ["MTPP_DATA"], "spp", "table3.csv"))
    names = {"Transformer": "transformer-base"} | {
        name: name.lower() for name in data["model"] if name != "Transformer"
    }
    planners = {"SPP": "spp"} | {title: name for name, title in BASELINES.items()}
    assert len(data) == sum(len(row) for models in TABLE.values() for row in models.values()) == 63
    for cell in data.to_dict("records"):
        testbed, model, planner = cell["testbed"].lower(), names[cell["model"]], planners[cell["planner"]]
        seconds = TABLE[testbed][model][planner]
        assert (seconds is None) == bool(cell["oom"])
        if seconds is not None:
            assert seconds == cell["seconds"]
            if planner != "spp":
                over = speed_up(testbed, model, planner)
                assert over is not None
                assert 100 * over == pytest.approx(cell["speedup_percent"], abs=0.25)


def test_cells_stand_side_by_side() -> None:
    """The paper's seconds and speed-ups and those of the runs, what does not fit marked; a picture of all."""
    everything, runs = as_in_the_paper(gpipe=2.0)
    table = cells(training_frame(everything, runs))
    assert len(table) == 63
    header, rows = cell_rows(table, "1080ti-8")
    assert rows[5] == ["resnet152", "SPP", "0.732", "0.732", "", "", "0.9", ""]
    assert rows[8] == ["", "PipeDream", "OOM", "9.000", "–", "+1129.5 %", "93.1", "OOM"]
    assert rows[2][:6] == ["", "GPipe", "2.120", "4.240", "+17.8 %", "+135.7 %"]
    assert max(map(len, aligned(header, rows).splitlines())) <= 100
    assert sum(len(np.asarray(line.get_xdata())) for line in plot_cells(table).get_lines()) == 2 + 63 - 14


def test_rank_correlation_is_one_with_the_paper_itself_and_missing_without_runs() -> None:
    everything, runs = as_in_the_paper()
    found = correlations(training_frame(everything, runs))
    assert list(found.values()) == pytest.approx([1.0, 1.0, 1.0])
    assert all(map(math.isnan, correlations(training_frame(everything, runs[1:])).values()))


def test_a_model_that_is_left_out_does_not_choose_its_setting() -> None:
    """One setting has the paper's times for all models but one, which has them in another: in vain when left out."""
    everything, runs = as_in_the_paper()
    for n, run in enumerate(runs):
        other = 1 if n % 7 else 2  # the first model of each testbed
        for planner, times in run["settings"].items():
            run["settings"][planner] = [s if i == other else s * (1 + len(planner)) for i, s in enumerate(times)]
    found = correlations(training_frame(everything, runs))
    assert found["left out"] == pytest.approx(found["fitted"])
    assert found["as stated"] < found["fitted"] < 1


def test_pe_takes_the_cycles_of_lemma_1() -> None:
    """M + 4 S - 4 of them; ten in Figure 4."""
    assert cycles(2, 6) == 10
    assert all(cycles(S, M) == M + 4 * S - 4 for S in (1, 2, 5) for M in (1, 3, 8))


def test_both_sides_are_no_worse_than_one() -> None:
    instance = simulation(0, servers=(1, 2, 3), microbatches=4, layers=3)
    assert both_sides(instance) <= PLANNERS["spp"].run(instance, np.random.default_rng(0)).time


@pytest.mark.parametrize("method", ["gpipe", STAGES])
def test_claims_about_runs_that_failed_are_undecided(method: str) -> None:
    """A process that died says nothing about the paper; there are tables and pictures without it."""
    everything = asked()
    kept = [run for run in made_up(everything) if run["method"] != method]
    frame = training_frame(everything, [*kept, *failures(everything, method)])
    undecided = {claim.source for claim in claims(frame) if claim.holds is None}
    figures = ("11",) if method == STAGES else ("6", "7", "8", "10")
    assert {f"Figure {figure}" for figure in figures} <= undecided
    assert not {"Figure 4", "text"} & undecided
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
    assert "FAILS" in out
    assert "Clusters a simulated setting: 2; no point is left out." in out
    assert "improved over spp: -10.0 %" in out
    assert Path("runs.jsonl").read_bytes() == before
    names = ["figure-6", "figure-7", "figure-8", "figure-9", "figure-10", "figure-11"]
    for name in (*names, "table-iii-1080ti-8", "table-iii-v100-4"):
        assert all(Path("tables", f"{name}.{suffix}").stat().st_size for suffix in ("md", "csv", "tex", "png", "svg"))
    assert all(word in Path("tables", "claims.md").read_text() for word in ("holds", "FAILS", "undecided"))
    written = pd.read_csv(Path("tables", "figure-7.csv"))
    assert {"spp [s]", "improved over spp", "spp over bound"} < set(written.select_dtypes("float").columns)
    assert written["improved over spp"].tolist() == pytest.approx([0.9] * len(written))


def test_wrong_use_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {"table training --format docx": "--format docx: give one of txt", "table training --jobs 0": "--jobs 0"}
    assert_misuse(capsys, wrong | {"table quick --quick": "--quick"})
