"""Hunts: what is planted is found and made small, what is true passes; brute force agrees with that of the tests."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from brute_force import optimum
from command_line import mtpp as run_verb

import mtpp
from instances import InputError
from mtpp.runs.hunting import drawn, partitions

OWN = '''
from instances import Bound, Partition, Result
from mtpp_models import Algorithm


def bound(name, value, kinds="one"):
    def run(start, controls):
        return Result(name, start.instance, None, Bound(value(start.instance), name, False))

    return Algorithm(name, "", "", run, kinds=kinds)


HEAVIEST = bound("heaviest", lambda q: float(q.graph.work.max()))
EVEN = bound("even", lambda q: q.graph.work.sum() / q.k + q.graph.tensors.bytes.sum() / q.platform.bandwidth)
SHARED = bound("shared", lambda q: q.graph.work.sum() / q.k, kinds="any")  # as if all devices had the speed 1
NOTHING = bound("nothing", lambda q: float("nan"))


def two(start, controls):
    """The function of a bound, without its algorithm."""


def cut(instance, rng, limits=None):
    """The first nodes in one block, the others in the last, whatever the rules say."""
    order = instance.graph.topological_order
    block = [0] * instance.graph.n
    for v in order[len(order) // 2 :]:
        block[v] = instance.k - 1
    return Partition(instance, block)


CALLS = []


def moody(instance, rng, limits=None):
    CALLS.append(1)
    return Partition(instance, [0 if len(CALLS) % 2 else instance.k - 1] * instance.graph.n)


def one_block(instance, rng, limits=None):
    return Partition(instance, instance.rules.first)


def crashes(instance, rng, limits=None):
    raise RuntimeError("in two\\nlines")
'''


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(OWN)
    return str(tmp_path / "own.py")


def test_a_true_bound_passes_and_a_false_one_is_found_and_made_small(file: str, tmp_path: Path) -> None:
    assert mtpp.hunt(f"{file}:HEAVIEST", seconds=3).counterexample is None
    hunt = mtpp.hunt(f"{file}:EVEN", seconds=60, seed=1, out=tmp_path / "out")
    case = hunt.counterexample
    assert case is not None
    assert "above the optimum" in case.complaint or "exceeds the bottleneck" in case.complaint
    assert case.instance.graph.n <= 3
    graph, answer = sorted((tmp_path / "out").iterdir(), key=lambda path: "answer" in path.name)
    read = mtpp.read(answer)
    assert read.instance.key == case.instance.key
    assert read.cost == case.optimum.bottleneck == pytest.approx(optimum(case.instance))
    assert mtpp.load(graph).n == case.instance.graph.n
    value = case.instance.graph.work.sum() / case.instance.k
    value += case.instance.graph.tensors.bytes.sum() / case.instance.platform.bandwidth
    assert value > read.cost


def test_what_holds_for_alike_devices_alone_is_found_over_kinds(file: str) -> None:
    case = mtpp.hunt(f"{file}:SHARED", seconds=60, seed=1).counterexample
    assert case is not None
    assert case.instance.kinds > 1
    assert case.instance.graph.n == 1


def test_a_search_without_kinds_of_blocks_has_no_answer_over_kinds(file: str) -> None:
    hunt = mtpp.hunt(f"{file}:one_block", seconds=5, seed=1)
    assert hunt.asked["kinds"] >= hunt.refused["kinds"] > 0  # in a fixed order they follow
    assert hunt.asked["plain"] > hunt.refused["plain"] == 0


def test_questions_over_kinds_have_all_that_kinds_may_have() -> None:
    cases = [drawn(random.Random(number), 5, kinds=True) for number in range(200)]
    assert {case.feature for case in cases} == {"kinds"}
    seen = [case for case in cases if case.order == "fixed"], [case for case in cases if case.rates is not None]
    seen += [case for case in cases if case.rules.on], [case for case in cases if case.rules.windows]
    assert all(len(found) > 10 for found in seen)
    assert len({kind.memory for case in cases for kind in case.kinds}) > 100
    assert len({kind.bandwidth for case in cases for kind in case.kinds}) > 3


COMPLAINTS = {
    "NOTHING": "nothing claims the bound nan",
    "cut": "InputError: ",  # a rule is broken
    "moody": "two answers",
    "crashes": "RuntimeError: in two lines",
}


@pytest.mark.parametrize(("name", "complaint"), COMPLAINTS.items())
def test_each_kind_of_fault_is_one_line(file: str, name: str, complaint: str) -> None:
    case = mtpp.hunt(f"{file}:{name}", seconds=60, seed=2).counterexample
    assert case is not None
    assert complaint in case.complaint
    assert "\n" not in case.complaint


def test_bug_nothing_was_wrong_where_nothing_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_verb("hunt kahn --seconds 1e-320") == 6
    assert capsys.readouterr().out == "kahn: no question was asked in this time; give more --seconds\n"


def test_the_verb_says_what_is_wrong_and_writes_it(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verb = f"hunt {file}:EVEN,kahn --seconds 8 --seed 1 --out {tmp_path}/out"
    assert run_verb(verb) == 1
    shown = capsys.readouterr().out
    assert "WRONG: " in shown
    assert "kahn: " in shown
    assert "nothing is wrong" in shown
    assert len(list((tmp_path / "out").iterdir())) == 2


@pytest.mark.parametrize(
    ("method", "words", "message"),
    [
        ("khan", {}, "Unknown method 'khan'"),
        ("{}:EVIL", {}, "There is no method 'EVIL'"),
        ("{}", {}, "name a method in it"),
        ("{}:two", {}, "two is a function, which searches, but does not take instance"),
        ("kahn", {"seconds": 0}, "seconds=0: give more than 0 and at most 1,000,000 seconds"),
        ("kahn", {"seconds": float("nan")}, "seconds=nan: give more than 0"),
        ("kahn", {"seconds": 1e308}, "give more than 0 and at most 1,000,000 seconds"),
    ],
)
def test_wrong_words_are_refused(file: str, method: str, words: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        mtpp.hunt(method.format(file), **words)


def test_brute_force_agrees_with_that_of_the_tests() -> None:
    """Over alike devices, with what does not fit left out there as here."""
    compared = 0
    for number in range(60):
        case = drawn(random.Random(number), number, kinds=False)
        try:
            instance = case.instance()
        except InputError:
            continue
        least = min((partition.bottleneck for partition in partitions(instance)), default=float("inf"))
        assert least <= optimum(instance) * (1 + 1e-12)
        if not instance.needs_peaks:
            assert least == pytest.approx(optimum(instance), rel=1e-12)
            compared += 1
    assert compared > 30


def test_the_same_seed_draws_the_same_questions() -> None:
    def draw() -> list[str]:
        return [repr(drawn(random.Random(f"7 {number}"), number, kinds=True)) for number in range(30)]

    assert draw() == draw()
