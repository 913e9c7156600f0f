"""The backward half of a training step, derived from the record of the forward half."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from instances.architectures.builder import PARAMETER, Operator, Tensor

__all__ = ["backward_operators"]

#: Kinds whose gradient does not depend on the values that they read.
_LINEAR = frozenset({"add", "adaptive_average_pool", "average_pool", "concat", "scale", "slice", "split", "upsample"})


def backward_operators(operators: Sequence[Operator]) -> list[Operator]:
    """Operators that compute the gradients of all parameters, to be recorded after the forward ones.

    Each operator that depends on a parameter gets one backward operator, named ``backward.`` and its name, in the
    layer ``backward.`` and its layer:

    - It reads the gradients of its outputs, one from each reader of each output; an operator that ends the network
      has none, and its outputs are read instead, from which the loss follows. It also reads the parameters and,
      unless the operator is linear, whatever else the forward operator read: the saved activations.
    - It outputs a gradient of the same size for each activation that depends on a parameter. Gradients of
      parameters stay where they are computed.
    - It costs (multiply-adds, other operations, bytes moved) as much as the forward operator for each such
      activation, and as much again for the parameters, but at most twice as much. So a product with a weight or of
      two activations costs twice its forward multiply-adds, but once if it reads the input of the network, and an
      activation function costs once. Adding up the gradients of one tensor is not counted.

    Both records are in topological order; the new tensors are numbered as if appended to `operators`.
    """
    trained = _depends_on_parameters(operators)
    gradients: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
    result: list[Operator] = []
    for v, operator in reversed(list(enumerate(operators))):
        if operator.kind == PARAMETER or not trained[v]:
            continue
        parameters = [tensor for tensor in operator.inputs if operators[tensor.operator].kind == PARAMETER]
        operands = [x for x in operator.inputs if trained[x.operator] and x not in parameters]
        received = [gradient for output in operator.outputs for gradient in gradients[_key(output)]]
        saved = parameters if operator.kind in _LINEAR else operator.inputs
        wanted = {_key(tensor): tensor for tensor in operands}
        number = len(operators) + len(result)
        sent = tuple(replace(x, operator=number, output=i) for i, x in enumerate(wanted.values()))
        for key, gradient in zip(wanted, sent, strict=True):
            gradients[key].append(gradient)
        passes = min(2, len(operands) + bool(parameters))
        result.append(
            Operator(
                name=f"backward.{operator.name}",
                kind=operator.kind,
                layer=f"backward.{operator.layer}",
                inputs=(*(received or operator.outputs), *saved),
                outputs=sent,
                multiply_adds=passes * operator.multiply_adds,
                flops=passes * operator.flops,
                bytes_moved=passes * operator.bytes_moved,
            )
        )
    return result


def _depends_on_parameters(operators: Sequence[Operator]) -> list[bool]:
    """Whether each operator is a parameter or reads, directly or not, one."""
    trained: list[bool] = []
    for operator in operators:
        trained.append(operator.kind == PARAMETER or any(trained[tensor.operator] for tensor in operator.inputs))
    return trained


def _key(tensor: Tensor) -> tuple[int, int]:
    return tensor.operator, tensor.output
