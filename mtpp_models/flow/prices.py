r"""Whether a flow F is impossible by prices of devices and links, which every request pays on its way.

No device carries more than F, nor does a link. Let all of device i cost :math:`\pi_i`, and a request a second on link
uv :math:`\lambda_{uv}`. A request that passes device i with c layers takes at least the part
:math:`1 / \min(T_i(c), F)` of it, and pays that part of its price. Where each way from the source to the sink, by any
layers of the devices on it, costs D or more, and

.. math:: \sum_i \pi_i + \sum_{uv} \lambda_{uv} \min(r_{uv}, F) < F D,

F is impossible. The prices are duals of the linear program that lets a device hold parts of several intervals.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import scipy

from instances.deadline import Deadline
from instances.flow.problem import SINK, SOURCE, FlowInstance
from instances.graph.tensors import FloatArray

# Columns of the largest program, and what rounding may take, also of a flow that is stated a little larger.
_MOST_COLUMNS, _ROUNDING = 30_000, 1e-8
# Seconds of a program.
_LEAST, _MOST = 1e-3, 1e6


class Prices(NamedTuple):
    """Proof that a flow is impossible."""

    devices: list[float]  # requests/s
    links: FloatArray  # (n + 2, n + 2)


class _Program(NamedTuple):
    """Columns of the linear program of flows: the ends of each arc, and the device or link that it uses."""

    tail: list[int]  # device and layers done, before or behind the device; -1 for the source
    head: list[int]  # -1 for the sink
    device: list[tuple[int, int]]  # device and number of layers, of the first columns
    link: list[tuple[int, int]]  # of the others


def has_prices(instance: FlowInstance) -> bool:
    """Whether a program for prices is small enough."""
    ways = (instance.layers + 1 - np.arange(instance.layers + 1))[None] * (instance.capacity > 0)
    links = int((instance.rates[: instance.n, : instance.n] > 0).sum())
    return int(ways.sum(axis=1)[instance.kind].sum()) + links * (instance.layers - 1) <= _MOST_COLUMNS


def find_prices(instance: FlowInstance, flow: float, deadline: Deadline) -> Prices | None:
    """Prices which prove that so many requests per second cannot pass; None if none are found in time."""
    if deadline.passed:
        return None
    n, program = instance.n, _program(instance)
    capacity, rates = np.minimum(instance.capacity, flow), np.minimum(instance.rates, flow)
    links = sorted(set(program.link))
    row = {link: n + x for x, link in enumerate(links)}
    used = [i for i, _ in program.device] + [row[link] for link in program.link]
    part = [1 / capacity[instance.kind[i], c] for i, c in program.device] + [1.0] * len(program.link)
    columns = np.arange(len(used))
    limits = np.array([1.0] * n + [float(rates[link]) for link in links])
    gain = -(np.array(program.tail) < 0).astype(np.float64)
    ends = [(np.array(program.tail), -1.0), (np.array(program.head), 1.0)]
    kept = [(place[place >= 0], columns[place >= 0], np.full((place >= 0).sum(), sign)) for place, sign in ends]
    places, columns_kept, signs = (np.concatenate(arrays) for arrays in zip(*kept, strict=True))
    conserved = scipy.sparse.coo_array(
        (signs, (places, columns_kept)), shape=(2 * n * (instance.layers + 1), len(used))
    )
    within = scipy.sparse.coo_array((part, (used, columns)), shape=(len(limits), len(used)))
    seconds = min(max(deadline.left, _LEAST), _MOST)
    program_of = partial(scipy.optimize.linprog, method="highs", options={"time_limit": seconds})
    answer = program_of(gain, within.tocsr(), limits, conserved.tocsr(), np.zeros(conserved.shape[0]))
    if answer.status != 0:
        return None
    duals = np.maximum(0.0, -answer.ineqlin.marginals)
    prices = Prices(duals[:n].tolist(), np.zeros((n + 2, n + 2)))
    for link, price in zip(links, duals[n:].tolist(), strict=True):
        prices.links[link] = price
    paid = float(duals[:n].sum() + (prices.links * rates).sum())
    return prices if paid < flow * _cheapest(instance, capacity, prices) * (1 - _ROUNDING) else None


def _program(instance: FlowInstance) -> _Program:
    """Columns of all intervals of devices, then of links at each number of layers."""
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


def _cheapest(instance: FlowInstance, capacity: FloatArray, prices: Prices) -> float:
    """Price of the cheapest way from the source to the sink."""
    n, layers, kind = instance.n, instance.layers, instance.kind
    part = np.full((n, layers + 1), np.inf)
    np.divide(np.array(prices.devices)[:, None], capacity[kind], out=part, where=capacity[kind] > 0)
    link = np.where(instance.rates > 0, prices.links, np.inf)
    before, behind = np.full((n, layers + 1), np.inf), np.full((n, layers + 1), np.inf)
    before[:, 0] = link[n + SOURCE, :n]
    for done in range(layers):
        if done > 0:
            before[:, done] = (behind[:, done, None] + link[:n, :n]).min(axis=0)
        for c in range(1, layers - done + 1):
            behind[:, done + c] = np.minimum(behind[:, done + c], before[:, done] + part[:, c])
    return float((behind[:, layers] + link[:n, n + SINK]).min())
