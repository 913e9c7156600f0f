"""Suites by name: frozen lists, and random ones."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from instances.architectures import ARCHITECTURES
from instances.errors import InputError, WordError
from instances.graph.graph import ComputationGraph
from instances.random_graphs import GRAPH_MODELS, regal_style
from instances.readers import load_graph
from instances.readers.huggingface.files import CONFIGURATION, is_configuration
from instances.suites.suite import NETWORKS, SETTINGS, Entry, Suite, folder_suite, network_suite, regal_suite

# Random graphs of any number in the style of REGAL's.


# Nodes of the graphs with seeds 1 to 6.
_SIZES = (50, 80, 110, 140, 170, 200)
_MOST = 100_000


def random_entry(family: str, n: int, seed: int) -> Entry:
    """Entry of a random graph, which is a family of its own."""
    name = f"{family}-{n}-{seed}"
    return Entry(name, partial(regal_style, family, n, seed), 1.0, name)


def regal_style_entries(count: int) -> tuple[Entry, ...]:
    """`count` graphs, equally many of each family, the first 24 those of the suite ``regal-style``.

    Up to 24 graphs they are listed family by family, with seeds from 1; beyond, seed by seed, with sizes that spread
    over 50 to 200 nodes.
    """
    per_family = count // len(GRAPH_MODELS)
    first = [(family, _SIZES[i], i + 1) for family in GRAPH_MODELS for i in range(min(per_family, len(_SIZES)))]
    more = [(family, _size(seed), seed) for seed in range(len(_SIZES) + 1, per_family + 1) for family in GRAPH_MODELS]
    return tuple(random_entry(*graph) for graph in (*first, *more))


def regal_style_suite(count: str) -> Suite:
    """The suite ``regal-style:COUNT``.

    Raises
    ------
    InputError
        If the count is no multiple of the number of families, or too large.
    """
    families, name = len(GRAPH_MODELS), f"regal-style:{count[:20]}"
    number = int(count) if count.isascii() and count.isdigit() and len(count) <= len(str(_MOST)) else 0
    if not 0 < number <= _MOST or number % families:
        raise InputError(
            f"{name}: N must be a multiple of {families}, up to {_MOST}: there are {families} families; "
            f"say regal-style:{min(number + -number % families or 24, _MOST)}."
        )
    return Suite(name, f"{number} random graphs of 50 to 200 nodes, {families} families", regal_style_entries(number))


def _size(seed: int) -> int:
    """Number of nodes of the graphs with this seed: 151 is prime, so 151 seeds have different sizes, spread widely."""
    return 50 + 93 * seed % 151


# Frozen named lists of instances: bandwidth, batch and sequence are part of the name.


#: Environment variable that names the folder with ``msr`` and ``pipedream``.
DATA_VARIABLE = "MTPP_DATA"

#: Bandwidth between blocks of real networks [bytes/s].
REAL_BANDWIDTH = 25e9

#: The same in training, where each saved activation crosses as well: links as fast as NVLink 3 [bytes/s].
TRAINING_BANDWIDTH = 300e9

_BATCH = 8
_SEQUENCE = 128
# Profiles, and the networks that they are of.
_PROFILES = {
    "msr/bert24_layer_inference.json": "bert-large",
    "msr/bert_l-3_operator_inference.json": "bert-large",
    "msr/bert_l-6_operator_inference.json": "bert-large",
    "msr/gnmt_layer_inference.json": "gnmt",
    "pipedream/densenet121.graph.txt": "densenet121",
    "pipedream/gnmt.graph.txt": "gnmt",
    "pipedream/resnet50.graph.txt": "resnet50",
    "pipedream/squeezenet1_0.graph.txt": "squeezenet",
    "pipedream/vgg16.graph.txt": "vgg16",
}


def _network(name: str, *, level: str = "operator", training: bool = False, **dims: int) -> Entry:
    """Entry of an architecture; batch and sequence are the suites' by default."""
    architecture = ARCHITECTURES[name]
    frozen = {"batch": _BATCH, "sequence": _SEQUENCE}
    chosen: dict[str, Any] = {**{dim: frozen[dim] for dim in architecture.dims if dim in frozen}, **dims}
    build = partial(architecture.build, level=level, training=training, **chosen)
    label = "-".join((name, *["layer"] * (level == "layer"), *["training"] * training))
    return Entry(label, build, TRAINING_BANDWIDTH if training else REAL_BANDWIDTH, name)


def _profile(path: str, network: str) -> Entry:
    folder, file = path.split("/")
    return Entry(f"{folder}-{file.split('.')[0]}", partial(_load_profile, path), REAL_BANDWIDTH, network)


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
            random_entry("erdos-renyi", 100, 0),
            random_entry("barabasi-albert", 100, 0),
            random_entry("watts-strogatz", 100, 0),
        ),
    ),
    Suite(
        "regal-style",
        "24 random graphs of 50 to 200 nodes, four families; regal-style:N has N of them",
        regal_style_entries(24),
    ),
    Suite(
        "real",
        "37 networks at operator or layer level, batch 8, sequence 128, 25 GB/s; 9 in training, 300 GB/s",
        _REAL,
    ),
    Suite(
        "profiles",
        f"published profiles, Input nodes with their time, 25 GB/s; their folder is named by {DATA_VARIABLE}",
        tuple(_profile(path, network) for path, network in _PROFILES.items()),
    ),
)
_PACKAGES = tuple(dict.fromkeys((network.package, network.version) for network in NETWORKS))
_TRACED = (
    *(
        network_suite(
            package,
            f"networks of {package} {version}, traced on first use (mtpp list networks); batch 8, 25 GB/s",
            [network for network in NETWORKS if network.package == package],
        )
        for package, version in _PACKAGES
    ),
    network_suite(
        "networks",
        "all networks: the inference of the suite real, and those of packages (mtpp list networks)",
        NETWORKS,
        [entry for entry in _REAL if not entry.name.endswith("-training")],
    ),
)

#: All suites by name.
SUITES: dict[str, Suite] = {suite.name: suite for suite in (*_ALL, *_TRACED)}


# Suites by the words that ask for them.


_FAMILIES = {"regal-style": regal_style_suite, "regal": regal_suite}


def is_suite(word: str) -> bool:
    """Whether a text names a suite rather than a graph.

    A folder with a configuration of Hugging Face is one model, unless there is a ``suite.toml``.
    """
    if word in SUITES or word.partition(":")[0] in _FAMILIES:
        return True
    is_folder = word not in ARCHITECTURES and os.path.isdir(word)
    return is_folder and not (is_configuration(Path(word, CONFIGURATION)) and not Path(word, SETTINGS).exists())


def find_suite(word: str, **words: Any) -> Suite:
    """The suite that a text names: a name of `SUITES`, ``regal-style:N``, ``regal:FOLDER`` or a folder of graph files.

    Parameters
    ----------
    word : str
        Text for which `is_suite` holds.
    **words
        Keyword arguments for `load_graph`, which reads each file of a folder; the other suites take none.

    Raises
    ------
    InputError
        If N, the folder or an argument is refused.

    Examples
    --------
    >>> len(find_suite("regal-style:1000").entries)
    1000
    """
    family, _, what = word.partition(":")
    if word not in SUITES and family not in _FAMILIES:
        return folder_suite(word, **words)
    for name in words:
        raise WordError(name, None, f"the graphs of {word} have their own sizes; leave this option out.")
    return SUITES[word] if word in SUITES else _FAMILIES[family](what)
