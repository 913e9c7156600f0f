"""Whether prices of devices and links exclude a flow, in whole numbers.

Neither a device nor a link carries more than the flow. A request pays for each link on its way, at the layers that are
done there, what its tail and what its head ask. A device pays both for all that its links may carry where its layers
end and begin, at most its price; a request that passes it pays its part of what is left. So all requests together pay
no more than all devices have, and what links cost wherever they are used. If that is less than the flow times the cost
of the cheapest way from the source to the sink, whatever layers its devices hold, so much cannot pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from instances.flow.problem import SINK, SOURCE
from mtpp.verification.flow.question import ExactFlow
from mtpp.verification.verdict import Clock

# What a request pays is counted in parts of 1, rounded down.
_UNIT = 2**60


#: A link by both ends, rows of rates, and the layers that are done there.
_Place = tuple[int, int, int]


def excludes_by_prices(
    question: ExactFlow,
    flow: Fraction,
    devices: Sequence[Fraction],
    links: Mapping[tuple[int, int], Fraction],
    places: Mapping[_Place, tuple[Fraction, Fraction]],
    clock: Clock,
) -> str | None:
    """Why prices do not exclude a flow; None if they do.

    Parameters
    ----------
    devices : numbers
        The price of each device [requests/s].
    links : mapping
        Prices by both ends, as rows of rates, wherever the link is used; others are 0.
    places : mapping
        What tail and head of a link ask at a number of layers; others are 0.

    Raises
    ------
    OutOfTimeError
    """
    if min([*devices, *links.values(), *(price for both in places.values() for price in both)]) < 0:
        return "a price is below 0"
    sent, taken = ([[Fraction(0)] * (question.layers + 1) for _ in range(question.n + 2)] for _ in range(2))
    for (u, v, done), (tail, head) in places.items():
        rate = min(Fraction(question.rates[u][v]), flow)
        sent[u][done] += tail * rate
        taken[v][done] += head * rate
    fees: list[
        list[list[tuple[int, int]]]
    ] = []  # by device and first layer: numbers of layers, and what a request pays
    for i, t in enumerate(question.kind):
        fees.append([])
        for first in range(question.layers):
            clock.raise_if_late()
            fees[i].append([])
            for c, rate in enumerate(question.capacity[t][: question.layers - first + 1]):
                left = devices[i] - taken[i][first] - sent[i][first + c]
                if rate > 0 and left < 0:
                    return f"the price of {question.devices[i]} is less than what its links cost"
                if rate > 0:
                    fees[i][first].append((c, int(left * _UNIT / min(rate, flow))))
    paid = sum(devices) + sum(min(Fraction(question.rates[u][v]), flow) * price for (u, v), price in links.items())
    paid += sum(sum(row) for side in (sent, taken) for row in side[question.n :])  # of links without a device there
    tolls = {link: int(price * _UNIT) for link, price in links.items()}
    further = {place: int(sum(both) * _UNIT) for place, both in places.items()}
    cheapest = _cheapest(question, fees, tolls, further, clock)
    if cheapest is not None and paid * _UNIT >= flow * cheapest:
        return "all prices together are no less than what so many requests pay on the cheapest way"
    return None


def _cheapest(
    question: ExactFlow,
    fees: Sequence[Sequence[Sequence[tuple[int, int]]]],
    tolls: Mapping[tuple[int, int], int],
    further: Mapping[_Place, int],
    clock: Clock,
) -> int | None:
    """Price of the cheapest way from the source to the sink, rounded down; None without a way."""
    n, layers = question.n, question.layers
    to = [[v for v, rate in enumerate(row) if rate > 0] for row in question.rates]

    def toll(u: int, v: int, done: int) -> int:
        return tolls.get((u, v), 0) + further.get((u, v, done), 0)

    # By layers that are done, the least price up to each device, and behind it.
    before: list[dict[int, int]] = [{} for _ in range(layers + 1)]
    behind: list[dict[int, int]] = [{} for _ in range(layers + 1)]
    before[0] = {v: toll(n + SOURCE, v, 0) for v in to[n + SOURCE] if v < n}
    for done in range(layers):
        for u, price in behind[done].items():
            clock.raise_if_late()
            for v in to[u]:
                if v < n:
                    more = price + toll(u, v, done)
                    before[done][v] = min(more, before[done].get(v, more))
        for i, price in before[done].items():
            clock.raise_if_late()
            for c, more in fees[i][done]:
                at = behind[done + c]
                at[i] = min(price + more, at.get(i, price + more))
    ends = [price + toll(u, n + SINK, layers) for u, price in behind[layers].items() if n + SINK in to[u]]
    return min(ends, default=None)
