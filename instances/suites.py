"""Frozen named lists of instances: bandwidth, batch and sequence are part of the name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from instances.architectures import ARCHITECTURES
from instances.devices.platform import Platform
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.partitioning.problem import Instance
from instances.random_graphs import GRAPH_MODELS, regal_style
from instances.readers import load_graph

__all__ = ["DATA_VARIABLE", "SUITES", "Entry", "Suite"]

#: Environment variable that names the folder with ``msr`` and ``pipedream``.
DATA_VARIABLE = "MTPP_DATA"

#: Bandwidth between blocks of real networks [bytes/s].
REAL_BANDWIDTH = 25e9

#: The same in training, where each saved activation crosses as well: links as fast as NVLink 3 [bytes/s].
TRAINING_BANDWIDTH = 300e9

_BATCH = 8
_SEQUENCE = 128
_REGAL_SIZES = (50, 80, 110, 140, 170, 200)
_PROFILES = (
    "msr/bert24_layer_inference.json",
    "msr/bert_l-3_operator_inference.json",
    "msr/bert_l-6_operator_inference.json",
    "msr/gnmt_layer_inference.json",
    "pipedream/densenet121.graph.txt",
    "pipedream/gnmt.graph.txt",
    "pipedream/resnet50.graph.txt",
    "pipedream/squeezenet1_0.graph.txt",
    "pipedream/vgg16.graph.txt",
)


@dataclass(frozen=True)
class Entry:
    """One graph of a suite."""

    name: str  # unique in its suite
    build: Callable[[], ComputationGraph]  # makes the graph
    bandwidth: float  # bytes per unit of the graph's time

    def instance(self, k: int) -> Instance:
        """The question for `k` blocks."""
        return Instance(self.build(), Platform(k, self.bandwidth), self.name)


@dataclass(frozen=True)
class Suite:
    """A frozen list of graphs."""

    name: str  # to ask for
    summary: str  # one line
    entries: tuple[Entry, ...]

    def instances(self, k: int) -> list[Instance]:
        """All questions of the suite for `k` blocks.

        Raises
        ------
        InputError
            If a graph cannot be built, or `k` is less than 1.
        """
        return [entry.instance(k) for entry in self.entries]


def _regal(family: str, n: int, seed: int) -> Entry:
    return Entry(f"{family}-{n}-{seed}", partial(regal_style, family, n, seed), 1.0)


def _network(name: str, *, level: str = "operator", training: bool = False, **dims: int) -> Entry:
    """An architecture; batch and sequence are the suites' unless given, other dimensions the architecture's own."""
    architecture = ARCHITECTURES[name]
    frozen = {"batch": _BATCH, "sequence": _SEQUENCE}
    chosen: dict[str, Any] = {**{dim: frozen[dim] for dim in architecture.dims if dim in frozen}, **dims}
    build = partial(architecture.build, level=level, training=training, **chosen)
    label = "-".join((name, *["layer"] * (level == "layer"), *["training"] * training))
    return Entry(label, build, TRAINING_BANDWIDTH if training else REAL_BANDWIDTH)


def _profile(path: str) -> Entry:
    folder, file = path.split("/")
    return Entry(f"{folder}-{file.split('.')[0]}", partial(_load_profile, path), REAL_BANDWIDTH)


def _load_profile(path: str) -> ComputationGraph:
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        raise InputError(
            f"The suite 'profiles' reads {path} from the folder that the environment variable {DATA_VARIABLE} names; "
            "set it."
        )
    return load_graph(Path(folder) / path, input_work="keep" if path.startswith("pipedream/") else None)


# Made here from architectures alone. Large networks are cut between layers, the others between operators.
_REAL = (
    _network("bert-base"),
    _network("bert-large"),
    _network("gpt2"),
    _network("vit-b16"),
    _network("vgg16"),
    _network("vgg19"),
    _network("resnet50"),
    _network("resnet152"),
    _network("densenet121"),
    _network("mobilenet-v2"),
    _network("inception-v3"),
    _network("gnmt"),
    _network("transformer-base"),
    _network("t5-small"),
    _network("resnext50"),
    _network("squeezenet"),
    _network("efficientnet-b0"),
    _network("whisper-base"),
    _network("wavernn", samples=16),
    _network("dlrm", batch=2048),
    _network("bert-48", level="layer"),
    _network("xlnet-large", level="layer"),
    _network("llama-2-7b", level="layer"),
    _network("llama-3-70b", level="layer"),
    _network("mixtral-8x7b", level="layer"),
    _network("t5-base", level="layer"),
    _network("nasnet-mobile", level="layer"),
    _network("unet-sd1", level="layer", latent=64),
    _network("resnet50", training=True),
    _network("squeezenet", training=True),
    _network("gnmt", training=True),
    _network("dlrm", training=True, batch=2048),
    _network("bert-large", level="layer", training=True),
    _network("llama-3-8b", level="layer", training=True),
    _network("t5-base", level="layer", training=True),
    _network("densenet121", level="layer", training=True),
    _network("unet-sd1", level="layer", training=True, latent=64),
)


_ALL = (
    Suite(
        "quick",
        "three networks at operator level and three random graphs, for a first table",
        (
            _network("bert-base"),
            _network("gnmt"),
            _network("resnet50"),
            _regal("erdos-renyi", 100, 0),
            _regal("barabasi-albert", 100, 0),
            _regal("watts-strogatz", 100, 0),
        ),
    ),
    Suite(
        "regal-style",
        "24 random graphs of 50 to 200 nodes, four families",
        tuple(_regal(family, n, seed) for family in GRAPH_MODELS for seed, n in enumerate(_REGAL_SIZES, start=1)),
    ),
    Suite(
        "real",
        "37 networks at operator or layer level, batch 8, sequence 128, 25 GB/s; 9 in training, 300 GB/s",
        _REAL,
    ),
    Suite(
        "profiles",
        f"published profiles, Input nodes with their time, 25 GB/s; their folder is named by {DATA_VARIABLE}",
        tuple(_profile(path) for path in _PROFILES),
    ),
)

#: All suites by name.
SUITES: dict[str, Suite] = {suite.name: suite for suite in _ALL}
