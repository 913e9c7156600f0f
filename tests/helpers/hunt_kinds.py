"""Hunt for false bounds over kinds of devices: ``python tests/helpers/hunt_kinds.py [QUESTIONS] [SEED]``.

Each question is solved by brute force; every bound has to be at most that, every answer at least, every certificate has
to pass, and no claim that is 0.1 % above the optimum may be proved again. A false number is printed with its seed, and
the exit code is 1.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
from hunting_by_number import hunt_by_number
from kinds_oracle import KindsCase, draw_case, optimum_of

from heuristics import Limits, search
from instances import ComputationGraph, InputError, Instance, Result
from instances.json_files import Value, json_text, parse_json
from instances.machines import Kind, Machines
from instances.partitioning.constraints import Constraints
from instances.partitioning.kind_paths import layers_in_a_row
from instances.partitioning.symmetry import reduce_instance
from mtpp.problems.checking import certificate_document, verify
from mtpp_models import SolveOptions, solve

__all__ = ["BOUNDS", "faults_of", "instance_of"]

BOUNDS = ("simple", "pinned", "levels", "ideals", "bottleneck", "priced", "exact")
_BOTTLENECKS = ("bottleneck", "bottleneck-no-dag", "bottleneck-no-cut-io")
_RAISED = 1.001
_EXACT = ("ideals", "exact")
_ROUNDING = 1e-9


def instance_of(case: KindsCase) -> Instance:
    """The question as the project has it."""
    edges = [(u, v) for u, _, readers in case.tensors for v in readers]
    graph = ComputationGraph.from_edges(
        edges, work=[1.0] * case.n, output_bytes=[size for _, size, _ in case.tensors], param_bytes=case.params
    )
    kinds = [
        Kind(f"kind {t}", count, speed=t + 1.0, memory=memory, bandwidth=rate)
        for t, (count, memory, rate) in enumerate(zip(case.counts, case.memories, case.bandwidths, strict=True))
    ]
    devices = Machines(kinds, "fixed" if case.fixed else "free", case.rates)
    return Instance(
        graph,
        devices,
        "drawn",
        Constraints(case.together, case.windows),
        k=case.k,
        works=case.works,
        activation_buffer=case.buffer,
        fit=case.fit,
    )


def faults_of(case: KindsCase, seconds: float = 0.3, counts: Counter[str] | None = None) -> list[str]:
    """List what is false: bounds above the optimum, answers below it, exact ones above it, certificates that fail."""
    optimum = optimum_of(case)
    try:
        instance = instance_of(case)
    except InputError as error:  # windows may contradict
        return [] if case.windows and optimum is None else [f"refused: {error}"]
    if instance.is_alike:
        return []
    counts = Counter() if counts is None else counts
    faults, results = [], []
    outcome = search(instance, "portfolio", np.random.default_rng(0), Limits(evaluations=2_000))
    if outcome.impossible is not None and optimum is not None:
        faults.append(f"called impossible ({outcome.impossible}), and {float(optimum)!r} is possible")
    if outcome.partition is not None and (optimum is None or outcome.partition.bottleneck < optimum * (1 - _ROUNDING)):
        faults.append(f"search: {outcome.partition.bottleneck!r} is below the optimum {optimum!r}")
    drawn = random.Random(repr(case))
    start, bottleneck = drawn.choice((None, outcome.partition)), drawn.choice(_BOTTLENECKS)
    in_a_row = case.rates is None or layers_in_a_row(reduce_instance(instance).instance.graph) is not None
    ends_of_ideals = case.rates is None or (in_a_row and not instance.has_windows)
    for name in BOUNDS:
        name = bottleneck if name == "bottleneck" else name
        result = solve(instance, name, SolveOptions(time_limit=seconds), start=start)
        counts[name] += 1
        if result.impossible is not None and optimum is not None:
            faults.append(f"{name}: called impossible, and {float(optimum)!r} is possible")
        if result.bound is not None and optimum is not None and result.bound.value > optimum * (1 + _ROUNDING):
            faults.append(f"{name}: {result.bound.value!r} is above the optimum {float(optimum)!r}")
        results.append(result)
    for result in results:
        bound = result.bound if result.method in _EXACT else None
        ends = (
            bound is not None
            and bound.method in _EXACT
            and bound.optimal
            and (ends_of_ideals or bound.method == "exact")
        )
        if bound is not None and ends and optimum is not None:
            counts[f"{bound.method} at its end"] += 1
            if bound.value < optimum * (1 - 1e-5):
                faults.append(f"{bound.method}: {bound.value!r} misses the optimum {float(optimum)!r}")
    if not any(result.impossible for result in results):
        faults += _faults_of_file([outcome, *results], optimum, counts)
    return faults


def _faults_of_file(results: list[Result], optimum: Fraction | None, counts: Counter[str]) -> list[str]:
    if all(result.partition is None and result.bound is None for result in results):
        return []
    written = certificate_document(results)
    faults = [f"verify: {fault}" for fault in verify(_read(written), time_limit=10.0).faults]
    if optimum:
        for claim in written["bounds"]:
            claim["value"] = float(optimum) * _RAISED
        for check in verify(_read(written), time_limit=10.0).checks:
            counts[f"raised {check.claim.method} {'refused' if check.how == 'false' else 'trusted'}"] += 1
            if check.proved is not None and check.proved > optimum * (1 + _ROUNDING):
                faults.append(f"verify: {check.claim.method} proves a bound above the optimum {float(optimum)!r}")
    return faults


def _read(document: dict[str, Any]) -> Value:
    return parse_json(json_text(document), "drawn.json")


def _drawn(rng: random.Random, number: int) -> KindsCase:
    if number % 5 == 4:  # brute force over rates for pairs takes long
        words = {"grouped": number % 20 == 4, "windowed": number % 20 == 9}
        return draw_case(rng, chain=number % 2 == 0, most=5, rated=True, barred=number % 15 == 14, **words)
    words = {"grouped": number % 10 == 7, "windowed": number % 5 == 2, "barred": number % 6 == 3}
    return draw_case(rng, chain=number % 3 == 0, **words)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(hunt_by_number(_drawn, lambda case, counts: faults_of(case, counts=counts)))
