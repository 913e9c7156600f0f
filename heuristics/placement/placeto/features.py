"""Features of the devices for the `fast` policy, compiled by numba.

All columns are dimensionless. Times are in units of the mean work of a node and grow logarithmically, work is in shares
of a device. Nothing depends on the name of a device or on how many there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heuristics.placement.simulator import SimulatorArrays
from instances import ComputationGraph
from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.placement.problem import PlacementInstance

#: Relations between two nodes; also the columns of its work.
ANCESTOR, DESCENDANT, PARALLEL = 2, 3, 4

#: Columns of `candidate_features`.
FEATURES = (
    "is current",
    "load",
    "work of ancestors",
    "work of descendants",
    "work of parallel nodes",
    "parallel work at the same time",
    "traffic from parents here",
    "tensors of parents here anyway",
    "wait for inputs",
    "share of readers",
    "transfers from here",
    "memory in use",
    "work",
    "bytes",
    "start",
    "earliest start here",
    "longest way to an end",
    "delay of readers",
)


class Surroundings(NamedTuple):
    """Relations of each node to the others, beyond those in the arrays of the simulator."""

    input_start: IntArray  # (n + 1,): tensors that each node reads, in compressed rows
    input_tensor: IntArray
    producer: IntArray  # (t,): node that makes each tensor
    # (n, n): ``relation[v, u]`` says what u is to v: ANCESTOR, DESCENDANT, PARALLEL, or 0 for v itself.
    relation: NDArray[np.int8]
    held: FloatArray  # (n,): bytes held, and of outputs, over the memory of a device; 0 where memory is infinite
    tail: FloatArray  # (n,): work on the longest way from each node to an end, its own included

    @classmethod
    def of(cls, instance: PlacementInstance) -> Surroundings:
        """Relate all pairs of nodes of `instance`."""
        graph = instance.graph
        outputs = np.bincount(graph.tensors.producer, graph.tensors.bytes, graph.n)
        input_start, input_tensor = graph.inputs
        return cls(
            input_start=input_start,
            input_tensor=input_tensor,
            producer=graph.tensors.producer,
            relation=relations(graph),
            held=(graph.held_bytes + outputs) / instance.memory,
            tail=_tails(graph),
        )


def relations(graph: ComputationGraph) -> NDArray[np.int8]:
    """(n, n) what node u is to node v, at [v, u]."""
    before = np.zeros((graph.n, graph.n), dtype=bool)
    start, parent = graph.predecessors
    for v in graph.topological_order:
        parents = parent[start[v] : start[v + 1]]
        before[v] = before[parents].any(axis=0)
        before[v, parents] = True
    relation = np.full(before.shape, PARALLEL, dtype=np.int8)
    relation[before] = ANCESTOR
    relation[before.T] = DESCENDANT
    np.fill_diagonal(relation, 0)
    return relation


def _tails(graph: ComputationGraph) -> FloatArray:
    tail = graph.work.copy()
    start, child = graph.successors
    for v in graph.topological_order[::-1]:
        tail[v] += tail[child[start[v] : start[v + 1]]].max(initial=0.0)
    return tail


@compiled
def candidate_features(
    v: int,
    place: IntArray,
    begin: FloatArray,
    end: FloatArray,
    arrays: SimulatorArrays,
    around: Surroundings,
    out: FloatArray,
) -> None:
    """Describe each device as a place for node `v`, all other nodes staying where they are, or not placed.

    Parameters
    ----------
    place : (e, n) integers
        Device of each node, in each of e episodes; -1 if it is not placed.
    begin, end : (e, n) floats
        When each node runs.
    out : (e, k, f) floats
        Where the features go.
    """
    k, first, last = arrays.devices, arrays.output_start[v], arrays.output_start[v + 1]
    unit, share = arrays.total_work / len(arrays.work), arrays.total_work / k
    wait = np.empty(k)
    out[:] = 0.0
    for i in range(len(out)):
        row = out[i]
        if place[i, v] >= 0:
            row[place[i, v], 0] = 1.0
        wait[:] = 0.0
        for e in range(around.input_start[v], around.input_start[v + 1]):
            _add_input(v, around.input_tensor[e], place[i], end[i], arrays, around, wait, row)
        row[:, 15] = wait
        _add_others(v, place[i], begin[i], end[i], arrays, around, wait, row)
        for t in range(first, last):
            _add_output(v, t, place[i], begin[i], arrays, row)
        readers = max(1, arrays.reader_start[last] - arrays.reader_start[first])
        ready, free, makespan = wait.min(), row[:, 15].min(), max(end[i].max(), 1e-300)
        for d in range(k):
            row[d, 8] = wait[d] - ready
            row[d, 9] /= readers
            row[d, 12] = arrays.work[v]
            row[d, 13] = arrays.tensor_time[first:last].sum()
            row[d, 14] = begin[i, v] / makespan
            row[d, 15] -= free
            row[d, 16] = around.tail[v] / arrays.total_work
            for column in (1, 2, 3, 4):
                row[d, column] /= share
            for column in (5, 6, 7, 8, 10, 12, 13, 15, 17):
                row[d, column] = np.log1p(row[d, column] / unit)


@compiled
def _add_others(
    v: int,
    place: IntArray,
    begin: FloatArray,
    end: FloatArray,
    arrays: SimulatorArrays,
    around: Surroundings,
    wait: FloatArray,
    row: FloatArray,
) -> None:
    """Add what the other nodes that are placed do on each device, given when the inputs of `v` are there."""
    for u in range(len(place)):
        if u == v or place[u] < 0:
            continue
        d, relation = place[u], around.relation[v, u]
        row[d, 1] += arrays.work[u]
        row[d, relation] += arrays.work[u]
        row[d, 11] += around.held[u]
        if relation != DESCENDANT and begin[u] <= wait[d]:
            row[d, 15] = max(row[d, 15], end[u])
        if relation == PARALLEL:
            row[d, 5] += max(0.0, min(end[u], wait[d] + arrays.work[v]) - max(begin[u], wait[d]))


@compiled
def _add_input(
    v: int,
    t: int,
    place: IntArray,
    end: FloatArray,
    arrays: SimulatorArrays,
    around: Surroundings,
    wait: FloatArray,
    row: FloatArray,
) -> None:
    """Add what it means for each device that `v` reads tensor `t`."""
    home, time = place[around.producer[t]], arrays.tensor_time[t]
    if home < 0:
        return
    row[home, 6] += time
    for d in range(len(row)):
        wait[d] = max(wait[d], end[around.producer[t]] + (time if d != home else 0.0))
        if d != home:
            for e in range(arrays.reader_start[t], arrays.reader_start[t + 1]):
                if arrays.reader[e] != v and place[arrays.reader[e]] == d:
                    row[d, 7] += time
                    break


@compiled
def _add_output(v: int, t: int, place: IntArray, begin: FloatArray, arrays: SimulatorArrays, row: FloatArray) -> None:
    """Count the readers of tensor `t` of `v` on each device, and what it means for them where `v` runs.

    That is the time of the transfers, and by how much the tensor would come too late for them to begin when they do.
    """
    read = np.zeros(len(row), dtype=np.bool_)
    for e in range(arrays.reader_start[t], arrays.reader_start[t + 1]):
        there = place[arrays.reader[e]]
        if there < 0:
            continue
        row[there, 9] += 1.0
        read[there] = True
        for d in range(len(row)):
            here = row[d, 15] + arrays.work[v] + (arrays.tensor_time[t] if there != d else 0.0)
            row[d, 17] = max(row[d, 17], here - begin[arrays.reader[e]])
    for d in range(len(row)):
        row[d, 10] += arrays.tensor_time[t] * (read.sum() - read[d])
