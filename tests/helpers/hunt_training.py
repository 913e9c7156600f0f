"""Hunt for false bounds on training plans: ``python tests/helpers/hunt_training.py [QUESTIONS] [SEED]``.

Each number is a question on shared network cards, two of a grid, one of them with context and expert degrees and stages
that may fill servers, and three of stages in turns, one of them on slow servers. All plans are simulated;
no bound may exceed the best, no answer in a grid with one stage a device may be slower, and certificates have to pass.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import numpy as np
from grid_cases import SHARED, all_plans, of_three_groups, on_slow_servers, plans_in_turns, random_question, with_ends
from hunting_by_number import hunt_by_number
from shared_cases import check_bounds
from shared_plans import tiny_question

from instances import InputError
from instances.deadline import Deadline
from instances.json_files import json_text, parse_json
from instances.planning.grid import GridInstance
from instances.planning.grid.problem import Fixed
from mtpp.certifying.methods import certify_grid
from mtpp.problems.checking import result_document, verify
from mtpp.verification.planning.grid.plan import proved_bound
from mtpp.verification.verdict import Clock
from mtpp_models.planning.grid import grid_bounds, turns_bound

__all__ = ["faults_of_training"]

_CLOSE = 1 + 1e-9
#: Sizes of layers between the ends, of which each has one.
_FACTORS = ((1,), (1, 1.25, 1.5), (0.05, 1, 1))


def faults_of_training(seed: int, counts: Counter[str] | None = None) -> list[str]:
    """List false bounds, plans that were missed, and certificates that fail."""
    rng, counts = np.random.default_rng(seed), Counter() if counts is None else counts
    faults = []
    with suppress(InputError):  # nothing fits
        try:
            counts["orders on shared cards"] += check_bounds(tiny_question(rng))
            counts["questions on shared cards"] += 1
        except AssertionError as error:
            faults.append(str(error))
    faults += _faults_in_grid(replace(random_question(rng), fixed=Fixed(v=1)), counts)
    question = on_slow_servers(rng, random_question(rng, shared=SHARED))
    faults += _faults_in_grid(replace(question, zero=question.zero[:1], fixed=Fixed(v=1)), counts)
    factors = _FACTORS[rng.integers(len(_FACTORS))]
    faults += _faults_in_turns(with_ends(rng, factors=factors), counts)
    faults += _faults_in_turns(on_slow_servers(rng, with_ends(rng, factors=factors)), counts)
    return faults + _faults_in_turns(of_three_groups(rng, factors), counts)


def _faults_in_grid(question: GridInstance, counts: Counter[str]) -> list[str]:
    plans = list(all_plans(question))
    if not plans:
        return []
    times = [plan.time for plan in plans]
    best, worst, result = min(times), max(plans, key=lambda plan: plan.time), certify_grid(question)
    counts["plans in a grid"] += len(times)
    counts["questions in a grid"] += 1
    faults = []
    for bound in grid_bounds(worst, Deadline.after(None)):
        if bound.value > best * _CLOSE:
            faults.append(f"{bound.method}: {bound.value!r} is claimed, and a plan takes {best!r}")
    if result.cost is None or result.cost > best * _CLOSE:
        faults.append(f"a plan takes {best!r}, and {result.cost!r} was found")
    verdict = verify(parse_json(json_text(result_document(result)), "drawn.json"))
    return faults + [f"verify: {fault}" for fault in verdict.faults]


def _faults_in_turns(question: GridInstance, counts: Counter[str]) -> list[str]:
    plans = list(plans_in_turns(question))
    if not plans:
        return []
    best, worst = (choose(plans, key=lambda plan: plan.time) for choose in (min, max))
    bound = turns_bound(worst.instance, worst.time, Deadline())
    counts["plans in turns"] += len(plans)
    counts["questions in turns"] += 1
    if bound is None:
        return []
    false = bound > best.time * _CLOSE
    faults = [f"turns-grid: {bound!r} is claimed, and a plan takes {best.time!r}"] if false else []
    again = proved_bound(question, "turns-grid", bound, Clock(600.0))
    faults += [] if again is None or again * _CLOSE >= bound else [f"turns-grid: {bound!r} is not proved again"]
    above = proved_bound(question, "turns-grid", best.time * (1 + 1e-6), Clock(600.0))
    refused = above is None or above <= best.time * _CLOSE
    return faults if refused else [*faults, f"turns-grid: {above!r} is proved, and a plan takes {best.time!r}"]


def _seed(rng: random.Random, number: int) -> int:
    return rng.getrandbits(63)


if __name__ == "__main__":
    sys.exit(hunt_by_number(_seed, faults_of_training))
