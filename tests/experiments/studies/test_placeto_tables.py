"""The runs and tables of learned placement: resumed, repeated, and honest about what does not hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import assert_misuse
from placement_runs import runs

import experiments
from experiments.studies.placeto.jobs import jobs_of
from experiments.studies.placeto.measured import ABLATIONS, Budget, Measured
from experiments.studies.placeto.tables import claims, make_placement_tables, plot_distributions, sections
from experiments.studies.report import Report
from mtpp.runs.log import read_runs
from mtpp.runs.workers import local_workers

pytest.importorskip("torch", reason="PyTorch is not installed")


def test_values_are_medians_of_seeds_of_means_of_graphs() -> None:
    found = Measured(runs())
    assert found.value("nmt", "fast", "zero-shot") == 0.6
    assert found.value("nmt", "fast", "sampled") == pytest.approx(0.7)
    assert found.value("nmt", "fast", "sampled", 1) == 0.6
    assert found.simulations("nmt", "fast", "zero-shot") == 10
    assert found.simulations("nmt", "rivals", "heft") is None


def test_what_was_not_measured_is_missing_and_holds_nothing() -> None:
    found = Measured([r for r in runs() if r["method"] != "rivals"])
    assert found.value("nmt", "rivals", "heft") is None
    beaten = {claim.text: claim for claim in claims(found)}["nmt: zero-shot beats heft"]
    assert beaten.holds is None
    assert beaten.measured == "0.600, –"
    assert beaten.beside == (0.65, None)


def test_without_graphs_that_were_optimised_nothing_is_said_of_them() -> None:
    """When the runs failed that optimise for single graphs, claims about these are undecided."""
    found = Measured([r for r in runs() if r["method"] != "optimised"])
    said = {claim.text: claim.holds for claim in claims(found)}
    assert said["nmt: zero-shot is within 5 % of Placeto optimised"] is None
    assert said["nmt: zero-shot beats planner zero-shot"] is None
    assert said["nmt: zero-shot beats heft"]


def test_claims_that_do_not_hold_say_no() -> None:
    found = {claim.text: claim.holds for claim in claims(Measured(runs()))}
    assert found["nmt: zero-shot beats heft"]
    assert found["nmt: zero-shot beats annealing at equal simulations"]
    assert not found["nmt: zero-shot is within 5 % of Placeto optimised"]
    assert found["nmt: Placeto optimised beats planner optimised"]
    assert found["nmt: Placeto optimised beats scotch"] is None
    assert found["nmt: planner zero-shot is at most 10 % better than random"]
    assert found["nmt: zero-shot, the slowest traversal order is within 10 % of the fastest"]
    assert not any(text.startswith("ablation") for text in found)


def test_ablations_are_compared_on_their_family() -> None:
    on_ptb = [{**r, "instance": "ptb"} for r in runs()]
    found = {claim.text: claim for claim in claims(Measured(on_ptb))}
    full = found["ablation: the full policy beats the partitioner"]
    assert (full.holds, full.measured) == (True, "0.000, 0.200")
    assert full.beside == pytest.approx((0.0, 0.7))


def test_each_claim_has_annealing_and_greedy_beside_it() -> None:
    *_, last = sections(Measured(runs()), Budget())
    assert last.header == ["claim", "of", "holds", "measured", "annealing", "greedy"]
    assert {row[2] for row in last.rows} == {"holds", "FAILS", "undecided"}
    assert all(row[4] != "–" and row[5] != "–" for row in last.rows)


def test_distributions_have_a_line_a_method() -> None:
    ax = plot_distributions(Measured(runs()), "nmt")
    labels = ax.get_legend_handles_labels()[1]
    assert {"random", "greedy", "planner, zero-shot", "planner, optimised", "Placeto, zero-shot"} <= set(labels)
    assert ax.get_xlabel() == "step time / step time on one device"


def test_jobs_are_all_different_and_named_by_what_they_depend_on() -> None:
    jobs = jobs_of(["ptb"], Budget(seeds=2))
    assert len({job.key for job in jobs}) == len(jobs) == 1 + 2 * (3 + len(ABLATIONS))
    more = jobs_of(["ptb"], Budget(updates=201, seeds=2))
    assert sum(a.key != b.key for a, b in zip(jobs, more, strict=True)) == 2


@pytest.mark.slow
def test_tables_end_to_end_and_after_an_interruption(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All runs with the least of training; those lost are made again by two processes, and the tables are the same."""
    budget = Budget(updates=1, alone=1, ablation=1, annealing=100, graphs=1, seeds=1)
    out = tmp_path / "runs.jsonl"

    def tables(processes: int) -> str:
        with local_workers(processes) as workers:
            report = Report(out, tmp_path / "tables", "csv")
            assert make_placement_tables(budget, workers, report, ["ptb"]) == 0
        return capsys.readouterr().out

    first = tables(1)
    assert [line.split(",")[0] for line in first.splitlines()].count("zero-shot") == 1
    names = {path.name for path in (tmp_path / "tables").iterdir()}
    assert {"placement-claims.md", "placement-unseen.tex", "placement-ptb.png", "placement-ptb.svg"} <= names
    lines = out.read_text().splitlines(keepends=True)
    assert len(lines) == 4 + len(ABLATIONS)
    out.write_text("".join(lines[:-2]) + lines[-2][:100])
    assert tables(2) == first
    before = [json.loads(line) for line in lines]
    # Lines are in the order in which jobs end, which is that of two processes.
    assert {run["key"]: run["answer"] for run in read_runs(out)} == {run["key"]: run["answer"] for run in before}


def test_wrong_use_is_refused_before_any_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {"table placement --format doc": "no format 'doc'", "table placement quick": "placement"}
    assert_misuse(capsys, wrong | {"table quick --quick": "--quick"})
    assert not Path("runs.jsonl").exists()


def test_without_pytorch_the_table_names_the_extra(folder: Path) -> None:
    script = "import sys; sys.modules['torch'] = None; import mtpp.cli.main as cli; sys.exit(cli.main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, "table", "placement", "--quick"]
    root = Path(experiments.__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "mtpp: PyTorch is not installed; install the extra: pip install -e '.[learn]' in the folder of mtpp.\n"
    )
    assert not Path("runs.jsonl").exists()
