"""torch.distributed.pipelining: the modules at which stages begin.

A program of torch.export that is cut anywhere between its operators goes through `instances.readers.pytorch.stages`.
"""

from __future__ import annotations

from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.module_names import TRANSFORMERS
from instances.runtimes.runtime import LayerRuntime

__all__ = ["PYTORCH"]


def _write(cut: LayerCut) -> str:
    names = cut.naming.modules(TRANSFORMERS, "transformers")
    begins = [names.layer(layers[0]) if (layers := cut.members(n)) else names.after[0] for n in range(1, cut.k)]
    points = "".join(f'    "{module}": SplitPoint.BEGINNING,\n' for module in begins)
    return f"from torch.distributed.pipelining import SplitPoint\n\nsplit_spec = {{\n{points}}}\n"


PYTORCH = LayerRuntime.of_units(
    "torch",
    "split_spec of torch.distributed.pipelining.pipeline",
    "docs.pytorch.org/docs/stable/distributed.pipelining.html",
    "#",
    _write,
    version="2.13",
    names=(TRANSFORMERS, "transformers"),
)
