"""Galvatron: the number of stages and the layers of each, in its JSON file of a strategy."""

from __future__ import annotations

import json

from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.runtime import LayerRuntime

__all__ = ["GALVATRON"]


def _write(cut: LayerCut) -> str:
    return json.dumps({"pp_deg": cut.k, "pp_division": ",".join(map(str, cut.counts))}, indent=1) + "\n"


GALVATRON = LayerRuntime(
    "galvatron", "pp_deg and pp_division of its strategy, JSON", "Hetu-Galvatron, galvatron_config_path", None, _write
)
