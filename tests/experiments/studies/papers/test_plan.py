"""The plan of runs: what it asks for, and what it refuses in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from paper_plans import paper_row
from profile_files import edits

from experiments.studies.papers.numbers import PROFILES, Row, comparison, numbers, papers_of, read_plan
from experiments.studies.papers.partition import PartitionRuns, taken
from experiments.studies.papers.training import training_questions
from instances import InputError
from instances.suites import find_suite

ROW = paper_row(
    "Table 5",
    """methods = ["exact"]
starts = ["kahn"]
seeds = 1
solver = ["highs"]
gap = 1e-4
threads = 1
limit = { quick = 1, paper = 3600 }
take = 8
""",
)


def plan(folder: Path, text: str) -> Path:
    path = folder / "paper.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("profile", PROFILES)
def test_every_number_that_can_be_compared_has_runs(profile: str) -> None:
    """Its item, or the one that it rests on; what is only counted or computed needs none."""
    rests = {
        "Abstract": "Table 2", "Section 1.1": "Table 3", "Section I": "Table III", "Section VI": "Table III",
        "Section V-A": "Table III", "Section 1": "Table 1", "Section 4.1": "Table 1", "Fig. 4": "Table 1",
    }  # fmt: skip
    asked = {(row.paper, item) for row in read_plan(profile) for item in row.items}
    for number in numbers():
        if comparison(number).comparable in ("same", "shape") and number.item not in ("Footnote 3", "Fig. 4"):
            item = "Table III" if number[:2] == ("spp", "Abstract") else rests.get(number.item, number.item)
            item = "Table 1" if number[:2] == ("placeto", "Abstract") else item
            assert (number.paper, item) in asked


def test_the_paper_profile_has_the_limits_of_the_paper() -> None:
    """15 and 60 minutes, one thread, a gap of 1e-4, all graphs and blocks."""
    rows = [row for row in read_plan("paper") if row.limit is not None and row.methods != ("ideals",)]
    for row in rows:
        weak = row.methods[0].startswith("bottleneck")
        assert (row.limit, row.paper_limit) == ((900, 900) if weak else (3600, 3600))
        assert (row.threads, row.gap, row.k) == (1, 1e-4, (2, 4, 8, 16, 32, 64))
    assert {row.take for row in rows if row.graphs == "regal"} == {1000}


@edits(
    ('"mtpp-paper/1"', '"mtpp-paper/9"', 'format = "mtpp-paper/1"'),
    ("[[row]]", "[row", "is not TOML"),
    ("[[row]]", "[row]", "row: expected a list"),
    ('"Table 5"', '"Table 50"', "row[0].items[0]: this is 'Table 50'; did you mean Table 5"),
    ('"mtpp"', '"gpipe"', "row[0].paper: this is 'gpipe'; give one of mtpp, spp, placeto"),
    ('"partition"', '"partitions"', "study: this is 'partitions'; "),
    ('"regal"', '"folder"', "graphs: this is 'folder'; "),
    ('"exact"', '"exakt"', "Unknown method 'exakt'"),
    ('"exact"', '"mine.py:mine"', "'mine.py:mine' is no name of a registry"),
    ('["exact"]', "[1]", "methods[0]: expected a string, found 1"),
    ('"kahn"', '"khan"', "starts[0]: this is 'khan'; did you mean kahn"),
    ('"highs"', '"hihgs"', "solver[0]: this is 'hihgs'; did you mean highs"),
    ("take = 8", "take = 0", "take: give a whole number"),
    ("take = 8", "take = 8\ncolour = 1", "unknown field 'colour'"),
    ("take = 8", "", "missing field 'take'"),
    ("quick = 1,", "", "limit: there is nothing for the profile quick"),
    ("quick = 1,", "quickly = 1,", "limit: unknown field 'quickly'; did you mean quick"),
    ("gap = 1e-4", "gap = nan", "gap: the number is too large; it must be finite"),
    ("k = [2]", "k = []", "k: the list is empty"),
    ("k = [2]", "k = [true]", "k[0]: expected a whole number"),
)
def test_a_wrong_plan_is_refused_in_one_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert len(read_plan("quick", plan(tmp_path, ROW))) == 1
    assert old in ROW
    with pytest.raises(InputError) as caught:
        read_plan("quick", plan(tmp_path, ROW.replace(old, new)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_item_on_two_sets_of_graphs_is_refused(tmp_path: Path) -> None:
    other = ROW.replace('format = "mtpp-paper/1"', "").replace('"exact"', '"bottleneck"')
    assert len(read_plan("quick", plan(tmp_path, ROW + other))) == 2
    for old, new in (("take = 8", "take = 12"), ('"regal"', '"networks"')):
        with pytest.raises(InputError, match="Table 5 is asked on two sets of graphs"):
            read_plan("quick", plan(tmp_path, ROW + other.replace(old, new)))


def test_unknown_papers_and_profiles_are_named() -> None:
    with pytest.raises(InputError, match="no paper 'mttp'; did you mean mtpp"):
        papers_of("mttp")
    with pytest.raises(InputError, match="no profile 'quik'; did you mean quick"):
        read_plan("quik")


def test_graphs_are_the_same_first_ones_with_equal_shares() -> None:
    """A larger number holds the smaller ones; each family or network comes once before any comes twice."""
    networks = find_suite("real").entries
    few, many = taken(networks, 12), taken(networks, 30)
    assert few == many[:12]
    assert len({entry.family for entry in few}) == 12
    assert {entry.family for entry in many} == {entry.family for entry in networks}
    random = [entry.name.rsplit("-", 2)[0] for entry in taken(find_suite("regal-style:120").entries, 8)]
    assert random[:4] == random[4:]
    assert len(set(random)) == 4


def test_equal_runs_are_one() -> None:
    """Two items that rest on the same runs, which do not wait for one another."""
    row = Row(
        "mtpp", ("Table 4", "Table 6"), "partition", graphs="regal", k=(2,), methods=("random-1",), take=4, seeds=2
    )
    study = PartitionRuns([row, row], None)
    assert len(study.jobs) == 4 * (2 + 1)
    assert study.keys("Table 4") == study.keys("Table 6") == {job.key for job in study.jobs}


def test_starts_are_made_but_belong_to_no_item() -> None:
    row = Row(
        "mtpp", ("Table 5",), "partition", graphs="regal", k=(2,), methods=("bottleneck",), starts=("kahn",),
        solver=("highs",), limit=1.0, paper_limit=900.0, take=4,
    )  # fmt: skip
    study = PartitionRuns([row], None)
    assert {job.method for job in study.jobs} == {"kahn", "bottleneck", "simple"}
    assert {job.method for job in study.jobs if job.key in study.keys("Table 5")} == {"bottleneck", "simple"}
    assert all(job.waits_for for job in study.jobs if job.method == "bottleneck")


def test_without_a_solver_of_the_list_bounds_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.studies.papers.partition._is_there", lambda name: False)
    row = Row(
        "mtpp", ("Table 5",), "partition", graphs="regal", k=(2,), methods=("exact",), starts=("kahn",),
        solver=("gurobi", "scip"), limit=1.0, paper_limit=1.0, take=4,
    )  # fmt: skip
    study = PartitionRuns([row], None)
    assert {job.method for job in study.jobs} == {"simple"}
    assert study.left_out == ["exact: not run, no solver of gurobi, scip is there"]


def test_training_asks_for_models_and_as_many_clusters_as_seeds() -> None:
    rows = [Row("spp", ("Table III",), "training"), Row("spp", ("Fig. 11",), "training", seeds=3)]
    asked = training_questions(rows)
    assert [question.figure for question in asked[-3:]] == ["11"] * 3
    models = asked[:-3]
    assert models
    assert all(question.figure.startswith("III") for question in models)
