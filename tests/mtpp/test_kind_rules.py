"""Side constraints and rules of runtimes over kinds of devices: brute force, certificates, and what refuses them."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import columns, mtpp
from hunt_kinds import faults_of
from kinds_cases import U1, devices, question
from kinds_oracle import draw_case

from instances import InputError
from instances.json_files import json_text, parse_json
from instances.partitioning.constraints import Constraints
from instances.partitioning.kinds.partition import UnlikePartition
from mtpp.certificates.writing import certificate_document
from mtpp.certifying.certify import certify
from mtpp.verification.verify import verify
from mtpp_models import SolveOptions, solve

_OWN = devices([(2, 4, 1), (1, 1, 2)])


@pytest.mark.parametrize("rated", [True, False])
def test_no_bound_is_above_brute_force(rated: bool) -> None:
    """With nodes that are together; `hunt_kinds.py` draws them too."""
    for i in range(2):
        case = draw_case(random.Random(f"rules {i}"), chain=i % 2 == 0, most=5, rated=rated, grouped=True)
        assert faults_of(case, seconds=0.05) == [], case


def test_bug_a_peak_of_merged_nodes_is_their_largest_need() -> None:
    """A tensor between two of them is gone when they are merged; the bound at its end was below the optimum."""
    case = draw_case(random.Random("g 17"), chain=False, most=7, grouped=True)
    assert case.together
    assert case.buffer is None
    assert faults_of(case, seconds=0.05) == []


def test_nodes_stay_together_and_verify_proves_it() -> None:
    """All bounds are checked with the groups as nodes; a cut through one, or other groups, are noticed."""
    rules = Constraints(together=((1, 2),), uncut=(3,))
    instance = question(U1, _OWN, constraints=rules)
    free = question(U1, _OWN)
    assert instance.key != free.key
    result = certify(instance, SolveOptions(time_limit=5.0))
    assert result.proved
    assert isinstance(result.partition, UnlikePartition)
    block = result.partition.block
    assert (block[1], block[3]) == (block[2], block[4])
    assert result.cost is not None
    assert result.cost >= 6.25
    methods = ("simple", "pinned", "ideals", "priced")
    parts = [solve(instance, name, SolveOptions(time_limit=0.3), start=result.partition) for name in methods]
    text = json_text(certificate_document(parts))
    assert verify(parse_json(text, "rules.json")).faults == ()
    for changed in (
        {"together": [[0, 1, 2, 3, 4, 5]]},
        {"together": [[1, 2]]},
    ):
        document: Any = json.loads(text)
        document["instance"]["constraints"] = changed
        assert verify(parse_json(json.dumps(document), "forged.json")).faults


def test_one_kind_keeps_its_rules() -> None:
    """It is the question of devices that are alike, windows and all; with several kinds windows are refused."""
    rules = Constraints(windows=((0, 0, 0),))
    assert question(U1, devices([(1, 1, 3)]), constraints=rules).constraints == rules
    with pytest.raises(InputError, match="Windows of stages"):
        question(U1, _OWN, constraints=rules)
    with pytest.raises(InputError, match="Windows of stages"):
        replace(question(U1, _OWN), windows={"0": 0})


def test_cuts_for_a_runtime(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ends stay with the layers where the runtime has them, and idle devices are no stages."""
    monkeypatch.chdir(tmp_path)
    words = "--level layer --dim phase=decode --time-limit 10 --out c.json"
    assert mtpp(f"certify llama-3-8b --devices 1xA100,2xL4,1xT4 --for accelerate {words}") == 0
    assert columns(capsys.readouterr().out)["status"] == "optimal"
    assert mtpp("verify c.json") == 0
    assert mtpp("export c.json --for accelerate") == 0
