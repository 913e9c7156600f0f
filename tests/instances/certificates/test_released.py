"""Files that version 0.2.0 wrote, ``released.json``, are read and checked; formats that it did not know are refused."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from certificates import GRAPH

import mtpp
from instances import InputError, Instance, Platform, read_partition
from instances.json_files import Value, write_json
from mtpp.problems.checking import read_result, verify

FILES: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "released.json").read_text())
CERTIFIED = [name for name in FILES if name != "partition"]


@pytest.mark.parametrize("name", CERTIFIED)
def test_files_of_0_2_0_hold(name: str) -> None:
    """No hash binds their question, which verify prints; a front lacks its operators."""
    verdict = verify(Value(copy.deepcopy(FILES[name]), "c.json"))
    assert verdict.faults == ()
    assert verdict.certificate.question_hash is None
    assert verdict.certificate.true_hash.startswith("q2:")
    assert verdict.rests_on_trust == (name in ("plan", "front"))
    result = read_result(Value(FILES[name], "c.json"))
    assert result is not None
    assert result.instance.question_hash == verdict.certificate.true_hash


def test_a_question_has_the_hash_of_today() -> None:
    verdict = verify(Value(FILES["certificate"], "c.json"))
    assert verdict.certificate.true_hash == Instance(GRAPH, Platform(3, 2.0, 9.0)).question_hash


def test_a_partition_file_is_one_by_hand(tmp_path: Path) -> None:
    write_json(tmp_path / "p.json", FILES["partition"])
    partition = read_partition(tmp_path / "p.json", Instance(GRAPH, Platform(3, 2.0)))
    assert partition.block.tolist() == FILES["partition"]["block"]
    assert mtpp.read(tmp_path / "p.json", GRAPH).cost == FILES["partition"]["bottleneck"]
    with pytest.raises(InputError, match=r"p\.json: the partition has k = 3, but k = 2 was asked for"):
        read_partition(tmp_path / "p.json", Instance(GRAPH, Platform(2, 2.0)))


def test_a_placement_on_a_table_of_devices_holds() -> None:
    file = copy.deepcopy(FILES["placement"])
    k, rate = file["instance"]["devices"], file["instance"]["bandwidth"]
    table = {"speeds": [1.0] * k, "memories": [None] * k, "rates": []}
    table["rates"] = [[None if d == e else rate for e in range(k)] for d in range(k)]
    file["instance"]["unequal"] = table
    verdict = verify(Value(copy.deepcopy(file), "c.json"))
    assert verdict.faults == ()
    file["instance"]["unequal"]["speeds"][0] = 0.5
    assert verify(Value(file, "c.json")).faults


@pytest.mark.parametrize("name", CERTIFIED)
def test_what_is_false_in_them_is_found(name: str) -> None:
    forged = copy.deepcopy(FILES[name])
    cost = next(member for member in ("bottleneck", "step_time", "time", "front") if member in forged)
    if cost == "front":
        forged["front"][0]["bottleneck"] *= 0.99
    else:
        forged[cost] *= 0.99
    assert verify(Value(forged, "c.json")).faults


def test_what_is_broken_in_them_is_refused() -> None:
    """Every member taken away or replaced, one at a time."""
    for file in FILES.values():
        for member in file:
            for change in ({}, {member: None}, {member: [[1]]}, {member: {"x": 1}}):
                document = {name: item for name, item in file.items() if name != member} | change
                with suppress(InputError):
                    read_result(Value(document, "c.json"))


@pytest.mark.parametrize(
    ("named", "verb"),
    [("mtpp-kinds/1", "certify"), ("mtpp-flow/2", "flow"), ("mtpp-plan/5", "train"), ("mtpp-certificate/2", "certify")],
)
def test_what_was_never_released_is_refused(named: str, verb: str) -> None:
    with pytest.raises(InputError) as refusal:
        verify(Value({"format": named}, "k.json"))
    assert str(refusal.value) == f"k.json: {named} was never released; write it anew with mtpp {verb}."
