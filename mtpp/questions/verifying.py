"""How a certificate is checked, and against which question and graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from typing import Annotated, Any, NamedTuple, cast

import numpy as np

from instances import ComputationGraph, InputError, Instance
from instances.certificates import Envelope
from instances.errors import printable, word
from instances.flow.problem import FlowInstance
from instances.graph.display import how_many
from instances.graph.questions import nameless
from instances.partitioning.stated import StatedServing
from instances.placement.problem import PlacementInstance
from instances.planning.grid import GridInstance
from instances.planning.problem import LayerChain, TrainingInstance
from instances.readers.huggingface.files import find_architecture
from instances.runtimes.layers import LayerStack
from instances.runtimes.serving import serving_chain, without_scores
from instances.serving.problem import DeploymentInstance
from mtpp.questions.grid import GridWords, question_like
from mtpp.questions.partitioning import runtime_of, runtime_rules, works_of_kinds
from mtpp.questions.placement import ClusterWords, FlowLike, flow_instance, placement_works
from mtpp.questions.planning import PlanningWords, PlanStepWords, TrainedStepWords, TrainingWords
from mtpp.questions.planning import question_like as plan_like
from mtpp.questions.reading import ReadingWords, decoder_words, is_decoder, read_graph
from mtpp.questions.serving import layer_runtime, model_of
from mtpp.questions.statements import (
    Compare,
    StatementWords,
    devices_asked,
    of_blocks,
    of_deployment,
    of_grid,
    of_placement,
    of_plan,
    servers_asked,
    unlike,
    unstated,
)
from mtpp.questions.words import LIMITS, SEARCH, GraphLike, Word, checked, pick, without_defaults, words_of


@without_defaults
class UserGraphWords(ReadingWords, total=False):
    """Keyword arguments: how the caller's graph is read."""


class VerifyWords(StatementWords, UserGraphWords, total=False):
    """Keyword arguments of `mtpp.verify`."""

    rerun: Annotated[
        bool,
        Word("Also let solvers and programs of this machine prove what is trusted.", False, panel=SEARCH, basic=True),
    ]
    time_limit: Annotated[
        float, Word("For each certificate, and as much again for the rerun.", 60.0, "SECONDS", LIMITS, basic=True)
    ]


class UserGraph:
    """The caller's graph, which a certificate must be about, read as its problem requires."""

    def __init__(self, graph: GraphLike, words: VerifyWords) -> None:
        self.name = fspath(graph) if isinstance(graph, str | PathLike) else "the given graph"
        self._graph = graph
        self._words: dict[str, Any] = {name: value for name, value in words.items() if value is not None}
        self._read: dict[Any, Any] = {}

    def of_partition(self, instance: Instance) -> str | None:
        """How the graph of a partition, or its works, differ from the caller's; None if they do not."""
        loaded = self._loaded()
        if self._words.get("devices") is not None:
            return self._other_works(instance, loaded)
        return _other_graph(instance.graph, self._seen(loaded))

    def of_placement(self, instance: PlacementInstance) -> str | None:
        """How the graph of a placement differs from the caller's; None if it does not."""
        from instances.placement.networks import family_graph

        family = family_graph(self._graph) if isinstance(self._graph, str) else None
        loaded, devices = family or self._loaded(), self._words.get("devices")
        fault = _other_graph(instance.graph, loaded)
        if fault is not None or devices is None:
            return fault
        machines = devices_asked(instance, self._words, instance.bandwidth, "fixed").in_sequence
        works = placement_works(self._graph, loaded, machines, self._reading())
        same = works is None or (instance.works is not None and np.array_equal(works, instance.works))
        return None if same else "the works on kinds of devices are others"

    def of_plan(self, instance: TrainingInstance) -> str | None:
        """How the layers of a plan differ from those of the caller's graph; None if they do not."""
        words = checked(PlanningWords, pick(PlanningWords, self._words))
        user_question = plan_like(instance, self._graph, words)
        networks = ["paper" if question.network is None else "shared" for question in (instance, user_question)]
        if networks[0] != networks[1]:  # which prices layers in another way
            return unlike("network", *networks)
        return _other_chain(instance.chain, user_question.chain) or _other_members(instance, user_question)

    def _loaded(self) -> ComputationGraph:
        if "graph" not in self._read:
            source = self._graph
            self._read["graph"] = source.graph if isinstance(source, Instance) else read_graph(source, self._reading())
        graph: ComputationGraph = self._read["graph"]
        return graph

    def _seen(self, graph: ComputationGraph) -> ComputationGraph:
        """The graph as the stated runtime sees it."""
        runtime = self._words.get("runtime")
        return graph if runtime is None else runtime_of(runtime).seen(graph)

    def _other_works(self, instance: Instance, loaded: ComputationGraph) -> str | None:
        """How a graph and its works on the stated kinds differ from those of a question; None if they do not."""
        source = self._graph.graph if isinstance(self._graph, Instance) else self._graph
        devices = devices_asked(instance, self._words, instance.platform.bandwidth)
        works = works_of_kinds(source, loaded, devices, self._reading())
        views = [self._seen(replace(loaded, work=row)) for row in works]
        if instance.is_alike:
            return _other_graph(instance.graph, views[0])
        fault = _other_graph(instance.graph, self._seen(loaded))
        names = [kind.name for kind in instance.machines.kinds]
        for kind, row in zip(devices.kinds, (graph.work for graph in views), strict=True):
            if fault is not None or kind.name not in names:  # other kinds are a difference of the devices
                return fault
            t = names.index(kind.name)
            for v in (instance.able[t] & (instance.work[t] != row)).nonzero()[0][:1].tolist():
                times = f"{float(instance.work[t, v])!r}, there {float(row[v])!r}"
                fault = f"the work of node {v} ({instance.graph.names[v]}) on {kind.name} is {times}"
        return fault

    def of_front(self, stated: StatedServing) -> str | None:
        """First difference of the question of a serving front from the caller's decoder, as a clause; None without one.

        Operators, layers and constraints are compared.
        """
        if stated.source is None:
            return "the file does not hold the operators of its decoder; write it anew with mtpp serve"
        reading = decoder_words(self._reading(), served=is_decoder(self._graph))
        if "decoder" not in self._read:
            self._read["decoder"] = read_graph(self._graph, reading)
        runtime = layer_runtime(stated.source.runtime)
        decoder = self._read["decoder"]
        if stated.instance.is_alike and self._words.get("devices") is not None:
            devices = devices_asked(stated.instance, self._words, stated.instance.platform.bandwidth)
            decoder = replace(decoder, work=works_of_kinds(self._graph, decoder, devices, reading)[0])
        view = runtime.seen(decoder)
        view = without_scores(view, LayerStack.of_decoder(view))
        if (fault := _other_graph(stated.source.operators, view)) is not None:
            return fault
        layers = stated.instance
        question = Instance(decoder, layers.machines, k=layers.k, works=stated.source.works, fit=layers.fit)
        chain = serving_chain(question, runtime, stated.in_flight)
        same = chain.question_hash == stated.true_hash
        return None if same else "layers, context, batch or constraints are others"

    def of_grid(self, instance: GridInstance) -> str | None:
        """How the layers of a plan for a global batch differ from the caller's; None if they do not."""
        words = dict(checked(TrainingWords, pick(TrainingWords, self._words)))
        words["device"] = words["device"] or servers_asked(instance, self._words)[1]
        return _other_members(instance, question_like(instance, self._graph, words))

    def of_flow(self, instance: FlowInstance) -> str | None:
        """How the question of a flow differs from the caller's; None if it does not."""
        words, graph = checked(ClusterWords, pick(ClusterWords, self._words)), cast(FlowLike, self._graph)
        if find_architecture(self._graph) is not None:
            words["in_flight"] = None if instance.steps is None else instance.steps.in_flight
            if words["devices"] is None:
                names = [name.rpartition("-")[0] for name in instance.devices]
                words["devices"] = ",".join(f"{names.count(name)}x{name}" for name in dict.fromkeys(names))
        return _other_members(instance, flow_instance(graph, words))

    def of_deployment(self, instance: DeploymentInstance) -> str | None:
        """How the decoder of a deployment differs from the caller's; None if it does not."""
        stated = instance.model
        weights = self._words.get("weights") if any(shape.stored for shape in stated.shapes) else instance.weights
        if ("served", weights) not in self._read:
            self._read["served", weights] = model_of(self._graph, weights)
        model = self._read["served", weights]
        for name in ("layers", "parameters"):
            true, other = (getattr(served, name) for served in (stated, model))
            if true != other:
                return f"{true} {name} against {other}"
        same = replace(instance, model=model).question_hash == instance.question_hash
        return None if same else "sizes of layers are others"

    def _reading(self) -> ReadingWords:
        return pick(ReadingWords, self._words)


class Comparisons(NamedTuple):
    """Comparisons of a file's question with the caller's statements, by keyword."""

    words: Compare  # what is stated, the graph among it
    faults: Iterable[str]  # differences that are found in any case


def compare_partition(stated: Envelope, statements: Mapping[str, Any], graph: UserGraph | None) -> Comparisons:
    """Comparisons of the caller's statements and graph with the question of a partition."""
    words = of_blocks(stated, statements) | _with_graph(graph, lambda graph: graph.of_partition(stated.instance))
    faults = [] if graph is None or "devices" not in statements else unstated(stated.instance, statements)
    return Comparisons(words, [f"question: {fault}, you state none" for fault in faults])


def compare_front(stated: StatedServing, statements: Mapping[str, Any], graph: UserGraph | None) -> Comparisons:
    """Comparisons of the caller's statements and graph with the question of a serving front, its runtime included."""
    fault = _fault_of_runtime(stated)
    if any(
        len(nodes) == stated.instance.k for _, nodes in stated.instance.constraints.at_least
    ):  # no more have a layer
        statements = {"k": stated.instance.k, **statements}
    words = of_blocks(stated, statements) | _with_graph(graph, lambda graph: graph.of_front(stated))
    words["in_flight"] = lambda: unlike("in_flight", stated.in_flight or 1, statements["in_flight"])
    if "constraints" not in statements:
        words["runtime"] = lambda: unlike("runtime", stated.runtime, statements["runtime"])
    return Comparisons(words, [] if fault is None else [fault])


def compare_placement(stated: Envelope, statements: Mapping[str, Any], graph: UserGraph | None) -> Comparisons:
    """Comparisons of the caller's statements and graph with the question of a placement."""
    return Comparisons(
        of_placement(stated, statements) | _with_graph(graph, lambda graph: graph.of_placement(stated.instance)), ()
    )


def compare_plan(stated: Envelope, statements: Mapping[str, Any], graph: UserGraph | None) -> Comparisons:
    """Comparisons of the caller's statements and graph with the question of a plan of microbatches."""
    words = _by_graph(graph, words_of(PlanStepWords)) | of_plan(stated, statements)
    return Comparisons(words | _with_graph(graph, lambda graph: graph.of_plan(stated.instance)), ())


def compare_grid(stated: Envelope, statements: Mapping[str, Any], graph: UserGraph | None) -> Comparisons:
    """Comparisons of the caller's statements and graph with the question of a plan for a global batch."""
    made = _by_graph(graph, (*words_of(GridWords), *words_of(TrainedStepWords), "runtime"))
    words = made | of_grid(stated, statements)
    return Comparisons(words | _with_graph(graph, lambda graph: graph.of_grid(stated.instance)), ())


def compare_flow(stated: Envelope, statements: Mapping[str, Any], graph: UserGraph | None) -> Comparisons:
    """Comparisons of the caller's statements and graph with the question of a flow: its decoder and devices."""
    words = _by_graph(graph, ("devices", "memory", "bandwidth"))
    if (steps := stated.instance.steps) is not None:
        in_flight = "any number" if steps.in_flight is None else steps.in_flight
        words["in_flight"] = lambda: unlike("in_flight", in_flight, statements["in_flight"])
    return Comparisons(words | _with_graph(graph, lambda graph: graph.of_flow(stated.instance)), ())


def without_graph(name: str) -> InputError:
    """The error that a keyword argument was given without the graph with which it is compared."""
    return InputError(f"{word(name)} is compared together with {word('graph')} alone; give that, too.")


def _by_graph(graph: UserGraph | None, names: Iterable[str]) -> Compare:
    """For each keyword that is compared as part of the graph, a function that raises an error without a graph."""

    def compare(name: str) -> str | None:
        if graph is None:
            raise without_graph(name)
        return None

    return {name: partial(compare, name) for name in names}


def compare_deployment(stated: Envelope, statements: Mapping[str, Any], graph: UserGraph | None) -> Comparisons:
    """Comparisons of the caller's statements and graph with the question of a deployment.

    Decoder, servers, traffic and limits are compared.
    """
    words = of_deployment(stated, statements)
    return Comparisons(words | _with_graph(graph, lambda graph: graph.of_deployment(stated.instance)), ())


def _with_graph(graph: UserGraph | None, other: Callable[[UserGraph], str | None]) -> Compare:
    """The keyword of the graph, with a function that compares a stated graph; None without one."""

    def compare() -> str | None:
        fault = None if graph is None else other(graph)
        return None if graph is None or fault is None else f"it is not {graph.name}: {fault}"

    return {"graph": compare}


def _other_members(true: Any, asked: Any) -> str | None:
    """First difference between two questions, short members first; None if they are equal."""
    return _other_member("", *(nameless(question.document()) for question in (true, asked)))


def _other_member(place: str, true: Any, asked: Any) -> str | None:
    """First difference between two JSON values; None if they are equal."""
    if true == asked:
        return None
    if isinstance(true, dict) and isinstance(asked, dict):
        names = sorted({*true, *asked}, key=lambda name: (len(str(true.get(name))), name))
        pairs = [(f"{place}.{name}".lstrip("."), true.get(name), asked.get(name)) for name in names]
    elif isinstance(true, list) and isinstance(asked, list):
        if len(true) != len(asked):
            return f"{place} has {how_many(len(true), 'item')}, there {len(asked)}"
        pairs = [(f"{place}[{i}]", *items) for i, items in enumerate(zip(true, asked, strict=True))]
    else:
        texts = ("missing" if item is None else printable(str(item)) for item in (true, asked))
        return "{} is {}, there {}".format(place, *texts)
    return next(filter(None, (_other_member(*pair) for pair in pairs)))


def _other_graph(stated: ComputationGraph, graph: ComputationGraph) -> str | None:
    if (stated.n, stated.m) != (graph.n, graph.m):
        return f"{stated.n} nodes and {stated.m} edges against {graph.n} and {graph.m}"
    for v, (name, other) in enumerate(zip(stated.names, graph.names, strict=True)):
        if name != other:
            return f"node {v} is called {name!r}, there {other!r}"
    for v in (stated.work != graph.work).nonzero()[0][:1].tolist():
        return f"the work of node {v} ({graph.names[v]}) is {float(stated.work[v])!r}, there {float(graph.work[v])!r}"
    if stated.content_hash != graph.content_hash or stated.time_unit != graph.time_unit:
        return "edges, bytes, parameters or units are others"
    return None


def _other_chain(stated: LayerChain, chain: LayerChain) -> str | None:
    if stated.n != chain.n:
        return f"{stated.n} layers against {chain.n}"
    for layer, (name, other) in enumerate(zip(stated.names, chain.names, strict=True)):
        if name != other:
            return f"layer {layer} is called {name!r}, there {other!r}"
    for layer in (stated.forward != chain.forward).nonzero()[0][:1].tolist():
        times = f"{float(stated.forward[layer])!r}, there {float(chain.forward[layer])!r}"
        return f"the forward time of layer {layer} ({chain.names[layer]}) is {times}"
    return None if stated.content_hash == chain.content_hash else "backward times, bytes or parameters are others"


def _fault_of_runtime(front: StatedServing) -> str | None:
    """How the constraints of a front differ from those of its runtime; None if they agree or it has no source."""
    if front.source is None:
        return None
    try:
        rules = runtime_rules(front.runtime, front.instance.graph)
        true = rules.canonical(front.instance.k)
    except InputError as error:
        return f"runtime: {error}"
    if not front.instance.is_alike:  # idle devices aside, any cut between its nodes is legal
        every = tuple(range(front.instance.graph.n))
        free = not rules.together and all(set(nodes) == set(every) for _, nodes in rules.at_least)
        return None if free else f"question.decoder.layer: {front.runtime!r} does not cut between all of these nodes"
    same = true == front.instance.constraints.canonical(front.instance.k)
    return None if same else f"question.constraints: they are not those of the runtime {front.runtime!r}"
