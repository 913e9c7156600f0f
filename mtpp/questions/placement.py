"""The question of placement: the nodes of one step, and devices without an order."""

from __future__ import annotations

import math
from os import PathLike, fspath
from typing import TYPE_CHECKING, Annotated, Any

from instances.devices.unequal import DeviceTable, read_devices
from instances.errors import InputError, WordError, word
from instances.placement.problem import PlacementInstance
from mtpp.questions.partitioning import counts_of
from mtpp.questions.platforms import DEFAULT_BANDWIDTH, DeviceMemoryWords, bandwidth_of
from mtpp.questions.reading import ReadingWords, StepWords, read_graph
from mtpp.questions.solving import SEARCH, SeedWords
from mtpp.questions.words import Word, checked, chosen, pick
from mtpp.text.parsing import Quantity, parse_bytes

if TYPE_CHECKING:
    import networkx as nx

    from instances import ComputationGraph

__all__ = ["PlaceWords", "PlacementWords", "placement_instance"]


class PlacementWords(StepWords, DeviceMemoryWords, total=False):
    """A question of placement, but for its graph and k."""

    bandwidth: Annotated[
        Quantity | None,
        Word(
            "Out of each device: 25GB/s, 200Gbps, or a bare number, the bytes per unit of work time.  [default: "
            "7.6e9 for a family, else 25GB/s]",
            metavar="RATE",
        ),
    ]
    unequal: Annotated[
        str | PathLike[str] | DeviceTable | None,
        Word("Speeds of unequal devices, also memories and rates if they differ (mtpp-devices/1).", metavar="FILE"),
    ]


class PlaceWords(PlacementWords, SeedWords, total=False):
    """Words of `mtpp.place`."""

    groups: Annotated[
        int | None,
        Word("Search with at most N groups of nodes.  [default: single nodes]", None, "N", SEARCH, least=1),
    ]
    policy: Annotated[
        str | PathLike[str] | None,
        Word("A checkpoint for the method placeto.  [default: fast, which comes along]", None, "FILE", SEARCH),
    ]
    time_limit: Annotated[
        float | None, Word("Of the search, and as much again of the proof, or none.", 5.0, "SECONDS", SEARCH)
    ]
    certify: Annotated[
        bool, Word("Prove how good the placement is, also with solvers if it is small.", False, panel=SEARCH)
    ]
    solver: Annotated[str, Word("See mtpp list solvers.", "highs", "NAME", SEARCH)]
    threads: Annotated[int, Word("Threads of the solver.", 1, "N", SEARCH)]


def placement_instance(
    graph: str | PathLike[str] | ComputationGraph | nx.DiGraph[Any] | PlacementInstance,
    k: int | None,
    words: PlacementWords,
) -> PlacementInstance:
    """The nodes of one step, and the devices.

    Raises
    ------
    InputError
        If a word or the graph is refused.
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
        return (
            graph
            if k in (None, graph.devices)
            else PlacementInstance(graph.graph, k or 1, graph.bandwidth, graph.memory, unequal=graph.unequal)
        )
    loaded, bandwidth = _graph(graph, words)
    memory = math.inf if words["memory"] is None else parse_bytes(words["memory"], "memory")
    unequal = words["unequal"]
    if unequal is not None:
        if not isinstance(unequal, DeviceTable):
            unequal = read_devices(fspath(unequal), bandwidth, memory)
        return PlacementInstance(loaded, k or len(unequal.speeds), bandwidth, unequal=unequal)
    if k is None:
        raise InputError(f"The number of devices is missing; give {word('k')}, or {word('unequal')} with a file.")
    return PlacementInstance(loaded, k, bandwidth, memory)


def _graph(graph: object, words: PlacementWords) -> tuple[ComputationGraph, float]:
    """The graph, and the bandwidth out of each device."""
    from instances.placement.networks import BANDWIDTH, family_graph

    family = family_graph(graph) if isinstance(graph, str) else None
    if family is not None and chosen(StepWords, words):
        names = (word(name) for name in ("dims", "training", "reader"))
        raise InputError(f"{graph}: this graph has no options; leave out {', '.join(names)} and the like.")
    loaded = read_graph(graph, checked(ReadingWords, pick(StepWords, words))) if family is None else family
    return loaded, bandwidth_of(loaded, words["bandwidth"], DEFAULT_BANDWIDTH if family is None else BANDWIDTH)
