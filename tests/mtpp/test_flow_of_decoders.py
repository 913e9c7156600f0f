"""Flows of a decoder on the devices of a cluster: capacities and links by their definition, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import assert_impossible, assert_misuse, columns, mtpp

import mtpp as api
from instances.flow.problem import FlowInstance
from instances.machines import Kind, Machines
from mtpp.questions.placement import FlowWords, flow_instance
from mtpp.questions.reading import read_graph
from mtpp.questions.words import checked

LAYERS, WIDTH = 12, 768 * 4  # of gpt2: a sequence passes as one vector of so many bytes


def asked(devices: Machines, **dims: Any) -> FlowInstance:
    return flow_instance("gpt2", checked(FlowWords, {"devices": devices, "dims": dims}))


def layer(batch: int, what: str) -> float:
    """Work, weights or cache of a layer of gpt2, all of which are alike."""
    dims = {"phase": "decode", "batch": batch, "context": 512}
    graph = read_graph("gpt2", {"dims": dims, "level": "layer"})
    node = list(graph.names).index("decoder.3")
    return float(getattr(graph, what)[node])


def test_capacities_are_the_batch_over_the_time_of_the_layers() -> None:
    """As fast as the device is, and no faster than its port."""
    kinds = [Kind("fast", 1, speed=2.0), Kind("slow", 2, speed=0.5, bandwidth=WIDTH * 100.0)]
    instance = asked(Machines(kinds), batch=8, context=512)
    assert (instance.layers, instance.devices) == (LAYERS, ("fast-0", "slow-0", "slow-1"))
    rate = 8 / (np.arange(1, LAYERS + 1) * layer(8, "work"))
    assert instance.capacity[0, 1:] == pytest.approx(2 * rate)
    assert instance.capacity[1, 1:] == pytest.approx(np.minimum(rate / 2, 100.0))
    assert instance.rates[0, 1] == pytest.approx(100.0)
    assert instance.rates[3, 0] == pytest.approx(64e9 / WIDTH)


def test_a_device_works_at_the_sequences_whose_caches_fit() -> None:
    """With more layers there is room for fewer, until their weights alone do not fit."""
    memory = 4 * layer(8, "param_bytes") + 3.9 * 4 * layer(1, "state_bytes")  # and some for activations
    instance = asked(Machines([Kind("a", 1, speed=1.0, memory=memory)]), batch=8, context=512)
    assert instance.capacity[0, 2] == pytest.approx(8 / (2 * layer(8, "work")))
    assert instance.capacity[0, 4] == pytest.approx(3 / (4 * layer(3, "work")))
    assert instance.capacity[0, 5] == pytest.approx(1 / (5 * layer(1, "work")))
    assert not instance.capacity[0, 6:].any()


def test_rates_between_sites_are_links() -> None:
    """No more than the ports of both ends."""
    kinds = [Kind("here", 2, speed=1.0), Kind("there", 1, speed=1.0, bandwidth=WIDTH * 1000.0)]
    instance = asked(Machines(kinds, rates=[[WIDTH * 5000.0, WIDTH * 10.0], [WIDTH * 20.0, WIDTH * 1e9]]), batch=1)
    expected = [[0, 5000, 10], [5000, 0, 10], [20, 20, 0]]
    assert instance.rates[:3, :3] == pytest.approx(np.array(expected))


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow with its proof, as the function of Python gives it; refusals in one line."""
    monkeypatch.chdir(tmp_path)
    words = "flow gpt2 --devices 2xT4,1xL4 --dim batch=8 --time-limit 1"
    assert mtpp(f"{words} --out flow.json") == 0
    shown = float(columns(capsys.readouterr().out)["flow [1/s]"])
    result = api.flow("gpt2", devices="2xT4,1xL4", dims={"batch": 8}, time_limit=1.0)
    assert result.answer is not None
    assert result.answer.flow == pytest.approx(shown)
    assert mtpp("verify flow.json") == 0
    question = json.loads(Path("flow.json").read_text())["question"]
    Path("question.json").write_text(json.dumps(question | {"format": "mtpp-flow-question/1"}))
    kinds = [{"name": "a", "count": 1, "speed": 1.0, "bandwidth": 1e9}]
    Path("fixed.json").write_text(json.dumps({"format": "mtpp-devices/2", "order": "fixed", "kinds": kinds}))
    capsys.readouterr()
    assert_misuse(
        capsys,
        {
            "flow gpt2": "--devices is missing",
            "flow question.json --devices 2xT4": "with --devices, or a question of flow without",
            "flow question.json --memory 2GB": "has its own layers and devices",
            "flow resnet50 --devices 2xT4": "it is no decoder",
            "flow gpt2 --devices fixed.json": "order of the devices is fixed",
            "flow gpt2 --devices 2xT9": "T9",
            "flow gpt2 --devices 300xT4": "give 1 to 256",
        },
    )
    assert_impossible(
        capsys,
        "flow gpt2 --devices 2xT4 --dim batch=100000 --dim context=1024 --dim element_bytes=200",
        "no device can hold a layer",
    )
