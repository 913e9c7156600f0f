"""DeepSpeed: the layers at which stages begin, by overriding how a PipelineModule is divided."""

from __future__ import annotations

from itertools import accumulate

from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.runtime import LayerRuntime

__all__ = ["DEEPSPEED"]

_CLASS = '''from deepspeed.pipe import PipelineModule

parts = {parts}  # layer at which each stage begins, and their number


class CutPipelineModule(PipelineModule):
    """Stages as in `parts`; `before` is the number of layer specs in front of layer 0, such as the embeddings."""

    before = 1

    def _partition_layers(self, method="uniform"):
        inner = [self.before + layer for layer in parts[1:-1]]
        self.parts = [0, *inner, len(self._layer_specs)]
        stage = self._topo.get_coord(self.global_rank).pipe
        self._set_bounds(start=self.parts[stage], stop=self.parts[stage + 1])
'''


def _write(cut: LayerCut) -> str:
    return _CLASS.format(parts=[0, *accumulate(cut.counts)])


DEEPSPEED = LayerRuntime(
    "deepspeed",
    "a PipelineModule with the parts of the cut, Python",
    "deepspeed/runtime/pipe/module.py",
    "#",
    _write,
    version="0.19",
)
