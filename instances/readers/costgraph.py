"""TensorFlow's CostGraphDef as protobuf text, the format of the REGAL data set (Paliwal et al., 2020).

A ``node { … }`` per operator: name, id, compute_cost [microseconds], ``input_info`` (preceding_node, preceding_port),
``output_info`` (size [bytes]) and ``control_input`` (a node that must run before: a dependency without bytes). Fields
that are left out are 0. Files are read line by line. An output that aliases an input counts like any other. Nodes
whose cost TensorFlow itself marks ``inaccurate`` give a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.readers.parsing import amount, graph_of_file, text_lines

# Node of REGAL's files that stands for the inputs of a network.
_REGAL_SOURCE = "_SOURCE"

_TOKEN = re.compile(
    r'\s*(?:#.*|(?P<text>"[^"\\]*(?:\\.[^"\\]*)*"|\'[^\'\\]*(?:\\.[^\'\\]*)*\'|[\w.+-]+)|(?P<mark>[{}<>\[\]:,;]))'
)

#: The fields of the messages that are read; what is in none of them is refused, so that a misspelt one is noticed.
_READ = {
    "": {"node"},
    "node": {"name", "id", "compute_cost", "input_info", "output_info", "control_input", "inaccurate"},
    "input_info": {"preceding_node", "preceding_port"},
    "output_info": {"size"},
}
_SKIPPED = {
    "": {"cost"},
    "node": {
        *("device", "temporary_memory_size", "persistent_memory_size", "host_temp_memory_size", "is_final"),
        *("device_temp_memory_size", "device_persistent_memory_size", "compute_time", "memory_time"),
    },
    "input_info": set(),
    "output_info": {"alias_input_port", "shape", "dtype"},
}


@dataclass
class _Node:
    """Fields of a node: `inputs` are (node id, output), `controls` node ids, each with its place in the file."""

    place: str
    name: str = ""
    id: int = 0
    work: float = 0.0
    inaccurate: bool = False
    outputs: list[float] = field(default_factory=list)
    inputs: list[list[int]] = field(default_factory=list)
    controls: list[int] = field(default_factory=list)


def recognises_costgraph(text: str) -> bool:
    """Whether the text of a file looks like this format."""
    return re.match(r"(?:\s*#.*\n)*\s*node\s*:?\s*[{<]", text) is not None


def read_costgraph(path: str | Path, communication: str = "size") -> ComputationGraph:
    """Read a cost graph.

    Parameters
    ----------
    path : path of a text file
    communication : {"size", "cost"}
        "size": work in seconds. "cost": the numbers stay as in the file, to be used with bandwidth 1, as REGAL does;
        the work is in microseconds.

    Returns
    -------
    ComputationGraph
        With a tensor of 0 bytes for each node that others name as ``control_input``.

    Raises
    ------
    InputError
        If the file cannot be read, a field is unknown or of the wrong kind, or an input names a node or an output
        that does not exist; the message names the line.
    """
    return _graph(path, communication)


def read_regal(path: str | Path) -> ComputationGraph:
    """Read a cost graph of the REGAL data set as Archer et al. (2024) may have done; use it with bandwidth 1.

    Each node has one output (B.1), the smallest of those in the file, work is in microseconds, of which each byte takes
    one, and the node ``_SOURCE`` is left out. The paper says neither which output nor the bandwidth; these are guesses.

    Raises
    ------
    InputError
        As for `read_costgraph`, or if there is no other node.
    """
    return _graph(path, "cost", regal=True)


def _graph(path: str | Path, communication: str, *, regal: bool = False) -> ComputationGraph:
    """The graph of a file; with `regal`, one tensor a node, and no node for the inputs."""
    nodes = list(_nodes(path))
    index: dict[int, int] = {}
    for v, node in enumerate(nodes):
        if index.setdefault(node.id, v) != v:
            raise InputError(f"{node.place}: id {node.id} is taken by another node; ids must be unique.")
    outputs = [node.outputs for node in nodes]
    edges, controls = [], []
    for v, node in enumerate(nodes):
        for source, port in node.inputs:
            u = _index_of(source, index, node)
            if not 0 <= port < len(outputs[u]):
                raise InputError(
                    f"{node.place}: input {port} of node {source}, which has {len(outputs[u])} outputs; "
                    "they are numbered from 0."
                )
            edges.append((u, v, port))
        controls += [(_index_of(source, index, node), v) for source in node.controls]
    if regal:
        remaining = [v for v, node in enumerate(nodes) if node.name != _REGAL_SOURCE]
        place = {v: i for i, v in enumerate(remaining)}
        nodes = [nodes[v] for v in remaining]
        outputs = [[min(node.outputs)] if node.outputs else [] for node in nodes]
        edges = [(place[u], place[v], 0) for u, v, _ in edges if u in place and v in place]
        controls = [(place[u], place[v]) for u, v in controls if u in place and v in place]
    first = {u: len(outputs[u]) for u, _ in controls}  # the tensor without bytes comes after the node's outputs
    for u in first:
        outputs[u] = [*outputs[u], 0.0]
    edges += [(u, v, first[u]) for u, v in controls]
    doubted = sum(node.inaccurate for node in nodes)
    warning = f"TensorFlow marks the costs of {doubted} of {len(nodes)} nodes as inaccurate."
    unit = 1.0 if communication == "cost" else 1e-6
    return graph_of_file(
        path,
        edges,
        [node.work * unit for node in nodes],
        outputs,
        names=tuple(node.name or str(node.id) for node in nodes),
        source=f"cost graph {Path(path).name}, communication by {communication}",
        time_unit="us" if communication == "cost" else "s",
        attributes={"warnings": [warning]} if doubted else {},
    )


def _index_of(source: int, index: dict[int, int], node: _Node) -> int:
    if source not in index:
        raise InputError(f"{node.place}: there is no node {source}.")
    return index[source]


def _nodes(path: str | Path) -> Iterator[_Node]:
    """Nodes in the order of the file; the messages that are open form a stack, so nesting costs no recursion."""
    node = _Node("")
    stack = [""]
    skipped = 0  # how many messages deep in a field that is not read
    for place, key, value in _fields(path):
        if value == "{":
            if skipped or key in _SKIPPED[stack[-1]]:
                skipped += 1
            elif key in _READ and key in _READ[stack[-1]]:
                stack.append(key)
                if key == "node":
                    node = _Node(place)
                elif key == "input_info":
                    node.inputs.append([0, 0])
                else:
                    node.outputs.append(0.0)
            else:
                _unknown(place, key, stack[-1])
        elif value == "}":
            if skipped:
                skipped -= 1
            elif stack == [""]:
                raise InputError(f"{place}: '}}' closes nothing; remove it.")
            elif stack.pop() == "node":
                yield node
        elif not skipped and key in _READ[stack[-1]] and key not in _READ:
            _set(node, key, value, place)
        elif not skipped and key not in _SKIPPED[stack[-1]]:
            _unknown(place, key, stack[-1])
    if len(stack) > 1 or skipped:
        raise InputError(f"{path}: the file ends inside a node; it may be cut short.")


def _set(node: _Node, key: str, value: str, place: str) -> None:
    """Put the value of a field into a node."""
    if key == "name":
        node.name = value.strip("\"'")
    elif key == "compute_cost":
        node.work = amount(value, key, place)
    elif key == "size":
        node.outputs[-1] = amount(value, key, place)
    elif key == "inaccurate":
        node.inaccurate = value in ("true", "True", "t", "1")
    elif key == "id":
        node.id = _whole(value, key, place)
    elif key == "control_input":
        node.controls.append(_whole(value, key, place))
    else:
        node.inputs[-1][key == "preceding_port"] = _whole(value, key, place)


def _fields(path: str | Path) -> Iterator[tuple[str, str, str]]:
    """Place, key and value of each field; the value is "{" where a message begins, and "}" without a key ends one."""
    key, in_list, place = "", False, str(path)
    for place, token in _tokens(path):
        if token in ("{", "<"):
            if not key or in_list:
                raise InputError(f"{place}: '{token}' without a field name before it.")
            yield place, key, "{"
            key = ""
        elif token in ("}", ">"):
            if key:
                raise InputError(
                    f"{place}: field '{key[:40]}' {'has a list without an end' if in_list else 'has no value'}."
                )
            yield place, "", "}"
        elif token in ("[", "]"):
            if (token == "[") == in_list or not key:
                raise InputError(f"{place}: '{token}' is not expected here.")
            in_list = token == "["
            if not in_list:
                key = ""
        elif token in (":", ",", ";"):
            if token == ":" and not key:
                raise InputError(f"{place}: ':' without a field name before it.")
        elif not key:
            key = token
        else:
            yield place, key, token
            if not in_list:
                key = ""
    if key:
        raise InputError(f"{place}: field '{key[:40]}' has no value; the file may be cut short.")


def _tokens(path: str | Path) -> Iterator[tuple[str, str]]:
    """Place and text of each token, without comments."""
    empty = True
    for number, line in enumerate(text_lines(path), start=1):
        place, start, end = f"{path}, line {number}", 0, len(line.rstrip())
        while start < end:
            match = _TOKEN.match(line, start, end)
            if match is None:
                raise InputError(f"{place}: cannot be read from '{line[start:end].strip()[:40]}' on.")
            start = match.end()
            if match.lastgroup:
                empty = False
                yield place, match[match.lastgroup]
    if empty:
        raise InputError(f"{path}: the file is empty.")


def _whole(value: str, key: str, place: str) -> int:
    if not re.fullmatch(r"-?\d{1,18}", value):
        raise InputError(f"{place}: {key} is '{value[:40]}'; it must be a whole number.")
    return int(value)


def _unknown(place: str, key: str, message: str) -> NoReturn:
    names = ", ".join(sorted(_READ[message] | _SKIPPED[message]))
    raise InputError(f"{place}: unknown field '{key[:40]}'; known fields are {names}.")
