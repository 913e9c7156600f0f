"""Fronts of serving over kinds of devices: brute force, files, forgeries, and the words of runtimes."""

from __future__ import annotations

import copy
import json
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from certificates import front_file
from command_line import assert_misuse, mtpp
from serving_oracle import cuts, draw_served, stage_costs, stage_holds, time_a_batch

import mtpp as api
from instances import InputError
from instances.json_files import Value, read_json
from instances.machines import Kind, Machines
from instances.partitioning.problem import Instance
from instances.partitioning.serving import ServingInstance
from mtpp.problems.checking import verify
from mtpp_models.bounds.serving import serving_front

_MOST = 70  # tokens that brute force looks at; more are any number, as memories are below


def _answers(question: ServingInstance) -> Iterator[tuple[Fraction, float]]:
    """Time a batch and largest context of every cut on every choice of kinds."""
    instance = question.instance
    devices = instance.machines
    alone = [replace(question, instance=instance.of_kind(t)) for t in range(2)]
    for block in cuts(instance.graph.n, instance.k):
        costs = [stage_costs(one, block) for one in alone]
        used = sorted(set(block))
        choices = [[devices.sequence[b]] for b in used] if devices.is_fixed else [range(2)] * len(used)
        for kinds in product(*choices):
            if any(kinds.count(t) > devices.counts[t] for t in range(2)):
                continue
            own = list(zip(used, kinds, strict=True))
            lost = (c for c in range(_MOST) if not all(stage_holds(alone[t], block, b, c) for b, t in own))
            times = [costs[t][b] for b, t in own] if instance.rates is None else _rated(instance, block, own)
            yield time_a_batch(question, times), next(lost, math.inf) - 1


def _rated(instance: Instance, block: Sequence[int], own: list[tuple[int, int]]) -> list[Fraction]:
    """Costs of the stages where what passes between two stages takes its bytes over the rate of their kinds."""
    devices, costs = instance.machines, []
    for b, t in own:
        costs.append(sum((Fraction(instance.work[t, v]) for v, home in enumerate(block) if home == b), Fraction(0)))
    for i, ((_, s), (b, t)) in enumerate(pairwise(own)):
        assert devices.rates is not None
        rate = min(devices.rates[s][t], *(devices.kinds[kind].bandwidth or math.inf for kind in (s, t)))
        moved = Fraction(instance.graph.tensors.bytes.tolist()[list(block).index(b) - 1]) / Fraction(rate)
        costs[i], costs[i + 1] = costs[i] + moved, costs[i + 1] + moved
    return costs


def test_fronts_are_those_of_brute_force() -> None:
    """Both numbers of each point and the largest context; files of them hold, and those that lack a point do not."""
    points = 0
    for seed in range(80):
        question = draw_served(random.Random(seed % 40))
        if seed >= 40:
            question = replace(question, in_flight=1 + seed % question.instance.k)
        found = set(_answers(question))
        able = [(cost, context) for cost, context in found if context >= question.context]
        best = sorted({p for p in able if not any(q != p and q[0] <= p[0] and q[1] >= p[1] for q in able)})
        front = serving_front(question)
        assert front.largest == max((context for _, context in found), default=-1), seed
        assert [p.capacity for p in front.points] == [context for _, context in best], seed
        costs = [p.cost for p in front.points]
        assert costs == pytest.approx([float(cost) for cost, _ in best], rel=1e-12), seed
        points += len(best)
        if best:
            document = front_file(question)
            assert verify(Value(document, "front.json")).faults == (), seed
        if len(best) > 1:
            del document["answer"]["front"][-1]
            assert verify(Value(document, "front.json")).faults != (), seed
    assert points > 60


def test_a_decoder_on_unlike_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is held against its decoder and proved again; no number of it can be changed, nor the words."""
    monkeypatch.chdir(tmp_path)
    kinds = [
        {"name": "slow", "count": 1, "speed": 0.4, "memory": 6e8, "bandwidth": 12e9},
        {"name": "fast", "count": 2, "memory": 7e8},
    ]
    Path("kinds.json").write_text(json.dumps({"format": "mtpp-devices/2", "kinds": kinds}))
    asked = "serve gpt2 --devices kinds.json --dim batch=32"
    for runtime in ("accelerate", "llama-cpp", "sglang"):
        assert mtpp(f"{asked} --for {runtime} --out {runtime}.json") == 0
        assert verify(read_json(f"{runtime}.json")).faults == ()
    assert mtpp(f"{asked} --for vllm --out vllm.json") == 0
    assert mtpp("verify vllm.json --graph gpt2 --dim batch=32") == 0
    document = json.loads(Path("vllm.json").read_text())
    first, words = document["answer"]["front"][0], document["answer"]["words"]
    assert sorted(first["kind"]) == ["fast", "fast", "slow"]
    assert mtpp("report vllm.json --out front.html") == 0
    assert "fast:" in Path("front.html").read_text()
    swapped = [*first["kind"][1:], first["kind"][0]]
    forged: list[tuple[list[Any], Any]] = [
        (["answer", "front", 0, "context"], first["context"] + 1),
        (["answer", "front", 0, "kind"], first["kind"][:-1]),
        (["answer", "front", 0, "kind", 0], "fastest"),
        (["answer", "front", 0, "kind"], swapped),
        (["question", "chain", "kinds", 1, "count"], 1),
        (["question", "chain", "kinds", 0, "works", 3], 1e-9),
        (["question", "decoder", "works", 0, 20], 1e-9),
        *((["answer", "words"], words.replace(number, "7")) for number in re.findall(r"\b\d+\b", words)),
    ]
    for where, value in forged:
        new = copy.deepcopy(document)
        place = new
        for key in where[:-1]:
            place = place[key]
        assert place[where[-1]] != value
        place[where[-1]] = value
        try:
            faults = verify(Value(new, "forged.json")).faults
        except InputError as error:
            faults = (str(error),)
        assert faults, where


def test_one_kind_is_the_question_of_equal_devices() -> None:
    """The same hash, which binds every number of the question, and the same answers."""
    device = Kind("one", 3, memory=6e8, bandwidth=20e9)
    one = api.serve("gpt2", devices=Machines([device]), dims={"batch": 32})
    plain = api.serve("gpt2", 3, "600MB", bandwidth=20e9, dims={"batch": 32})
    assert one.instance.question_hash == plain.instance.question_hash
    assert one.answer is not None
    assert plain.answer is not None
    assert [p.bottleneck for p in one.answer.points] == [p.bottleneck for p in plain.answer.points]
    assert one.answer.settings == plain.answer.settings


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line each."""
    monkeypatch.chdir(tmp_path)
    kinds = [{"name": f"d{t}", "speed": 1 + t / 30} for t in range(30)]
    Path("many.json").write_text(json.dumps({"format": "mtpp-devices/2", "kinds": kinds}))
    assert_misuse(
        capsys,
        {
            "serve gpt2 --devices many.json": "kind d0 has no limit, and any context fits",
            "serve gpt2 --devices many.json --memory 1GB": "multiply to too many",
            "serve gpt2 --devices 1xA100,1xL4 -k 3": "there are 2 devices",
            "serve gpt2 --devices 1xA100,0xL4": "count is 0",
            "serve gpt2 --devices 1xA100,1xL5": "There is no kind of devices 'L5'",
            "serve gpt2 --devices 1xA100,1xL4 --peak-flops 1TFLOP/s": "kind A100 has its own",
            "serve gpt2 --memory 1GB": "-k is missing",
            "serve gpt2 -k 2": "--memory is missing",
        },
    )
    with pytest.raises(InputError, match="no limit"):
        api.serve("gpt2", devices=Machines([Kind("any", 1), Kind("other", 1, speed=2.0)]))
