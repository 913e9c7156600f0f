"""The ladder of methods that certify climbs."""

from __future__ import annotations

import signal

import pytest

import experiments.certificates.ladder as ladder
from experiments import certify
from experiments.certificates.arms import Arm
from instances import Instance, Platform
from instances.random_graphs import regal_style
from mtpp_models import Progress, SolveOptions


@pytest.mark.parametrize("method", ["simple", "kahn", "pinned", "local-search", "pigeonhole", "coarse-2+all", "priced"])
def test_an_interrupt_is_never_forgotten(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C during any step ends the work and shows in the answer, which has a bound and a partition.

    The method has its first turn before others, which may take all the time there is on a busy machine.
    """
    instance = Instance(regal_style("erdos-renyi", 40, seed=1), Platform(k=10, bandwidth=1.0))
    reached, arms_of = [], ladder.arms_of

    def at_once(question: Instance) -> list[Arm]:
        return sorted(arms_of(question), key=lambda arm: arm.method != method)

    def interrupt(moment: Progress) -> None:
        if moment.case == method and not reached:
            reached.append(moment)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ladder, "arms_of", at_once)
    result = certify(instance, SolveOptions(time_limit=60.0), on_progress=interrupt)
    assert reached
    assert result.interrupted
    assert result.bound is not None
    assert result.partition is not None
