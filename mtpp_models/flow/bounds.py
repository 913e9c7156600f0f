r"""Upper bounds on the flow, as least times for a request: by shared layers, ends, and weights of devices.

*shared-layers*: the devices that carry a flow of F hold each layer with F together, and no device carries more, so

.. math:: L F \le \sum_i \max_c c \min(T_i(c), F).

The right side over F does not grow with F, so that the largest such F bounds the flow. *ends*: all that passes leaves
the source through a link to a device, and enters the sink from one, where no device carries more than it ever can.

*patterns* and *patterns-with-links*: the least F that weights exclude, by bisection; *patterns-with-hubs* where few
devices link all others. *prices*: the least F that prices of devices and links exclude, where the program is small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from instances import Bound, Result
from instances.deadline import Deadline, Stopwatch
from instances.flow.answer import FlowAnswer
from instances.flow.problem import SINK, SOURCE, FlowInstance
from mtpp_models.flow.prices import find_prices, has_prices
from mtpp_models.flow.weights import Hubs, exclude

# Relative: what a flow is raised by before it is stated, and how near to the best flow bisection ends.
_SAFE, _CLOSE = 4e-9, 2e-5
# The same of programs that take long.
_NEAR = 2e-3
_STEPS, _SLACK = 60, 1e-9
# A flow below this part of the largest capacity is next to nothing.
_NOTHING = 1e-6

W = TypeVar("W")


def shared_layers(instance: FlowInstance) -> float:
    """Largest flow that the layers of all devices can carry, if no link were a limit [requests/s]."""
    capacity = np.array(instance.capacity[instance.kind])
    layers = np.arange(instance.layers + 1)
    low, high = 0.0, float((capacity * layers).max(axis=1).sum() / instance.layers)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        # Where the layers are just enough, both sides are the same for many flows, but for rounding.
        carried = float((np.minimum(capacity, middle) * layers).max(axis=1).sum())
        if carried >= instance.layers * middle * (1 - _SLACK):
            low = middle
        else:
            high = middle
    return high * (1 + _SAFE)


def ends(instance: FlowInstance) -> float:
    """Most that devices can take from the source, or give to the sink [requests/s]."""
    n, fastest = instance.n, instance.capacity.max(axis=1)[instance.kind]
    sides = instance.rates[n + SOURCE, :n], instance.rates[:n, n + SINK]
    return min(float(np.minimum(side, fastest).sum()) for side in sides) * (1 + _SAFE)


def bound_flow(
    instance: FlowInstance,
    start: FlowAnswer | None = None,
    deadline: Deadline | None = None,
    tell: Callable[[str, float], None] = lambda method, flow: None,
) -> list[Result[FlowInstance, FlowAnswer]]:
    """Prove bounds on the time of a request, the quick one first; better ones the nearer `start` is to the best.

    Parameters
    ----------
    start : FlowAnswer, optional
        No flow below its own is excluded.
    tell : callable
        Told each method, and the flow that it has proved [requests/s].
    """
    deadline, watch = deadline or Deadline(), Stopwatch()
    bound = shared_layers(instance)
    results = [_result("shared-layers", instance, bound, {}, watch)]
    tell("shared-layers", bound)
    if (through := ends(instance)) < bound:
        bound = through
        results.append(_result("ends", instance, bound, {}, watch))
        tell("ends", bound)
    least, nothing = 0.0 if start is None else start.flow, _NOTHING * float(instance.capacity.max())

    def lowered(
        method: str, excluded: Callable[[float], W | None], low: float, high: float, close: float, flow: float
    ) -> tuple[float, W | None]:
        """The least flow that is excluded, beginning with `flow`, and what excludes it; `high` and None without one."""
        proof = None
        while high > low * (1 + close) and high > nothing and not deadline.passed:
            excluding = excluded(flow)
            if excluding is None:
                low = flow
            else:
                high, proof = flow, excluding
                tell(method, high)
            flow = (low * high) ** 0.5 if low > 0 else high / 2
        return high, proof

    begin = least * (1 + _CLOSE) if least > 0 else bound / 2  # the best flow may be the largest there is
    high, best = lowered("patterns", lambda flow: exclude(instance, flow, deadline), least, bound, _CLOSE, begin)
    if best is not None:
        method = "patterns-with-links" if best.has_links else "patterns"
        results.append(
            _result(method, instance, high * (1 + _SAFE), {"weights": best.weights, "second": best.second}, watch)
        )
    hubs, low = Hubs(instance), least or high / 2
    if hubs.are_of_use:
        high, weights = lowered(
            "patterns-with-hubs", lambda flow: hubs.exclude(flow, deadline), low, high, _NEAR, (low * high) ** 0.5
        )
        if weights is not None:
            witness: dict[str, object] = {"hubs": [instance.devices[i] for i in hubs.devices], "weights": weights}
            results.append(_result("patterns-with-hubs", instance, high * (1 + _SAFE), witness, watch))
    if has_prices(instance):
        low = least or high / 8
        high, prices = lowered(
            "prices", lambda flow: find_prices(instance, flow, deadline), low, high, _NEAR, low * (1 + _NEAR)
        )
        if prices is not None:
            names = [*instance.devices, "source", "sink"]
            rows = [[names[u], names[v], float(prices.links[u, v])] for u, v in np.argwhere(prices.links > 0).tolist()]
            paid = [[name, price] for name, price in zip(instance.devices, prices.devices, strict=True) if price > 0]
            witness = {"devices": paid, "links": rows}
            results.append(_result("prices", instance, high * (1 + _SAFE), witness, watch))
    return results


def _result(
    method: str, instance: FlowInstance, flow: float, witness: dict[str, object], watch: Stopwatch
) -> Result[FlowInstance, FlowAnswer]:
    bound = Bound(1 / flow if flow > 0 else 0.0, method, True, witness)
    return Result(method, instance, None, bound, watch.seconds(bound=watch.passed))
