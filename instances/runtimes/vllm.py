"""vLLM: the layers of each stage in an environment variable; embeddings are in the first one, the head in the last."""

from __future__ import annotations

from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.runtime import LayerRuntime

__all__ = ["VLLM", "vllm_default"]


def vllm_default(layers: int, k: int) -> tuple[int, ...]:
    """Default number of layers of each stage.

    All have the same number; what remains goes to the stages before the last, from the end to the beginning.

    Examples
    --------
    >>> vllm_default(61, 4), vllm_default(26, 4)
    ((15, 15, 16, 15), (6, 7, 7, 6))
    """
    counts = [layers // k] * k
    for i in range(2, layers % k + 2):
        counts[-i] += 1
    return tuple(counts)


def _write(cut: LayerCut) -> str:
    return f"VLLM_PP_LAYER_PARTITION={','.join(map(str, cut.counts))}\n"


VLLM = LayerRuntime(
    "vllm", "VLLM_PP_LAYER_PARTITION, an environment variable", "vllm/distributed/utils.py", "#", _write
)
