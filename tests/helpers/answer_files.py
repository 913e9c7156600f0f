"""True files of a plan and of a placement, with question, cost and bounds."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from certificates import Document, hashed, plain

from instances import Bound, ComputationGraph, Result, SharedParameter
from instances.json_files import Value
from instances.machines import Machines
from instances.placement.placement import OrderedPlacement, Placement
from instances.placement.problem import PlacementInstance
from instances.planning import Cluster, Iteration, LayerChain, TrainingInstance
from mtpp.certifying.methods import PlanResult, certify_plan
from mtpp.problems.checking import certificate_document, verify
from mtpp.verification.verdict import Verdict
from mtpp_models.planning.solve import bounds_of_plan

THREE = Machines.alike(3, 2.0)


def plan_file(planner: str = "spp", **options: Any) -> Document:
    """The file of `plan_result`."""
    return plain(certificate_document([plan_result(planner, **options)]))


def covered_plan_file(name: str, iteration: Iteration) -> Document:
    """The file of a plan that is there, with all bounds that hold for it."""
    bounds: list[Bound | None] = [*bounds_of_plan(iteration)]
    results = [PlanResult(name, iteration.instance, iteration, bound) for bound in bounds or [None]]
    return plain(certificate_document(results))


def plan_result(planner: str = "spp", **options: Any) -> PlanResult:
    """Of five layers on two servers of two devices; in each planner's answer every transfer takes time."""
    chain = LayerChain(
        forward=[1.1, 2.3, 1.7, 2.9, 1.3],
        backward=[2.2, 4.1, 3.7, 5.9, 2.7],
        forward_bytes=[4, 3, 2, 5],
        backward_bytes=[3, 4, 5, 2],
        param_bytes=[6, 7, 8, 9, 5],
        name="five",
    )
    instance = TrainingInstance(chain, Cluster.of_servers([2, 2], 2.0, 1.0, "pairs"), 4, **options)
    return certify_plan(instance, np.random.default_rng(0), planner)


def placement_file(ordered: bool = False, machines: Machines = THREE, **options: Any) -> Document:
    """The file of `placement_result`."""
    return plain(certificate_document([placement_result(ordered, machines, **options)]))


def placement_result(
    ordered: bool = False, machines: Machines = THREE, **options: Any
) -> Result[PlacementInstance, Placement]:
    """Of six nodes on three devices, two of which have to wait for one bus; with an order the other one goes first."""
    graph = ComputationGraph.from_edges(
        [(0, 1), (1, 2, 0), (1, 3, 1), (2, 4), (3, 4), (4, 5)],
        [4.2, 2.6, 1.7, 1.8, 4.8, 4.8],
        [[4.1], [2.0, 0.3], [4.4], [1.7], [2.3], [3.5]],
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        parameters=(SharedParameter("table", 2.0, (0, 4)),),
        name="six",
    )
    instance = PlacementInstance(graph, machines, **options)
    placement = Placement(instance, [0, 0, 1, 2, 1, 0])
    if ordered:
        read_off = OrderedPlacement.of(placement)
        buses = [list(reversed(read_off.bus_order[0])), *read_off.bus_order[1:]]
        placement = OrderedPlacement(instance, placement.device, read_off.device_order, buses)
    return placed(placement)


def placed(placement: Placement) -> Result[PlacementInstance, Placement]:
    """The placement with its simple bound."""
    bound = Bound(placement.instance.lower_bound, "simple", optimal=False)
    return Result("by hand", placement.instance, placement, bound)


def check(document: Document, **options: Any) -> Verdict:
    """The second opinion on a file, as it is read back."""
    return verify(Value(json.loads(json.dumps(hashed(document))), "c.json"), **options)
