"""The clusters and questions of the paper's experiments (SPP, Section V)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from instances.devices.cluster import Cluster
from instances.devices.roofline import Device
from instances.errors import InputError
from instances.planning.bert import bert_chain
from instances.planning.from_graph import by_block, collapse
from instances.planning.problem import TrainingInstance
from instances.readers import load_graph

__all__ = [
    "DEVICE_MEMORY",
    "GBPS",
    "SERVERS",
    "SWEEPS",
    "TESTBEDS",
    "TRAINED_MODELS",
    "TrainedModel",
    "random_cluster",
    "simulation",
]

#: Bytes a second of 1 Gbps.
GBPS = 1.25e8

#: Devices of each server in the simulation.
SERVERS = (4,) * 8

_PCIE, _NVLINK, _RDMA = (96.0, 128.0), (160.0, 200.0), (32.0, 40.0)
_MICROBATCHES = 32

#: The sweeps of Figures 6 to 10: by figure, the parameter of `simulation` and its values.
SWEEPS: dict[str, tuple[str, tuple[object, ...]]] = {
    "6": ("microbatches", (8, 16, 32, 64, 128)),
    "7": ("between", ((8.0, 10.0), (16.0, 20.0), _RDMA, (64.0, 80.0))),
    "8": ("servers", (SERVERS, (2,) * 16, (8,) * 4, (4,) * 4 + (8,) * 2, (2,) * 6 + (4,) * 3 + (8,))),
    "9": ("layers", (24, 48, 72)),
    "10": ("activation_scale", (1.0, 2.0, 4.0, 8.0, 16.0)),
}

#: Sustained speed of the devices: half of their peak in single precision, and their memory bandwidth.
_DEVICES = {"1080ti-8": Device(5.7e12, 484e9), "v100-4": Device(7.8e12, 900e9)}

#: Memory of a device of each testbed [bytes].
DEVICE_MEMORY = {"1080ti-8": 11 * 2**30, "v100-4": 16 * 2**30}
_ELEMENT_BYTES = 4


def simulation(
    seed: int,
    *,
    microbatches: int = _MICROBATCHES,
    between: tuple[float, float] = _RDMA,
    servers: Sequence[int] = SERVERS,
    layers: int = 24,
    activation_scale: float = 1.0,
) -> TrainingInstance:
    """The simulated training of Section V-B: BERT on servers with a random interconnect.

    Parameters
    ----------
    seed : int
        Of the cluster.
    between, servers
        Of `random_cluster`.
    layers, activation_scale
        Of `bert_chain`.
    """
    cluster = random_cluster(np.random.default_rng(seed), servers, between)
    return TrainingInstance(bert_chain(layers, activation_scale=activation_scale), cluster, microbatches)


def random_cluster(
    rng: np.random.Generator, servers: Sequence[int] = SERVERS, between: tuple[float, float] = _RDMA
) -> Cluster:
    """Cluster of the paper's simulation.

    Three of eight servers have PCIe, with one bandwidth each from 96 to 128 Gbps, the others NVLink, 160 to 200 Gbps.
    The paper does not say which three: here the first ones, and of other numbers of servers three eighths, rounded.

    Parameters
    ----------
    servers : sequence of int
        Devices of each server.
    between : (float, float)
        Range of the one bandwidth between each two servers [Gbps].
    """
    count = len(servers)
    slow = round(3 * count / 8)
    within = np.concatenate((rng.uniform(*_PCIE, slow), rng.uniform(*_NVLINK, count - slow)))
    upper = np.triu(rng.uniform(*between, (count, count)), 1)
    return Cluster.of_servers(servers, within * GBPS, (upper + upper.T) * GBPS, name="+".join(map(str, servers)))


#: The testbeds of Section V-A; within the servers of the first one, whose links the paper does not give, PCIe as well.
TESTBEDS: dict[str, Callable[[], Cluster]] = {
    "1080ti-8": partial(Cluster.of_servers, (2,) * 4, 128 * GBPS, 50 * GBPS, "1080ti-8"),
    "v100-4": partial(Cluster.of_servers, (4,), 128 * GBPS, name="v100-4"),
}


@dataclass(frozen=True)
class TrainedModel:
    """A row of Table II, with its layers from the parametric architectures: their blocks, scaled to its parameters."""

    name: str  # of the architecture
    parameters: float  # numbers in all
    microbatches: int
    samples: Mapping[str, int]  # of a microbatch on each testbed
    dims: Mapping[str, int]  # further dimensions of the architecture

    def instance(self, testbed: str) -> TrainingInstance:
        """The training of this model on a testbed.

        Raises
        ------
        InputError
            If there is no such testbed.
        """
        if testbed not in TESTBEDS:
            raise InputError(f"There is no testbed '{testbed}'; testbeds are {', '.join(TESTBEDS)}.")
        graph = load_graph(self.name, dims={**self.dims, "batch": self.samples[testbed]}, device=_DEVICES[testbed])
        chain = by_block(collapse(graph))
        scale = self.parameters * _ELEMENT_BYTES / chain.param_bytes.sum()
        chain = replace(chain, param_bytes=chain.param_bytes * scale)
        return TrainingInstance(chain, TESTBEDS[testbed](), self.microbatches)


def _trained(name: str, millions: float, microbatches: int, samples: int, v100: int = 0, **dims: int) -> TrainedModel:
    per_testbed = {"1080ti-8": samples, "v100-4": v100 or samples}
    return TrainedModel(name, 1e6 * millions, microbatches, per_testbed, dims)


#: Table II, by name; sequences are those of SQuAD's usual training.
TRAINED_MODELS: dict[str, TrainedModel] = {
    model.name: model
    for model in (
        _trained("vgg19", 144, 8, 32),
        _trained("resnet152", 60, 4, 4),
        _trained("inception-v3", 24, 8, 32),
        _trained("transformer-base", 55, 8, 32, sequence=384),
        _trained("bert-large", 340, 4, 4, sequence=384),
        _trained("xlnet-large", 550, 4, 4, sequence=384),
        _trained("bert-48", 640, 4, 4, 2, sequence=384),
    )
}
