"""The question of flow: a file or an instance, or a decoder and the devices of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Annotated

from instances.errors import InputError, WordError, word
from instances.flow.decoder import flow_of_decoder
from instances.flow.file import read_flow_question
from instances.flow.problem import FlowInstance
from instances.graph.tensors import FloatArray
from instances.machines import Kind
from instances.readers.huggingface.files import find_architecture
from instances.runtimes.serving_chain import DEFAULT_LINK
from mtpp.questions.kinds import DevicesWords, devices_of, work_on_kind
from mtpp.questions.platforms import memory_limits
from mtpp.questions.reading import DeviceWords, ReadingWords, read_graph
from mtpp.questions.solving import SEARCH, SeedWords
from mtpp.questions.words import Word, checked, chosen, pick
from mtpp.text.parsing import Quantity, parse_bandwidth

__all__ = ["FlowLike", "FlowWords", "flow_instance"]

#: A question of flow or its file, or a decoder: an architecture or a configuration.
FlowLike = FlowInstance | str | PathLike[str]


class ClusterWords(DevicesWords, DeviceWords, total=False):
    """The devices on which a decoder runs."""

    dims: Annotated[
        Mapping[str, int | str] | None,
        Word(
            "Dimension of the decoder, such as context=4096 or phase=prefill; batch is the most sequences that a "
            "device works at in a step, fewer where their caches do not fit; may be repeated.",
            metavar="NAME=N",
        ),
    ]
    memory: Annotated[Quantity | None, Word("Of devices whose kind states none: 24GB, 24GiB.", metavar="BYTES")]
    bandwidth: Annotated[Quantity | None, Word("Of devices whose kind states none.  [default: 64GB/s]", metavar="RATE")]


class FlowWords(ClusterWords, SeedWords, total=False):
    """Words of `mtpp.flow`."""

    certify: Annotated[bool, Word("Prove how good the flow is.", False, panel=SEARCH)]
    time_limit: Annotated[float | None, Word("For search and proof together, or none.", 20.0, "SECONDS", SEARCH)]


def flow_instance(question: FlowLike, words: ClusterWords) -> FlowInstance:
    """The question of a file or an instance, or of a decoder on the devices of the words.

    Raises
    ------
    InputError
        If it is none.
    """
    if isinstance(question, FlowInstance):
        _refuse(words)
        return question
    if not isinstance(question, str | PathLike):
        raise InputError(f"A question of flow, its file or a decoder is needed here, no {type(question).__name__}.")
    network = find_architecture(question)
    if network is None and words["devices"] is None:
        _refuse(words)
        return read_flow_question(fspath(question))
    if words["devices"] is None:
        raise InputError(f"{word('devices')} is missing; give those on which {fspath(question)} runs.")
    if network is None or not network.served:
        raise InputError(
            f"{fspath(question)}: it is no decoder whose batch can change; give an architecture that is one, or a "
            f"config.json with {word('devices')}, or a question of flow without."
        )
    return _of_decoder(question, words)


def _refuse(words: ClusterWords) -> None:
    for name in chosen(ClusterWords, words):
        raise WordError(name, words[name], "a question of flow has its own layers and devices; leave it out.")  # type: ignore[literal-required]


def _of_decoder(question: str | PathLike[str], words: ClusterWords) -> FlowInstance:
    limit, _ = memory_limits(words["memory"], None)
    rate = DEFAULT_LINK if words["bandwidth"] is None else parse_bandwidth(words["bandwidth"])
    assert words["devices"] is not None
    devices = devices_of(words["devices"], rate, limit)
    dims = {"phase": "decode", **(words["dims"] or {})}
    reading = checked(ReadingWords, {**pick(DeviceWords, words), "dims": dims})

    loaded = read_graph(question, reading)

    def work(kind: Kind, batch: int) -> FloatArray:
        own: ReadingWords = {**reading, "dims": {**dims, "batch": batch}}
        return work_on_kind(question, loaded if kind.roofline else read_graph(question, own), kind, own)

    return flow_of_decoder(loaded, devices, rate, work)
