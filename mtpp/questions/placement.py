"""Questions of flow, serving and placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from instances import ComputationGraph
from instances.architectures import ARCHITECTURES
from instances.errors import InputError, WordError, assume, nearest, word
from instances.flow.decoder import flow_of_decoder
from instances.flow.problem import FlowInstance, read_flow_question
from instances.graph.display import how_many
from instances.graph.tensors import FloatArray
from instances.machines import MOST_DEVICES, Kind, Machines
from instances.placement.problem import PlacementInstance
from instances.readers.huggingface.files import find_architecture
from instances.runtimes.serving import DEFAULT_LINK
from mtpp.questions.partitioning import (
    DEFAULT_BANDWIDTH,
    DeviceMemoryWords,
    DevicesWords,
    assumed_bandwidth,
    bandwidth_of,
    counts_of,
    devices_of,
    disregard_device,
    memory_limits,
    memory_of,
    work_on_kind,
    works_of_kinds,
)
from mtpp.questions.reading import (
    DeviceWords,
    ReadingWords,
    StepWords,
    WeightsWords,
    decode_dims,
    is_decoder,
    read_graph,
)
from mtpp.questions.words import (
    LIMITS,
    MACHINES,
    SEARCH,
    GraphLike,
    SeedWords,
    SolverWords,
    Word,
    checked,
    chosen,
    pick,
)
from mtpp.text.numbers import Quantity, parse_bandwidth

if TYPE_CHECKING:
    import networkx as nx


# The question of flow: a file or an instance, or a decoder and the devices of a cluster.


#: A question of flow or its file, or a decoder: an architecture or a configuration.
FlowLike = FlowInstance | str | PathLike[str]


class ClusterWords(DevicesWords, DeviceWords, WeightsWords, total=False):
    """Keyword arguments: the devices on which a decoder runs."""

    dims: Annotated[
        Mapping[str, int | str] | None,
        Word(
            "Dimension of the decoder, such as context=4096 or phase=prefill; batch is the most sequences that a "
            "device works at in a step, fewer where the caches of all in flight do not fit; may be repeated.",
            metavar="NAME=N",
            basic=True,
        ),
    ]
    memory: Annotated[
        Quantity | None,
        Word("The most of a device: 24GB, 24GiB.  [default: that of its kind]", None, "BYTES", MACHINES, basic=True),
    ]
    bandwidth: Annotated[
        Quantity | None,
        Word("Of devices whose kind states none.  [default: 64GB/s]", None, "RATE", MACHINES, basic=True),
    ]
    in_flight: Annotated[
        int | None,
        Word(
            "Batches in flight, at most one a device; devices hold the caches of all.  [default: what is best]",
            None,
            "M",
            basic=True,
            least=1,
        ),
    ]


class SearchOnlyWords(TypedDict, total=False):
    """Keyword arguments: whether to skip the proof."""

    search_only: Annotated[
        bool, Word("Search alone, without a proof of how good the answer is.", False, panel=SEARCH, basic=True)
    ]


class FlowWords(ClusterWords, SearchOnlyWords, SeedWords, total=False):
    """Keyword arguments of `mtpp.flow` that state its question."""

    time_limit: Annotated[
        float | None, Word("For search and proof together, or none.", 20.0, "SECONDS", LIMITS, basic=True)
    ]


def flow_instance(question: FlowLike, words: ClusterWords) -> FlowInstance:
    """The question of a file or an instance, or of a decoder on given devices.

    Raises
    ------
    InputError
        If the file states no such question, or a keyword argument is refused.
    """
    if isinstance(question, FlowInstance):
        _refuse(words)
        return question
    if not isinstance(question, str | PathLike):
        raise InputError(f"A question of flow, its file or a decoder is needed here, no {type(question).__name__}.")
    if words["devices"] is None and find_architecture(question) is None:
        _refuse(words)
        return read_flow_question(fspath(question))
    if words["devices"] is None:
        raise InputError(f"{word('devices')} is missing; give those on which {fspath(question)} runs.")
    if not is_decoder(question):
        names = [name for name, architecture in ARCHITECTURES.items() if architecture.served]
        rest = f"give {', '.join(names)} or a config.json with {word('devices')}, or a question of flow without"
        text = fspath(question)
        raise InputError(f"{text}: it is no decoder whose batch can change{nearest(names, text, rest)}")
    return _of_decoder(question, words)


def _refuse(words: ClusterWords) -> None:
    for name in chosen(ClusterWords, words):
        raise WordError(name, words[name], "a question of flow has its own layers and devices; leave it out.")  # type: ignore[literal-required]


def _of_decoder(question: str | PathLike[str], words: ClusterWords) -> FlowInstance:
    limit, _ = memory_limits(words["memory"], None)
    bandwidth = words["bandwidth"]
    rate = assumed_bandwidth(DEFAULT_LINK) if bandwidth is None else parse_bandwidth(bandwidth)
    assert words["devices"] is not None
    devices = devices_of(words["devices"], rate, limit)
    dims = decode_dims(words["dims"])
    reading = checked(ReadingWords, {**pick(DeviceWords, words), **pick(WeightsWords, words), "dims": dims})

    loaded = read_graph(question, reading)
    disregard_device(devices)

    def work(kind: Kind, batch: int) -> FloatArray:
        batched: ReadingWords = {**reading, "dims": {**dims, "batch": batch}}
        return work_on_kind(question, loaded if kind.roofline else read_graph(question, batched), kind, batched)

    return flow_of_decoder(loaded, devices, rate, work, _batches_in_flight(devices.total, dims, words))


def _batches_in_flight(count: int, dims: Mapping[str, int | str], words: ClusterWords) -> int | None:
    """Number of batches in flight, None for any; a `WordError` if it is impossible."""
    in_flight = words["in_flight"]
    if in_flight is None and dims["phase"] == "decode":
        assume("in_flight", "the best number of batches in flight")
    if in_flight is not None and dims["phase"] != "decode":
        raise WordError("in_flight", in_flight, "prompts of prefill pass once, and do not wait; leave it out.")
    if in_flight is not None and in_flight > count:
        busy = f"{how_many(count, 'device')} work at {how_many(count, 'batch')}"
        raise WordError("in_flight", in_flight, f"{busy} at most; give 1 to {count}.")
    return in_flight


# The question of placement: the nodes of one step, and devices without an order.


class PlacementWords(StepWords, DeviceMemoryWords, total=False):
    """Keyword arguments of placement, without graph and k."""

    bandwidth: Annotated[
        Quantity | None,
        Word(
            "Out of each device: 25GB/s, 200Gbps, or a bare number, the bytes per unit of work time.  [default: "
            "7.6e9 for a family, else 25GB/s]",
            metavar="RATE",
            panel=MACHINES,
            basic=True,
        ),
    ]
    devices: Annotated[
        Machines | str | PathLike[str] | None,
        Word(
            "Devices of several kinds, as 4xA100,6xL4@1.25GB/s (mtpp list devices), or a file (mtpp-devices/2, or a "
            "table, mtpp-devices/1).  [default: k devices that are alike]",
            None,
            "KINDS|FILE",
            MACHINES,
            basic=True,
        ),
    ]


class PlaceWords(PlacementWords, SearchOnlyWords, SeedWords, SolverWords, total=False):
    """Keyword arguments of `mtpp.place`."""

    groups: Annotated[
        int | None, Word("Search with at most N groups of nodes.  [default: single nodes]", None, "N", LIMITS, least=1)
    ]
    policy: Annotated[
        str | PathLike[str] | None,
        Word("A checkpoint for the method placeto.  [default: train for this graph alone]", None, "FILE", SEARCH),
    ]
    time_limit: Annotated[
        float | None, Word("For the search, and as much for the proof, or none.", 5.0, "SECONDS", LIMITS, basic=True)
    ]
    solver: Annotated[str, Word("See mtpp list solvers.", "highs", "NAME", SEARCH)]
    threads: Annotated[int, Word("Threads of the solver.", 1, "N", LIMITS)]


def placement_instance(
    graph: str | PathLike[str] | ComputationGraph | nx.DiGraph[Any] | PlacementInstance,
    k: int | None,
    words: PlacementWords,
) -> PlacementInstance:
    """The problem of placing the nodes of a step on devices.

    Raises
    ------
    InputError
        If a keyword argument or the graph is refused.
    """
    if k is not None:
        k, *more = counts_of(k)
        if more:
            raise WordError("k", [k, *more], "give one number of devices.")
    if isinstance(graph, PlacementInstance):
        if names := chosen(PlacementWords, words):
            raise InputError(
                f"The instance {graph.graph.name!r} is a whole question; leave out {', '.join(map(word, names))}."
            )
        if k in (None, graph.devices):
            return graph
        if not graph.is_symmetric:
            raise WordError("k", k, f"the instance has {graph.devices} devices; leave it out.")
        return replace(graph, machines=graph.machines.subset([k]))
    loaded, bandwidth = _graph(graph, words)
    memory = memory_of(words["memory"])
    if memory == 0:
        raise WordError("memory", words["memory"], "it must be positive.")
    if words["devices"] is None:
        if k is None:
            raise InputError(f"The number of devices is missing; give {word('k')} or {word('devices')}.")
        if k > MOST_DEVICES:
            raise WordError("k", k, f"give at most {MOST_DEVICES} devices.")
        return PlacementInstance(loaded, Machines.alike(k, bandwidth, memory))
    machines = devices_of(words["devices"], bandwidth, memory, order="fixed").in_sequence
    if k not in (None, machines.total):
        raise WordError("k", k, f"there are {machines.total} devices, and each takes part; leave it out.")
    return PlacementInstance(loaded, machines, works=placement_works(graph, loaded, machines, words))


def placement_works(
    graph: GraphLike, loaded: ComputationGraph, machines: Machines, words: Mapping[str, Any]
) -> FloatArray | None:
    """(T, n) work of each node on each kind; None if all kinds state a speed."""
    if all(kind.roofline is None for kind in machines.kinds):
        return None
    return works_of_kinds(graph, loaded, machines, checked(ReadingWords, pick(ReadingWords, words)))


def _graph(graph: object, words: PlacementWords) -> tuple[ComputationGraph, float]:
    """The graph, and the bandwidth of each device."""
    from instances.placement.networks import BANDWIDTH, family_graph

    family = family_graph(graph) if isinstance(graph, str) else None
    if family is not None and chosen(StepWords, words):
        names = (word(name) for name in ("dims", "training", "reader"))
        raise InputError(f"{graph}: this graph has no options; leave out {', '.join(names)} and the like.")
    loaded = read_graph(graph, checked(ReadingWords, pick(StepWords, words))) if family is None else family
    return loaded, bandwidth_of(loaded, words["bandwidth"], DEFAULT_BANDWIDTH if family is None else BANDWIDTH)
