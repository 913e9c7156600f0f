"""torchtitan: the modules of each stage, which may be a virtual one, by their names."""

from __future__ import annotations

import json

from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.runtime import LayerRuntime

__all__ = ["TORCHTITAN", "torchtitan_default"]


def torchtitan_default(layers: int, k: int) -> tuple[int, ...]:
    """Default number of layers of each stage.

    Embeddings and head count as a layer each; the stages are equal, the first ones with one more where they cannot be.

    Examples
    --------
    >>> torchtitan_default(32, 8)
    (4, 5, 4, 4, 4, 4, 4, 3)
    """
    counts = [(layers + 2) // k + (stage < (layers + 2) % k) for stage in range(k)]
    counts[0] -= 1
    counts[-1] -= 1
    return tuple(counts)


def _write(cut: LayerCut) -> str:
    parts = [
        ["tok_embeddings"] * (n == cut.first)
        + [f"layers.{layer}" for layer in cut.members(n)]
        + ["norm", "lm_head"] * (n == cut.last)
        for n in range(cut.k)
    ]
    return (
        f"parallelism.pipeline_parallel_degree = {cut.devices}\n"
        f"parallelism.module_fqns_per_model_part = {json.dumps(parts)}\n"
    )


TORCHTITAN = LayerRuntime.of_units(
    "torchtitan",
    "parallelism.module_fqns_per_model_part of its configuration",
    "torchtitan/distributed/pipeline_parallel.py",
    "#",
    _write,
)
