"""The cheapest devices of several kinds are those of brute force, and what cannot be compared is one line."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from command_line import assert_impossible, assert_misuse, mtpp
from hunt_kinds import instance_of
from kinds_cases import chain
from kinds_oracle import KindsCase, draw_case, optimum_of

import mtpp as api
from instances.machines import Machines
from mtpp.certifying.least_k import LeastPrice, find_least
from mtpp_models import SolveOptions


def _of_devices(case: KindsCase, counts: tuple[int, ...]) -> KindsCase:
    """The question for some of the devices."""
    kept = [t for t, count in enumerate(counts) if count]
    return replace(
        case,
        works=[case.works[t] for t in kept],
        counts=[counts[t] for t in kept],
        bandwidths=[case.bandwidths[t] for t in kept],
        memories=[case.memories[t] for t in kept],
        k=sum(counts),
    )


def test_the_cheapest_devices_are_those_of_brute_force() -> None:
    """All choices of devices are tried; where the goal is below every optimum, there are none."""
    tried = {True: 0, False: 0}
    for seed in range(16):
        rng = random.Random(f"prices {seed}")
        case = replace(draw_case(rng, chain=True, most=5), fixed=False)
        case = replace(case, k=sum(case.counts))
        asked, best = instance_of(case), optimum_of(case)
        if asked.is_alike or best is None:
            continue
        prices = [float(rng.randint(0, 5)) for _ in case.counts]
        kinds = [replace(kind, price=price) for kind, price in zip(asked.machines.kinds, prices, strict=True)]
        enough = float(best) * rng.choice([0.9, 1.001, 1.3, 2.0])
        costs = {
            counts: sum(price * count for price, count in zip(prices, counts, strict=True))
            for counts in product(*(range(count + 1) for count in case.counts))
            if any(counts)
            and (own := optimum_of(_of_devices(case, counts))) is not None
            and own <= enough
        }  # fmt: skip
        least = find_least(replace(asked, machines=Machines(kinds)), enough, SolveOptions(time_limit=1.0))
        assert isinstance(least, LeastPrice)
        assert not least.undecided
        assert (None if least.devices is None else least.devices.price) == min(costs.values(), default=None), seed
        tried[bool(costs)] += 1
    assert min(tried.values()) > 1


def test_words_and_refusals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The certificate is of the cheapest devices; refusals are one line each."""
    monkeypatch.chdir(tmp_path)
    fast = {"name": "fast", "count": 2, "price": 3, "bandwidth": 1e9}
    slow = {"name": "slow", "count": 3, "price": 1.0, "speed": 0.5, "bandwidth": 1e9}
    files = {
        "good": [fast, slow],
        "part": [fast, {**slow, "price": None}],
        "below": [{**fast, "price": -1}, slow],
        "half": [fast, {name: value for name, value in slow.items() if name != "price"}],
        "many": [{**slow, "name": f"d{t}", "count": 9, "speed": 1 + t} for t in range(5)],
    }
    for name, kinds in files.items():
        Path(f"{name}.json").write_text(json.dumps({"format": "mtpp-devices/2", "kinds": kinds}))
    for throughput, sentence in {
        0.33: "2xfast at a price of 6 are the cheapest devices with",
        0.25: "3xslow at a price of 3 are the cheapest devices with",
        9.0: "No choice of the devices there is with",
    }.items():
        least = api.least_k(chain([1] * 6, [0] * 5), throughput, devices="good.json", time_limit=5)
        assert least.sentence().startswith(sentence)
    decoder = "gpt2 --level layer --dim phase=decode --devices good.json -k auto"
    assert mtpp(f"certify {decoder} --throughput 1000/s --time-limit 5 --out c.json") == 0
    assert "are the cheapest devices" in capsys.readouterr().out
    assert mtpp("verify c.json --quiet") == 0
    assert_impossible(capsys, f"partition {decoder} --throughput 1e9/s", "No choice of the devices there is")
    asked = "partition bert-base -k auto --throughput 1/s --devices"
    assert_misuse(
        capsys,
        {
            f"{asked} part.json": "price",
            f"{asked} below.json": "kind fast: price is -1",
            f"{asked} half.json": "kind slow has no price, and others have",
            f"{asked} many.json": "more than 4096 choices of devices",
            "partition t5-small -k auto --fit --memory 1GB --devices good.json": "prices are compared for layers",
        },
    )
