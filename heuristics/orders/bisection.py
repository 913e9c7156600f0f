r"""SliceGraph for one k at any size, in O(n + m) memory.

A threshold T is feasible if

.. math::

    \mathrm{fewest}[0] = 0, \qquad
    \mathrm{fewest}[r + 1] = 1 + \min \{ \mathrm{fewest}[l] : l \le r,\ \mathrm{cost}[l, r] \le T \}

gives at most k blocks to all n nodes; the best bottleneck is the least feasible T. Bisection ends there exactly, up
to rounding: a feasible T falls to the bottleneck of its slicing, an infeasible one rises to the next segment cost that
could change its answer, until the two meet. A cost is not monotone in the ends of its segment, because a longer one may
cut less. So the longest segment that fits need not be the best, and the minimum runs over all l.

The costs of all segments that end in r are the suffix sums of a list of differences over l, of which a node changes
about as many as it has inputs (see `heuristics.orders.slicing`). A segment tree over l holds the differences: each node
of it stores the sum of its differences, their smallest suffix sum and the smallest fewest[l] below it. The search for
the minimum skips what costs too much or is no better; left of the band of segments with work at most T everything
costs too much, which shows near the root. A threshold takes O((n + m) log n) as long as fewest[l] grows along the
band, as it nearly does, whatever the width of the band.

With finite memory and an activation buffer, cost = max(time, time + (params + buffer − M) / B). The tree holds the sums
of both terms, and the larger of the two smallest is a lower bound. Where the memory is a hard limit the second term, if
it is larger, has a step on top.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import Instance, Partition
from instances.compiled import compiled
from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.peaks import KernelArrays

# Part of the step of an overflow that rounding may make up.
_ROUNDING = 1e-12


def slice_by_bisection(instance: Instance, order: IntArray, deadline: Deadline | None = None) -> Partition:
    """Best partition of an order into at most k segments.

    Parameters
    ----------
    instance : Instance
        With infinite memory or an activation buffer.
    order : (n,) integers
        A topological order.
    deadline : Deadline, optional
        Checked before each threshold; once it has passed, the best slicing so far is returned, at worst equal pieces.

    Returns
    -------
    Partition
        The same bottleneck as that of `heuristics.slice_order_for_all_k`, up to rounding, unless time was up.
    """
    deadline, arrays = deadline or Deadline(), KernelArrays.of(instance)
    before = np.cumsum(arrays.work[order]) - arrays.work[order]
    equal = float(arrays.work.sum()) / instance.k
    best = cut_order(instance, order, np.searchsorted(before, equal * np.arange(instance.k)))
    low, high = max(float(arrays.work.max()), equal), best.bottleneck
    starts = None
    while low < high and not deadline.passed:
        threshold = math.sqrt(low) * math.sqrt(high) if low > 0 else high / 2
        if not low <= threshold < high:  # they are neighbours
            break
        candidate, bottleneck, same_below = fewest_blocks(order, instance.k, threshold, arrays)
        if len(candidate) > 0:
            starts, high = candidate, bottleneck
        else:
            low = same_below
    return best if starts is None else cut_order(instance, order, starts)


def cut_order(instance: Instance, order: IntArray, starts: IntArray) -> Partition:
    """Partition whose block b is the segment of the order that begins at ``starts[b]``."""
    block = np.empty(len(order), dtype=np.int64)
    block[order] = np.searchsorted(starts, np.arange(len(order)), side="right") - 1
    return Partition(instance, block, order)


class _Tree(NamedTuple):
    """Segment tree over segment starts l; the root is node 1, node i has the children 2i and 2i + 1.

    Leaf l is node ``len(fewest) / 2 + l``.
    """

    sums: FloatArray  # (nodes, kinds): sums of differences of costs; kind 0 is time, kind 1 time and parameters
    low: FloatArray  # (nodes, kinds): smallest sum from a leaf below the node to the node's last leaf
    fewest: NDArray[np.int32]  # (nodes,): fewest blocks before any start below the node
    spare: FloatArray  # (kinds,): time that no segment pays: 0, and to stream what fits into the memory


@compiled
def fewest_blocks(order: IntArray, k: int, threshold: float, arrays: KernelArrays) -> tuple[IntArray, float, float]:
    """Cut an order into the fewest segments of cost at most `threshold`.

    Parameters
    ----------
    order : (n,) integers
    threshold : float
        In the time unit of the work.
    arrays : KernelArrays
        Without the peaks of orders.

    Returns
    -------
    tuple
        The starts of the segments, or none if k do not suffice; their largest cost; and a value above `threshold`
        below which the answer is the same.
    """
    n = len(order)
    last_read = np.empty(len(arrays.tensor_time), dtype=np.int64)
    produced_at = np.empty(len(arrays.tensor_time), dtype=np.int64)
    unread = arrays.readers.copy()
    last_use = np.full(len(arrays.shared_bytes), -1)
    tree = _empty_tree(n, arrays)
    fewest = np.full(n + 1, k + 1)
    fewest[0] = 0
    cut = np.empty(n + 1, dtype=np.int64)
    bottleneck = np.full(n + 1, math.inf)
    bottleneck[0] = 0.0
    same_below = math.inf
    stack = np.empty(128, dtype=np.int64)
    sums = np.empty((128, len(tree.spare)))
    for r in range(n):
        _add_times(r, order[r], arrays, tree, last_read, produced_at, unread)
        if len(tree.spare) > 1:
            _add_parameters(r, order[r], arrays, tree, last_use)
        _insert(r, fewest[r], k, tree)
        l, cost, dearer = _search(threshold, k, arrays.overflow_step, tree, stack, sums)  # noqa: E741 - the index letter of the paper
        same_below = min(same_below, dearer)
        if l >= 0:
            fewest[r + 1] = fewest[l] + 1
            cut[r + 1] = l
            bottleneck[r + 1] = max(bottleneck[l], cost)
    if fewest[n] > k:
        return np.empty(0, dtype=np.int64), math.inf, same_below
    starts = np.empty(fewest[n], dtype=np.int64)
    end = n
    for b in range(len(starts) - 1, -1, -1):
        starts[b] = cut[end]
        end = starts[b]
    return starts, bottleneck[n], same_below


@compiled
def _empty_tree(n: int, arrays: KernelArrays) -> _Tree:
    size = 1
    while size < n:
        size *= 2
    finite = arrays.memory < math.inf
    spare = np.zeros(2 if finite else 1)
    if finite:
        spare[1] = (arrays.memory - arrays.activation_buffer) / arrays.overflow_bandwidth
    shape = (2 * size, len(spare))
    return _Tree(np.zeros(shape), np.full(shape, math.inf), np.full(2 * size, np.int32(2**31 - 1), np.int32), spare)


@compiled
def _add_times(
    r: int,
    v: int,
    arrays: KernelArrays,
    tree: _Tree,
    last_read: IntArray,
    produced_at: IntArray,
    unread: IntArray,
) -> None:
    """Extend all segments by node `v` at position `r`: add its work and transfers to their times.

    A segment pays a tensor once if it reads it, and if it makes it for readers outside. So the time of a tensor changes
    sums only at the positions of its producer, of its last reader so far, and of `v`.
    """
    time = arrays.work[v]
    for e in range(arrays.input_start[v], arrays.input_start[v + 1]):
        t = arrays.input_tensor[e]
        time += arrays.tensor_time[t]
        _change(last_read[t], r, 0, -arrays.tensor_time[t], tree)
        last_read[t] = r
        unread[t] -= 1
        if unread[t] == 0:
            _change(produced_at[t], r, 0, -arrays.tensor_time[t], tree)
    for t in range(arrays.output_start[v], arrays.output_start[v + 1]):
        last_read[t] = produced_at[t] = r
        if unread[t] > 0:
            time += arrays.tensor_time[t]
    _change(r, r, 0, time, tree)


@compiled
def _add_parameters(r: int, v: int, arrays: KernelArrays, tree: _Tree, last_use: IntArray) -> None:
    """Add what node `v` at position `r` keeps, in time to stream it; a shared parameter counts once in each segment."""
    resident_bytes = arrays.held_bytes[v]
    for e in range(arrays.shared_start[v], arrays.shared_start[v + 1]):
        g = arrays.shared[e]
        resident_bytes += arrays.shared_bytes[g]
        if last_use[g] >= 0:
            _change(last_use[g], r, 1, -arrays.shared_bytes[g] / arrays.overflow_bandwidth, tree)
        last_use[g] = r
    _change(r, r, 1, resident_bytes / arrays.overflow_bandwidth, tree)


@compiled
def _change(l: int, r: int, first_kind: int, amount: float, tree: _Tree) -> None:  # noqa: E741
    """Add `amount` to all segments that start at `l` or before; ancestors of leaf `r` are left to `_insert`."""
    node, last = l + len(tree.fewest) // 2, r + len(tree.fewest) // 2
    for kind in range(first_kind, len(tree.spare)):
        tree.sums[node, kind] += amount
        if tree.low[node, kind] < math.inf:
            tree.low[node, kind] = tree.sums[node, kind]
    while node // 2 != last // 2:
        node //= 2
        last //= 2
        _refresh(node, tree)


@compiled
def _insert(r: int, fewest: int, k: int, tree: _Tree) -> None:
    """Let segments start at `r`, behind `fewest` blocks, if k allow one more; refresh all ancestors of leaf `r`."""
    node = r + len(tree.fewest) // 2
    if fewest < k:
        tree.fewest[node] = fewest
        tree.low[node] = tree.sums[node]
    while node > 1:
        node //= 2
        tree.fewest[node] = min(tree.fewest[2 * node], tree.fewest[2 * node + 1])
        _refresh(node, tree)


@compiled(inline="always")
def _refresh(node: int, tree: _Tree) -> None:
    left, right = 2 * node, 2 * node + 1
    for kind in range(len(tree.spare)):
        after = tree.sums[right, kind]
        tree.sums[node, kind] = tree.sums[left, kind] + after
        tree.low[node, kind] = min(tree.low[right, kind], tree.low[left, kind] + after)


@compiled
def _search(
    threshold: float, k: int, step: float, tree: _Tree, stack: IntArray, after: FloatArray
) -> tuple[int, float, float]:
    """Cheap segment that follows the fewest blocks, the leftmost of equal ones; -1 if none is cheap.

    Parameters
    ----------
    threshold : float
        A segment is cheap if it costs no more [time unit].
    step : float
        Additional cost of a segment that overflows [time unit].
    stack, after : (128,) integers, (128, kinds) floats
        Scratch: tree nodes still to be visited, and sums over the leaves right of each.

    Returns
    -------
    tuple
        Start of the segment; its cost; and the least cost above the threshold that was met, so that all thresholds
        below that cost have the same answer.
    """
    size, kinds = len(tree.fewest) // 2, len(tree.spare)
    best, best_start, best_cost, dearer = k, -1, math.inf, math.inf
    stack[0] = 1
    after[0] = 0.0
    top = 0
    while top >= 0:
        node = stack[top]
        top -= 1
        if tree.fewest[node] >= best:
            continue
        cost = after[top + 1, 0] + tree.low[node, 0] - tree.spare[0]
        if kinds > 1:
            with_overflow = after[top + 1, 1] + tree.low[node, 1] - tree.spare[1]
            if node >= size and with_overflow - cost > _ROUNDING * step:
                with_overflow += step
            cost = max(cost, with_overflow)
        if cost > threshold:
            dearer = min(dearer, cost)
        elif node >= size:
            best, best_start, best_cost = tree.fewest[node], node - size, cost
        else:
            # The right child takes the place of the node, the left one comes above it and so is next.
            stack[top + 1] = 2 * node + 1
            stack[top + 2] = 2 * node
            for kind in range(kinds):
                after[top + 2, kind] = after[top + 1, kind] + tree.sums[2 * node + 1, kind]
            top += 2
    return best_start, best_cost, dearer
