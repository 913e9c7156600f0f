"""Suites are frozen: names, sizes and bandwidths do not move."""

from __future__ import annotations

from pathlib import Path

import pytest

from instances import ComputationGraph, InputError
from instances.errors import find
from instances.partitioning.symmetry import reduce_instance
from instances.random_graphs import GRAPH_MODELS
from instances.suites import DATA_VARIABLE, SUITES


def test_the_suites_and_their_sizes() -> None:
    sizes = {name: len(suite.entries) for name, suite in SUITES.items()}
    fixed = {"quick": 6, "regal-style": 24, "real": 37, "profiles": 9}
    assert {name: sizes[name] for name in fixed} == fixed
    packages = ("timm", "torchvision", "transformers")
    assert sizes["networks"] == 28 + sum(sizes[package] for package in packages)
    assert set(sizes) == {*fixed, *packages, "networks"}
    assert all(name == suite.name for name, suite in SUITES.items())


@pytest.mark.parametrize("name", SUITES)
def test_names_are_unique(name: str) -> None:
    names = [entry.name for entry in SUITES[name].entries]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["quick", "regal-style", "real"])
def test_suites_build_the_same_instances_twice(name: str) -> None:
    first, second = SUITES[name].instances(2), SUITES[name].instances(2)
    assert [instance.key for instance in first] == [instance.key for instance in second]
    assert len({instance.key for instance in first}) == len(first)
    assert [instance.name for instance in first] == [entry.name for entry in SUITES[name].entries]
    assert all(instance.k == 2 for instance in first)


def test_quick_holds_networks_and_random_graphs() -> None:
    """At least three networks of 100 nodes or more, and two random graphs."""
    instances = SUITES["quick"].instances(4)
    assert sum(instance.graph.n >= 100 and instance.graph.time_unit == "s" for instance in instances) >= 3
    assert sum(instance.platform.bandwidth == 1 for instance in instances) >= 2


def test_regal_style_has_each_family_in_six_sizes() -> None:
    instances = SUITES["regal-style"].instances(2)
    for family in GRAPH_MODELS:
        sizes = [instance.graph.n for instance in instances if instance.name.startswith(family)]
        assert sizes == [50, 80, 110, 140, 170, 200]
    assert {instance.platform.bandwidth for instance in instances} == {1}


def test_real_freezes_batch_sequence_and_bandwidth() -> None:
    for instance in SUITES["real"].instances(2):
        dims = instance.graph.attributes["dims"]
        assert dims["batch"] == (2048 if instance.name.startswith("dlrm") else 8)
        assert dims.get("sequence", 128) == 128
        assert instance.platform.bandwidth == (300e9 if instance.name.endswith("-training") else 25e9)


def test_real_is_varied_and_of_a_size_for_experiments() -> None:
    """Names say level and step; most graphs have 30 to 400 nodes when reduced, at most a quarter are chains."""
    graphs = {}
    for instance in SUITES["real"].instances(2):
        made = instance.graph.attributes
        assert instance.name.endswith("-training") == made["training"]
        assert ("-layer" in instance.name) == (made["level"] == "layer")
        graphs[instance.name] = reduce_instance(instance).instance.graph
    sizes = [graph.n for graph in graphs.values()]
    assert sum(30 <= n <= 400 for n in sizes) >= 0.8 * len(sizes)
    assert sum(is_chain(graph) for graph in graphs.values()) <= len(graphs) / 4


def is_chain(graph: ComputationGraph) -> bool:
    pairs = set(map(tuple, graph.edges.tolist()))
    return len(pairs) == graph.n - 1 == len({u for u, _ in pairs}) == len({v for _, v in pairs})


# Beginnings of `ComputationGraph.content_hash`: runs on record belong to these graphs.
FROZEN = {
    "bert-base": "09f112d1433e",
    "bert-large": "75a65d2abbb2",
    "gpt2": "90c0a4ed8ffa",
    "vit-b16": "92dcab685ac6",
    "vgg16": "ed61defe0ae3",
    "vgg19": "b56bbd098c33",
    "resnet50": "b2cae374f71a",
    "resnet152": "438afc077994",
    "densenet121": "64cac839455e",
    "mobilenet-v2": "fbe8f9f31ee1",
    "inception-v3": "02d8c078545e",
    "gnmt": "9b150d8755f1",
    "transformer-base": "ecd5e674bbb0",
    "t5-small": "9fc6234bfa3c",
    "resnext50": "c422ed15db08",
    "squeezenet": "02a9b7669b6f",
    "efficientnet-b0": "da142efac34e",
    "whisper-base": "8ba3d607c225",
    "wavernn": "6597580d024c",
    "dlrm": "0adf5a0c6118",
    "bert-48-layer": "e345262168b8",
    "xlnet-large-layer": "77541c70b014",
    "llama-2-7b-layer": "e2812d4aad97",
    "llama-3-70b-layer": "76f6432f5f63",
    "mixtral-8x7b-layer": "fbdd82ce3416",
    "t5-base-layer": "3e20cc96d29a",
    "nasnet-mobile-layer": "12010e47f4b7",
    "unet-sd1-layer": "5915481984a5",
    "resnet50-training": "f124fa225c74",
    "squeezenet-training": "17c1ac8f6b62",
    "gnmt-training": "8195683e300a",
    "dlrm-training": "a36bad02dd80",
    "bert-large-layer-training": "5e273468d2cd",
    "llama-3-8b-layer-training": "e9df691681ea",
    "t5-base-layer-training": "90a7262d567d",
    "densenet121-layer-training": "d1e27cf19f70",
    "unet-sd1-layer-training": "22e34099ee89",
}


def test_the_graphs_of_real_do_not_change() -> None:
    assert {entry.name: entry.build().content_hash[:12] for entry in SUITES["real"].entries} == FROZEN


def test_profiles_need_their_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    with pytest.raises(InputError, match=f"{DATA_VARIABLE} names; set it"):
        SUITES["profiles"].instances(2)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match="there is no such file"):
        SUITES["profiles"].instances(2)


def test_profiles_are_in_seconds(data: Path) -> None:
    """Inference of these networks takes from a millisecond to a second."""
    instances = SUITES["profiles"].instances(2)
    assert len(instances) == 9
    for instance in instances:
        assert instance.graph.time_unit == "s"
        assert 1e-3 < instance.graph.work.sum() < 1
        assert instance.platform.bandwidth == 25e9


def test_an_unknown_suite_lists_the_names() -> None:
    with pytest.raises(InputError, match=r"did you mean quick.*quick, regal-style, real, profiles"):
        find(SUITES, "quik", "suite")
    assert find(SUITES, "real", "suite") is SUITES["real"]
