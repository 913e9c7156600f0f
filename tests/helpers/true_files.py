"""A true file of each format in which answers are written."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
from answer_files import placement_result, plan_result
from certificates import GRAPH, Document, answers
from flow_oracle import FlowCase
from grid_cases import equal_question
from hunt_flow import flow_instance_of

from heuristics import Limits, search
from heuristics.flow.search import search_flow
from instances import ComputationGraph, Instance, Platform, Result
from instances.architectures import ARCHITECTURES
from instances.devices import NetworkCards
from instances.machines import Kind, Machines
from instances.partitioning.constraints import Constraints
from instances.runtimes import RUNTIMES
from instances.runtimes.serving import serving_chain
from instances.runtimes.serving_front import Front
from mtpp.api.planning import serve
from mtpp.certifying.methods import certify_grid
from mtpp.problems.checking import certificate_document, result_document
from mtpp_models import solve
from mtpp_models.bounds.serving import serving_front
from mtpp_models.flow.bounds import bound_flow

__all__ = ["originals"]


@cache
def originals() -> dict[str, Document]:
    """The files by name."""
    rules = Constraints(together=((1, 2),), windows=((5, 2, 2),), uncut=(3,), at_least=((1, tuple(range(6))),))
    questions = {
        "certificate": Instance(GRAPH, Platform(3, 2.0)),
        "certificate with memory": Instance(GRAPH, Platform(3, 2.0, 9.0)),
        "certificate with rules": Instance(GRAPH, Platform(3, 2.0, 28.0, fit=True), constraints=rules),
    }
    files = {name: certificate_document(answers(question)) for name, question in questions.items()}
    files["certificate by prices"] = certificate_document(
        [*answers(questions["certificate"])[:1], solve(questions["certificate"], "priced")]
    )
    files["certificate by halves"] = certificate_document([solve(Instance(GRAPH, Platform(2, 2.0)), "bisection")])
    files["impossible"] = _impossible()
    files["kinds"] = _kinds()
    files["plan"] = certificate_document([plan_result()])
    files["plan on cards"] = certificate_document(
        [plan_result("improved", network=NetworkCards(), dtype="bf16", sequence=8)]
    )
    files["plan in a grid"] = result_document(certify_grid(equal_question(4, 4, 8.0)))
    files["placement"] = certificate_document([placement_result()])
    files["placement in order"] = certificate_document([placement_result(ordered=True)])
    files["front"] = _front()
    files["front over kinds"] = _front_over_kinds()
    files["flow"] = _flow()
    return {name: json.loads(json.dumps(file)) for name, file in files.items()}


def _impossible() -> Document:
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [1.0] * 3, [0.0] * 3, [10.0] * 3)
    instance = Instance(graph, Platform(2, 1.0, 9.0, 0.0, fit=True))
    return certificate_document([Result("ideals", instance, impossible="does not fit")])


def _kinds() -> Document:
    devices = Machines([Kind("a", 1, speed=2.0, bandwidth=2.0), Kind("b", 2, speed=1.0, bandwidth=1.0)])
    instance = Instance(GRAPH, devices, works=[GRAPH.work / 2.0, GRAPH.work])
    result = search(instance, "portfolio", np.random.default_rng(0), Limits(evaluations=2000))
    return certificate_document(
        [result, *(solve(instance, name, start=result.partition) for name in ("simple", "pinned", "levels", "ideals"))]
    )


def _front() -> Document:
    graph = ARCHITECTURES["gpt2"].build(phase="decode", batch=32)
    question = serving_chain(Instance(graph, Platform(3, 64e9, 4e8, fit=True)), RUNTIMES["vllm"])
    front = serving_front(question)
    assert front.points
    return certificate_document([Result("front", question, Front(question, front.points, front.points[0], "vllm"))])


def _front_over_kinds() -> Document:
    kinds = [Kind("a", 1, speed=2.0, memory=4e8, bandwidth=64e9), Kind("b", 2, speed=1.0, memory=3e8)]
    result = serve("gpt2", devices=Machines(kinds), bandwidth=32e9, dims={"batch": 32}, runtime="llama-cpp")
    assert result.answer is not None
    return result_document(result)


def _flow() -> Document:
    links = {(u, v): 100 for u in ("source", "0", "1", "2") for v in ("0", "1", "2", "sink") if u != v}
    links |= {("0", "2"): 5, ("1", "2"): 4}
    del links["source", "sink"]
    instance = flow_instance_of(FlowCase(4, [0, 0, 1], [{1: 12, 2: 8, 3: 3}, {1: 9, 2: 7, 3: 2}], links))
    result = search_flow(instance, np.random.default_rng(0), Limits(evaluations=3_000))
    return certificate_document([result, *bound_flow(instance, result.answer)])
