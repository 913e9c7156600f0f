r"""Profiles of "PipeDream: Generalized Pipeline Parallelism for DNN Training" (Narayanan et al., 2019), ``graph.txt``.

A line per node, ``id -- description -- forward_compute_time=…, backward_compute_time=…, activation_size=…,
parameter_size=…`` (times in ms, sizes in bytes), and an indented line ``id -- id`` per edge. Nodes that read nothing
and whose description begins with ``Input`` stand for the loading of data. Their time may be most of the work, and
PipeDream's own optimizer leaves them out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from instances.errors import InputError, word
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import IntArray
from instances.json_files import read_text
from instances.readers.parsing import amount, graph_of_file

__all__ = ["input_nodes", "read_pipedream", "recognises_pipedream"]

_NUMBERS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")
_ITEM = re.compile(r"__getitem__\((\d{1,9})\)")


def recognises_pipedream(text: str) -> bool:
    """Whether the text of a file looks like this format."""
    return re.search(r"^\S+ -- .*forward_compute_time=", text, re.MULTILINE) is not None


def read_pipedream(path: str | Path, training: bool = False, input_work: str | None = None) -> ComputationGraph:
    """Read a profile; times become seconds.

    A node whose ``activation_size`` is a list ``[a; b; c]`` has one output tensor per entry. A consumer
    ``__getitem__(i)`` reads output ``i``; any other consumer reads all of them.

    Parameters
    ----------
    path : path of a ``graph.txt`` file
    training : bool
        Whether the backward pass counts too: each node then takes the sum of its two times, and each tensor has twice
        the bytes, once for the activation and once for its gradient, as in PipeDream's own cost.
    input_work : {"keep", "drop"}, optional
        Whether Input nodes take their time or none, as for PipeDream, which drops their tensors as well; this matters
        only where several nodes read one. By default they keep it, and if they have any, that is a warning.

    Raises
    ------
    InputError
        If the file cannot be read; the message names the line.
    """
    if input_work not in (None, "keep", "drop"):
        raise InputError(f"input_work is '{input_work}'; it must be 'keep' or 'drop'.")
    index: dict[str, int] = {}
    descriptions: list[str] = []
    outputs: list[list[float]] = []
    work, param_bytes, links = [], [], []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        place = f"{path}, line {number}"
        parts = [part.strip() for part in line.split(" -- ")]
        if line[:1].isspace() and len(parts) == 2 and all(parts):
            links.append((place, parts[0], parts[1]))
        elif not line[:1].isspace() and len(parts) >= 3 and " " not in parts[0]:
            if index.setdefault(parts[0], len(index)) != len(descriptions):
                raise InputError(f"{place}: node '{parts[0]}' is given twice; keep one.")
            if parts[-1].startswith("stage_id="):
                parts.pop()
            numbers = _numbers(parts[-1], place)
            descriptions.append(" -- ".join(parts[1:-1]))
            time = [_single(numbers, field, place) for field in _NUMBERS[: 1 + training]]
            work.append(sum(time) / 1000)
            outputs.append([size * (1 + training) for size in numbers["activation_size"]])
            param_bytes.append(_single(numbers, "parameter_size", place))
        elif line.strip():
            raise InputError(
                f"{place}: expected 'id -- description -- forward_compute_time=…, …' or an indented 'id -- id'."
            )

    edges = []
    for place, source, target in links:
        for name in (source, target):
            if name not in index:
                raise InputError(f"{place}: there is no node '{name}'.")
        u, v = index[source], index[target]
        edges += [(u, v, output) for output in _outputs_read(descriptions[v], len(outputs[u]))]
    graph = graph_of_file(
        path,
        edges,
        work,
        outputs,
        param_bytes,
        names=tuple(f"{name} {text.split('(')[0]}" for name, text in zip(index, descriptions, strict=True)),
        name=Path(path).name.removesuffix(".txt").removesuffix(".graph"),
        source=f"profile {Path(path).name}, forward{' and backward' if training else ''}",
    )
    inputs = input_nodes(graph)
    if input_work == "drop":
        kept = graph.work.copy()
        kept[inputs] = 0.0
        return replace(graph, work=kept, source=f"{graph.source}, no time for Input nodes")
    if input_work is None and graph.work[inputs].any():
        scaled = graph.work / graph.work.max()  # so that no sum is infinite
        share = scaled[inputs].sum() / scaled.sum()
        warning = (
            f"Input nodes take {share:.0%} of the work, and none in PipeDream's own optimizer; choose with "
            f"{word('input_work')} keep or drop."
        )
        return replace(graph, attributes={"warnings": [warning]})
    return graph


def input_nodes(graph: ComputationGraph) -> IntArray:
    """Nodes of a profile that stand for the loading of data, by PipeDream's rule."""
    reads = np.diff(graph.predecessors[0]) > 0
    called = [name.partition(" ")[2].startswith("Input") for name in graph.names]
    return np.flatnonzero(np.array(called, dtype=bool) & ~reads)


def _outputs_read(description: str, count: int) -> list[int]:
    item = _ITEM.fullmatch(description)
    if item and int(item[1]) < count:
        return [int(item[1])]
    return list(range(count))


def _numbers(text: str, place: str) -> dict[str, list[float]]:
    numbers: dict[str, list[float]] = {}
    for assignment in text.split(","):
        name, _, value = (part.strip() for part in assignment.partition("="))
        if name not in _NUMBERS or name in numbers:
            problem = "is given twice" if name in numbers else f"is unknown; known fields are {', '.join(_NUMBERS)}"
            raise InputError(f"{place}: field '{name}' {problem}.")
        entries = value[1:-1].split(";") if value.startswith("[") and value.endswith("]") else [value]
        numbers[name] = [amount(entry, name, place) for entry in entries]
    for name in _NUMBERS:
        if name not in numbers:
            raise InputError(f"{place}: missing field '{name}'.")
    return numbers


def _single(numbers: dict[str, list[float]], name: str, place: str) -> float:
    if len(numbers[name]) != 1:
        raise InputError(f"{place}: {name} is a list; it must be one number.")
    return numbers[name][0]
