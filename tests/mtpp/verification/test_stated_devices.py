"""The devices that a caller states, against those of a certificate."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import mtpp

import mtpp as api
from instances import ComputationGraph
from instances.machines import Kind, Machines
from mtpp_models import solve

FAST = Kind("fast", 1, speed=2.0, memory=100.0, bandwidth=4.0)
SLOW = Kind("slow", 2, speed=1.0, memory=200.0, bandwidth=1.0)
GRAPH = ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], [4.0, 2.0, 3.0, 1.0], [1.0, 2.0, 1.0, 0.0])
RATES = [[4.0, 0.5], [1.0, 1.0]]


def compared(asked: Any, devices: Machines, **words: Any) -> tuple[str, ...]:
    """What is wrong with the question of a certificate over devices."""
    verdict = api.verify(api.certify(GRAPH, devices=devices, time_limit=2), devices=asked, **words)
    assert "devices" in verdict.compared
    return verdict.faults


@pytest.mark.parametrize("order", ["free", "fixed"])
def test_the_devices_of_a_question_are_recognised(order: str) -> None:
    true = Machines([FAST, SLOW], order)
    assert compared(true, true, graph=GRAPH) == ()
    for wrong, words in [
        (Machines([FAST, replace(SLOW, count=3)], order), "1xfast,2xslow, you ask for 1xfast,3xslow"),
        (Machines([FAST], order), "you ask for 1xfast"),
        (Machines([FAST, replace(SLOW, name="other")], order), "you ask for 1xfast,2xother"),
        (Machines([FAST, replace(SLOW, memory=201.0)], order), "memory of slow is 200 bytes, you ask for 201 bytes"),
        (
            Machines([replace(FAST, bandwidth=5.0), SLOW], order),
            "bandwidth of fast is 4 bytes/s, you ask for 5 bytes/s",
        ),
        (Machines([FAST, SLOW], "fixed" if order == "free" else "free"), f"in {order} order"),
        (Machines([FAST, SLOW], order, RATES), "rates between kinds"),
    ]:
        (fault,) = compared(wrong, true)
        assert words in fault


def test_kinds_may_be_stated_in_another_order_unless_it_is_fixed() -> None:
    turned = [row[::-1] for row in RATES[::-1]]
    assert compared(Machines([SLOW, FAST]), Machines([FAST, SLOW]), graph=GRAPH) == ()
    assert compared(Machines([SLOW, FAST], rates=turned), Machines([FAST, SLOW], rates=RATES)) == ()
    assert len(compared(Machines([SLOW, FAST], rates=RATES), Machines([FAST, SLOW], rates=RATES))) == 1
    assert len(compared(Machines([SLOW, FAST], "fixed"), Machines([FAST, SLOW], "fixed"))) == 1


def test_speeds_show_in_the_works_of_the_graph() -> None:
    true, faster = Machines([FAST, SLOW]), Machines([FAST, replace(SLOW, speed=1.5)])
    assert compared(faster, true) == ()  # a certificate holds works, and no speeds
    (fault,) = compared(faster, true, graph=GRAPH)
    assert "the work of node 0 (0) on slow is 4.0, there 2.66" in fault


def test_devices_that_are_alike_are_a_platform() -> None:
    true = Machines([SLOW])
    assert compared(true, true, graph=GRAPH) == ()
    assert compared(Machines([replace(SLOW, count=3)]), true, k=2) == ()
    for wrong, words in [
        (Machines([replace(SLOW, count=3)]), "2 that are alike, you ask for 3xslow"),
        (Machines([FAST, SLOW]), "2 that are alike, you ask for 1xfast,2xslow"),
        (Machines([replace(SLOW, memory=100.0)]), "memory is 200 bytes"),
        (Machines([replace(SLOW, bandwidth=2.0)]), "bandwidth is 1 bytes/s"),
    ]:
        (fault,) = compared(wrong, true)
        assert words in fault
    (fault,) = compared(Machines([replace(SLOW, speed=2.0)]), true, graph=GRAPH)
    assert "the work of node 0 (0) is 4.0, there 2.0" in fault


def test_memory_completes_what_a_file_leaves_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In certify and in verify."""
    kinds = [{"name": "fast", "count": 1, "speed": 2.0, "memory": 100.0}, {"name": "slow", "count": 2, "speed": 1.0}]
    Path("kinds.json").write_text(json.dumps({"format": "mtpp-devices/2", "kinds": kinds}))
    assert mtpp("certify path.json --devices kinds.json --memory 200 --bandwidth 4 --time-limit 2 --out c.json") == 0
    assert mtpp("verify c.json --devices kinds.json --memory 200 --bandwidth 4 --graph path.json") == 0
    assert "compared   --bandwidth, --memory, --devices, --graph" in capsys.readouterr().out
    assert mtpp("verify c.json --devices kinds.json --memory 300 --bandwidth 4") == 1
    assert "no kind of devices has a memory of 300 bytes" in capsys.readouterr().err
    assert mtpp("verify c.json --devices kinds.json --memory 200") == 0
    assert mtpp("verify c.json --devices 2xA100,1xnone") == 2


def test_bug_a_question_that_is_stated_as_a_whole_has_no_other_restriction() -> None:
    """Fit, buffer and nodes that are kept from a kind were compared with nothing, and shown nowhere."""
    limited = Machines([replace(FAST, memory=8.0), replace(SLOW, memory=9.0)])
    alike = Machines([replace(SLOW, memory=9.0)])
    for devices, words, told in [
        (limited, {"fit": True}, "fit is true, you state none"),
        (limited, {"activation_buffer": "3B"}, "activation buffer is 3 bytes, you state none"),
        (limited, {"k": 2}, "k is 2, you state none"),
        (limited, {"constraints": {"on": {"2": "fast"}}}, "node 2 (2) cannot run on slow, you state none"),
        (limited, {"constraints": {"uncut": ["1"]}}, "constraints are uncut 1, you state none"),
        (alike, {"fit": True}, "fit is true, you state none"),
        (alike, {"activation_buffer": "3B"}, "activation buffer is 3 bytes, you state none"),
        (alike, {"constraints": {"together": [["0", "1"]]}}, "constraints are together 0 1, you state none"),
    ]:
        result = api.certify(GRAPH, devices=devices, time_limit=0.5, **words)
        assert api.verify(result, devices=devices, graph=GRAPH).faults == (f"question: {told}",)
        assert api.verify(result, devices=devices, graph=GRAPH, **words).faults == ()
        assert api.verify(result, graph=GRAPH).faults == ()


def test_bug_a_trusted_bound_over_kinds_is_run_again() -> None:
    """Searches and solvers ended in an AssertionError."""
    devices = Machines([FAST, SLOW])
    question = api.partition(GRAPH, devices=devices).instance
    start = api.partition(question).partition
    for model in ("priced", "exact"):
        result = solve(question, model, start=start)
        assert result.bound is not None
        assert result.bound.method == model
        (check,) = api.verify(result, rerun=True).checks
        assert check.confirmed
        bound = replace(result.bound, value=result.bound.value * 1.01)
        (check,) = api.verify(replace(result, answer=None, bound=bound), rerun=True).checks
        assert check.how == "false"
        assert "is claimed" in check.fault
