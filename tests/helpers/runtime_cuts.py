"""Networks with layers, by the names of their nodes, and cuts of them between their units."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from instances import ComputationGraph, Instance, Partition, Platform
from instances.runtimes.layers import LayerStack

__all__ = ["chain", "cut"]


def chain(
    layers: int,
    *,
    front: Sequence[str] = ("model.embed_tokens.gather", "model.embed_tokens.scale"),
    back: Sequence[str] = ("model.norm.mul", "lm_head.mm"),
    stem: str = "model.layers",
) -> ComputationGraph:
    """Nodes before the layers, two nodes a layer, and nodes after them, by the paths of their modules."""
    inner = [f"{stem}.{i}.{part}" for i in range(layers) for part in ("attention", "mlp")]
    names = (*front, *inner, *back)
    n = len(names)
    return ComputationGraph.from_edges(
        pairwise(range(n)), work=[1.0] * n, output_bytes=[1.0] * n, names=names, name="tiny"
    )


def cut(graph: ComputationGraph, units: list[int], k: int) -> Partition:
    """The partition that has each unit in a stage."""
    return Partition(Instance(graph, Platform(k, 1.0)), [units[u] for u in LayerStack.of(graph).unit])
