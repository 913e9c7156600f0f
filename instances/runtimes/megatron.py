"""Megatron-Core: the layout of all stages as one word, E for embeddings, t for a layer, L for the loss."""

from __future__ import annotations

from itertools import groupby

from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.runtime import LayerRuntime

__all__ = ["MEGATRON"]

_SHORTEST = 3  # layers or stages in a row that are written as a product


def _write(cut: LayerCut) -> str:
    return f'--pipeline-model-parallel-size {cut.devices} --pipeline-model-parallel-layout "{layout(cut)}"\n'


def layout(cut: LayerCut) -> str:
    """Stages in their order, all devices of a turn before those of the next; equal ones in a row as a product."""
    stages = ["E" * (n == cut.first) + "t" * count + "L" * (n == cut.last) for n, count in enumerate(cut.counts)]
    *before, final = stages
    text = ""
    for stage, run in groupby(before):
        times = len(list(run))
        text += f"({stage}|)*{times}" if times >= _SHORTEST else f"{_shortened(stage)}|" * times
    return text + _shortened(final)


def _shortened(stage: str) -> str:
    """Abbreviate the layers of a stage as a product, which cannot be nested."""
    count = stage.count("t")
    return stage.replace("t" * count, f"t*{count}") if count >= _SHORTEST else stage


MEGATRON = LayerRuntime.of_units(
    "megatron",
    "--pipeline-model-parallel-layout of Megatron-Core",
    "megatron/core/transformer/pipeline_parallel_layer_layout.py",
    None,
    _write,
    version="0.16",
)
