"""Shares of network cards, and transfers that pass them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from instances.planning.problem import TrainingInstance

# The bound of an even share of all work, which holds for every plan.


def least_work(instance: TrainingInstance) -> Fraction:
    """The least work of the busiest device, if each layer has the number of replicas that repeats least."""
    chain, V, total = instance.chain, instance.cluster.n, Fraction(0)
    for layer, times in enumerate(zip(chain.forward.tolist(), chain.backward.tolist(), strict=True)):
        share = Fraction(1)
        if instance.replica_share is not None:
            table = instance.replica_share.tolist()
            row = table[layer] if isinstance(table[0], list) else table
            share = min(Fraction(part) * (r + 1) for r, part in enumerate(row))
        total += share * sum(map(Fraction, times))
    return instance.microbatches * total / V


# Operations of a plan on network cards that servers share, computed a second time in exact numbers.
#
# A transfer of d bytes from q to r replicas sends d / (q r) bytes over each of their links; an AllReduce of α bytes on
# r devices sends 2 (r - 1) α / r over each link of its ring. What leaves a server passes its card, which has a rate for
# each direction, or one for both. Alone an operation takes as long as its slowest link or card. Those that run at one
# time share the cards: their speeds rise together until one is full, and what uses a full card rises no more.


Port = tuple[str, int]


@dataclass(frozen=True)
class Operation:
    """A transfer or an AllReduce."""

    alone: Fraction  # seconds if it shares nothing
    loads: tuple[tuple[Port, Fraction], ...]  # seconds that it keeps each port busy

    @property
    def needs(self) -> tuple[tuple[Port, Fraction], ...]:
        """Part of each port that it takes at full speed."""
        return tuple((port, load / self.alone) for port, load in self.loads) if self.alone else ()


class Cards:
    """The cards of a cluster; without a network its links share nothing, as if all devices were in one server."""

    def __init__(self, instance: TrainingInstance) -> None:
        network = instance.network
        sizes = instance.cluster.servers if network is not None else (instance.cluster.n,)
        self._server = [h for h, size in enumerate(sizes) for _ in range(size)]
        self._links = instance.cluster.bandwidth.tolist()
        self._half = network is not None and network.half
        self._rates: dict[Port, Fraction] = {}
        devices = range(len(self._server))
        for h in range(len(sizes)):
            pairs = [(v, w) for v in devices if self._server[v] == h for w in devices if self._server[w] != h]
            out = max((self._links[v][w] for v, w in pairs), default=0.0)
            home = max((self._links[w][v] for v, w in pairs), default=0.0)
            if network is not None and network.rates is not None:
                out = home = network.rates[h]
            if self._half:
                out = home = max(out, home)
            self._rates["out", h], self._rates[self._enters(h)] = Fraction(out), Fraction(home)

    def transfer(self, size: float, senders: Sequence[int], receivers: Sequence[int]) -> Operation | None:
        """A transfer; None without a link."""
        if size == 0 or tuple(senders) == tuple(receivers):
            return Operation(Fraction(0), ())
        part = Fraction(size) / (len(senders) * len(receivers))
        pairs = [(v, w) for v in senders for w in receivers]
        bytes_through: Counter[Port] = Counter()
        for v, w in pairs:
            if self._server[v] != self._server[w]:
                bytes_through["out", self._server[v]] += part  # type: ignore[assignment]
                bytes_through[self._enters(self._server[w])] += part  # type: ignore[assignment]
        return self._operation(part, [self._links[v][w] for v, w in pairs], bytes_through)

    def allreduce(self, size: Fraction, devices: Sequence[int]) -> Operation | None:
        """An AllReduce; None without a link."""
        r = len(devices)
        if r == 1 or size == 0:
            return Operation(Fraction(0), ())
        part = 2 * (r - 1) * size / r
        servers = {self._server[v] for v in devices}
        bytes_through: Counter[Port] = Counter()
        for h in servers if len(servers) > 1 else ():
            bytes_through["out", h] += part  # type: ignore[assignment]
            bytes_through[self._enters(h)] += part  # type: ignore[assignment]
        return self._operation(part, [self._links[v][w] for v in devices for w in devices if v != w], bytes_through)

    def _enters(self, h: int) -> Port:
        return ("out" if self._half else "in", h)

    def _operation(self, part: Fraction, links: list[float], bytes_through: Counter[Port]) -> Operation | None:
        if min(links) == 0 or any(self._rates[port] == 0 for port in bytes_through):
            return None
        loads = tuple((port, Fraction(size) / self._rates[port]) for port, size in sorted(bytes_through.items()))
        return Operation(max([part / Fraction(min(links)), *(load for _, load in loads)]), loads)


def progress(needs: Sequence[tuple[tuple[Port, Fraction], ...]]) -> list[Fraction]:
    """Speeds of operations that run at one time, 1 where nothing holds them back."""
    speeds: list[Fraction | None] = [None if need else Fraction(1) for need in needs]
    while None in speeds:
        used: dict[Port, Fraction] = {}
        wanted: dict[Port, Fraction] = {}
        for need, speed in zip(needs, speeds, strict=True):
            for port, part in need:
                if speed is None:
                    wanted[port] = wanted.get(port, Fraction(0)) + part
                else:
                    used[port] = used.get(port, Fraction(0)) + part * speed
        levels = {port: (1 - used.get(port, Fraction(0))) / want for port, want in wanted.items() if want}
        level = min([Fraction(1), *levels.values()])
        full = {port for port, at in levels.items() if at == level}
        for k, need in enumerate(needs):
            if speeds[k] is None and (level == 1 or any(port in full for port, _ in need)):
                speeds[k] = level
    return [speed or Fraction(0) for speed in speeds]
