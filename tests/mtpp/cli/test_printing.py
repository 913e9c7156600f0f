"""What verbs print: stages and cuts below the result line, one JSON document with --json, one line with --quiet."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import columns, graph_file, mtpp

import experiments
from mtpp.cli import printing
from mtpp.cli.main import main

CHAIN = {
    "format": "mtpp-chain/1",
    "name": "two",
    "layers": [
        {"name": "a", "forward": 1.0, "backward": 2.0, "forward_bytes": 1.0, "backward_bytes": 1.0, "param_bytes": 1.0},
        {"name": "b", "forward": 1.0, "backward": 2.0, "param_bytes": 1.0},
    ],
}


def sections(out: str) -> list[list[str]]:
    """Lines of each part of the output, which empty lines separate."""
    return [part.splitlines() for part in out.strip().split("\n\n")]


def test_partition_prints_stages_and_cuts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cutting 3 | 1 2 costs 4 on both sides: 3 + 1, and 1 + 3."""
    assert mtpp("partition path.json -k 2 --bandwidth 1 --method kahn") == 0
    out = capsys.readouterr().out
    _, [assumed], stages, cuts, [hashed] = sections(out)
    assert assumed == "Assumed: no limit on memory; --memory changes it."
    assert re.split(r"  +", stages[0]) == [
        "stage", "first node", "last node", "nodes", "work [s]", "receive [s]", "send [s]", "cost [s]", "share",
        "parameters [B]", "peak [B]",
    ]  # fmt: skip
    assert stages[1].split() == ["0", "0", "1", "3.000", "0", "1.000", "4.000", "100.0%", "0", "1"]
    assert stages[2].split() == ["1", "1", "2", "2", "3.000", "1.000", "0", "4.000", "100.0%", "0", "2"]
    assert cuts[1].split() == ["0|1", "0", "0", "1", "1", "1.000"]
    assert re.fullmatch(r"question q2:[0-9a-f]{16} \(graph, k = 2\)", hashed)


def test_several_k_have_tables_of_their_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("partition path.json -k 1,2,3 --bandwidth 1 --method kahn") == 0
    found = sections(capsys.readouterr().out)
    assert [part for part in found if part[0].startswith("k = ")] == [["k = 1"], ["k = 2"], ["k = 3"]]
    assert sum(part[0].startswith("stage ") for part in found) == 3
    assert mtpp("partition path.json -k 1,2,3,4 --bandwidth 1 --method kahn") == 0
    lines, _, several = sections(capsys.readouterr().out)
    assert len(lines) == 5
    assert "at most 3 k" in several[0]


def test_more_blocks_than_nodes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Empty stages are counted, and are no cuts."""
    assert mtpp("partition path.json -k 50 --bandwidth 100 --method kahn") == 0
    out = capsys.readouterr().out
    assert "empty: 47 of 50 stages" in out
    assert len(re.findall(r"^\d+\|\d+ ", out, re.MULTILINE)) == 2


def test_of_many_stages_and_tensors_the_largest_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [{"work": 1 + v / 1000, "output_bytes": v} for v in range(200)]
    graph_file(folder, nodes=nodes, edges=[[v, v + 1] for v in range(199)])
    (folder / "p.json").write_text(json.dumps({"block": list(range(200))}))
    assert mtpp("explain p.json graph.json --bandwidth 1 --time-limit 0.1") == 0
    out = capsys.readouterr().out
    assert len(re.findall(r"^\d+ ", out, re.MULTILINE)) == 64
    assert "… 136 more stages, each at most " in out
    assert "… 135 more cuts, each of at most " in out
    graph_file(folder, nodes=[*({"work": 1, "output_bytes": v} for v in range(40)), {"work": 40}],
               edges=[[v, 40] for v in range(40)])  # fmt: skip
    assert mtpp("partition graph.json -k 2 --bandwidth 1e9 --method kahn") == 0
    out = capsys.readouterr().out
    assert re.search(r"^0\|1 +40 tensors +780 ", out, re.MULTILINE)
    assert re.search(rf"^ +… 24 more +{sum(range(24))} ", out, re.MULTILINE)


def test_what_does_not_fit_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph_file(folder, nodes=[{"work": w, "output_bytes": 1, "param_bytes": 4} for w in (3, 1, 2)])
    assert mtpp("partition graph.json -k 2 --bandwidth 1 --memory 5 --method kahn") == 0
    out = capsys.readouterr().out
    row, told = out.splitlines()[1:3]
    assert told.startswith("does not fit: 12 B of parameters, 10 B on 2 devices; ")
    assert "are overflow; --fit" in told
    assert row.split()[-4:-2] == ["B", "5"]
    assert columns("\n".join(out.splitlines()[:2]))["memory"] == "10 B"
    assert mtpp("partition graph.json -k 2 --bandwidth 1 --memory 100 --method kahn") == 0
    assert "overflow" not in capsys.readouterr().out


@pytest.mark.parametrize("width", [60, 80, 120])
def test_tables_fit_the_terminal(
    width: int, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "terminal_width", lambda: width)
    names = ["a" * 100, "line\nbreak", "z" * 30]
    nodes = [{"work": 1, "output_bytes": 10**6, "name": name} for name in names]
    graph_file(folder, nodes=nodes, edges=[[0, 1], [1, 2], [0, 2]])
    assert mtpp("partition graph.json -k 3 --bandwidth 1e9 --method kahn") == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert "line\\nbreak" in out


VERBS = {
    "partition path.json -k 2 --bandwidth 1 --method kahn": "mtpp-answer/1",
    "bound path.json -k 2 --bandwidth 1 --model simple": "mtpp-answer/1",
    "certify path.json -k 2 --bandwidth 1": "mtpp-answer/1",
    "plan chain.json --cluster 1x2 --bandwidth 1 --microbatches 2": "mtpp-answer/1",
    "place path.json -k 2 --bandwidth 1 --method single": "mtpp-answer/1",
    "import path.json": "mtpp-graph/1",
}


@pytest.mark.parametrize("command", VERBS)
def test_json_is_the_file_of_out(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The document on stdout is that of --out, and it can be read again."""
    (folder / "chain.json").write_text(json.dumps(CHAIN))
    assert mtpp(f"{command} --out o.json --json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == VERBS[command]
    assert document == json.loads(Path("o.json").read_text())


@pytest.mark.parametrize("verb", ["partition --method kahn", "bound --model simple", "certify"])
def test_json_of_several_k_is_a_list(verb: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, *options = verb.split()
    assert main([name, "path.json", "-k", "1,2", "--bandwidth", "1", "--json", *options]) == 0
    documents = json.loads(capsys.readouterr().out)
    assert [document["question"]["k"] for document in documents] == [1, 2]


def test_json_of_the_other_verbs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def document(command: str, code: int = 0) -> Any:
        assert mtpp(f"{command} --json") == code
        return json.loads(capsys.readouterr().out)

    assert document("versions")["mtpp"]
    assert document("list models")[0]["name"] == "simple"
    assert document("bound path.json -k 2 --bandwidth 1 --export m.lp") == ["m.lp"]
    assert mtpp("certify path.json -k 2 --bandwidth 1 --out c.json --quiet") == 0
    capsys.readouterr()
    verdict = document("verify c.json")
    assert (verdict["cost"], verdict["proved_ratio"], verdict["faults"]) == (4.0, 1.0, [])
    assert [verdict["file"] for verdict in document("verify c.json c.json")] == ["c.json"] * 2
    assert document("explain c.json")["ratio"] == 1.0
    tables = document("table path.json -k 1,2 --bandwidth 1 --methods kahn,simple")["tables"]
    assert tables[1]["rows"] == [["kahn", "1.000", "1.333"]]


def test_json_of_a_refusal_is_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("partition path.json -k 0 --json") == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("command", [*list(VERBS)[:3], list(VERBS)[4]])
def test_quiet_is_the_result_line(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(f"{command} --quiet") == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 2
    assert captured.err == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from mtpp.versions import package_version

    assert mtpp("--version") == 0
    assert capsys.readouterr().out.split()[:2] == ["mtpp", package_version() or "not"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["mtpp", "par"], "partition"),
        (["mtpp", "explain", "--time-l"], "--time-limit"),
        (["mtpp", "explain", "--solver", "a", "--solver", "b", "--time-l"], "--time-limit"),  # was refused
    ],
)
def test_the_shell_completes_words(words: list[str], expected: str) -> None:
    """Verbs and options, without the heavy packages."""
    script = (
        "import sys; from mtpp.cli.main import main\n"
        "code = main([])\n"
        "heavy = {'pyomo', 'pandas', 'matplotlib', 'numba', 'scipy', 'networkx'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or code)"
    )
    root = str(Path(experiments.__file__).parent.parent)
    asked = {"_MTPP_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": root, **asked},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [expected]


def test_a_terminal_without_a_letter_shows_a_question_mark(tmp_path: Path) -> None:
    """The answer is not lost for a name that the encoding of stdout does not have."""
    graph_file(tmp_path, nodes=[{"name": name, "work": 1, "output_bytes": 1} for name in ("ä", "b", "c")])
    run = subprocess.run(
        [sys.executable, "-m", "mtpp", "partition", "graph.json", "-k", "1", "--bandwidth", "1", "--method", "kahn"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(experiments.__file__).parent.parent), "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "0      ?" in run.stdout
