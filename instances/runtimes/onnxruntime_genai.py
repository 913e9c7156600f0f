"""ONNX Runtime GenAI: the stages of a decoder as a pipeline of models, each with its own session.

A session holds one instance of an execution provider, so that each device has a stage file of its own. A cut tells of
layers, not of the tensors of a file: then names are a convention that stage files have to follow, with the tensor
``hidden_states.N``, that which layer N reads first, between two stages. Where the files are there, as `mtpp split`
writes them, files and tensors are called as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from instances.errors import InputError
from instances.partitioning.partition import Partition
from instances.planning.plan import Plan
from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.runtime import LayerRuntime

_CONTEXT = 4096

__all__ = ["ONNXRUNTIME_GENAI", "StageFile", "StageFileRuntime"]


class StageFile(NamedTuple):
    """A stage as a file: its name, and those of the tensors that it reads and gives."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class StageFileRuntime(LayerRuntime):
    """A runtime that takes a model a stage, which may be there."""

    def settings_for(self, answer: Partition | Plan, files: Sequence[StageFile]) -> str:
        """Configuration of the runtime for an answer, whose stage files exist.

        Raises
        ------
        InputError
            If it cannot express the answer, or a stage has no file.
        """
        cut = LayerCut.of(answer)
        self._check(cut)
        if len(files) != cut.k:
            raise InputError(f"{cut.network}: there are {len(files)} files of {cut.k} stages; split again.")
        return _config(cut, files)


def _write(cut: LayerCut) -> str:
    return _config(cut, [_by_convention(cut, n) for n in range(cut.k)])


#: Roles of tensors of the whole decoder, beside input_ids and logits, and how they begin where layers have their own.
_INPUTS = {"attention_mask": "attention_mask", "position_ids": "position_ids"}
_CACHES = {"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"}
_NEW_CACHES = {"present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}


def _config(cut: LayerCut, files: Sequence[StageFile]) -> str:
    """The configuration, which names only tensors that some stage has."""
    read, given = ({name for file in files for name in getattr(file, side)} for side in ("inputs", "outputs"))
    inputs = {role: name for role, name in _INPUTS.items() if name in read}
    inputs |= {role: name for role, name in _CACHES.items() if name % 0 in read}
    last = files[-1].outputs[0] if len(files[-1].outputs) == 1 else "logits"
    decoder = {
        "num_hidden_layers": cut.layers,
        "inputs": {"input_ids": files[0].inputs[0] if len(files[0].inputs) == 1 else "input_ids"} | inputs,
        "outputs": {"logits": last} | {role: name for role, name in _NEW_CACHES.items() if name % 0 in given},
        "pipeline": [{f"stage-{n}": _stage(file, n) for n, file in enumerate(files)}],
    }
    # The context is the length that generation may reach; where the network tells of none, the usual one of examples.
    model = {"type": "decoder-pipeline", "context_length": cut.context or _CONTEXT, "decoder": decoder}
    return json.dumps({"model": model}, indent=1) + "\n"


def _by_convention(cut: LayerCut, n: int) -> StageFile:
    layers = cut.members(n)
    kinds = ("key", "value")
    reads = "input_ids" if n == cut.first else f"hidden_states.{layers[0]}"
    writes = "logits" if n == cut.last else f"hidden_states.{layers[-1] + 1}"
    return StageFile(
        name=f"stage-{n}.onnx",
        inputs=(reads, "attention_mask", *(f"past_key_values.{i}.{kind}" for i in layers for kind in kinds)),
        outputs=(writes, *(f"present.{i}.{kind}" for i in layers for kind in kinds)),
    )


def _stage(file: StageFile, n: int) -> dict[str, Any]:
    return {
        "filename": file.name,
        "inputs": list(file.inputs),
        "outputs": list(file.outputs),
        "run_on_prompt": True,
        "run_on_token_gen": True,
        "session_options": {"provider_options": [{"cuda": {"device_id": str(n)}}]},
    }


ONNXRUNTIME_GENAI = StageFileRuntime(
    "onnxruntime-genai",
    "genai_config.json with a decoder-pipeline of stage files",
    "onnxruntime.ai/docs/genai/reference/config.html",
    None,
    _write,
    version="0.18",
)
