"""Profiles that other planners publish: of PipeDream, of Piper, and of MSR."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from instances.errors import InputError, check_one_of, one_of, word
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import IntArray, components
from instances.json_files import Value, read_json, read_text
from instances.readers.parsing import add_node, amount, graph_of_file, json_amount, links_of, outputs_by_size, seconds

# Profiles of "PipeDream: Generalized Pipeline Parallelism for DNN Training" (Narayanan et al., 2019), ``graph.txt``.
#
# A line per node, ``id -- description -- forward_compute_time=…, backward_compute_time=…, activation_size=…,
# parameter_size=…`` (times in ms, sizes in bytes), and an indented line ``id -- id`` per edge. Nodes that read nothing
# and whose description begins with ``Input`` stand for the loading of data. Their time may be most of the work, and
# PipeDream's own optimizer leaves them out.


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
    if input_work is not None:
        check_one_of("input_work", input_work, ("keep", "drop"))
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
        computed = graph.work.copy()
        computed[inputs] = 0.0
        return replace(graph, work=computed, source=f"{graph.source}, no time for Input nodes")
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
    """Nodes of a profile that only load data, by PipeDream's rule."""
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


# Workloads published with "Piper: Multidimensional Planner for DNN Parallelization" (Tarnawski et al., 2021).
#
# A JSON object with ``nodes`` (id, ``TMPCs``) and ``edges`` (sourceId, destId, communicationCost [bytes]). ``TMPCs``
# lists, per degree of tensor parallelism, the ways to run a node: timePerSample [forward and backward], parameterSize
# [bytes]. The format gives times no unit. Those of the published BERT-32 are seconds, those of GNMT and ResNet are
# milliseconds, as PipeDream's profiles of the same networks show, so the unit is an option. Costs of
# synchronisation, coefficients of the memory and limits of the devices are not read.


def recognises_piper(text: str) -> bool:
    """Whether the text of a file looks like this format."""
    return text.lstrip().startswith("{") and '"TMPCs"' in text and '"mtpp-graph/' not in text


def read_piper(
    path: str | Path, degree: int = 1, configuration: str = "vanilla", time_unit: str = "s"
) -> ComputationGraph:
    """Read a training workload, forward and backward pass; its work is in seconds.

    A tensor has twice the ``communicationCost`` of its edges, as in Piper's own cost: once for the activation and
    once for its gradient. Edges that leave one node with the same cost are one tensor.

    Parameters
    ----------
    path : path of a JSON file
    degree : int
        Degree of tensor parallelism of every node.
    configuration : str
        Id of the way to run every node; "activation recomp" in the published files recomputes activations.
    time_unit : {"s", "ms", "us"}
        Unit of the times in the file.

    Raises
    ------
    InputError
        If the file cannot be read, a field is missing or of the wrong kind, a node cannot be run in this way, or an
        edge names an unknown node.
    """
    unit = seconds(time_unit)
    document = read_json(path)
    fields = document.open_members(("nodes", "edges"))
    index: dict[int, int] = {}
    names: list[str] = []
    work, param_bytes = [], []
    for item in fields["nodes"].items():
        node = item.open_members(("id", "TMPCs"))
        add_node(item, node["id"], index)
        names.append(f"{node['id'].data} {node['name'].text()}" if "name" in node else str(node["id"].data))
        chosen = _configuration(node["TMPCs"], str(degree), configuration)
        work.append(json_amount(chosen["timePerSample"]) * unit)
        param_bytes.append(json_amount(chosen["parameterSize"]))

    links = links_of(fields["edges"], index, "communicationCost")
    edges, outputs = outputs_by_size([(u, v, 2 * size) for u, v, size in links], len(names))
    source = f"workload {Path(path).name}, tensor parallelism {degree}, {configuration}, forward and backward, "
    source += f"times in {time_unit}"
    return graph_of_file(path, edges, work, outputs, param_bytes, names=tuple(names), source=source)


def _configuration(value: Value, degree: str, configuration: str) -> dict[str, Value]:
    """The members of the chosen configuration of a node."""
    degrees = value.open_members(())
    if degree not in degrees:
        value.fail(f"there is no tensor parallelism of degree {degree}{one_of(degrees, degree)}")
    ways = [item.open_members(("id", "timePerSample", "parameterSize")) for item in degrees[degree].items()]
    for way in ways:
        if way["id"].text() == configuration:
            return way
    end = one_of([way["id"].text() for way in ways], configuration)
    degrees[degree].fail(f"there is no configuration '{configuration}'{end}")


# Profiles published with "Efficient Algorithms for Device Placement of DNN Graph Operators" (Tarnawski et al., 2020).
#
# A JSON object with ``nodes`` (id, name, fpgaLatency [ms], size: parameters [bytes], …) and ``edges``
# (sourceId, destId, size [bytes], cost). The accelerator's latency ``fpgaLatency`` is the work, also of nodes that are
# not ``supportedOnFpga``, which gives a warning. The limits of the devices are not read. Colour classes join nodes in
# training profiles; those of an inference profile are the graph's attribute ``colour_classes``.


def recognises_msr(text: str) -> bool:
    """Whether the text of a file looks like this format."""
    return text.lstrip().startswith("{") and '"fpgaLatency"' in text and '"mtpp-graph/' not in text


def read_msr(path: str | Path, communication: str = "size") -> ComputationGraph:
    """Read an inference or a training profile.

    Edges that leave one node with the same size are one tensor; with different sizes they are several.

    In a training profile each backward node joins the forward nodes of its colour class, which must share its device,
    and each gradient is a tensor of its own between the nodes that it joins: a transfer costs both its ends the same
    whichever way it goes. So an edge of the backward pass says which blocks are neighbours, and it orders them like
    the forward pass if it is reversed, as gradients flow, or as it stands: the layer profiles give the forward graph
    twice. All such edges of a file are read in one direction, the one that leaves more nodes once the nodes of each
    cycle have become one; if both leave as many, they are reversed. If even then cycles take more than half of the
    nodes, that is a warning.

    Parameters
    ----------
    path : path of a JSON file
    communication : {"size", "cost"}
        "size": a tensor has the ``size`` [bytes] of its edges, and the work is in seconds. "cost": the numbers
        stay as in the file; a tensor has the ``cost`` of its edges, to be used with bandwidth 1, and the
        work is in milliseconds. Layer profiles give ``cost`` in seconds and operator profiles in milliseconds;
        the optima published for both take it as it stands.

    Raises
    ------
    InputError
        If the file cannot be read, a field is missing or of the wrong kind, or an edge names an unknown node.
    """
    document = read_json(path)
    fields = document.open_members(("nodes", "edges"))
    index: dict[int, int] = {}
    nodes: list[_Node] = []
    for item in fields["nodes"].items():
        node = item.open_members(("id", "fpgaLatency", "size"))
        add_node(item, node["id"], index)
        milliseconds = json_amount(node["fpgaLatency"])
        nodes.append(
            _Node(
                name=node["name"].text() if "name" in node else str(node["id"].data),
                work=milliseconds if communication == "cost" else milliseconds / 1000,
                size=json_amount(node["size"]),
                backward="isBackwardNode" in node and _flag(node["isBackwardNode"]),
                colour=node["colorClass"].whole() if "colorClass" in node else None,
                supported="supportedOnFpga" not in node or _flag(node["supportedOnFpga"]),
            )
        )

    links = links_of(fields["edges"], index, communication)
    warnings = _unsupported(nodes)
    work, param_bytes = [node.work for node in nodes], [node.size for node in nodes]
    names = [node.name for node in nodes]
    classes: list[list[int]] = []
    try:
        if any(node.backward for node in nodes):
            group, edges, outputs = _fold(nodes, links)
            warnings += _lost_in_cycles(nodes, int(group.max()) + 1)
            work, param_bytes = np.bincount(group, work).tolist(), np.bincount(group, param_bytes).tolist()
            names = [nodes[v].name for v in np.unique(group, return_index=True)[1]]
        else:
            edges, outputs = outputs_by_size(links, len(nodes))
            classes = _colour_classes(nodes)
    except InputError as error:
        document.fail(str(error))
    return graph_of_file(
        path,
        edges,
        work,
        outputs,
        param_bytes,
        names=tuple(names),
        source=f"profile {Path(path).name}, communication by {communication}",
        time_unit="ms" if communication == "cost" else "s",
        attributes=({"warnings": warnings} if warnings else {}) | ({"colour_classes": classes} if classes else {}),
    )


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    work: float
    size: float
    backward: bool
    colour: int | None
    supported: bool


def _colour_classes(nodes: list[_Node]) -> list[list[int]]:
    """Nodes grouped by colour; colours of a single node are left out."""
    classes: dict[int, list[int]] = {}
    for v, node in enumerate(nodes):
        if node.colour is not None:
            classes.setdefault(node.colour, []).append(v)
    return [members for members in classes.values() if len(members) > 1]


def _flag(value: Value) -> bool:
    """Whether a field is set; published files write booleans or 0 and 1."""
    return value.data if isinstance(value.data, bool) else bool(value.whole())


def _fold(
    nodes: list[_Node], links: list[tuple[int, int, float]]
) -> tuple[IntArray, list[tuple[int, int, int]], list[list[float]]]:
    """Fold the backward pass onto the forward pass: the group of each node, and the groups' edges and outputs."""
    ties = _ties(nodes)
    readings = [_ordered(nodes, links, reverse) for reverse in (True, False)]
    groups = [_components(ties + before, len(nodes)) for before in readings]
    before, group = max(zip(readings, groups, strict=True), key=lambda reading: reading[1].max())  # the first if equal
    count = int(group.max()) + 1
    apart = [(s, t) for s, t in ((int(group[u]), int(group[v])) for u, v in before) if s != t]
    position = np.argsort(ComputationGraph.from_edges(apart, np.zeros(count)).topological_order).tolist()
    outputs: list[dict[tuple[int, float], int]] = [{} for _ in range(count)]
    edges = []
    for u, v, size in links:
        # A tensor has one producer: a gradient that several earlier groups read becomes a tensor of each of them.
        s, t = sorted((int(group[u]), int(group[v])), key=position.__getitem__)
        if s != t:
            edges.append((s, t, outputs[s].setdefault((u, size), len(outputs[s]))))
    return group, edges, [[size for _, size in tensors] for tensors in outputs]


def _ties(nodes: list[_Node]) -> list[tuple[int, int]]:
    """Pairs of nodes, in both directions, that share a colour class with a backward node and so a device."""
    colours = {node.colour for node in nodes if node.backward} - {None}
    first: dict[int | None, int] = {}
    ties = []
    for v, node in enumerate(nodes):
        if node.colour in colours:
            u = first.setdefault(node.colour, v)
            ties += [(u, v), (v, u)]
    return ties


def _ordered(nodes: list[_Node], links: list[tuple[int, int, float]], reverse: bool) -> list[tuple[int, int]]:
    """Pairs (u, v) such that the block of u is at most that of v; `reverse` turns backward edges round."""
    before = []
    for u, v, _ in links:
        if nodes[u].backward and not nodes[v].backward:
            raise InputError(f"Edge {nodes[u].name} -> {nodes[v].name} leads from the backward to the forward pass.")
        if nodes[u].backward:
            before.append((v, u) if reverse else (u, v))
        elif not nodes[v].backward:
            before.append((u, v))
    return before


def _components(pairs: list[tuple[int, int]], n: int) -> IntArray:
    """Strongly connected component of each node, numbered by their first nodes."""
    labels = components(np.array(pairs, dtype=np.int64).reshape(-1, 2), n, directed=True)
    _, first, component = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[component]


def _lost_in_cycles(nodes: list[_Node], remaining: int) -> list[str]:
    """Warning, if any, that cycles merge most of the nodes; nodes joined by colour classes do not count."""
    total = int(_components(_ties(nodes), len(nodes)).max()) + 1
    if 2 * remaining >= total:
        return []
    return [
        f"{total - remaining} of {total} nodes (colour classes count as one) are lost to cycles, {remaining} left; "
        "nodes on a cycle share a block, so check the direction of the edges."
    ]


def _unsupported(nodes: list[_Node]) -> list[str]:
    """Warning, if any, that some nodes cannot run on the device that was profiled."""
    count = sum(not node.supported for node in nodes)
    if not count:
        return []
    return [f"{count} of {len(nodes)} nodes are not supported on the accelerator; its latency counts all the same."]
