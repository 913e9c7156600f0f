"""The question of stages: an ONNX model, how many stages or which ones, and their platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Annotated, Any, TypedDict

from instances import ComputationGraph, InputError, Instance, Partition, Platform, Result
from instances.architectures import ARCHITECTURES
from instances.deadline import LONGEST_TIME
from instances.errors import WordError, word
from instances.json_files import check_readable
from instances.partitioning.partition_file import AnswerFile
from instances.readers.onnx import recognises_onnx
from mtpp.questions.files import given_partition
from mtpp.questions.partitioning import (
    DevicesWords,
    MemoryWords,
    PartitioningWords,
    PlatformWords,
    Rules,
    instances_of,
    platform_of,
    rules_of,
)
from mtpp.questions.reading import ChainWords, DeviceWords, ReadingWords, read_graph
from mtpp.questions.words import FILES, LIMITS, MACHINES, SEARCH, SolvingWords, Word, checked, chosen, pick, words_of
from mtpp.text.numbers import Quantity

#: In place of a bandwidth: that of links between processes of this machine.
MEASURED = "measured"

_HEAD = 16


class ModelWords(DeviceWords, total=False):
    """Keyword arguments: how an ONNX model becomes a graph."""

    dims: Annotated[Mapping[str, int | str] | None, words_of(ReadingWords)["dims"][1]]
    cost: Annotated[str | None, words_of(ReadingWords)["cost"][1]]
    args: Annotated[Sequence[Any] | None, words_of(ReadingWords)["args"][1]]
    kwargs: Annotated[Mapping[str, Any] | None, words_of(ReadingWords)["kwargs"][1]]


class StagesWords(DevicesWords, MemoryWords, ModelWords, total=False):
    """Keyword arguments that state stages, without model and k."""

    bandwidth: Annotated[
        Quantity | None,
        Word("Between stages, or that of here.  [default: 25GB/s]", None, "RATE|measured", MACHINES, basic=True),
    ]
    constraints: Annotated[Rules, words_of(PartitioningWords)["constraints"][1]]


class SplitWords(StagesWords, SolvingWords, total=False):
    """Keyword arguments of `mtpp.split`."""

    samples: Annotated[bool, Word("Run the whole model once, to compare outputs with.", True, panel=FILES)]
    method: Annotated[
        str | None,
        Word("Search by this alone (mtpp list heuristics), and prove next to nothing.", None, "NAME", SEARCH),
    ]


class RunWords(TypedDict, total=False):
    """Keyword arguments of `mtpp.run`."""

    requests: Annotated[int, Word("That are measured.", 200, "N", LIMITS, basic=True, least=2, most=10**6)]
    queue: Annotated[int, Word("That wait between two stages.", 2, "N", LIMITS, least=1, most=64)]
    timeout: Annotated[
        float,
        Word(
            "Without progress, after which a stage is stopped.", 60.0, "SECONDS", LIMITS, least=0.1, most=LONGEST_TIME
        ),
    ]
    device: Annotated[
        str,
        Word(
            "Where stages run: cpu, cuda for a graphics card each (onnxruntime-gpu), or one of them for each stage, as "
            "cuda:1,cuda:0,cpu.",
            "cpu",
            "DEVICE[,DEVICE]",
            MACHINES,
            basic=True,
        ),
    ]
    fusion: Annotated[
        bool, Word("onnxruntime may fuse operators: faster, but not what was priced, nor the same digits.", False)
    ]
    compare: Annotated[
        str | PathLike[str] | None,
        Word("The whole model, measured on the same cores in one process and in copies.", metavar="MODEL", basic=True),
    ]


def stages_question(
    model: Path | ComputationGraph,
    k: int | None,
    partition: Partition | Result | str | PathLike[str] | None,
    words: StagesWords,
) -> tuple[Instance, Partition | None]:
    """The question of stages, and the given partition, if any.

    Raises
    ------
    InputError
        If a keyword argument, the model or the partition is refused.
    """
    if k is not None and partition is not None:
        raise WordError("k", k, f"{word('partition')} says the stages; leave one of them out.")
    if k is None and partition is None and words["devices"] is None:
        raise InputError(f"say how many stages there are with {word('k')}, or which ones with {word('partition')}.")
    if partition is None:
        instance, *more = instances_of(model, k, checked(PartitioningWords, dict(words)))
        if more:
            raise InputError(f"{word('k')}: give one number of stages.")
        return instance, None
    if not isinstance(partition, str | PathLike):
        cut = given_partition(partition)
        assert cut is not None
        return _of_certificate(model, cut, words, word("partition"), cut.instance.graph.attributes.get("dims"))
    answer = AnswerFile.read(fspath(partition))
    if answer.holds_graph:
        return _of_certificate(model, answer.certified()[0], words, fspath(partition), words["dims"])
    if words["devices"] is not None:
        raise WordError(
            "devices", None, f"{fspath(partition)} does not say the kind of each stage; give a certificate."
        )
    graph, rules = read_graph(model, checked(ReadingWords, pick(ModelWords, words))), words["constraints"]

    def platform_for(count: int, stated: Mapping[str, float | None]) -> Platform:
        return platform_of(graph, count, pick(PlatformWords, words), stated)

    cut = answer.partition(graph, platform_for, None if rules is None else rules_of(rules, graph))
    return cut.instance, cut


def _of_certificate(
    model: Path | ComputationGraph,
    partition: Partition,
    words: StagesWords,
    source: str,
    dims: Mapping[str, int | str] | None,
) -> tuple[Instance, Partition]:
    if names := [name for name in chosen(StagesWords, words) if name not in chosen(ChainWords, words)]:
        others = ", ".join(map(word, names))
        raise InputError(f"{source}: a certificate holds its question; leave out what says another: {others}.")
    reading = pick(ModelWords, words)
    reading["dims"] = dims
    _check_same(read_graph(model, checked(ReadingWords, reading)), partition.instance.graph, source)
    return partition.instance, partition


def check_model(path: Path) -> None:
    """Refuse a file that is not an ONNX model, before it is read.

    Raises
    ------
    InputError
        If the file is no ONNX model.
    """
    if path.suffix == ".pt2":
        raise InputError(
            f"{path}: the weights of a .pt2 are read by code that may run what is in it; split a program that you "
            "trust from Python: mtpp.split(torch.export.load(file), k)."
        )
    if not path.exists() and str(path) in ARCHITECTURES:
        raise InputError(f"{path}: an architecture has no weights; stages are made of an ONNX model.")
    check_readable(path)
    with path.open("rb") as file:
        if path.suffix != ".onnx" and not recognises_onnx(file.read(_HEAD)):
            raise InputError(f"{path}: this is no ONNX model, of which stages are made.")


def _check_same(graph: ComputationGraph, other: ComputationGraph, source: str) -> None:
    """Refuse a partition of another network; only its times may differ."""
    same = graph.names == other.names and graph.edges.tolist() == other.edges.tolist()
    if not same or graph.tensors.bytes.tolist() != other.tensors.bytes.tolist():
        raise InputError(
            f"{source}: the certificate is of another model or of other dimensions ('{other.name}', {other.n} nodes, "
            f"not '{graph.name}', {graph.n}); give one of this model."
        )
