"""Operators with their costs, and the builder that makes graphs of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from instances.devices import Device
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray, SharedParameter

# Recording a network operator by operator, and pricing the record as a computation graph.


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
    element_bytes: float  # width of one element [bytes]; a mean of several where parameters are stored in these

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> float:
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
    bytes_moved: float = 0  # read and written


class GraphBuilder:
    """Records operators with their shapes and makes the computation graph.

    Parameters
    ----------
    element_bytes : int
        Width of activations and parameters [bytes].
    widths : function, optional
        From the name of a parameter to its own width [bytes], where parameters are stored in several widths.

    Attributes
    ----------
    operators : list of Operator
        In the order of recording, which is a topological order.
    """

    def __init__(self, element_bytes: int = 4, widths: Callable[[str], float] | None = None) -> None:
        self.element_bytes = element_bytes
        self.widths = widths
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
        width = self.widths(".".join((*self._scopes, name))) if self.widths is not None and trainable else None
        return self._record(name, PARAMETER if trainable else _BUFFER, (), [shape], element_bytes=width)[0]

    def state(self, name: str, *shape: int, element_bytes: int) -> Tensor:
        """Record a tensor that its only reader keeps from run to run, such as a cache of keys."""
        return self._record(name, _STATE, (), [shape], element_bytes=element_bytes)[0]

    @contextmanager
    def occasional(self, runs: int, of: int) -> Iterator[None]:
        """Scale the cost of all operators recorded inside by the chance that they run: `runs` of `of` cases."""
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
        bytes_moved: float | None = None,
    ) -> tuple[Tensor, ...]:
        """Record an operator.

        Parameters
        ----------
        kind : str
            Kind of the operator; also its name in the current scope.
        inputs : sequence of Tensor
            Tensors that the operator reads, parameters included.
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
        bytes_moved: float | None = None,
        element_bytes: float | None = None,
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
        """Compute the work of all recorded operators on a device, and make the graph.

        Parameters
        ----------
        device : Device
            Turns operations and bytes into the work of each node [s].
        weights_as_nodes : bool
            If true, every parameter is a source without work that holds the parameter and outputs it.
            Otherwise parameters belong to their users, as states always do.
        name, source, attributes
            Members of the graph. The attributes gain `flops`, `multiply_adds`, `parameter_count` and, if there are any,
            `not_trained`: names of tensors that several nodes hold but that are no parameters, such as a mask.
        """
        hidden = (_STATE,) if weights_as_nodes else (*_HELD, _STATE)
        visible = [v for v, operator in enumerate(self.operators) if operator.kind not in hidden]
        node = {v: i for i, v in enumerate(visible)}
        operators = [self.operators[v] for v in visible]
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
        """(n,) bytes of state that each node keeps from run to run."""
        state_bytes = np.zeros(len(node))
        for v, i in node.items():
            states = [tensor for tensor in self.operators[v].inputs if self.operators[tensor.operator].kind == _STATE]
            state_bytes[i] = sum(tensor.bytes for tensor in states)
        return state_bytes

    def _place_parameters(self, node: Mapping[int, int]) -> tuple[list[float], list[SharedParameter]]:
        """Bytes held by each node, and the parameters that several nodes hold."""
        users: dict[int, list[int]] = {v: [] for v, op in enumerate(self.operators) if op.kind in _HELD}
        for v, operator in enumerate(self.operators):
            for parameter in dict.fromkeys(tensor.operator for tensor in operator.inputs):
                if parameter in users:
                    users[parameter].append(node[v])
        param_bytes = [0.0] * len(node)
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


# The operators that networks are made of, with their shapes, operations and bytes.
#
# Images are (batch, channels, height, width), sequences (batch, sequence, features). Operations per
# element of the cheap operators are rounded counts of the usual kernels; they are bound by memory anyway.


Size = int | tuple[int, int]

_SOFTMAX_FLOPS = 5  # maximum, subtract, exponential, sum, divide
_LAYER_NORM_FLOPS = 8  # two moments, subtract, divide, scale, shift
_RMS_NORM_FLOPS = 4  # one moment, divide, scale
_BATCH_NORM_FLOPS = 2  # one scale and one shift, the moments being constant
_GELU_FLOPS = 8
_SIGMOID_FLOPS = 4
_LSTM_FLOPS = 30  # per hidden unit and step: four gates with their activations, cell and output


class NetworkBuilder(GraphBuilder):
    """Adds operators to a network; each method takes and returns tensor handles."""

    # --- element by element ---------------------------------------------------------------------

    def elementwise(self, kind: str, *inputs: Tensor, flops_per_element: int = 1) -> Tensor:
        """Any operator that works element by element, with broadcasting."""
        shape = np.broadcast_shapes(*(x.shape for x in inputs))
        return self.operator(kind, inputs, [shape], flops=flops_per_element * math.prod(shape))[0]

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Sum of two tensors: a bias or a residual connection."""
        return self.elementwise("add", x, y)

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """Product of two tensors, element by element: a gate."""
        return self.elementwise("multiply", x, y)

    def scale(self, x: Tensor) -> Tensor:
        """Multiply by a constant."""
        return self.elementwise("scale", x)

    def relu(self, x: Tensor) -> Tensor:
        """Rectifier."""
        return self.elementwise("relu", x)

    def relu6(self, x: Tensor) -> Tensor:
        """Rectifier clipped at 6."""
        return self.elementwise("relu6", x, flops_per_element=2)

    def gelu(self, x: Tensor) -> Tensor:
        """Gaussian error linear unit."""
        return self.elementwise("gelu", x, flops_per_element=_GELU_FLOPS)

    def sigmoid(self, x: Tensor) -> Tensor:
        """Logistic function."""
        return self.elementwise("sigmoid", x, flops_per_element=_SIGMOID_FLOPS)

    def silu(self, x: Tensor) -> Tensor:
        """Sigmoid linear unit, also called swish."""
        return self.elementwise("silu", x, flops_per_element=_SIGMOID_FLOPS + 1)

    def tanh(self, x: Tensor) -> Tensor:
        """Hyperbolic tangent."""
        return self.elementwise("tanh", x)

    def softmax(self, x: Tensor) -> Tensor:
        """Softmax over the last axis."""
        return self.elementwise("softmax", x, flops_per_element=_SOFTMAX_FLOPS)

    # --- moving data ----------------------------------------------------------------------------

    def concat(self, *inputs: Tensor, axis: int) -> Tensor:
        """Join tensors along one axis; a single one stays as it is."""
        if len(inputs) == 1:
            return inputs[0]
        rest = np.broadcast_shapes(*(_with(x.shape, axis, 1) for x in inputs))
        return self.operator("concat", inputs, [_with(rest, axis, sum(x.shape[axis] for x in inputs))])[0]

    def split(self, x: Tensor, sizes: Sequence[int], *, axis: int) -> tuple[Tensor, ...]:
        """Cut a tensor along one axis into pieces, one output each; a single piece is the tensor itself."""
        if len(sizes) == 1:
            return (x,)
        return self.operator("split", [x], [_with(x.shape, axis, size) for size in sizes])

    def slice(self, x: Tensor, *shape: int) -> Tensor:
        """Take a part of a tensor; only the part is read."""
        part = math.prod(shape) * x.element_bytes
        return self.operator("slice", [x], [shape], bytes_moved=2 * part)[0]

    def embedding(self, indices: Tensor, table: Tensor) -> Tensor:
        """Look up one row of `table` per index; only these rows are read."""
        shape = (*indices.shape, table.shape[-1])
        rows = math.prod(shape) * self.element_bytes
        return self.operator("embedding", [indices, table], [shape], bytes_moved=indices.bytes + 2 * rows)[0]

    # --- products -------------------------------------------------------------------------------

    def matmul(self, x: Tensor, y: Tensor, new: Tensor | None = None) -> Tensor:
        """Matrix product (..., m, c) times (..., c, n); if `y` is a state, `new` is first written into it."""
        if x.shape[-1] != y.shape[-2]:
            raise ValueError(f"Shapes {x.shape} and {y.shape} cannot be multiplied.")
        shape = (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])
        inputs = [x, y] if new is None else [x, y, new]
        written = math.prod(shape) * self.element_bytes + (0 if new is None else new.elements * y.element_bytes)
        return self.operator(
            "matmul",
            inputs,
            [shape],
            multiply_adds=math.prod(shape) * x.shape[-1],
            bytes_moved=sum(tensor.bytes for tensor in inputs) + written,
        )[0]

    def linear(self, x: Tensor, features: int, name: str = "linear", *, bias: bool = True) -> Tensor:
        """Affine map of the last axis: a matrix product and the addition of a bias."""
        with self.scope(name):
            y = self.matmul(x, self.parameter("weight", x.shape[-1], features))
            return self.add(y, self.parameter("bias", features)) if bias else y

    def conv(
        self,
        x: Tensor,
        channels: int,
        *,
        kernel: Size,
        stride: int = 1,
        padding: Size | None = None,
        groups: int = 1,
        bias: bool = False,
    ) -> Tensor:
        """Convolution; by default padded so that stride 1 keeps the size of the image (odd kernels)."""
        batch, inputs, *image = x.shape
        window = _pair(kernel)
        around = (window[0] // 2, window[1] // 2) if padding is None else _pair(padding)
        shape = (batch, channels, *self._windows("conv", image, window, stride, around))
        area = inputs // groups * math.prod(window)
        with self.scope("conv"):
            parameters = [self.parameter("weight", channels, inputs // groups, *window)]
            if bias:
                parameters.append(self.parameter("bias", channels))
        elements = math.prod(shape)
        additions = elements if bias else 0
        return self.operator("conv", [x, *parameters], [shape], multiply_adds=elements * area, flops=additions)[0]

    # --- normalisation --------------------------------------------------------------------------

    def layer_norm(self, x: Tensor) -> Tensor:
        """Normalise the last axis, with scale and shift."""
        with self.scope("layer_norm"):
            parameters = [self.parameter(name, x.shape[-1]) for name in ("weight", "bias")]
        flops = _LAYER_NORM_FLOPS * x.elements
        return self.operator("layer_norm", [x, *parameters], [x.shape], flops=flops)[0]

    def rms_norm(self, x: Tensor) -> Tensor:
        """Divide the last axis by its root mean square, with scale."""
        with self.scope("rms_norm"):
            weight = self.parameter("weight", x.shape[-1])
        return self.operator("rms_norm", [x, weight], [x.shape], flops=_RMS_NORM_FLOPS * x.elements)[0]

    def group_norm(self, x: Tensor) -> Tensor:
        """Normalise groups of channels of each image, with scale and shift for each channel."""
        with self.scope("group_norm"):
            parameters = [self.parameter(name, x.shape[1]) for name in ("weight", "bias")]
        return self.operator("group_norm", [x, *parameters], [x.shape], flops=_LAYER_NORM_FLOPS * x.elements)[0]

    def batch_norm(self, x: Tensor) -> Tensor:
        """Normalise each channel by its running moments, with scale and shift."""
        with self.scope("batch_norm"):
            parameters = [self.parameter(name, x.shape[1]) for name in ("weight", "bias")]
            parameters += [self.parameter(name, x.shape[1], trainable=False) for name in ("mean", "variance")]
        flops = _BATCH_NORM_FLOPS * x.elements
        return self.operator("batch_norm", [x, *parameters], [x.shape], flops=flops)[0]

    # --- pooling --------------------------------------------------------------------------------

    def max_pool(self, x: Tensor, *, kernel: int, stride: int, padding: int = 0, round_up: bool = False) -> Tensor:
        """Maximum over windows; if rounded up, a last window may leave the image."""
        return self._pool("max_pool", x, kernel, stride, padding, round_up)

    def upsample(self, x: Tensor, factor: int) -> Tensor:
        """Repeat each pixel `factor` times along both axes of the image."""
        batch, channels, height, width = x.shape
        return self.operator("upsample", [x], [(batch, channels, factor * height, factor * width)])[0]

    def average_pool(self, x: Tensor, *, kernel: int, stride: int, padding: int = 0) -> Tensor:
        """Mean over windows."""
        return self._pool("average_pool", x, kernel, stride, padding)

    def adaptive_average_pool(self, x: Tensor, size: int) -> Tensor:
        """Mean over `size` by `size` regions that cover the image, whatever its size."""
        shape = (*x.shape[:2], size, size)
        return self.operator("adaptive_average_pool", [x], [shape], flops=max(x.elements, math.prod(shape)))[0]

    def _pool(self, kind: str, x: Tensor, kernel: int, stride: int, padding: int, round_up: bool = False) -> Tensor:
        window, around = (kernel, kernel), (padding, padding)
        shape = (*x.shape[:2], *self._windows(kind, x.shape[2:], window, stride, around, round_up))
        return self.operator(kind, [x], [shape], flops=math.prod(shape) * kernel**2)[0]

    def _windows(
        self,
        kind: str,
        image: Sequence[int],
        kernel: Sequence[int],
        stride: int,
        padding: Sequence[int],
        round_up: bool = False,
    ) -> Shape:
        room = [size + 2 * around - window for size, window, around in zip(image, kernel, padding, strict=True)]
        if min(room) < 0:
            raise InputError(
                f"{'.'.join((*self._scopes, kind))}: its input of {image[0]} by {image[1]} is smaller than its "
                f"window of {kernel[0]} by {kernel[1]}; give a larger image."
            )
        spare = stride - 1 if round_up else 0
        return tuple((size + spare) // stride + 1 for size in room)

    # --- recurrence -----------------------------------------------------------------------------

    def lstm(
        self, x: Tensor, weight: Tensor, recurrent: Tensor, bias: Tensor, state: Sequence[Tensor] = ()
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run a long short-term memory over the steps of `x`.

        Parameters
        ----------
        x : Tensor
            (batch, steps, features).
        weight, recurrent, bias : Tensor
            (features, 4 hidden), (hidden, 4 hidden), (4 hidden,).
        state : sequence of Tensor
            Hidden and cell state to start from, each (batch, hidden); zero if empty.

        Returns
        -------
        outputs, hidden state, cell state : Tensor
            (batch, steps, hidden), (batch, hidden), (batch, hidden).

        Notes
        -----
        The recurrent matrix is read once per step, as a step needs the one before; the rest once.
        """
        batch, steps, features = x.shape
        hidden = recurrent.shape[0]
        shapes = [(batch, steps, hidden), (batch, hidden), (batch, hidden)]
        operands = [x, weight, recurrent, bias, *state]
        written = sum(math.prod(shape) for shape in shapes) * self.element_bytes
        outputs, last, cell = self.operator(
            "lstm",
            operands,
            shapes,
            multiply_adds=batch * steps * (features + hidden) * 4 * hidden,
            flops=_LSTM_FLOPS * batch * steps * hidden,
            bytes_moved=sum(t.bytes for t in operands) + (steps - 1) * recurrent.bytes + written,
        )
        return outputs, last, cell


def _pair(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def _with(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])
