"""Plans that a runtime can run: one tensor degree, whole layers, and recomputation as it says it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from heuristics.planning.grid.uniform import Sketch
from instances.planning.grid.configurations import FULL, NONE
from instances.planning.grid.problem import GridInstance

__all__ = ["TORCHTITAN", "expressible"]

TORCHTITAN = "torchtitan"


def expressible(question: GridInstance, sketch: Sketch, runtime: str | None) -> list[Sketch]:
    """The plan as the runtime can run it: none if it cannot; with more recomputation if it must be.

    Both take one tensor degree. Megatron-LM recomputes the first layers of each stage, equally many; torchtitan all
    layers or none. Layers that cannot recompute, as those of embeddings, do not count.
    """
    if runtime is None or (len(set(sketch.tensor)) == 1 and set(sketch.modes) == {NONE}):
        return [sketch]
    if len(set(sketch.tensor)) > 1:
        return []
    chain, modes = question.chain(sketch.setting.micro_batch), [NONE] * len(sketch.modes)
    able = [any(way.recompute == FULL for way in layer.configurations) for layer in chain.layers]
    most = max(sum(mode != NONE for mode in sketch.modes[i:j]) for i, j in pairwise(sketch.cuts))
    for begin, end in pairwise(sketch.cuts):
        layers = [layer for layer in range(begin, end) if able[layer]]
        for layer in layers if runtime == TORCHTITAN else layers[:most]:
            modes[layer] = FULL
    return [replace(sketch, modes=tuple(modes))]
