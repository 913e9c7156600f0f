"""Maps of modules to devices, judged by accelerate and run by it, on the models of transformers."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from installed_programs import needs

import mtpp
from instances import ComputationGraph, InputError


def module_graph(model: Any) -> ComputationGraph:
    """The modules that hold weights, in their order, as a chain whose names are their paths, as a program tells it."""
    weights = list(model.state_dict())
    around = {name for name, module in model.named_modules() if any(module.children())}
    elsewhere = {name: None for name in weights if name.rpartition(".")[0] in around}
    holders = dict.fromkeys(name.rpartition(".")[0] for name in weights if name not in elsewhere)
    told = {"input_readers": [], "weights_elsewhere": elsewhere}
    names = tuple(f"{name}.op" for name in holders)
    n = len(names)
    return ComputationGraph.from_edges(
        pairwise(range(n)), [1.0] * n, [1.0] * n, [1.0] * n, names=names, attributes=told
    )


def causal_models() -> list[str]:
    """Model types of transformers with a causal language model."""
    auto = needs("transformers", "transformers.models.auto.modeling_auto")
    return sorted(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def test_accelerate_takes_the_maps_of_causal_models(capsys: pytest.CaptureFixture[str]) -> None:
    """Of all that transformers builds on the meta device from a default configuration, cut in four."""
    needs("accelerate")
    transformers, torch = needs("transformers"), needs("torch")
    from accelerate.utils import check_device_map

    passed, refused, wrong = [], {}, {}
    for kind in causal_models():
        try:
            configuration = transformers.AutoConfig.for_model(kind)
            with torch.device("meta"):
                model = transformers.AutoModelForCausalLM.from_config(configuration)
        except Exception:
            continue
        try:
            found = mtpp.partition(module_graph(model), 4, "kahn", bandwidth=1e18, runtime="accelerate")
            devices = json.loads(mtpp.export(found, "accelerate"))
            check_device_map(model, devices)
            assert set(devices.values()) == {0, 1, 2, 3}
            passed.append(kind)
        except InputError as error:
            refused[kind] = str(error)
        except ValueError as error:
            wrong[kind] = str(error)
    with capsys.disabled():
        print(f"\naccelerate: {len(passed)} pass, refused {refused}, wrong {wrong}")
    assert wrong == {}
    assert len(passed) >= 170


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("llama", {"num_key_value_heads": 2}),
        ("gpt2", {}),
        ("opt", {"word_embed_proj_dim": 16, "ffn_dim": 32}),
        ("gpt_neox", {}),
        ("bloom", {}),
        ("qwen2", {"num_key_value_heads": 2}),
        ("phi", {}),
        ("mistral", {"num_key_value_heads": 2}),
        ("gemma", {"num_key_value_heads": 2, "head_dim": 4}),
        ("falcon", {}),
        ("gptj", {"rotary_dim": 4}),
        ("codegen", {"rotary_dim": 4}),
        ("gpt_neo", {"attention_types": [[["global", "local"], 2]]}),
        ("mamba", {"state_size": 4}),
        ("mixtral", {"num_key_value_heads": 2, "num_local_experts": 2}),
        ("gpt_oss", {"num_key_value_heads": 2, "head_dim": 4, "num_local_experts": 4, "num_experts_per_tok": 2}),
        *((kind, {"num_key_value_heads": 2, "pad_token_id": 0}) for kind in ("phi3", "smollm3", "starcoder2", "olmo2")),
        *((kind, {"num_key_value_heads": 2, "head_dim": 4}) for kind in ("qwen3", "gemma2", "gemma3_text", "ernie4_5")),
        *((kind, {"num_key_value_heads": 2}) for kind in ("cohere", "cohere2", "granite", "nemotron", "stablelm")),
        *((kind, {}) for kind in ("mpt", "gpt_bigcode", "persimmon", "biogpt", "ctrl")),
    ],
)
def test_accelerate_computes_the_same(kind: str, sizes: dict[str, int], tmp_path: Path) -> None:
    """Exported, cut, and dispatched, the second half to disk: tied models too give the outputs of the whole."""
    needs("accelerate")
    transformers, torch = needs("transformers"), needs("torch")
    from accelerate import dispatch_model
    from accelerate.utils import check_device_map

    from instances.readers.pytorch.export import export, from_exported_program

    usual = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 32}
    usual |= {"intermediate_size": 32, "max_position_embeddings": 32}
    torch.manual_seed(0)
    configuration = transformers.AutoConfig.for_model(kind, **usual, **sizes, use_cache=False)
    model = transformers.AutoModelForCausalLM.from_config(configuration).eval()
    ids = torch.arange(6).reshape(1, 6)
    graph = from_exported_program(export(model, (ids,), {"use_cache": False}), name=kind)
    found = mtpp.partition(graph, 2, "kahn", bandwidth="25GB/s", runtime="accelerate")
    devices = json.loads(mtpp.export(found, "accelerate"))
    check_device_map(model, devices)
    assert set(devices.values()) == {0, 1}
    whole = model(ids).logits
    places = {module: "disk" if device else "cpu" for module, device in devices.items()}
    moved = dispatch_model(model, places, main_device="cpu", offload_dir=str(tmp_path), force_hooks=True)
    assert torch.equal(moved(ids).logits, whole)


def test_check_holds_a_map_against_a_configuration(tmp_path: Path) -> None:
    """The map of a Llama is one of a Llama, and none of an OPT."""
    needs("accelerate")
    needs("transformers")
    found = mtpp.partition("llama-3-8b", 3, "kahn", level="layer", runtime="accelerate")
    mtpp.export(found, "accelerate", out=tmp_path / "map.json")
    sizes = {"num_hidden_layers": 32, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 50}
    for kind in ("llama", "opt"):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, **sizes}))
        if kind == "llama":
            assert "35 modules of LlamaForCausalLM" in mtpp.check(tmp_path / "map.json", "accelerate", model=tmp_path)
            continue
        with pytest.raises(InputError, match=r"OPTForCausalLM has no module model\.embed_tokens"):
            mtpp.check(tmp_path / "map.json", "accelerate", model=tmp_path)
