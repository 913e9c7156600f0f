"""Side constraints and rules of runtimes over kinds of devices: brute force, certificates, and what refuses them."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import assert_misuse, columns, mtpp
from hunt_kinds import faults_of, instance_of
from kinds_cases import GOLDEN, U1, devices, question
from kinds_oracle import draw_case, optimum_of

from heuristics import Limits, search
from instances import ComputationGraph, InputError, Instance, Platform
from instances.json_files import json_text, parse_json
from instances.machines import Kind, Machines
from instances.partitioning.constraints import Constraints
from instances.partitioning.partition import Partition
from mtpp.certifying.certify import certify
from mtpp.certifying.least_k import LeastPrice, find_least
from mtpp.problems.checking import certificate_document, verify
from mtpp_models import SolveOptions, solve

_OWN = devices([(2, 4, 1), (1, 1, 2)])


@pytest.mark.parametrize("words", [{"rated": True}, {}, {"windowed": True}])
def test_no_bound_is_above_brute_force(words: dict[str, bool]) -> None:
    """With nodes that are together; `hunt_kinds.py` draws them too."""
    for i in range(2):
        case = draw_case(random.Random(f"rules {i}"), chain=i % 2 == 0, most=5, grouped=True, **words)
        assert faults_of(case, seconds=0.05) == [], case


def _placed(windows: tuple[tuple[int, int, int], ...], order: str = "free") -> Instance:
    """Six layers on a fast and two slow devices."""
    own = question(U1, devices([(2, 4, 1), (1, 1, 2)], order=order), constraints=Constraints(windows=windows))
    return own


@pytest.mark.parametrize("order", ["free", "fixed"])
@pytest.mark.parametrize("chain", [True, False])
def test_windows_agree_with_brute_force(order: str, chain: bool) -> None:
    """The program over rows and ideals is exact, searches obey, and `mtpp verify` proves it again."""
    checked = 0
    for i in range(40):
        case = draw_case(random.Random(f"windows {order} {i}"), chain=chain, most=5, windowed=True)
        case = replace(case, fixed=order == "fixed", k=sum(case.counts))
        optimum = optimum_of(case)
        if optimum is None or len(case.counts) == 1:
            continue
        instance = instance_of(case)
        found = search(instance, "portfolio", np.random.default_rng(0), Limits(evaluations=500))
        result = solve(instance, "ideals", start=found.partition)
        assert result.bound is not None
        assert optimum * (1 - 1e-5) <= result.bound.value <= optimum * (1 + 1e-9)
        if found.partition is not None:
            assert found.partition.bottleneck >= optimum * (1 - 1e-9)
        document = parse_json(json_text(certificate_document([result])), "windows.json")
        assert verify(document).faults == ()
        checked += 1
    assert checked >= 10


def test_places_between_blocks_may_be_empty() -> None:
    """The windows count places; in a fixed order these are the devices."""
    result = certify(_placed(((2, 0, 0), (3, 2, 2))), SolveOptions(time_limit=5.0))
    assert result.partition.block.tolist() == [0, 0, 0, 2, 2, 2]
    assert result.partition.kinds_by_name[1] is None
    assert result.proved
    assert result.cost == pytest.approx(12.0)
    pinned = certify(_placed(((5, 1, 1),), order="fixed"), SolveOptions(time_limit=5.0))
    assert pinned.proved
    assert pinned.partition.kinds_by_name == ["kind 0", "kind 1", None]


def test_verify_knows_windows() -> None:
    """Wider windows have cheaper answers, narrower ones are broken; the key of a question knows them too."""
    instance = _placed(((1, 0, 0), (2, 1, 1)))
    assert len({instance.key, _placed(()).key, _placed(((2, 1, 1),)).key}) == 3
    result = solve(instance, "ideals")
    assert result.cost is not None
    assert result.cost > 6.25
    text = json_text(certificate_document([result]))
    assert verify(parse_json(text, "windows.json")).faults == ()
    for v, last, fault in ((1, 2, "blocks below it exist"), (5, 0, "may be in blocks 0 to 0")):
        document: Any = json.loads(text)
        document["question"]["constraints"] = {"windows": [[v, 0, last]]}
        assert fault in " ".join(verify(parse_json(json.dumps(document), "forged.json")).faults)


def test_windows_over_more_devices_than_can_be_counted() -> None:
    """The search takes the devices as they are given, and the bound is that by speed."""
    kinds = [(1 + t / 8, 1.0 + t, 1) for t in range(22)]
    instance = question(U1, devices(kinds), constraints=Constraints(windows=((3, 20, 20),)))
    found = search(instance, "portfolio", np.random.default_rng(0)).partition
    assert found is not None
    assert found.block[3] == 20
    bound = solve(instance, "ideals", start=found).bound
    assert bound is not None
    assert bound.method == "simple"


def test_fewest_and_cheapest_devices_with_windows() -> None:
    """No fewer than the windows name; choices of devices with fewer places are left out."""
    least = find_least(_placed(((4, 1, 1),)), math.inf, SolveOptions(time_limit=5.0))
    assert least.k == 2
    priced = [Kind("fast", 1, speed=2.0, price=3.0), Kind("slow", 2, speed=1.0, price=1.0)]
    rules = Constraints(windows=((4, 2, 2),))
    cheapest = find_least(question(U1, Machines(priced), constraints=rules), math.inf, SolveOptions(time_limit=5.0))
    assert isinstance(cheapest, LeastPrice)
    assert cheapest.devices is not None
    assert cheapest.devices.counts == (1, 2)


@pytest.mark.parametrize("order", ["free", "fixed"])
@pytest.mark.parametrize("rates", [None, [[4, 1], [1, 2]]])
@pytest.mark.parametrize(("on", "windows"), [((), ()), (((3, ("kind 0",)),), ((5, 1, 2),))])
def test_bug_without_time_there_is_an_answer(
    order: str, rates: list[list[float]] | None, on: tuple[Any, ...], windows: tuple[Any, ...]
) -> None:
    """The limit could pass before the first search; a slicing takes no time."""
    kinds, graph = devices([(2, 4, 1), (1, 1, 2)], [4, 3], order=order), replace(U1, param_bytes=np.ones(6))
    rules = Constraints(on=on, windows=windows)
    for own in (graph, replace(GOLDEN["graph"][0].graph, param_bytes=np.ones(6))):
        instance = question(own, replace(kinds, rates=rates), constraints=rules, fit=True, activation_buffer=0.0)
        result = certify(instance, SolveOptions(time_limit=1e-9))
        assert result.partition is not None
        assert result.bound is not None


def test_bug_cheapest_devices_end_in_time() -> None:
    """The limit was for each choice; and a choice on which nothing fits is excluded, not open."""
    priced = [Kind("fast", 2, speed=2.0, price=3.0), Kind("slow", 2, speed=1.0, price=1.0)]
    asked = question(U1, Machines(priced), constraints=Constraints(windows=((2, 1, 1), (3, 0, 1))))
    least = find_least(asked, 7.0, SolveOptions(time_limit=1e-9))
    assert isinstance(least, LeastPrice)
    assert least.devices is not None
    assert least.devices.counts == (2, 2)
    assert least.undecided
    assert "that are known" in least.sentence()
    proved = find_least(asked, 7.0, SolveOptions(time_limit=30.0))
    assert isinstance(proved, LeastPrice)
    assert not proved.undecided


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
    block = result.partition.block
    assert (block[1], block[3]) == (block[2], block[4])
    assert result.cost is not None
    assert result.cost >= 6.25
    methods = ("simple", "pinned", "levels", "ideals", "priced")
    parts = [solve(instance, name, SolveOptions(time_limit=0.3), start=result.partition) for name in methods]
    text = json_text(certificate_document(parts))
    assert verify(parse_json(text, "rules.json")).faults == ()
    for changed in (
        {"together": [[0, 1, 2, 3, 4, 5]]},
        {"together": [[1, 2]]},
    ):
        document: Any = json.loads(text)
        document["question"]["constraints"] = changed
        assert verify(parse_json(json.dumps(document), "forged.json")).faults


def _able(on: dict[int, str]) -> Instance:
    instance = question(U1, _OWN, constraints=Constraints.of(U1, on=on))
    return instance


def test_nodes_that_only_some_kinds_may_run() -> None:
    """Proved and verified: the first and the last node on the only fast device leave all of them there."""
    for on, optimum in (({0: "kind 0", 5: "kind 0"}, 9.0), ({5: "kind 1"}, 6.5), ({5: "kind 0"}, 6.25)):
        instance = _able(on)
        results = [certify(instance, SolveOptions(time_limit=5.0)), solve(instance, "exact"), solve(instance, "ideals")]
        for result in results:
            assert result.cost == pytest.approx(optimum)
            assert result.proved
            for v, kind in on.items():
                assert result.partition.kinds_by_name[result.partition.block[v]] == kind
        text = json_text(certificate_document([results[0]]))
        assert verify(parse_json(text, "on.json")).faults == ()
        document: Any = json.loads(text)
        assert sum(row["works"].count(None) for row in document["question"]["kinds"]) == len(on)
        document["answer"] |= {"block": [0] * 6, "kind": ["kind 1" if on[5] == "kind 0" else "kind 0", None, None]}
        assert "cannot run on" in " ".join(verify(parse_json(json.dumps(document), "forged.json")).faults)


def test_where_nodes_run_is_a_part_of_the_question() -> None:
    """Of its key, and of what `verify` compares; a partition elsewhere takes for ever."""
    assert _able({5: "kind 1"}).key != _able({5: "kind 0"}).key != question(U1, _OWN).key
    elsewhere = Partition(_able({5: "kind 1"}), [0, 1, 2, 2, 2, 2], kind=[1, 1, 0])
    assert elsewhere.bottleneck == math.inf
    for on, message in (
        ({0: "kind 9"}, "kind of devices 'kind 9'"),
        ({0: []}, "names no kinds"),
        ({7: "kind 0"}, "node 7"),
    ):
        with pytest.raises(InputError, match=message):
            _able(on)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"Node 0 \(0\) can run on no kind"):
        question(U1, _OWN, constraints=Constraints(on=((0, ("kind 0",)), (0, ("kind 1",)))))
    with pytest.raises(InputError, match="devices are alike"):
        Instance(U1, Platform(2, 1.0), constraints=Constraints(on=((0, ("kind 0",)),)))


def test_bounds_and_searches_know_which_kinds_run_a_node() -> None:
    """A short hunt."""
    for i in range(4):
        case = draw_case(random.Random(f"on {i}"), chain=i % 2 == 0, most=5, barred=True, rated=i == 3)
        assert faults_of(case, seconds=0.1) == [], case


def test_kinds_of_nodes_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of constraints with patterns; `verify` compares it."""
    monkeypatch.chdir(tmp_path)
    for name, kind in (("on", "A100"), ("off", "T4"), ("none", "B200")):
        rules = {"format": "mtpp-constraints/1", "on": {"head*": [kind], "decoder.31": [kind]}}
        Path(f"{name}.json").write_text(json.dumps(rules))
    words = "llama-3-8b --level layer --dim phase=decode --time-limit 5"
    assert mtpp(f"certify {words} --devices 1xA100,1xT4 --constraints on.json --out c.json") == 0
    document = json.loads(Path("c.json").read_text())
    assert document["answer"]["kind"][document["answer"]["block"][-1]] == "A100"
    assert mtpp("verify c.json --constraints on.json") == 0
    assert mtpp("verify c.json --constraints off.json") == 1
    capsys.readouterr()
    assert_misuse(
        capsys,
        {
            f"partition {words} --devices 1xA100,1xT4 --constraints none.json": "kind of devices 'B200'",
            f"partition {words} -k 2 --constraints on.json": "devices are alike",
        },
    )


def test_one_kind_keeps_its_rules() -> None:
    """It is the question of devices that are alike, windows and all; several kinds refuse some of that."""
    rules = Constraints(windows=((0, 0, 0),), at_least=((1, (0, 1, 2, 3)),))
    assert question(U1, devices([(1, 1, 3)]), constraints=rules).constraints == rules
    with pytest.raises(InputError, match="Least numbers"):
        question(U1, _OWN, constraints=rules)
    assert question(U1, _OWN, windows={"0": 0}).constraints == Constraints(windows=((0, 0, 0),))
    with pytest.raises(InputError, match="No block is left"):
        _placed(((0, 1, 1), (1, 0, 0)))


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


@pytest.mark.parametrize("model", ["simple", "bottleneck", "priced", "ideals", "exact"])
def test_bug_nodes_together_that_no_kind_can_run_are_impossible(model: str) -> None:
    """Each of them alone runs on some kind; a model said that its bound was infinite."""
    works = np.array([[1.0, np.inf, 2.0], [np.inf, 3.0, 1.0]])
    kinds = [Kind("a", 2, speed=1.0, bandwidth=1.0), Kind("b", 1, speed=1.0, bandwidth=2.0)]
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [1.0, 1.0, 1.0])
    asked = Instance(graph, Machines(kinds), works=works, constraints=Constraints(together=((0, 1),)))
    answer = solve(asked, model)
    assert answer.impossible == "does not fit: no kind of devices can run all nodes that share a block with node 1"
    assert answer.bound is None
