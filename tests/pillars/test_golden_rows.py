"""The rows of every model on small questions, in golden_rows.json: of each family how many, and sums of coefficients.

A row that is too weak shows in no optimum, only in the time of a solver. ``make golden`` writes them anew; check a
difference against the equations in the docstring of the model.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from heuristics.orders.slicing import slice_order
from heuristics.placement.rivals import heft
from heuristics.planning.spp import recursive_device_order
from instances import ComputationGraph, Instance, Platform
from instances.deadline import Deadline
from instances.machines import Machines
from instances.placement.networks import BANDWIDTH, PLACEMENT_FAMILIES, group_nodes
from instances.placement.placement import OrderedPlacement
from instances.placement.problem import PlacementInstance
from instances.planning.bounds import speeds_along
from instances.planning.chains import simulation
from mtpp_models import MODELS
from mtpp_models.exchange.files import builders
from mtpp_models.placement.bounds import heads_of, share_devices
from mtpp_models.placement.exact import exact
from mtpp_models.placement.scaled_placement import ScaledPlacement
from mtpp_models.planning.models import FORMS, ScaledTraining
from mtpp_models.registry import Algorithm
from mtpp_models.solvers.modeling import pyo

FILE = Path(__file__).with_name("golden_rows.json")


def _partitioning(name: str) -> list[pyo.ConcreteModel]:
    edges = [(0, 1), (0, 2), (0, 4), (1, 3), (1, 5), (2, 3), (2, 6), (3, 6), (4, 5), (5, 7), (6, 7)]
    graph = ComputationGraph.from_edges(
        edges, [4, 2, 7, 1, 8, 2, 8, 1], [3, 1, 4, 1, 5, 9, 2, 0], [6, 5, 3, 5, 8, 9, 7, 9]
    )
    instance = Instance(graph, Platform(3, 2.0, memory=20.0))
    start = slice_order(instance, graph.topological_order)
    return [make().model for make in builders(instance, name, start).values()]


def _planning(form: str) -> list[pyo.ConcreteModel]:
    instance = replace(simulation(0, servers=(2, 1), microbatches=4, layers=3), memory=1.2e9)
    speeds = speeds_along(instance.cluster, recursive_device_order(instance.cluster))
    return [FORMS[form].build(ScaledTraining(instance, speeds, 1.0, 10.0))]


def _placement(broadcast: bool) -> list[pyo.ConcreteModel]:
    graph = group_nodes(PLACEMENT_FAMILIES["ptb"].graph(8000), 8).graph
    instance = PlacementInstance(
        graph, Machines.alike(3, BANDWIDTH), node_gap=1e-4, transfer_gap=2e-4, broadcast=broadcast
    )
    start = OrderedPlacement.of(heft(instance, np.random.default_rng(0)))
    return [exact(ScaledPlacement(start, share_devices(heads_of(instance), 1.5 * start.step_time, Deadline())))]


_FORMULATIONS = [name for name, model in MODELS.items() if not isinstance(model, Algorithm)]
BUILT: dict[str, Callable[[], list[pyo.ConcreteModel]]] = {
    **{name: lambda name=name: _partitioning(name) for name in _FORMULATIONS},  # type: ignore[misc]
    **{form: lambda form=form: _planning(form) for form in FORMS},  # type: ignore[misc]
    "place-exact": lambda: _placement(broadcast=False),
    "place-exact, broadcast": lambda: _placement(broadcast=True),
}


def rows(models: list[pyo.ConcreteModel]) -> dict[str, list[float]]:
    """Of each family: rows, coefficients, and the sums of coefficients, of their squares, and of both sides."""
    from pyomo.repn import generate_standard_repn

    found: dict[str, list[float]] = {}
    for family in (family for model in models for family in model.component_objects(pyo.Constraint, active=True)):
        repns = [(row, generate_standard_repn(row.body)) for row in family.values()]
        coefficients = np.array([float(c) for _, repn in repns for c in repn.linear_coefs])
        sides = [pyo.value(s) - repn.constant for row, repn in repns for s in (row.lower, row.upper) if s is not None]
        sums = [float(coefficients.sum()), float((coefficients**2).sum()), float(sum(sides))]
        before = found.get(family.name, [0] * 5)
        found[family.name] = [x + y for x, y in zip(before, [len(repns), len(coefficients), *sums], strict=True)]
    return found


@pytest.mark.parametrize("name", BUILT)
def test_a_model_keeps_its_rows(name: str) -> None:
    golden, found = json.loads(FILE.read_text())[name], rows(BUILT[name]())
    assert found.keys() == golden.keys()
    for family, numbers in found.items():
        assert numbers == pytest.approx(golden[family], rel=1e-6, abs=1e-9), family


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: rows(make()) for name, make in BUILT.items()}, indent=1) + "\n")
