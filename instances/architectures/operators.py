"""The operators that networks are made of, with their shapes, operations and bytes.

Images are (batch, channels, height, width), sequences (batch, sequence, features). Operations per
element of the cheap operators are rounded counts of the usual kernels; they are bound by memory anyway.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from instances.architectures.builder import GraphBuilder, Shape, Tensor
from instances.errors import InputError

__all__ = ["NetworkBuilder", "Size"]

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
