"""Flows of a decoder on the devices of a cluster: capacities and links by their definition, and refusals."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import assert_impossible, assert_misuse, columns, mtpp
from flow_oracle import draw_steps
from hunt_flow import faults_of_steps

import mtpp as api
from instances import InputError
from instances.flow.problem import FlowInstance, question_from_members
from instances.json_files import parse_json, read_json
from instances.machines import Kind, Machines
from mtpp.problems.checking import verify
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
    words = "flow gpt2 --devices 2xT4,1xL4 --dim batch=8"
    assert mtpp(f"{words} --out flow.json") == 0
    shown = float(columns(capsys.readouterr().out)["flow [tokens/s]"])
    result = api.flow("gpt2", devices="2xT4,1xL4", dims={"batch": 8})
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
            "flow resnet50 --devices 2xT4": "it is no decoder whose batch can change; give gpt2, llama-2-7b,",
            "flow llama-2-70b --devices 2xT4": "did you mean llama-2-7b? Give gpt2",
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


def test_bug_tokens_were_called_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In decoding each sequence is served one token; a prompt is a request. Alike groups are said once."""
    words, file = "flow gpt2 --devices 2xA100,2xL4@1GB/s --dim batch=8 --time-limit 2", tmp_path / "flow.json"
    assert mtpp(f"{words} --out {file}") == 0
    assert mtpp(f"explain {file}") == mtpp(f"verify {file}") == 0
    out = capsys.readouterr().out
    assert "feasible, time a token " in out
    assert "flow [tokens/s]" in out
    assert "at most [tokens/s]" in out
    assert "device  layers  sequences  tokens/s" in out
    assert "time a token  " in out
    assert "2 groups, each 1 batch of 8 sequences on 1 device, a step each" in out
    assert "tokens/s pass, and no layers let more than" in out
    assert "request" not in out
    page = api.report(file)
    assert "Tokens through each layer" in page
    assert "tokens/s" in page
    assert "requests/s" not in page
    assert mtpp(f"{words} --dim phase=prefill") == 0
    assert "flow [requests/s]" in capsys.readouterr().out


def golden(**words: Any) -> Any:
    """Llama 3 8B on two L4 at a context of 8192."""
    dims = {"batch": 64, "context": 8192, "element_bytes": 2}
    return api.flow("llama-3-8b", devices="2xL4", dims=dims, time_limit=20.0, **words)


def test_bug_waiting_sequences_held_no_caches(tmp_path: Path) -> None:
    """Each card was taken to step at all 31 sequences that it has room for, 358.8/s, while the other one did, too."""
    result = golden()
    answer = result.answer
    assert answer is not None
    assert [(turns.in_flight, turns.sizes.tolist()) for turns in answer.turns] == [(2, [15, 15])]
    assert answer.flow == pytest.approx(278.7456, rel=1e-6)
    assert result.proved
    assert result.notes[-1].endswith("layers without embeddings and head, any number of batches in flight")
    verdict = verify(read_json(result.save(tmp_path / "flow.json")))
    assert verdict.faults == ()
    assert float(verdict.proved_ratio or 0) == pytest.approx(1.0)
    read = api.read(tmp_path / "flow.json").answer
    assert (
        str(read.turns[0]) == str(answer.turns[0]) == "2 batches of 15 sequences on 2 devices, a step each 53.8125 ms"
    )
    assert result.instance.question_words.startswith("32 layers on 2 devices (2 of a kind), 6 links, phase decode")


def test_the_number_of_batches_in_flight_may_be_given(tmp_path: Path) -> None:
    """With one each card holds all layers for 9 sequences; with more a word is refused, as it is in prefill."""
    alone = golden(in_flight=1)
    assert alone.answer is not None
    assert {turns.in_flight for turns in alone.answer.turns} == {1}
    assert sum(turns.sizes for turns in alone.answer.turns).tolist() == [9, 9]
    assert alone.proved
    two = golden(in_flight=2)
    assert alone.instance.question_hash != two.instance.question_hash
    assert not api.verify(two.save(tmp_path / "two.json"), in_flight=2).faults
    assert api.verify(tmp_path / "two.json", in_flight=1).faults
    with pytest.raises(InputError, match="2 devices work at 2 batches at most; give 1 to 2"):
        golden(in_flight=3)
    with pytest.raises(InputError, match="do not wait"):
        api.flow("gpt2", devices="2xL4", dims={"phase": "prefill"}, in_flight=1)


def test_unlike_devices_step_at_ticks_of_their_own() -> None:
    """One card holds all layers, and two of another kind half of them each, beside it."""
    dims = {"batch": 64, "context": 8192, "element_bytes": 2}
    result = api.flow("llama-3-8b", devices="1xA100,2xL4", dims=dims, time_limit=20.0)
    assert result.answer is not None
    assert sorted(turns.in_flight for turns in result.answer.turns) == [1, 2]
    assert result.proved
    alone = api.flow("llama-3-8b", devices="1xA100", dims=dims).answer
    assert alone is not None
    assert result.answer.flow == pytest.approx(alone.flow + 278.7456, rel=1e-6)


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A certificate of two cards with 2 batches in flight."""
    path = golden().save(tmp_path_factory.mktemp("flow") / "flow.json")
    written: dict[str, Any] = json.loads(path.read_text())
    return written


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (["answer", "groups", 0, "in_flight"], 1),
        (["answer", "groups", 0, "in_flight"], 3),
        (["answer", "groups", 0, "tick"], 0.05),
        (["answer", "groups", 0, "tick"], 0.06),
        (["answer", "groups", 0, "tick"], -1.0),
        (["answer", "groups", 0, "sequences", "L4-0"], 16),
        (["answer", "groups", 0, "sequences", "L4-0"], 14),
        (["answer", "groups", 0, "sequences"], {"L4-0": 15}),
        (["answer", "groups"], []),
        (["answer", "flow"], 279.0),
        (["question", "steps", "slots", 0, 16], 40),
        (["question", "steps", "in_flight"], 2),
        (["question", "steps", "dims", "context"], "4096"),
        (["bounds", 0, "value"], 0.00359),
        (["bounds", 0, "parameters", "groups"], []),
        (["bounds", 0, "parameters", "groups", 0, 0], ["L4-0", "L4-1"]),
        (["bounds", 0, "parameters", "groups", 1, 1], 200.0),
        (["bounds", 0, "parameters", "groups", 1, 2], []),
        (["bounds", 0, "parameters", "groups", 1, 2, 0, 1], 0.06),
        (["bounds", 0, "parameters", "groups", 1, 2, 0, 3], "patterns"),
    ],
)
def test_forged_turns_are_found(turns: dict[str, Any], place: list[Any], value: Any) -> None:
    """More sequences than caches have room for, steps longer than a tick, brackets that leave ticks out."""
    forged = copy.deepcopy(turns)
    member = forged
    for step in place[:-1]:
        member = member[step]
    member[place[-1]] = value
    assert verify(parse_json(json.dumps(forged), "forged.json")).faults


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (["sizes", 0], 2, "ascend"),
        (["slots", 0, 1], -1, "Slots"),
        (["seconds", 0, 1, 0], 0.0, "from 1e-30"),
        (["port", 0], 0.0, "from 1e-30"),
        (["in_flight"], 0, "give 1 or more"),
        (["slots"], [[1]], "slots"),
    ],
)
def test_bad_steps_are_one_line(turns: dict[str, Any], place: list[Any], value: Any, said: str) -> None:
    """The place and what is wrong."""
    bad = copy.deepcopy(turns["question"])
    member = bad["steps"]
    for step in place[:-1]:
        member = member[step]
    member[place[-1]] = value
    with pytest.raises(InputError, match=said) as error:
        question_from_members(parse_json(json.dumps(bad), "bad.json"))
    assert "\n" not in str(error.value)


def test_flows_with_steps_are_solved() -> None:
    """Brute force over intervals, batches in flight and ticks; ``hunt_flow.py`` tries more."""
    for i in range(40):
        case = draw_steps(random.Random(f"steps {i}"))
        assert faults_of_steps(case) == [], case
