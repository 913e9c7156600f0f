"""SGLang: the layers of each stage in an environment variable, as vLLM has them."""

from __future__ import annotations

from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.runtime import LayerRuntime

__all__ = ["SGLANG"]


def _write(cut: LayerCut) -> str:
    return f"SGLANG_PP_LAYER_PARTITION={','.join(map(str, cut.counts))}\n"


SGLANG = LayerRuntime(
    "sglang", "SGLANG_PP_LAYER_PARTITION, an environment variable", "sglang/srt/distributed/utils.py", "#", _write
)
