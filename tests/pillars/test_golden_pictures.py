"""What the pictures show, in golden_pictures.json: every line, area, label and limit, as numbers and words.

``make golden`` writes them anew; look at the pictures before you commit it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from drawings import drawing
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from spp_runs import as_in_the_paper, asked, made_up

from experiments.studies.spp.jobs import training_frame
from experiments.studies.spp.tables import cells, plot_cells, plot_stages, plot_sweep
from heuristics.placement.rivals import heft
from heuristics.planning import PLANNERS
from instances import Bound, ComputationGraph, Instance, Partition, Platform, Result
from instances.devices import NetworkCards
from instances.machines import Machines
from instances.placement.networks import BANDWIDTH, PLACEMENT_FAMILIES
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.planning.chains import simulation
from instances.random_graphs import regal_style
from instances.results import Moment
from mtpp.plots.partitions import partition_figure, placement_figure, plot_partition, plot_rules
from mtpp.plots.plans import plan_figure
from mtpp.plots.profiles import plot_ratio_profile, plot_running_times, plot_trace

FILE = Path(__file__).with_name("golden_pictures.json")


def _partition(k: int, memory: float = np.inf) -> Partition:
    graph = regal_style("watts-strogatz", 12, seed=0)
    block = np.empty(12, dtype=int)
    block[graph.topological_order] = np.arange(12) * k // 12
    return Partition(Instance(graph, Platform(k, 1.0, memory=memory)), block)


def _prices() -> Axes:
    return plot_partition(_partition(3), values=np.arange(12) / 11, label="price [blocks]")


def _placement() -> Figure:
    graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)], [1, 2, 2, 1], [3, 3, 3, 0])
    return placement_figure(Placement(PlacementInstance(graph, Machines.alike(2, 3.0, memory=5.0)), [0, 0, 1, 0]))


def _step() -> Figure:
    question = PlacementInstance(PLACEMENT_FAMILIES["nmt"].graph(1), Machines.alike(3, BANDWIDTH))
    return placement_figure(heft(question, np.random.default_rng(0)))


def _plan(method: str, *, shared: bool = False) -> Figure:
    question = simulation(0, microbatches=4, servers=(1, 2), layers=4)
    iteration = PLANNERS[method].run(replace(question, network=NetworkCards()) if shared else question, _rng())
    return plan_figure(iteration, Bound(0.01, "z-split"))


def _progress() -> Figure:
    rows = [("simple", 0.1, 0.1, None, 2e-3), ("kahn", 0.1, 0.2, 8e-3, 2e-3), ("priced", 1.0, 4.0, 6e-3, 4e-3)]
    names = ("method", "began", "seconds", "cost", "bound")
    moments = [Moment(cpu_seconds=0.0, **dict(zip(names, row, strict=True))) for row in rows]  # type: ignore[arg-type]
    graph = ComputationGraph.from_edges([(0, 1)], work=[1, 1], output_bytes=[1, 0], time_unit="s")
    question = Instance(graph, Platform(2, 1.0))
    return plot_trace(Result("certify", question, bound=Bound(4e-3, "simple"), moments=tuple(moments)))


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _sweep(figure: str) -> Axes:
    everything = asked()
    return plot_sweep(training_frame(everything, made_up(everything)), figure)


def _stages() -> Axes:
    everything = asked()
    return plot_stages(training_frame(everything, made_up(everything)))


PICTURES: dict[str, Callable[[], Figure | Axes]] = {
    "partition": lambda: partition_figure(_partition(3), Bound(400.0, "exact")),
    "partition, little memory": lambda: partition_figure(_partition(4, memory=100.0)),
    "prices": _prices,
    "running times": lambda: plot_running_times({"simple": [0.0, 0.001], "exact": [1.0, 10.0, 100.0]}),
    "ratios": lambda: plot_ratio_profile({"kahn": [1.0, 1.5, np.nan, 1.2], "mla": [1.1, 1.0]}),
    "ratios, large": lambda: plot_ratio_profile({"kahn": [1.0, 1.5, 7.0]}),
    "placement": _placement,
    "step": _step,
    "plan, spp": lambda: _plan("spp"),
    "plan, gpipe": lambda: _plan("gpipe"),
    "plan, hetpipe": lambda: _plan("hetpipe"),
    "plan, shared cards": lambda: _plan("improved", shared=True),
    "progress": _progress,
    "rules": lambda: plot_rules(["a", "b"], {"vllm": [1.1, None], "torchtitan": [1.0, 1.3]}, "time / least"),
    "training, sweep": lambda: _sweep("6"),
    "training, stages": _stages,
    "training, table": lambda: plot_cells(cells(training_frame(*as_in_the_paper(gpipe=2.0)))),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_what_it_showed(name: str) -> None:
    assert drawing(PICTURES[name]()) == json.loads(FILE.read_text())[name]


if __name__ == "__main__":
    golden = {name: drawing(make()) for name, make in PICTURES.items()}
    FILE.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")
