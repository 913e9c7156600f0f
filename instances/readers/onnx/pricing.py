"""Cost of a live node; control flow costs as much as its bodies."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from instances.devices.roofline import Device
from instances.errors import InputError
from instances.readers.onnx.live_nodes import LiveNode, Scope
from instances.readers.onnx.operators import count, is_view

__all__ = ["Price", "price"]


@dataclass
class Price:
    """Cost of a node."""

    multiply_adds: int = 0
    flops: int = 0
    seconds: float = 0.0  # by the roofline model; for control flow the sum over what runs
    unknown_operators: Counter[str] = field(default_factory=Counter)  # operators of which only the bytes are counted
    # Loops that count once, as the file does not say how often they run, or as if their state kept its first shape.
    approximate_loops: list[str] = field(default_factory=list)

    def add(self, other: Price, times: int = 1) -> None:
        """Add another price, several times."""
        self.multiply_adds += times * other.multiply_adds
        self.flops += times * other.flops
        self.seconds += times * other.seconds
        self.unknown_operators.update(other.unknown_operators)
        self.approximate_loops += other.approximate_loops


def price(live: LiveNode, scope: Scope, device: Device) -> Price:
    """Price a node on a device.

    A branch costs as much as the one that takes longer, a loop its body times its trip count.

    Raises
    ------
    InputError
        If inputs or attributes are not those of the ONNX specification.
    """
    node = live.node
    label = node.name or ", ".join(node.output)
    try:
        if not live.bodies:
            return _operator(live, scope, device)
        bodies = [_body(body, device) for body in live.bodies]
        if node.op_type == "If":
            return max(bodies, key=lambda body: body.seconds)
        (body,) = bodies
        result = Price()
        trips = _trips(live, scope)
        result.add(body, 1 if trips is None else trips)
        if trips is None or _changes_shape(live):
            result.approximate_loops.append(label)
        return result
    except (AssertionError, AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"node {node.op_type} '{label}' does not fit its inputs ({error}).") from None


def _operator(live: LiveNode, scope: Scope, device: Device) -> Price:
    operator = scope.operator(live.node)
    made = operator.outputs[:1]
    if made and made[0] is not None and is_view(operator.kind, operator.domain):
        old, new = operator.input(0), made[0]
        if old.elements != new.elements:
            raise ValueError(f"it makes {new.shape} of {old.shape}; its target is a constant")
    counts = count(operator)
    kind = f"{operator.domain}.{operator.kind}" if operator.domain else operator.kind
    return Price(
        counts.multiply_adds,
        counts.flops,
        device.time(counts.flops, counts.bytes_moved),
        Counter() if counts.is_known else Counter([kind]),
    )


def _body(body: Scope, device: Device) -> Price:
    result = Price()
    for live in body.live:
        result.add(price(live, body, device))
    return result


def _trips(live: LiveNode, scope: Scope) -> int | None:
    """Number of times that a body runs, None if unknown; a loop counts its trips, though it may end earlier."""
    node = live.node
    if node.op_type == "Loop":
        trips = scope.number(node.input[0])
        return None if trips is None else max(0, trips)
    if node.op_type == "Scan":
        attributes = scope.operator(node).attributes
        first = node.input[-attributes["num_scan_inputs"]]
        return scope.types[first].shape[attributes.get("scan_input_axes", [0])[0]]
    return None


def _changes_shape(live: LiveNode) -> bool:
    """Whether some state of a loop leaves an iteration with another shape than it came with."""
    (body,) = live.bodies
    states = zip(body.graph.input[2:], body.graph.output[1:], strict=False) if live.node.op_type == "Loop" else ()
    return any(body.types.get(before.name) != body.types.get(after.name) for before, after in states)
