"""Default rules by which runtimes divide layers, and the partitions that follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from instances.partitioning.partition import Partition
from instances.partitioning.serving import ServedPartition, ServingInstance
from instances.runtimes.layer_counts import sglang_default, tensorrt_default, vllm_default
from instances.runtimes.torchtitan import torchtitan_default

__all__ = ["DEFAULT_RULES", "served"]

#: Runtime to the layers of each stage, of the number of layers and of stages.
DEFAULT_RULES: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "vllm": vllm_default,
    "sglang": sglang_default,
    "tensorrt-llm": tensorrt_default,
    "torchtitan": torchtitan_default,
}


def served(question: ServingInstance, counts: Sequence[int], back: int | None = None) -> ServedPartition:
    """The answer with so many layers in each stage, whether the constraints of the question allow it or not.

    Parameters
    ----------
    question : ServingInstance
        Its nodes are what comes before the layers, the layers, and what comes after them.
    counts : sequence of int
        Of each stage.
    back : int, optional
        Stage of what comes after the layers; by default the last one.
    """
    layers = np.repeat(np.arange(len(counts)), counts)
    block = np.array([0, *layers, len(counts) - 1 if back is None else back])
    free = replace(question, instance=question.instance.without_constraints())
    return ServedPartition(free, Partition(free.instance, block))
