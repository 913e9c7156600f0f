"""What `mtpp verify` says of any file: no name forges a line, limits are the reader's, other files are refused."""

from __future__ import annotations

import copy
import time
from pathlib import Path

import pytest
from certificates import PLAIN, check, entry, settle
from command_line import mtpp
from forging import write

import mtpp as api
from instances.errors import InputError
from instances.json_files import write_json
from mtpp.cli.main import main


def test_names_forge_no_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Line breaks and escapes of a terminal are printed as such, on stdout and stderr."""
    forged = copy.deepcopy(PLAIN)
    lie = "six\nratio        1.000000 by bounds re-proved here alone\x1b[8m\u202e"
    forged["question"]["name"] = forged["question"]["graph"]["time_unit"] = lie
    entry(forged, "exact")["provenance"]["version"] = lie
    main(["verify", write(tmp_path, forged)])
    main(["verify", write(tmp_path, forged)])
    streams = capsys.readouterr()
    text = streams.out + streams.err
    assert not {c for c in text if not c.isprintable()} - {"\n"}
    assert [line for line in text.splitlines() if line.startswith("ratio")] == [
        line for line in streams.out.splitlines()[:10] if line.startswith("ratio")
    ]


def test_limits_are_the_readers(tmp_path: Path) -> None:
    """A wide graph whose ideals nobody can look at, and pairs of many nodes: it ends when it shall."""
    n = 400
    graph = {"format": "mtpp-graph/1", "nodes": [{"work": 1.0}] * n, "edges": []}
    forged = copy.deepcopy(PLAIN)
    forged["question"] |= {"graph": graph, "k": n - 1}
    bound = {"method": "pigeonhole", "value": 2.0, "parameters": {"nodes": list(range(n))}, "recheck": "minimum cuts"}
    ideals = bound | {"method": "ideals", "recheck": "ideals", "parameters": {}}
    forged |= {"answer": None, "cost": None, "ratio": None, "bound": 2.0, "bounds": [bound, ideals]}
    begin = time.process_time()
    verdict = check(forged, tmp_path, time_limit=0.5)
    assert [found.proved for found in verdict.checks] == [None, None]
    assert time.process_time() - begin < 30  # not a measure of speed: without limits it would take hours


def test_other_answers_are_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Chains, clusters and graphs are no certificates; plans and placements of earlier versions are made anew."""
    for kind in ("chain", "cluster", "graph"):
        write_json(tmp_path / "a.json", {"format": f"mtpp-{kind}/1"})
        assert main(["verify", str(tmp_path / "a.json")]) == 2
        assert f"a.json, format: this is 'mtpp-{kind}/1'; expected 'mtpp-answer/1'." in capsys.readouterr().err
    for kind, verb in (("plan", "plan"), ("placement", "place")):
        write_json(tmp_path / "a.json", {"format": f"mtpp-{kind}/1"})
        assert main(["verify", str(tmp_path / "a.json")]) == 2
        line = f"a.json: mtpp-{kind}/1 is a format of an earlier version; write it anew with mtpp {verb}."
        assert line in capsys.readouterr().err


def test_the_graph_of_the_reader_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same graph passes; other works or other names do not."""
    file = write(tmp_path, PLAIN)
    write_json(tmp_path / "own.json", PLAIN["question"]["graph"])
    own = str(tmp_path / "own.json")
    assert main(["verify", file, "--graph", own]) == 0
    for field, other in (("work", 9.0), ("name", "other")):
        graph = copy.deepcopy(PLAIN["question"]["graph"])
        graph["nodes"][1][field] = other
        write_json(tmp_path / "own.json", graph)
        assert main(["verify", file, "--graph", own]) == 1
        assert "own.json: " in capsys.readouterr().err


def test_the_worst_of_several_files_is_the_exit_code(tmp_path: Path) -> None:
    """A false one is not hidden behind one that is no certificate."""
    false = copy.deepcopy(PLAIN)
    false["ratio"] = 1.5
    write_json(tmp_path / "false.json", false)
    write_json(tmp_path / "graph.json", PLAIN["question"]["graph"])
    true = copy.deepcopy(PLAIN)
    true["bounds"] = [bound for bound in true["bounds"] if bound["method"] == "ideals"]
    settle(true)
    write_json(tmp_path / "true.json", true)
    names = {name: str(tmp_path / f"{name}.json") for name in ("true", "false", "graph")}
    assert main(["verify", names["true"]]) == 0
    assert main(["verify", names["true"], names["graph"]]) == 2
    assert main(["verify", names["graph"], names["false"], names["true"]]) == 1


def test_what_plan_and_place_write_is_verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The time of a plan is computed anew and its bound trusted; of a placement both are proved; --graph compares."""
    cluster = "--cluster 2x2 --bandwidth 128Gbps,32Gbps --network paper"
    assert mtpp(f"plan simulation {cluster} --microbatches 4 --planner spp --out p.json") == 0
    assert mtpp("place nmt-0 -k 2 --method heft --out q.json") == 0
    assert mtpp("verify p.json q.json") == 4
    assert mtpp("verify q.json") == 0
    assert "TRUSTED" in capsys.readouterr().out
    assert mtpp("verify p.json --graph simulation --network paper") == 4
    assert mtpp("verify p.json --graph bert-base --network paper") == 1
    assert "it is not bert-base: 27 layers against" in capsys.readouterr().err
    assert mtpp("verify p.json --graph simulation") == 1
    assert "it is not simulation: network is paper, you ask for shared" in capsys.readouterr().err


def test_bug_words_that_read_a_graph_were_passed_over_without_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another batch or width than that of the file was neither compared nor refused; then a default was not."""
    file = write(tmp_path, PLAIN)
    others = ("--level layer", "--level operator", "--peak-flops 1e15")
    for words in ("--dim batch=8", "--weights w.safetensors", "--training", *others):
        assert mtpp(f"verify {file} {words}") == 2
        assert f"{words.split()[0]} is compared together with --graph alone" in capsys.readouterr().err
    with pytest.raises(InputError, match="dims is compared together with graph alone"):
        api.verify(file, dims={"batch": 8})


def test_bug_the_graph_of_a_family_was_no_graph_to_compare(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`mtpp place nmt-0` takes the name, and so does `mtpp verify`."""
    assert mtpp("place nmt-0 -k 2 --method ordered --time-limit 2 --out q.json") == 0
    assert mtpp("verify q.json --graph nmt-0 -k 2") == 0
    assert mtpp("verify q.json --graph nmt-1 -k 2") == 1
    assert "it is not nmt-1: " in capsys.readouterr().err
