"""True certificates of a small instance, and how to forge them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

from brute_force import best_partition
from exact import needed_optimum

from instances import Bound, ComputationGraph, InputError, Instance, Partition, Platform, Result, SharedParameter
from instances.certificates import answer_document
from instances.graph.graph import graph_from_document
from instances.json_files import Value, read_json, write_json
from instances.partitioning.constraints import Constraints
from instances.partitioning.partition import crossings, stages
from instances.partitioning.serving import ServingInstance
from instances.partitioning.stated import certificate_from_document
from instances.records import written
from instances.results import bound_document
from instances.runtimes.serving_front import Front, front_document
from mtpp.problems.checking import certificate_document, rerun, verify
from mtpp.problems.registry import PROBLEMS
from mtpp.verification.partitioning.cuts import block_bound
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.verdict import Clock, Verdict
from mtpp_models.bounds.serving import serving_front

Document = dict[str, Any]

# The optimum of 3 blocks, {0, 1, 3}, {2, 4}, {5}, is above all bounds by minimum cuts; each of these has one witness.
EDGES = [(0, 1), (1, 2, 0), (1, 3, 1), (2, 4), (3, 4), (4, 5)]
GRAPH = ComputationGraph.from_edges(
    EDGES,
    [4.2, 2.6, 1.7, 1.8, 4.8, 4.8],
    [[4.1], [2.0, 0.3], [4.4], [1.7], [2.3], [3.5]],
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    parameters=(SharedParameter("table", 2.0, (0, 4)),),
    name="six",
)


def least_cost(instance: Instance, nodes: Iterable[int], ceiling: float) -> float:
    """The second opinion on a minimum cut around nodes."""
    if not ceiling > 0:
        return 0.0
    return float(block_bound(ExactInstance.of(instance).kinds[0], Fraction(ceiling), [nodes], Clock(60.0)).least)


def work_bound(instance: Instance) -> float:
    """The second opinion on *simple*."""
    return float(ExactInstance.of(instance).kinds[0].work_bound)


def answers(instance: Instance) -> list[Result]:
    """The optimum and bounds of every kind, all of them true."""
    best = best_partition(instance)
    n = instance.graph.n
    alone = [least_cost(instance, [v], 2 * best.bottleneck) for v in range(n)]
    node = alone.index(max(alone))
    pairs = {pair: least_cost(instance, pair, 100.0) for pair in combinations(range(n), 2)}
    groups = combinations(range(n), min(n, instance.k + 1))
    clique = max(groups, key=lambda group: min((pairs[pair] for pair in combinations(group, 2)), default=0.0))
    least = min((pairs[pair] for pair in combinations(clique, 2)), default=0.0)
    relaxed = Instance(instance.graph, Platform(instance.k, instance.platform.bandwidth))
    rules = instance.constraints
    groups = replace(instance, constraints=Constraints(together=rules.together, uncut=rules.uncut))
    optimum = float(needed_optimum(groups) or 0)
    finer = best_partition(relaxed.with_k(instance.k + 1)).bottleneck
    bounds = [
        Bound(work_bound(instance), "simple"),
        Bound(alone[node], "pinned", witness={"nodes": [node]}),
        Bound(optimum * (1 - 1e-12), "ideals"),
    ]
    if n > instance.k:
        bounds.append(Bound(least, "pigeonhole", witness={"nodes": list(clique)}))
    results = [Result(bound.method, instance, best, bound, {"solve": 0.5}) for bound in bounds]
    if not (instance.limits_memory or rules.windows or rules.at_least):
        source = Result("ideals", relaxed.with_k(instance.k + 1), bound=Bound(finer, "ideals"))
        witness = {"from_k": instance.k + 1, "value": finer, "proof": bound_document(source)}
        results.append(Result("carried", instance, best, Bound(finer, "carried", witness=witness)))
    exact = Bound(optimum * (1 - 1e-6), "exact", witness={"time_limit": 60.0, "gap": 0.0})
    return [*results, Result("exact", instance, best, exact, {"solve": 0.5}, "highs 1.0")]


def document(**platform: Any) -> Document:
    """A true certificate."""
    platforms = Platform(**{"k": 3, "bandwidth": 2.0, **platform})
    return plain(certificate_document(answers(Instance(GRAPH, platforms))))


def plain(document: Document) -> Document:
    """The file as it is read."""
    return dict(json.loads(json.dumps(document)))


def ruled(constraints: Constraints, **platform: Any) -> Document:
    """A true certificate of a question with side constraints."""
    place = Platform(**{"k": 3, "bandwidth": 2.0, **platform})
    return plain(certificate_document(answers(Instance(GRAPH, place, constraints=constraints))))


PLAIN = document()
FULL = document(memory=9.0)  # with true peaks, so that the order counts
BUFFERED = document(memory=8.0, activation_buffer=2.0)
RULED = ruled(
    Constraints(together=((1, 2),), windows=((1, 0, 1), (5, 2, 2)), uncut=(3,), at_least=((1, tuple(range(6))),)),
    memory=28.0,
    fit=True,
)


def check(document: Document, folder: Path, *, again: bool = False, **options: Any) -> Verdict:
    """What `mtpp verify` says of a file with the hash of its question, with `again` after `--rerun`."""
    write_json(folder / "c.json", hashed(document))
    verdict = verify(read_json(folder / "c.json"), **options)
    return rerun(verdict, time_limit=10.0) if again else verdict


def hashed(document: Document) -> Document:
    """The file with the hash that its question has by now, as a careful forger states it; as it is if there is none."""
    with suppress(InputError, KeyError, TypeError):
        question = PROBLEMS[document["problem"]].question.load().of_document(Value(document["question"], "c.json"))
        return document | {"question_hash": getattr(question, "true_hash", None) or question.question_hash}
    return document


def settle(document: Document) -> None:
    """What a careful forger does: recompute all that follows from the other numbers."""
    question, answer = document["question"], document["answer"]
    graph = graph_from_document(Value(question["graph"], "c.json"))
    answer["stages"] = [[] for _ in range(question["k"])]
    for v in answer["order"][: len(answer["block"])]:
        answer["stages"][answer["block"][v] % question["k"]].append(graph.names[v])
    with suppress(InputError):  # what is no partition has no stages
        instance = certificate_from_document(Value(document, "c.json")).instance
        document["question_hash"] = instance.question_hash
        partition = Partition(instance, answer["block"], answer["order"])
        answer["costs"] = [*map(written, stages(partition))]
        answer["crossing"] = [*map(written, crossings(partition))]
    document["bound"] = max(entry["value"] for entry in document["bounds"])
    document["ratio"] = max(1.0, document["cost"] / document["bound"])


def entry(document: Document, method: str) -> Document:
    return next(bound for bound in document["bounds"] if bound["method"] == method)


class Unlayered(Front):
    """The front of a chain whose nodes are no layers that a runtime knows."""

    settings = ""  # type: ignore[assignment]


def front_file(question: ServingInstance, runtime: str = "vllm") -> Document:
    """The file of all cuts of a question that no other beats; of an empty front where there are none."""
    points = serving_front(question).points
    kind = Unlayered if question.source is None else Front
    front = kind(question, points, points[0], runtime) if points else None
    answer = {"front": [], "chosen": 0, "runtime": runtime, "words": ""} if front is None else front_document(front)
    return plain(answer_document(question, answer, None if front is None else front.cost))
