"""Placements by graph partitioners, which balance work and cut few bytes, whatever the order of the nodes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array, csr_array

from heuristics.limits import Limits
from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.system.programs import run_program

__all__ = ["metis", "scotch"]

#: Weights are whole numbers: the work of the whole graph in these units.
_RESOLUTION = 10**6
_SCOTCH = ("scotch_gpart", "gpart")


def metis(instance: PlacementInstance, rng: np.random.Generator, _limits: Limits | None = None) -> Placement:
    """METIS: parts of equal work with few bytes between them.

    Raises
    ------
    InputError
        If the package pymetis is not installed.
    """
    try:
        import pymetis
    except ImportError:
        raise InputError("The method metis needs the package pymetis; install mtpp with the extra 'place'.") from None
    adjacency, work = _undirected(instance)
    if adjacency.nnz == 0 or instance.devices == 1:
        return Placement(instance, np.arange(instance.graph.n) % instance.devices)
    _, part = pymetis.part_graph(
        instance.devices,
        pymetis.CSRAdjacency(adjacency.indptr.tolist(), adjacency.indices.tolist()),
        vweights=work.tolist(),
        eweights=adjacency.data.tolist(),
        options=pymetis.Options(seed=int(rng.integers(2**31))),
    )
    return Placement(instance, np.array(part))


def scotch(instance: PlacementInstance, _rng: np.random.Generator, _limits: Limits | None = None) -> Placement:
    """Scotch's `gpart`, with the weights of `metis`.

    Raises
    ------
    InputError
        If the program is not on the path, or fails.
    """
    program = next(filter(None, map(shutil.which, _SCOTCH)), None)
    if program is None:
        raise InputError("The method scotch needs the program gpart; install Debian's package scotch.")
    adjacency, work = _undirected(instance)
    with tempfile.TemporaryDirectory() as folder:
        graph, parts = Path(folder, "graph.grf"), Path(folder, "parts.map")
        graph.write_text(_scotch_graph(adjacency, work), encoding="utf-8")
        done = run_program([program, str(instance.devices), str(graph), str(parts)])
        if done.code != 0 or not parts.exists():
            raise InputError(f"scotch: {program} failed: {done.text.strip() or done.code}.")
        _, *lines = parts.read_text(encoding="utf-8").splitlines()
    device = np.zeros(instance.graph.n, dtype=np.int64)
    for line in lines:
        v, part = line.split()
        device[int(v)] = int(part)
    return Placement(instance, device)


def _undirected(instance: PlacementInstance) -> tuple[csr_array, IntArray]:
    """Symmetric matrix of transfer times between nodes, and the works, in whole numbers of at least 1 and 0."""
    graph = instance.graph
    (u, v), n = graph.edges.T, graph.n
    time = instance.tensor_time[graph.edge_tensor]
    both = coo_array((np.tile(time, 2), (np.append(u, v), np.append(v, u))), shape=(n, n)).tocsr()
    unit = instance.total_work / _RESOLUTION
    both.data = np.maximum(1, _whole(both.data / unit))
    return both, _whole(graph.work / unit)


def _whole(values: FloatArray) -> IntArray:
    """Rounded; sums must stay below what 32 bits hold."""
    return np.round(values * min(1.0, 2**30 / max(1.0, values.sum()))).astype(np.int64)


def _scotch_graph(adjacency: csr_array, work: IntArray) -> str:
    """The graph in Scotch's format: loads of vertices and edges, vertices from 0."""
    rows = [f"0\n{adjacency.shape[0]} {adjacency.nnz}\n0 011"]
    for v, load in enumerate(work.tolist()):
        edges = range(adjacency.indptr[v], adjacency.indptr[v + 1])
        arcs = " ".join(f"{adjacency.data[e]} {adjacency.indices[e]}" for e in edges)
        rows.append(f"{max(1, load)} {len(edges)} {arcs}")
    return "\n".join(rows) + "\n"
