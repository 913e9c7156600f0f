"""Questions of planning as lines of text, and in a few words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from instances.devices.cluster import Cluster
from instances.devices.network import Network
from instances.graph.display import figures
from instances.graph.question_lines import said_number, said_text
from instances.graph.tensors import FloatArray
from instances.partitioning.question_lines import memory_in_words
from instances.planning.chain import LayerChain

__all__ = ["training_in_words", "training_lines"]


class _Question(Protocol):
    """A question of planning."""

    @property
    def chain(self) -> LayerChain: ...
    @property
    def cluster(self) -> Cluster: ...
    @property
    def microbatches(self) -> int: ...
    @property
    def full_duplex(self) -> bool: ...
    @property
    def memory(self) -> float: ...
    @property
    def parameter_copies(self) -> float: ...
    @property
    def replica_share(self) -> FloatArray | None: ...
    @property
    def network(self) -> Network | None: ...
    @property
    def samples(self) -> int | None: ...
    @property
    def recomputation(self) -> bool: ...
    @property
    def dtype(self) -> str | None: ...
    @property
    def sequence(self) -> int | None: ...


def training_lines(instance: _Question) -> Iterator[str]:
    """All lines of a question of planning but the first two; parameters that it lacks are ``none``."""
    yield "unit s"
    yield f"microbatches {instance.microbatches}"
    yield f"duplex {int(instance.full_duplex)}"
    yield f"memory {said_number(instance.memory)}"
    yield f"copies {said_number(instance.parameter_copies)}"
    network = instance.network
    if network is None:
        yield "network paper"
    else:
        rates = ["none"] if network.rates is None else map(said_number, network.rates)
        yield " ".join(["network shared", f"half {int(network.half)}", *rates])
    yield f"samples {_whole(instance.samples)}"
    yield f"recompute {int(instance.recomputation)}"
    yield f"dtype {instance.dtype or 'none'}"
    yield f"sequence {_whole(instance.sequence)}"
    if instance.replica_share is not None:
        for row in np.atleast_2d(instance.replica_share).tolist():
            yield " ".join(["share", *map(said_number, row)])
    chain, cluster = instance.chain, instance.cluster
    columns = (chain.names, *(x.tolist() for x in (chain.forward, chain.backward, chain.param_bytes, chain.stored)))
    for name, *numbers in zip(*columns, strict=True):
        yield " ".join(["layer", said_text(name), *map(said_number, numbers)])
    if chain.input_backward is not None:
        yield " ".join(["inputs", *map(said_number, chain.input_backward.tolist())])
    for there, back in zip(chain.forward_bytes.tolist(), chain.backward_bytes.tolist(), strict=True):
        yield f"between {said_number(there)} {said_number(back)}"
    yield " ".join(["servers", *map(str, cluster.servers)])
    for name, row in zip(cluster.names, cluster.bandwidth.tolist(), strict=True):
        yield " ".join(["device", said_text(name), *map(said_number, row)])


def training_in_words(instance: _Question) -> str:
    """The question without names, in one line."""
    chain, cluster = instance.chain, instance.cluster
    rates = cluster.bandwidth[~np.eye(cluster.n, dtype=bool)]
    shown = (
        sorted({figures(rate, "bytes/s") for rate in {float(rates.min()), float(rates.max())}}) if len(rates) else []
    )
    words = [f"{instance.microbatches} microbatches", f"{cluster.n} devices in servers of {_servers(cluster.servers)}"]
    words += [" and ".join(shown) or "no links", "shared cards" if instance.network else "paper's network"]
    words += [memory_in_words(instance.memory), f"{figures(instance.parameter_copies)} copies of parameters"]
    words += [instance.dtype] if instance.dtype else []
    words += [f"sequence {instance.sequence}"] if instance.sequence else []
    words += [f"{instance.samples} samples"] if instance.samples else []
    words += ["recomputation"] if instance.recomputation else []
    words += ["full duplex"] if instance.full_duplex else []
    words += ["uneven shares of replicas"] if instance.replica_share is not None else []
    return f"{', '.join(words)}; {chain.n} layers, {figures(chain.time, 's')} a microbatch"


def _servers(sizes: tuple[int, ...]) -> str:
    return str(sizes[0]) if len(set(sizes)) == 1 else "+".join(map(str, sizes))


def _whole(number: int | None) -> str:
    return "none" if number is None else str(number)
