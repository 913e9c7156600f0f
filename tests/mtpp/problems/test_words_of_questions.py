"""Questions of all problems in one line: two that differ in one field have two hashes, and two texts.

Whatever is hashed of a flow of a decoder or of a plan is compared with what a caller states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flow_oracle import FlowCase
from grid_cases import equal_question
from hunt_flow import flow_instance_of

from instances import ComputationGraph, InputError, Instance, Platform
from instances.architectures import ARCHITECTURES
from instances.devices import NetworkCards
from instances.flow.problem import FlowInstance
from instances.machines import Kind, Machines
from instances.partitioning.serving import ServingInstance
from instances.placement.problem import PlacementInstance
from instances.planning.chains import simulation
from instances.planning.grid.problem import Fixed, StateBytes
from instances.runtimes import RUNTIMES
from instances.runtimes.serving import serving_chain
from mtpp.api.training import asked
from mtpp.problems.checking import differences
from mtpp.problems.registry import PROBLEMS
from mtpp.questions.placement import FlowWords, flow_instance
from mtpp.questions.planning import PlanningWords, plan_question
from mtpp.questions.verifying import UserGraph, VerifyWords
from mtpp.questions.words import checked

LITTLE = 1 + 2**-40  # six digits do not show it


def _changed(values: Any) -> Any:
    """The array with its last number a little larger."""
    changed = np.array(values, dtype=float)
    changed.flat[-1] = changed.flat[-1] * LITTLE + (changed.flat[-1] == 0)
    return changed


def _placements() -> tuple[PlacementInstance, Mapping[str, Any]]:
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [1.0, 2.0, 3.0], [1.0, 2.0, 0.0])
    question = PlacementInstance(graph, Machines.alike(2, 1e9, 1e9))
    more = {"node_gap": 1.0, "transfer_gap": 2.0, "broadcast": True, "works": [[1.0, 2.0, 3.0 * LITTLE]]}
    fast = Machines([Kind("device", 1, memory=1e9), Kind("fast", 1, speed=LITTLE, memory=1e9)], bandwidth=1e9)
    return question, more | {"machines": fast, "graph": replace(graph, work=_changed(graph.work))}


def _plans() -> tuple[Any, Mapping[str, Any]]:
    question = simulation(0, microbatches=4, servers=(2, 2), layers=4)
    question = replace(question, network=NetworkCards(), dtype="bf16", sequence=8)
    return question, _other_members_of_plan(question)


def _other_members_of_plan(question: Any) -> Mapping[str, Any]:
    """Another value of each member of the question of a plan."""
    chain, cluster = question.chain, question.cluster
    return {
        "microbatches": 5,
        "memory": 1e9,
        "parameter_copies": question.parameter_copies * LITTLE,
        "network": NetworkCards(half=True),
        "dtype": "fp16",
        "sequence": question.sequence + 1,
        "samples": 2,
        "recomputation": True,
        "full_duplex": not question.full_duplex,
        "replica_share": np.full(cluster.n, 0.5),
        "chain": replace(chain, forward=_changed(chain.forward)),
        "cluster": replace(cluster, bandwidth=cluster.bandwidth * LITTLE),
    }


def _grids() -> tuple[Any, Mapping[str, Any]]:
    question = equal_question(4, 4, 8.0)
    return question, {
        "global_batch": 2 * question.global_batch,
        "memory": 1e9 * LITTLE,
        "state_bytes": StateBytes(2.0, 4.0, 12.0 * LITTLE),
        "update_time": 1e-9,
        "zero": (1, 2),
        "modes": ("none",),
        "fixed": Fixed(pp=2),
        "full_duplex": not question.full_duplex,
        "servers": replace(question.servers, outer=question.servers.outer * LITTLE),
    }


def _flows() -> tuple[FlowInstance, Mapping[str, Any]]:
    links = {(u, v): 100 for u in ("source", "0", "1") for v in ("0", "1", "sink") if u != v}
    question = flow_instance_of(FlowCase(4, [0, 1], [{1: 12, 2: 8, 3: 3}, {1: 9, 2: 7, 3: 2}], links))
    return question, {
        "capacity": _changed(question.capacity),
        "rates": question.rates * LITTLE,
        "kind": question.kind[::-1],
        "devices": ("0", "2"),
    }


def _fronts() -> tuple[ServingInstance, Mapping[str, Any]]:
    graph = ARCHITECTURES["gpt2"].build(phase="decode", batch=4)
    question = serving_chain(Instance(graph, Platform(3, 64e9, 4e8, fit=True)), RUNTIMES["vllm"])
    assert question.source is not None
    return question, {
        "context": question.context + 1,
        "batch": question.batch + 1,
        "in_flight": 2,
        "token_bytes": _changed(question.token_bytes),
        "window": np.full_like(question.window, 7.0),
        "source": replace(question.source, constant=_changed(question.source.constant)),
        "instance": question.instance.with_k(2),
    }


@pytest.mark.parametrize("made", [_placements, _plans, _grids, _flows, _fronts])
def test_bug_a_field_that_is_hashed_is_stated(made: Any) -> None:
    """Plans, fronts and flows stated some of theirs alone, and these with six digits."""
    question, fields = made()
    for name, value in fields.items():
        other = replace(question, **{name: value})
        assert other.question_hash != question.question_hash, name
        assert other.question_words != question.question_words, name


def _faults(question: Any, graph: str, words: Mapping[str, Any]) -> tuple[str, ...]:
    """Differences of a question, as the file of an answer to it has it, from a graph and words."""
    stated = object.__new__(PROBLEMS.of(question).stated[0].load())
    stated.__dict__.update(instance=question, file="answer.json")
    given = checked(VerifyWords, words)
    return differences(stated, UserGraph(graph, given), given)[1]


_FLOW = {"devices": "1xT4,1xL4", "dims": {"batch": 2, "context": 64}, "memory": "2GB", "bandwidth": "1GB/s"}
_PLANNING = {"bandwidth": "128Gbps,32Gbps", "dtype": "fp32", "sequence": 64}
_TRAINING = {"bandwidth": "300GB/s,25GB/s", "sequence": 64, "micro_batch": 1, "tp": 1, "attention": "eager"}


def test_all_that_is_hashed_of_a_flow_is_compared_with_its_decoder_and_devices() -> None:
    question = flow_instance("gpt2", checked(FlowWords, _FLOW))
    steps = question.steps
    assert steps is not None
    assert _faults(question, "gpt2", _FLOW) == ()
    assert _faults(question, "gpt2", {name: value for name, value in _FLOW.items() if name != "devices"}) == ()
    for name, value in {
        "rates": question.rates * LITTLE,
        "devices": ("T4-0", "L4-1"),
        "kind": question.kind[::-1],
        "longest_path": 1,
        **{
            f"steps.{name}": replace(steps, **{name: value})
            for name, value in {
                "dims": {**steps.dims, "context": "65"},
                "slots": steps.slots + 1,
                "seconds": steps.seconds * LITTLE,
                "port": steps.port * LITTLE,
            }.items()
        },
    }.items():
        (fault,) = _faults(replace(question, **{name.partition(".")[0]: value}), "gpt2", _FLOW)
        assert fault.startswith("question.graph: it is not gpt2: "), name
    (fault,) = _faults(question, "gpt2", _FLOW | {"dims": {"batch": 2}})
    assert fault == "question.graph: it is not gpt2: steps.dims.context is 64, there 128"
    assert len(_faults(question, "gpt2", _FLOW | {"in_flight": 2})) == 1


def test_all_that_is_hashed_of_a_plan_for_a_global_batch_is_compared_with_its_model() -> None:
    question = asked("gpt2", "2x2", global_batch=2, **_TRAINING).instance
    assert _faults(question, "gpt2", {"cluster": "2x2", "global_batch": 2} | _TRAINING) == ()
    assert _faults(question, "gpt2", {"micro_batch": 1, "tp": 1, "attention": "eager"}) == ()
    chain = question.chains[0]
    for name, value in {
        "global_batch": 4,
        "memory": question.memory * LITTLE,
        "state_bytes": StateBytes(2.0, 4.0, 12.0 * LITTLE),
        "update_time": question.update_time * LITTLE,
        "zero": (1, 2),
        "modes": ("none",),
        "fixed": Fixed(pp=2),
        "full_duplex": True,
        "exposed": 0.5,
        "whole_experts": True,
        "servers": replace(question.servers, outer=question.servers.outer * LITTLE),
        "chains": (replace(chain, layers=(*chain.layers[:-2], chain.layers[-1])),),
    }.items():
        words = {"cluster": "2x2", "memory": question.memory, "global_batch": 2} | _TRAINING
        assert _faults(replace(question, **{name: value}), "gpt2", words), name
    (fault,) = _faults(question, "gpt2", _TRAINING | {"fix": "pp=2"})
    assert fault == "question.graph: it is not gpt2: fixed is missing, there {'pp': 2}"
    (fault,) = _faults(question, "gpt2", _TRAINING | {"cluster": "1x4"})
    assert fault == "question: cluster is 2x2, you ask for 1x4"
    (fault,) = _faults(question, "gpt2", _TRAINING | {"bandwidth": "300GB/s,50GB/s"})
    assert fault == "question: bandwidth between servers is 12.5 GB/s, you ask for 25 GB/s"


def test_all_that_is_hashed_of_a_plan_is_compared_with_its_graph() -> None:
    question = plan_question("gpt2", "2x2", 4, checked(PlanningWords, _PLANNING), "spp", {}).instance
    assert _faults(question, "gpt2", {"cluster": "2x2", "microbatches": 4} | _PLANNING) == ()
    assert _faults(question, "gpt2", {}) == ()
    for name, value in _other_members_of_plan(question).items():
        words = {"cluster": "2x2", "microbatches": 4, "memory": "1GB" if name != "memory" else "2GB"} | _PLANNING
        assert _faults(replace(question, **{"memory": 1e9, name: value}), "gpt2", words), name
    paper = checked(PlanningWords, {"bandwidth": "128Gbps,32Gbps", "network": "paper"})
    paper_question = plan_question("gpt2", "2x2", 4, paper, "spp", {}).instance
    assert _faults(paper_question, "gpt2", {"network": "paper"}) == ()
    (fault,) = _faults(paper_question, "gpt2", {})
    assert fault == "question.graph: it is not gpt2: network is paper, you ask for shared"
    (fault,) = _faults(question, "gpt2", {"network": "paper"})
    assert fault == "question.graph: it is not gpt2: network is shared, you ask for paper"


@pytest.mark.parametrize("words", [{"tp": "2"}, {"zero": "1"}, {"checkpoint": "auto"}])
def test_words_that_make_a_question_need_its_graph(words: dict[str, Any]) -> None:
    """A default that is stated is a statement, too."""
    question = asked("gpt2", "2x2", global_batch=2, **_TRAINING).instance
    stated = object.__new__(PROBLEMS.of(question).stated[0].load())
    stated.__dict__.update(instance=question, file="answer.json")
    (name,) = words
    with pytest.raises(InputError, match=f"{name} is compared together with graph alone; give that, too"):
        differences(stated, None, checked(VerifyWords, words))


def test_bug_the_largest_memory_stood_for_all() -> None:
    """A placement on 80 and 16 GB was called one on 80 GB."""
    graph, machines = (
        ComputationGraph.from_edges([(0, 1)], [1.0, 1.0], [1.0, 0.0]),
        [Kind("large", 1, memory=80e9), Kind("small", 1, memory=16e9)],
    )
    question = PlacementInstance(graph, Machines(machines, bandwidth=1e9))
    assert ", memory 16 GB to 80 GB;" in question.question_words
    assert ", memory 80 GB;" in replace(question, machines=Machines(machines[:1], bandwidth=1e9)).question_words
    assert ", 1 server of 4 devices," in equal_question(1, 2).question_words
