"""An instance as plain arrays, for the kernels."""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np

from instances.graph.tensors import FloatArray, IntArray, compressed_rows
from instances.partitioning.problem import Instance

__all__ = ["KernelArrays"]

# Of what a block can hold, over the time that it takes beyond the memory at the most.
_LARGEST = 1e-300


class KernelArrays(NamedTuple):
    """An instance as plain arrays for the kernels; compressed rows are pairs (start, values).

    What is beyond the memory takes its bytes over `overflow_bandwidth`; where it has to fit, that and `overflow_step`,
    more than any block costs otherwise, lead a search to what fits. Constraints are those of `BlockRules`, without
    groups.
    """

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
    held_bytes: FloatArray
    shared_bytes: FloatArray
    shared_start: IntArray
    shared: IntArray
    bandwidth: float
    memory: float
    activation_buffer: float
    needs_peaks: bool
    overflow_bandwidth: float
    overflow_step: float
    is_constrained: bool
    first: IntArray
    last: IntArray
    counted: IntArray
    least: IntArray

    @classmethod
    def of(cls, instance: Instance) -> KernelArrays:
        """Flatten `instance`."""
        graph, platform = instance.graph, instance.platform
        uses = [(user, g) for g, parameter in enumerate(graph.parameters) for user in set(parameter.users)]
        user, shared = np.array(uses, dtype=np.int64).reshape(-1, 2).T
        # What nobody uses lies in no block.
        shared_bytes = [parameter.bytes if parameter.users else 0.0 for parameter in graph.parameters]
        shared_start, shared = compressed_rows(user, shared, graph.n)
        input_start, input_tensor = graph.inputs
        successor_start, successor = graph.successors
        buffer, rules = platform.activation_buffer, instance.rules
        step = 2.0 * float(graph.work.sum() + 2.0 * instance.tensor_time.sum()) or 1.0
        # No overflow is infinite, however small the memory is.
        held = graph.held_total + float(graph.tensors.bytes.sum()) + (buffer or 0.0)
        least = max(_LARGEST * held, sys.float_info.min)
        return cls(
            work=graph.work,
            tensor_time=instance.tensor_time,
            tensor_bytes=graph.tensors.bytes,
            readers=np.diff(graph.tensors.start),
            producer=graph.tensors.producer,
            output_start=graph.output_start,
            input_start=input_start,
            input_tensor=input_tensor,
            successor_start=successor_start,
            successor=successor,
            indegree=np.bincount(graph.edges[:, 1], minlength=graph.n),
            held_bytes=graph.held_bytes,
            shared_bytes=np.array(shared_bytes, dtype=np.float64),
            shared_start=shared_start,
            shared=shared,
            bandwidth=float(platform.bandwidth),
            memory=float(platform.memory) if instance.limits_memory else math.inf,
            activation_buffer=0.0 if buffer is None else float(buffer),
            needs_peaks=instance.needs_peaks,
            overflow_bandwidth=max((platform.memory or 1.0) / step, least)
            if platform.fit
            else float(platform.bandwidth),
            overflow_step=step if platform.fit else 0.0,
            is_constrained=rules.forbid(instance.k),
            first=rules.first,
            last=rules.last,
            counted=rules.counted,
            least=rules.least,
        )
