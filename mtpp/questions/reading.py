"""Graphs from whatever a researcher has, and questions from the words of the command line."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from instances import ComputationGraph, InputError, Instance, Platform, load_graph
from instances.partitioning.constraints import Constraints
from instances.partitioning.constraints_file import KINDS, read_constraints
from instances.registry import unknown
from mtpp.questions.partitioning import Roofs, bandwidth_of, memory_limits
from mtpp.text.parsing import parse_counts

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Blocks", "Quantity", "Reading", "Rules", "counts_of", "instances_of", "load", "word"]

#: A number, or a text such as "25GB/s" or "16GiB".
Quantity = float | str | None
#: Constraints, their words by kind, or a file.
Rules = Constraints | Mapping[str, Any] | str | Path | None
#: One number of blocks, or several.
Blocks = int | str | Iterable[int]


class Reading(TypedDict, total=False):
    """How `load` reads a graph: its keyword arguments."""

    dims: Mapping[str, int] | None
    level: str
    training: bool
    reader: str | None
    communication: str
    cost: str | None
    peak_flops: float | str | None
    memory_bandwidth: float | str | None
    input_work: str | None
    time_unit: str | None


def load(graph: str | Path | ComputationGraph | nx.DiGraph[Any], **reading: Unpack[Reading]) -> ComputationGraph:
    """Load a graph.

    Frames of pandas and lists of edges become graphs by `ComputationGraph.from_frames` and
    `ComputationGraph.from_edges`.

    Parameters
    ----------
    graph : str, path, ComputationGraph or networkx.DiGraph
        An architecture (``mtpp list architectures``), a file, or a graph. Nodes of a digraph have the attributes work,
        output_bytes, param_bytes and name.
    **reading
        Of architectures and files: dims, level, training, reader, communication, cost, input_work and time_unit as for
        `instances.load_graph`; peak_flops and memory_bandwidth, as 312e12 or "312TFLOP/s", of the device that turns
        operations into seconds.

    Raises
    ------
    InputError
        If there is no such graph, or its content or a word is refused.

    Examples
    --------
    >>> import mtpp
    >>> mtpp.load("bert-base", dims={"batch": 8}, level="layer").n
    17
    """
    _check_words(reading)
    if isinstance(graph, str | Path):
        given: dict[str, Any] = {**reading}
        device = Roofs(word(given.pop("peak_flops", None)), word(given.pop("memory_bandwidth", None))).device()
        return load_graph(graph, **given, device=device)
    if reading:
        raise InputError(f"Only architectures and files are read; leave out {', '.join(reading)}.")
    if isinstance(graph, ComputationGraph):
        return graph
    if hasattr(graph, "columns"):
        raise InputError("This is a frame; give mtpp.ComputationGraph.from_frames(nodes, edges).")
    return ComputationGraph.from_networkx(graph)


def instances_of(
    graph: str | Path | ComputationGraph | nx.DiGraph[Any] | Instance,
    k: Blocks | None,
    bandwidth: Quantity = None,
    memory: Quantity = None,
    activation_buffer: Quantity = None,
    fit: bool = False,
    constraints: Rules = None,
    *,
    is_open: bool = False,
    **reading: Unpack[Reading],
) -> list[Instance]:
    """One question for each k.

    Parameters
    ----------
    graph : as for `load`, or Instance
        An instance is a whole question, of which at most k changes.
    k : int, iterable of int or text such as "2,4,8"
        Optional for an instance.
    bandwidth, memory, activation_buffer : float or str, optional
        As on the command line: numbers, or texts such as "25GB/s" and "16GiB". The bandwidth is 25 GB/s by default.
    fit : bool
        Whether the memory is a hard limit.
    constraints : Constraints, mapping or file, optional
    is_open : bool
        Whether k is asked for: then it is the least that the constraints name.
    **reading
        As for `load`.

    Raises
    ------
    InputError
        If a word or the graph is refused.
    """
    _check_words(reading, ("bandwidth", "memory", "activation_buffer", "fit", "constraints"))
    if isinstance(graph, Instance):
        words = {"bandwidth": bandwidth, "memory": memory, "activation_buffer": activation_buffer, **reading}
        words |= {"fit": fit or None, "constraints": constraints}
        for name, value in words.items():
            if value is not None:
                raise InputError(f"{name}: the instance {graph.name!r} has its own; leave it out, or give its graph.")
        return [graph] if k is None else [graph.with_k(count) for count in counts_of(k)]
    if k is None and not is_open:
        raise InputError("k is missing; give the number of blocks.")
    limits = memory_limits(word(memory), word(activation_buffer))
    loaded = load(graph, **reading)
    costs_given = bandwidth is None and reading.get("communication") == "cost"
    rate = 1.0 if costs_given else bandwidth_of(loaded, word(bandwidth))
    rules = _rules(constraints, loaded)
    counts = [rules.fewest_blocks] if k is None else counts_of(k)
    return [Instance(loaded, Platform(count, rate, *limits, fit=fit), constraints=rules) for count in counts]


def _rules(constraints: Rules, graph: ComputationGraph) -> Constraints:
    if isinstance(constraints, Constraints):
        return constraints
    if isinstance(constraints, str | Path):
        return read_constraints(constraints, graph)
    given = dict(constraints or {})
    for name in given:
        if name not in KINDS:
            raise InputError(unknown(KINDS, name, "kind of constraint"))
    return Constraints.of(graph, **given)


def _check_words(reading: Mapping[str, object], others: Sequence[str] = ()) -> None:
    known = Reading.__annotations__
    for name in reading:
        if name not in known:
            raise TypeError(unknown((*others, *known), name, "word"))


def word(value: Quantity) -> str | None:
    """A quantity as the command line takes it."""
    return value if value is None or isinstance(value, str) else repr(float(value))


def counts_of(k: Blocks) -> list[int]:
    """Numbers of blocks, without repetition."""
    if isinstance(k, str):
        return parse_counts(k)
    try:
        counts = [operator.index(count) for count in (k if isinstance(k, Iterable) else (k,))]
    except TypeError:
        raise InputError(f"k is {k!r}; give the number of blocks, or a list of such numbers.") from None
    if not counts:
        raise InputError("There is no k; give at least one number of blocks.")
    return list(dict.fromkeys(counts))
