"""Real networks to place, in training: those of Placeto's experiments, on a device of its time."""

from __future__ import annotations

from functools import partial

from instances.architectures import ARCHITECTURES, Architecture
from instances.architectures.recurrent import gnmt
from instances.devices.roofline import Device
from instances.graph.graph import ComputationGraph
from instances.placement.families import FLOPS
from instances.registry import find

__all__ = ["PLACEMENT_NETWORKS", "placement_network"]

#: As fast as that of the families, with the memory of a Tesla K80 [1/s, bytes/s].
_DEVICE = Device(peak_flops=FLOPS, memory_bandwidth=240e9)
_BATCH = 32


def _translation(layers: int) -> Architecture:
    """Translation network of few layers, as many as the paper has devices; unrolled into chunks of two steps."""
    return Architecture(
        f"nmt-{layers}-layers",
        f"translation with {layers} LSTM layers in encoder and decoder, attention",
        partial(gnmt, layers=layers, hidden=1024),
        {"batch": _BATCH, "sequence": 32, "chunks": 16},
        "Wu et al., Google's neural machine translation system, arXiv:1609.08144, 2016",
    )


_ALL = (ARCHITECTURES["inception-v3"], ARCHITECTURES["nasnet-mobile"], _translation(2), _translation(4))

#: Name to architecture.
PLACEMENT_NETWORKS = {architecture.name: architecture for architecture in _ALL}


def placement_network(name: str) -> ComputationGraph:
    """Operators of a training step with batch 32, to be grouped by `group_nodes` and used with `BANDWIDTH`.

    Raises
    ------
    InputError
        If there is no such network.
    """
    architecture = find(PLACEMENT_NETWORKS, name, "network to place")
    return architecture.build(training=True, device=_DEVICE, batch=_BATCH)
