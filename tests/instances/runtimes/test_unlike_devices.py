"""Cuts over kinds of devices in the words of runtimes: some say which device runs a stage, the others refuse."""

from __future__ import annotations

import json

import pytest
from kinds_cases import devices, question

from instances import ComputationGraph, InputError, Instance
from instances.machines import Kind, Machines
from instances.partitioning.partition import Partition
from instances.runtimes import RUNTIMES

NAMES = ["model.embed_tokens", *(f"model.layers.{i}" for i in range(6)), "lm_head"]
#: One fast device and three slow ones, numbered 0 to 3.
FAST, SLOW = 0, 1


def _cut(block: list[int], kinds: list[int], order: str = "free") -> Partition:
    edges = [(i, i + 1) for i in range(len(NAMES) - 1)]
    graph = ComputationGraph.from_edges(edges, work=[1.0] * len(NAMES), names=NAMES)
    instance = question(graph, devices([(2, 1, 1), (1, 1, 3)], order=order))
    return Partition(instance, block, kind=kinds)


def test_devices_are_numbered_kind_by_kind() -> None:
    """Idle ones have no stage; in a fixed order block b is on device b."""
    free = _cut([0, 0, 0, 2, 2, 3, 3, 3], [SLOW, SLOW, FAST, SLOW])
    assert free.device.tolist() == [1, -1, 0, 2]
    fixed = _cut([0, 0, 0, 2, 2, 3, 3, 3], [FAST, SLOW, SLOW, SLOW], "fixed")
    assert fixed.device.tolist() == [0, -1, 2, 3]


def test_words_that_say_the_devices() -> None:
    """The fast device has the second stage, and one slow device is idle."""
    cut = _cut([0, 0, 0, 2, 2, 2, 3, 3], [SLOW, SLOW, FAST, SLOW])
    assert RUNTIMES["llama-cpp"].settings(cut) == "-ngl 999 -sm layer -ts 2,3,2 -dev CUDA1,CUDA0,CUDA2\n"
    places = json.loads(RUNTIMES["accelerate"].settings(cut))
    assert [places[name] for name in NAMES[1:-1]] == [1, 1, 0, 0, 0, 2]
    for name in ("vllm", "sglang"):
        assert RUNTIMES[name].settings(cut).startswith("CUDA_VISIBLE_DEVICES=1,0,2 ")
    in_order = _cut([0, 0, 0, 0, 1, 1, 2, 2], [FAST, SLOW, SLOW, SLOW])
    assert RUNTIMES["vllm"].settings(in_order).startswith("VLLM_PP_LAYER_PARTITION=3,2,1 ")
    assert 'DEVICES = ["GPU.1", "GPU.0", "GPU.2"]' in RUNTIMES["openvino"].settings(cut)


def test_devices_of_other_hosts_have_their_address() -> None:
    """llama.cpp reaches them by their servers, and each host numbers its own; others are told of none."""
    graph = ComputationGraph.from_edges([(i, i + 1) for i in range(7)], work=[1.0] * 8, names=NAMES)
    speeds = {"old": 1.0, "lab-2:50052": 2.0, "new": 3.0}
    kinds = [Kind(name, 1, speed=speed, bandwidth=1.0) for name, speed in speeds.items()]
    instance = Instance(graph, Machines(kinds), works=[graph.work / speed for speed in speeds.values()])
    cut = Partition(instance, [0, 0, 0, 1, 1, 1, 2, 2], kind=[1, 2, 0])
    words = RUNTIMES["llama-cpp"].settings(cut)
    assert words == "-ngl 999 -sm layer -ts 2,3,2 --rpc lab-2:50052 -dev RPC0,CUDA1,CUDA0\n"
    for name in ("vllm", "accelerate"):
        with pytest.raises(InputError, match=f"{name} is told of no device at lab-2:50052"):
            RUNTIMES[name].settings(cut)


@pytest.mark.parametrize("name", ["tensorrt-llm", "megatron", "torchtitan", "deepspeed"])
def test_words_that_cannot_say_them_refuse(name: str) -> None:
    """In one line; with the devices in their order they say the same as for devices that are alike."""
    with pytest.raises(InputError, match=f"{name} runs stage n on device n, and here stage 0 is on device 1"):
        RUNTIMES[name].settings(_cut([0, 0, 0, 1, 1, 1, 2, 2], [SLOW, FAST, SLOW, SLOW]))
