"""What the hunter tries on a question: methods by group, held against brute force."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from extremes import build_placement
from hunted_questions import NOTHING, Question, ViolationError, check_best, check_claim, check_partition, is_impossible
from numpy.typing import NDArray
from placement_cases import placement_checks
from planning_cases import check_planner
from random_trees import random_prices, random_tree
from shared_cases import check_shared

from heuristics import HEURISTICS, Limits, search
from heuristics.placement import PLACERS
from heuristics.planning import PLANNERS
from instances import Partition, Result, combine
from instances.deadline import Deadline
from instances.json_files import Value
from instances.placement.placement import Placement
from mtpp.certifying.certify import certify
from mtpp.problems.checking import certificate_document, verify
from mtpp.verification.partitioning.cuts import tree_bound
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.partitioning.exact_instance import with_ends as exact_with_ends
from mtpp.verification.partitioning.ideals import ideals_bound
from mtpp.verification.verdict import Clock, UndecidedError
from mtpp_models import MODELS, SolveOptions, solve
from mtpp_models.bounds.priced.prices import BlockTree
from mtpp_models.bounds.priced.relaxation import with_ends
from mtpp_models.registry import Algorithm
from mtpp_models.simple import simple

__all__ = ["GROUPS", "Method", "bound_method"]

_FEW = Limits(evaluations=30)
_LADDER_SECONDS = 1.0
# Methods that count all that is live in an order, not the largest need alone.
_IN_ORDER = [name for name, model in MODELS.items() if isinstance(model, Algorithm) and model.in_order]
# Methods that know no constraints.
_UNRULED = ("any-prices", "any-witness", "checked-ideals")


@dataclass(frozen=True)
class Method:
    """Something to try."""

    name: str
    # Tries it on a question and returns the relative excess of a bound over the optimum, at most rounding. It raises
    # `ViolationError` where a claim is false; any other error is a fault as well.
    check: Callable[[Any], float]


def bound_method(name: str, prove: Callable[[Question], Result]) -> Method:
    """A method whose bound, partition and claims are held against brute force."""

    def check(question: Question) -> float:
        result = prove(question)
        if is_impossible(question, result):
            return 0.0
        if result.bound is None:
            raise ViolationError("there is no bound")
        excess = question.check_bound(result.bound.value, orders=result.bound.method in _IN_ORDER)
        if result.partition is not None:
            check_partition(question, result.partition)
        if result.bound.optimal:
            check_claim(question, result)
        return excess

    return Method(name, check)


def _model(name: str, solver: str, *, relaxation: bool = False) -> Method:
    def prove(question: Question) -> Result:
        start = question.some_partition if "+" in name else question.start
        return solve(
            question.instance, name, SolveOptions(solver=solver, time_limit=None), start=start, relaxation=relaxation
        )

    return bound_method(f"{name}:lp" if relaxation else name, prove)


def _any_prices(question: Question) -> float:
    """The proof that `priced` rests on, with prices and a goal out of the air."""
    instance, r = question.instance, random.Random(question.seed)
    everything = Partition(instance, [0] * question.case.n).bottleneck
    goal = max(simple(instance), r.choice((0.3, 0.9, 1.0)) * everything, 0.9 * question.optimum)
    goal = r.choice((goal, question.optimum * (1 + 1e-6)))
    if not goal > 1e-290:
        return 0.0

    asked = r.choice((instance, with_ends(instance)))

    def prices() -> NDArray[np.float64]:
        drawn = np.array([r.choice((0.0, 1.0, r.random(), 1e-9)) for _ in range(asked.graph.n)])
        return drawn if drawn.any() else np.ones(asked.graph.n)

    tree, excess = BlockTree(asked, prices(), goal), 0.0
    for _ in range(3):  # with leaves that are kept, and blocks that are passed by
        proved, block = tree.explore(Deadline())
        while block is not None:
            tree.pass_by()
            proved, block = tree.explore(Deadline())
        excess = max(excess, question.check_bound(goal) if proved else 0.0)
        goal *= r.choice((1.0, 0.9, 1.05))
        tree.aim(goal)
        if r.random() < 0.5:
            tree.reprice(prices())
    return excess


def _any_witness(question: Question) -> float:
    """What `mtpp verify` proves by a tree and prices out of the air, for a goal of any height."""
    r, exact = random.Random(question.seed), ExactInstance.of(question.instance).kinds[0]
    exact = r.choice((exact, exact_with_ends(exact)))
    goal = question.exact * Fraction(r.choice((0.5, 1.0, 1 + 1e-6, 2.0)))
    if not NOTHING < goal < math.inf:
        return 0.0
    tree, prices = random_tree(r, exact.n), [Fraction(price) for price in random_prices(r, exact.n)]
    return question.check_bound(float(tree_bound(exact, range(exact.n), prices, tree, goal, Clock(60.0)).least))


def _checked_ideals(question: Question) -> float:
    """What `mtpp verify` says of the optimum, and of a goal above it."""
    exact, optimum = ExactInstance.of(question.instance).kinds[0], question.exact
    if not NOTHING < optimum < math.inf:
        return 0.0
    for goal in (optimum, optimum * Fraction(1 + 1e-6)):
        try:
            proved = ideals_bound(exact, goal, Clock(60.0))
        except UndecidedError:
            continue
        if goal == optimum and proved is None:
            raise ViolationError(f"the optimum {float(optimum)!r} is called false")
        question.check_bound(float(proved or 0), orders=True)
    return 0.0


def _heuristic(name: str) -> Method:
    def check(question: Question) -> float:
        result = search(question.instance, name, np.random.default_rng(question.seed), _FEW)
        if not is_impossible(question, result):
            check_best(question, result.partition)
        return 0.0

    return Method(name, check)


def _ladder(solver: str) -> Method:
    def check(question: Question) -> float:
        options = SolveOptions(solver=solver, time_limit=_LADDER_SECONDS, seed=question.seed % 2**31)
        answers = certify(question.instance, options, start=question.start).parts
        best = combine(*answers)
        if is_impossible(question, best):
            return 0.0
        excess = max(
            question.check_bound(answer.bound.value, orders=answer.bound.method in _IN_ORDER)
            for answer in answers
            if answer.bound is not None
        )
        check_best(question, best.partition)
        document = json.loads(json.dumps(certificate_document(answers)))
        faults = verify(Value(document, "certificate"), time_limit=_LADDER_SECONDS).faults
        if faults:
            raise ViolationError(f"the certificate is refused: {faults[0]}")
        return excess

    return Method("ladder", check)


def _placer(name: str) -> Method:
    def check(question: Question) -> float:
        instance = build_placement(question.case)
        n, devices = question.case.n, range(min(instance.devices, 3))
        placement = PLACERS[name].run(instance, np.random.default_rng(question.seed), Limits(evaluations=30))
        times = [placement.step_time]
        if n <= 4:
            times += [Placement(instance, device).step_time for device in itertools.product(devices, repeat=n)]
        if not math.isfinite(placement.step_time):
            raise ViolationError(f"the step takes {placement.step_time}")
        if not instance.lower_bound <= min(times):
            raise ViolationError(f"the bound {instance.lower_bound!r} exceeds the step time {min(times)!r}")
        return instance.lower_bound / min(times) - 1

    return Method(name, check)


def _groups(solver: str) -> dict[str, list[Method]]:
    algorithms = [name for name, model in MODELS.items() if isinstance(model, Algorithm)]
    fast = [_model(name, solver) for name in algorithms if name not in ("priced", "priced-quick")]
    models = [name for name in MODELS if name not in algorithms]
    strong = ["exact+all", "coarse-2+all", "coarse-4+all"]
    placers = [name for name in PLACERS if name not in ("metis", "scotch", "placeto")]
    groups = {
        "bounds": [*fast, Method("any-prices", _any_prices)],
        "priced": [_model("priced", solver), _model("priced-quick", solver)],
        "witnesses": [Method("any-witness", _any_witness), Method("checked-ideals", _checked_ideals)],
        "models": [
            *(_model(name, solver) for name in (*models, *strong)),
            *(_model(name, solver, relaxation=True) for name in (*models, *strong)),
        ],
        "ladder": [_ladder(solver)],
        "heuristics": [_heuristic(name) for name in HEURISTICS],
    }
    ruled = [method for methods in groups.values() for method in methods if method.name not in _UNRULED]
    return groups | {
        "constraints": [replace(method, name=f"constrained-{method.name}") for method in ruled],
        "planners": [Method(name, lambda case, name=name: check_planner(name, case)) for name in PLANNERS],
        "shared": [Method(f"{name}-shared", partial(check_shared, name)) for name in PLANNERS],
        "placers": [_placer(name) for name in placers],
        "placements": [Method(name, check) for name, check in placement_checks(solver).items()],
    }


#: The methods of each group, for a solver; planners and shared are asked about pipelines, constraints about questions
#: with rules, placements about `PlacementCase`, all others about `Question`.
GROUPS = _groups
