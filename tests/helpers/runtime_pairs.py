"""Random pairs of a cut and a runtime: what ``--for`` allows is what ``export`` writes.

``python tests/helpers/runtime_pairs.py PAIRS SEED`` prints how many cuts were allowed and written, and each pair of
which the two disagree; exit code 1 if there is one.
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np

from instances import ComputationGraph, InputError, Instance, Partition, Platform
from instances.runtimes import RUNTIMES

__all__ = ["disagreement", "network", "pairs"]

_STEMS = ("model.layers", "transformer.h", "decoder", "blocks")
_ENDS = ("model.embed.gather", "embed.sum", "norm.mul", "head.mm", "shared.mm", "add_1", "mul")


def network(rng: np.random.Generator) -> ComputationGraph:
    """Layers in a row with nodes before, between and after them, some without weights or in a module that is shared."""
    stem, layers = str(rng.choice(_STEMS)), int(rng.integers(2, 6))

    def outside(most: int) -> list[str]:
        return rng.choice(_ENDS, int(rng.integers(0, most + 1)), replace=False).tolist()

    names = outside(3)
    for layer in range(layers):
        names += [f"{stem}.{layer}.part{i}.mm" for i in range(int(rng.integers(1, 4)))] + outside(2)
    names += outside(3)
    n = len(names)
    edges = {(v - 1, v) for v in range(1, n)}
    edges |= {tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(int(rng.integers(0, 3)))}
    weights = rng.integers(0, 2, n) if rng.random() < 0.8 else np.zeros(n)
    source = str(rng.choice(["torch.export, made up", "a file"]))
    elsewhere = {"cls": names[0], "never": None} if rng.random() < 0.3 else {}
    return ComputationGraph.from_edges(
        sorted(edges), [1.0] * n, [1.0] * n, weights.tolist(), names=tuple(names), name="net", source=source,
        attributes={"weights_elsewhere": elsewhere} if elsewhere else {},
    )  # fmt: skip


def disagreement(
    graph: ComputationGraph, runtime: str, platform: Platform, block: list[int]
) -> tuple[bool, str | None]:
    """Whether the runtime's constraints allow a partition, and why its words do not where these disagree."""
    try:
        rules = RUNTIMES[runtime].rules(graph)
        Partition(Instance(graph, platform, constraints=rules), block)
        refused = None
    except InputError as error:
        refused = str(error)
    try:
        RUNTIMES[runtime].settings(Partition(Instance(graph, platform), block))
        unsaid = None
    except InputError as error:
        unsaid = str(error)
    agree = (refused is None) == (unsaid is None)
    return refused is None, None if agree else f"rules: {refused}; words: {unsaid}"


def pairs(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Allowed cuts of each runtime, and what disagrees; half of the cuts are between layers."""
    rng, allowed, wrong = np.random.default_rng(seed), Counter[str](), []
    for _ in range(count):
        graph, k = network(rng), int(rng.integers(1, 5))
        runtime = str(rng.choice(list(RUNTIMES)))
        block = np.sort(rng.integers(0, k, graph.n))
        if rng.random() < 0.7:
            ends = [v for v in range(1, graph.n) if ".part0." in graph.names[v] or ".part" in graph.names[v - 1]]
            cuts = np.sort(rng.choice([0, *ends, graph.n], k - 1))
            block = np.searchsorted(cuts, np.arange(graph.n), side="right")
        fine, why = disagreement(graph, runtime, Platform(k, 1.0), block.tolist())
        allowed[runtime] += fine
        if why is not None:
            wrong.append(f"{runtime}, k = {k}, {list(zip(graph.names, block.tolist(), strict=True))}: {why}")
    return allowed, wrong


if __name__ == "__main__":
    written, faults = pairs(int(sys.argv[1]), int(sys.argv[2]))
    print(f"{sys.argv[1]} pairs, {written.total()} allowed and written ({dict(written)})")
    print(*faults, sep="\n")
    sys.exit(bool(faults))
