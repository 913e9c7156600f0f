"""Random graphs that a seed reproduces, and small examples whose optimum is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from instances.devices import Platform
from instances.errors import InputError, find
from instances.graph.graph import ComputationGraph
from instances.partitioning.problem import Instance

if TYPE_CHECKING:
    import networkx as nx

_SMALLEST = 8


def _erdos_renyi(n: int, rng: np.random.Generator) -> nx.Graph[int]:
    import networkx as nx

    graph: nx.Graph[int] = nx.gnp_random_graph(n, 0.05, seed=rng)
    return graph


def _barabasi_albert(n: int, rng: np.random.Generator) -> nx.Graph[int]:
    import networkx as nx

    return nx.barabasi_albert_graph(n, 2, seed=rng)


def _watts_strogatz(n: int, rng: np.random.Generator) -> nx.Graph[int]:
    import networkx as nx

    graph: nx.Graph[int] = nx.watts_strogatz_graph(n, 4, 0.3, seed=rng)
    return graph


def _stochastic_block(n: int, rng: np.random.Generator) -> nx.Graph[int]:
    import networkx as nx

    sizes = [len(part) for part in np.array_split(np.arange(n), 4)]
    density = np.where(np.eye(4, dtype=bool), 0.3, 0.01)
    return nx.stochastic_block_model(sizes, density.tolist(), seed=rng)


#: Random graph models of the REGAL-style graphs, by name.
GRAPH_MODELS: dict[str, Callable[[int, np.random.Generator], nx.Graph[int]]] = {
    "erdos-renyi": _erdos_renyi,
    "barabasi-albert": _barabasi_albert,
    "watts-strogatz": _watts_strogatz,
    "stochastic-block": _stochastic_block,
}


def regal_style(family: str, n: int, seed: int) -> ComputationGraph:
    """Random computation graph in the style of REGAL's; use it with bandwidth 1.

    Edges of a random graph are directed by a random order. Tensor sizes follow N(50, 10). The work of a node
    is the size of its output and its inputs plus r times the sum of all sizes, r ~ N(0, 0.1), and at least 0.
    The parameters of the original data set were not published: erdos-renyi has edge probability 0.05,
    barabasi-albert 2 edges per new node, watts-strogatz 4 neighbours rewired with probability 0.3,
    stochastic-block 4 blocks with probability 0.3 inside and 0.01 between.

    Parameters
    ----------
    family : str
        A name in `GRAPH_MODELS`.
    n : int
        Number of nodes, at least 8; the original has 50 to 200.
    seed : int
        Same seed, same graph.

    Raises
    ------
    InputError
        If there is no such model, or `n` or `seed` is out of range.

    References
    ----------
    Paliwal et al., "Reinforced Genetic Algorithm Learning for Optimizing Computation Graphs", ICLR 2020, A.1.4.

    Examples
    --------
    >>> regal_style("barabasi-albert", n=50, seed=0).m
    96
    """
    model = find(GRAPH_MODELS, family, "random graph model")
    if n < _SMALLEST or seed < 0:
        raise InputError(f"n is {n} and seed is {seed}; n must be {_SMALLEST} or more and the seed 0 or more.")
    rng = np.random.default_rng(seed)
    undirected = np.array(model(n, rng).edges(), dtype=np.int64).reshape(-1, 2)
    position = rng.permutation(n)
    backwards = position[undirected[:, 0]] > position[undirected[:, 1]]
    edges = np.where(backwards[:, None], undirected[:, ::-1], undirected)
    sizes = np.maximum(0.0, rng.normal(50, 10, n))
    inputs = np.bincount(edges[:, 1], weights=sizes[edges[:, 0]], minlength=n)
    work = np.maximum(0.0, sizes + inputs + rng.normal(0, 0.1, n) * sizes.sum())
    return ComputationGraph.from_edges(
        edges.tolist(),
        work,
        sizes,
        time_unit="unit",
        name=f"{family}-{n}-{seed}",
        source=f"REGAL-style {family}, n = {n}, seed = {seed}",
    )


def layered(n: int, m: int, seed: int) -> ComputationGraph:
    """Random computation graph of any size, to be used with bandwidth 1.

    Edges lead from a node to nodes about √n places later in a random topological order. Work is exponential with mean
    1, tensor sizes with mean 1/10, parameters with mean 1.

    Parameters
    ----------
    n : int
        Number of nodes, at least 8.
    m : int
        Number of edges that are drawn; some are drawn twice and count once.
    seed : int
        Same seed, same graph.

    Raises
    ------
    InputError
        If `n`, `m` or `seed` is out of range.

    Examples
    --------
    >>> layered(1000, 3000, seed=0).n
    1000
    """
    if n < _SMALLEST or m < 0 or seed < 0:
        raise InputError(
            f"n is {n}, m is {m} and seed is {seed}; n must be {_SMALLEST} or more, m and the seed 0 or more."
        )
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    reader = rng.integers(1, n, m)
    distance = 1 + rng.exponential(np.sqrt(n), m).astype(np.int64)
    edges = order[np.column_stack((np.maximum(0, reader - distance), reader))]
    return ComputationGraph.from_edges(
        edges,
        rng.exponential(1.0, n),
        rng.exponential(0.1, n),
        rng.exponential(1.0, n),
        time_unit="unit",
        name=f"layered-{n}-{m}-{seed}",
        source=f"layered random graph, n = {n}, m = {m}, seed = {seed}",
    )


def moe(layers: int, experts: int) -> ComputationGraph:
    """Layers of equal experts behind a gate, to be used with bandwidth 1.

    A layer is attention, a norm, the gate, experts that read both, and their sum. Its optimum is hard to prove for
    methods that do not see that experts can change places: they have 2^experts ideals a layer.

    Raises
    ------
    InputError
        If there is less than a layer or an expert.

    Examples
    --------
    >>> moe(6, 64).n
    409
    """
    if layers < 1 or experts < 1:
        raise InputError(f"There are {layers} layers of {experts} experts; each must be 1 or more.")
    edges: list[tuple[int, int]] = []
    rows = [(0.2, 1.0, 0.0)]  # work, bytes of the output, bytes of parameters
    for _ in range(layers):
        x = len(rows) - 1
        attention, norm, gate, total = x + 1, x + 2, x + 3, x + 4 + experts
        edges += [(x, attention), (attention, norm), (x, norm), (norm, gate)]
        edges += [(v, expert) for expert in range(gate + 1, total) for v in (norm, gate)]
        edges += [(v, total) for v in range(norm, total)]
        rows += [(3.0, 1.0, 4.0), (0.1, 1.0, 0.0), (0.1, 0.1, 0.1), *[(0.5, 0.25, 8.0)] * experts, (0.3, 1.0, 0.0)]
    name = f"experts-{layers}-{experts}"
    return ComputationGraph.from_edges(
        edges, *zip(*rows, strict=True), time_unit="unit", name=name, source=f"{layers} layers of {experts} experts"
    )


def chain(k: int = 4, length: int = 3) -> tuple[Instance, float]:
    """``k · length`` nodes of work 1 in a row, tensors of size 1/2; and the optimum, of k equal pieces."""
    n = k * length
    graph = _toy("chain", [(v, v + 1) for v in range(n - 1)], [1.0] * n, [0.5] * n)
    return Instance(graph, Platform(k, bandwidth=1)), length + 0.5 * min(k - 1, 2)


def independent_jobs(k: int = 3) -> tuple[Instance, float]:
    """Scheduling 2k + 1 independent jobs on k machines: optimum 3k, longest first gives 4k − 1 (Graham 1969)."""
    work = [size for size in range(2 * k - 1, k, -1) for _ in range(2)] + [k] * 3
    graph = _toy("independent-jobs", [], work, [0] * len(work))
    return Instance(graph, Platform(k, bandwidth=1)), 3.0 * k


def misleading_edge(k: int = 3) -> tuple[Instance, float]:
    """Lemma 3.5: the best slicing of the index order is k times the optimum.

    k light nodes of work 1, then k heavy ones of work k, and a tensor as large as the total work from the
    first to the last node.
    """
    edge_bytes = k * (k + 1)
    graph = _toy("misleading-edge", [(0, 2 * k - 1)], [1] * k + [k] * k, [edge_bytes] + [0] * (2 * k - 1))
    return Instance(graph, Platform(k, bandwidth=1)), k + 1.0


def heavy_and_light(k: int = 3) -> tuple[Instance, float]:
    """Remark A.1: the best slicing of the index order costs 2k, the optimum is k + 1.

    The nodes of `misleading_edge` without the edge.
    """
    graph = _toy("heavy-and-light", [], [1] * k + [k] * k, [0] * (2 * k))
    return Instance(graph, Platform(k, bandwidth=1)), k + 1.0


def fan_out(k: int = 4) -> tuple[Instance, float]:
    """One tensor that k − 1 nodes in k − 1 blocks read, sent once; and the optimum, 5. Needs k ≥ 2."""
    graph = _toy("fan-out", [(0, v) for v in range(1, k)], [4] * k, [1] + [0] * (k - 1))
    return Instance(graph, Platform(k, bandwidth=1)), 5.0


def four_blocks() -> tuple[Instance, float]:
    """A graph whose optimum is 17, and for which an unsound variant of guess-the-bottleneck would prove 19."""
    edges = [(0, 1), (0, 5), (1, 2), (1, 5), (2, 3), (3, 4), (4, 5)]
    graph = _toy("four-blocks", edges, [5, 5, 0, 8, 2, 2], [2, 9, 1, 2, 2, 0])
    return Instance(graph, Platform(4, bandwidth=1)), 17.0


#: Functions that give an instance and its optimum, by name.
TOYS: dict[str, Callable[[], tuple[Instance, float]]] = {
    "chain": chain,
    "fan-out": fan_out,
    "four-blocks": four_blocks,
    "heavy-and-light": heavy_and_light,
    "independent-jobs": independent_jobs,
    "misleading-edge": misleading_edge,
}


def _toy(
    name: str, edges: list[tuple[int, int]], work: list[float] | list[int], sizes: list[float] | list[int]
) -> ComputationGraph:
    return ComputationGraph.from_edges(
        edges, work, np.array(sizes, dtype=np.float64), time_unit="unit", name=name, source="toy"
    )
