"""The picture of the steps of `mtpp certify`."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import PolyCollection

from mtpp.certifying.loop import Turn
from mtpp.plots.profiles import plot_progress


def turn(method: str, seconds: float, end: float, bottleneck: float | None, bound: float | None) -> Turn:
    return Turn(method=method, seconds=seconds, end=end, bottleneck=bottleneck, bound=bound, by=bound and "simple")


STEPS = [
    turn("simple", 0.0, 0.1, None, 2e-3),
    turn("kahn", 0.1, 0.2, 8e-3, 2e-3),
    turn("priced", 3.0, 4.0, 6e-3, 4e-3),
    turn("kahn", 2.0, 4.5, 5e-3, 4e-3),
]


def test_both_bounds_over_time() -> None:
    """In a unit that fits, from where each is known, with what they are at the end."""
    above, _ = plot_progress(STEPS, "s").axes
    upper, lower = above.lines
    assert np.array(upper.get_xydata()).tolist() == pytest.approx(np.array([[0.2, 8], [4, 6], [4.5, 5]]))
    assert np.array(lower.get_xydata()).tolist() == pytest.approx(np.array([[0.1, 2], [0.2, 2], [4, 4], [4.5, 4]]))
    assert upper.get_drawstyle() == lower.get_drawstyle() == "steps-post"
    assert above.get_ylabel() == "time of a block [ms]"
    assert str(upper.get_label()) == "best bottleneck, 5.000 ms"
    assert str(lower.get_label()) == "best bound, 4.000 ms (simple)"
    assert above.get_title(loc="left") == "ratio 1.2500 after 4.5 s"


def test_a_row_for_each_method() -> None:
    """Turns that overlap lie side by side; the shortest can be seen."""
    _, below = plot_progress(STEPS, "s").axes
    assert [label.get_text() for label in below.get_yticklabels()] == ["simple", "kahn", "priced"]
    assert below.get_xlabel() == "time since the begin [s]"
    rows = [bars for bars in below.collections if isinstance(bars, PolyCollection)]
    assert [len(bars.get_paths()) for bars in rows] == [1, 2, 1]
    for bars in rows:
        for path in bars.get_paths():
            assert np.ptp(path.vertices[:, 0]) > 0
    assert rows[2].get_paths()[0].vertices[:, 0].max() == pytest.approx(4.0)


def test_one_step_without_an_answer() -> None:
    """Where nothing is known nothing is drawn."""
    above, _ = plot_progress([turn("kahn", 0.0, 0.0, None, None)], "unit").axes
    assert len(above.lines) == 0
    assert above.get_title(loc="left") == ""
