"""The checker over kinds of devices against brute force: what it proves, what it refuses, what partitions cost."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hunt_kinds import instance_of
from kinds_oracle import KindsCase, draw_case, optimum_of

from instances import InputError, Instance, Partition
from instances.certificates import answer_document
from instances.json_files import json_text, parse_json
from instances.results import Result
from mtpp.problems.checking import certificate_document, verify
from mtpp.verification.verdict import Check, Verdict

#: Questions of each kind.
_DRAWN = 40

WORDS: dict[str, dict[str, bool]] = {
    "plain": {},
    "windows": {"windowed": True},
    "groups": {"grouped": True, "windowed": True},
    "nodes that some kinds cannot run": {"barred": True},
    "rates": {"rated": True, "chain": True},
    "rates and windows": {"rated": True, "windowed": True},
}


def questions(words: dict[str, bool]) -> list[tuple[KindsCase, Instance]]:
    """Cases and their questions, but for those whose windows contradict."""
    drawn = []
    for seed in range(_DRAWN):
        case = draw_case(random.Random(f"{seed} {words}"), most=5, **words)
        try:
            drawn.append((case, instance_of(case)))
        except InputError:
            assert case.windows
    return drawn


def verdict_on(instance: Instance, **members: Any) -> Verdict:
    """Of a file without a partition."""
    document = answer_document(instance, None, None) | members
    return verify(parse_json(json_text(document), "drawn.json"), time_limit=60.0)


def check_of(instance: Instance, value: float, method: str, recheck: str, **parameters: Any) -> Check:
    claim = {"method": method, "value": value, "parameters": parameters, "recheck": recheck}
    return verdict_on(instance, bound=value, bounds=[claim]).checks[0]


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_ideals_prove_the_optimum_and_no_more(words: dict[str, bool]) -> None:
    """That nothing fits too; with rates between kinds of layers in a row, and else at the fastest of each kind."""
    count = 0
    for case, instance in questions(words):
        optimum = optimum_of(case)
        if optimum is None:
            verdict = verdict_on(instance, impossible={"reason": "", "proof": {"kind": "ideals"}})
            assert verdict.no_answer is not None
            assert verdict.no_answer.holds
            continue
        if not optimum:
            continue
        count += 1
        by_order = instance.is_alike and case.buffer is None and instance.limits_memory  # which costs more
        check = check_of(instance, float(optimum), "ideals", "ideals")
        if case.rates is None or "windowed" not in words:
            assert check.proved == pytest.approx(float(optimum), rel=1e-8)
        check = check_of(instance, float(optimum) * 1.001, "ideals", "ideals")
        assert by_order or (check.proved is None and check.how == "false")
        if case.fit:
            verdict = verdict_on(instance, impossible={"reason": "", "proof": {"kind": "ideals"}})
            assert by_order or verdict.faults
    assert count > _DRAWN // 3


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_cuts_and_speeds_prove_no_more_than_the_optimum(words: dict[str, bool]) -> None:
    """And at the least the node itself on its fastest kind, and all work at the speed of all devices."""
    for case, instance in questions(words):
        optimum = optimum_of(case)
        if not optimum:
            continue
        alone = [min(column) for column in zip(*case.works, strict=True)]
        v = alone.index(max(alone))
        for method, recheck, parameters in (
            ("pinned", "minimum cuts", {"nodes": [v]}),
            ("simple", "formula", {"shares": [1.0] * len(case.counts)}),
        ):
            assert check_of(instance, max(alone) * (1 - 1e-9), method, recheck, **parameters).fault == ""
            check = check_of(instance, float(optimum) * 1.001, method, recheck, **parameters)
            assert check.proved is None or (instance.is_alike and instance.limits_memory and case.buffer is None)


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_both_costs_over_kinds_agree(words: dict[str, bool]) -> None:
    """Two programs, one cost, to the digits that sums of floats have; and another cost is refused."""
    count, rng = 0, random.Random(0)
    for case, instance in questions(words):
        instance = replace(instance, fit=False)
        cuts = sorted(rng.randrange(instance.k) for _ in range(case.n))
        block = dict(zip(instance.graph.topological_order.tolist(), cuts, strict=True))
        sequence, used = instance.machines.sequence, sorted(set(cuts))
        devices = list(sequence) if case.fixed else rng.sample(sequence, len(sequence))
        kind = [-1] * instance.k
        for i, b in enumerate(used):
            kind[b] = devices[b if case.fixed else i]
        try:
            partition = Partition(instance, [block[v] for v in range(case.n)], kind=kind)
        except InputError:
            continue
        if not math.isfinite(partition.bottleneck) or instance.is_alike:
            continue
        count += 1
        document = certificate_document([Result("drawn", instance, partition)])
        verdict = verify(parse_json(json_text(document), "drawn.json"))
        assert verdict.faults == ()
        assert float(verdict.cost or 0) == pytest.approx(partition.bottleneck, rel=1e-12)
        document["cost"] = partition.bottleneck * (1 + 1e-6) + 1e-6
        faults = verify(parse_json(json_text(document), "drawn.json")).faults
        assert [fault.split(":")[0] for fault in faults] == ["cost"]
    assert count > 3
