"""An instance as plain arrays, for the kernels."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from instances.graph.tensors import FloatArray, IntArray, compressed_rows
from instances.partitioning.problem import Instance

__all__ = ["KernelArrays"]


class KernelArrays(NamedTuple):
    """An instance as plain arrays for the kernels; compressed rows are pairs (start, values)."""

    work: FloatArray
    tensor_time: FloatArray
    tensor_bytes: FloatArray
    readers: IntArray
    producer: IntArray
    output_start: IntArray
    input_start: IntArray
    input_tensor: IntArray
    successor_start: IntArray
    successor: IntArray
    indegree: IntArray
    param_bytes: FloatArray
    shared_bytes: FloatArray
    shared_start: IntArray
    shared: IntArray
    bandwidth: float
    memory: float
    activation_buffer: float
    needs_peaks: bool

    @classmethod
    def of(cls, instance: Instance) -> KernelArrays:
        """Flatten `instance`."""
        graph, platform = instance.graph, instance.platform
        uses = [(user, g) for g, parameter in enumerate(graph.parameters) for user in set(parameter.users)]
        user, shared = np.array(uses, dtype=np.int64).reshape(-1, 2).T
        buffer = platform.activation_buffer
        return cls(
            graph.work,
            instance.tensor_time,
            graph.tensors.bytes,
            np.diff(graph.tensors.start),
            graph.tensors.producer,
            graph.output_start,
            *graph.inputs,
            *graph.successors,
            np.bincount(graph.edges[:, 1], minlength=graph.n),
            graph.param_bytes,
            # What nobody uses lies in no block.
            np.array([parameter.bytes if parameter.users else 0.0 for parameter in graph.parameters], dtype=np.float64),
            *compressed_rows(user, shared, graph.n),
            float(platform.bandwidth),
            float(platform.memory) if instance.has_overflow else math.inf,
            0.0 if buffer is None else float(buffer),
            instance.has_overflow and buffer is None,
        )
