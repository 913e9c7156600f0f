r"""Whether a flow F is impossible by prices of devices and links, which every request pays on its way.

No device carries more than F, nor does a link. A link from device u to v is of use at the l layers that u ends with and
v begins behind: let a request on it pay :math:`a_{uvl} + b_{uvl}`, the first for what u sends, the second for what v
takes. A device that holds layers from s to e pays, for all that its links may carry there,

.. math:: p_{ise} = \sum_v a_{ive} \min(r_{iv}, F) + \sum_u b_{uis} \min(r_{ui}, F),

at most its price :math:`\pi_i`, and a request that passes it :math:`(\pi_i - p_{ise}) / \min(T_i(e - s), F)`: together
no more than :math:`\pi_i`. Where each way from the source to the sink, by any layers of the devices on it, costs D or
more, and :math:`\sum_i \pi_i < F D`, F is impossible. The prices are duals of the linear program that lets a device
hold parts of several intervals, and its links carry such a part at the ends of each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy

from instances.deadline import Deadline
from instances.flow.problem import SINK, SOURCE, FlowInstance
from instances.graph.tensors import FloatArray

# Columns of the largest program without shares, and what rounding may take, also of a flow stated a little larger.
_MOST_COLUMNS, _ROUNDING = 2_000, 1e-7
# Seconds of a program.
_LEAST, _MOST = 1e-3, 1e6


class Prices(NamedTuple):
    """Dual prices that prove that a flow is impossible."""

    devices: FloatArray  # (n,) requests/s
    links: FloatArray  # (2, n + 2, n + 2, L + 1): a and b of links by their ends, at each number of layers


class _Program(NamedTuple):
    """Columns of the linear program of flows: tail and head of each arc, and the device or link it uses."""

    tail: list[int]  # device and layers done, before or behind the device; -1 for the source
    head: list[int]  # -1 for the sink
    device: list[tuple[int, int]]  # device and number of layers, of the first columns
    link: list[tuple[int, int]]  # of the others


def has_prices(instance: FlowInstance) -> bool:
    """Whether the linear program for prices is small enough."""
    ways = (instance.layers + 1 - np.arange(instance.layers + 1))[None] * (instance.capacity > 0)
    links = int((instance.rates[: instance.n, : instance.n] > 0).sum())
    return int(ways.sum(axis=1)[instance.kind].sum()) + links * (instance.layers - 1) <= _MOST_COLUMNS


def find_prices(instance: FlowInstance, flow: float, deadline: Deadline) -> Prices | None:
    """Prices that prove that this flow is impossible; None if none are found in time."""
    if deadline.passed:
        return None
    n, layers, program = instance.n, instance.layers, _program(instance)
    capacity, rates = np.minimum(instance.capacity, flow)[instance.kind], np.minimum(instance.rates, flow)
    matrix, priced = _limits(instance, program, capacity, rates)
    passing, tail, head = len(program.tail), np.array(program.tail), np.array(program.head)
    columns, width = np.arange(passing), matrix.shape[1]
    kept = [(end[end >= 0], columns[end >= 0], sign) for end, sign in ((tail, -1.0), (head, 1.0))]
    places, columns_kept = (np.concatenate(arrays) for arrays in zip(*(row[:2] for row in kept), strict=True))
    signs = np.concatenate([np.full(len(row[0]), row[2]) for row in kept])
    conserved = scipy.sparse.coo_array((signs, (places, columns_kept)), shape=(2 * n * (layers + 1), width))
    seconds = min(max(deadline.left, _LEAST), _MOST)
    program_of = partial(scipy.optimize.linprog, method="highs", options={"time_limit": seconds})
    gain, limits = np.zeros(width), (np.arange(matrix.shape[0]) < n).astype(np.float64)
    gain[:passing] = -(tail < 0).astype(np.float64)
    answer = program_of(gain, matrix, limits, conserved.tocsr(), np.zeros(conserved.shape[0]))
    if answer.status != 0:
        return None
    duals = np.maximum(0.0, -answer.ineqlin.marginals)
    links = np.zeros((2, n + 2, n + 2, layers + 1))
    for row, place in priced:
        links[place] = duals[row]
    ends = _paid_by_ends(rates, links)
    most = [max((ends[i, a, a + c] for c, a in _intervals(row)), default=0.0) for i, row in enumerate(capacity)]
    prices = Prices(np.maximum(duals[:n], np.array(most) * (1 + _ROUNDING)), links)
    paid = float(prices.devices.sum())
    return prices if paid < flow * _cheapest(instance, capacity, prices, ends) * (1 - _ROUNDING) else None


def _intervals(capacity: FloatArray) -> Iterator[tuple[int, int]]:
    """Numbers of layers that a device may hold, each with all possible first layers."""
    return ((c, a) for c in np.flatnonzero(capacity).tolist() for a in range(len(capacity) - c))


def _limits(
    instance: FlowInstance, program: _Program, capacity: FloatArray, rates: FloatArray
) -> tuple[Any, list[tuple[int, tuple[int, int, int, int]]]]:
    """Rows of the program for devices and links, with the places of their prices.

    Columns are those of the program, and then the share of each interval.
    """
    n, layers, held, passing = instance.n, instance.layers, len(program.device), len(program.tail)
    entries, priced, rows = list[tuple[int, int, float]](), list[tuple[int, tuple[int, int, int, int]]](), n + held
    ends: tuple[dict[tuple[int, int], list[int]], ...] = (defaultdict(list), defaultdict(list))
    for k, (i, c) in enumerate(program.device):
        entries += [(i, passing + k, 1.0), (n + k, k, 1.0), (n + k, passing + k, -capacity[i, c])]
        ends[0][i, program.head[k] % (layers + 1)].append(passing + k)
        ends[1][i, program.tail[k] % (layers + 1)].append(passing + k)
    for k, (u, v) in enumerate(program.link, held):
        done = program.tail[k] % (layers + 1) if program.tail[k] >= 0 else 0
        for side, device in enumerate((u, v)):
            if device < n:
                entries.append((rows, k, 1.0))
                entries += [(rows, column, -rates[u, v]) for column in ends[side][device, done]]
                priced.append((rows, (side, u, v, done)))
                rows += 1
    row, column, value = zip(*entries, strict=True)
    return scipy.sparse.coo_array((value, (row, column)), shape=(rows, passing + held)).tocsr(), priced


def _paid_by_ends(rates: FloatArray, links: FloatArray) -> FloatArray:
    """(n, L + 1, L + 1) payments of devices, by first and last layer, for the flow of their links."""
    sent, taken = (links * rates[None, :, :, None]).sum(axis=2)[0], (links * rates[None, :, :, None]).sum(axis=1)[1]
    paid: FloatArray = (taken[:, :, None] + sent[:, None, :])[:-2]
    return paid


def _program(instance: FlowInstance) -> _Program:
    """Columns for all intervals of layers of devices, and for links at each number of layers."""
    n, layers, program = instance.n, instance.layers, _Program([], [], [], [])

    def before(i: int, done: int) -> int:
        return i * (layers + 1) + done

    def behind(i: int, done: int) -> int:
        return (n + i) * (layers + 1) + done

    def add(tail: int, head: int) -> None:
        program.tail.append(tail)
        program.head.append(head)

    for i, t in enumerate(instance.kind.tolist()):
        for c in np.flatnonzero(instance.capacity[t]).tolist():
            for begin in range(layers - c + 1):
                add(before(i, begin), behind(i, begin + c))
                program.device.append((i, c))
    for u, v in np.argwhere(instance.rates > 0).tolist():
        if u == n + SOURCE and v < n:
            add(-1, before(v, 0))
            program.link.append((u, v))
        elif v == n + SINK and u < n:
            add(behind(u, layers), -1)
            program.link.append((u, v))
        elif u < n and v < n:
            for done in range(1, layers):
                add(behind(u, done), before(v, done))
                program.link.append((u, v))
    return program


def _cheapest(instance: FlowInstance, capacity: FloatArray, prices: Prices, ends: FloatArray) -> float:
    """Price of the cheapest path from the source to the sink."""
    n, layers = instance.n, instance.layers
    link = np.where((instance.rates > 0)[:, :, None], prices.links.sum(axis=0), np.inf)
    before, behind = np.full((n, layers + 1), np.inf), np.full((n, layers + 1), np.inf)
    before[:, 0] = link[n + SOURCE, :n, 0]
    for done in range(layers):
        if done > 0:
            before[:, done] = (behind[:, done, None] + link[:n, :n, done]).min(axis=0)
        for c in range(1, layers - done + 1):
            part = np.full(n, np.inf)
            rest = prices.devices - ends[:, done, done + c]
            np.divide(rest, capacity[:, c], out=part, where=capacity[:, c] > 0)
            behind[:, done + c] = np.minimum(behind[:, done + c], before[:, done] + part)
    return float((behind[:, layers] + link[:n, n + SINK, layers]).min())
