"""TensorRT-LLM: the layers of each rank in its YAML file of options."""

from __future__ import annotations

from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.runtime import LayerRuntime

__all__ = ["TENSORRT_LLM", "tensorrt_default"]


def tensorrt_default(layers: int, k: int) -> tuple[int, ...]:
    """Default number of layers of each rank: the first ranks have one more where they cannot be equal.

    Examples
    --------
    >>> tensorrt_default(61, 4)
    (16, 15, 15, 15)
    """
    return tuple(layers // k + (rank < layers % k) for rank in range(k))


def _write(cut: LayerCut) -> str:
    return f"pipeline_parallel_size: {cut.k}\npp_partition: {list(cut.counts)}\n"


TENSORRT_LLM = LayerRuntime(
    "tensorrt-llm", "pp_partition in the YAML of extra options", "tensorrt_llm/mapping.py", "#", _write
)
