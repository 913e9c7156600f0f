"""Published networks from their configurations, without any download: multiply-adds and parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from instances import ComputationGraph
from instances.readers.pytorch.export import trace

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")


def bert(layers: int) -> Any:
    return transformers.BertModel(transformers.BertConfig(num_hidden_layers=layers))


def gpt2(layers: int) -> Any:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=layers, use_cache=False))


def vit(layers: int) -> Any:
    return transformers.ViTModel(transformers.ViTConfig(num_hidden_layers=layers))


@cache
def traced(build: Callable[[int], Any], layers: int) -> ComputationGraph:
    example = torch.zeros(1, 3, 224, 224) if build is vit else torch.zeros(1, 128, dtype=torch.long)
    return trace(lambda: build(layers).eval(), (example,))


@pytest.mark.parametrize(
    ("build", "multiply_adds", "parameters"),
    [(bert, 11.174e9, 109.48e6), (gpt2, 16.114e9, 124.44e6), (vit, 17.564e9, 86.39e6)],
)
def test_twelve_layers_have_the_published_size(
    build: Callable[[int], Any], multiply_adds: float, parameters: float
) -> None:
    """All layers are alike, so one and two of them tell of twelve. The head of GPT-2 is tied to its embedding."""
    one, two = traced(build, 1).attributes, traced(build, 2).attributes
    of_twelve = {key: one[key] + 11 * (two[key] - one[key]) for key in ("flops", "parameter_count")}
    assert of_twelve["flops"] / 2 == pytest.approx(multiply_adds, rel=1e-4)
    assert of_twelve["parameter_count"] == pytest.approx(parameters, rel=1e-4)
    assert "unknown_operators" not in two


def test_gpt2_shares_its_embedding_with_its_head() -> None:
    graph = traced(gpt2, 1)
    assert [(p.name, p.bytes) for p in graph.parameters] == [("transformer.wte.weight", 4 * 50257 * 768)]
    first, last = (graph.names[v] for v in graph.parameters[0].users)
    assert first.startswith("transformer.wte.embedding")
    assert last.startswith("lm_head.mm")
    assert graph.parameter_total == 4 * graph.attributes["parameter_count"]


def test_a_llama_of_70_billion_parameters_is_built_without_memory() -> None:
    """Two of the eighty layers: grouped queries, a gated perceptron, 16-bit numbers (8192, 28672 and 1024 wide)."""

    def build() -> Any:
        config = transformers.LlamaConfig(
            vocab_size=128_256,
            hidden_size=8192,
            intermediate_size=28_672,
            num_hidden_layers=2,
            num_attention_heads=64,
            num_key_value_heads=8,
            use_cache=False,
        )
        return transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()

    graph = trace(build, (torch.zeros(1, 2048, dtype=torch.long),))
    layer = 2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28_672
    assert graph.attributes["parameter_count"] == 2 * (layer + 2 * 8192) + 2 * 128_256 * 8192 + 8192
    attention = 4 * 2048 * 2048 * 8192
    assert graph.attributes["flops"] == 2 * (2 * 2048 * layer + attention) + 2 * 2048 * 128_256 * 8192
