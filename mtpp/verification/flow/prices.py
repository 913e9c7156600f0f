"""Whether prices of devices and links exclude a flow, in whole numbers.

Neither a device nor a link carries more than the flow. A request takes a part of each device that it passes, and of
each link, and pays that part of its price. If all prices together are less than the flow times the cost of the cheapest
way from the source to the sink, whatever layers its devices hold, so much cannot pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from instances.flow.problem import SINK, SOURCE
from mtpp.verification.flow.question import ExactFlow
from mtpp.verification.verdict import Clock

# What a request pays is counted in parts of 1, rounded down.
_UNIT = 2**60


def excludes_by_prices(
    question: ExactFlow,
    flow: Fraction,
    devices: Sequence[Fraction],
    links: Mapping[tuple[int, int], Fraction],
    clock: Clock,
) -> str | None:
    """Why prices do not exclude a flow; None if they do.

    Parameters
    ----------
    devices : numbers
        The price of each device [requests/s].
    links : mapping
        Prices by both ends, as rows of rates; others are 0.

    Raises
    ------
    OutOfTimeError
    """
    if min([*devices, *links.values()]) < 0:
        return "a price is below 0"
    paid = sum(devices) + sum(min(Fraction(question.rates[u][v]), flow) * price for (u, v), price in links.items())
    cheapest = _cheapest(question, flow, devices, links, clock)
    if cheapest is not None and paid * _UNIT >= flow * cheapest:
        return "all prices together are no less than what so many requests pay on the cheapest way"
    return None


def _cheapest(
    question: ExactFlow,
    flow: Fraction,
    devices: Sequence[Fraction],
    links: Mapping[tuple[int, int], Fraction],
    clock: Clock,
) -> int | None:
    """Price of the cheapest way from the source to the sink, rounded down; None without a way."""
    n, layers = question.n, question.layers
    toll = {link: int(price * _UNIT) for link, price in links.items()}
    to = [[(v, toll.get((u, v), 0)) for v, rate in enumerate(row) if rate > 0] for u, row in enumerate(question.rates)]
    fee = [
        [(c, int(devices[i] * _UNIT / min(rate, flow))) for c, rate in enumerate(question.capacity[t]) if rate > 0]
        for i, t in enumerate(question.kind)
    ]
    # By layers that are done, the least price up to each device, and behind it.
    before: list[dict[int, int]] = [{} for _ in range(layers + 1)]
    behind: list[dict[int, int]] = [{} for _ in range(layers + 1)]
    before[0] = {v: price for v, price in to[n + SOURCE] if v < n}
    for done in range(layers):
        for u, price in behind[done].items():
            clock.raise_if_late()
            for v, more in to[u]:
                if v < n:
                    before[done][v] = min(price + more, before[done].get(v, price + more))
        for i, price in before[done].items():
            clock.raise_if_late()
            for c, more in fee[i]:
                if c <= layers - done:
                    at = behind[done + c]
                    at[i] = min(price + more, at.get(i, price + more))
    ends = [price + more for u, price in behind[layers].items() for v, more in to[u] if v == n + SINK]
    return min(ends, default=None)
