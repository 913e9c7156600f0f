"""llama.cpp: the number of layers of each device; the output counts as one more layer.

Of n layers and the output, number i goes to the first device whose part of the whole, with those before it, is more
than i / (n + 1). What comes before the layers stays on the host, and counts with the first layer here.
"""

from __future__ import annotations

from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.runtime import LayerRuntime

__all__ = ["LLAMA_CPP"]


def _write(cut: LayerCut) -> str:
    counts = list(cut.counts)
    counts[cut.last] += 1
    return f"-ngl 999 -sm layer -ts {','.join(map(str, counts))}\n"


LLAMA_CPP = LayerRuntime(
    "llama-cpp",
    "-ts of llama-server and others, options",
    "llama.cpp/src/llama-model.cpp",
    None,
    _write,
    every_stage=None,
    back_with_last=False,
)
