"""One run of a heuristic as a result."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from heuristics import HEURISTICS, Limits, search
from instances import InputError
from instances.deadline import Deadline
from instances.random_graphs import TOYS


@pytest.mark.parametrize("stopped", [False, True])
def test_a_result_is_the_run_of_the_heuristic_and_tells_of_an_interrupt(stopped: bool) -> None:
    instance, _ = TOYS["heavy-and-light"]()
    event = threading.Event()
    if stopped:
        event.set()
    limits = Limits(Deadline(interrupted=event))
    result = search(instance, "brkga-100", np.random.default_rng(0), limits)
    run = HEURISTICS["brkga-100"].run(instance, np.random.default_rng(0), limits)
    assert result.partition is not None
    assert result.partition.block.tolist() == run.block.tolist()
    assert (result.method, result.bound, result.interrupted) == ("brkga-100", None, stopped)


def test_an_unknown_heuristic_is_refused() -> None:
    with pytest.raises(InputError, match="no heuristic 'khan'; did you mean kahn"):
        search(TOYS["chain"]()[0], "khan", np.random.default_rng(0))
