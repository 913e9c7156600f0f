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
from experiments.studies.mtpp import Grid
from experiments.studies.papers.numbers import PaperNumber, Row, comparison, judge, numbers, value_of
from experiments.studies.papers.partition import PartitionMeasures, PartitionRuns, is_regal
from experiments.studies.papers.training import TrainingMeasures
from mtpp.runs.job import Run
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
    (cell,) = (c for c in document["claims"] if (c["item"], c["row"], c["column"]) == ("Table 4", "random-100", "k=2"))
    assert (cell["verdict"], cell["graphs"], cell["clusters"]) == ("holds", 8, 8)
    assert cell["low"] < cell["here"] < cell["high"]
    assert cell["why"].startswith("random-100 over random-1 0.9")
    table = pd.read_csv(out / "tables" / "mtpp-table-4.csv")
    assert table.set_index("row")["value"]["random-100"] == pytest.approx(cell["here"])
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
        f"paper --plan {tmp_path / 'none.toml'}": "there is no such file",
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


def write_regal(path: Path, seed: int) -> None:
    """A path of nodes in the form of REGAL's files."""
    nodes = ['node {\n  name: "_SOURCE"\n}']
    for i in range(1, 9):
        read = f"  input_info {{\n    preceding_node: {i - 1}\n  }}\n" if i > 1 else ""
        made = f"  output_info {{\n    size: {50 + i}\n  }}\n  compute_cost: {40 + (7 * seed + 3 * i) % 11}\n"
        nodes.append(f'node {{\n  name: "node_{i}"\n  id: {i}\n{read}{made}}}')
    path.write_text("\n".join(nodes) + "\n")


def stand_ins(rng: np.random.Generator, shift: float = 0.0) -> Grid:
    """random-1 on a thousand graphs whose means are the paper's but for a shift and chance, as of another seed."""
    logs = []
    for k in KS:
        paper = (value_of("mtpp", "Table 4", "random-1", f"k={k}") or 0.0) + shift
        graphs = rng.normal(0, 0.1, 1000)
        logs.append(np.log(paper) + graphs - graphs.mean() + rng.normal(0, 0.025, 1000))
    questions = pd.DataFrame({"k": np.repeat(KS, 1000), "cluster": "one"})
    values = np.concatenate(logs)[np.newaxis]
    return Grid(["random-1"], questions, np.isfinite(values), values)


def test_regals_graphs_are_known_by_their_fingerprint() -> None:
    """All of twenty stand-ins for them, and none whose means are off by 0.02."""
    rng = np.random.default_rng(0)
    assert all(is_regal(stand_ins(rng)) for _ in range(20))
    assert not any(is_regal(stand_ins(rng, shift)) for shift in (-0.02, 0.02) for _ in range(20))


@pytest.mark.parametrize("comparable", ["same", "no"])
def test_the_fingerprint_of_regal_comes_first(comparable: str, tmp_path: Path) -> None:
    """Of all files of the folder, however few a profile takes; graphs that are read in another way are not compared."""
    for i in range(6):
        write_regal(tmp_path / f"graph_{i}.pbtxt", i)
    study = PartitionRuns(_rows(take=4, ks=KS), str(tmp_path))
    assert len(study.fingerprint) == 6 * len(KS)
    runs = made_up(study, 1.0)
    for run in runs:
        if comparable == "no" and run["key"] in study.fingerprint - study.keys("Table 4"):
            run["bottleneck"] *= 1.1
    measures = PartitionMeasures(study, runs, regal=True)
    cells = [one for one in numbers() if one.item in ("Table 4", "Table 5", "Table 6") and "solved" not in one.column]
    assert {measures.comparison_of(one).comparable for one in cells} == {comparable}


def stopped(k: int, bound: float, proof: float | None, most: float | None = None) -> PartitionMeasures:
    """Bounds on twelve networks that stopped at some multiple of *simple*, and optima that are proved at another.

    A solution of the programs of the bounds costs `most`.
    """
    methods = (("bottleneck", 1.0), ("exact", bound), ("ideals", proof), ("brkga-10000", None))
    rows = [
        Row(
            "mtpp", ("Table 2", "Table 3"), "partition", graphs="networks", k=(k,), methods=(method,),
            starts=("kahn",), solver=("highs",), limit=1.0, paper_limit=1.0 if method == "ideals" else 9.0, take=12,
        )
        for method, _ in methods
    ]  # fmt: skip
    study, runs = PartitionRuns(rows, None), list[Run]()
    for job in study.jobs:
        least = simple(job.instance)
        value = dict(methods).get(job.method, 1.0 if job.method == "simple" else 4.0)
        if job.method in ("kahn", "ideals", "brkga-10000"):
            runs.append(job.record(1.0, bottleneck=least * (value or 4.0), bound=None, optimal=value is not None))
        else:
            reached = {} if most is None else {"at_most": least * most}
            runs.append(job.record(1.0, bound=least * (value or 0.0), optimal=job.method == "simple", **reached))
    return PartitionMeasures(study, runs, regal=False)


@pytest.mark.parametrize(
    ("bound", "proof", "most", "verdict"),
    [(2.1, 2.2, None, "holds"), (1.2, 1.3, None, "fails"), (1.2, None, None, "undecided"), (1.2, None, 1.3, "fails")],
)
def test_optima_bracket_bounds_that_stopped(
    bound: float, proof: float | None, most: float | None, verdict: str
) -> None:
    """That bounds double *simple* is decided where the bound that was reached and the most it can be say the same."""
    measures = stopped(16, bound, proof, most)
    (claim,) = (one for one in numbers() if (one.paper, one.item) == ("mtpp", "Abstract"))
    measured = measures.measured(claim)
    assert judge(claim, measures.comparison_of(claim), measured)[0].value == verdict
    assert measured is not None
    assert measured.part is not None
    assert measured.part.value == pytest.approx(bound)
    assert "ideals" not in measures.tables()[0].grid.index


def test_a_row_with_one_more_bound_is_never_the_larger_one() -> None:
    """Whatever the bounds of Table 3 could still reach: its rows have those above them."""
    measures = stopped(64, 1.5, None)
    (row,) = (one for one in numbers() if one[:4] == ("mtpp", "Table 3", "exact", "k=64"))
    measured = measures.measured(row)
    assert measured is not None
    (part,) = measured.deciding
    assert sorted(end.value for end in part.ends) == pytest.approx([0.25, 1.0])


def test_a_bound_within_the_gap_of_its_program_cannot_rise() -> None:
    """A solver ends there, so that the best partition, at four times *simple*, is no end of it."""
    (number,) = (one for one in numbers() if (one.paper, one.item) == ("mtpp", "Abstract"))
    for most, ends in ((1.2 * (1 + 9e-5), []), (1.3, [1.2, 1.3])):
        measured = stopped(16, 1.2, None, most).measured(number)
        assert measured is not None
        assert measured.part is not None
        assert [end.value for end in measured.part.ends] == pytest.approx(ends)


def test_each_claim_counts_once() -> None:
    """The largest number of a column states no order, and what is stated elsewhere is no claim of its own."""
    measures = stopped(2, 1.0, None)
    column = [one for one in numbers() if (one.paper, one.item, one.column) == ("mtpp", "Table 1", "k=2")]
    alone = [one.row for one in column if measures.comparison_of(one).comparable == "no"]
    assert alone == [max(column, key=lambda one: float(one.value)).row]
    again = [("spp", "Section VI"), ("placeto", "Fig. 4"), ("mtpp", "Section 1.1")]
    for one in numbers():
        if (one.paper, one.item) in again and comparison(one).comparable != "setting":
            assert comparison(one).why.startswith("stated in")


def test_graphs_in_regals_style_are_compared_up_to_eight_blocks() -> None:
    study = PartitionRuns(_rows(ks=KS), None)
    assert max(job.instance.k for job in study.jobs) == 8
    measures = PartitionMeasures(study, made_up(study, 1.0), regal=False)
    for one in numbers():
        if one.item in ("Table 4", "Table 5", "Table 6"):
            k = int(one.column.split()[0].removeprefix("k="))
            largest = (one.item, one.row) in (("Table 4", "random-1"), ("Table 6", "simple"))
            alike = k <= 8 and "solved" not in one.column and not largest
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
    assert found == {"holds", "fails", "tie", "undecided", "not comparable"}
    assert "459 numbers of the papers" in capsys.readouterr().out
