"""Families of training steps: sizes, seeds, gradients and lanes."""

from __future__ import annotations

import numpy as np
import pytest

from instances import InputError
from instances.placement.networks import OVERHEAD, PLACEMENT_FAMILIES, SPLITS

SIZES = {"nmt": ((69, 103), (167, 249)), "cifar10": ((60, 110), (110, 220)), "ptb": ((61, 61), (133, 133))}


@pytest.fixture(params=list(PLACEMENT_FAMILIES))
def family(request: pytest.FixtureRequest) -> str:
    return request.param


def test_splits(family: str) -> None:
    """8 to train, 8 to validate, 16 to test, and 16 large ones; no graph twice."""
    found = {split: PLACEMENT_FAMILIES[family].split(split) for split in SPLITS}
    assert {split: len(graphs) for split, graphs in found.items()} == {
        "train": 8, "validation": 8, "test": 16, "large": 16,
    }  # fmt: skip
    assert len({seed for seeds in SPLITS.values() for seed in seeds}) == 48
    for split, graphs in found.items():
        low, high = SIZES[family][split == "large"]
        assert all(low <= graph.n <= high for graph in graphs)
    assert len({graph.content_hash for graphs in found.values() for graph in graphs}) == 48


def test_an_unknown_split_is_refused(family: str) -> None:
    with pytest.raises(InputError, match="validation"):
        PLACEMENT_FAMILIES[family].split("dev")


def test_seeds(family: str) -> None:
    build = PLACEMENT_FAMILIES[family].graph
    assert build(7).content_hash == build(7).content_hash
    assert len({build(seed).content_hash for seed in range(6)}) > 3


def test_every_forward_node_has_a_gradient(family: str) -> None:
    """With twice the work, reading the node; gradients of what was read flow back with its size."""
    graph = PLACEMENT_FAMILIES[family].graph(3)
    index = {name: v for v, name in enumerate(graph.names)}
    edges = {(u, v): t for (u, v), t in zip(graph.edges.tolist(), graph.edge_tensor.tolist(), strict=True)}
    forward = [name for name in graph.names if f"backward.{name}" in index]
    weights = [name for name in graph.names if name.endswith("weights")]
    assert 2 * len(forward) + len(weights) == graph.n
    assert all(graph.work[index[name]] == 0 for name in weights)
    assert all(graph.work[index[name]] >= OVERHEAD for name in forward)
    for name in forward:
        v, back = index[name], index[f"backward.{name}"]
        assert graph.work[back] == 2 * graph.work[v]
        assert (v, back) in edges
        assert graph.attributes["lane"][v] == graph.attributes["lane"][back]
    for (u, v), t in edges.items():
        if graph.names[u] in forward and graph.names[v] in forward:
            returned = edges[index[f"backward.{graph.names[v]}"], index[f"backward.{graph.names[u]}"]]
            assert graph.tensors.bytes[returned] == graph.tensors.bytes[t]


def test_lanes_of_translation_are_layers() -> None:
    graph = PLACEMENT_FAMILIES["nmt"].graph(0)
    lanes = dict(zip(graph.names, graph.attributes["lane"], strict=True))
    assert (lanes["encoder.0.0"], lanes["decoder.1.0"], lanes["backward.decoder.1.0"]) == (0, 1, 1)
    assert lanes["softmax.0"] == lanes["attention.0"] == max(lanes.values())


def test_a_cell_of_translation_costs_what_its_matrix_does() -> None:
    """Two steps of a batch through a matrix of 2h by 4h; the weights have as many elements."""
    graph = PLACEMENT_FAMILIES["nmt"].graph(0)
    v, weights = graph.names.index("encoder.0.0"), graph.names.index("encoder.0.weights")
    output, parameters = (graph.tensors.bytes[graph.output_start[u]] / 4 for u in (v, weights))
    hidden = np.sqrt(parameters / 8)
    rows = output / hidden
    assert hidden in (512, 1024)
    assert rows in (64, 128, 192, 256)
    assert graph.work[v] == pytest.approx(2 * rows * parameters / 2e12 + OVERHEAD)
