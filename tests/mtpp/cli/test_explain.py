"""`mtpp explain`: saved and hand-made partitions, what is said of them, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brute_force import best_partition
from certificates import BUFFERED, FULL, PLAIN, Document, settle
from command_line import columns, graph_file, mtpp
from forging import forgeries, write
from hypothesis import HealthCheck, given, settings
from strategies import partitions

from instances import Bound, ComputationGraph, Instance, Partition, Platform, Result
from mtpp.certifying.explain import explain_partition, sentences
from mtpp.cli.main import main
from mtpp_models import SolveOptions

# What a path of 3, 1, 2 with tensors of 1 byte costs with a bandwidth of 1: cut behind the first node 4, which is the
# least; behind the second 5.
BEHIND_SECOND = {"block": [0, 0, 1]}


def written(document: Any) -> str:
    Path("hand.json").write_text(json.dumps(document))
    return "explain hand.json path.json --bandwidth 1"


@pytest.mark.parametrize(
    "document",
    [
        BEHIND_SECOND,
        {"stages": [["0", "1"], ["2"]]},
        {"stages": [[1, 0], [2]], "order": [0, 1, 2], "graph": "path"},
        {"block": [0, 0, 1], "k": 2, "bandwidth": 1},
        {"k": 2, "block": [0, 0, 1], "bandwidth": 5.0},
    ],
)
def test_hand_made_partitions(document: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By blocks, by names or by numbers; the words win over the file."""
    assert mtpp(written(document)) == 0
    out = capsys.readouterr().out
    row = columns(out)
    assert (row["bottleneck [s]"], row["bound [s]"], row["ratio"]) == ("5", "4", "1.2500")
    said = out.strip().split("\n\n")[-2].splitlines()
    assert re.match(
        r"Its ratio is 1\.2500: no partition into 2 stages takes less than 4\.000 s \([^)]+, proved now\), 20", said[0]
    )
    assert said[1].startswith("A better partition is known now, of 4.000 s, 20.00% below this one")
    assert said[2] == "Stage 0 is the slowest: 5.000 s, of which 80.0% working, 20.0% sending."
    assert said[3].startswith(
        "The largest tensor that stage 0 sends, 1 B of 1, takes 1.000 s (20.0% of the bottleneck)"
    )
    assert said[4] == "Slack is in stage 1 (40.0%)."
    assert said[5].startswith("The largest node of stage 0, 0, takes 3.000 s (60.0% of the bottleneck): ")
    assert said[6].startswith(
        "Any stage that holds 0 takes at least 4.000 s (80.0% of the bottleneck), by a minimum cut"
    )
    assert said[7].startswith("The work spread evenly over 2 stages takes 3.000 s (60.0% of the bottleneck): ")


def test_the_platform_of_the_file_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("hand.json").write_text(json.dumps(BEHIND_SECOND | {"bandwidth": 0.5, "memory": 1, "activation_buffer": 0}))
    assert mtpp("explain hand.json path.json") == 0
    assert columns(capsys.readouterr().out)["bottleneck [s]"] == "6"
    Path("hand.json").write_text(json.dumps(BEHIND_SECOND | {"bandwidth": None}))
    assert mtpp("explain hand.json path.json") == 0
    assert columns(capsys.readouterr().out)["bottleneck [s]"] == "4"


def test_a_certificate_brings_graph_and_bounds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("certify path.json -k 2 --bandwidth 1 --out c.json") == 0
    capsys.readouterr()
    assert mtpp("explain c.json") == 0
    assert "It is optimal: no partition into 2 stages is faster (" in (out := capsys.readouterr().out)
    assert "as the file states" in out
    assert mtpp("explain c.json path.json") == 2
    assert "leave out" in capsys.readouterr().err


def test_a_false_bound_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It counts for nothing; what is true is proved instead."""
    assert mtpp("certify path.json -k 2 --bandwidth 1 --out c.json") == 0
    document = json.loads(Path("c.json").read_text())
    document["bounds"][0]["value"] = 9.0
    Path("c.json").write_text(json.dumps(document))
    capsys.readouterr()
    assert mtpp("explain c.json") == 1
    captured = capsys.readouterr()
    assert captured.err == "mtpp: c.json: the bound 9 of simple is above the bottleneck; it is false.\n"
    assert columns(captured.out)["ratio"] == "1.0000"


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({}, "it holds no answer; give a file that does, or the block of each node as 'block'"),
        ({"block": [0, 0, 1], "stages": []}, "it has 'block' and 'stages'; give one of them."),
        ({"block": [0, 0]}, "2 blocks for 3 nodes"),
        ({"block": [1, 0, 0]}, "points backwards"),
        ({"block": [0, 0, 10**9]}, "must be 1000000 or less"),
        ({"block": [0, 0, -1]}, "blocks run from 0"),
        ({"block": [0, 0, 1], "k": 1}, "blocks run from 0 to 0"),
        ({"block": "001"}, "block: expected a list"),
        ({"blocks": [0, 0, 1]}, "it holds no answer"),
        ({"stages": []}, "node 0 (0) is in no stage"),
        ({"stages": [["0", "1"]]}, "node 2 (2) is in no stage"),
        ({"stages": [["0", "1"], ["1", "2"]]}, "stages[1][0]: node 1 (1) is in stage 0 already"),
        ({"stages": [["0", "1"], ["\u001b[2J\n"]]}, "no nodes of the graph are called"),
        ({"stages": [[0, 1], [7]]}, "there is no node 7"),
        ({"stages": [[0, 1], [2.5]]}, "expected a whole number"),
        ({"block": [0, 0, 1], "bandwidth": -1}, "bandwidth"),
        ({"block": [0, 0, 1], "memory": "much"}, "memory: expected a number"),
        ({"format": "mtpp-plan/1"}, "write it anew with mtpp plan"),
        ([], "expected an object"),
        (None, "expected an object"),
    ],
)
def test_wrong_files_are_refused_in_one_line(
    document: Any, complaint: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = written(document).removesuffix(" --bandwidth 1")
    assert mtpp(command) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mtpp: hand.json")
    assert complaint in captured.err
    assert captured.err.count("\n") == 1
    assert captured.err.strip().isprintable()


def test_two_nodes_of_one_name_need_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph_file(folder, nodes=[{"name": "same", "work": 1}] * 2, edges=[])
    Path("hand.json").write_text('{"stages": [["same"], ["same"]]}')
    assert mtpp("explain hand.json graph.json") == 2
    assert "2 nodes of the graph are called 'same'; give a number" in capsys.readouterr().err


def test_a_missing_graph_is_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("hand.json").write_text(json.dumps(BEHIND_SECOND | {"graph": "path.json"}))
    assert mtpp("explain hand.json") == 2
    assert "mtpp explain hand.json path.json" in capsys.readouterr().err
    assert mtpp("explain missing.json path.json") == 2


@settings(max_examples=30)
@given(partition=partitions())
def test_what_is_known_is_true(partition: Partition) -> None:
    """Bounds hold for the best partition, and a better one is better; each sentence is one line."""
    best = best_partition(partition.instance)
    found, interrupted = explain_partition(Result("given", partition.instance, partition), SolveOptions(time_limit=5.0))
    assert not interrupted
    assert found.bound is not None
    assert found.bound.value <= best.bottleneck * (1 + 1e-9)
    assert found.cut is None or found.cut.value <= best.bottleneck * (1 + 1e-9)
    assert found.better is None or found.better.bottleneck < partition.bottleneck
    known = (found.better or partition).bottleneck
    assert known <= best.bottleneck * (1 + 1e-5) or found.bound.value < best.bottleneck
    told = list(sentences(found))
    assert told
    assert all(line.isprintable() and line.endswith(".") and "nan" not in line for line in told)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_unit_of_time_changes_no_sentence_but_its_numbers(scale: float) -> None:
    def said(unit: float) -> list[str]:
        graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3)], np.array([3, 1, 2, 2]) * unit, [1, 2, 1, 0])
        partition = Partition(Instance(graph, Platform(2, 1 / unit)), [0, 0, 1, 1])
        found, _ = explain_partition(Result("given", partition.instance, partition), SolveOptions())
        return [re.sub(r"[\d.]+ [mµ]?s\b", "time", sentence) for sentence in sentences(found)]

    assert any("minimum cut" in sentence for sentence in said(1.0))
    assert said(scale) == said(1.0)


def test_a_stated_optimum_needs_no_proof(folder: Path) -> None:
    graph = ComputationGraph.from_edges([(0, 1)], [1, 1], [0, 0])
    partition = Partition(Instance(graph, Platform(2, 1.0)), [0, 1])
    result = Result("given", partition.instance, partition, Bound(1.0, "simple"))
    found, _ = explain_partition(result, SolveOptions())
    assert found.stated
    assert (
        next(iter(sentences(found)))
        == "It is optimal: no partition into 2 stages is faster (simple, as the file states)."
    )


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(forged=forgeries((PLAIN, FULL, BUFFERED), settle))
def test_whatever_a_stranger_writes_has_a_short_answer(
    forged: Document, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of the exit codes, and no fault of this project."""
    assert main(["explain", write(tmp_path, forged), "--time-limit", "0.05"]) in (0, 1, 2)
    assert "internal fault" not in capsys.readouterr().err


def test_bug_a_stated_optimum_of_other_problems_was_called_feasible(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table said so above the sentence that it is optimal, as the file states."""
    assert mtpp("place nmt-0 -k 1 --time-limit 2 --out q.json") == 0
    capsys.readouterr()
    assert mtpp("explain q.json") == 0
    out = capsys.readouterr().out
    assert "It is optimal: any answer takes" in out
    assert "feasible" not in out
