"""Placeto on the networks of its paper: jobs, tables of what is there, and the least of training end to end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import assert_misuse

import experiments
from experiments.studies import placeto as placeto_study
from experiments.studies.placeto import CELLS, DESIGNS, Curve, NetworkBudget, jobs_of, placeto_sections
from experiments.studies.report import Report
from instances.graph.tensors import IntArray
from instances.placement.problem import PlacementInstance
from mtpp.runs.job import Run
from mtpp.runs.workers import this_process

pytest.importorskip("torch", reason="PyTorch is not installed")

LEAST = NetworkBudget(groups=8, published=32, recurrent=16, ablation=64, orders=2, ordered=16, graphs=1)


def run(what: str, answer: dict[str, object], **options: object) -> Run:
    cell = CELLS[0]
    return {
        "instance": cell.network,
        "k": cell.devices,
        "method": what,
        "options": options,
        "answer": answer,
        "error": None,
    }


def rows(runs: list[Run], name: str) -> list[list[str]]:
    return next([list(row) for row in s.rows] for s in placeto_sections(runs, NetworkBudget()) if s.name == name)


def test_jobs_are_all_different() -> None:
    jobs = jobs_of(NetworkBudget())
    assert len({job.key for job in jobs}) == len(jobs) == 3 * len(CELLS) + len(DESIGNS) + 1 + 3
    more = jobs_of(NetworkBudget(published=4001))
    assert sum(a.key != b.key for a, b in zip(jobs, more, strict=True)) == len(CELLS)


def test_samples_count_until_a_time_close_to_the_best() -> None:
    """Placeto is within 1 % of its best after 64 episodes, and of the RNN's after 32."""
    ours = {"curve": [(32, 900, 0.9), (64, 1800, 0.805), (96, 2700, 0.8)], "episodes": 128, "simulations": 3600}
    rnn = {"curve": [(16, 16, 1.0), (320, 320, 0.9)], "episodes": 400, "simulations": 400}
    row = rows([run("published", ours), run("recurrent", rnn)], "placeto-samples")[0]
    assert row == ["inception-v3, 2", "11.1 %", "-0.9 %", "64 (1800)", "320", "32 (900)", "10x", "4.9x"]
    alone = rows([run("published", ours)], "placeto-samples")[0]
    assert alone[1:] == ["–", "-0.9 %", "64 (1800)", "–", "–", "–", "4.9x"]


def test_what_does_not_fit_says_so() -> None:
    found = {"one device": 2.0, "single": {"time": 1.0, "peak": 12e9}, "expert": {"time": 0.75, "peak": 1e9}}
    row = rows([run("search", found)], "placeto-times")[0]
    assert row == ["inception-v3, 2", "2.000", "–", "–", "OOM", "0.750", "–", "–", "–", "–"]


def test_rivals_stand_below_the_designs() -> None:
    """None of them is slower by anything where the full network is missing, and the paper says nothing of them."""
    unseen = run("unseen", {"RNN": [0.75, 0.25], "random": [2.0, 2.0]})
    full, *_, planner, random = rows([run("design", {"times": [0.2, 0.6]}, design="full"), unseen], "placeto-designs")
    assert full == ["full", "0.400", "0.0 %", "0.0 %"]
    assert [planner, random] == [["RNN", "0.500", "25.0 %", "–"], ["random", "2.000", "400.0 %", "–"]]
    assert rows([unseen], "placeto-designs")[-2:] == [["RNN", "0.500", "–", "–"], ["random", "2.000", "–", "–"]]


def test_a_curve_keeps_what_is_better() -> None:
    import numpy as np

    curve = Curve()
    for times in ([3.0, 2.0], [2.5, 2.0], [1.0, 4.0]):
        curve.planner(np.array(times))
    assert curve.answer() == {"curve": [(2, 2, 2.0), (6, 6, 1.0)], "episodes": 6, "simulations": 6}


def test_orders_to_place_in_are_not_those_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    job = next(job for job in jobs_of(LEAST) if job.options.get("planner"))
    drawn, draw = [], placeto_study._orders

    def orders(instance: PlacementInstance, first: int, count: int) -> list[IntArray]:
        drawn.append(range(first, first + count))
        return draw(instance, first, count)

    monkeypatch.setattr(placeto_study, "_orders", orders)
    assert job.run()["error"] is None
    assert drawn == [range(LEAST.orders), range(LEAST.orders, 2 * LEAST.orders)]


def test_the_least_of_training_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One job of each kind; a second call makes nothing again."""
    jobs = {job.what: job for job in jobs_of(LEAST)}
    planner = next(job for job in jobs_of(LEAST) if job.options.get("planner"))
    report = Report(tmp_path / "runs.jsonl", quiet=True)
    with this_process() as workers:
        made = report.make_runs([*jobs.values(), planner], workers)
        monkeypatch.setattr(placeto_study.NetworkJob, "run", None)
        again = report.make_runs([*jobs.values(), planner], workers)
    assert [found["key"] for found in again] == [found["key"] for found in made]
    assert [found["error"] for found in made] == [None] * len(made)
    sections = placeto_sections(made, LEAST)
    assert all(len(row) == len(s.header) for s in sections for row in s.rows)


def test_wrong_use_is_refused_before_any_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {"table placeto --format doc": "--format doc: give one of txt", "table placeto quick": "placeto"}
    assert_misuse(capsys, wrong | {"table quick --quick": "--quick"})
    assert not Path("runs.jsonl").exists()


def test_without_pytorch_the_table_names_the_extra(folder: Path) -> None:
    words = ["table", "placeto", "--quick"]
    hidden = "import scipy.stats, sys; sys.modules['torch'] = None"  # scipy would look into what is in its place
    script = f"{hidden}; import mtpp.cli.main as cli; sys.exit(cli.main({words}))"
    root = Path(experiments.__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "mtpp: PyTorch is not installed; install the extra: pip install torch==2.13.0\n"
    assert not Path("runs.jsonl").exists()
