"""Clusters from texts: servers such as ``8x4``, testbeds, files; and the cards of their servers."""

from __future__ import annotations

import re
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from instances.errors import InputError, WordError, said, word
from mtpp.text.parsing import Quantity, parse_bandwidth

if TYPE_CHECKING:
    from instances.devices.cluster import Cluster
    from instances.devices.network import Network

__all__ = ["load_cluster", "network_of"]

_SIMULATION = "simulation"
_MOST_DEVICES = 256
_SERVERS = re.compile(r"\d{1,18}x\d{1,18}(\+\d{1,18}x\d{1,18})*")


def load_cluster(cluster: str | PathLike[str] | Cluster, bandwidth: Quantity | None = None) -> Cluster:
    """Make a cluster.

    Parameters
    ----------
    cluster : str, path or Cluster
        A file; servers such as ``8x4`` or ``6x2+3x4+1x8``; a testbed of the paper; ``simulation-SEED``, one of its
        random clusters.
    bandwidth : float or str, optional
        For servers: one rate, or one within and one between them.

    Raises
    ------
    InputError
        If there is no such cluster, or the bandwidth is missing or in vain.

    Examples
    --------
    >>> load_cluster("2x1+1x2", "16GB/s,4GB/s").servers
    (1, 1, 2)
    """
    from instances.planning import Cluster

    if not isinstance(cluster, str | PathLike | Cluster):
        raise InputError(f"A cluster is a text, a file or a mtpp.Cluster, no {type(cluster).__name__}.")
    text = cluster.name if isinstance(cluster, Cluster) else fspath(cluster)
    if isinstance(cluster, str) and _SERVERS.fullmatch(cluster):
        return _of_servers(cluster, bandwidth)
    if bandwidth is not None:
        raise WordError("bandwidth", bandwidth, f"the cluster {text} has its own; leave this option out.")
    return cluster if isinstance(cluster, Cluster) else _named(text)


def _named(text: str) -> Cluster:
    import numpy as np

    from instances.planning.chains import TESTBEDS, random_cluster
    from instances.planning.plan_files import read_cluster

    if text in TESTBEDS:
        return TESTBEDS[text]()
    if match := re.fullmatch(rf"{_SIMULATION}-(\d+)", text):
        return random_cluster(np.random.default_rng(int(match[1])))
    if not Path(text).is_file():
        known = f"servers such as 8x4, {', '.join(TESTBEDS)} or {_SIMULATION}-0"
        raise WordError("cluster", text, f"there is no such file; give one, {known}.")
    return read_cluster(text)


def _of_servers(text: str, bandwidth: Quantity | None) -> Cluster:
    from instances.planning import Cluster

    if bandwidth is None:
        raise WordError(
            "cluster", text, f"give {word('bandwidth')} within and between servers, such as 128Gbps,32Gbps."
        )
    rates: list[str] | list[float] = bandwidth.split(",") if isinstance(bandwidth, str) else [bandwidth]
    if len(rates) > 2:
        raise WordError("bandwidth", bandwidth, "give one rate, or one within and one between servers.")
    parts = [(int(count), int(size)) for part in text.split("+") for count, size in [part.split("x")]]
    devices = sum(count * size for count, size in parts)
    if not 0 < devices <= _MOST_DEVICES or any(size == 0 for _, size in parts):
        raise WordError("cluster", text, f"these are {devices} devices; give from 1 to {_MOST_DEVICES}.")
    servers = [size for count, size in parts for _ in range(count)]
    return Cluster.of_servers(servers, parse_bandwidth(rates[0]), parse_bandwidth(rates[-1]), name=text)


def network_of(nic: str, servers: int) -> Network:
    """The network cards of servers, from a text such as "full", "half" or "25GB/s,half"."""
    from instances.devices.network import Network

    words = nic.split(",")
    half = "half" in words
    rates = [part for part in words if part not in ("full", "half")]
    if len(rates) > 1 or len(words) > 2:
        raise WordError("nic", nic, f"give full or half, and at most one rate, such as {said('nic', '25GB/s,half')}.")
    if not rates:
        return Network(half)
    return Network(half, (parse_bandwidth(rates[0], word="nic"),) * servers)
