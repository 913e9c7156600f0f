"""Recording a network operator by operator, and pricing the record as a computation graph."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from instances.devices.roofline import Device
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray, SharedParameter

__all__ = ["PARAMETER", "GraphBuilder", "Operator", "Shape", "Tensor"]

Shape = tuple[int, ...]

#: Kinds of what a device holds from the start; only parameters are trained.
PARAMETER = "parameter"
_BUFFER = "buffer"
_HELD = (PARAMETER, _BUFFER)
#: Kind of what an operator keeps from one run to the next.
_STATE = "state"

_COSTS = ("multiply_adds", "flops", "bytes_moved")
_MOST_OPERATORS = 200_000


@dataclass(frozen=True)
class Tensor:
    """Handle of one output of one recorded operator."""

    operator: int  # index of the one that produces it
    output: int  # which of that operator's outputs it is
    shape: Shape
    element_bytes: int  # width of one element [bytes]

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size [bytes]."""
        return self.elements * self.element_bytes

    def view(self, *shape: int) -> Tensor:
        """The same data seen in another shape; costs nothing and makes no node.

        Only shapes count here, so a transpose is a view as well.

        Raises
        ------
        ValueError
            If the number of elements differs.
        """
        if math.prod(shape) != self.elements:
            raise ValueError(f"A tensor of shape {self.shape} cannot be seen as {shape}.")
        return replace(self, shape=shape)


@dataclass(frozen=True)
class Operator:
    """One recorded operator; inputs and parameters of the network are operators that do nothing."""

    name: str  # unique, with its scopes
    kind: str  # kind of operation
    layer: str  # outermost scope; an operator outside all scopes is a layer of its own, called by its name
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    multiply_adds: int = 0  # in matrix products and convolutions, as publications count them
    flops: int = 0  # all floating-point operations; a multiply-add is two
    bytes_moved: int = 0  # read and written


class GraphBuilder:
    """Records operators with their shapes and makes the computation graph.

    Parameters
    ----------
    element_bytes : int
        Width of activations and parameters [bytes].

    Attributes
    ----------
    operators : list of Operator
        In the order of recording, which is a topological order.
    """

    def __init__(self, element_bytes: int = 4) -> None:
        self.element_bytes = element_bytes
        self.operators: list[Operator] = []
        self._scopes: list[str] = []
        self._names: Counter[str] = Counter()

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Prefix the names of everything recorded inside with ``name.``; the outermost scope is a layer."""
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    def input(self, name: str, *shape: int, element_bytes: int | None = None) -> Tensor:
        """Record an input of the network: a source without work."""
        return self._record(name, "input", (), [shape], element_bytes=element_bytes)[0]

    def parameter(self, name: str, *shape: int, trainable: bool = True) -> Tensor:
        """Record a tensor that the network holds; one that is not trainable does not count as a parameter."""
        return self._record(name, PARAMETER if trainable else _BUFFER, (), [shape])[0]

    def state(self, name: str, *shape: int, element_bytes: int) -> Tensor:
        """Record a tensor that its one reader keeps from run to run, such as a cache of keys."""
        return self._record(name, _STATE, (), [shape], element_bytes=element_bytes)[0]

    @contextmanager
    def occasional(self, runs: int, of: int) -> Iterator[None]:
        """Let everything recorded inside cost what it costs on average if it runs in `runs` of `of` cases."""
        first = len(self.operators)
        yield
        for v in range(first, len(self.operators)):
            costs = {key: getattr(self.operators[v], key) * runs // of for key in _COSTS}
            self.operators[v] = replace(self.operators[v], **costs)

    def operator(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        shapes: Sequence[Shape],
        *,
        multiply_adds: int = 0,
        flops: int = 0,
        bytes_moved: int | None = None,
    ) -> tuple[Tensor, ...]:
        """Record an operator.

        Parameters
        ----------
        kind : str
            What it does; also its name in the current scope.
        inputs : sequence of Tensor
            What it reads, parameters included.
        shapes : sequence of tuple of int
            Shape of each output.
        multiply_adds : int
            Multiply-adds in matrix products and convolutions.
        flops : int
            Operations besides the multiply-adds.
        bytes_moved : int, optional
            By default every input is read once and every output written once.

        Returns
        -------
        tuple of Tensor
            One per output.
        """
        return self._record(kind, kind, inputs, shapes, multiply_adds, 2 * multiply_adds + flops, bytes_moved)

    def _record(
        self,
        name: str,
        kind: str,
        inputs: Sequence[Tensor],
        shapes: Sequence[Shape],
        multiply_adds: int = 0,
        flops: int = 0,
        bytes_moved: int | None = None,
        element_bytes: int | None = None,
    ) -> tuple[Tensor, ...]:
        if len(self.operators) == _MOST_OPERATORS:
            raise InputError(f"more than {_MOST_OPERATORS} operators; choose smaller dimensions.")
        width = self.element_bytes if element_bytes is None else element_bytes
        outputs = tuple(Tensor(len(self.operators), i, tuple(shape), width) for i, shape in enumerate(shapes))
        if bytes_moved is None:
            bytes_moved = sum(tensor.bytes for tensor in (*inputs, *outputs)) if inputs else 0
        full = self._unique(name)
        layer = self._scopes[0] if self._scopes else full
        self.operators.append(
            Operator(
                name=full,
                kind=kind,
                layer=layer,
                inputs=tuple(inputs),
                outputs=outputs,
                multiply_adds=multiply_adds,
                flops=flops,
                bytes_moved=bytes_moved,
            )
        )
        return outputs

    def _unique(self, name: str) -> str:
        full = ".".join((*self._scopes, name))
        self._names[full] += 1
        return full if self._names[full] == 1 else f"{full}_{self._names[full]}"

    def graph(
        self,
        device: Device,
        *,
        weights_as_nodes: bool = False,
        name: str = "graph",
        source: str = "",
        attributes: Mapping[str, Any] | None = None,
    ) -> ComputationGraph:
        """Price the record on a device.

        Parameters
        ----------
        device : Device
            Turns operations and bytes into the work of each node [s].
        weights_as_nodes : bool
            If true, every parameter is a source without work that holds the parameter and outputs it.
            Otherwise parameters belong to their users, as states always do.
        name, source, attributes
            Of the graph; the attributes gain `flops`, `multiply_adds` and `parameter_count`, and `not_trained`, names
            of what several nodes hold that is no parameter, such as a mask, if there is any.
        """
        hidden = (_STATE,) if weights_as_nodes else (*_HELD, _STATE)
        kept = [v for v, operator in enumerate(self.operators) if operator.kind not in hidden]
        node = {v: i for i, v in enumerate(kept)}
        operators = [self.operators[v] for v in kept]
        edges = [
            (node[tensor.operator], i, tensor.output)
            for i, operator in enumerate(operators)
            for tensor in operator.inputs
            if tensor.operator in node
        ]
        param_bytes, shared = self._place_parameters(node)
        totals: dict[str, Any] = {
            "flops": sum(operator.flops for operator in self.operators),
            "multiply_adds": sum(operator.multiply_adds for operator in self.operators),
            "parameter_count": sum(op.outputs[0].elements for op in self.operators if op.kind == PARAMETER),
        }
        shared_names, kinds = {parameter.name for parameter in shared}, {op.name: op.kind for op in self.operators}
        if buffers := [buffer for buffer in kinds if buffer in shared_names and kinds[buffer] == _BUFFER]:
            totals["not_trained"] = buffers
        return ComputationGraph.from_edges(
            edges,
            work=[device.time(operator.flops, operator.bytes_moved) for operator in operators],
            output_bytes=[[tensor.bytes for tensor in operator.outputs] for operator in operators],
            param_bytes=param_bytes,
            names=tuple(operator.name for operator in operators),
            parameters=tuple(shared),
            time_unit="s",
            name=name,
            source=source,
            attributes={**(attributes or {}), **totals},
            state_bytes=self._place_states(node),
        )

    def _place_states(self, node: Mapping[int, int]) -> FloatArray:
        """(n,) bytes that each node keeps."""
        kept = np.zeros(len(node))
        for v, i in node.items():
            states = [tensor for tensor in self.operators[v].inputs if self.operators[tensor.operator].kind == _STATE]
            kept[i] = sum(tensor.bytes for tensor in states)
        return kept

    def _place_parameters(self, node: Mapping[int, int]) -> tuple[list[int], list[SharedParameter]]:
        """Bytes held by each node, and the parameters that several nodes hold."""
        users: dict[int, list[int]] = {v: [] for v, op in enumerate(self.operators) if op.kind in _HELD}
        for v, operator in enumerate(self.operators):
            for parameter in dict.fromkeys(tensor.operator for tensor in operator.inputs):
                if parameter in users:
                    users[parameter].append(node[v])
        param_bytes = [0] * len(node)
        shared = []
        for v, nodes in users.items():
            operator = self.operators[v]
            size = operator.outputs[0].bytes
            holders = [node[v]] if v in node else nodes
            if len(holders) == 1:
                param_bytes[holders[0]] += size
            else:
                shared.append(SharedParameter(operator.name, size, tuple(holders)))
        return param_bytes, shared
