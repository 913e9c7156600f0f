"""Whether weights exclude a flow where each link between devices touches a hub.

What passes from one layer to the next stays on a device, or leaves or enters a hub, so that these devices have the flow
together, as the holders of a layer have. A device is at each of its layers, and at the places between layers before,
in and behind them if it is a hub, else in them alone. If at each layer and at each place devices with the flow together
weigh as much as the least such multiset does, all of them weigh the sum over layers and places.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from instances.flow.problem import FlowInstance
from mtpp.verification.clock import Clock
from mtpp.verification.flow.patterns import least_weight, part_of

__all__ = ["excludes_with_hubs"]


def excludes_with_hubs(
    instance: FlowInstance, flow: Fraction, hubs: Sequence[str], weights: Sequence[Sequence[Fraction]], clock: Clock
) -> str | None:
    """Why weights do not exclude a flow; None if they do.

    Parameters
    ----------
    hubs : names
    weights : rows of numbers
        By number of layers from 1: at a layer and between layers, of the devices of each kind that are no hubs, then of
        those that are.

    Raises
    ------
    OutOfTimeError
    """
    devices, rates = instance.devices, instance.rates.tolist()
    is_hub = [name in set(hubs) for name in devices]
    for i, name in enumerate(devices):
        for j, other in enumerate(devices):
            if i != j and rates[i][j] > 0 and not is_hub[i] and not is_hub[j]:
                return f"parameters.hubs: the link from {name} to {other} touches none of them"
    if len(weights) != 4 * len(instance.counts) or any(min(row, default=0) < 0 for row in weights):
        return f"parameters.weights are not {4 * len(instance.counts)} rows of numbers, none below 0"
    at_layers: list[tuple[int, Fraction]] = []
    between: list[tuple[int, Fraction]] = []
    total = Fraction(0)
    for t, capacity in enumerate(instance.capacity.tolist()):
        for hub in (False, True):
            count = sum(instance.kind[i] == t and is_hub[i] == hub for i in range(len(devices)))
            held = [c for c, rate in enumerate(capacity) if rate > 0]
            if count == 0 or not held:
                continue
            rows = weights[4 * t + 2 * hub : 4 * t + 2 * hub + 2]
            if any(len(row) != held[-1] for row in rows):
                return f"parameters.weights: a row of kind {t} has not {held[-1]} numbers"
            heaviest = Fraction(0)
            for c in held:
                part, layer, place = part_of(capacity[c], flow), rows[0][c - 1], rows[1][c - 1]
                places = c + 1 if hub else c - 1
                heaviest = max(heaviest, c * layer + places * place)
                at_layers.append((part, layer))
                if places > 0:
                    between.append((part, place))
            total += count * heaviest
    layers = instance.layers
    if total >= layers * least_weight(at_layers, 1, clock) + (layers - 1) * least_weight(between, 1, clock):
        return "all devices weigh as much as the layers and the places between them need"
    return None
