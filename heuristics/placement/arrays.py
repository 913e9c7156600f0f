"""Placement instances as plain arrays, and room to simulate them, for `simulator`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray, compressed_rows
from instances.placement.problem import OVERFLOW_WEIGHT, PlacementInstance

__all__ = ["SimulatorArrays", "Workspace", "workspace"]


class SimulatorArrays(NamedTuple):
    """A placement instance as plain arrays.

    Parameters
    ----------
    work : (n,) floats
    output_start : (n + 1,) integers
        Tensors of node u: ``output_start[u]:output_start[u + 1]``.
    reader_start, reader : (t + 1,), (m,) integers
        Readers of tensor t: ``reader[reader_start[t]:reader_start[t + 1]]``.
    inputs : (n,) integers
        Number of tensors that each node reads.
    tensor_time, tensor_bytes : (t,) floats
    held_bytes : (n,) floats
        Own parameters and state of each node.
    shared_bytes, shared_start, shared_user : arrays
        Parameters with several users, and these in compressed rows.
    devices : int
    node_gap, transfer_gap : float
    broadcast : bool
    memory, overflow_weight, total_work : float
    """

    work: FloatArray
    output_start: IntArray
    reader_start: IntArray
    reader: IntArray
    inputs: IntArray
    tensor_time: FloatArray
    tensor_bytes: FloatArray
    held_bytes: FloatArray
    shared_bytes: FloatArray
    shared_start: IntArray
    shared_user: IntArray
    devices: int
    node_gap: float
    transfer_gap: float
    broadcast: bool
    memory: float
    overflow_weight: float
    total_work: float

    @classmethod
    def of(cls, instance: PlacementInstance) -> SimulatorArrays:
        """Flatten `instance`."""
        graph = instance.graph
        uses = [(p, user) for p, parameter in enumerate(graph.parameters) for user in parameter.users]
        parameter, user = np.array(uses, dtype=np.int64).reshape(-1, 2).T
        shared_start, shared_user = compressed_rows(parameter, user, len(graph.parameters))
        return cls(
            work=graph.work,
            output_start=graph.output_start,
            reader_start=graph.tensors.start,
            reader=graph.tensors.consumers,
            inputs=np.diff(graph.inputs[0]),
            tensor_time=instance.tensor_time,
            tensor_bytes=graph.tensors.bytes,
            held_bytes=graph.held_bytes,
            shared_bytes=np.array([parameter.bytes for parameter in graph.parameters], dtype=np.float64),
            shared_start=shared_start,
            shared_user=shared_user,
            devices=instance.devices,
            node_gap=float(instance.node_gap),
            transfer_gap=float(instance.transfer_gap),
            broadcast=bool(instance.broadcast),
            memory=instance.memory,
            overflow_weight=OVERFLOW_WEIGHT,
            total_work=instance.total_work,
        )


class Workspace(NamedTuple):
    """What a simulation writes.

    Parameters
    ----------
    start, end : (n,) floats
        When each node runs.
    sent, arrived : (t, k) floats
        When the transfer of a tensor to a device starts and ends; meaningful where the tensor is read on that device.
    peak : (k,) floats
        Peak memory of each device, if `peak_memory` was called.
    ready, missing, heap_time, heap_node, device_free, bus_free, holds
        Scratch.
    """

    start: FloatArray
    end: FloatArray
    sent: FloatArray
    arrived: FloatArray
    peak: FloatArray
    ready: FloatArray
    missing: IntArray
    heap_time: FloatArray
    heap_node: IntArray
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
        heap_node=np.zeros(n, dtype=np.int64),
        device_free=np.zeros(k),
        bus_free=np.zeros(k),
        holds=np.zeros(k, dtype=np.int64),
    )
