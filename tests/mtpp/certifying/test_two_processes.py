"""Search and proofs in two processes: they hear of each other, and nothing is left of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mtpp.certifying.certify as side_by_side
from heuristics import Limits, search
from instances import Bound, FalseCertificateError, Instance, Partition, Platform, Result
from instances.deadline import Deadline
from instances.random_graphs import regal_style
from instances.system import processes
from mtpp.certifying.certify import certify
from mtpp.certifying.loop import Loop, Turn
from mtpp_models import Progress, SolveOptions, simple
from mtpp_models.solvers.interface import SolverFaultError, SolverNotAvailableError

BOTH = SolveOptions(time_limit=30.0, threads=2)


def question(n: int = 40, k: int = 10) -> Instance:
    return Instance(regal_style("erdos-renyi", n, seed=1), Platform(k=k, bandwidth=1.0))


def children() -> set[int]:
    """Processes of this one that are no zombies."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {int(pid) for pid in found if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"}


def test_two_processes_prove_what_one_proves() -> None:
    """The optimum, with steps of both, in the order of time."""
    instance, steps = question(16, 3), list[Turn]()
    before = children()
    result = certify(instance, BOTH, on_step=steps.append)
    assert all(part.instance is instance for part in result.parts)
    alone = certify(instance, SolveOptions(time_limit=30.0))
    assert result.proved
    assert alone.cost is not None
    assert result.cost == pytest.approx(alone.cost)
    assert children() == before
    assert [turn.end for turn in steps] == sorted(turn.end for turn in steps)
    bottlenecks = [turn.bottleneck for turn in steps if turn.bottleneck is not None]
    bounds = [turn.bound for turn in steps if turn.bound is not None]
    assert bottlenecks == sorted(bottlenecks, reverse=True)
    assert bounds == sorted(bounds)


def test_both_take_part() -> None:
    """What the search finds and what the proofs say is in the answer and in the progress."""
    steps, moments = list[str](), list[Progress]()
    result = certify(
        question(), SolveOptions(time_limit=3.0, threads=2), on_step=lambda turn: steps.append(turn.method),
        on_progress=moments.append,
    )  # fmt: skip
    assert {"simple", "kahn", "portfolio", "pinned"} <= set(steps)
    assert {"portfolio", "pinned"} <= {moment.case for moment in moments}
    assert result.bound is not None
    assert result.cost is not None
    assert simple(question()) <= result.bound.value <= result.cost


@pytest.mark.parametrize("method", ["simple", "kahn", "pinned", "portfolio", "pigeonhole", "priced"])
def test_an_interrupt_ends_both(method: str) -> None:
    """Ctrl-C at any step: an answer with bound and partition, and no process is left."""
    reached, before = list[Progress](), children()

    def interrupt(moment: Progress) -> None:
        if moment.case == method and not reached:
            reached.append(moment)
            signal.raise_signal(signal.SIGINT)

    result = certify(question(), SolveOptions(time_limit=10.0, threads=2), on_progress=interrupt)
    assert reached
    assert result.interrupted
    assert result.bound is not None
    assert result.partition is not None
    assert children() == before


def test_a_second_interrupt_leaves_nothing_behind() -> None:
    """It raises, as ever, and both processes end."""
    before = children()

    def interrupt(moment: Progress) -> None:
        if moment.case == "portfolio":
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        certify(question(), SolveOptions(time_limit=10.0, threads=2), on_progress=interrupt)
    assert children() == before


def test_the_work_ends_once_enough_is_known() -> None:
    """A bottleneck that is good enough, or the proof that there is none, ends both."""
    instance = question()
    known = certify(instance, SolveOptions(time_limit=1.0))
    assert known.cost is not None
    assert known.bound is not None
    for good_enough in (2 * known.cost, known.bound.value / 2):
        steps = list[Turn]()
        certify(instance, BOTH, start=known.partition, good_enough=good_enough, on_step=steps.append)
        assert "portfolio" not in {turn.method for turn in steps}


def test_one_hears_what_the_other_found() -> None:
    """A better partition and a better bound are taken over, what is no better is not."""
    instance = question()
    start = search(instance, "kahn", np.random.default_rng(0)).partition
    better = search(instance, "portfolio", np.random.default_rng(0), Limits(evaluations=500_000)).partition
    assert start is not None
    assert better is not None
    assert better.bottleneck < start.bottleneck
    mine = [Result("kahn", instance, start), Result("simple", instance, None, Bound(simple(instance), "simple"))]
    for said, taken in ((mine[0], 0), (Result("portfolio", instance, better), 1), (mine[1], 0)):
        here, there = multiprocessing.Pipe()
        here.send(said)
        answers = list(mine)
        side_by_side._ask(there, instance, answers)
        assert here.recv() is not None
        assert len(answers) == len(mine) + taken
        assert all(answer.instance is instance for answer in answers)
        assert all(answer.partition is None or answer.partition.instance is instance for answer in answers)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SolverFaultError("highs", "failed"), SolverNotAvailableError),
        (FalseCertificateError("a bug"), FalseCertificateError),
        (type("Local", (Exception,), {})("a word"), RuntimeError),
    ],
)
def test_errors_travel_with_their_words(error: Exception, kind: type[Exception]) -> None:
    """Those that cannot be sent arrive as another kind."""
    sent = side_by_side._portable(error)
    assert isinstance(sent, kind)
    assert str(error) in str(sent)


def test_an_error_in_one_of_them_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """A false certificate in the other process is no less false."""

    def lie(*_: Any, **__: Any) -> Partition:
        raise FalseCertificateError("a bound exceeds a bottleneck")

    monkeypatch.setattr("mtpp.certifying.certify.solve", lie)
    known = search(question(), "kahn", np.random.default_rng(0))
    before = children()
    with pytest.raises(FalseCertificateError, match="exceeds"):
        certify(question(), BOTH, start=known.partition)
    assert children() == before


def test_a_process_that_may_have_no_children_climbs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As do other systems than Linux, where copies of a process may hang."""
    assert side_by_side.can_split()
    monkeypatch.setattr(multiprocessing.current_process(), "_config", {"daemon": True})
    assert not side_by_side.can_split()
    assert certify(question(16, 3), BOTH).proved


def test_a_bound_that_the_other_contradicts_is_dropped_as_it_is_heard() -> None:
    """A solver's wrong bound, and a partition below it that another process has found meanwhile."""
    instance, faults = question(), list[SolverNotAvailableError]()
    found = search(instance, "kahn", np.random.default_rng(0))
    assert found.cost is not None
    wrong = Result("exact", instance, None, Bound(2 * found.cost, "exact"), solver="one that lies")
    loop: Loop[Instance, Partition] = Loop(
        instance, BOTH, Deadline.after(60.0), [wrong], on_fault=faults.append,
        before_step=lambda: loop.answers.append(found) if found not in loop.answers else None,
    )  # fmt: skip
    assert not loop.is_over()
    assert loop.best.bound is None
    assert len(faults) == 1
    assert "one that lies" in str(faults[0])


def test_a_process_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other goes on alone; who reads the answer learns that something is missing."""

    def die(*_: Any, **__: Any) -> Partition:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    known, faults, before = search(question(), "kahn", np.random.default_rng(0)), list[str](), children()
    monkeypatch.setattr("mtpp.certifying.certify._work", die)
    result = certify(question(), BOTH, start=known.partition, on_fault=lambda fault: faults.append(str(fault)))
    assert result.bound is not None
    assert len(faults) == 2
    assert all("exit code -9" in fault for fault in faults)
    assert children() == before


def test_a_process_that_cannot_begin_leaves_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems limit the number of processes."""
    begun, before, start = list[Any](), children(), ForkProcess.start

    def refuse(process: ForkProcess) -> None:
        begun.append(process)
        if len(begun) == 2:
            raise BlockingIOError("no more processes")
        start(process)

    monkeypatch.setattr(ForkProcess, "start", refuse)
    with pytest.raises(BlockingIOError, match="no more processes"):
        certify(question(), BOTH)
    assert children() == before


def test_a_program_of_a_solver_ends_before_its_process_is_killed() -> None:
    """Else nobody is left to end it."""
    assert side_by_side._GRACE > processes.GRACE
