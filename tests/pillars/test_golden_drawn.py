"""Answers and bounds of small drawn questions of each kind, and what is proved of them, in golden_drawn.json.

That no number is false is shown elsewhere, by brute force; a bound that got weaker or a worse answer is not false, and
only these values notice. The check of a file with bounds that are three times too high says how much it could prove.
``make golden`` writes them anew; a bound may get higher and a cost lower, on purpose.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answer_files import covered_plan_file
from certificates import front_file
from flow_oracle import draw_flow
from golden_numbers import digest, numbers_in, same, write
from grid_cases import of_three_groups, random_question, with_ends
from hunt_flow import flow_instance_of
from hunt_kinds import instance_of
from kinds_oracle import draw_case
from placement_cases import random_placement_case
from planning_cases import build_pipeline, random_pipeline_case
from ruled_questions import RuledQuestion, random_ruled_case
from serving_oracle import draw_served
from shared_cases import build_shared, random_shared_case

from heuristics import Limits, search
from heuristics.flow.search import search_flow
from heuristics.placement import search_placement
from heuristics.planning import PLANNERS
from instances import InputError, Instance, Platform, Result
from instances.json_files import Value, json_text
from instances.placement.placement import OrderedPlacement, Placement
from instances.planning.grid import GridInstance
from instances.planning.grid.problem import Fixed
from instances.random_graphs import GRAPH_MODELS, regal_style
from mtpp.certifying.methods import certify_grid
from mtpp.problems.checking import certificate_document, result_document, verify
from mtpp_models import SolveOptions, solve
from mtpp_models.flow.bounds import bound_flow
from mtpp_models.placement.registry import bound_placement

FILE = Path(__file__).with_name("golden_drawn.json")

Document = dict[str, Any]
_QUICK = ("simple", "pinned", "levels", "pigeonhole", "ideals", "bisection")
_FEW = Limits(evaluations=60)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def _grid(seed: int) -> Document:
    rng = np.random.default_rng(seed)
    draw: Callable[..., GridInstance] = (random_question, random_question, with_ends, of_three_groups)[seed % 4]
    question = draw(rng)
    fixed = (Fixed(), Fixed(v=2), Fixed(v=1), Fixed(pp=2))[seed // 4 % 4] if seed % 4 > 1 else Fixed()
    return result_document(certify_grid(replace(question, fixed=fixed)))


def _partition(seed: int) -> Document:
    """With rules and hard memory, and larger graphs without; bounds that need no solver and little time."""
    if seed % 2:
        instance = RuledQuestion(random_ruled_case(random.Random(seed)), seed).instance
    else:
        platform = Platform(2 + seed % 3, 1.0, *((), (500.0,), (400.0, 150.0))[seed // 2 % 3])
        instance = Instance(regal_style([*GRAPH_MODELS][seed // 2 % 4], 8 + seed // 12, seed), platform)
    found = search(instance, "portfolio", np.random.default_rng(0), Limits(evaluations=300))
    return certificate_document([found, *(solve(instance, name, start=found.partition) for name in _QUICK)])


def _served(seed: int) -> Document:
    return front_file(draw_served(random.Random(seed)))


def _kinds(seed: int) -> Document:
    case = draw_case(
        random.Random(seed),
        chain=seed % 3 == 0,
        most=6,
        rated=seed % 5 == 4,
        grouped=seed % 10 == 7,
        windowed=seed % 5 == 2,
    )
    instance = instance_of(case)
    found = search(instance, "portfolio", np.random.default_rng(0), Limits(evaluations=500))
    names = ("simple", "pinned", "levels", "ideals") if not instance.is_alike else ("simple", "pinned", "levels")
    proved = [solve(instance, name, start=found.partition) for name in names]
    return certificate_document([found, *proved])


def _flow(seed: int) -> Document:
    instance = flow_instance_of(draw_flow(random.Random(seed)))
    found = search_flow(instance, np.random.default_rng(0), Limits(evaluations=500))
    if found.impossible is not None:
        return {"impossible": found.impossible}
    return certificate_document([found, *bound_flow(instance, found.answer)])


def _plan(seed: int) -> Document:
    """On links of their own and on shared cards, with each planner in turn."""
    shared, rng, name = seed % 2 == 0, random.Random(seed), list(PLANNERS)[seed // 2 % len(PLANNERS)]
    question = build_shared(random_shared_case(rng)) if shared else build_pipeline(random_pipeline_case(rng))
    found = PLANNERS[name].run(question, np.random.default_rng(seed), _FEW)
    return covered_plan_file(name, found)


def _placement(seed: int) -> Document:
    instance = random_placement_case(random.Random(seed)).build()
    start = np.random.default_rng(seed).integers(instance.devices, size=instance.graph.n)
    found = search_placement(instance, "ordered", np.random.default_rng(seed), _FEW)
    bounds = ("heads", "windows", "energetic", "colocation")
    known: list[Result[Any, Any]] = [found]
    known += [bound_placement(OrderedPlacement.of(Placement(instance, start)), name, SolveOptions()) for name in bounds]
    return certificate_document(known)


def _proved(document: Document) -> Iterator[float]:
    """Numbers of the messages about bounds that are too high: each says what is proved."""
    forged = copy.deepcopy(document)
    for bound in forged.get("bounds", []):
        bound["value"] = 3 * bound["value"] + 1.0
    try:
        faults = verify(Value(forged, "drawn.json")).faults
    except InputError as error:
        faults = (str(error),)
    for fault in faults:
        yield from (float(number) for number in _NUMBER.findall(fault.replace("drawn.json", "")))


def numbers_of(make: Callable[[], Document]) -> list[float]:
    """The answer with its bounds, and what is proved of it; no more than a message of a question without an answer."""
    try:
        document = json.loads(json_text(make()))
    except InputError as error:
        return digest(float(number) for number in _NUMBER.findall(str(error)))
    if "format" not in document:
        return digest(numbers_in(document))
    said = {name: document[name] for name in ("answer", "cost", "bound", "ratio", "bounds", "impossible")}
    if said["answer"] is not None and said["answer"].get("front") == []:
        return digest(numbers_in(said))
    assert verify(Value(document, "drawn.json")).faults == ()
    return [*digest(numbers_in(said)), *digest(_proved(document))]


DRAWN: dict[str, tuple[Callable[[int], Document], int]] = {
    "grid": (_grid, 48),
    "partition": (_partition, 40),
    "kinds": (_kinds, 40),
    "served": (_served, 30),
    "flow": (_flow, 20),
    "plan": (_plan, 60),
    "placement": (_placement, 50),
}
CASES: dict[str, Callable[[], Document]] = {
    f"{room} {seed}": lambda draw=draw, seed=seed: draw(seed)  # type: ignore[misc]
    for room, (draw, count) in DRAWN.items()
    for seed in range(count)
}


@pytest.mark.parametrize("name", CASES)
def test_answers_and_what_is_proved_stay(name: str) -> None:
    assert same(numbers_of(CASES[name]), json.loads(FILE.read_text())[name])


if __name__ == "__main__":
    write(FILE, {name: numbers_of(make) for name, make in CASES.items()})
