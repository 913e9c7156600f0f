"""Pictures show what the data says, and can be written in both formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from instances import Bound, ComputationGraph, Instance, Partition, Platform
from instances.random_graphs import regal_style
from mtpp.plots.partitions import partition_figure, plot_partition
from mtpp.plots.profiles import plot_intervals, plot_performance, plot_ratio_profile, plot_running_times
from mtpp.plots.report.partitions import stage_section
from mtpp.plots.sections import Bar, Chart, Row, Section
from mtpp.plots.style import draw, save_figure
from mtpp.text.numbers import Scale


def square(memory: float = np.inf, scale: float = 1.0) -> Partition:
    """Four nodes in two blocks of three; the block in the middle is empty."""
    edges = [(0, 1), (0, 2), (1, 3), (2, 3)]
    graph = ComputationGraph.from_edges(edges, np.array([1, 2, 3, 4]) * scale, [2, 1, 1, 0], [5, 5, 5, 5])
    return Partition(Instance(graph, Platform(3, bandwidth=1 / scale, memory=memory)), [0, 0, 2, 2])


def costs(partition: Partition, bound: Bound | None = None, ax: Axes | None = None) -> Axes:
    return draw(stage_section(partition, bound), ax)


def bars(ax: Axes) -> dict[str, list[tuple[float, float]]]:
    """Begin and end of the bars by their colour, as the legend explains it."""
    box = ax.get_legend()
    assert box is not None
    names = {to_hex(patch.get_facecolor()): str(patch.get_label()) for patch in box.get_patches()}
    (drawn,) = ax.collections
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names.values()}
    for path, fill in zip(drawn.get_paths(), drawn.get_facecolor(), strict=True):
        extent = path.get_extents()
        found[names[to_hex(fill)]].append((extent.x0, extent.x1))
    return found


def lengths(ax: Axes, label: str) -> list[float]:
    return [end - begin for begin, end in bars(ax)[label]]


def legend(ax: Axes) -> list[str]:
    box = ax.get_legend()
    assert box is not None
    return [text.get_text() for text in box.get_texts()]


def test_block_costs_are_the_costs_of_the_partition() -> None:
    """Each term of eq. (3) is a bar, side by side up to the block's cost, with bottleneck and bound as lines."""
    partition = square()
    ax = costs(partition, Bound(4.0, "exact"))
    assert lengths(ax, "work") == pytest.approx([3, 7])
    for term in ("send", "receive"):
        assert lengths(ax, term) == pytest.approx([time for time in getattr(partition.costs, term) if time])
    ends = sorted(end for sides in bars(ax).values() for _, end in sides)
    assert ends[-1] == pytest.approx(partition.bottleneck)
    assert {"bottleneck 10.00 s", "no cut is below 4.000 s"} <= set(legend(ax))
    assert [line.get_xdata()[0] for line in ax.get_lines()] == [10, 4]  # type: ignore[index]
    assert "overflow" not in legend(ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time [s]", "stage")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "2"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1], "the first stage is at the top"


def test_overflow_is_shown_with_finite_memory() -> None:
    """Overflow has its own bar if there is any."""
    partition = square(memory=6)
    assert lengths(costs(partition), "overflow") == pytest.approx([time for time in partition.costs.overflow if time])


@pytest.mark.parametrize(("scale", "unit"), [(1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (1.0, "s")])
def test_short_times_have_readable_units(scale: float, unit: str) -> None:
    """The bottleneck is 10 in the unit of the axis."""
    ax = costs(square(scale=scale))
    assert ax.get_xlabel() == f"time [{unit}]"
    assert ax.get_xlim() == pytest.approx((0, 10), abs=0.1)


def test_later_microbatches_have_stronger_colours_and_numbers() -> None:
    """What has a label says so where there is room; a kind keeps its hue."""
    rows = [Row("0", [Bar(m, m + 1, "forward", "", label=str(m), shade=(m + 1) / 4) for m in range(4)])]
    ax = draw(Section("", chart=Chart(rows, Scale("s", 1.0, 0), "stage", kinds={"forward": "forward"})))
    darkness = [sum(fill[:3]) for fill in ax.collections[0].get_facecolor().tolist()]
    assert darkness == sorted(darkness, reverse=True)
    assert len(set(darkness)) == 4
    assert [text.get_text() for text in ax.texts] == ["0", "1", "2", "3"]


def test_blocks_are_drawn_side_by_side() -> None:
    """Every edge points to the right, nodes have the colour of their block, and small graphs have names."""
    partition = square()
    ax = plot_partition(partition)
    nodes = next(c for c in ax.collections if len(c.get_offsets()) == 4)  # type: ignore[arg-type]
    x = np.asarray(nodes.get_offsets())[:, 0]
    assert all(x[u] < x[v] for u, v in partition.instance.graph.edges)
    colours = np.asarray(nodes.get_facecolor())
    assert (colours[0] == colours[1]).all()
    assert (colours[0] != colours[2]).any()
    assert {"0", "1", "2", "3"} <= {text.get_text() for text in ax.texts}


def test_nodes_are_coloured_by_numbers() -> None:
    """Equal numbers have equal colours, whatever the blocks, and a colour bar says what they are."""
    ax = plot_partition(square(), values=[0.5, 0.0, 0.5, 1.0], label="price [blocks]")
    nodes = next(c for c in ax.collections if len(c.get_offsets()) == 4)  # type: ignore[arg-type]
    nodes.update_scalarmappable()
    colours = np.asarray(nodes.get_facecolor())
    assert (colours[0] == colours[2]).all()
    assert (colours[0] != colours[1]).any()
    assert nodes.colorbar is not None
    assert nodes.colorbar.ax.get_ylabel() == "price [blocks]"


def test_large_graphs_have_no_names_and_labels_do_not_overlap() -> None:
    """At n = 200 and k = 64 only some blocks are numbered, apart from each other."""
    graph = regal_style("watts-strogatz", 200, 1)
    block = np.empty(200, dtype=int)
    block[graph.topological_order] = np.arange(200) * 64 // 200
    ax = plot_partition(Partition(Instance(graph, Platform(64, 1.0)), block))
    positions = [text.get_position()[0] for text in ax.texts]
    assert 5 < len(positions) <= 31
    assert min(np.diff(positions)) > (ax.get_xlim()[1] - ax.get_xlim()[0]) / 35


@pytest.mark.parametrize(
    "partition",
    [
        Partition(Instance(ComputationGraph.from_edges([], [0.0]), Platform(1, 1.0)), [0]),
        Partition(Instance(ComputationGraph.from_edges([], [1.0, 2.0, 0.0]), Platform(12, 1.0)), [0, 5, 11]),
        square(),
    ],
    ids=["one node", "no edges", "square"],
)
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_pictures_of_partitions_can_be_written(partition: Partition, suffix: str, tmp_path: Path) -> None:
    """Both pictures in one file."""
    path = tmp_path / f"partition.{suffix}"
    save_figure(partition_figure(partition, Bound(0.0, "simple")), path)
    assert path.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml")


def test_running_times_have_a_row_per_method() -> None:
    """The axis is logarithmic, and a time of 0 does not break it."""
    ax = plot_running_times({"simple": [0.0, 0.001], "exact": [1.0, 10.0, 100.0]})
    assert ax.get_xscale() == "log"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["simple", "exact"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1], "the first method is at the top"


def test_ratio_profile_counts_missing_partitions() -> None:
    """A step at each ratio; what is missing is never reached."""
    ax = plot_ratio_profile({"kahn": [1.0, 1.5, np.nan, 1.2]})
    line = ax.get_lines()[0]
    assert np.asarray(line.get_xdata())[:4].tolist() == [1.0, 1.0, 1.2, 1.5]
    assert np.asarray(line.get_ydata())[:4].tolist() == [0, 0.25, 0.5, 0.75]
    assert np.asarray(line.get_ydata()).max() == 0.75


def test_two_outliers_do_not_waste_the_width() -> None:
    """The axis ends near the other 298, and says how many are beyond."""
    ratios = [*np.linspace(1, 1.3, 298), 7.0, 9.0]
    ax = plot_ratio_profile({"kahn": ratios})
    assert 1.3 < ax.get_xlim()[1] < 1.4
    assert ax.get_xlabel() == "bottleneck over best bound (2 of 300 beyond, up to 9)"
    assert max(np.asarray(ax.get_lines()[0].get_ydata())) == pytest.approx(298 / 300)
    assert plot_ratio_profile({"kahn": [1.0, 1.1, 1.2]}).get_xlim()[1] > 1.2


def test_performance_is_relative_to_the_best() -> None:
    """A is the best but for a tie; B fails once."""
    ax = plot_performance({"A": [1, 2, 4], "B": [2, 2, np.inf]})
    shares = {line.get_label(): np.asarray(line.get_ydata()).tolist() for line in ax.get_lines()}
    assert shares["A"] == pytest.approx([0, 1 / 3, 2 / 3, 1, 1])
    assert shares["B"] == pytest.approx([0, 1 / 3, 2 / 3, 2 / 3])


def test_intervals_are_bars_beside_the_values_of_the_paper() -> None:
    rows = [("a", "k=2", 1.2, 1.1, 1.4, 1.3), ("b", "k=2", 1.5, np.nan, np.nan, 1.6)]
    ax = plot_intervals(pd.DataFrame(rows, columns=["row", "column", "value", "low", "high", "theirs"]), "ratio")
    segments = ax.containers[0].lines[2][0].get_segments()  # type: ignore[attr-defined]
    assert [segment[:, 0].tolist() for segment in segments] == [pytest.approx([1.1, 1.4]), pytest.approx([1.5, 1.5])]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert "the paper" in legend(ax)


def test_axes_are_used_and_returned() -> None:
    """Given Axes are drawn on; no picture is kept anywhere."""
    ax = Figure().add_subplot()
    assert costs(square(), ax=ax) is ax
    assert plot_partition(square(), ax=ax) is ax
    assert plot_running_times({"a": [1.0]}, ax=ax) is ax
    assert plot_ratio_profile({"a": [1.0]}, ax=ax) is ax
    assert pyplot.get_fignums() == []
