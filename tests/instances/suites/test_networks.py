"""Networks of packages: traced once in a process of their own, kept, and told in one line where that fails."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from instances import InputError, save_graph
from instances.errors import InputWarning
from instances.random_graphs import regal_style
from instances.suites import SUITES
from instances.suites.suite import NETWORKS, LeftOutError, SuiteModel, cache_folder, network_suite

#: A package with the functions of timm that are used here.
TIMM = """
import types

def get_pretrained_cfg(model):
    if model != "good":
        raise ValueError("no such model\\nhere")
    return types.SimpleNamespace(input_size=(3, 4, 4))

def create_model(model, pretrained):
    from torch.nn import Linear, ReLU, Sequential
    assert not pretrained
    return Sequential(Linear(4, 8), ReLU(), Linear(8, 2))
"""

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package called timm, and an empty cache."""
    folder = tmp_path / "site"
    (folder / "timm").mkdir(parents=True)
    (folder / "timm" / "__init__.py").write_text(TIMM)
    (folder / "timm-0.0.1.dist-info").mkdir()
    (folder / "timm-0.0.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: timm\nVersion: 0.0.1\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder / "timm" / "__init__.py"


def network(model: str, hash: str = "") -> SuiteModel:
    return SuiteModel(f"timm-{model}", model, "timm", "0.0.1", model, "Apache-2.0", 3, 2, hash)


@needs_torch
def test_a_network_is_traced_once(package: Path) -> None:
    """What fails is left out and tried again; the cache answers without the package."""
    suite = network_suite("some", "two networks", [network("bad"), network("good")])
    with pytest.warns(InputWarning, match=r"^timm 0\.0\.1, bad cannot be traced and is left out: .*no such model$"):
        (instance,) = suite.instances(2)
    graph = instance.graph
    assert (instance.name, instance.family, instance.platform.bandwidth) == ("timm-good", "good", 25e9)
    assert (graph.n, graph.m) == (3, 2)
    assert graph.attributes["parameter_count"] == 4 * 8 + 8 + 8 * 2 + 2
    assert graph.attributes["flops"] == 2 * 8 * 3 * 4 * (4 * 8 + 8 * 2)
    assert graph.source.startswith("timm 0.0.1, good, torch ")
    assert [path.name for path in cache_folder("timm").iterdir()] == ["good.json"]
    package.write_text("raise RuntimeError('no longer needed')")
    assert network("good").build().content_hash == graph.content_hash
    assert cache_folder("timm").name.startswith("timm-0.0.1-torch-")


def test_another_graph_than_that_of_the_list_is_told(package: Path) -> None:
    cache_folder("timm").mkdir(parents=True)
    graph = regal_style("erdos-renyi", 8, 1)
    save_graph(graph, cache_folder("timm") / "good.json")
    assert network("good", graph.content_hash[:12]).build().n == 8
    with pytest.warns(InputWarning, match=r"some graphs of timm 0\.0\.1 with torch .* differ from those of"):
        network("good", "0" * 12).build()


@needs_torch
def test_a_package_that_cannot_be_imported_stops_the_suite(package: Path) -> None:
    """As torchvision that was built for another torch; no network would do better."""
    package.write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    suite = network_suite("some", "two networks", [network("good"), network("bad")])
    with pytest.raises(
        InputError, match=r"^timm cannot be imported: RuntimeError: operator torchvision::nms"
    ) as caught:
        suite.instances(2)
    assert not isinstance(caught.value, LeftOutError)
    assert "torchvision must be built for the torch that is installed" in str(caught.value)


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    missing = replace(network("good"), package="no-such-package")
    with pytest.raises(InputError, match=r"^no-such-package is not installed, with .*; torchvision .*: pip install"):
        missing.build()
    assert not list(tmp_path.iterdir())


def test_the_list_has_200_independent_networks_with_source_and_licence() -> None:
    """Independent are networks of different clusters, whose graphs differ; those of architectures are among them."""
    assert len({network.network for network in NETWORKS}) == len(NETWORKS)
    assert len({network.hash for network in NETWORKS}) == len(NETWORKS)
    assert len({entry.family for entry in SUITES["networks"].entries}) >= 200
    for it in NETWORKS:
        assert it.licence in ("Apache-2.0", "BSD-3-Clause")
        assert re.fullmatch(r"[0-9a-f]{12}", it.hash)
        assert it.nodes >= 8
    assert max(Counter(network.cluster for network in NETWORKS).values()) <= 20
