"""How a certificate is checked, and against which question and graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from instances import ComputationGraph, InputError, Instance
from instances.certificates.claims import Envelope
from instances.partitioning.question_lines import rule_lines
from mtpp.questions.kinds import works_of_kinds
from mtpp.questions.partitioning import runtime_of, runtime_rules
from mtpp.questions.planning import ChainWords, PlanningWords, chain_of
from mtpp.questions.reading import ReadingWords, device_of, read_graph
from mtpp.questions.serving import decoder_of, layer_runtime
from mtpp.questions.statements import (
    Compare,
    StatementWords,
    devices_asked,
    of_blocks,
    of_grid,
    of_placement,
    of_plan,
    unlike,
    unstated,
)
from mtpp.questions.words import GraphLike, Word, checked, pick

if TYPE_CHECKING:
    from instances.partitioning.stated_serving import StatedServing
    from instances.placement.problem import PlacementInstance
    from instances.planning.problem import LayerChain, TrainingInstance

__all__ = [
    "Comparisons",
    "OwnGraph",
    "VerifyWords",
    "compare_flow",
    "compare_front",
    "compare_grid",
    "compare_partition",
    "compare_placement",
    "compare_plan",
]

_CHECK = "The check"


class VerifyWords(StatementWords, ReadingWords, total=False):
    """Words of `mtpp.verify`."""

    ideals: Annotated[
        bool, Word("Has no effect any more: ideals are always looked at. It will go.", False, panel=_CHECK)
    ]
    rerun: Annotated[
        bool,
        Word("Also let the solvers and programs of this machine prove again what is trusted.", False, panel=_CHECK),
    ]
    time_limit: Annotated[
        float, Word("For each certificate, and as much again for the rerun.", 60.0, "SECONDS", _CHECK)
    ]


class OwnGraph:
    """The graph that a certificate has to be of, read as its problem reads it, once for all files."""

    def __init__(self, graph: GraphLike, words: VerifyWords) -> None:
        self.name = fspath(graph) if isinstance(graph, str | PathLike) else "the given graph"
        self._graph, self._words = graph, words
        self._read: dict[Any, Any] = {}

    def of_partition(self, instance: Instance) -> str | None:
        """Why the graph of a partition is not this one, nor its works on the devices that are stated; None if it is."""
        loaded = self._loaded()
        if self._words.get("unequal") is not None:
            return self._other_works(instance, loaded)
        return _other_graph(instance.graph, self._seen(loaded))

    def of_placement(self, instance: PlacementInstance) -> str | None:
        """Why the graph of a placement is not this one; None if it is."""
        return _other_graph(instance.graph, self._loaded())

    def of_plan(self, instance: TrainingInstance) -> str | None:
        """Why the chain of a plan is not that of this graph; None if it is."""
        key = (instance.dtype, instance.sequence)
        if key not in self._read:
            self._read[key] = self._chain(instance)
        return _other_chain(instance.chain, self._read[key])

    def _loaded(self) -> ComputationGraph:
        if "graph" not in self._read:
            own = self._graph
            self._read["graph"] = own.graph if isinstance(own, Instance) else read_graph(own, self._reading())
        graph: ComputationGraph = self._read["graph"]
        return graph

    def _seen(self, graph: ComputationGraph) -> ComputationGraph:
        """The graph as the runtime sees it that is stated, if there is one."""
        runtime = self._words.get("runtime")
        return graph if runtime is None else runtime_of(runtime).seen(graph)

    def _other_works(self, instance: Instance, loaded: ComputationGraph) -> str | None:
        """Hold a graph, and its works on each kind of devices that is stated, against those of a question."""
        own = self._graph.graph if isinstance(self._graph, Instance) else self._graph
        asked = devices_asked(instance, self._words)
        works = works_of_kinds(own, loaded, asked, self._reading())
        seen = [self._seen(replace(loaded, work=row)) for row in works]
        if instance.is_alike:
            return _other_graph(instance.graph, seen[0])
        fault = _other_graph(instance.graph, self._seen(loaded))
        names = [kind.name for kind in instance.machines.kinds]
        for kind, row in zip(asked.kinds, (graph.work for graph in seen), strict=True):
            if fault is not None or kind.name not in names:  # other kinds are a difference of the devices
                return fault
            t = names.index(kind.name)
            for v in (instance.able[t] & (instance.work[t] != row)).nonzero()[0][:1].tolist():
                times = f"{float(instance.work[t, v])!r}, there {float(row[v])!r}"
                fault = f"the work of node {v} ({instance.graph.names[v]}) on {kind.name} is {times}"
        return fault

    def of_front(self, stated: StatedServing) -> str | None:
        """Hold chain and constraints of a front against those that the decoder has for its runtime."""
        from instances.runtimes.serving_chain import serving_chain

        if stated.source is None:
            return "the file does not hold the operators of its decoder; write it anew with mtpp serve"
        if "decoder" not in self._read:
            self._read["decoder"] = decoder_of(self._graph, self._reading())
        runtime = layer_runtime(stated.source.runtime)
        seen = runtime.seen(self._read["decoder"])
        if (fault := _other_graph(stated.source.operators, seen)) is not None:
            return fault
        instance, works = stated.instance, stated.source.works
        devices = instance.machines if not instance.is_alike else None
        chain = serving_chain(self._read["decoder"], instance.platform, runtime, devices, works)
        same = chain.question_hash == stated.true_hash
        return None if same else "layers, context, batch or constraints are others"

    def _reading(self) -> ReadingWords:
        return pick(ReadingWords, self._words)

    def _chain(self, instance: TrainingInstance) -> LayerChain:
        given = dict(pick(ChainWords, self._words))
        if instance.network is not None:
            given |= {"dtype": instance.dtype, "sequence": instance.sequence}
        own: Any = self._graph
        return chain_of(own, checked(PlanningWords, given), device_of(self._reading()))


class Comparisons(NamedTuple):
    """Comparisons of the question of a file with what a caller states."""

    words: Compare  # what is stated, the graph among it
    faults: Iterable[str]  # differences that are found in any case


def compare_partition(stated: Envelope, given: Mapping[str, Any], own: OwnGraph | None) -> Comparisons:
    """The question of a partition; graph and devices are all of it, so that nothing else may restrict it then."""
    words = of_blocks(stated, given) | _with_graph(own, lambda graph: graph.of_partition(stated.instance))
    faults = [] if own is None or "unequal" not in given else unstated(stated.instance, given)
    return Comparisons(words, [f"question: {fault}, you state none" for fault in faults])


def compare_front(stated: StatedServing, given: Mapping[str, Any], own: OwnGraph | None) -> Comparisons:
    """The question of a serving front, and what its runtime demands of it."""
    fault = _fault_of_runtime(stated)
    words = of_blocks(stated, given) | _with_graph(own, lambda graph: graph.of_front(stated))
    if "constraints" not in given:
        words["runtime"] = lambda: unlike("runtime", stated.runtime, given["runtime"])
    return Comparisons(words, [] if fault is None else [fault])


def compare_placement(stated: Envelope, given: Mapping[str, Any], own: OwnGraph | None) -> Comparisons:
    """The question of a placement."""
    return Comparisons(
        of_placement(stated, given) | _with_graph(own, lambda graph: graph.of_placement(stated.instance)), ()
    )


def compare_plan(stated: Envelope, given: Mapping[str, Any], own: OwnGraph | None) -> Comparisons:
    """The question of a plan of so many microbatches."""
    return Comparisons(of_plan(stated, given) | _with_graph(own, lambda graph: graph.of_plan(stated.instance)), ())


def compare_grid(stated: Envelope, given: Mapping[str, Any], own: OwnGraph | None) -> Comparisons:
    """The question of a plan for a global batch, which has no graph."""
    return Comparisons(of_grid(stated, given), ())


def compare_flow(stated: Envelope, given: Mapping[str, Any], own: OwnGraph | None) -> Comparisons:
    """The question of a flow, of which there is nothing to state but its hash."""
    return Comparisons({}, ())


def _with_graph(own: OwnGraph | None, other: Callable[[OwnGraph], str | None]) -> Compare:
    """Comparison of the graph, if one is stated."""

    def compare() -> str | None:
        fault = None if own is None else other(own)
        return None if own is None or fault is None else f"it is not {own.name}: {fault}"

    return {"graph": compare}


def _other_graph(stated: ComputationGraph, own: ComputationGraph) -> str | None:
    if (stated.n, stated.m) != (own.n, own.m):
        return f"{stated.n} nodes and {stated.m} edges against {own.n} and {own.m}"
    for v, (name, other) in enumerate(zip(stated.names, own.names, strict=True)):
        if name != other:
            return f"node {v} is called {name!r}, there {other!r}"
    for v in (stated.work != own.work).nonzero()[0][:1].tolist():
        return f"the work of node {v} ({own.names[v]}) is {float(stated.work[v])!r}, there {float(own.work[v])!r}"
    if stated.content_hash != own.content_hash or stated.time_unit != own.time_unit:
        return "edges, bytes, parameters or units are others"
    return None


def _other_chain(stated: LayerChain, own: LayerChain) -> str | None:
    if stated.n != own.n:
        return f"{stated.n} layers against {own.n}"
    for layer, (name, other) in enumerate(zip(stated.names, own.names, strict=True)):
        if name != other:
            return f"layer {layer} is called {name!r}, there {other!r}"
    for layer in (stated.forward != own.forward).nonzero()[0][:1].tolist():
        times = f"{float(stated.forward[layer])!r}, there {float(own.forward[layer])!r}"
        return f"the forward time of layer {layer} ({own.names[layer]}) is {times}"
    return None if stated.content_hash == own.content_hash else "backward times, bytes or parameters are others"


def _fault_of_runtime(front: StatedServing) -> str | None:
    """Hold the constraints of a serving front against those of its runtime; None where older files name no decoder."""
    if front.source is None:
        return None
    try:
        rules = runtime_rules(front.runtime, front.instance.graph)
        true = list(rule_lines(rules, front.instance.k))
    except InputError as error:
        return f"runtime: {error}"
    if not front.instance.is_alike:  # idle devices aside, any cut between its nodes is legal
        every = tuple(range(front.instance.graph.n))
        free = not rules.together and all(set(nodes) == set(every) for _, nodes in rules.at_least)
        return None if free else f"instance.layer: {front.runtime!r} does not cut between all of these nodes"
    same = true == list(rule_lines(front.instance.constraints, front.instance.k))
    return None if same else f"instance.constraints: they are not those of the runtime {front.runtime!r}"
