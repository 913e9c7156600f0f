"""Language models from configurations: parameters are those of the architecture, other layers are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import mtpp

from instances.errors import InputError
from instances.planning.grid.from_decoder import transformer_of
from instances.readers.huggingface.files import find_architecture, find_record

SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "vocab_size": 100,
}
TYPES: dict[str, dict[str, Any]] = {
    "llama": {"num_key_value_heads": 2},
    "qwen2": {"num_key_value_heads": 2, "tie_word_embeddings": True},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 16},
    "mixtral": {"num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2},
    "gpt2": {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_inner": 96, "n_positions": 50},
    "phi": {"num_key_value_heads": 4},
}


def write(folder: Path, kind: str, **others: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({"model_type": kind, **SMALL, **TYPES.get(kind, {}), **others}))
    return path


@pytest.mark.parametrize("kind", TYPES)
def test_parameters_are_those_of_the_architecture(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, kind)
    found, architecture = find_record(path), find_architecture(path)
    assert found is not None
    assert architecture is not None
    name, record, _ = found
    graph = architecture.build(sequence=8)
    assert transformer_of(record, name).parameters == graph.attributes["parameter_count"]


def test_layers_of_other_kinds_are_refused(tmp_path: Path) -> None:
    for kind in ("mamba", "deepseek_v3"):
        found = find_record(write(tmp_path, kind))
        assert found is not None
        with pytest.raises(InputError, match=r"layer|costs"):
            transformer_of(found[1], found[0])


def test_a_configuration_is_planned(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, "llama")
    assert (
        mtpp("plan config.json --cluster 1x2 --bandwidth 100GB/s --global-batch 4 --sequence 64 --out plan.json") == 0
    )
    assert mtpp("verify plan.json") == 0


def test_models_without_costs_say_what_can_be_done_instead(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("mamba", "deepseek_v3", "t5"):
        write(folder, kind)
        assert mtpp("plan config.json --cluster 1x2 --bandwidth 100GB/s --global-batch 4") != 0
        message = capsys.readouterr().err.splitlines()[-1]
        assert message.endswith("or --microbatches in place of --global-batch, which plans any graph or module.")
