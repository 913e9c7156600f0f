"""Hunt for false bounds on flows: ``python tests/helpers/hunt_flow.py [QUESTIONS] [SEED]``.

Each question is solved by trying all intervals; every bound has to allow that flow, no answer may exceed it, every
certificate has to pass, and no claim that excludes a flow 0.1 % below it may be proved again. Every other question,
with steps or without, is solved as ``mtpp flow`` does: its flow has to be the largest, with a bound that is no larger.
A false number is printed with its seed, and the exit code is 1.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from flow_oracle import (
    FlowCase,
    StepsCase,
    draw_flow,
    draw_sparse_flow,
    draw_steps,
    largest_flow,
    largest_flow_of_steps,
)
from hunting_by_number import hunt_by_number

from heuristics import Limits
from heuristics.flow.search import search_flow
from instances.deadline import Deadline
from instances.flow.problem import FlowInstance, Steps, rates_of, table_of
from instances.json_files import Value, json_text, parse_json
from mtpp.certifying.methods import answered, flow_methods
from mtpp.problems.checking import certificate_document, verify
from mtpp_models import SolveOptions
from mtpp_models.flow.bounds import bound_flow
from mtpp_models.flow.enumeration import enumerate_flows
from mtpp_models.flow.weights import Hubs

__all__ = ["faults_of_flow", "faults_of_solution", "faults_of_steps", "flow_instance_of", "instance_of_steps"]

_RAISED, _BRANCHES = 1.001, 1_000_000


def flow_instance_of(case: FlowCase) -> FlowInstance:
    """The question as the project has it."""
    devices = [str(i) for i in range(len(case.kind))]
    links = [(u, v, float(rate)) for (u, v), rate in case.links.items()]
    rows = [{c: float(rate) for c, rate in row.items()} for row in case.capacity]
    rates = np.array(rates_of(devices, links))
    return FlowInstance("drawn", case.layers, tuple(devices), np.array(case.kind), table_of(case.layers, rows), rates)


def faults_of_flow(case: FlowCase, counts: Counter[str] | None = None) -> list[str]:
    """List false bounds, answers above the largest flow, and certificates that fail."""
    instance, largest = flow_instance_of(case), float(largest_flow(case))
    counts = Counter() if counts is None else counts
    outcome = search_flow(instance, np.random.default_rng(0), Limits(evaluations=3_000))
    faults = []
    if outcome.impossible is not None and largest > 0:
        return [f"called impossible ({outcome.impossible}), and {largest!r} passes"]
    if outcome.answer is not None:
        counts["optimal answers"] += outcome.answer.flow >= largest * (1 - 1e-9)
        if outcome.answer.flow > largest * (1 + 1e-9):
            faults.append(f"search: {outcome.answer.flow!r} is above {largest!r}")
    start = random.Random(repr(case)).choice((None, outcome.answer))
    results = [outcome, *bound_flow(instance, start)]
    if (enumerated := enumerate_flows(instance, _BRANCHES, start)) is not None and enumerated.bound is not None:
        results.append(enumerated)
    for result in results[1:]:
        assert result.bound is not None
        counts[result.method] += 1
        if largest > 0 and result.bound.value > 1 / largest * (1 + 1e-9):
            faults.append(f"{result.method}: at most {1 / result.bound.value!r} is claimed, and {largest!r} passes")
    counts["flows that hubs must not exclude"] += largest > 0
    if largest > 0 and Hubs(instance).exclude(largest * (1 - 1e-9), Deadline()) is not None:
        faults.append(f"patterns-with-hubs: weights exclude {largest!r}, which passes")
    if outcome.impossible is None:
        written = certificate_document(results)
        faults += [f"verify: {fault}" for fault in verify(_read(written), time_limit=20.0).faults]
        for claim in written["bounds"] if largest > 0 else ():
            claim["value"] = _RAISED / largest
        for check in verify(_read(written), time_limit=20.0).checks if largest > 0 else ():
            counts[f"raised {check.claim.method}"] += 1
            if check.proved is not None:
                faults.append(f"verify: {check.claim.method} proves that {largest!r} cannot pass")
    return faults


def faults_of_solution(
    case: FlowCase, counts: Counter[str] | None = None, longest_path: int | None = None
) -> list[str]:
    """List how the answer to a small question, its bound and its certificate fall short of the largest flow."""
    instance = replace(flow_instance_of(case), longest_path=longest_path)
    largest = float(largest_flow(case, longest_path))
    counts = Counter() if counts is None else counts
    result = answered(instance, flow_methods(0), SolveOptions(time_limit=20.0))
    if largest == 0 or result.answer is None or result.bound is None:
        lost = largest > 0 or result.impossible is None
        return [f"{largest!r} passes, and the answer is {result!r}"] if lost else []
    most = 1 / result.bound.value
    counts["solved"] += 1
    faults = [f"verify: {fault}" for fault in verify(_read(certificate_document([result]))).faults]
    searched = search_flow(instance, np.random.default_rng(0), Limits(evaluations=30_000)).answer
    counts["solved by search alone"] += searched is not None and searched.flow > largest * (1 - 1e-9)
    if abs(result.answer.flow - largest) > largest * 1e-9 or abs(most - largest) > largest * 1e-6:
        faults.append(f"flow {result.answer.flow!r}, at most {most!r}; the largest is {largest!r}")
    return faults


def instance_of_steps(case: StepsCase) -> FlowInstance:
    """The question with steps as the project has it."""
    sizes, kinds, counts = range(1, 4), range(len(case.slots)), range(case.layers + 1)
    slots = [[case.slots[t].get(c, 0) for c in counts] for t in kinds]
    seconds = [[[case.seconds[t][c][b - 1] if c else math.inf for b in sizes] for c in counts] for t in kinds]
    in_flight, ports = case.in_flight, np.full(len(kinds), 1e9)
    steps = Steps({}, np.array(sizes), np.array(slots), np.array(seconds, dtype=np.float64), ports, in_flight)
    plain = FlowCase(case.layers, case.kind, [{} for _ in kinds], case.links)
    return replace(flow_instance_of(plain), steps=steps)


def faults_of_steps(case: StepsCase, counts: Counter[str] | None = None) -> list[str]:
    """List how the answer to a question with steps, its bound and its certificate fall short of the largest flow."""
    instance, largest = instance_of_steps(case), float(largest_flow_of_steps(case))
    counts = Counter() if counts is None else counts
    result = answered(instance, flow_methods(0), SolveOptions(time_limit=20.0))
    if largest == 0 or result.answer is None or result.bound is None:
        lost = largest > 0 or result.impossible is None
        return [f"{largest!r} passes, and the answer is {result!r}"] if lost else []
    most = 1 / result.bound.value
    counts["steps solved"] += 1
    written = certificate_document([result, *bound_flow(instance, result.answer)])
    faults = [f"verify: {fault}" for fault in verify(_read(written)).faults]
    if abs(result.answer.flow - largest) > largest * 1e-9 or abs(most - largest) > largest * 1e-6:
        faults.append(f"flow {result.answer.flow!r}, at most {most!r}; the largest is {largest!r}")
    searched = search_flow(instance, np.random.default_rng(0), Limits(evaluations=60_000)).answer
    counts["steps solved by search alone"] += searched is not None and searched.flow > largest * (1 - 1e-9)
    for claim in written["bounds"]:
        claim["value"] = _RAISED / largest
    for check in verify(_read(written), time_limit=20.0).checks:
        if check.proved is not None:
            faults.append(f"verify: {check.claim.method} proves that {largest!r} cannot pass")
    return faults


def _read(document: dict[str, Any]) -> Value:
    return parse_json(json_text(document), "drawn.json")


def _draw(rng: random.Random, number: int) -> FlowCase | StepsCase:
    return (draw_flow, draw_sparse_flow, draw_flow, draw_steps)[number % 4](rng)


def _faults(number: int, case: FlowCase | StepsCase, counts: Counter[str]) -> list[str]:
    if isinstance(case, StepsCase):
        return faults_of_steps(case, counts)
    return (faults_of_solution if number % 4 == 1 else faults_of_flow)(case, counts)


if __name__ == "__main__":
    sys.exit(
        hunt_by_number(lambda rng, number: (number, _draw(rng, number)), lambda case, counts: _faults(*case, counts))
    )
