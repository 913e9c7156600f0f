"""Questions of placement for the hunter, and what their bounds and searches are held against."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from placement_oracle import best_ordered, random_question, table

from heuristics import Limits
from heuristics.placement import search_placement
from instances import ComputationGraph
from instances.json_files import Value
from instances.machines import Machines
from instances.placement.placement import OrderedPlacement, Placement
from instances.placement.problem import PlacementInstance
from instances.results import PROOF_TOLERANCE, Result
from mtpp.certifying.methods import answered, placement_methods
from mtpp.problems.checking import certificate_document, verify
from mtpp_models import SolveOptions
from mtpp_models.placement.registry import bound_placement

__all__ = ["PlacementCase", "placement_checks", "random_placement_case"]

# What rounding may take of a time; nodes up to which brute force enumerates devices and orders.
_CLOSE, _MOST_NODES = 1e-9, 4
_BOUNDS = ("heads", "windows", "energetic", "colocation", "place-exact")


@dataclass(frozen=True)
class PlacementCase:
    """A question as plain lists; see `PlacementInstance`."""

    edges: list[list[int]]  # node, node that reads it, output
    work: list[float]
    outputs: list[list[float]]
    k: int
    bandwidth: float
    gaps: list[float]
    broadcast: bool
    speeds: list[float] | None
    rates: list[list[float]] | None
    seed: int = 0

    def build(self) -> PlacementInstance:
        """The same for the project."""
        machines = Machines.alike(self.k, self.bandwidth)
        if self.speeds is not None and self.rates is not None:
            machines = table(self.speeds, [math.inf] * self.k, self.rates)
        graph = ComputationGraph.from_edges([tuple(edge) for edge in self.edges], self.work, self.outputs)
        node_gap, transfer_gap = self.gaps
        return PlacementInstance(
            graph, machines, node_gap=node_gap, transfer_gap=transfer_gap, broadcast=self.broadcast
        )

    def smaller(self) -> Iterator[PlacementCase]:
        """The same with an edge or what is unusual less, or plainer numbers."""
        for i in range(len(self.edges)):
            yield dataclasses.replace(self, edges=_less(self.edges, i))
        for v in range(len(self.work) if len(self.work) > 1 else 0):
            kept = [[u - (u > v), w - (w > v), o] for u, w, o in self.edges if v not in (u, w)]
            fewer: dict[str, Any] = {name: _less(getattr(self, name), v) for name in ("work", "outputs")}
            yield dataclasses.replace(self, edges=kept, **fewer)
        if self.speeds is not None:
            yield dataclasses.replace(self, speeds=None, rates=None)
        elif self.k > 1:
            yield dataclasses.replace(self, k=self.k - 1)
        if self.broadcast:
            yield dataclasses.replace(self, broadcast=False)
        if any(self.gaps):
            yield dataclasses.replace(self, gaps=[0.0, 0.0])
        for v, work in enumerate(self.work):
            if work not in (0.0, 1.0):
                yield dataclasses.replace(self, work=[*self.work[:v], 1.0, *self.work[v + 1 :]])


def random_placement_case(r: random.Random) -> PlacementCase:
    """Ties, zeros, several outputs, gaps, broadcast, unequal devices."""
    seed = r.randrange(2**32)
    question = random_question(np.random.default_rng(seed), _MOST_NODES)
    graph, machines = question.graph, question.machines
    tensors = [np.flatnonzero(graph.tensors.producer == v).tolist() for v in range(graph.n)]
    output = {t: i for of in tensors for i, t in enumerate(of)}
    ends = zip(graph.edges.tolist(), graph.edge_tensor.tolist(), strict=True)
    return PlacementCase(
        edges=[[u, v, output[t]] for (u, v), t in ends],
        work=graph.work.tolist(),
        outputs=[graph.tensors.bytes[of].tolist() for of in tensors],
        k=question.devices,
        bandwidth=question.bandwidth,
        gaps=[question.node_gap, question.transfer_gap],
        broadcast=question.broadcast,
        speeds=None if machines.rates is None else question.speeds.tolist(),
        rates=None if machines.rates is None else [list(row) for row in machines.rates],
        seed=seed,
    )


def _less(values: list[Any], i: int) -> list[Any]:
    return [*values[:i], *values[i + 1 :]]


def _start(instance: PlacementInstance, seed: int) -> OrderedPlacement:
    device = np.random.default_rng(seed).integers(instance.devices, size=instance.graph.n)
    return OrderedPlacement.of(Placement(instance, device))


def _checked(result: Result[PlacementInstance, Placement], best: float) -> float:
    """By how much a bound exceeds the optimum, which no answer may be below."""
    assert result.answer is not None
    assert result.bound is not None
    assert result.answer.step_time >= best * (1 - _CLOSE), f"{result.answer.step_time!r} is below {best!r}"
    assert result.bound.value <= best * (1 + _CLOSE), f"the bound {result.bound.value!r} exceeds {best!r}"
    if result.bound.optimal:
        assert result.answer.step_time <= best * (1 + 3 * PROOF_TOLERANCE), f"{result.answer.step_time!r} is no optimum"
    return result.bound.value / best - 1 if best > 0 else 0.0


def _bound(model: str, solver: str) -> Callable[[PlacementCase], float]:
    def check(case: PlacementCase) -> float:
        instance = case.build()
        options = SolveOptions(solver=solver, time_limit=None)
        return _checked(bound_placement(_start(instance, case.seed), model, options), best_ordered(instance).time)

    return check


def _certificate(solver: str) -> Callable[[PlacementCase], float]:
    """The search, all bounds, and the file that says so, which separate code accepts."""

    def check(case: PlacementCase) -> float:
        instance = case.build()
        result = search_placement(instance, "ordered", np.random.default_rng(case.seed), Limits(evaluations=200))
        assert result.answer is not None
        options, faults = SolveOptions(solver=solver, time_limit=10.0), list[Exception]()
        methods = placement_methods(result.instance, lambda limits, tell: result)
        answers = answered(result.instance, methods, options, on_fault=faults.append).parts
        best = best_ordered(instance).time
        excess = max(_checked(answer, best) for answer in answers)
        document = json.loads(json.dumps(certificate_document(answers)))
        said = verify(Value(document, "certificate")).faults
        assert not said, f"the certificate is refused: {said[0]}"
        return excess

    return check


def placement_checks(solver: str) -> dict[str, Callable[[PlacementCase], float]]:
    """Name to check of a case; it returns the excess of a bound, and raises where a number is false."""
    return {**{name: _bound(name, solver) for name in _BOUNDS}, "place-certify": _certificate(solver)}
