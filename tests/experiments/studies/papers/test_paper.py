"""The three papers in one command: small plans from end to end, made-up runs, and the first look at all of it."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import assert_misuse, mtpp
from paper_plans import paper_row

import experiments
from experiments.studies.papers.partition import PartitionMeasures, PartitionRuns
from experiments.studies.papers.plan import Row
from experiments.studies.papers.training import TrainingMeasures
from experiments.studies.papers.verdicts import PaperNumber, comparison, judge, numbers, value_of
from mtpp.runs.log import Run
from mtpp_models import simple

PLAN = paper_row("Table 4", 'methods = ["random-1", "random-100"]\nseeds = 2\ntake = 8\n')
KS = (2, 4, 8, 16, 32, 64)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "paper.toml"
    path.write_text(PLAN)
    return path


def test_a_small_plan_from_end_to_end(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs, verdicts with reasons, tables of numbers, figures, ratios without blocks, hashes; a rerun makes no run."""
    out = tmp_path / "out"
    assert mtpp(f"paper mtpp --profile quick --plan {plan} --out {out}") == 0
    assert "251 numbers of the papers" in capsys.readouterr().out
    document = json.loads((out / "verdicts.json").read_text())
    assert (document["format"], document["profile"], len(document["claims"])) == ("mtpp-verdicts/1", "quick", 251)
    assert all(claim["why"] and claim["verdict"] for claim in document["claims"])
    (cell,) = (c for c in document["claims"] if (c["item"], c["row"], c["column"]) == ("Table 4", "random-1", "k=2"))
    assert (cell["verdict"], cell["graphs"], cell["clusters"]) == ("holds", 8, 8)
    assert cell["low"] < cell["here"] < cell["high"]
    assert cell["why"].startswith("random-100 over random-1 0.9")
    table = pd.read_csv(out / "tables" / "mtpp-table-4.csv")
    assert table["value"].tolist()[0] == pytest.approx(cell["here"])
    ratios = pd.read_csv(out / "ratios.csv.gz")
    assert len(ratios) == 8 * (2 * 2 + 1) == document["runs"][0]["lines"]
    assert "block" not in ratios
    sums = dict(reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text().splitlines())
    assert {"verdicts.json", "ratios.csv.gz", "figures/mtpp-table-4.svg", "runs/partition.jsonl"} <= set(sums)
    assert all(hashlib.sha256((out / name).read_bytes()).hexdigest() == known for name, known in sums.items())
    before = (out / "runs" / "partition.jsonl").read_bytes()
    assert mtpp(f"paper mtpp --profile quick --plan {plan} --out {out} --quiet") == 0
    assert (out / "runs" / "partition.jsonl").read_bytes() == before
    assert json.loads((out / "verdicts.json").read_text()) == document
    assert gzip.decompress((out / "ratios.csv.gz").read_bytes()).count(b"\n") == len(ratios) + 1


def test_python_returns_the_numbers_with_their_verdicts(plan: Path, tmp_path: Path) -> None:
    frame = experiments.paper("mtpp", "quick", tmp_path / "out", plan=plan)
    assert list(frame.columns) == [
        *PaperNumber._fields, *("here", "low", "high", "clusters", "graphs", "verdict", "why"),
    ]  # fmt: skip
    assert len(frame) == 251
    assert set(frame["verdict"]) == {"holds", "undecided", "not comparable"}


def test_a_dry_run_says_what_it_takes(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(f"paper mtpp --profile quick --plan {plan} --out {tmp_path / 'out'} --dry-run") == 0
    assert ["partition", "40", "0.00"] in [line.split() for line in capsys.readouterr().out.splitlines()]
    assert not (tmp_path / "out").exists()


def test_wrong_use_is_one_line_before_any_run(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text(PLAN.replace("random-100", "random-101"))
    (tmp_path / "empty").mkdir()
    named = {
        "paper mttp": "no paper 'mttp'",
        "paper --profile quik": "no profile 'quik'",
        f"paper --plan {bad}": "Unknown method 'random-101'",
        f"paper --plan {tmp_path / 'none.toml'}": "No such file",
        f"paper --plan {plan} --regal {tmp_path / 'none'}": "no such folder",
        f"paper --plan {plan} --regal {tmp_path / 'empty'}": "graph_*.pbtxt",
        f"paper --plan {plan} --jobs 0": "jobs",
    }
    assert_misuse(capsys, {f"{command} --out {tmp_path / 'out'}": words for command, words in named.items()})
    assert not list(tmp_path.glob("out/runs/*"))


def test_a_run_that_failed_costs_its_cell() -> None:
    """Also where several seeds were run, of which the others ended well."""
    study = PartitionRuns(_rows(), None)
    runs = made_up(study, 1.0)
    at = next(i for i, run in enumerate(runs) if run["method"] == "random-100")
    runs[at] |= {"error": "boom", "bottleneck": None, "block": None}
    measures = PartitionMeasures(study, runs, regal=False)
    cells = {one.row: measures.measured(one) for one in numbers() if (one.item, one.column) == ("Table 4", "k=2")}
    shown = {row: cell and cell.part and cell.part.value for row, cell in cells.items()}
    assert shown["random-1"] == pytest.approx(1.179)
    assert np.isnan(shown["random-100"] or 0.0)
    assert shown["brkga-100"] is None


def _rows(take: int = 12, ks: tuple[int, ...] = (2,)) -> list[Row]:
    methods = ("random-1", "random-100")
    return [Row("mtpp", ("Table 4",), "partition", graphs="regal", k=ks, methods=methods, take=take, seeds=2)]


def made_up(study: PartitionRuns, factor: float) -> list[Run]:
    """Runs whose ratios are those of the paper times a factor."""
    runs = []
    for job in study.jobs:
        least = simple(job.instance)
        if job.method == "simple":
            runs.append(job.record(1.0, bound=least, optimal=True))
        else:
            ratio = value_of("mtpp", "Table 4", job.method, f"k={job.instance.k}")
            runs.append(job.record(1.0, bottleneck=factor * (ratio or 0.0) * least, block=[0]))
    return runs


@pytest.mark.parametrize(("factor", "comparable"), [(1.0, "same"), (1.005, "no")])
def test_the_fingerprint_of_regal_comes_first(factor: float, comparable: str) -> None:
    """Graphs on which random-1 differs by more than 0.01 somewhere are not read as REGAL's were."""
    study = PartitionRuns(_rows(ks=KS), None)
    measures = PartitionMeasures(study, made_up(study, factor), regal=True)
    cells = [one for one in numbers() if one.item in ("Table 4", "Table 5", "Table 6") and "solved" not in one.column]
    assert {measures.comparison_of(one).comparable for one in cells} == {comparable}
    if comparable == "same":
        cell = next(one for one in cells if (one.row, one.column) == ("random-100", "k=64"))
        assert judge(cell, measures.comparison_of(cell), measures.measured(cell))[0].value == "holds"


def test_graphs_in_regals_style_are_compared_up_to_eight_blocks() -> None:
    study = PartitionRuns(_rows(ks=KS), None)
    measures = PartitionMeasures(study, made_up(study, 1.0), regal=False)
    for one in numbers():
        if one.item in ("Table 4", "Table 5", "Table 6"):
            k = int(one.column.split()[0].removeprefix("k="))
            alike = k <= 8 and "solved" not in one.column
            assert measures.comparison_of(one).comparable == ("shape" if alike else "no")


def test_all_numbers_of_spp_are_judged_without_runs() -> None:
    """What is counted or computed holds, all else is undecided or cannot be compared."""
    measures = TrainingMeasures([], [])
    found = [judge(one, comparison(one), measures.measured(one)) for one in numbers() if one.paper == "spp"]
    assert sum(verdict.value == "holds" for verdict, _ in found) == 3
    assert all(why for _, why in found)


@pytest.mark.slow
def test_the_first_look_at_all_three_papers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Profile smoke: 459 verdicts, each with a reason, in minutes."""
    assert mtpp(f"paper --profile smoke --jobs 2 --out {tmp_path} --quiet") == 0
    document = json.loads((tmp_path / "verdicts.json").read_text())
    assert len(document["claims"]) == 459
    assert all(claim["why"] for claim in document["claims"])
    found = {claim["verdict"] for claim in document["claims"]}
    assert found == {"holds", "fails", "undecided", "not comparable"}
    assert "459 numbers of the papers" in capsys.readouterr().out
