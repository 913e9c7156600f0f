"""Plans and placements of strangers: what is true passes, each false number is named, nothing crashes or hangs."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answer_files import check, placement_file, plan_file
from certificates import Document
from forging import forgeries, places, write
from hypothesis import HealthCheck, given, settings
from placement_oracle import table

from instances import InputError
from instances.machines import Machines
from instances.placement.placement import OrderedPlacement, Placement
from instances.placement.problem import StatedPlacement
from instances.planning import Plan
from instances.planning.stated import StatedPlan
from mtpp.cli.main import main
from mtpp.problems.checking import rerun
from mtpp.verification.verdict import Verdict

PLANS = (plan_file(), plan_file("gpipe", full_duplex=True), plan_file("pipedream", memory=200.0))
UNEQUAL = table([1.0, 0.7, 3.0], [30.0, 40.0, 20.0], [[1.0, 0.3, 2.0], [1.7, 1.0, 2.0], [1.1, 1.3, 1.0]])
PLACEMENTS = (
    placement_file(),
    placement_file(machines=Machines.alike(3, 2.0, 20.0), node_gap=0.25, transfer_gap=0.125),
    placement_file(broadcast=True),
    placement_file(ordered=True, machines=Machines.alike(3, 2.0, 20.0), node_gap=0.25, transfer_gap=0.125),
    placement_file(ordered=True, machines=UNEQUAL),
    placement_file(machines=UNEQUAL, broadcast=True),
)

#: What no check can know: what a method took, whether it ran to its end, and which version of what it was.
UNKNOWN = re.compile(r"provenance|bounds\.\d+\.(parameters|provenance)")


def settle(document: Document) -> None:
    """What a careful forger does: make the sums fit."""
    cost = document["cost"]
    document["bound"] = max(bound["value"] for bound in document["bounds"])
    document["ratio"] = max(1.0, cost / document["bound"])


@pytest.mark.parametrize("original", [*PLANS, *PLACEMENTS])
def test_each_number_that_is_changed_is_found(original: Document) -> None:
    """All numbers of the file but those of its question, which say what is asked, and those that nobody can check."""
    changed = 0
    for path in places(original):
        *parents, last = path
        place: Any = original
        for key in parents:
            place = place[key]
        name = ".".join(map(str, path))
        number = isinstance(place[last], int | float) and not isinstance(place[last], bool)
        if not number or path[0] == "question" or UNKNOWN.match(name):
            continue
        for factor in (1 + 1e-6, 1 - 1e-6):
            forged = copy.deepcopy(original)
            place = forged
            for key in parents:
                place = place[key]
            place[last] = (
                place[last] + (1 if factor > 1 else -1) if isinstance(place[last], int) else place[last] * factor
            )
            if place[last] == 0.0 or (name.endswith("value") and factor < 1):  # a weaker bound is a bound as well
                continue
            changed += 1
            faults = check(forged).faults
            assert faults, name
            assert all("\n" not in fault for fault in faults)
    assert changed > 20


def holds_if_accepted(forged: Document, holds: Callable[[Verdict], None]) -> None:
    """It is refused, found false, or what it says is true."""
    try:
        verdict = check(forged, time_limit=2.0)
    except InputError:
        return
    if not verdict.faults:
        holds(verdict)


forging = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def is_no_faster_than_its_plan(verdict: Verdict) -> None:
    stated = verdict.certificate
    assert isinstance(stated, StatedPlan)
    plan = Plan(stated.instance, stated.cuts, stated.devices)
    assert float(verdict.cost) >= plan.lower_bound * (1 - 1e-9)
    assert stated.cost == pytest.approx(float(verdict.cost), rel=1e-9)


@forging
@given(forged=forgeries(PLANS, settle))
def test_no_false_plan_passes(forged: Document) -> None:
    """What is left without fault is a plan whose time is no less than any schedule of it takes."""
    holds_if_accepted(forged, is_no_faster_than_its_plan)


def takes_as_long_as_its_placement(verdict: Verdict) -> None:
    stated = verdict.certificate
    assert isinstance(stated, StatedPlacement)
    placement = Placement(stated.instance, stated.device)
    if stated.device_order is not None and stated.bus_order is not None:
        placement = OrderedPlacement(stated.instance, stated.device, stated.device_order, stated.bus_order)
    assert float(verdict.cost) == pytest.approx(placement.step_time, rel=1e-9)
    assert (verdict.proved_bound or 0) <= verdict.cost
    assert stated.peak_memory == pytest.approx(placement.peak_memory.tolist(), rel=1e-9)


@forging
@given(forged=forgeries(PLACEMENTS, settle))
def test_no_false_placement_passes(forged: Document) -> None:
    """What is left without fault takes as long as the definition says, and no less than its bound."""
    holds_if_accepted(forged, takes_as_long_as_its_placement)


Forgery = Callable[[Document], None]


def missing_link(document: Document) -> None:
    document["question"]["cluster"]["bandwidth"] = [[0.0] * 4] * 4


def other_times(document: Document) -> None:
    document["question"]["chain"]["layers"][0]["forward"] *= 1.5


def less_memory(document: Document) -> None:
    document["question"]["memory"] = 5.0


def backward_first(document: Document) -> None:
    orders = document["answer"]["operations"]["stages"]
    orders[0] = orders[0][::-1]


def fewer_operations(document: Document) -> None:
    document["answer"]["operations"]["stages"][0] = "fb"


def a_device_twice(document: Document) -> None:
    document["answer"]["devices"][0][0] = document["answer"]["devices"][-1][-1]


def many_microbatches(document: Document) -> None:
    document["question"]["microbatches"] = 10_000
    document["answer"]["operations"]["stages"] = ["f" * 10_000 + "b" * 10_000] * len(document["answer"]["devices"])
    document["answer"]["operations"]["channels"] = ["fb" * 10_000] * (len(document["answer"]["devices"]) - 1)


def bound_above_the_time(document: Document) -> None:
    document["bounds"][0]["value"] = document["bound"] = 1.01 * document["cost"]
    document["ratio"] = 1.0


def bound_of_another_problem(document: Document) -> None:
    document["bounds"][0]["method"] = "exact"


def no_time(document: Document) -> None:
    document["cost"] = None


def huge_devices(document: Document) -> None:
    document["question"]["cluster"] |= {"servers": [10**9], "within": 1.0, "between": 1.0}
    del document["question"]["cluster"]["bandwidth"]


def assert_told(forged: Document, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1 is false, 2 is refused, each in lines that name the file."""
    assert main(["verify", write(tmp_path, forged), "--time-limit", "5"]) == code
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all("c.json" in line for line in lines)


@pytest.mark.parametrize(
    ("forge", "code"),
    [
        (missing_link, 1),
        (other_times, 1),
        (less_memory, 1),
        (backward_first, 1),
        (fewer_operations, 1),
        (a_device_twice, 1),
        (many_microbatches, 1),
        (bound_above_the_time, 1),
        (bound_of_another_problem, 2),
        (no_time, 1),
        (huge_devices, 2),
    ],
)
def test_named_forgeries_of_plans(
    forge: Forgery, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 is false, 2 is refused, each in lines that name the file."""
    forged = plan_file("gpipe")
    forge(forged)
    assert_told(forged, code, tmp_path, capsys)


def later_first(document: Document) -> None:
    document["answer"]["sequence"].reverse()


def not_first_ready(document: Document) -> None:
    """Two sources: the one that is ready later runs first."""
    graph = {"format": "mtpp-graph/1", "nodes": [{"work": 1.0}] * 3, "edges": [[0, 2]]}
    document["question"]["graph"] = graph
    document["answer"] |= {"device": [0, 1, 1], "sequence": [0, 2, 1]}


def a_device_too_many(document: Document) -> None:
    document["answer"]["device"][0] = 3


def stronger_bound(document: Document) -> None:
    document["bounds"][0]["value"] = document["bound"] = document["cost"]
    document["ratio"] = 1.0


def solver_of_a_bound(document: Document) -> None:
    stronger_bound(document)
    document["bounds"][0] |= {"provenance": {"solver": "highs"}, "method": "exact"}


def faster_bus(document: Document) -> None:
    document["question"]["machines"]["kinds"][0]["bandwidth"] = 1e300


@pytest.mark.parametrize(
    ("forge", "code"),
    [
        (later_first, 1),
        (not_first_ready, 1),
        (a_device_too_many, 1),
        (stronger_bound, 1),
        (solver_of_a_bound, 2),
        (faster_bus, 1),
    ],
)
def test_named_forgeries_of_placements(
    forge: Forgery, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = placement_file()
    forge(forged)
    assert_told(forged, code, tmp_path, capsys)


def test_the_bound_of_a_plan_is_trusted_until_it_is_run_again(tmp_path: Path) -> None:
    """A true one is confirmed, one above what the program says is false, though no plan contradicts it."""
    assert main(["verify", write(tmp_path, PLANS[0])]) == 4
    assert main(["verify", write(tmp_path, PLANS[0]), "--rerun"]) == 0
    forged = plan_file("gpipe")
    forged["bounds"][0]["value"] *= 1.0001
    settle(forged)
    assert check(forged).faults == ()
    assert "is claimed, the program says" in rerun(check(forged), time_limit=10.0).faults[0]


def test_a_placement_is_proved_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its bound too; what does not fit into memory says so."""
    assert main(["verify", write(tmp_path, PLACEMENTS[0])]) == 0
    assert re.search(r"^placement +feasible, step time [\d.]+ s, computed anew$", capsys.readouterr().out, re.M)
    assert main(["verify", write(tmp_path, placement_file(machines=Machines.alike(3, 2.0, 2.0)))]) == 0
    assert "more than the memory of a device, step time" in capsys.readouterr().out
