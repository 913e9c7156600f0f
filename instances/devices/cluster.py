"""Devices of the same type and the bandwidth between any two of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from instances.errors import InputError
from instances.graph.display import Displayed, figures
from instances.graph.tensors import FloatArray, IntArray, freeze

__all__ = ["Cluster"]

# So that tables of all pairs fit into memory, and sums of links into a number.
_MOST_DEVICES, _MOST_BANDWIDTH = 4096, 1e150


@dataclass(frozen=True, eq=False, repr=False)
class Cluster(Displayed):
    """`V` equal devices, grouped into servers, with any interconnect.

    Parameters
    ----------
    bandwidth : (V, V) floats
        ``bandwidth[v, w]`` from device v to device w [bytes/s]; 0 where there is no link. The diagonal is not used.
    servers : tuple of int, optional
        Devices of each server; server h holds the devices after those of the servers before it. By default all
        devices are in one server.
    names : tuple of str, optional
        One name a device; by default their indices.
    name : str

    Raises
    ------
    InputError
        If the matrix is not square, a bandwidth is negative or not finite, or the servers do not add up to V.

    Examples
    --------
    >>> Cluster.of_servers([2, 2], within=16e9, between=4e9).bandwidth[0]
    array([0.0e+00, 1.6e+10, 4.0e+09, 4.0e+09])
    """

    bandwidth: FloatArray
    servers: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    name: str = "cluster"

    def __post_init__(self) -> None:
        try:
            bandwidth = np.array(self.bandwidth, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("The bandwidth is not a table of numbers; give V rows of V numbers.") from None
        if bandwidth.ndim != 2 or bandwidth.shape[0] != bandwidth.shape[1] or len(bandwidth) == 0:
            raise InputError(f"The bandwidth has the shape {bandwidth.shape}; give V rows of V numbers.")
        np.fill_diagonal(bandwidth, 0.0)
        for v, w in np.argwhere(~(np.isfinite(bandwidth) & (bandwidth >= 0)))[:1]:
            raise InputError(
                f"The bandwidth from device {v} to {w} is {bandwidth[v, w]}; it must be a finite number, 0 or more."
            )
        if bandwidth.max() > _MOST_BANDWIDTH:
            raise InputError(f"A bandwidth is {bandwidth.max():g}; it must be {_MOST_BANDWIDTH:g} bytes/s or less.")
        freeze(bandwidth)
        object.__setattr__(self, "bandwidth", bandwidth)
        object.__setattr__(self, "servers", tuple(int(size) for size in self.servers) or (self.n,))
        object.__setattr__(self, "names", tuple(self.names) or tuple(map(str, range(self.n))))
        if min(self.servers) < 1 or sum(self.servers) != self.n:
            raise InputError(f"The servers hold {list(self.servers)} devices; give sizes that add up to {self.n}.")
        if len(self.names) != self.n:
            raise InputError(f"There are {self.n} devices but {len(self.names)} names; give one a device.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        freeze(self.bandwidth)  # pickling forgets it

    @classmethod
    def of_servers(
        cls, servers: Sequence[int], within: ArrayLike, between: ArrayLike = 0.0, name: str = "cluster"
    ) -> Cluster:
        """Servers with one bandwidth inside each and one between each two.

        Parameters
        ----------
        servers : sequence of H integers
            Devices of each server.
        within : float or (H,) floats
            Bandwidth inside each server [bytes/s].
        between : float or (H, H) floats
            Bandwidth between servers [bytes/s]; the diagonal is not used.

        Raises
        ------
        InputError
            As the constructor, and if the shapes do not fit.
        """
        count = len(servers)
        if sum(servers) > _MOST_DEVICES:
            raise InputError(f"The servers hold {sum(servers)} devices; give {_MOST_DEVICES} or fewer.")
        try:
            sizes = np.array(servers, dtype=np.int64)
            table = np.broadcast_to(np.array(between, dtype=np.float64), (count, count)).copy()
            np.fill_diagonal(table, np.broadcast_to(np.array(within, dtype=np.float64), (count,)))
            server = np.repeat(np.arange(count), sizes)
        except (TypeError, ValueError):
            raise InputError(
                f"There are {count} servers; give their sizes as whole numbers, one bandwidth or {count} within them, "
                f"and one or a {count} by {count} table between them."
            ) from None
        return cls(table[np.ix_(server, server)], tuple(sizes.tolist()), name=name)

    @property
    def n(self) -> int:
        """Number of devices, V."""
        return len(self.bandwidth)

    @cached_property
    def server(self) -> IntArray:
        """(V,) server of each device."""
        return np.repeat(np.arange(len(self.servers)), self.servers)

    @cached_property
    def symmetric_bandwidth(self) -> FloatArray:
        """(V, V) the slower direction of each link [bytes/s]."""
        return np.minimum(self.bandwidth, self.bandwidth.T)

    @property
    def links(self) -> FloatArray:
        """(V (V - 1),) bandwidths off the diagonal [bytes/s]; empty for one device."""
        return self.bandwidth[~np.eye(self.n, dtype=bool)]

    def subset(self, devices: Iterable[int]) -> Cluster:
        """The cluster of some devices, in ascending order, with their names."""
        kept = np.array(sorted(devices), dtype=np.int64)
        sizes = np.bincount(self.server[kept])
        return Cluster(
            self.bandwidth[np.ix_(kept, kept)],
            tuple(sizes[sizes > 0].tolist()),
            tuple(self.names[v] for v in kept),
            self.name,
        )

    @cached_property
    def content_hash(self) -> str:
        """Hash (SHA-256) of everything that costs depend on."""
        return hashlib.sha256(self.bandwidth.tobytes() + repr(self.servers).encode()).hexdigest()

    def _title(self) -> str:
        return self.name

    def _facts(self) -> dict[str, str]:
        facts = {"devices": str(self.n), "servers": str(len(self.servers))}
        return facts | ({"fastest link": figures(self.bandwidth.max(), "bytes/s")} if self.n > 1 else {})
