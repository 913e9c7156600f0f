"""Placement instances as plain arrays, and room to simulate them, for `simulator`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray, compressed_rows
from instances.placement.problem import OVERFLOW_WEIGHT, PlacementInstance

__all__ = ["SimulatorArrays", "Workspace", "workspace"]


class SimulatorArrays(NamedTuple):
    """A placement instance as plain arrays."""

    work: FloatArray  # (n,): on the fastest device
    node_time: FloatArray  # (n, s): on a device of each speed
    speed: IntArray  # (k,): which column of `node_time` a device has
    output_start: IntArray  # (n + 1,): tensors of node u: ``output_start[u]:output_start[u + 1]``
    reader_start: IntArray  # (t + 1,): readers of tensor t: ``reader[reader_start[t]:reader_start[t + 1]]``
    reader: IntArray  # (m,)
    inputs: IntArray  # (n,): number of tensors that each node reads
    order: IntArray  # (n,): a topological order
    rank: IntArray  # (n,): its inverse
    tensor_time: FloatArray  # (t,): between the best connected devices
    move_time: FloatArray  # (t, r): at each rate
    rate: NDArray[np.int16]  # (k, k): which column of `move_time` a pair of devices has
    tensor_bytes: FloatArray  # (t,)
    held_bytes: FloatArray  # (n,): own parameters and state of each node
    shared_bytes: FloatArray  # of parameters with several users
    shared_start: IntArray  # their users in compressed rows
    shared_user: IntArray
    devices: int
    node_gap: float
    transfer_gap: float
    broadcast: bool
    memory: FloatArray  # (k,)
    limited: bool  # whether some memory is finite
    overflow_weight: float
    total_work: float

    @classmethod
    def of(cls, instance: PlacementInstance) -> SimulatorArrays:
        """Flatten `instance`."""
        graph, k = instance.graph, instance.devices
        uses = [(p, user) for p, parameter in enumerate(graph.parameters) for user in parameter.users]
        parameter, user = np.array(uses, dtype=np.int64).reshape(-1, 2).T
        shared_start, shared_user = compressed_rows(parameter, user, len(graph.parameters))
        speeds, speed = np.unique(instance.speeds, return_inverse=True)
        rates, rate = np.unique(instance.rates, return_inverse=True)
        return cls(
            work=graph.work / instance.speeds.max(),
            node_time=graph.work[:, None] / speeds,
            speed=speed.ravel(),
            output_start=graph.output_start,
            reader_start=graph.tensors.start,
            reader=graph.tensors.consumers,
            inputs=np.diff(graph.inputs[0]),
            order=graph.topological_order,
            rank=np.argsort(graph.topological_order),
            tensor_time=instance.tensor_time,
            move_time=graph.tensors.bytes[:, None] / rates,
            rate=np.ascontiguousarray(np.broadcast_to(rate.reshape(instance.rates.shape), (k, k)).astype(np.int16)),
            tensor_bytes=graph.tensors.bytes,
            held_bytes=graph.held_bytes,
            shared_bytes=np.array([parameter.bytes for parameter in graph.parameters], dtype=np.float64),
            shared_start=shared_start,
            shared_user=shared_user,
            devices=k,
            node_gap=float(instance.node_gap),
            transfer_gap=float(instance.transfer_gap),
            broadcast=bool(instance.broadcast),
            memory=instance.memories,
            limited=bool(np.isfinite(instance.memories).any()),
            overflow_weight=OVERFLOW_WEIGHT,
            total_work=instance.total_work,
        )


class Workspace(NamedTuple):
    """Arrays that a simulation writes."""

    start: FloatArray  # (n,): when each node starts
    end: FloatArray  # (n,): when each node ends
    # (t, k): when the transfer of a tensor to a device starts and ends; meaningful where the tensor is read there.
    sent: FloatArray
    arrived: FloatArray
    peak: FloatArray  # (k,): peak memory of each device, if `peak_memory` was called
    # The rest is scratch.
    ready: FloatArray
    missing: IntArray
    heap_time: FloatArray
    heap_rank: IntArray
    device_free: FloatArray
    bus_free: FloatArray
    holds: IntArray


@compiled
def workspace(arrays: SimulatorArrays) -> Workspace:
    """Room for the simulations of one instance."""
    n, t, k = len(arrays.work), len(arrays.tensor_time), arrays.devices
    return Workspace(
        start=np.zeros(n),
        end=np.zeros(n),
        sent=np.zeros((t, k)),
        arrived=np.zeros((t, k)),
        peak=np.zeros(k),
        ready=np.zeros(n),
        missing=np.zeros(n, dtype=np.int64),
        heap_time=np.zeros(n),
        heap_rank=np.zeros(n, dtype=np.int64),
        device_free=np.zeros(k),
        bus_free=np.zeros(k),
        holds=np.zeros(k, dtype=np.int64),
    )
