"""The command line refuses what is wrong: exit code 2, one line on stderr, nothing written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from command_line import PATH, graph_file, mtpp

from mtpp.cli.main import main

GRAPH_FAULTS: dict[str, dict[str, Any]] = {
    "cycle": {"edges": [[0, 1], [1, 2], [2, 0]]},
    "self-loop": {"edges": [[1, 1]]},
    "out of range": {"edges": [[0, 7]]},
    "negative": {"nodes": [{"work": -1}], "edges": []},
    "NaN": {"nodes": [{"work": float("nan")}], "edges": []},
    "infinite": {"nodes": [{"work": 1, "output_bytes": float("inf")}], "edges": []},
    "unknown field": {"nodes": [{"work": 1, "wrok": 2}], "edges": []},
    "unknown format": {"format": "mtpp-graph/99"},
    "no node": {"nodes": [], "edges": []},
}


@pytest.mark.parametrize("verb", ["partition", "bound", "certify", "table"])
@pytest.mark.parametrize("fault", GRAPH_FAULTS.values(), ids=GRAPH_FAULTS)
def test_bad_graphs(verb: str, fault: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph_file(folder, **fault)
    _refused(f"{verb} graph.json -k 2 --bandwidth 1", capsys, "graph.json")
    assert not Path("runs.jsonl").exists()


@pytest.mark.parametrize("content", ["", json.dumps(PATH)[:40], "what?", "\x00\x01"])
def test_broken_files(content: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "graph.json").write_text(content)
    _refused("partition graph.json -k 2", capsys, "graph.json")


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("partition missing.json -k 2", "missing.json"),
        ("partition . -k 2", "."),
        ("partition path.json", "-k"),
        ("partition path.json -k 0", "-k 0"),
        ("partition path.json -k -3", "-k -3"),
        ("partition path.json -k 2 -k 3 --bandwidth 1", "-k is given 2 times; give it once"),
        ("train gpt2 --fix pp=1 --fix dp=2", "--fix is given 2 times; give it once"),
        ("partition path.json -k 2,x", "'x'"),
        ("partition path.json -k 2.5", "'2.5'"),
        ("partition path.json -k 2 --bandwidth 0", "--bandwidth 0"),
        ("partition path.json -k 2 --bandwidth -5", "--bandwidth -5"),
        ("partition path.json -k 2 --bandwidth nan", "--bandwidth nan"),
        ("partition path.json -k 2 --bandwidth 25XB/s", "--bandwidth 25XB/s"),
        ("partition path.json -k 2 --bandwidth 25GB", "--bandwidth 25GB"),
        ("partition path.json -k 2 --memory 16Gbps", "--memory 16Gbps"),
        ("partition path.json -k 2 --memory -1", "--memory -1"),
        ("partition path.json -k 2 --activation-buffer 1GB", "--activation-buffer"),
        ("partition path.json -k 2 --dim batch=8", "batch"),
        ("partition bert-base -k 2 --dim batch=many", "batch=many"),
        ("partition bert-base -k 2 --dim depth=8", "depth"),
        ("partition path.json -k 2 --method nonsense", "nonsense"),
        ("partition path.json -k 2 --reader nonsense", "nonsense"),
        ("partition path.json -k 2 --communication nonsense", "nonsense"),
        ("partition path.json -k 2 --communication cost", "path.json"),
        ("partition path.json -k 2 --seed -1", "--seed"),
        ("partition path.json -k 2 --seed x", "--seed"),
        ("partition path.json -k 2 --time-limit -1", "-1"),
        ("partition path.json -k 2 --out nowhere/p.json", "nowhere"),
        ("partition path.json -k 2 --out .", "."),
        ("partition path.json -k 2 --plot p.docx", "p.docx"),
        ("partition path.json -k 2 --plot nowhere/p.png", "nowhere"),
        ("bound path.json -k 2 --model nonsense", "nonsense"),
        ("bound path.json -k 2 --bandwidth 1 --model exact+al", "'al'"),
        ("bound path.json -k 2 --bandwidth 1 --model exact+all", "partition to start from"),
        ("bound path.json -k 2 --bandwidth 1 --model exact+all --export model.lp", "partition to start from"),
        ("bound path.json -k 2 --time-limit 0", "0"),
        ("bound path.json -k 2 --gap 2", "gap"),
        ("bound path.json -k 2 --threads 0", "threads"),
        ("bound path.json -k 2 --start missing.json", "missing.json"),
        ("bound path.json -k 2 --export model.docx", "model.docx"),
        ("bound path.json -k 2 --export nowhere/model.lp", "nowhere"),
        ("partition path.json -k 1000000000", "1000000 or less"),
        ("bound path.json -k 1000000000", "1000000 or less"),
        ("certify path.json -k 99999999999999999999999", "1000000 or less"),
        (f"certify path.json -k {9**400}", "too large"),
        (f"certify path.json -k {'9' * 5000}", "too large"),
        ("table path.json -k 1000000000", "1000000 or less"),
        ("partition path.json -k 2 --time-limit inf", "inf"),
        ("certify path.json -k 2 --time-limit inf", "inf"),
        ("table path.json --time-limit inf", "inf"),
        ("table path.json --jobs 1000000000", "1 to 256"),
        ("place path.json -k 1000000000 --bandwidth 1", "4096"),
        ("plan simulation --cluster 2x1 --bandwidth 1e9 --microbatches 1000000000", "100000"),
        ("plan simulation --cluster 1000000000x1 --bandwidth 1e9 --microbatches 4", "256"),
        ("plan simulation --cluster 2x1 --bandwidth 1e308 --microbatches 4", "1e+308"),
        ("certify path.json -k 2 --solver asl:x", "'asl:x'"),
        ("table path.json --solver ./x.sh", "'./x.sh'"),
        ("certify path.json -k 2 --time-limit nan", "nan"),
        ("certify path.json -k 2 --out nowhere/c.json", "nowhere"),
        ("table nonsense", "nonsense"),
        ("table quick --bandwidth 1", "--bandwidth"),
        ("table quick --methods kahn,nonsense", "nonsense"),
        ("table quick --methods kahn,exact+nonsense", "nonsense"),
        ("table quick --methods kahn,bottleneck+each", "bottleneck"),
        ("table quick --methods exact+each", "add a heuristic"),
        ("table quick --jobs 0", "--jobs 0"),
        ("table quick --format docx", "docx"),
        ("table quick --out .", "."),
        ("table path.json --time-limit -1", "-1"),
        ("table path.json --gap nan", "gap"),
        ("table path.json --threads 0", "threads"),
        ("table path.json --cluster nonsense://nowhere:1", "No such option: --cluster"),
        ("table path.json --scheduler nonsense://nowhere:1", "--scheduler nonsense://nowhere:1: no scheduler"),
        ("list nonsense", "nonsense"),
        ("nonsense", "nonsense"),
        ("partition path.json -k 2 --nonsense 3", "--nonsense"),
        ("partition path.json extra -k 2", "extra"),
    ],
)
def test_wrong_use(command: str, named: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr that names what is wrong, exit code 2, and no file is left behind."""
    _refused(command, capsys, named)
    assert [path.name for path in folder.iterdir()] == ["path.json"]


@pytest.mark.parametrize(
    ("command", "option", "why"),
    [
        ("place path.json -k 2 --bandwidth 1", "--memory 0", "it must be positive"),
        ("serve llama-2-7b -k 4", "--memory inf", "any context fits"),
        ("serve llama-2-7b --devices 4xL4", "-k 9", "there are 4 devices"),
        ("serve llama-2-7b --servers 1x4xL4", "--between inf", "give bytes a second"),
        ("serve llama-2-7b --servers 1x4xL4", "--price nan", "servers of L4: price is nan"),
        ("serve llama-2-7b --servers 1x4xL4", "--price -1", "servers of L4: price is -1.0"),
        ("certify gnmt -k 2", "--peak-flops 0", "it must be positive"),
        ("plan gnmt --cluster 2x2 --microbatches 4", "--bandwidth inf", "it must be finite"),
        ("plan gnmt --cluster 2x2 --microbatches 4 --bandwidth 1GB/s", "--nic inf", "it must be finite"),
        ("plan gnmt --cluster 2x2 --bandwidth 1GB/s", "--microbatches 0", "it must be at least 1"),
        (
            "train gpt2 --cluster 1x2 --global-batch 8 --bandwidth 50GB/s",
            "--peak-flops inf",
            "peak_flops of A100-80 is inf",
        ),
    ],
)
def test_bug_refusals_of_numbers_did_not_name_the_option(
    command: str, option: str, why: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each names it with its value, as both were written."""
    _refused(f"{command} {option}", capsys, f"mtpp: {option}: {why}")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("hunt exact --solver highss", "There is no solver 'highss'; did you mean highs?"),
        ("hunt simple --out path.json", "--out path.json: this is a file; name a folder."),
        ("hunt , --seconds 1", "name one at least."),
        ("table path.json --methods ,", "--methods ,: name one at least."),
        ("table runs.jsonl --from --tables path.json", "--tables path.json: this is a file; name a folder."),
        ("paper spp --dry-run --out path.json", "--out path.json: this is a file; name a folder."),
        ("bound path.json -k 2 --log path.json", "--log path.json: this is a file; name a folder."),
        (
            "paper spp --dry-run --plan pipe",
            "pipe: this is not a regular file; save what it gives, and name that file.",
        ),
        ("run path.json --timeout 1e308", "--timeout 1e+308: it must be at least 0.1 and at most 1000000."),
        ("certify bert-base -k 2 --dim batch=2 --dim batch=3", "--dim batch=3: give each name once."),
        ("certify answer.json -k 2", "this is 'mtpp-answer/1', which verify, explain, report and export take"),
        ("verify .", ".: this is no folder that mtpp split has written; there is no manifest.json in it."),
        ("table training -k 3", "-k: it changes nothing with training; leave it out."),
        ("table peers --scheduler tcp://nowhere:1", "--scheduler: it changes nothing with peers; leave it out."),
        ("table runs.jsonl --from --seed 3", "--seed: it changes nothing with --from; leave it out."),
        ("table quick --format xlsx", "--format xlsx: give one of txt, md, csv, tex."),
        ("table path.json -k 12345678901234567890", "-k 12345678901234567890: the number of blocks must be 1000000"),
        ("paper spp --dry-run --jobs 0", "--jobs 0: use from 1 to 256 processes."),
        ("train calibrate", "calibrate: name the file of measured steps: mtpp train calibrate steps.json."),
        ("run path.json", "path.json: this is no folder that mtpp split has written"),
        ("explain .", ".: this is no folder that mtpp split has written"),
    ],
)
def test_bug_refusals_came_late_or_spoke_of_another_thing(
    command: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong solver was a fault of the method hunted; files in place of folders were seen when all was done; `paper`
    waited for a pipe; `table` passed over options that its studies do not have."""
    os.mkfifo("pipe")
    Path("answer.json").write_text('{"format": "mtpp-answer/1"}')
    _refused(command, capsys, message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["certify", "", "-k", "2"], "certify ''"),
        (["verify", ""], "verify ''"),
        (["hunt", ""], "hunt ''"),
        (["report", "answer.json", "--out", ""], "--out ''"),
        (["table", "path.json", "--methods="], "--methods="),
    ],
)
def test_bug_empty_texts_were_the_folder_of_here(
    words: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of a variable of the shell that is not set; `hunt` failed at one, and `table` ran one bound alone."""
    assert main(words) == 2
    assert (
        capsys.readouterr().err == f"mtpp: {message}: there is nothing in this text; give a value, or leave it out.\n"
    )


@pytest.mark.parametrize(
    ("partition", "named"),
    [
        ({"k": 2, "block": [1, 0, 0]}, "0 -> 1"),
        ({"k": 2, "block": [0, 0]}, "3 nodes"),
        ({"k": 3, "block": [0, 1, 2]}, "k = 3"),
        ({"k": 2, "block": [0, 1, 2]}, "Node 2"),
        ({"k": 2}, "block"),
    ],
)
@pytest.mark.parametrize("verb", ["bound", "certify"])
def test_bad_starts(
    verb: str, partition: dict[str, Any], named: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A start that is infeasible or answers another question is refused."""
    Path("start.json").write_text(json.dumps({"graph": "path"} | partition))
    _refused(f"{verb} path.json -k 2 --bandwidth 1 --start start.json", capsys, named)


def test_a_certificate_of_another_question_is_no_start(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("certify path.json -k 3 --bandwidth 1 --time-limit 20 --out c.json") == 0
    capsys.readouterr()
    _refused("bound path.json -k 2 --bandwidth 1 --start c.json", capsys, "k = 3")


@pytest.mark.parametrize("verb", ["bound", "certify", "table"])
@pytest.mark.parametrize("absent", ["cplex", "xpress"])
def test_missing_solvers(verb: str, absent: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3 and one line, before any work."""
    from mtpp_models import available_solvers

    if absent in available_solvers():
        pytest.skip(f"{absent} is installed")
    assert mtpp(f"{verb} path.json -k 2 --bandwidth 1 --solver {absent}") == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert absent in captured.err
    assert not Path("runs.jsonl").exists()


@pytest.mark.parametrize("verb", ["bound", "certify", "table"])
def test_misspelled_solvers(verb: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _refused(f"{verb} path.json -k 2 --bandwidth 1 --solver hihgs", capsys, "did you mean highs")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("certify path.json -k 2 --time-limit x", "mtpp: --time-limit x: give a number."),
        ("certify path.json -k 2 --threads 1.5", "mtpp: --threads 1.5: give a whole number."),
        ("bound path.json -k 2 --stated-bound q", "mtpp: --stated-bound q: give a number."),
        ("place path.json -k two", "mtpp: -k two: give a whole number."),
        ("plan gnmt --cluster 2x2 --microbatches many", "mtpp: --microbatches many: give a whole number."),
        ("certify path.json -k 2 --seed -1", "mtpp: --seed -1: it must be at least 0 and at most 2147483647."),
    ],
)
def test_what_is_no_number_is_said_in_our_words(
    command: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mtpp(command) == 2
    assert capsys.readouterr().err == f"{message}\n"


@pytest.mark.parametrize(
    "command",
    [
        "partition path.json -k 2 --bandwidth 1 --out path.json",
        "certify path.json -k 2 --bandwidth 1 --plot link.svg --out ./link.svg",
        "certify path.json -k 2 --bandwidth 1 --plot a.svg --plot-progress a.svg",
        "bound path.json -k 2 --bandwidth 1 --start start.json --out start.json",
        "place path.json -k 2 --bandwidth 1 --out link.svg",
        "plan path.json --cluster 1x2 --bandwidth 1 --microbatches 2 --export path.json",
    ],
)
def test_no_file_is_written_over_another(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither over one that is read, also by a link, nor twice."""
    Path("link.svg").symlink_to("path.json")
    Path("start.json").write_text("{}")
    before = Path("path.json").read_bytes()
    _refused(command, capsys, "give another name")
    assert Path("path.json").read_bytes() == before
    assert Path("start.json").read_text() == "{}"
    assert not Path("a.svg").exists()


def test_earlier_results_are_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A refused call changes no file, also not the one it was to write."""
    Path("out.json").write_text("precious")
    graph_file(folder, **GRAPH_FAULTS["cycle"])
    _refused("partition graph.json -k 2 --out out.json", capsys, "cycle")
    assert Path("out.json").read_text() == "precious"
    _refused("table path.json --out out.json", capsys, "line 1")
    assert Path("out.json").read_text() == "precious"


def _refused(command: str, capsys: pytest.CaptureFixture[str], named: str) -> None:
    assert mtpp(command) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    assert captured.err.startswith("mtpp: ")
    assert named in captured.err
