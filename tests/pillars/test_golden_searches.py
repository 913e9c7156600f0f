"""The answer that each search gives for a seed and a limit of evaluations, in golden_searches.json.

A study that is run again must find the same numbers, so a release changes no answer of a seed unless it means to.
``make golden`` writes them anew.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heuristics import HEURISTICS, Limits
from heuristics.placement import PLACERS
from heuristics.planning import PLANNERS
from instances import Instance, Partition, Platform
from instances.devices import NetworkCards
from instances.machines import Machines
from instances.partitioning.constraints import Constraints
from instances.placement.networks import BANDWIDTH, PLACEMENT_FAMILIES
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.planning import Iteration, TrainingInstance
from instances.planning.chains import simulation
from instances.random_graphs import layered, regal_style

FILE = Path(__file__).with_name("golden_searches.json")

SMALL, LARGE = regal_style("watts-strogatz", 40, seed=3), layered(300, 600, seed=1)
LOADED = Platform(5, 2.0, memory=400.0, activation_buffer=320.0)
APART = Constraints(together=((0, 5),), windows=((7, 1, 2),), uncut=(3,))
STEP = PLACEMENT_FAMILIES["nmt"].graph(1)
CLUSTER = simulation(0, microbatches=8, servers=(2, 2))

Question = Instance | TrainingInstance | PlacementInstance
QUESTIONS: dict[str, Question] = {
    "small": Instance(SMALL, Platform(4, 1.0)),
    "small, little memory": Instance(SMALL, LOADED),
    "small, constraints": Instance(SMALL, Platform(4, 1.0), constraints=APART),
    "large": Instance(LARGE, Platform(6, 1.0)),
    "paper": CLUSTER,
    "shared cards": replace(CLUSTER, network=NetworkCards()),
    "shared cards, 3 servers": replace(simulation(1, microbatches=16, servers=(2, 2, 2)), network=NetworkCards()),
    "step": PlacementInstance(STEP, Machines.alike(3, BANDWIDTH)),
    "step, little memory": PlacementInstance(
        STEP, Machines.alike(4, BANDWIDTH, 2e8), node_gap=1e-5, transfer_gap=2e-5, broadcast=True
    ),
}
#: Searches that draw much try so many answers.
TRIED = {Instance: 2000, TrainingInstance: 400, PlacementInstance: 3000}
#: Other programs and floats of 32 bits answer otherwise elsewhere.
_ELSEWHERE = ("metis", "scotch", "placeto")


def registry(question: Question) -> Any:
    """The methods of a question by their names."""
    return {Instance: HEURISTICS, TrainingInstance: PLANNERS, PlacementInstance: PLACERS}[type(question)]


CASES = [(name, method) for name in QUESTIONS for method in registry(QUESTIONS[name]) if method not in _ELSEWHERE]


def found(name: str, method: str) -> list[Any]:
    """Cost and answer, written shortly."""
    question = QUESTIONS[name]
    limits = Limits(evaluations=TRIED[type(question)])
    answer = registry(question)[method].run(question, np.random.default_rng(1), limits)
    return [answer.cost, written(answer)]


def written(answer: Partition | Iteration | Placement) -> str:
    if isinstance(answer, Iteration):
        plans = [schedule.plan for schedule in answer.schedules]
        return "; ".join(f"{plan.cuts} {plan.devices}" for plan in plans)
    return "".join(map(str, answer.block if isinstance(answer, Partition) else answer.device))


@pytest.mark.parametrize(("name", "method"), CASES)
def test_a_seed_keeps_its_answer(name: str, method: str) -> None:
    if method in ("ordered", "anneal"):
        pytest.importorskip("pymetis", reason="pymetis is not installed, one of whose placements is a start")
    cost, answer = json.loads(FILE.read_text())[name][method]
    assert found(name, method) == [pytest.approx(cost, rel=1e-9), answer]


if __name__ == "__main__":
    golden: dict[str, dict[str, Any]] = {}
    for case in CASES:
        golden.setdefault(case[0], {})[case[1]] = found(*case)
    FILE.write_text(json.dumps(golden, indent=1) + "\n")
