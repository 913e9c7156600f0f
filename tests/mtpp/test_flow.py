"""Flows: golden values, brute force, files and the command line."""

from __future__ import annotations

import copy
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import assert_impossible, assert_misuse, columns, mtpp
from flow_oracle import FlowCase, draw_flow, draw_sparse_flow, largest_flow
from hunt_flow import faults_of_flow, faults_of_solution, flow_instance_of

import mtpp as api
from instances import InputError, Result
from instances.deadline import Deadline
from instances.flow.answer import FlowAnswer
from instances.flow.problem import question_from_members, read_flow_question
from instances.json_files import json_text, parse_json, read_json
from mtpp.problems.checking import certificate_document, verify
from mtpp_models.flow.bounds import bound_flow, shared_layers
from mtpp_models.flow.enumeration import enumerate_flows
from mtpp_models.flow.weights import exclude

Links = dict[tuple[str, str], float]


def document(layers: int, kinds: list[tuple[int, dict[int, float]]], links: Links | None = None) -> dict[str, Any]:
    """A question; devices are numbered over all kinds, and links that are not named carry 1000."""
    first, own = 0, []
    for count, row in kinds:
        capacity = {str(c): rate for c, rate in row.items()}
        own.append({"devices": list(range(first, first + count)), "capacity_by_layers": capacity})
        first += count
    names = [*map(str, range(first)), "source", "sink"]
    rows = [
        [u, v, (links or {}).get((u, v), 1000.0)]
        for u in names
        for v in names
        if u not in (v, "sink") and v != "source" and (u, v) != ("source", "sink")
    ]
    return {"format": "mtpp-flow-question/1", "name": "golden", "layers": layers, "kinds": own, "links": rows}


def between(names: str, rate: float) -> Links:
    return {(u, v): rate for u in names for v in names}


GOLDEN: dict[str, tuple[dict[str, Any], float, float, float]] = {
    # the flow, and the bounds by shared layers and by patterns or prices
    "two and one": (document(4, [(2, {1: 12, 2: 5}), (1, {1: 6, 2: 2, 3: 1})]), 5, 6.5, 5),
    "contiguity": (document(3, [(3, {1: 10, 2: 6})]), 10, 12, 11.25),
    "a link": (document(4, [(2, {1: 12, 2: 8})], between("01", 3)), 3, 8, 3),
    "mixed links": (
        document(3, [(1, {1: 12, 2: 8}), (2, {1: 7, 2: 4})], between("01", 3) | between("02", 3) | between("12", 1000)),
        7,
        32 / 3,
        8,
    ),
    "a star": (document(3, [(1, {1: 3}), (3, {1: 10})], between("123", 0)), 3, 11, 3),
}


@pytest.fixture
def question(tmp_path: Path) -> Any:
    def write(name: str) -> Path:
        file = tmp_path / "question.json"
        file.write_text(json.dumps(GOLDEN[name][0]))
        return file

    return write


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_flows_and_bounds(name: str, question: Any) -> None:
    """By trying all intervals; the bounds by hand."""
    _, flow, shared, patterns = GOLDEN[name]
    result = api.flow(question(name), time_limit=2.0)
    assert result.answer is not None
    assert result.bound is not None
    assert result.answer.flow == pytest.approx(flow)
    assert shared_layers(result.instance) <= shared * (1 + 1e-6)
    least = min(1 / bound.bound.value for bound in bound_flow(result.instance, result.answer) if bound.bound)
    assert least == pytest.approx(patterns, rel=3e-3)
    assert 1 / result.bound.value >= flow * (1 - 1e-9)


def test_no_bound_is_below_brute_force() -> None:
    """A short hunt; `python tests/helpers/hunt_flow.py` is the long one."""
    for i in range(15):
        case = draw_flow(random.Random(f"tests {i}"))
        assert faults_of_flow(case) == [], case


def test_small_questions_are_solved() -> None:
    """Up to five devices and four layers, with few links and many, and with limits on the devices of a path."""
    for i in range(25):
        case = draw_sparse_flow(random.Random(f"solved {i}"))
        assert faults_of_solution(case, longest_path=(None, 1, 2, 3)[i % 4]) == [], case


def test_bug_pipelines_side_by_side_were_missed() -> None:
    """One device after another beside a third that holds all layers: stages in a row let half of that pass."""
    links = {("source", "0"): 10, ("0", "1"): 10, ("1", "sink"): 10, ("source", "2"): 10, ("2", "sink"): 10}
    case = FlowCase(2, [0, 0, 1], [{1: 10}, {1: 10, 2: 10}], links)
    assert largest_flow(case) == 20
    assert faults_of_solution(case) == []


def test_layers_that_no_request_passes_are_said_to_be_none() -> None:
    """Links lead through devices of which none holds the last layer at the sink."""
    links = {("source", "0"): 10, ("0", "1"): 10, ("1", "sink"): 10, ("source", "1"): 10}
    case = FlowCase(4, [0, 1], [{3: 1}, {3: 1}], links)
    result = api.flow(flow_instance_of(case), time_limit=2.0)
    assert result.impossible == "whatever layers the devices hold, no request passes"


def test_bug_an_exclusion_ends_when_time_is_up(question: Any) -> None:
    """Many kinds with many numbers of layers each took a multiple of the time limit."""
    instance = read_flow_question(question("mixed links"))
    assert exclude(instance, 100.0, Deadline()) is not None
    assert exclude(instance, 100.0, Deadline.after(0.0)) is None


def test_the_flow_of_given_intervals(question: Any) -> None:
    """Who ends at a layer feeds who begins there, as far as links carry."""
    instance = read_flow_question(question("mixed links"))
    assert FlowAnswer(instance, [[0, 1], [1, 3], [1, 3]]).flow == 6
    assert FlowAnswer(instance, [[0, 0], [0, 1], [1, 3]]).flow == 4
    assert FlowAnswer(instance, [[0, 3], [0, 1], [1, 3]]).flow == 4


def test_bug_devices_that_just_hold_all_layers_are_no_lower_bound() -> None:
    """Both sides of the bound by shared layers are then the same for many flows, and rounding must not decide."""
    capacity = {1: 8, 2: 7, 3: 5}
    links = {(u, v): 100 for u in ("0", "1", "source") for v in ("0", "1", "sink") if u != v and u + v != "sourcesink"}
    case = FlowCase(6, [0, 0], [capacity], links)
    assert largest_flow(case) == 5
    assert shared_layers(flow_instance_of(case)) >= 5
    assert faults_of_flow(case) == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flow")
    instance = question_from_members(parse_json(json.dumps(GOLDEN["a link"][0]), "link.json"), ("format",))
    answer = FlowAnswer(instance, [[0, 2], [2, 4]])
    enumerated = enumerate_flows(instance, 1000, answer)
    assert enumerated is not None
    results = [Result("annealing", instance, answer), *bound_flow(instance, answer), enumerated]
    (folder / "c.json").write_text(json_text(certificate_document(results)))
    return folder / "c.json"


def test_verify_proves_it(certificate: Path) -> None:
    """Flow and bounds, with exact numbers."""
    verdict = verify(read_json(certificate))
    assert verdict.faults == ()
    assert 1 <= float(verdict.proved_ratio or 0) < 1.001
    assert all(check.proved is not None for check in verdict.checks)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["answer", "flow"], 3.1),
        (["cost"], 0.3),
        (["bounds", 0, "value"], 0.2),
        (["bounds", 1, "value"], 0.34),
        (["bounds", 2, "value"], 0.3333334),
        (["bounds", 1, "parameters", "weights", 0], [0.1]),
        (["bounds", 1, "parameters", "weights"], []),
        (["bounds", 1, "parameters", "second"], 3.0),
        (["answer", "intervals", "0"], [0, 9]),
        (["answer", "intervals", "0"], [0, 1]),
    ],
)
def test_forgeries_are_found(certificate: Path, path: list[Any], value: Any, tmp_path: Path) -> None:
    """Each number that is changed."""
    forged = copy.deepcopy(json.loads(certificate.read_text()))
    place = forged
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    file = tmp_path / "forged.json"
    file.write_text(json.dumps(forged))
    assert verify(read_json(file)).faults


@pytest.fixture(scope="module")
def priced() -> dict[str, Any]:
    """A certificate where links let half of that pass which layers and ends do; names are not in the order of kinds."""
    links = {("source", "0"): 10, ("source", "1"): 10, ("0", "2"): 3, ("1", "2"): 2, ("2", "sink"): 10}
    instance = flow_instance_of(FlowCase(2, [1, 0, 0], [{1: 10}, {1: 10}], links))
    answer = FlowAnswer(instance, [[0, 1], [0, 1], [1, 2]])
    written: dict[str, Any] = json.loads(json_text(certificate_document([answer_of(answer), *bound_flow(instance)])))
    verdict = verify(parse_json(json.dumps(written), "priced.json"))
    assert verdict.faults == ()
    assert float(verdict.proved_ratio or 0) < 1.003
    return written


def answer_of(answer: FlowAnswer) -> Result[Any, Any]:
    return Result("annealing", answer.instance, answer)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("value", 0.21),
        ("devices", [["0", 100.0]]),
        ("devices", [["0", -1.0]]),
        ("links", []),
        ("links", [["0", "2", 1.0]]),
        ("links", [["0", "2", 1.0], ["1", "2", 0.5]]),
    ],
)
def test_forged_prices_are_found(priced: dict[str, Any], member: str, value: Any) -> None:
    """Prices that some way does not pay, and such below 0."""
    written = copy.deepcopy(priced)
    (claim,) = (claim for claim in written["bounds"] if claim["method"] == "prices")
    (claim if member == "value" else claim["parameters"])[member] = value
    assert verify(parse_json(json.dumps(written), "priced.json")).faults


def _with_links(written: dict[str, Any], links: list[Any], devices: list[Any] | None = None) -> Any:
    """A certificate with these prices."""
    changed = copy.deepcopy(written)
    (claim,) = (claim for claim in changed["bounds"] if claim["method"] == "prices")
    claim["parameters"] = {"devices": [] if devices is None else devices, "links": links}
    return parse_json(json.dumps(changed), "priced.json")


def test_prices_of_links_wherever_they_are_used_are_proved_too(priced: dict[str, Any]) -> None:
    """As files have them that versions before wrote."""
    assert verify(_with_links(priced, [["0", "2", 1.0], ["1", "2", 1.0]])).faults == ()


@pytest.mark.parametrize(
    ("links", "devices", "told"),
    [
        ([["0", "2", 1, 1.0, 0.0], ["1", "2", 1, 1.0, 0.0]], [], "is less than what its links cost"),
        ([["0", "2", 1, 0.0, 1.0]], [["2", 3.0]], "no less than"),
        ([["source", "0", 0, 1.0, 0.0], ["source", "1", 0, 1.0, 0.0]], [], "no less than"),
        ([["2", "sink", 2, 0.0, 1.0]], [], "no less than"),
        ([["0", "2", 1, -1.0, 5.0]], [["0", 9.0], ["2", 9.0]], "below 0"),
    ],
)
def test_what_ends_of_links_ask_is_paid_by_devices(
    priced: dict[str, Any], links: list[Any], devices: list[Any], told: str
) -> None:
    assert any(told in fault for fault in verify(_with_links(priced, links, devices)).faults)
    with pytest.raises(InputError, match="expected 0 to 2 layers that are done"):
        verify(_with_links(priced, [["0", "2", 3, 1.0, 1.0]]))


def test_bounds_of_small_questions_are_close_without_an_enumeration() -> None:
    """The geometric mean over those of up to five devices and four layers, beside the best of all intervals."""
    excess = []
    for i in range(40):
        case = draw_sparse_flow(random.Random(f"close {i}"))
        question, largest = flow_instance_of(case), float(largest_flow(case))
        if largest > 0:
            found = enumerate_flows(question, 1_000_000)
            assert found is not None
            least = max(bound.bound.value for bound in bound_flow(question, found.answer) if bound.bound)
            assert least <= 1 / largest
            excess.append(math.log(1 / least / largest))
    assert math.exp(sum(excess) / len(excess)) < 1.06


def test_prices_of_what_is_none_are_one_line(priced: dict[str, Any]) -> None:
    """A device that there is not, and a row that is too short."""
    for rows in ([["7", 1.0]], [["0"]]):
        written = copy.deepcopy(priced)
        (claim,) = (claim for claim in written["bounds"] if claim["method"] == "prices")
        claim["parameters"]["devices"] = rows
        with pytest.raises(InputError, match="expected a device, or two ends of a link, and a price"):
            verify(parse_json(json.dumps(written), "priced.json"))


@pytest.fixture(scope="module")
def star() -> dict[str, Any]:
    """A certificate where all links touch one device."""
    instance = question_from_members(parse_json(json.dumps(GOLDEN["a star"][0]), "star.json"), ("format",))
    answer = FlowAnswer(instance, [[1, 2], [0, 1], [2, 3], [0, 0]])
    results = [Result("annealing", instance, answer), *bound_flow(instance, answer)]
    written: dict[str, Any] = json.loads(json_text(certificate_document(results)))
    assert verify(parse_json(json.dumps(written), "star.json")).faults == ()
    return written


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("value", 0.34),
        ("hubs", []),
        ("hubs", ["1"]),
        ("weights", []),
        ("weights", [[0.1], [0.0]] * 4),
        ("weights", [[-1.0], [0.0]] * 4),
        ("weights", [[1.0, 1.0], [1.0]] * 4),
    ],
)
def test_forged_hubs_are_found(star: dict[str, Any], member: str, value: Any) -> None:
    """Links that touch none of them, weights that say nothing, and a flow that passes."""
    written = copy.deepcopy(star)
    (claim,) = (claim for claim in written["bounds"] if claim["method"] == "patterns-with-hubs")
    (claim if member == "value" else claim["parameters"])[member] = value
    assert verify(parse_json(json.dumps(written), "star.json")).faults


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer, its picture and its file."""
    monkeypatch.chdir(tmp_path)
    Path("q.json").write_text(json.dumps(GOLDEN["two and one"][0]))
    assert mtpp("flow q.json --time-limit 2 --out c.json --plot c.png") == 0
    assert columns(capsys.readouterr().out)["flow [requests/s]"] == "5"
    assert mtpp("verify c.json") == 0
    assert Path("c.png").stat().st_size > 0
    capsys.readouterr()
    assert mtpp("flow q.json --time-limit 1 --json") == 0
    assert json.loads(capsys.readouterr().out)["answer"]["flow"] == pytest.approx(5.0)


def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown devices in links, links twice, capacities of more layers than there are, no path."""
    monkeypatch.chdir(tmp_path)
    plain = GOLDEN["a link"][0]
    changes: dict[str, dict[str, Any]] = {
        "unknown": {"links": [["source", "7", 1.0]]},
        "twice": {"links": [["source", 0, 1.0], ["source", 0, 2.0]]},
        "layers": {"layers": 1},
        "many": {"layers": 10**9},
        "negative": {"links": [["source", 0, -1.0]]},
    }
    for name, change in changes.items():
        Path(f"{name}.json").write_text(json.dumps(plain | change))
    assert_misuse(
        capsys,
        {
            "flow unknown.json": "a link ends at 7",
            "flow twice.json": "is given twice",
            "flow layers.json": "a capacity for 2 layers of 1",
            "flow many.json": "give 1 to 4096",
            "flow negative.json": "negative",
            "flow absent.json": "there is no such file",
        },
    )
    impossible: dict[str, tuple[dict[str, Any], str]] = {
        "apart": ({"links": [["source", 0, 1.0], [1, "sink", 1.0]]}, "no path of links leads"),
        "long": ({"layers": 80}, "all devices that requests can reach hold 4 layers together, and there are 80"),
        "small": ({"kinds": [{"devices": [0, 1], "capacity_by_layers": {}}]}, "no device can hold a layer"),
    }
    for name, (change, why) in impossible.items():
        Path(f"{name}.json").write_text(json.dumps(plain | change))
        assert_impossible(capsys, f"flow {name}.json", why)


def test_same_seed_same_answer(question: Any) -> None:
    """A search that no clock ends."""
    from heuristics import Limits
    from heuristics.flow.search import search_flow

    instance = read_flow_question(question("mixed links"))
    found = [search_flow(instance, np.random.default_rng(5), Limits(evaluations=5000)).answer for _ in range(2)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].interval.tolist() == found[1].interval.tolist()


def test_bug_links_without_a_limit_hid_small_flows() -> None:
    """What counts as nothing was a part of the largest link, and no request passed."""
    slow = [{"devices": [0, 1], "capacity_by_layers": {"1": 3e-5, "2": 2e-5}}]
    links = [["source", 0, 1e9], [0, 1, 1e9], [1, "sink", 1e9]]
    written = {"name": "slow", "layers": 4, "kinds": slow, "links": links}
    instance = question_from_members(parse_json(json.dumps(written), "slow.json"))
    assert FlowAnswer(instance, [[0, 2], [2, 4]]).flow == pytest.approx(2e-5)


def test_bug_numbers_whose_sums_overflow_are_refused(tmp_path: Path) -> None:
    """Warnings and a false bound were the answer."""
    for number in (1e308, 1e-308):
        kinds = [{"devices": [0, 1], "capacity_by_layers": {"1": number, "2": number}}]
        (tmp_path / "q.json").write_text(json.dumps(GOLDEN["a link"][0] | {"kinds": kinds}))
        with pytest.raises(InputError, match="from 1e-30 to 1e"):
            read_flow_question(tmp_path / "q.json")


def test_what_devices_take_from_the_source_is_a_bound() -> None:
    """One device of the two is linked to it."""
    links = [["source", 0, 4.0], [0, "sink", 9.0], [1, "sink", 9.0]]
    kinds = [{"devices": [0, 1], "capacity_by_layers": {"1": 5.0}}]
    written = {"name": "ends", "layers": 1, "kinds": kinds, "links": links}
    instance = question_from_members(parse_json(json.dumps(written), "ends.json"))
    bounds = {result.method: 1 / result.bound.value for result in bound_flow(instance) if result.bound}
    assert bounds["ends"] == pytest.approx(4)
    assert bounds["shared-layers"] == pytest.approx(10)
