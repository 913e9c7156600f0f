"""Files of kinds of devices and of answers over them: read, proved again, forged, and what the command line refuses."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import assert_impossible, assert_misuse, columns, mtpp
from kinds_cases import GOLDEN, devices

import mtpp as api
from heuristics import Limits, search
from instances import ComputationGraph
from instances.json_files import read_json, write_json
from instances.machines import SHIPPED, devices_of_text, read_kinds
from mtpp.problems.checking import certificate_document, verify
from mtpp_models import SolveOptions, solve


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of the golden graph with the bounds of all methods."""
    instance = GOLDEN["graph"][0]
    found = search(instance, "portfolio", np.random.default_rng(0), Limits(evaluations=2000))
    known = found.partition
    methods = ("simple", "pinned", "levels", "ideals", "priced")
    parts = [solve(instance, name, SolveOptions(time_limit=2.0), start=known) for name in methods]
    file = tmp_path_factory.mktemp("kinds") / "certificate.json"
    write_json(file, certificate_document([found, *parts]))
    return file


def test_verify_proves_it_and_reading_gives_the_answer(certificate: Path) -> None:
    """All but the prices, which are trusted."""
    verdict = verify(read_json(certificate))
    assert verdict.faults == ()
    assert float(verdict.proved_ratio or 0) == pytest.approx(1.0, abs=1e-9)
    assert [check.how.split()[0] for check in verdict.checks] == ["re-proved"] * 4 + ["trusted"]
    assert api.read(certificate).cost == 8


def _change(document: dict[str, Any], path: list[Any], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return changed


FORGERIES: list[tuple[list[Any], Any]] = [
    (["bounds", 0, "value"], 7.0),
    (["bounds", 1, "value"], 7.0),
    (["bounds", 3, "value"], 8.01),
    (["bounds", 0, "parameters", "shares"], [0.0, 0.0]),
    (["bounds", 1, "parameters", "nodes"], [77]),
    (["bounds", 4, "parameters", "prices"], [0.0] * 6),
    (["cost"], 7.9),
    (["answer", "kind"], ["kind 0", "kind 0", "kind 0"]),
    (["answer", "kind", 0], "kind 9"),
    (["question", "k"], 2),
    (["question_hash"], "0" * 64),
]


@pytest.mark.parametrize(("path", "value"), FORGERIES)
def test_forgeries_are_found(certificate: Path, path: list[Any], value: Any, tmp_path: Path) -> None:
    """Each number that is changed."""
    document = _change(json.loads(certificate.read_text()), path, value)
    file = tmp_path / "forged.json"
    file.write_text(json.dumps(document))
    assert verify(read_json(file)).faults


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Certify, explain and verify with shipped kinds and a file of kinds."""
    monkeypatch.chdir(tmp_path)
    words = "--level layer --dim phase=decode --time-limit 10"
    assert mtpp(f"certify llama-3-8b --devices A100 {words}") == 2
    capsys.readouterr()
    assert mtpp(f"certify llama-3-8b --devices 1xA100,2xL4,1xT4 {words} --out c.json --plot c.png") == 0
    assert columns(capsys.readouterr().out)["status"] == "optimal"
    assert mtpp("verify c.json") == 0
    assert mtpp("explain c.json") == 0
    out = capsys.readouterr().out
    assert "re-proved by all ideals" in out
    assert "(on " in out
    kinds = [{"name": "fast", "count": 1, "speed": 2, "bandwidth": 4}, {"name": "slow", "count": 2, "bandwidth": 1}]
    Path("kinds.json").write_text(json.dumps({"format": "mtpp-devices/2", "kinds": kinds}))
    assert mtpp("bound bert-base --devices kinds.json --model simple --json") == 0
    assert json.loads(capsys.readouterr().out)["format"] == "mtpp-answer/1"


def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong, where, and what to do."""
    monkeypatch.chdir(tmp_path)
    kind = {"name": "fast", "count": 2, "speed": 1.0}
    files: dict[str, dict[str, Any]] = {
        "none": {"kinds": []},
        "rates": {"kinds": [kind, {**kind, "name": "slow", "speed": 2.0}], "rates": [[1.0]]},
        "fixed": {"kinds": [kind, {**kind, "name": "slow", "speed": 2.0}], "order": "fixed"},
        "twice": {"kinds": [kind, {**kind, "speed": 2.0}]},
        "part": {"kinds": [{**kind, "count": 1.5}]},
        "small": {"kinds": [{**kind, "memory": 1.0}, {**kind, "name": "slow", "speed": 2.0, "memory": 2.0}]},
    }
    for name, members in files.items():
        Path(f"{name}.json").write_text(json.dumps({"format": "mtpp-devices/2", **members}))
    rules = {"format": "mtpp-constraints/1", "at_least": [{"nodes": [0], "count": 1}]}
    Path("counts.json").write_text(json.dumps(rules))
    assert_misuse(
        capsys,
        {
            "partition bert-base --devices 4xA100,0xL4": "count is 0",
            "partition bert-base --devices 4xA1000": "did you mean A100",
            "partition bert-base --devices absent.json": "there is no such file; give a text such as 4xA100",
            "partition bert-base --devices 4xL5": "did you mean L4?",
            "partition bert-base --devices 1000000000000xA100": "count is 1000000000000",
            "partition bert-base --devices part.json": "mtpp: part.json, kinds[0].count: expected a whole number",
            "partition bert-base --devices 1xA100,1xL4 --bandwidth 1 --activation-buffer -1": "must be 0 or more",
            "partition bert-base --devices rates.json --activation-buffer 1GB": "Rates between 2 kinds",
            "partition bert-base --devices none.json": "There are no devices",
            "partition bert-base --devices rates.json": "Rates between 2 kinds of devices are 2 rows",
            "partition bert-base --devices fixed.json -k 2": "leave k out",
            "partition bert-base --devices twice.json": "Two kinds of devices are called fast",
            "partition bert-base --devices small.json -k 9": "there are 4 devices",
            "partition bert-base --devices fixed.json -k auto --throughput 1": "leave k out",
            "partition llama-3-8b --devices small.json --constraints counts.json --level layer": "Least numbers",
            "partition bert-base --devices small.json --method kahn": "for devices that are all alike",
            "certify bert-base": "-k is missing",
        },
    )
    assert_impossible(capsys, "partition bert-base --devices small.json --fit", "does not fit")


def test_kinds_of_texts_and_of_older_files(tmp_path: Path) -> None:
    """Devices that are alike are one kind."""
    read = devices_of_text("4xA100, 2xL4,1xA100")
    assert read is not None
    assert [(kind.name, kind.count) for kind in read.kinds] == [("A100", 5), ("L4", 2)]
    assert devices_of_text("devices.json") is None
    assert devices_of_text("4xa100-80GB,2xA100-40") == devices_of_text("4xA100,2xA100-40GB")
    assert set(SHIPPED) >= {"A100", "L4", "T4"}
    file = tmp_path / "old.json"
    file.write_text(json.dumps({"format": "mtpp-devices/1", "speeds": [1, 0.5, 1], "memories": [8, None, 8]}))
    assert read_kinds(file).counts == (2, 1)


def test_bug_why_nothing_fits_is_read_again(tmp_path: Path) -> None:
    """The file was written and refused by all verbs that read it; all of its proof is in it."""
    graph = ComputationGraph.from_edges([(0, 1)], [1, 2], param_bytes=[8, 8])
    found = api.certify(graph, devices=devices([(1, 1, 1), (2, 1, 1)], [3, 4]), fit=True, time_limit=1)
    path = found.save(tmp_path / "none.json")
    assert api.read(path).impossible == f"{found.impossible}, as the file states"
    verdict = api.verify(path)
    assert not verdict.faults
    assert not verdict.rests_on_trust
    assert mtpp(f"verify {path}") == 0
    assert mtpp(f"report {path} --out {tmp_path}/none.html") == 0
    assert "Proved impossible" in (tmp_path / "none.html").read_text()
    document = json.loads(path.read_text())
    for forged in ({"kind": "windows", "first": 0, "last": 0}, {"kind": "windows", "first": 1, "last": 1}):
        document["impossible"]["proof"] = forged
        write_json(path, document)
        assert mtpp(f"verify {path}") == 1
    document["impossible"]["proof"] = None
    write_json(path, document)
    assert mtpp(f"verify {path}") == 4


def test_bug_a_certificate_is_a_start(tmp_path: Path) -> None:
    """Of the same question that is read again; the kinds of its blocks were lost, and it was refused."""
    found = api.certify("gpt2", devices="1xA100,2xL4", level="layer", time_limit=1)
    path = found.save(tmp_path / "certificate.json")
    assert api.bound("gpt2", model="simple", devices="1xA100,2xL4", level="layer", start=path).cost == found.cost
