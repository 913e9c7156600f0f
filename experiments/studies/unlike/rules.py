"""Rules of thumb by which layers are divided among devices that are not alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from instances.machines import Kind
from instances.partitioning.partition import Partition
from instances.partitioning.problem import Instance


def _flops(kind: Kind, seconds: float) -> float:
    assert kind.roofline is not None
    return kind.roofline.peak_flops


#: Name to the weight of a device, of its kind and the seconds that a layer takes there.
RULES: dict[str, Callable[[Kind, float], float]] = {
    "even": lambda kind, seconds: 1.0,
    "memory": lambda kind, seconds: kind.memory,
    "flops": _flops,
    "speed": lambda kind, seconds: 1 / seconds,
}


def divided(layers: int, weights: Sequence[float]) -> list[int]:
    """Whole numbers in proportion to the weights, whose sum is `layers`: rounded down, and the largest remainders up.

    Examples
    --------
    >>> divided(32, [80, 24, 24, 16])
    [18, 5, 5, 4]
    """
    shares = [layers * weight / math.fsum(weights) for weight in weights]
    counts = [math.floor(share) for share in shares]
    remainders = sorted(range(len(shares)), key=lambda i: (counts[i] - shares[i], i))
    for i in remainders[: layers - sum(counts)]:
        counts[i] += 1
    return counts


def shared_out(instance: Instance, rule: str) -> Partition:
    """The cut of a chain of layers by a rule on all devices, in the order of their kinds.

    What is before and behind the layers is with the first and the last one. A device that
    the rule gives no layer stays idle.
    """
    n, kinds = instance.graph.n, instance.machines.kinds
    weights = [RULES[rule](kind, float(instance.work[t, n // 2])) for t, kind in enumerate(kinds)]
    counts = divided(n - 2, [weights[t] for t in instance.machines.sequence])
    layers = np.repeat(np.arange(len(counts)), counts)
    block = np.array([layers[0], *layers, layers[-1]])
    return Partition(instance, block, kind=np.array(instance.machines.sequence))
