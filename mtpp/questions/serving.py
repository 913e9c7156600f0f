"""The question of serving: a decoder cut into stages that hold caches of keys and values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import numpy as np

from instances import InputError, Instance, Platform
from instances.errors import WordError, printable, word
from instances.registry import find
from mtpp.questions.kinds import DevicesWords, devices_of, works_of_kinds
from mtpp.questions.partitioning import counts_of
from mtpp.questions.platforms import bandwidth_of, memory_limits
from mtpp.questions.reading import DecoderWords, ReadingWords, read_graph
from mtpp.questions.words import GraphLike, Word, checked, pick
from mtpp.text.parsing import Quantity

if TYPE_CHECKING:
    from instances import ComputationGraph
    from instances.partitioning.serving import ServingInstance
    from instances.runtimes import Runtime

__all__ = ["ORDERS", "ServingWords", "decoder_of", "layer_runtime", "serving_instance"]

#: Which point of the front is the answer, by what counts first.
ORDERS = {"bottleneck": 0, "capacity": -1}


class ServingWords(DevicesWords, DecoderWords, total=False):
    """Words of `mtpp.serve`."""

    bandwidth: Annotated[Quantity | None, Word("Between stages.  [default: 64GB/s]", metavar="RATE")]
    runtime: Annotated[str, Word("Cuts that this runtime can express.", "vllm", "NAME")]
    first: Annotated[str, Word("What counts first in the answer.", "bottleneck", "bottleneck|capacity")]


def layer_runtime(name: str) -> Runtime:
    """The runtime of this name, which takes layers.

    Raises
    ------
    InputError
        If there is none, or it takes the stage of each operator.
    """
    from instances.runtimes import RUNTIMES
    from instances.runtimes.runtime import NodeRuntime

    found = find(RUNTIMES, name, "runtime")
    if isinstance(found, NodeRuntime):
        raise WordError(
            "runtime",
            name,
            "it takes the stage of each operator, and layers are cut here; name a runtime of layers.",
        )
    return found


def serving_instance(
    graph: GraphLike, k: int | str | None, memory: Quantity | None, words: ServingWords
) -> ServingInstance:
    """The decoder as a chain of layers, and the devices.

    Raises
    ------
    InputError
        If a word or the graph is refused.
    """
    from instances.runtimes.serving_chain import DEFAULT_LINK, serving_chain

    if k is None and words["devices"] is None:
        raise InputError(f"{word('k')} is missing; give the number of stages.")
    count, *more = [None] if k is None else counts_of(k)
    if more:
        raise WordError("k", k, "give one number of stages.")
    runtime = layer_runtime(words["runtime"])
    find(ORDERS, words["first"], "order")
    loaded = decoder_of(graph, pick(DecoderWords, words))
    limit, _ = memory_limits(memory, None)
    rate = bandwidth_of(loaded, words["bandwidth"], DEFAULT_LINK)
    if words["devices"] is None:
        if memory is None:
            raise InputError(f"{word('memory')} is missing; give that of a device.")
        return serving_chain(loaded, Platform(count or 1, rate, limit, fit=True), runtime)
    devices = devices_of(words["devices"], rate, limit)
    for kind in devices.kinds:
        if kind.memory == math.inf:
            raise WordError(
                "memory", None, f"kind {printable(kind.name)} has no limit, and any context fits; give one."
            )
    works = works_of_kinds(graph, loaded, devices, _decoding(graph, pick(DecoderWords, words)))
    asked = Instance(loaded, replace(devices, bandwidth=rate), k=count, works=works, fit=True)
    if asked.is_alike:
        return serving_chain(asked.graph, asked.platform, runtime)
    seen = np.array([runtime.seen(replace(loaded, work=row)).work for row in works])
    return serving_chain(loaded, asked.platform, runtime, devices, seen)


def decoder_of(graph: GraphLike, words: DecoderWords) -> ComputationGraph:
    """The operators of a decoder; an architecture without a phase is priced for decoding."""
    return read_graph(graph, _decoding(graph, words))


def _decoding(graph: GraphLike, words: DecoderWords) -> ReadingWords:
    from instances.readers.huggingface.files import find_architecture

    reading = dict(words)
    network = find_architecture(graph)
    if network is not None and network.served:
        reading["dims"] = {"phase": "decode", **(words.get("dims") or {})}
    return checked(ReadingWords, reading)
