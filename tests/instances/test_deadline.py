"""Deadlines, and the clock that stands still while kernels are compiled."""

from __future__ import annotations

import threading
import time

import pytest

from instances.deadline import CLOCK, COMPILE, Deadline, Stopwatch, WorkClock
from instances.errors import InputError


def test_the_clock_stands_still_until_the_last_halt_is_taken_back() -> None:
    clock = WorkClock()
    clock.halt()
    before = clock.now()
    thread = threading.Thread(target=clock.halt)
    thread.start()
    thread.join()
    clock.resume()
    time.sleep(0.01)
    assert clock.now() == before
    clock.resume()
    still = clock.still
    assert still >= 0.01
    time.sleep(0.01)
    assert clock.now() > before
    assert clock.still == still


def test_deadlines_and_reported_times_leave_out_what_is_compiled() -> None:
    deadline, watch = Deadline.after(10.0), Stopwatch()
    half = deadline.share(0.5)
    CLOCK.halt()
    try:
        left, passed = deadline.left, watch.passed
        time.sleep(0.01)
        assert (deadline.left, watch.passed) == (left, passed)
        assert half.left < left
    finally:
        CLOCK.resume()
    seconds = watch.seconds(solve=1.0)
    assert seconds["solve"] == 1.0
    assert seconds[COMPILE] >= 0.01
    assert set(Stopwatch().seconds(solve=1.0)) == {"solve"}


def test_an_interrupt_passes_a_deadline_and_its_shares() -> None:
    deadline = Deadline()
    assert not deadline.share(0.5).passed
    deadline.interrupted.set()
    assert deadline.share(0.5).passed
    assert deadline.time_limit is None
    with pytest.raises(InputError):
        Deadline.after(-1.0)
