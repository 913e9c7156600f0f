r"""Network cards that the devices of a server share.

Server h sends through a port ``out_h`` and receives through a port ``in_h``, each of the rate :math:`B_h`; a
half-duplex card has one port for both. What stays inside a server uses no port. Operation k that moves
:math:`v_{k,p}` bytes through port p loads it for :math:`ℓ_{k,p} = v_{k,p} / B_p` seconds and takes :math:`τ_k`
seconds alone, :math:`τ_k ≥ \max_p ℓ_{k,p}`. While operations share ports, k runs at a speed :math:`y_k ≤ 1`, and
:math:`\sum_k ℓ_{k,p} / τ_k · y_k ≤ 1` at each port: `instances.planning.simulation` says which speeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from instances.devices.cluster import Cluster
from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray, freeze

__all__ = ["Network", "Ports"]


@dataclass(frozen=True)
class Network:
    """Network cards of the servers of a cluster.

    Parameters
    ----------
    half : bool
        Whether a card shares its rate between both directions.
    rates : tuple of float, optional
        Rate of each server's card [bytes/s]; by default that of its fastest link to another server.

    Raises
    ------
    InputError
        If a rate is not positive and finite.
    """

    half: bool = False
    rates: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for server, rate in enumerate(self.rates or ()):
            if not 0 < rate < math.inf:
                raise InputError(f"The network card of server {server} has the rate {rate}; give bytes/s above 0.")

    @property
    def words(self) -> str:
        """Description of the network in words."""
        return f"shared, one {'half' if self.half else 'full'}-duplex card a server"

    def ports(self, cluster: Cluster) -> Ports:
        """The ports of a cluster.

        Raises
        ------
        InputError
            If there are not as many rates as servers.
        """
        count = len(cluster.servers)
        if self.rates is not None and len(self.rates) != count:
            raise InputError(f"There are {len(self.rates)} rates of network cards for {count} servers; give one each.")
        if self.rates is not None:
            leaving = entering = np.array(self.rates, dtype=np.float64)
        else:
            outside = np.where(cluster.server[:, None] != cluster.server, cluster.bandwidth, 0.0)
            first = np.concatenate(([0], np.cumsum(cluster.servers)[:-1]))
            leaving = np.maximum.reduceat(outside.max(axis=1), first)
            entering = np.maximum.reduceat(outside.max(axis=0), first)
        rate = np.maximum(leaving, entering) if self.half else np.concatenate((leaving, entering))
        freeze(rate)
        return Ports(cluster.server, rate, 0 if self.half else count)


class Ports(NamedTuple):
    """Ports of servers; server h sends through port h and receives through port h + `entering`."""

    server: IntArray  # (V,): of each device
    rate: FloatArray  # (P,) [bytes/s]
    entering: int  # number of servers, 0 if a card has one port

    def transfer_load(self, size: float, senders: Sequence[int], receivers: Sequence[int]) -> FloatArray:
        """(P,) seconds that a transfer of `size` bytes between replicas with even shares loads each port."""
        q, r = len(senders), len(receivers)
        x = np.bincount(self.server[list(senders)], minlength=self._servers)
        y = np.bincount(self.server[list(receivers)], minlength=self._servers)
        return self._seconds(size * (x * (r - y)) / (q * r), size * (y * (q - x)) / (q * r))

    def allreduce_load(self, size: float, devices: Sequence[int]) -> FloatArray:
        """(P,) seconds that an AllReduce of `size` bytes loads each port; none inside a server."""
        r = len(devices)
        here = np.bincount(self.server[list(devices)], minlength=self._servers) > 0
        crossing = np.where(here, 2 * (r - 1) * size / r if here.sum() > 1 else 0.0, 0.0)
        return self._seconds(crossing, crossing)

    @property
    def _servers(self) -> int:
        return self.entering or len(self.rate)

    def _seconds(self, leaving: FloatArray, entering: FloatArray) -> FloatArray:
        volume = np.concatenate((leaving, entering)) if self.entering else leaving + entering
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(volume > 0, volume / self.rate, 0.0)
