"""The question of partitioning: graph, number of blocks, platform, side constraints; and how it is solved."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from instances import ComputationGraph, InputError, Instance, Partition, Platform, Result
from instances.errors import InputWarning, WordError, word
from instances.partitioning.constraints import Constraints
from instances.partitioning.constraints_file import KINDS, read_constraints
from instances.registry import find, unknown
from mtpp.questions.kinds import DevicesWords, devices_of, questions_of_kinds
from mtpp.questions.platforms import PlatformWords, bandwidth_of, memory_limits
from mtpp.questions.reading import ReadingWords, read_graph
from mtpp.questions.solving import SEARCH, ProofWords, SeedWords, SolvingWords
from mtpp.questions.words import GraphLike, Word, chosen, pick
from mtpp.text.parsing import Quantity, parse_counts, parse_throughput

if TYPE_CHECKING:
    from instances.runtimes import Runtime

__all__ = [
    "AUTO",
    "Blocks",
    "BoundWords",
    "CertifyWords",
    "CompareWords",
    "ExplainWords",
    "PartitionWords",
    "PartitioningWords",
    "ReportWords",
    "Rules",
    "SolveWords",
    "StartWords",
    "counts_of",
    "enough_for",
    "instances_of",
    "rules_of",
    "runtime_of",
    "runtime_rules",
]

#: In place of k: the least number of blocks that fits, or reaches a throughput.
AUTO = "auto"
#: One number of blocks, or several, also as a text such as "2,4,8".
Blocks = int | str | Iterable[int]
#: Constraints, their words by kind, or a file.
Rules = Constraints | Mapping[str, Any] | str | PathLike[str] | None


class PartitioningWords(DevicesWords, PlatformWords, ReadingWords, total=False):
    """A question of partitioning, but for its graph and k."""

    constraints: Annotated[
        Rules,
        Word(
            "Nodes that stay together, windows of stages, outputs that are never cut (mtpp-constraints/1).",
            metavar="FILE",
        ),
    ]
    colour_classes: Annotated[bool, Word("Nodes of a colour class of an MSR inference profile stay together.", False)]
    runtime: Annotated[
        str | None, Word("Only cuts that this runtime can express (mtpp list runtimes).", metavar="NAME")
    ]


class StartWords(TypedDict, total=False):
    """Where a proof begins."""

    start: Annotated[
        Partition | Result | str | PathLike[str] | None,
        Word("Partition to start from (mtpp-partition/1).", metavar="FILE", panel=SEARCH),
    ]


class PartitionWords(PartitioningWords, SeedWords, total=False):
    """Words of `mtpp.partition`."""

    time_limit: Annotated[float | None, Word("For each k.  [default: none]", None, "SECONDS", SEARCH)]


class SolveWords(PartitioningWords, SolvingWords, total=False):
    """Words of `mtpp.solve` and `mtpp.least_k`."""


class CertifyWords(PartitioningWords, SolvingWords, StartWords, total=False):
    """Words of `mtpp.certify`."""


class BoundWords(CertifyWords, total=False):
    """Words of `mtpp.bound`."""

    relaxation: Annotated[bool, Word("Solve the linear relaxation.", False, panel=SEARCH)]


class ExplainWords(PartitioningWords, ProofWords, total=False):
    """Words of `mtpp.explain`."""

    time_limit: Annotated[float, Word("To prove a bound.", 10.0, "SECONDS", SEARCH)]


class ReportWords(PartitioningWords, total=False):
    """Words of `mtpp.report`."""

    time_limit: Annotated[float, Word("To check each answer.", 20.0, "SECONDS", "The check")]


class CompareWords(PlatformWords, SeedWords, total=False):
    """Words of `mtpp.compare`."""

    gap: Annotated[float, Word("Relative gap that is good enough.", 0.0, "X", SEARCH)]
    threads: Annotated[int, Word("Threads of a solver.", 1, "N", SEARCH)]
    time_limit: Annotated[
        float | None, Word("For each bound; ends a heuristic of your own that has no budget.", 60.0, "SECONDS", SEARCH)
    ]
    seeds: Annotated[int | str | Iterable[int] | None, Word("Of heuristics, in place of seed.", panel=SEARCH)]
    budgets: Annotated[
        float | str | Iterable[float] | None, Word("Seconds for heuristics, in place of their own steps.", panel=SEARCH)
    ]
    jobs: Annotated[int, Word("Processes on this machine; the answers do not depend on it.", 1, "N", SEARCH)]
    scheduler: Annotated[
        str | None, Word("Of dask.distributed, whose workers are used instead.", metavar="ADDRESS", panel=SEARCH)
    ]
    file: Annotated[str | PathLike[str] | None, Word("File of runs.", metavar="FILE", panel="Files")]
    accept_old: Annotated[bool, Word("Take answers from runs that do not know the code that made them.", False)]


def instances_of(
    graph: GraphLike, k: Blocks | None, words: PartitioningWords, *, is_open: bool = False
) -> list[Instance]:
    """One question for each k.

    Parameters
    ----------
    graph : GraphLike
        As for `mtpp.load`; an `Instance` is a whole question, of which at most k changes.
    k : int, iterable of int or text such as "2,4,8"
        Optional for an instance.
    words : PartitioningWords
        With all defaults.
    is_open : bool
        Whether k is asked for: then it is the least that the constraints name.

    Raises
    ------
    InputError
        If a word or the graph is refused.
    """
    runtime = None if words["runtime"] is None else runtime_of(words["runtime"])
    if isinstance(graph, Instance):
        for name in chosen(PartitioningWords, words):
            raise InputError(f"{word(name)}: the instance {graph.name!r} has its own; leave it out, or give its graph.")
        return [graph] if k is None else [graph.with_k(count) for count in counts_of(k)]
    devices = words["devices"]
    if k is None and not is_open and devices is None:
        raise InputError(f"{word('k')} is missing; give the number of blocks.")
    counts = None if k is None else counts_of(k)
    limits = memory_limits(words["memory"], words["activation_buffer"], by_kind=devices is not None)
    loaded = read_graph(graph, pick(ReadingWords, words))
    costs_given = words["bandwidth"] is None and words["communication"] == "cost"
    rate = 1.0 if costs_given else bandwidth_of(loaded, words["bandwidth"])
    rules = rules_of(words["constraints"], loaded)
    rules += _same_colour(loaded) if words["colour_classes"] else Constraints()
    if devices is not None:
        kinds = devices_of(devices, rate, limits[0])
        if is_open and kinds.is_fixed:
            raise WordError("k", AUTO, f"in a fixed order of {word('devices')} each has its block; leave k out.")
        return questions_of_kinds(
            graph,
            loaded,
            counts,
            kinds,
            pick(ReadingWords, words),
            bandwidth=rate,
            activation_buffer=limits[1],
            fit=words["fit"],
            constraints=rules,
            runtime=runtime,
        )
    if runtime is not None:
        loaded, rules = runtime.seen(loaded), rules + runtime.rules(loaded)
    platforms = [Platform(count, rate, *limits, fit=words["fit"]) for count in counts or [rules.fewest_blocks]]
    return [Instance(loaded, platform, constraints=rules) for platform in platforms]


def counts_of(k: Blocks) -> list[int]:
    """Numbers of blocks, without repetition.

    Raises
    ------
    InputError
        If one is no whole number, or below 1.
    """
    if isinstance(k, str):
        if k == AUTO:
            raise WordError("k", k, "the least number of blocks is a question of its own: mtpp.least_k.")
        return parse_counts(k)
    why = "give the number of blocks, or a list of such numbers."
    if isinstance(k, bytes | Mapping):
        raise WordError("k", k, why)
    several: Any = k  # an array without dimensions is one number
    given = list(several) if isinstance(several, Iterable) and getattr(several, "ndim", True) else [several]
    counts = []
    for count in given:
        try:
            counts.append(operator.index(count))
        except TypeError:
            raise WordError("k", k, why) from None
        if isinstance(count, bool):
            raise WordError("k", k, why)
        if counts[-1] < 1:
            raise WordError("k", count, "the number of blocks must be 1 or more.")
    if not counts:
        raise InputError("There is no k; give at least one number of blocks.")
    return list(dict.fromkeys(counts))


def rules_of(constraints: Rules, graph: ComputationGraph) -> Constraints:
    """Constraints of a graph, from an object, a file or words by kind.

    Raises
    ------
    InputError
        If they are refused.
    """
    if isinstance(constraints, Constraints):
        return constraints
    if isinstance(constraints, str | PathLike):
        return read_constraints(fspath(constraints), graph)
    if constraints is not None and not isinstance(constraints, Mapping):
        raise WordError("constraints", constraints, "give a file, a mapping or mtpp.Constraints.")
    given = dict(constraints or {})
    for name in given:
        if name not in KINDS:
            raise InputError(unknown(KINDS, name, "kind of constraint"))
    return Constraints.of(graph, **given)


def _same_colour(graph: ComputationGraph) -> Constraints:
    classes = graph.attributes.get("colour_classes")
    if not classes:
        raise InputError(f"{word('colour_classes')}: {graph.name} has none; leave this option out.")
    told = f"{len(classes)} colour classes keep {sum(map(len, classes))} of {graph.n} nodes together."
    warnings.warn(f"{graph.name}: {told}", InputWarning, stacklevel=2)
    return Constraints.of(graph, together=classes)


def runtime_rules(runtime: str, graph: ComputationGraph) -> Constraints:
    """The constraints under which a runtime can express each answer; an `InputError` if there is no such runtime."""
    return runtime_of(runtime).rules(graph)


def runtime_of(name: str) -> Runtime:
    """The runtime of this name; an `InputError` if there is none."""
    from instances.runtimes import RUNTIMES

    return find(RUNTIMES, name, "runtime")


def enough_for(question: Instance, throughput: Quantity | None) -> float:
    """The bottleneck that reaches a throughput, in the time unit of the work; infinite if fitting will do.

    Raises
    ------
    InputError
        If it is no throughput, or there is nothing to reach.
    """
    if throughput is not None:
        return 1 / parse_throughput(throughput, question.time_unit)
    if not question.platform.fit:
        raise InputError(
            f"{question.name}: say what the least k has to reach; give {word('fit')}, {word('throughput')} or both."
        )
    return math.inf
