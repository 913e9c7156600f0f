"""Hunt for false answers of `mtpp certify`: ``python tests/helpers/hunt_certify.py [QUESTIONS] [SEED]``.

Questions over devices that are alike and of several kinds, with constraints, hard memory, buffers, states and rates
between kinds, of sizes that are small, near 2^53, subnormal, or span 600 powers of ten. Each is solved by brute force
in fractions, with the least peak of any order: no bound may be above the optimum, no answer below it, nothing that is
possible called impossible, and the certificate has to pass. The exit code is 1 if something is false or ends in a
fault.
"""

from __future__ import annotations

import math
import random
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

from hunting_by_number import hunt_by_number
from kinds_oracle import KindsCase, draw_case, optimum_of

from instances import ComputationGraph, InputError, Instance
from instances.graph.tensors import SharedParameter
from instances.json_files import json_text, parse_json
from instances.machines import Kind, Machines
from instances.partitioning.constraints import Constraints
from mtpp.certifying.certify import certify
from mtpp.problems.checking import certificate_document, verify
from mtpp_models import SolveOptions

__all__ = ["drawn_question", "false_answers", "stated_instance"]

_SECONDS = 0.2
_ROUNDING = Fraction(1, 10**9)
# As in the checker: floats below the normal ones have fewer digits.
_LEAST_NORMAL = Fraction(1, 2**1022)


def drawn_question(rng: random.Random, number: int) -> KindsCase:
    """A question of small numbers, of which three in four are stretched; every third over devices that are alike."""
    alike, rated = number % 3 == 0, number % 7 == 3
    words = {"grouped": rng.random() < 0.3, "windowed": rng.random() < 0.4, "barred": rng.random() < 0.3 and not alike}
    case = draw_case(rng, chain=rng.random() < 0.4, most=4 if rated else 5, rated=rated and not alike, **words)
    if alike:
        case = _alike(rng, case)
    elif rng.random() < 0.3:
        case = replace(case, fit=any(memory < math.inf for memory in case.memories))
    return _stretched(rng, _ruled(rng, case))


def _ruled(rng: random.Random, case: KindsCase) -> KindsCase:
    """Perhaps with uncut outputs, least numbers in every block, kinds of nodes, and parameters with several users."""

    def some_nodes(count: int) -> tuple[int, ...]:
        return tuple(rng.sample(range(case.n), min(case.n, count)))

    kinds = range(len(case.counts))
    if rng.random() < 0.2:
        case = replace(case, uncut=some_nodes(rng.randint(1, 2)))
    if len(kinds) == 1 and rng.random() < 0.2:
        case = replace(case, at_least=((1, some_nodes(case.k + rng.randint(0, 2))),))
    if len(kinds) > 1 and rng.random() < 0.3:
        case = replace(case, on=tuple((v, tuple(rng.sample(kinds, rng.randint(1, 2)))) for v in some_nodes(2)))
    if rng.random() < 0.3:
        shared = [(some_nodes(rng.randint(2, 3)), float(rng.randint(1, 6))) for _ in range(rng.randint(1, 2))]
        case = replace(case, shared=tuple((users, size) for users, size in shared if len(users) > 1))
    return case


def _alike(rng: random.Random, case: KindsCase) -> KindsCase:
    """The first kind alone, with as many devices as blocks, perhaps more than nodes."""
    k = rng.randint(1, 4)
    memory = rng.choice([math.inf, float(rng.randint(1, 12))])
    windows = tuple((v, min(first, k - 1), min(last, k - 1)) for v, first, last in case.windows)
    return replace(
        case,
        works=case.works[:1],
        counts=[k],
        bandwidths=case.bandwidths[:1],
        memories=[memory],
        fixed=False,
        k=k,
        rates=None,
        windows=windows,
        fit=memory < math.inf and rng.random() < 0.5,
    )


def _stretched(rng: random.Random, case: KindsCase) -> KindsCase:
    """Times, bytes and rates in other sizes, which ties survive, and some off by a last digit."""
    world = rng.choice(("small", "whole", "tiny", "wide", "near"))
    if world == "small":
        return case
    time = {"whole": 1.0, "tiny": 5e-324 * rng.choice((1, 3, 1000)), "wide": 10.0 ** rng.randint(-300, 280)}.get(
        world, 1.0
    )
    size = {"whole": 2.0**53 / rng.choice((1, 3, 6)), "tiny": 1.0, "wide": 10.0 ** rng.randint(-300, 280)}.get(
        world, 1.0
    )
    rate = {"tiny": 2.0 ** rng.randint(1000, 1023), "wide": 10.0 ** rng.randint(-300, 300)}.get(world, 1.0)

    def nudged(x: float) -> float:
        if world in ("whole", "near") and 0 < x < math.inf and rng.random() < 0.5:
            return math.nextafter(x, rng.choice((0.0, math.inf)))
        return x

    def sized(x: float) -> float:
        return nudged(x * size if world != "whole" else float(math.floor(x * size)) if x < math.inf else x)

    def rated(x: float) -> float:
        return min(x * rate, 1e308) or 5e-324 if x < math.inf else x

    return replace(
        case,
        works=[[nudged(x * time) for x in row] for row in case.works],
        params=[sized(x) for x in case.params],
        tensors=[(u, sized(x), readers) for u, x, readers in case.tensors],
        shared=tuple((users, sized(x)) for users, x in case.shared),
        bandwidths=[rated(x) for x in case.bandwidths],
        memories=[sized(x) for x in case.memories],
        buffer=None if case.buffer is None else sized(case.buffer),
        rates=None if case.rates is None else [[rated(x) for x in row] for row in case.rates],
    )


def stated_instance(case: KindsCase) -> Instance:
    """The question as the project has it; half of what nodes hold is state."""
    edges = [(u, v) for u, _, readers in case.tensors for v in readers]
    graph = ComputationGraph.from_edges(
        edges,
        work=[1.0] * case.n,
        output_bytes=[size for _, size, _ in case.tensors],
        param_bytes=[x if v % 2 else 0.0 for v, x in enumerate(case.params)],
        state_bytes=[0.0 if v % 2 else x for v, x in enumerate(case.params)],
    )
    parameters = [SharedParameter(f"shared {i}", size, users) for i, (users, size) in enumerate(case.shared)]
    graph = replace(graph, parameters=tuple(parameters))
    kinds = [
        Kind(f"kind {t}", count, speed=t + 1.0, memory=memory, bandwidth=rate)
        for t, (count, memory, rate) in enumerate(zip(case.counts, case.memories, case.bandwidths, strict=True))
    ]
    return Instance(
        graph,
        Machines(kinds, "fixed" if case.fixed else "free", case.rates),
        "drawn",
        Constraints(
            case.together,
            case.windows,
            case.uncut,
            case.at_least,
            tuple((v, tuple(f"kind {t}" for t in named)) for v, named in case.on),
        ),
        k=case.k,
        works=case.works,
        activation_buffer=case.buffer,
        fit=case.fit,
    )


def false_answers(case: KindsCase, counts: Counter[str]) -> list[str]:
    """List what of the answer is false, or how it ends."""
    try:
        instance = stated_instance(case)
    except InputError:  # windows contradict, no kind can run a node, or numbers are too large
        counts["refused"] += 1
        return []
    optimum = optimum_of(case, least_peak if case.buffer is None else None)
    try:
        result = certify(instance, SolveOptions(time_limit=_SECONDS))
    except Exception:
        return [f"ends in {traceback.format_exc().splitlines()[-1]}"]
    counts["answered"] += 1
    counts["left out"] += len(result.notes)
    faults = [f"note: {note}" for note in result.notes if "Error" in note]
    if result.impossible is not None:
        counts["impossible"] += 1
        faults += (
            [f"called impossible ({result.impossible}), and costs {float(optimum)!r}"] if optimum is not None else []
        )
    if result.cost is not None and (optimum is None or Fraction(result.cost) < optimum - slack(optimum)):
        faults.append(f"{result.cost!r} is below the optimum {_shown(optimum)}")
    for part in result.parts:
        if part.bound is not None and optimum is not None and Fraction(part.bound.value) > optimum + slack(optimum):
            faults.append(f"{part.method}: {part.bound.value!r} is above the optimum {_shown(optimum)}")
    if result.cost is not None and result.proved:
        counts["optimal"] += 1
    if result.cost is None and result.bound is None and result.impossible is None:
        counts["nothing"] += 1
        return faults
    try:
        verdict = verify(parse_json(json_text(certificate_document(result.parts or (result,))), "drawn.json"))
    except Exception:
        return [*faults, f"verify ends in {traceback.format_exc().splitlines()[-1]}"]
    faults += [f"verify: {fault}" for fault in verdict.faults]
    if verdict.no_answer is not None:
        counts["impossible by proof" if verdict.no_answer.holds else "impossible by trust"] += 1
    if verdict.proved_bound is not None and optimum is not None and verdict.proved_bound > optimum:
        faults.append(f"verify: {_shown(verdict.proved_bound)} is proved, above the optimum {_shown(optimum)}")
    return faults


def slack(optimum: Fraction) -> Fraction:
    """By how much a float may be above an optimum."""
    return _ROUNDING * max(optimum, _LEAST_NORMAL)


def _shown(value: Fraction | None) -> str:
    try:
        return repr(None if value is None else float(value))
    except OverflowError:
        return "beyond all floats"


def least_peak(case: KindsCase, inside: list[int]) -> Fraction:
    """Least of the most bytes that are live at a time, over all orders of the nodes of a block."""
    return min(_peak(case, order) for order in _orders(case, inside))


def _orders(case: KindsCase, inside: list[int]) -> Iterator[tuple[int, ...]]:
    """Orders of a block in which no edge points backwards, also by way of nodes outside."""
    behind = {v: {v} for v in range(case.n)}
    for u, _, readers in reversed(case.tensors):
        for v in readers:
            behind[u] |= behind[v]
    for order in permutations(inside):
        if all(v not in behind[w] for i, v in enumerate(order) for w in order[i + 1 :]):
            yield order


def _peak(case: KindsCase, order: tuple[int, ...]) -> Fraction:
    live = [Fraction(0)] * len(order)
    for u, size, readers in case.tensors:
        steps = [i for i, v in enumerate(order) if v == u or v in readers]
        for i in range(min(steps, default=0), max(steps, default=-1) + 1):
            live[i] += Fraction(size)
    return max(live)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(hunt_by_number(drawn_question, false_answers))
