"""Methods take turns until the answer is proved or the time is up."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

import pytest

from instances import Instance, Partition, Platform
from instances.architectures import ARCHITECTURES
from instances.deadline import Deadline
from instances.random_graphs import regal_style
from mtpp.certifying.certify import Methods, certify, methods_for
from mtpp.certifying.loop import Loop, Turn
from mtpp_models import Progress, SolveOptions


@pytest.mark.parametrize("method", ["simple", "kahn", "pinned", "local-search", "pigeonhole", "coarse-2+all", "priced"])
def test_an_interrupt_is_never_forgotten(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C during any step ends the work and shows in the answer, which has a bound and a partition.

    The method has its first turn before others, which may take all the time there is on a busy machine.
    """
    instance = Instance(regal_style("erdos-renyi", 40, seed=1), Platform(k=10, bandwidth=1.0))
    reached = []

    def at_once(*given: Any) -> Methods:
        methods = methods_for(*given)
        return replace(methods, turns=sorted(methods.turns, key=lambda one: one.name != method))

    def interrupt(moment: Progress) -> None:
        if moment.case == method and not reached:
            reached.append(moment)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("mtpp.certifying.certify.methods_for", at_once)
    result = certify(instance, SolveOptions(time_limit=60.0), on_progress=interrupt)
    assert reached
    assert result.interrupted
    assert result.bound is not None
    assert result.partition is not None


def test_short_turns_end_where_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has said all that it can does not come again."""
    turns: list[Turn] = []
    instance = Instance(regal_style("erdos-renyi", 40, seed=1), Platform(k=10, bandwidth=1.0))
    loop: Loop[Instance, Partition] = Loop(instance, SolveOptions(), Deadline.after(1e6), [], on_step=turns.append)
    methods = methods_for(instance)
    monkeypatch.setattr("mtpp.certifying.loop._FIRST_TURN", 100.0)  # long before its half is over
    monkeypatch.setattr("mtpp.certifying.loop._MOST_SHORT", 1e6)
    loop.short_turns(methods.steps[::-1])
    assert [turn.method for turn in turns] == ["kahn", "simple"]
    monkeypatch.setattr("mtpp.certifying.loop._FIRST_TURN", 0.1)
    monkeypatch.setattr("mtpp.certifying.loop._MOST_SHORT", 0.3)
    loop.short_turns(methods.short[-1:])
    assert {turn.method for turn in turns[2:]} == {"local-search"}


def test_easy_questions_need_short_turns_alone() -> None:
    """A chain with branches is proved by its ideals, before any method has a turn of a second."""
    turns: list[Turn] = []
    graph = ARCHITECTURES["bert-base"].build()
    result = certify(Instance(graph, Platform(4, 25e9)), SolveOptions(time_limit=60.0), on_step=turns.append)
    methods = methods_for(result.instance)
    assert result.proved
    assert {turn.method for turn in turns} <= {one.name for one in (*methods.steps, *methods.opening, *methods.short)}
