"""Deployments against enumeration, golden instances, and predictions that were made before."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from threading import Event
from typing import Any

import numpy as np
import pytest
from deployment_oracle import best_cost, random_question

from instances.deadline import Deadline
from instances.planning.grid.transformer import TRANSFORMERS
from instances.serving.costs import PICO, costs_of
from instances.serving.model import servers_of_text
from instances.serving.problem import ENDLESS, DeploymentInstance
from instances.serving.transformers import served_model
from mtpp.verification.serving.chains import chain_exists
from mtpp_models.flow.chains import _shortest
from mtpp_models.flow.deployments import deployed


def question(model: str, servers: str, **others: Any) -> DeploymentInstance:
    parsed = servers_of_text(servers)
    assert parsed is not None
    fields = {"between": 50e9, "input": 1000, "output": 1000} | others
    return DeploymentInstance(served_model(TRANSFORMERS[model]), parsed, **fields)


@pytest.mark.parametrize("seed", range(40))
def test_deployments_cost_what_enumeration_finds(seed: int) -> None:
    asked = random_question(np.random.default_rng([53, seed]))
    answer, bounds, _ = deployed(asked, Deadline())
    least = best_cost(asked)
    assert (answer is None) == (least is None)
    if answer is not None and least is not None:
        assert answer.cost == pytest.approx(float(least), rel=1e-9)
        assert max(bound.value for bound in bounds) == pytest.approx(answer.cost, rel=1e-9)


@pytest.mark.parametrize(("weights", "bits"), [("bf16", 16), ("fp8", 8), ("fp4", 4 + 8 / 16), ("int4", 4 + 1 / 4)])
def test_weights_are_stored_with_the_scales_of_their_groups(weights: str, bits: float) -> None:
    """Sixteen numbers of fp4 share a scale of 8 bits; those of int4 have a quarter of a bit more each."""
    assert 8 * question("gpt2", "1x1xL4", weights=weights, degrees=(1,)).weight_bytes == bits


# Golden instances: seconds a layer by degree, the most layers of a stage, servers and hops; cycles by batches [s].

_TWO = {"times": [[3.0, 2.0]], "room": [99], "devices": [2], "counts": [1], "hops": [[1.0, 1.0]], "total": 4}
_MIXED = {
    "times": [[2.0, math.inf], [4.0, 2.5]],
    "room": [6, 4],  # 3 layers; 2 on one device, 4 on two
    "devices": [1, 2],
    "hops": [[0.5, 1.0], [0.5, 1.0]],
    "total": 6,
}


def _tables(golden: dict[str, Any]) -> dict[str, Any]:
    total = golden["total"]
    times = np.array(golden["times"])
    each = np.where(np.isfinite(times), times * 1000, 10**9).astype(np.int64)
    return {
        "time": each[:, :, None] * np.arange(total + 1),
        "weights": np.outer([2, 1], np.arange(total + 1)),
        "caches": np.zeros((2, total + 1), dtype=np.int64),
        "tied": np.zeros(2, dtype=np.int64),
        "degrees": np.array([1, 2], dtype=np.int64),
        "devices": np.array(golden["devices"], dtype=np.int64),
    }


def _cycle(golden: dict[str, Any], batches: int) -> float:
    """The least cycle by trying times of a stage: both programs have to say the same for each."""
    t, hops = _tables(golden), (np.array(golden["hops"]) * 1000).astype(np.int64)
    time, room = t["time"], np.array(golden["room"], dtype=np.int64)
    counts = np.array(golden["counts"], dtype=np.int64)
    nothing = np.zeros_like(time)

    def sum_within(longest: int) -> int:
        total, exact, _ = _shortest(
            time, nothing, t["weights"], t["caches"], t["tied"], room, t["degrees"], 0, hops, t["devices"], counts,
            0, longest, 10**6, ENDLESS, 1,
        )  # fmt: skip
        assert exact
        for limit, found in ((total, 1), (total - 1, 0)):
            if total > 0:
                assert found == chain_exists(
                    time, nothing, t["weights"], t["caches"], t["tied"], room, t["degrees"], 0, hops[:, 0], hops[:, 1],
                    t["devices"], counts, 0, longest, limit, ENDLESS, 1,
                )  # fmt: skip
        return int(total)

    cycles = [
        max(batches * longest, total) for longest in range(500, 30_000, 250) if (total := sum_within(longest)) > 0
    ]
    return min(cycles) / 1000


@pytest.mark.parametrize(
    ("golden", "cycles"),
    [
        (_TWO, [8, 14, 21, 28]),
        (_MIXED | {"counts": [1, 1]}, [14.5, 15, 22.5]),
        (_MIXED | {"counts": [1, 2]}, [14.5, 15, 18]),
    ],
)
def test_cycles_of_golden_instances(golden: dict[str, Any], cycles: list[float]) -> None:
    assert [_cycle(golden, m) for m in range(1, len(cycles) + 1)] == cycles


def test_sequences_beside_the_weights() -> None:
    asked = question("llama-3-70b", "1x8xA100", degrees=(4, 8))
    costs = costs_of(asked)
    free = costs.room[0] - costs.weights[:, -1]
    assert (free // costs.caches[:, -1]).tolist() == [251, 717]


# From the same cost model, written apart (tokens/s): [question, rate, stages of the chains].
_PREDICTED = [
    (("llama-3-70b", "1x4xA100", {}), 1987, [(2, 2)]),
    (("llama-3-70b", "1x4xA100", {"tpot": 0.05}), 1228, [(4,)]),
    (("llama-3-70b", "1x8xA100", {"tpot": 0.05}), 2886, [(8,)]),
    (("llama-3-70b", "1x4xH100", {}), 4241, [(4,)]),
    (("llama-3-70b", "1x8xH100", {"tpot": 0.05}), 7654, [(4,), (4,)]),
    (("llama-3-70b", "1x4xL4,1x2xA100", {"between": 12.5e9, "input": 500, "output": 500}), 1287, [(4, 2)]),
]


@pytest.mark.parametrize(("asked", "rate", "degrees"), _PREDICTED)
def test_rates_are_those_of_a_model_written_apart(
    asked: tuple[str, str, dict[str, Any]], rate: float, degrees: list[tuple[int, ...]]
) -> None:
    model, servers, others = asked
    answer, _, _ = deployed(question(model, servers, **others), Deadline())
    assert answer is not None
    assert answer.rate == pytest.approx(rate, rel=0.02)
    chains = [tuple(s.degree for s in chain.chain.stages) for chain, count in answer.chains for _ in range(count)]
    assert chains == degrees


def test_a_limit_of_the_first_token_needs_few_boxes() -> None:
    """Cycles that are too long for it beside the quickest prompt are one box, not halved for each number of batches."""
    answer, bounds, _ = deployed(question("llama-3-8b", "1x8xL4", input=500, output=300, ttft=0.1), Deadline())
    assert answer is not None
    assert (bounds[-1].method, bounds[-1].value) == ("chains", answer.cost)
    assert sum(len(chain["boxes"]) for chain in bounds[-1].witness["chains"]) < 2000


def test_a_single_sequence_is_quickest_on_few_stages() -> None:
    """A chain that is balanced over all devices is slower for one sequence than the fastest device alone."""
    asked = question("llama-3-8b", "1x1xA100,1x2xRTX4090", objective="latency", between=1.25e9, weights="fp8")
    answer, _, _ = deployed(asked, Deadline())
    throughput, _, _ = deployed(
        question("llama-3-8b", "1x1xA100,1x2xRTX4090", between=1.25e9, weights="fp8"), Deadline()
    )
    assert answer is not None
    assert throughput is not None
    assert [(chain.chain.batches, chain.chain.batch) for chain, _ in answer.chains] == [(1, 1)]
    assert answer.tpot < throughput.tpot


def test_too_many_kinds_of_servers_have_an_answer_without_a_proof() -> None:
    asked = question("gpt2", "1x1xL4", batch=8, degrees=(1,))
    kinds = tuple(replace(asked.servers[0], kind=f"card-{n}") for n in range(17))
    answer, bounds, reason = deployed(replace(asked, servers=kinds), Deadline())
    alone, _, _ = deployed(asked, Deadline())
    assert answer is not None
    assert alone is not None
    assert answer.exact_rate == 17 * alone.exact_rate
    assert ([bound.method for bound in bounds], reason) == (["device-seconds"], None)


@pytest.mark.parametrize("prefill", ["mixed", "pools"])
def test_bug_servers_were_idle_where_the_time_ended_early(prefill: str) -> None:
    """It ends after the chains on one server; the others get the same."""
    asked, ended, told = question("gpt2", "3x2xL4", batch=8, degrees=(1, 2), prefill=prefill), Event(), list[str]()

    def tell(devices: str, rate: float) -> None:
        told.append(devices)
        if told.count("1x2") == (2 if prefill == "pools" else 1):
            ended.set()

    answer, bounds, reason = deployed(asked, Deadline.after(None, ended), tell)
    alone, _, _ = deployed(replace(asked, servers=question("gpt2", "1x2xL4", degrees=(1, 2)).servers), Deadline())
    assert answer is not None
    assert alone is not None
    assert (answer.servers_used.tolist(), answer.exact_rate) == ([3], 3 * alone.exact_rate)
    assert ([bound.method for bound in bounds], reason) == (["device-seconds"], None)


def test_rates_of_larger_fleets_do_not_fall() -> None:
    rates = []
    for servers in ("1x2xH100", "1x4xH100", "1x8xH100", "2x8xH100"):
        answer, _, _ = deployed(question("llama-3-70b", servers, weights="fp8"), Deadline())
        rates.append(Fraction(0) if answer is None else answer.exact_rate)
    assert rates == sorted(rates)
    assert rates[0] > 0


@pytest.mark.parametrize("between", [1e6, 1e9, 50e9])
def test_bug_a_second_server_slowed_pools_down(between: float) -> None:
    """Caches of prompts that a server decodes itself pass no link between servers."""
    rates = []
    for servers in ("1x4xH100", "2x4xH100", "2x4xH100,1x1xL4"):
        asked = question("llama-2-7b", servers, input=100, output=1, prefill="pools", weights="fp8", between=between)
        answer, bounds, _ = deployed(asked, Deadline())
        assert answer is not None
        assert bounds[-1].value == pytest.approx(answer.cost, rel=1e-9)
        rates.append(answer.rate)
    assert rates[1] >= 2 * rates[0]
    assert rates[2] >= rates[1]


def test_times_are_whole_and_rise_with_the_batch() -> None:
    asked = question("mixtral-8x7b", "1x8xA100")
    tables = [costs_of(asked).at(b).time[:, :, -1] for b in range(1, 200)]
    assert all((a <= b).all() for a, b in pairwise(tables))
    assert tables[0].min() > PICO // 10**4
