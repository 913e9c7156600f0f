"""Parts of questions of planning as lines of text, and in a few words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from instances.devices.cluster import Cluster
from instances.devices.network import Network
from instances.graph.display import figures
from instances.graph.question_lines import said_number, said_text
from instances.planning.chain import LayerChain

__all__ = ["chain_lines", "cluster_in_words", "cluster_lines", "network_line", "said_whole"]


def chain_lines(chain: LayerChain) -> Iterator[str]:
    """Layers with their names, the parts of backward passes if they are known, and bytes between layers."""
    columns = (chain.names, *(x.tolist() for x in (chain.forward, chain.backward, chain.param_bytes, chain.stored)))
    for name, *numbers in zip(*columns, strict=True):
        yield " ".join(["layer", said_text(name), *map(said_number, numbers)])
    if chain.input_backward is not None:
        yield " ".join(["inputs", *map(said_number, chain.input_backward.tolist())])
    for there, back in zip(chain.forward_bytes.tolist(), chain.backward_bytes.tolist(), strict=True):
        yield f"between {said_number(there)} {said_number(back)}"


def cluster_lines(cluster: Cluster) -> Iterator[str]:
    """Sizes of the servers, and devices with their names and rates."""
    yield " ".join(["servers", *map(str, cluster.servers)])
    for name, row in zip(cluster.names, cluster.bandwidth.tolist(), strict=True):
        yield " ".join(["device", said_text(name), *map(said_number, row)])


def network_line(network: Network | None) -> str:
    """Cards that servers share; the paper's network if there are none."""
    if network is None:
        return "network paper"
    rates = ["none"] if network.rates is None else map(said_number, network.rates)
    return " ".join(["network shared", f"half {int(network.half)}", *rates])


def cluster_in_words(cluster: Cluster) -> list[str]:
    """Number of devices, and their slowest and fastest link."""
    rates, sizes = cluster.bandwidth[~np.eye(cluster.n, dtype=bool)], cluster.servers
    shown = (
        sorted({figures(rate, "bytes/s") for rate in {float(rates.min()), float(rates.max())}}) if len(rates) else []
    )
    servers = str(sizes[0]) if len(set(sizes)) == 1 else "+".join(map(str, sizes))
    return [f"{cluster.n} devices in servers of {servers}", " and ".join(shown) or "no links"]


def said_whole(number: int | None) -> str:
    """A whole number of a question, which may be missing."""
    return "none" if number is None else str(number)
