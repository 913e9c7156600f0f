"""Statements of a caller on the question of a file, held against the question that it answers.

Each statement is read as by the verb that wrote the file: a bandwidth in the time unit of its graph, a cluster as
`mtpp plan` takes it, constraints in the names of its nodes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast

import numpy as np

from instances import ComputationGraph, InputError, Instance
from instances.certificates.claims import Envelope
from instances.devices.unequal import DeviceTable, read_devices
from instances.errors import WordError, word
from instances.graph.display import figures
from instances.partitioning.kinds.problem import UnlikeInstance
from instances.partitioning.kinds.works import places_of_kinds
from instances.partitioning.question_lines import rule_lines
from instances.planning.grid import GridInstance
from mtpp.questions.clusters import load_cluster
from mtpp.questions.partitioning import Blocks, Rules, counts_of, rules_of, runtime_rules
from mtpp.questions.platforms import bandwidth_of
from mtpp.questions.words import Word
from mtpp.text.parsing import Quantity, parse_bytes

if TYPE_CHECKING:
    from instances.partitioning.stated_serving import StatedServing
    from instances.placement.problem import PlacementInstance
    from instances.planning.problem import TrainingInstance

__all__ = ["StatementWords", "statements"]

_PANEL = "The question that the file has to answer"
_HASH = re.compile(r"[0-9a-f]{16,64}")


class StatementWords(TypedDict, total=False):
    """Statements of a caller on a question; all that is None is not compared."""

    question: Annotated[str | object | None, Word("Its hash, as the other verbs print it.", None, "HASH", _PANEL)]
    k: Annotated[Blocks | None, Word("Number of blocks, stages or devices.", None, "K", _PANEL)]
    bandwidth: Annotated[Quantity | None, Word("Between blocks or devices.", None, "RATE[,RATE]", _PANEL)]
    memory: Annotated[Quantity | None, Word("Of a block or device.", None, "BYTES", _PANEL)]
    activation_buffer: Annotated[
        Quantity | None, Word("Part of the memory that is kept for activations.", None, "BYTES", _PANEL)
    ]
    fit: Annotated[bool | None, Word("Whether the memory is a hard limit.", None, panel=_PANEL)]
    constraints: Annotated[Rules, Word("Side constraints (mtpp-constraints/1).", None, "FILE", _PANEL)]
    runtime: Annotated[str | None, Word("The runtime that has to express the cut.", None, "NAME", _PANEL)]
    unequal: Annotated[
        str | PathLike[str] | DeviceTable | None, Word("Unequal devices (mtpp-devices/1).", None, "FILE", _PANEL)
    ]
    cluster: Annotated[str | object | None, Word("Cluster of a plan, as mtpp plan takes it.", None, "CLUSTER", _PANEL)]
    microbatches: Annotated[int | None, Word("Microbatches of a plan.", None, "M", _PANEL)]
    dtype: Annotated[str | None, Word("Element type of a plan.", None, "NAME", _PANEL)]
    sequence: Annotated[int | None, Word("Tokens of a sample of a plan.", None, "N", _PANEL)]


#: A word that was compared, and the difference; None if there is none.
Compared = tuple[str, str | None]


def statements(stated: Envelope, words: StatementWords) -> Iterator[Compared]:
    """Yield each word that is stated, with the difference between it and the question of a file.

    Raises
    ------
    InputError
        If a word is refused, or means nothing for the problem of the file.
    """
    given = {name: words.get(name) for name in StatementWords.__annotations__ if words.get(name) is not None}
    if (question := given.pop("question", None)) is not None:
        yield "question", _other_question(stated, question)
    compare = _BY_ANSWER.get(stated.answer_name, _of_blocks)(stated, given)
    for name in given:
        if name not in compare:
            raise InputError(
                f"{stated.file}: {word(name)} says nothing of {_ARTICLES[stated.answer_name]}; leave it out."
            )
        found = compare[name]()
        yield name, found


_ARTICLES = {
    "partition": "a partition",
    "plan": "a plan",
    "placement": "a placement",
    "front": "a serving front",
    "placement of layers": "a flow",
}


def _other_question(stated: Envelope, question: Any) -> str | None:
    """Compare with a hash, or with a question or a result that has one."""
    if isinstance(question, str):
        if not _HASH.fullmatch(question.lower()):
            raise WordError("question", question, "a hash has 64 hexadecimal digits, of which 16 or more are given.")
        same = stated.true_hash.startswith(question.lower())
        return None if same else f"its hash is {stated.true_hash}, you ask for {question.lower()}"
    asked = getattr(question, "instance", question) if not isinstance(question, Instance) else question
    if not isinstance(getattr(asked, "question_hash", None), str):
        raise InputError(f"A question is an instance, a result or a hash, no {type(question).__name__}.")
    if asked.question_hash == stated.true_hash:
        return None
    if asked.question_words != stated.question_words:
        return f"it is {stated.question_words}; you ask for {asked.question_words}"
    return f"nodes, edges or constraints differ: its hash is {stated.true_hash}, you ask for {asked.question_hash}"


def _of_blocks(stated: Envelope, given: Mapping[str, Any]) -> dict[str, Callable[[], str | None]]:
    """Statements of partitions and of serving fronts."""
    instance: Instance = stated.instance
    platform = instance.platform

    def rules() -> str | None:
        if stated.answer_name == "front" and "constraints" not in given:
            front: StatedServing = cast("StatedServing", stated)
            return _unlike("runtime", front.runtime, given["runtime"])
        asked = rules_of(given.get("constraints"), instance.graph)
        if "runtime" in given:
            asked += runtime_rules(given["runtime"], instance.graph)
        same = list(rule_lines(asked, instance.k)) == list(rule_lines(instance.constraints, instance.k))
        if isinstance(instance, UnlikeInstance):
            same &= np.array_equal(places_of_kinds(instance.graph, instance.devices, asked), instance.able)
        else:
            same &= not asked.on
        return None if same else "its constraints are not those that you ask for"

    return {
        "k": lambda: _unlike("k", platform.k, _one(given["k"])),
        "bandwidth": lambda: _rate(instance.graph, platform.bandwidth, given["bandwidth"]),
        "memory": lambda: _size("memory", platform.memory, given["memory"]),
        "activation_buffer": lambda: _size("activation_buffer", platform.activation_buffer, given["activation_buffer"]),
        "fit": lambda: _unlike("fit", platform.fit, given["fit"]),
        "constraints": rules,
        "runtime": rules,
    }


def _of_placement(stated: Envelope, given: Mapping[str, Any]) -> dict[str, Callable[[], str | None]]:
    instance: PlacementInstance = stated.instance

    def devices() -> str | None:
        asked = given["unequal"]
        if not isinstance(asked, DeviceTable):
            rate = bandwidth_of(instance.graph, given.get("bandwidth"), math.inf)
            limit = math.inf if "memory" not in given else parse_bytes(given["memory"], "memory")
            asked = read_devices(fspath(asked), rate, limit)
        return None if asked == instance.unequal else "its devices are not those that you ask for"

    return {
        "k": lambda: _unlike("k", instance.devices, _one(given["k"])),
        "bandwidth": lambda: _rate(instance.graph, instance.bandwidth, given["bandwidth"]),
        "memory": lambda: _size("memory", instance.memory, given["memory"]),
        "unequal": devices,
    }


def _of_plan(stated: Envelope, given: Mapping[str, Any]) -> dict[str, Callable[[], str | None]]:
    if isinstance(stated.instance, GridInstance):
        memory = stated.instance.memory
        return {"memory": lambda: _size("memory", memory, given["memory"])}
    instance: TrainingInstance = stated.instance

    def cluster() -> str | None:
        servers = "+".join(f"1x{size}" for size in instance.cluster.servers)
        asked = load_cluster(given.get("cluster", servers), given.get("bandwidth"))
        if asked.servers != instance.cluster.servers:
            return f"its cluster has servers of {instance.cluster.servers} devices, you ask for {asked.servers}"
        same = np.array_equal(asked.bandwidth, instance.cluster.bandwidth)
        return None if same else "the bandwidths of its cluster are not those that you ask for"

    return {
        "cluster": cluster,
        "bandwidth": cluster,
        "microbatches": lambda: _unlike("microbatches", instance.microbatches, given["microbatches"]),
        "memory": lambda: _size("memory", instance.memory, given["memory"]),
        "dtype": lambda: _unlike("dtype", instance.dtype, given["dtype"]),
        "sequence": lambda: _unlike("sequence", instance.sequence, given["sequence"]),
    }


def _of_flow(stated: Envelope, given: Mapping[str, Any]) -> dict[str, Callable[[], str | None]]:
    """Of a flow there is nothing to state but its hash."""
    return {}


_BY_ANSWER = {"plan": _of_plan, "placement": _of_placement, "placement of layers": _of_flow}


def _unlike(name: str, true: Any, asked: Any) -> str | None:
    return None if true == asked else f"{name.replace('_', ' ')} is {true}, you ask for {asked}"


def _rate(graph: ComputationGraph, true: float, given: Quantity) -> str | None:
    asked, unit = bandwidth_of(graph, given), f"bytes/{graph.time_unit}"
    return None if asked == true else _unlike("bandwidth", *_apart(true, asked, unit))


def _size(name: str, true: float | None, given: Quantity) -> str | None:
    asked = parse_bytes(given, name)
    return None if asked == true else _unlike(name, *_apart(math.inf if true is None else true, asked, "bytes"))


def _apart(true: float, asked: float, unit: str) -> tuple[str, str]:
    """Both numbers with their unit, with all digits where six are not enough to tell them apart."""
    shown = tuple("unlimited" if x == math.inf else figures(x, unit) for x in (true, asked))
    return (shown[0], shown[1]) if shown[0] != shown[1] else (repr(true), repr(asked))


def _one(k: Blocks) -> int:
    count, *more = counts_of(k)
    if more:
        raise WordError("k", k, "a file answers the question for one k; give that.")
    return count
