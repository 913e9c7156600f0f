"""The computation graph: nodes that take time, tensors that take bytes; and its files, ``mtpp-graph/1``, JSON.

Floats are written with the shortest digits that give the same float back, so a graph survives a round trip
bit by bit. An unknown field is an error: a misspelt one must not count as absent.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from instances.errors import InputError
from instances.graph.display import Displayed, figures
from instances.graph.frames import frame_columns, networkx_columns
from instances.graph.tensors import (
    FloatArray,
    IntArray,
    SharedParameter,
    Tensors,
    compressed_rows,
    freeze,
    nodes_by_depth,
    sorted_unique,
)

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
from pathlib import Path

from instances.json_files import GRAPH_FORMAT, Value, read_json, write_json

_PER_NODE = ("work", "param_bytes", "state_bytes")


@dataclass(frozen=True, eq=False, repr=False)
class ComputationGraph(Displayed):
    """Directed acyclic graph of operators and the tensors between them.

    An edge is a pair (tensor, consumer); ``n`` counts nodes and ``m`` edges. All arrays are read-only.

    Parameters
    ----------
    work : (n,) floats
        Time of each node [`time_unit`].
    param_bytes : (n,) floats
        Parameters that belong to one node alone [bytes].
    tensors : Tensors
        Outputs of the nodes, with their readers.
    names : tuple of str, optional
        One name a node; by default their indices.
    parameters : tuple of SharedParameter
        Parameters with several users.
    time_unit : str
        Unit of `work`; bandwidths are bytes per this unit.
    name, source : str
        What the network is called and where the numbers come from.
    attributes : mapping
        Free annotations, carried along in files.
    state_bytes : (n,) floats, optional
        What each node keeps from run to run besides its parameters, such as a cache of keys [bytes]; default 0.

    Raises
    ------
    InputError
        If there is no node, a number is negative or not finite, an index is out of range, an edge is a
        self-loop, or the edges contain a cycle (the message names one).
    """

    work: FloatArray
    param_bytes: FloatArray
    tensors: Tensors
    names: tuple[str, ...] = ()
    parameters: tuple[SharedParameter, ...] = ()
    time_unit: str = "s"
    name: str = "graph"
    source: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    state_bytes: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if np.size(self.state_bytes) == 0:
            object.__setattr__(self, "state_bytes", np.zeros(np.size(self.work)))
        for column in _PER_NODE:
            object.__setattr__(self, column, numbers(getattr(self, column), column))
        if len(self.work) == 0:
            raise InputError("The graph has no node; give at least one.")
        if not self.names:
            object.__setattr__(self, "names", tuple(str(v) for v in range(len(self.work))))
        freeze(self.work, self.param_bytes, self.state_bytes)
        self._check_numbers()
        check_edges(self.tensors.producer, self.edges, self.names)
        if len(self.topological_order) < self.n:
            cycle = describe_cycle(self.predecessors, self.topological_order, self.names)
            raise InputError(f"The edges contain a cycle: {cycle}; remove one of these edges.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        freeze(self.work, self.param_bytes, self.state_bytes)  # pickling forgets it

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[Sequence[int]],
        work: ArrayLike,
        output_bytes: Sequence[float | Sequence[float]] | FloatArray | None = None,
        param_bytes: ArrayLike | None = None,
        **attributes: Any,
    ) -> ComputationGraph:
        """Build a graph from node weights and a list of edges.

        Parameters
        ----------
        edges : iterable of (u, v) or (u, v, output)
            ``v`` reads output number ``output`` (default 0) of ``u``. A repeated edge is one edge.
        work : (n,) array
            Time of each node.
        output_bytes : sequence of length n, optional
            Per node the bytes of its one output, or a list with the bytes of each output; default 0.
        param_bytes : (n,) array, optional
            Parameters of each node [bytes]; default 0.
        **attributes
            `names`, `parameters`, `time_unit`, `name`, `source`, `attributes`, `state_bytes` of the graph.

        Raises
        ------
        InputError
            As the constructor, and if an edge reads an output that its producer does not have.

        Examples
        --------
        >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2)], work=[1, 2, 3], output_bytes=[10, 0, 0])
        >>> graph.n, graph.m
        (3, 2)
        """
        work_array = numbers(work, "work")
        n = len(work_array)
        if output_bytes is None:
            output_bytes = np.zeros(n)
        if np.isscalar(output_bytes):
            raise InputError("The output_bytes must be a list with an entry per node.")
        if len(output_bytes) != n:
            raise InputError(f"There are {n} work values but {len(output_bytes)} output sizes; give one per node.")
        sizes, first = output_sizes(output_bytes)
        tensor, consumer = np.divmod(sorted_unique(edge_keys(edges, first, n)), max(n, 1))
        tensors = Tensors(
            producer=np.repeat(np.arange(n), np.diff(first)),
            bytes=sizes,
            start=np.searchsorted(tensor, np.arange(first[-1] + 1)),
            consumers=consumer,
        )
        params = np.zeros(n) if param_bytes is None else numbers(param_bytes, "param_bytes")
        return cls(work_array, params, tensors, **attributes)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.work)

    @property
    def m(self) -> int:
        """Number of edges, that is of pairs (tensor, consumer)."""
        return len(self.tensors.consumers)

    @cached_property
    def edge_tensor(self) -> IntArray:
        """(m,) tensor of each edge."""
        return np.repeat(np.arange(len(self.tensors.producer)), np.diff(self.tensors.start))

    @cached_property
    def edges(self) -> IntArray:
        """(m, 2) producer and consumer of each edge."""
        return np.column_stack((self.tensors.producer[self.edge_tensor], self.tensors.consumers))

    @cached_property
    def output_start(self) -> IntArray:
        """(n + 1,) the tensors of node ``u`` are ``output_start[u]:output_start[u + 1]``."""
        return np.searchsorted(self.tensors.producer, np.arange(self.n + 1))

    @cached_property
    def inputs(self) -> tuple[IntArray, IntArray]:
        """Compressed rows of the tensors that each node reads."""
        return compressed_rows(self.tensors.consumers, self.edge_tensor, self.n)

    @cached_property
    def successors(self) -> tuple[IntArray, IntArray]:
        """Compressed rows of the nodes after each node, once per edge."""
        return compressed_rows(self.edges[:, 0], self.edges[:, 1], self.n)

    @cached_property
    def predecessors(self) -> tuple[IntArray, IntArray]:
        """Compressed rows of the nodes before each node, once per edge."""
        return compressed_rows(self.edges[:, 1], self.edges[:, 0], self.n)

    @cached_property
    def topological_order(self) -> IntArray:
        """(n,) the nodes by depth, then by index; shorter than n if there is a cycle."""
        return nodes_by_depth(*self.successors, np.bincount(self.edges[:, 1], minlength=self.n))

    @cached_property
    def parameter_total(self) -> float:
        """Bytes of all parameters, shared ones once."""
        return float(self.param_bytes.sum() + sum(p.bytes for p in self.parameters))

    @cached_property
    def held_bytes(self) -> FloatArray:
        """(n,) bytes of parameters that only this node uses, and of its state."""
        return self.param_bytes + self.state_bytes

    @cached_property
    def held_total(self) -> float:
        """Bytes of all parameters, shared ones once, and of all states."""
        return self.parameter_total + float(self.state_bytes.sum())

    @property
    def held_words(self) -> str:
        """The name, for messages, of the things that nodes hold: parameters, states, or both."""
        return "parameters and states" if self.state_bytes.any() else "parameters"

    @cached_property
    def content_hash(self) -> str:
        """Hash (SHA-256) of everything that costs depend on; names do not count, states only where there are any."""
        digest = hashlib.sha256()
        for array in (self.work, self.param_bytes, *vars(self.tensors).values()):
            digest.update(np.ascontiguousarray(array).tobytes() + b"|")
        for parameter in self.parameters:
            digest.update(f"{parameter.bytes!r}{sorted(parameter.users)}".encode())
        if self.state_bytes.any():
            digest.update(b"state|" + self.state_bytes.tobytes())
        return digest.hexdigest()

    def to_networkx(self) -> nx.MultiDiGraph[int]:
        """Convert to networkx, in the form that `from_networkx` reads; shared parameters are left out.

        Nodes are indices with name, work, param_bytes, state_bytes and output_bytes (a list); edges carry the number of
        the output that they read, and its bytes.
        """
        import networkx as nx

        result: nx.MultiDiGraph[int] = nx.MultiDiGraph(name=self.name, time_unit=self.time_unit)
        first, sizes = self.output_start, self.tensors.bytes
        for v, name in enumerate(self.names):
            outputs = sizes[first[v] : first[v + 1]].tolist()
            weights = {key: float(getattr(self, key)[v]) for key in _PER_NODE}
            result.add_node(v, name=name, **weights, output_bytes=outputs)
        for (u, v), t in zip(self.edges.tolist(), self.edge_tensor.tolist(), strict=True):
            result.add_edge(u, v, output=int(t - first[u]), bytes=float(sizes[t]))
        return result

    @classmethod
    def from_networkx(cls, graph: nx.DiGraph[Any], **attributes: Any) -> ComputationGraph:
        """Build a graph from a networkx digraph.

        Node attributes are work, output_bytes, param_bytes, state_bytes and name. Each node has work; missing bytes
        count as 0, and a node without a name is called by its label. An edge may have the number of the output that it
        reads as `output`, and the size of that output as `bytes`. An `InputError` names unknown attributes;
        `attributes` are those of `from_edges`.

        Examples
        --------
        >>> import networkx as nx
        >>> digraph = nx.DiGraph([("a", "b")])
        >>> digraph.add_node("a", work=2.0, output_bytes=8)
        >>> digraph.add_node("b", work=3.0)
        >>> ComputationGraph.from_networkx(digraph).names
        ('a', 'b')
        """
        return cls.from_edges(**(networkx_columns(graph) | attributes))

    @classmethod
    def from_frames(cls, nodes: pd.DataFrame, edges: pd.DataFrame, **attributes: Any) -> ComputationGraph:
        """Build a graph from two pandas frames, with one row for each node and one for each edge.

        Parameters
        ----------
        nodes : DataFrame
            Columns work, and perhaps output_bytes (a number, or a list where a node has several outputs), param_bytes
            and name; without names the index names the nodes.
        edges : DataFrame
            Columns source and target, which are names of nodes, and perhaps output. `attributes` as in `from_edges`.

        Raises
        ------
        InputError
            As `from_edges`, and if a column is unknown, an entry is missing or no number, or a name is there twice.

        Examples
        --------
        >>> import pandas as pd
        >>> nodes = pd.DataFrame({"work": [2.0, 3.0], "output_bytes": [8, 0]}, index=["a", "b"])
        >>> ComputationGraph.from_frames(nodes, pd.DataFrame({"source": ["a"], "target": ["b"]}))
        <ComputationGraph 'graph': nodes 2, edges 1, work 5 s, parameters 0 bytes>
        """
        return cls.from_edges(**(frame_columns(nodes, edges) | attributes))

    def _facts(self) -> dict[str, str]:
        return {
            "nodes": str(self.n),
            "edges": str(self.m),
            "work": figures(self.work.sum(), self.time_unit),
            "parameters": figures(self.parameter_total, "bytes"),
        }

    def _check_numbers(self) -> None:
        params, states = len(self.param_bytes), len(self.state_bytes)
        if not (params == states == len(self.names) == self.n):
            counts = f"{self.n} work values, {params} parameter sizes, {states} state sizes and {len(self.names)} names"
            raise InputError(f"There are {counts}; give one of each per node.")
        for label in _PER_NODE:
            check_weights(getattr(self, label), label, range(self.n), self.names)
        check_weights(self.tensors.bytes, "output_bytes", self.tensors.producer, self.names)
        check_parameters(self.parameters, self.n)


# Checks that make arrays of columns of numbers and lists of edges; errors name the place.


_NON_NEGATIVE = "it must be a finite number, 0 or more."

_CYCLE_SHOWN = 8


def index_range(n: int) -> str:
    """End of an error message on an index out of range."""
    return f"does not exist; indices run from 0 to {n - 1}."


def numbers(values: ArrayLike, label: str) -> FloatArray:
    """Copy a plain list of numbers into an array."""
    for i in [i for i, value in enumerate(values) if value is None] if isinstance(values, list | tuple) else ():
        raise InputError(f"Node {i}: {label} is missing; give a number, 0 if there is none.")
    try:
        array = np.atleast_1d(np.array(values, dtype=np.float64)) + 0.0  # no negative zero: it would change hashes
    except (TypeError, ValueError):
        raise InputError(f"The {label} holds something that is not a number; give numbers.") from None
    if array.ndim > 1:
        raise InputError(f"The {label} has {array.ndim} dimensions; give a plain list.")
    return array


def check_weights(values: FloatArray, label: str, nodes: IntArray | Sequence[int], names: Sequence[str]) -> None:
    """Refuse a weight that is negative or not finite; the error names its node."""
    for i in np.flatnonzero(~(np.isfinite(values) & (values >= 0)))[:1]:
        raise InputError(f"Node {nodes[i]} ({names[nodes[i]]}): {label} is {values[i]}; {_NON_NEGATIVE}")


def check_edges(producer: IntArray, edges: IntArray, names: Sequence[str]) -> None:
    """Refuse an edge from or to a node that does not exist, or from a node to itself."""
    n = len(names)
    for t in np.flatnonzero(producer >= n)[:1]:
        raise InputError(f"Tensor {t}: producer {producer[t]} {index_range(n)}")
    for u, v in edges[((edges < 0) | (edges >= n)).any(axis=1)][:1]:
        raise InputError(f"Edge {u} -> {v}: node {u if not 0 <= u < n else v} {index_range(n)}")
    for u, _ in edges[edges[:, 0] == edges[:, 1]][:1]:
        raise InputError(f"Edge {u} -> {u} ({names[u]}) is a self-loop; remove it.")


def check_parameters(parameters: Iterable[SharedParameter], n: int) -> None:
    """Refuse a shared parameter whose size is invalid, or whose user does not exist."""
    for parameter in parameters:
        if not (np.isfinite(parameter.bytes) and parameter.bytes >= 0):
            raise InputError(f"Parameter {parameter.name}: bytes is {parameter.bytes}; {_NON_NEGATIVE}")
        for user in parameter.users:
            if not 0 <= user < n:
                raise InputError(f"Parameter {parameter.name}: user {user} {index_range(n)}")


def output_sizes(output_bytes: Sequence[float | Sequence[float]] | FloatArray) -> tuple[FloatArray, IntArray]:
    """Sizes of all outputs, and the index of the first one of each node."""
    if isinstance(output_bytes, np.ndarray) and output_bytes.ndim == 1:
        return numbers(output_bytes, "output_bytes"), np.arange(len(output_bytes) + 1)
    rows = [row if isinstance(row, list | tuple | np.ndarray) else (row,) for row in output_bytes]
    try:
        sizes = np.array([size for row in rows for size in row], dtype=np.float64) + 0.0
        counts = [len(row) for row in rows]
    except (TypeError, ValueError):
        sizes = np.zeros((0, 0))
    if sizes.ndim > 1:  # say which node is wrong
        by_node = [numbers(row, f"output_bytes of node {v}") for v, row in enumerate(output_bytes)]
        sizes, counts = np.concatenate(by_node), [len(row) for row in by_node]
    return sizes, np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


def edge_keys(edges: Iterable[Sequence[int]], first: IntArray, n: int) -> IntArray:
    """Key of each edge: tensor · n + consumer."""
    rows = edges if isinstance(edges, np.ndarray) else list(edges)
    try:
        table = np.array(rows)
    except ValueError:  # of different lengths
        table = np.zeros(0)
    if table.dtype.kind == "i" and table.ndim == 2 and table.shape[1] in (2, 3):
        u, v = table[:, 0], table[:, 1]
        output = table[:, 2] if table.shape[1] == 3 else np.zeros_like(u)
        if ((table[:, :2] >= 0) & (table[:, :2] < n)).all() and ((output >= 0) & (output < np.diff(first)[u])).all():
            return (first[u] + output) * n + v
    pairs = [_tensor_and_consumer(edge, first, n) for edge in rows]  # finds what is wrong
    return np.array([tensor * n + consumer for tensor, consumer in pairs], dtype=np.int64)


def _tensor_and_consumer(edge: Sequence[int], first: IntArray, n: int) -> tuple[int, int]:
    try:
        u, v, output = map(operator.index, edge if len(edge) == 3 else (*edge, 0))
    except (TypeError, ValueError):
        raise InputError(f"Edge {edge} is not (u, v) or (u, v, output) in whole numbers.") from None
    if not (0 <= u < n and 0 <= v < n):
        raise InputError(f"Edge {u} -> {v}: node {u if not 0 <= u < n else v} {index_range(n)}")
    if not 0 <= output < first[u + 1] - first[u]:
        raise InputError(
            f"Edge {u} -> {v} reads output {output} of node {u}, which has {first[u + 1] - first[u]}; "
            "outputs are numbered from 0."
        )
    return int(first[u] + output), v


def describe_cycle(predecessors: tuple[IntArray, IntArray], sorted_nodes: IntArray, names: Sequence[str]) -> str:
    """Describe a cycle among the nodes that have no place in a topological order."""
    # Each of them has a predecessor that has none either: some walk backwards comes round.
    start, before = (rows.tolist() for rows in predecessors)
    unsorted = set(range(len(names))) - set(sorted_nodes.tolist())
    walk: list[int] = []
    place: dict[int, int] = {}
    u = min(unsorted)
    while u not in place:
        place[u] = len(walk)
        walk.append(u)
        u = next(p for p in before[start[u] : start[u + 1]] if p in unsorted)
    cycle = walk[place[u] :][::-1]
    first = cycle.index(min(cycle))
    cycle = cycle[first:] + cycle[:first]
    steps = [f"{u} ({names[u]})" for u in cycle[:_CYCLE_SHOWN]]
    if len(cycle) > _CYCLE_SHOWN:
        steps.append(f"… {len(cycle) - _CYCLE_SHOWN} more")
    return " -> ".join([*steps, steps[0]])


_GRAPH_OPTIONAL = ("name", "source", "time_unit", "parameters", "attributes")
_NODE_OPTIONAL = ("name", "param_bytes", "output_bytes", "state_bytes")


def graph_document(graph: ComputationGraph) -> dict[str, Any]:
    """Convert the graph to the JSON document of its file."""
    sizes = (graph.tensors.bytes + 0.0).tolist()
    first = graph.output_start.tolist()
    nodes: list[dict[str, Any]] = []
    columns = (graph.names, graph.work.tolist(), graph.param_bytes.tolist(), graph.state_bytes.tolist())
    for v, (name, work, params, state) in enumerate(zip(*columns, strict=True)):
        outputs = sizes[first[v] : first[v + 1]]
        output_bytes = outputs[0] if len(outputs) == 1 else outputs
        stored = {"param_bytes": params, "state_bytes": state} if state else {"param_bytes": params}
        nodes.append({"name": name, "work": work, **stored, "output_bytes": output_bytes})
    edges = [
        [u, v] if first[u + 1] - first[u] == 1 else [u, v, tensor - first[u]]
        for (u, v), tensor in zip(graph.edges.tolist(), graph.edge_tensor.tolist(), strict=True)
    ]
    return {
        "format": GRAPH_FORMAT,
        "name": graph.name,
        "source": graph.source,
        "time_unit": graph.time_unit,
        "nodes": nodes,
        "edges": edges,
        "parameters": [{"name": p.name, "bytes": p.bytes, "users": list(p.users)} for p in graph.parameters],
        "attributes": dict(graph.attributes),
    }


def graph_from_document(document: Value) -> ComputationGraph:
    """Build a graph from its JSON document.

    ``format``, ``nodes``, ``edges`` and the ``work`` of each node are required; sizes default to 0, names to
    indices and the time unit to seconds.

    Raises
    ------
    InputError
        If a field is missing, unknown or of the wrong kind, or the graph itself is refused; the message
        names the place.
    """
    document.check_format(GRAPH_FORMAT)
    fields = document.members(("format", "nodes", "edges"), _GRAPH_OPTIONAL)
    nodes = [node.members(("work",), _NODE_OPTIONAL) for node in fields["nodes"].items()]
    if not nodes:
        fields["nodes"].fail("the graph has no node; give at least one.")
    attributes = fields.get("attributes", Value({}, document.file))
    attributes.open_members(())
    texts = {key: fields[key].text() for key in ("name", "source", "time_unit") if key in fields}
    work = [node["work"].number() for node in nodes]
    output_bytes = [_sizes(node["output_bytes"]) if "output_bytes" in node else [0.0] for node in nodes]
    param_bytes, state_bytes = (
        [node[key].number() if key in node else 0.0 for node in nodes] for key in ("param_bytes", "state_bytes")
    )
    names = tuple(node["name"].text() if "name" in node else str(v) for v, node in enumerate(nodes))
    edges = [_edge(edge) for edge in fields["edges"].items()]
    parameters = tuple(_parameter(value) for value in fields["parameters"].items()) if "parameters" in fields else ()
    try:
        return ComputationGraph.from_edges(
            edges,
            work,
            output_bytes,
            param_bytes,
            names=names,
            parameters=parameters,
            attributes=attributes.data,
            state_bytes=np.array(state_bytes),
            **texts,
        )
    except InputError as error:
        document.fail(str(error))


def save_graph(graph: ComputationGraph, path: str | Path) -> None:
    """Write a graph file.

    Raises
    ------
    InputError
        If the file cannot be written, or the attributes hold something that JSON cannot.
    """
    write_json(path, graph_document(graph))


def read_graph(path: str | Path) -> ComputationGraph:
    """Read a graph file.

    Raises
    ------
    InputError
        If the file cannot be read or is not a valid graph; the message names the file and the place.
    """
    return graph_from_document(read_json(path))


def _sizes(value: Value) -> list[float]:
    return value.numbers() if isinstance(value.data, list) else [value.number()]


def _edge(value: Value) -> list[int]:
    edge = value.whole_numbers()
    if len(edge) not in (2, 3):
        value.fail(f"an edge has 2 or 3 numbers, [from, to] or [from, to, output]; this one has {len(edge)}.")
    return edge


def _parameter(value: Value) -> SharedParameter:
    fields = value.members(("name", "bytes", "users"))
    users = tuple(fields["users"].whole_numbers())
    return SharedParameter(fields["name"].text(), fields["bytes"].number(), users)
