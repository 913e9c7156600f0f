r"""Devices: platforms, rooflines, clusters of servers, and their network cards.

**Network cards that the devices of a server share.**

Server h sends through a port ``out_h`` and receives through a port ``in_h``, each of the rate :math:`B_h`; a
half-duplex card has one port for both. What stays inside a server uses no port. Operation k that moves
:math:`v_{k,p}` bytes through port p loads it for :math:`ℓ_{k,p} = v_{k,p} / B_p` seconds and takes :math:`τ_k`
seconds alone, :math:`τ_k ≥ \max_p ℓ_{k,p}`. While operations share ports, k runs at a speed :math:`y_k ≤ 1`, and
:math:`\sum_k ℓ_{k,p} / τ_k · y_k ≤ 1` at each port: `instances.planning.operations` says which speeds.
"""

from __future__ import annotations

import hashlib
import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from instances.errors import InputError, assume
from instances.graph.display import Displayed, exact_figures, figures
from instances.graph.tensors import FloatArray, IntArray, freeze
from instances.json_files import CLUSTER_FORMAT, Value, nested_numbers

# Roofline cost model: operations and bytes to seconds.


@dataclass(frozen=True)
class Device:
    """Device of the roofline model (Williams, Waterman, Patterson 2009): it turns operations and bytes into seconds.

    Raises
    ------
    InputError
        If a value is not positive.
    """

    peak_flops: float = 100e12  # floating-point operations per second, positive
    memory_bandwidth: float = 1.5e12  # bytes per second between the device and its own memory, positive

    def __post_init__(self) -> None:
        for label, value in (("peak_flops", self.peak_flops), ("memory_bandwidth", self.memory_bandwidth)):
            if not value > 0:
                raise InputError(f"Device: {label} is {value}; it must be positive.")

    def time(self, flops: float, bytes_moved: float) -> float:
        """Seconds of an operator that computes and moves data at once: the slower of the two counts.

        Parameters
        ----------
        flops : float
            Floating-point operations, 0 or more.
        bytes_moved : float
            Bytes read from and written to memory, 0 or more.

        Raises
        ------
        InputError
            If an argument is negative or not a number.

        Examples
        --------
        >>> Device(peak_flops=100.0, memory_bandwidth=10.0).time(flops=300.0, bytes_moved=20.0)
        3.0
        """
        for label, value in (("flops", flops), ("bytes_moved", bytes_moved)):
            if not value >= 0:
                raise InputError(f"Device.time: {label} is {value}; it must be 0 or more.")
        return max(flops / self.peak_flops, bytes_moved / self.memory_bandwidth)


DEFAULT_DEVICE = Device()


def assumed_device(**given: float) -> Device:
    """Device with the given fields; missing ones take their defaults, which are noted as assumptions."""
    device = Device(**given)
    if "peak_flops" not in given:
        assume("peak_flops", f"devices of {device.peak_flops / 1e12:g} TFLOP/s")
    if "memory_bandwidth" not in given:
        assume("memory_bandwidth", f"{figures(device.memory_bandwidth, 'bytes/s')} to their memory")
    return device


# Platform: k equal devices in a row.


#: Largest number of blocks of a question.
MOST_BLOCKS = 10**6


@dataclass(frozen=True)
class Platform:
    """`k` equal devices in a row.

    Parameters
    ----------
    k : int
        Number of blocks, from 1 to a million, as memory grows with it.
    bandwidth : float
        Bytes per unit of work time between any two blocks, positive; infinite makes communication free.
    memory : float
        Fast memory of each block [bytes]; infinite by default.
    activation_buffer : float, optional
        Part of `memory` reserved for activations [bytes]. If given, it stands for the peak memory of
        every non-empty block; otherwise the peak of the partition's own order counts.
    fit : bool
        Whether the memory is a hard limit: partitions that exceed it are infeasible, not only slower.

    Raises
    ------
    InputError
        If a value is out of its range.
    """

    k: int
    bandwidth: float
    memory: float = math.inf
    activation_buffer: float | None = None
    fit: bool = False

    def __post_init__(self) -> None:
        values = {"k": self.k, "bandwidth": self.bandwidth, "memory": self.memory}
        if self.activation_buffer is not None:
            values["activation_buffer"] = self.activation_buffer
        for name, value in values.items():  # one type for each, or equal platforms had different keys
            if not isinstance(value, numbers.Real):
                raise InputError(f"{name} is {value!r}; it must be a number.")
            try:
                object.__setattr__(self, name, float(value) + 0.0)
            except OverflowError:
                raise InputError(f"{name} is too large for a number; give a smaller one.") from None
        if not (math.isfinite(self.k) and self.k >= 1 and self.k == int(self.k)):
            raise InputError(f"k is {self.k}; the number of blocks must be a whole number, 1 or more.")
        if self.k > MOST_BLOCKS:
            raise InputError(f"k is {self.k:g}; the number of blocks must be {MOST_BLOCKS} or less.")
        object.__setattr__(self, "k", int(self.k))
        if not self.bandwidth > 0:
            raise InputError(f"bandwidth is {self.bandwidth}; it must be positive.")
        if not self.memory >= 0:
            raise InputError(f"memory is {self.memory}; it must be 0 or more.")
        if self.activation_buffer is not None and not 0 <= self.activation_buffer < math.inf:
            raise InputError(f"activation_buffer is {self.activation_buffer}; it must be finite, 0 or more.")
        if self.fit and not self.memory < math.inf:
            raise InputError("What shall fit needs a memory; give its size.")

    @property
    def key(self) -> str:
        """All parameters that costs depend on, in one line.

        Keys of runs contain it, so that its format never changes.
        """
        words = [f"{name}={getattr(self, name)!r}" for name in ("k", "bandwidth", "memory", "activation_buffer")]
        return f"Platform({', '.join(words)}{', fit=True' if self.fit else ''})"


def platform_in_words(platform: Platform, time_unit: str) -> list[str]:
    """Texts for the number of blocks, bandwidth and memory, such as "k 8", "25 GB/s", "memory unlimited"."""
    rate = exact_figures(platform.bandwidth, f"bytes/{time_unit}")
    words = [f"k {platform.k}", rate, memory_in_words(platform.memory)]
    if platform.activation_buffer is not None:
        words.append(f"of it {exact_figures(platform.activation_buffer, 'bytes')} for activations")
    return [*words, *(["all must fit"] if platform.fit else [])]


def memory_in_words(memory: float) -> str:
    """The memory of a device as a text, such as "memory unlimited"."""
    return f"memory {exact_figures(memory, 'bytes') if math.isfinite(memory) else 'unlimited'}"


# Devices of the same type and the bandwidth between any two of them.


# So that tables of all pairs fit into memory, and sums of links into a number.
_MOST_DEVICES, _MOST_BANDWIDTH = 4096, 1e150
_CLUSTER_OPTIONAL = ("name", "servers", "names", "bandwidth", "within", "between")


def cluster_document(cluster: Cluster) -> dict[str, Any]:
    """The cluster as the JSON document of its file."""
    document = {"format": CLUSTER_FORMAT, "name": cluster.name, "servers": list(cluster.servers)}
    return document | {"names": list(cluster.names), "bandwidth": (cluster.bandwidth + 0.0).tolist()}


def cluster_from_document(document: Value, name: str = "cluster") -> Cluster:
    """Build a cluster from its JSON document; `name` is used if the document has none.

    It has ``servers``, the devices of each, and either ``bandwidth``, V rows of V numbers, or ``within`` and
    ``between``, as in `Cluster.of_servers`. All in bytes/s.

    Raises
    ------
    InputError
        If it is not a cluster; the message names the place.
    """
    document.check_format(CLUSTER_FORMAT)
    fields = document.members(("format",), _CLUSTER_OPTIONAL)
    name = fields["name"].text() if "name" in fields else name
    servers = fields["servers"].whole_numbers() if "servers" in fields else []
    if ("bandwidth" in fields) == ("within" in fields) or ("between" in fields and "within" not in fields):
        document.fail("give either 'bandwidth', or 'within' and 'between'.")
    rates = {label: nested_numbers(fields[label]) for label in ("bandwidth", "within", "between") if label in fields}
    names = tuple(fields["names"].texts()) if "names" in fields else ()
    try:
        if "bandwidth" in rates:
            return Cluster(rates["bandwidth"], tuple(servers), names, name)
        return Cluster.of_servers(servers, rates["within"], rates.get("between", 0.0), name)
    except InputError as error:
        document.fail(str(error))


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
        order = np.array(sorted(devices), dtype=np.int64)
        sizes = np.bincount(self.server[order])
        return Cluster(
            self.bandwidth[np.ix_(order, order)],
            tuple(sizes[sizes > 0].tolist()),
            tuple(self.names[v] for v in order),
            self.name,
        )

    @cached_property
    def content_hash(self) -> str:
        """Hash (SHA-256) of everything that costs depend on."""
        return hashlib.sha256(self.bandwidth.tobytes() + repr(self.servers).encode()).hexdigest()

    def _facts(self) -> dict[str, str]:
        facts = {"devices": str(self.n), "servers": str(len(self.servers))}
        return facts | ({"fastest link": figures(self.bandwidth.max(), "bytes/s")} if self.n > 1 else {})


@dataclass(frozen=True)
class NetworkCards:
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
        """Description of the network as a text."""
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
        present = np.bincount(self.server[list(devices)], minlength=self._servers) > 0
        crossing = np.where(present, 2 * (r - 1) * size / r if present.sum() > 1 else 0.0, 0.0)
        return self._seconds(crossing, crossing)

    @property
    def _servers(self) -> int:
        return self.entering or len(self.rate)

    def _seconds(self, leaving: FloatArray, entering: FloatArray) -> FloatArray:
        volume = np.concatenate((leaving, entering)) if self.entering else leaving + entering
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(volume > 0, volume / self.rate, 0.0)
