"""Memory of blocks: peaks, overflow, and why no partition fits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from instances.errors import printable
from instances.graph.display import how_many
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.problem import Instance

# Peak activation memory of executing the nodes of a block in a given order.
#
# At each step a tensor is live that the step reads or writes, that comes from outside the block and has
# been read and will be read again, or that was produced in the block and still has a reader there. So in
# a block a tensor is live on one closed interval of steps: from its producer, or its first reader if it
# comes from outside, to its last reader in the block.


def block_peaks(graph: ComputationGraph, block: IntArray, order: IntArray, k: int) -> FloatArray:
    """Peak activation memory of each block.

    Parameters
    ----------
    block : (n,) integers
        Block of each node.
    order : (n,) integers
        A topological order; each block executes its nodes in this order.
    k : int
        Number of blocks.

    Returns
    -------
    (k,) floats
        Bytes; 0 for an empty block.
    """
    peaks: FloatArray = _peaks(graph, graph.tensors.bytes, block, order, k)
    return peaks


def largest_needs(needs: NDArray[Any], block: IntArray, k: int) -> NDArray[Any]:
    """(k,) largest of the (n,) needs in each block, numbers of any type; 0 for an empty block."""
    largest = np.zeros(k, dtype=needs.dtype)
    np.maximum.at(largest, block, needs)
    return largest


class WholeBytes(NamedTuple):
    """Bytes of a question as whole multiples of 1 / `unit` byte, so that sums and differences are exact.

    A difference of large numbers may be a small overflow, which rounding of floats would hide.
    """

    unit: int  # a power of two; sizes are multiples of 1 / unit byte
    tensors: NDArray[Any]  # (t,)
    params: NDArray[Any]  # (n,) parameters and states of each node
    shared: NDArray[Any]  # of each parameter with several users
    buffer: int
    limits: list[int | None]  # as many as memories are given; None where one is infinite
    need: NDArray[Any] | None  # (n,) of merged nodes, as the question states it

    @classmethod
    def of(cls, instance: Instance, memories: FloatArray) -> WholeBytes:
        """Bytes of a question, with these memories [bytes] as limits."""
        graph, need = instance.graph, instance.need
        shared, buffer = [parameter.bytes for parameter in graph.parameters], instance.activation_buffer or 0.0
        limited = np.isfinite(memories)
        parts: tuple[Iterable[float], ...] = (
            graph.tensors.bytes,
            graph.param_bytes,
            graph.state_bytes,
            shared,
            memories[limited],
            (buffer,),
            () if need is None else need,
        )
        unit = max(float(x).as_integer_ratio()[1] for part in parts for x in part)
        tensors, params, states, sizes, finite, (buffer_size,), needs = (_whole(part, unit) for part in parts)
        rest = iter(finite)
        limits = [next(rest) if is_finite else None for is_finite in limited]
        return cls(unit, tensors, params + states, sizes, buffer_size, limits, None if need is None else needs)

    def needs(self, graph: ComputationGraph) -> NDArray[Any]:
        """(n,) size of the tensors live while each node runs, in multiples of 1 / `unit` byte."""
        if self.need is not None:
            return self.need
        touched = np.full(graph.n, 0, dtype=object)
        np.add.at(touched, graph.tensors.producer, self.tensors)
        np.add.at(touched, graph.tensors.consumers, self.tensors[graph.edge_tensor])
        return touched


def overflow_bytes(instance: Instance, block: IntArray, order: IntArray, memories: FloatArray) -> FloatArray:
    """(k,) bytes by which parameters, states and activations of each block exceed its memory; 0 where it suffices."""
    graph, k = instance.graph, instance.k
    whole = WholeBytes.of(instance, memories)
    loads = np.full(k, 0, dtype=object)
    if instance.activation_buffer is not None:
        loads[np.unique(block)] = whole.buffer
    elif instance.by_need:
        loads = largest_needs(whole.needs(graph), block, k)
    else:
        loads = _peaks(graph, whole.tensors, block, order, k)
    np.add.at(loads, block, whole.params)
    for parameter, size in zip(graph.parameters, whole.shared, strict=True):
        loads[np.unique(block[list(parameter.users)])] += size
    return np.array(
        [
            0.0 if limit is None else max(0, total - limit) / whole.unit
            for total, limit in zip(loads, whole.limits, strict=True)
        ]
    )


def _whole(sizes: Iterable[float], unit: int) -> NDArray[Any]:
    """Sizes in bytes as whole multiples of 1 / `unit` byte."""
    ratios = (float(x).as_integer_ratio() for x in sizes)
    return np.array([top * (unit // bottom) for top, bottom in ratios], dtype=object)


def _peaks(graph: ComputationGraph, sizes: NDArray[Any], block: IntArray, order: IntArray, k: int) -> NDArray[Any]:
    """(k,) peak of the live tensors in each block, in the unit and type of `sizes`."""
    by_block = order[np.argsort(block[order], kind="stable")]
    step = np.empty(graph.n, dtype=np.int64)
    step[by_block] = np.arange(graph.n)
    # One row per (tensor, node that touches it), sorted by tensor and step: within a tensor the blocks
    # are contiguous, and the first and last step in a block are the ends of its live interval there.
    tensors = graph.tensors
    tensor = np.concatenate((np.arange(len(tensors.producer)), graph.edge_tensor))
    touched = step[np.concatenate((tensors.producer, tensors.consumers))]
    by_tensor = np.lexsort((touched, tensor))
    tensor, touched = tensor[by_tensor], touched[by_tensor]
    home = block[by_block][touched]
    is_first = np.ones(len(tensor), dtype=bool)
    is_first[1:] = (tensor[1:] != tensor[:-1]) | (home[1:] != home[:-1])
    is_last = np.roll(is_first, -1)
    change = np.zeros(graph.n, dtype=sizes.dtype)
    np.add.at(change, touched[is_first], sizes[tensor[is_first]])
    gone = touched[is_last] + 1
    inside = (gone < graph.n) & (block[by_block][np.minimum(gone, graph.n - 1)] == home[is_last])
    np.subtract.at(change, gone[inside], sizes[tensor[is_last][inside]])
    # A sum of its own for each block: the rounding of a huge one must not reach a small one.
    peaks = np.zeros(k, dtype=sizes.dtype)
    occupied, begin = np.unique(block[by_block], return_index=True)
    for b, live in zip(occupied, np.split(change, begin[1:]), strict=True):
        peaks[b] = np.cumsum(live).max()
    return peaks


# Least memory of nodes and blocks, and proofs that no partition fits into the memory.


#: Sums of bytes that are not exact may be off by this part of their largest term.
BYTE_ROUNDING = 1e-12
# Largest numbers of distinct first and of last blocks of windows that are checked.
_MOST_ENDS = 64
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")

T = TypeVar("T", float, FloatArray)


def room(instance: Instance) -> float:
    """Memory of a block for its parameters and, without a buffer, its peak [bytes]; may be negative."""
    return instance.platform.memory - (instance.platform.activation_buffer or 0.0)


def needs_of(instance: Instance) -> FloatArray:
    """(n,) least peak of any block with each node [bytes]; 0 where a fixed buffer replaces peaks."""
    return instance.needs if instance.needs_peaks else np.zeros(instance.graph.n)


def total_held(instance: Instance) -> float:
    """Bytes of all parameters that have users, each once."""
    graph = instance.graph
    return float(graph.held_bytes.sum() + sum(parameter.bytes for parameter in graph.parameters if parameter.users))


def surely_above(instance: Instance, sizes: T, limit: float) -> T:
    """Excess of sums of bytes over a limit that is certain despite rounding errors; 0 if there is none."""
    if instance.has_exact_bytes:
        return np.maximum(0.0, sizes - limit)
    with np.errstate(over="ignore"):  # beyond an infinite limit is nothing
        return np.maximum(0.0, sizes - limit - BYTE_ROUNDING * (np.abs(sizes) + abs(limit) + instance.platform.memory))


class Infeasibility(NamedTuple):
    """Reason why no partition fits, in one line, and its proof as in files of certificates."""

    reason: str
    proof: dict[str, Any]


class Loads(NamedTuple):
    """Bytes that nodes hold and devices have room for, in whole numbers; nodes that must share a block are merged."""

    unit: int  # a power of two; sizes are multiples of 1 / unit byte
    group: IntArray  # (n,) merged node that holds each node
    params: NDArray[Any]  # (m,) parameters and states
    need: NDArray[Any]  # (m,) the most that one of its nodes reads and writes; a fixed buffer lowers `rooms` instead
    shared: list[tuple[IntArray, int]]  # merged nodes that use a parameter, and its size
    rooms: list[int | None]  # (T,) of a device of each kind; None without a limit

    @classmethod
    def of(cls, instance: Instance) -> Loads:
        """The bytes of nodes, and the memory of devices, of a question."""
        graph, rules = instance.graph, instance.rules
        whole = WholeBytes.of(instance, np.array([kind.memory for kind in instance.machines.kinds]))
        group = rules.group if rules.has_groups else np.arange(graph.n)
        params, need = (np.full(int(group.max()) + 1, 0, dtype=object) for _ in range(2))
        np.add.at(params, group, whole.params)
        if instance.activation_buffer is None:
            np.maximum.at(need, group, whole.needs(graph))
        shared = [
            (np.unique(group[list(parameter.users)]), size)
            for parameter, size in zip(graph.parameters, whole.shared, strict=True)
            if parameter.users
        ]
        rooms = [None if limit is None or not instance.fit else limit - whole.buffer for limit in whole.limits]
        return cls(whole.unit, group, params, need, shared, rooms)

    def load(self, inside: NDArray[np.bool_]) -> tuple[int, int]:
        """Bytes of parameters and states of the nodes in a mask, shared ones once, and the largest need of a node."""
        shared = sum(size for users, size in self.shared if inside[users].any())
        return self.params[inside].sum() + shared, self.need[inside].max(initial=0)

    def words(self, size: int) -> str:
        """Text, with its unit, of a size in multiples of 1 / `unit` byte."""
        return _bytes(size / self.unit)


def proof_of_no_fit(instance: Instance) -> str | None:
    """Reason why there is no partition, from `find_infeasibility`; None if that is not proved."""
    infeasibility = find_infeasibility(instance)
    return None if infeasibility is None else infeasibility.reason


def find_infeasibility(instance: Instance) -> Infeasibility | None:
    """Reason why no partition fits into hard memory limits or can run; None if that is not proved.

    Bytes are compared in whole numbers.

    Returns
    -------
    Infeasibility or None
        The reason is one of three: all parameters together do not fit; no device can hold or run some nodes that share
        a block; or the nodes that windows force into some blocks do not fit there.
    """
    if not instance.fit and instance.able.all():
        return None
    loads = Loads.of(instance)
    params, need = loads.load(np.ones(len(loads.params), dtype=bool))
    limit = _room_of(instance, loads, 0, instance.k - 1)
    if limit is not None and params + need > limit:
        what = instance.graph.held_words + ("" if instance.activation_buffer is None else " beside the buffers")
        peak = f" and {loads.words(need)} of activations" if params <= limit else ""
        devices = how_many(instance.k, "device")
        reason = f"does not fit: {loads.words(params)} of {what}{peak}, {loads.words(limit)} on {devices}"
        return Infeasibility(reason, {"kind": "sum"})
    return _node_without_device(instance, loads) or _windows_too_small(instance, loads)


def _room_of(instance: Instance, loads: Loads, first: int, last: int) -> int | None:
    """Upper bound on the memory of blocks `first` to `last`, of which one is not empty; None without a limit."""
    machines, size = instance.machines, last - first + 1
    kinds = machines.sequence[first : last + 1] if machines.is_fixed else machines.sequence
    rooms = [room for t in kinds if (room := loads.rooms[t]) is not None]
    if len(rooms) < len(kinds):
        return None
    return max(*rooms, sum(sorted((room for room in rooms if room > 0), reverse=True)[:size]))


def _node_without_device(instance: Instance, loads: Loads) -> Infeasibility | None:
    """Proof by the largest node, or group that must share a block, that no device can hold or run; None without any."""
    load = loads.params + loads.need
    for users, size in loads.shared:
        load[users] += size
    able = np.array([np.bincount(loads.group, ~row) == 0 for row in instance.able])
    large = np.array([load > (np.inf if room is None else room) for room in loads.rooms], dtype=bool)
    nowhere = np.flatnonzero((large | ~able).all(axis=0)).tolist()
    if not nowhere:
        return None
    g = max(nowhere, key=lambda g: load[g])
    nodes = np.flatnonzero(loads.group == g).tolist()
    v, others = nodes[-1], len(nodes) - 1
    name, room = printable(instance.graph.names[v]), loads.rooms[0]
    if not able[:, g].any():
        reason = f"no kind of devices can run all nodes that share a block with node {name}"
    else:
        group = f", with {others} that share its block," if others else ""
        limit = "more than a device has that can run it"
        if instance.is_alike and room is not None:
            limit = f"{loads.words(room)} on a device"
        reason = f"node {v} ({name}){group} takes {loads.words(load[g])}, {limit}"
    return Infeasibility(f"does not fit: {reason}", {"kind": "node", "node": v})


def _windows_too_small(instance: Instance, loads: Loads) -> Infeasibility | None:
    """Proof by blocks without room for the nodes that windows force into them; None if there are none."""
    if not instance.constraints:
        return None
    first, last = (np.zeros(len(loads.params), dtype=np.int64) for _ in range(2))
    first[loads.group], last[loads.group] = instance.rules.first, instance.rules.last
    for a in np.unique(first)[:_MOST_ENDS].tolist():
        for b in np.unique(last[first >= a])[:_MOST_ENDS].tolist():
            params, need = loads.load((first >= a) & (last <= b))
            limit = _room_of(instance, loads, a, b)
            if limit is not None and params + need > limit:
                blocks = f"block {a}" if a == b else f"blocks {a} to {b}"
                needed = f"{loads.words(params)} of {instance.graph.held_words}"
                reason = f"does not fit: windows force {needed} into {blocks}, {loads.words(limit)}"
                return Infeasibility(reason, {"kind": "windows", "first": a, "last": b})
    return None


def _bytes(size: float) -> str:
    """Format a size in the unit that makes it a number between 1 and 1000."""
    power = 0
    while abs(size) >= 999.5 and power < len(_UNITS) - 1:
        size, power = size / 1000, power + 1
    return f"{size:.3g} {_UNITS[power]}"
