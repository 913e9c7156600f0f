"""The picture of the trace of a run."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import PolyCollection

import mtpp
from instances import Bound, ComputationGraph, InputError, Instance, Partition, Platform, Result
from instances.results import Moment
from mtpp.plots.profiles import plot_trace

GRAPH = ComputationGraph.from_edges([(0, 1)], work=[5e-3, 1e-3], output_bytes=[0, 0], time_unit="s")
QUESTION = Instance(GRAPH, Platform(2, 1.0))


def moment(method: str, began: float, seconds: float, cost: float | None, bound: float | None) -> Moment:
    return Moment(method=method, began=began, seconds=seconds, cpu_seconds=seconds, cost=cost, bound=bound)


MOMENTS = (
    moment("simple", 0.1, 0.1, None, 2e-3),
    moment("kahn", 0.1, 0.2, 8e-3, 2e-3),
    moment("priced", 1.0, 2.0, 8e-3, 3e-3),
    moment("priced", 1.0, 4.0, 6e-3, 4e-3),
    moment("kahn", 2.5, 4.5, 5e-3, 4e-3),
)
RESULT = Result("certify", QUESTION, Partition(QUESTION, [0, 1]), Bound(4e-3, "simple"), moments=MOMENTS)


def test_both_bounds_over_time() -> None:
    """In a unit that fits, from where each is known, with what they are at the end."""
    above, _ = plot_trace(RESULT).axes
    upper, lower = above.lines
    assert np.array(upper.get_xydata()).tolist() == pytest.approx(np.array([[0.2, 8], [2, 8], [4, 6], [4.5, 5]]))
    assert np.array(lower.get_xydata()).tolist() == pytest.approx(
        np.array([[0.1, 2], [0.2, 2], [2, 3], [4, 4], [4.5, 4]])
    )
    assert upper.get_drawstyle() == lower.get_drawstyle() == "steps-post"
    assert above.get_ylabel() == "time of a block [ms]"
    assert str(upper.get_label()) == "best bottleneck, 5.000 ms"
    assert str(lower.get_label()) == "best bound, 4.000 ms (simple)"
    assert above.get_title(loc="left") == "ratio 1.2500 after 4.5 s"


def test_a_row_for_each_method() -> None:
    """Turns that overlap lie side by side; the shortest can be seen, and gains within a turn do not cut it."""
    _, below = plot_trace(RESULT).axes
    assert [label.get_text() for label in below.get_yticklabels()] == ["simple", "kahn", "priced"]
    assert below.get_xlabel() == "time since the begin [s]"
    rows = [bars for bars in below.collections if isinstance(bars, PolyCollection)]
    assert [len(bars.get_paths()) for bars in rows] == [1, 2, 1]
    for bars in rows:
        for path in bars.get_paths():
            assert np.ptp(path.vertices[:, 0]) > 0
    assert rows[2].get_paths()[0].vertices[:, 0].max() == pytest.approx(4.0)


def test_one_turn_without_an_answer() -> None:
    """Where nothing is known nothing is drawn."""
    above, _ = plot_trace(Result("kahn", QUESTION, moments=(moment("kahn", 0.0, 0.0, None, None),))).axes
    assert len(above.lines) == 0
    assert above.get_title(loc="left") == ""


def test_a_run_is_drawn_and_a_file_is_not() -> None:
    result = mtpp.certify(GRAPH, 2, bandwidth=1)
    assert len(mtpp.plot_trace(result).axes) == 2
    with pytest.raises(InputError, match="no trace"):
        plot_trace(Result("kahn", QUESTION, Partition(QUESTION, [0, 1])))
