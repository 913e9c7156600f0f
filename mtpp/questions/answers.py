"""Answers that are given: as objects, or as files whose costs are computed anew."""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias

from instances import InputError, Instance, Partition, Result
from instances.errors import word
from instances.json_files import read_json
from instances.partitioning.answer_file import AnswerFile
from instances.partitioning.partition_file import check_same_question, partition_from_document
from mtpp.questions.partitioning import PartitioningWords, rules_of, runtime_of
from mtpp.questions.platforms import platform_of
from mtpp.questions.reading import ReadingWords, read_graph
from mtpp.questions.words import GraphLike, chosen, pick

if TYPE_CHECKING:
    from collections.abc import Mapping

    from instances.certificates.claims import Claim

__all__ = ["PartitionLike", "as_partition", "given_partition", "partition_of_file"]

#: A partition, what is proved of one, or a file.
PartitionLike: TypeAlias = "Partition | Result | str | PathLike[str]"


def as_partition(start: Partition | Result | str | PathLike[str] | None, instance: Instance) -> Partition | None:
    """A partition of a question, given as itself, with what is proved of it, or in a file.

    Raises
    ------
    InputError
        If there is none in it, or it is of another question.
    """
    if not isinstance(start, str | PathLike):
        return given_partition(start)
    document = read_json(fspath(start))
    answer = AnswerFile(document)
    if not answer.holds_graph:
        return partition_from_document(document, instance)
    known, _ = answer.certified()
    graph = known.instance.graph
    check_same_question(document, graph.name, graph.content_hash, known.instance.k, instance)
    try:
        return Partition(instance, known.block, known.order)
    except InputError as error:
        document.fail(str(error))


def given_partition(start: Partition | Result | None) -> Partition | None:
    """A partition that is given as itself or with what is proved of it.

    Raises
    ------
    InputError
        If there is none, or it is something else.
    """
    if isinstance(start, Result):
        if start.partition is None:
            raise InputError(f"{start.method} found no partition to start from; give one, or leave it out.")
        return start.partition
    if start is not None and not isinstance(start, Partition):
        raise InputError(f"A partition, a result or a file is needed here, no {type(start).__name__}.")
    return start


def partition_of_file(
    file: str, answer: AnswerFile, graph: GraphLike | None, words: PartitioningWords, again: str
) -> tuple[Partition, tuple[Claim, ...]]:
    """The partition of a file, and the bounds that it states.

    Parameters
    ----------
    file : str
        Its name, for messages.
    answer : AnswerFile
    graph : GraphLike, optional
        That of the partition; a certificate holds its own.
    words : PartitioningWords
        Of the question, in place of those of the file.
    again : str
        How to name the graph, for messages.

    Raises
    ------
    InputError
        If graph or words are missing, in vain or refused.
    """
    if answer.holds_graph:
        if graph is not None or chosen(PartitioningWords, words):
            raise InputError(
                f"{file}: a certificate holds its graph and platform; leave out all that says another one."
            )
        return answer.certified()
    if words["devices"] is not None:
        raise InputError(f"{file}: its blocks have no kinds of devices; leave {word('devices')} out.")
    if graph is None:
        raise InputError(f"{file}: it does not hold its graph; name that: {again}")
    loaded = graph.graph if isinstance(graph, Instance) else read_graph(graph, pick(ReadingWords, words))
    if words["runtime"] is not None and answer.graph_hash not in (None, loaded.content_hash):
        loaded = runtime_of(words["runtime"]).seen(loaded)
    costs, rules = words["communication"] == "cost", words["constraints"]

    def platform(k: int, stated: Mapping[str, float | None]) -> Any:
        return platform_of(loaded, k, words, stated, costs=costs)

    partition = answer.partition(loaded, platform, None if rules is None else rules_of(rules, loaded))
    return partition, ()
