r"""Profiles of "PipeDream: Generalized Pipeline Parallelism for DNN Training" (Narayanan et al., 2019), ``graph.txt``.

A line per node, ``id -- description -- forward_compute_time=…, backward_compute_time=…, activation_size=…,
parameter_size=…`` (times in ms, sizes in bytes), and an indented line ``id -- id`` per edge.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from instances.documents import read_text
from instances.errors import InputError
from instances.graph import ComputationGraph

__all__ = ["read_pipedream", "recognises_pipedream"]

_NODE = re.compile(r"(?P<id>\S+) -- (?P<description>.*?) -- (?P<numbers>\w+=.*?)(?: -- stage_id=\d+)?\s*")
_EDGE = re.compile(r"\s+(?P<source>\S+) -- (?P<target>\S+)\s*")
_NUMBERS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")
_ITEM = re.compile(r"__getitem__\((\d+)\)")


def recognises_pipedream(text: str) -> bool:
    """Whether the text of a file looks like this format."""
    return re.search(r"^\S+ -- .*forward_compute_time=", text, re.MULTILINE) is not None


def read_pipedream(path: str | Path) -> ComputationGraph:
    """Read the forward pass of a profile; times become seconds.

    A node whose ``activation_size`` is a list ``[a; b; c]`` has one output tensor per entry. A consumer
    ``__getitem__(i)`` reads output ``i``; any other consumer reads all of them.

    Parameters
    ----------
    path : path of a ``graph.txt`` file

    Returns
    -------
    ComputationGraph

    Raises
    ------
    InputError
        If the file cannot be read; the message names the line.
    """
    index: dict[str, int] = {}
    descriptions: list[str] = []
    outputs: list[list[float]] = []
    work, param_bytes, links = [], [], []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        place = f"{path}, line {number}"
        if edge := _EDGE.fullmatch(line):
            links.append((place, edge["source"], edge["target"]))
        elif node := _NODE.fullmatch(line):
            if index.setdefault(node["id"], len(index)) != len(descriptions):
                raise InputError(f"{place}: node '{node['id']}' is given twice; keep one.")
            numbers = _numbers(node["numbers"], place)
            descriptions.append(node["description"])
            work.append(_one(numbers, "forward_compute_time", place) / 1000)
            outputs.append(numbers["activation_size"])
            param_bytes.append(_one(numbers, "parameter_size", place))
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
    try:
        return ComputationGraph.from_edges(
            edges,
            work,
            outputs,
            param_bytes,
            names=tuple(f"{name} {text.split('(')[0]}" for name, text in zip(index, descriptions, strict=True)),
            name=Path(path).name.removesuffix(".txt").removesuffix(".graph"),
            source=f"profile {Path(path).name}",
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


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
        numbers[name] = [_number(entry, name, place) for entry in entries]
    for name in _NUMBERS:
        if name not in numbers:
            raise InputError(f"{place}: missing field '{name}'.")
    return numbers


def _number(text: str, name: str, place: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{place}: {name} is '{text.strip()}'; it must be a finite number.")
    return number


def _one(numbers: dict[str, list[float]], name: str, place: str) -> float:
    if len(numbers[name]) != 1:
        raise InputError(f"{place}: {name} is a list; it must be one number.")
    return numbers[name][0]
