"""Scripts for Megatron-LM: the sizes of its model are those of the plan's model, or none stand there and why."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from megatron_arguments import arguments_of, padded_rows, parameters_of
from transformers_configurations import random_sizes

import mtpp
from instances import InputError
from instances.json_files import parse_json
from instances.planning.grid import GridPlan
from instances.planning.grid.configurations import MODES, chain_document, configured_from_document
from instances.planning.grid.transformer import TRANSFORMERS, Transformer, transformer_of
from instances.readers.huggingface.configuration import decoder_of, model_types
from instances.readers.huggingface.record import Attention, FeedForward, Layer
from instances.records import read, written
from instances.runtimes.training import grid_settings, torchtitan_model
from tests.helpers.grid_cases import equal_chain

NODE = {"NODE_RANK": "1", "MASTER_ADDR": "first", "MASTER_PORT": "6000"}
LATENT = {
    "model_type": "deepseek_v3",
    "hidden_size": 64,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 2,
    "first_k_dense_replace": 2,
    "n_group": 4,
    "topk_group": 2,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 12,
    "vocab_size": 256,
    "rope_parameters": {"rope_theta": 50_000},
}


def planned(model: Any, cluster: str = "1x4", fix: str = "pp=2,tp=1,v=1", **words: Any) -> GridPlan:
    words = {
        "global_batch": 8,
        "bandwidth": "300GB/s,50GB/s",
        "micro_batch": "1",
        "sequence": 64,
        "memory": "1TB",
    } | words
    result = mtpp.train(model, cluster, fix=fix, **{"runtime": "megatron"} | words)
    assert isinstance(result.answer, GridPlan)
    return result.answer


def model_of(config: dict[str, Any]) -> Transformer:
    decoder, _ = decoder_of(parse_json(json.dumps(config), "config.json"))
    return transformer_of(decoder, config["model_type"])


def test_a_run_of_llama_has_all_its_arguments() -> None:
    plan = planned("llama-3-8b", "2x8", "pp=2,tp=4,dp=2,v=2", sequence=4096)
    arguments = arguments_of(grid_settings(plan, "megatron"), **NODE)
    stated = {
        "num-layers": "32",
        "hidden-size": "4096",
        "num-attention-heads": "32",
        "num-query-groups": "8",
        "kv-channels": "128",
        "ffn-hidden-size": "14336",
        "normalization": "RMSNorm",
        "position-embedding-type": "rope",
        "rotary-base": "500000",
        "max-position-embeddings": "4096",
        "seq-length": "4096",
        "vocab-size": "128255",
        "make-vocab-size-divisible-by": "64",
        "attention-backend": "auto",
        "train-iters": "20",
        "nproc-per-node": "8",
        "nnodes": "2",
        "node-rank": "1",
        "master-addr": "first",
        "program": "pretrain_gpt.py",
        "pipeline-model-parallel-size": "2",
    }
    assert stated.items() <= arguments.items()
    for flag in ("swiglu", "disable-bias-linear", "untie-embeddings-and-output-weights", "bf16", "sequence-parallel"):
        assert arguments[flag] == ""
    assert arguments["pipeline-model-parallel-layout"].count("|") == 3
    assert parameters_of(arguments) == plan.chain.parameters == 8_030_261_248


@pytest.mark.parametrize(("overlap", "tensor", "hides"), [("tp", 4, True), ("none", 4, False), ("tp", 1, False)])
def test_tensor_collectives_are_hidden_as_in_the_times(overlap: str, tensor: int, hides: bool) -> None:
    plan = planned("llama-3-8b", "2x8", f"pp=2,tp={tensor},dp={8 // tensor}", sequence=4096, overlap=overlap)
    assert ("tp-comm-overlap" in arguments_of(grid_settings(plan, "megatron"), **NODE)) == hides
    assert ("enable_async_tensor_parallel" in grid_settings(plan, "torchtitan")) == hides


@pytest.mark.parametrize(
    ("dtype", "total", "flags"),
    [
        ("bf16", 18, set()),
        ("fp8", 16, {"grad-reduce-in-bf16"}),
        ("fp16", 18, {"accumulate-allreduce-grads-in-fp32"}),
        ("fp16", 16, set()),
        ("bf16", 12, set()),
    ],
)
def test_bug_gradients_have_the_bits_that_were_planned(dtype: str, total: float, flags: set[str]) -> None:
    """Adam in mixed precision, 16 bytes, had gradients of 32 bits; a run in fp16 had less than was planned."""
    plan = planned("gpt2", dtype=dtype, optimizer_bytes=total, device="H100")
    gradients, arguments = plan.instance.state_bytes.gradients, arguments_of(grid_settings(plan, "megatron"))
    assert gradients == (2 if total == 16 else 4)
    assert {name for name in arguments if "grad" in name} == flags


def test_experts_and_latent_attention_have_theirs() -> None:
    plan = planned(model_of(LATENT), fix="pp=2,tp=1,dp=2,ep=2,v=1", attention="eager")
    arguments = arguments_of(grid_settings(plan, "megatron"))
    stated = {
        "num-experts": "8",
        "moe-router-topk": "2",
        "moe-ffn-hidden-size": "32",
        "moe-shared-expert-intermediate-size": "64",
        "moe-layer-freq": "([0]*2+[1]*3)",
        "moe-token-dispatcher-type": "alltoall",
        "moe-router-num-groups": "4",
        "moe-router-group-topk": "2",
        "expert-model-parallel-size": "2",
        "expert-tensor-parallel-size": "1",
        "q-lora-rank": "24",
        "kv-lora-rank": "16",
        "qk-head-dim": "8",
        "qk-pos-emb-head-dim": "4",
        "v-head-dim": "12",
        "rotary-base": "50000",
        "attention-backend": "unfused",
    }
    assert stated.items() <= arguments.items()
    assert "nnodes" not in arguments
    assert "moe-router-pre-softmax" not in arguments
    single = planned(model_of({**LATENT, "num_experts_per_tok": 1}))
    assert "moe-router-pre-softmax" in arguments_of(grid_settings(single, "megatron"))


@pytest.mark.parametrize("kind", sorted(model_types()))
def test_arguments_make_the_parameters_of_the_model(kind: str) -> None:
    """Of every model type with random sizes, or the script says what is in the way and has no sizes."""
    sizes = {**random_sizes(kind, Random(kind)), "num_hidden_layers": 4, "layer_types": None, "indexer_types": None}
    try:
        model = model_of({"model_type": kind, **sizes})
        plan = planned(model, sequence=8, global_batch=2, fix="pp=2,tp=1,dp=1,v=1", time_limit=5)
    except InputError:
        pytest.skip("no costs are known of its layers, or they do not fit these words")
    script = grid_settings(plan, "megatron")
    arguments = arguments_of(script)
    if "num-layers" not in arguments:
        assert re.search(rf"^# No sizes of the model stand here\. {kind}: .*$", script, re.MULTILINE)
        assert "hidden-size" not in arguments
        return
    added = (padded_rows(arguments) - model.vocabulary) * model.hidden * (1 + (not model.tied))
    assert parameters_of(arguments) - added == model.parameters


def test_devices_have_whole_experts_or_parts_of_them() -> None:
    model = model_of(LATENT)
    for etp, parts in (("1", "1"), ("tp", "2")):
        plan = planned(model, fix="pp=1,tp=2,dp=2,ep=2,v=1", etp=etp)
        assert arguments_of(grid_settings(plan, "megatron"))["expert-tensor-parallel-size"] == parts
        assert toml(plan)["parallelism"].get("expert_tensor_parallel_degree", 1) == int(parts)


def test_recomputation_is_that_of_the_plan() -> None:
    plan = planned("gpt2", attention="eager", runtime=None)
    inner = plan.instance.layers - 2
    question = replace(plan.instance, modes=MODES)
    whole, attention = (
        replace(plan, modes=("none", *[mode] * inner, "none"), instance=question) for mode in ("full", "core")
    )
    arguments = arguments_of(grid_settings(attention, "megatron"))
    assert (arguments["recompute-granularity"], arguments["recompute-modules"]) == ("selective", "core_attn")
    arguments = arguments_of(grid_settings(whole, "megatron"))
    assert (arguments["recompute-granularity"], arguments["recompute-method"]) == ("full", "block")
    mixed = replace(plan, modes=("none", *["core"] * (inner - 1), "none", "none"), instance=question)
    with pytest.raises(InputError, match="a stage does not recompute its first layers as a whole"):
        grid_settings(mixed, "megatron")


def test_numbers_are_those_of_the_chain() -> None:
    flags = {"bf16": {"bf16": ""}, "fp16": {"fp16": ""}, "fp8": {"bf16": "", "fp8-format": "hybrid"}, "fp32": {}}
    for dtype, words in flags.items():
        plan = replace(PLAN, instance=replace(PLAN.instance, chains=(replace(CHAIN, dtype=dtype),)))
        arguments = arguments_of(grid_settings(plan, "megatron"))
        assert {name: word for name, word in arguments.items() if name.startswith(("bf", "fp"))} == words
    plan = planned("llama-3-8b")
    narrow = replace(plan.instance, chains=(replace(plan.chain, dtype="fp8"),))
    assert toml(replace(plan, instance=narrow))["model"]["converters"] == ["float8"]


def test_windows_of_some_layers_are_a_pattern() -> None:
    attention = Attention(4, 2, 16, 16, window=32)
    local = Layer((attention,), FeedForward(96, gated=True), norms=2)
    whole = replace(local, mixers=(replace(attention, window=None),))
    model = Transformer(
        name="mixed", hidden=64, vocabulary=1000, layers=(local, local, whole, local, local, whole), after=64
    )
    arguments = arguments_of(grid_settings(planned(model), "megatron"))
    assert arguments["window-size"] == "31,0"
    assert eval(arguments["window-attn-skip-freq"]) == [1, 1, 0, 1, 1, 0]
    narrow = replace(local, mixers=(replace(attention, window=16),))
    script = grid_settings(planned(replace(model, layers=(local, narrow))), "megatron")
    assert "its layers differ in --window-size" in script
    assert "--window-size" not in arguments_of(script)


def test_measured_layers_have_no_sizes() -> None:
    chain, names = equal_chain(4), ("embedding", "layer.0", "layer.1", "head")
    layers = tuple(replace(layer, name=name) for layer, name in zip(chain.layers, names, strict=True))
    question = {"micro_batch": "auto", "sequence": None, "memory": "1MB"}
    script = grid_settings(planned(replace(chain, layers=layers), fix="pp=2,v=1", **question), "megatron")
    assert "# No sizes of a model are known; give their arguments after the name of this file." in script
    arguments = arguments_of(script)
    assert arguments["pipeline-model-parallel-layout"] == "Et|tL"
    assert "num-layers" not in arguments


def test_unequal_nodes_run_as_many_processes_as_they_have_work_for() -> None:
    plan = planned(model_of({**LATENT, "model_type": "llama"}), "2x4", "pp=3,tp=2,dp=1,v=1")
    script = grid_settings(plan, "megatron")
    counts = [arguments_of(script, **NODE | {"NODE_RANK": node})["nproc-per-node"] for node in ("0", "1")]
    assert counts == ["4", "2"]


def test_bug_stages_beside_each_other_keep_their_devices() -> None:
    """Megatron-LM was not told that the stages of a pipeline are neighbours, and laid replicas side by side."""
    plan = planned("gpt2", "2x2", "pp=2,tp=1,dp=2,v=1")
    others = [replace(plan, placing=placing) for placing in ("stages", "pipelines")]
    flags = ["use-tp-pp-dp-mapping" in arguments_of(grid_settings(other, "megatron"), **NODE) for other in others]
    assert flags == [False, True]


def test_parts_of_a_sequence_are_whole() -> None:
    plan = planned("gpt2", "1x4", "pp=2,cp=2,tp=1,v=1", sequence=62)
    with pytest.raises(InputError, match="megatron divides 62 tokens into 4 parts for a context degree of 2"):
        grid_settings(plan, "megatron")


@given(st.text(max_size=40))
def test_no_name_is_run(name: str) -> None:
    """Names of files stand in comments of one line each."""
    model = replace(TRANSFORMERS["gpt2"], name=name, norm="none")
    chain = replace(CHAIN, name=name, model=written(model))
    question = replace(PLAN.instance, chains=(chain,))
    lines = grid_settings(replace(PLAN, instance=question), "megatron").split("\n")
    assert [line for line in lines if not line.startswith("#")] == UNNAMED


PLAN = planned("gpt2", "1x2", "pp=2,tp=1,v=1")
CHAIN = PLAN.chain
UNNAMED = [
    line
    for line in grid_settings(
        replace(PLAN, instance=replace(PLAN.instance, chains=(replace(CHAIN, model=None),))), "megatron"
    ).split("\n")
    if not line.startswith("#")
]


# Files for torchtitan.


def toml(plan: GridPlan) -> dict[str, Any]:
    return tomllib.loads(grid_settings(plan, "torchtitan"))


def test_torchtitan_gets_a_flavor_of_the_same_sizes() -> None:
    plan = planned("llama-3-8b", "2x8", "pp=2,tp=2,dp=4,v=2", sequence=4096, global_batch=32)
    tables = toml(plan)
    assert tables["model"] == {"name": "llama3", "flavor": "8B", "converters": []}
    assert tables["training"] == {"steps": 20, "local_batch_size": 8, "global_batch_size": 32, "seq_len": 4096}
    first, *rest = grid_settings(plan, "torchtitan").splitlines()
    assert first == "# llama-3-8b on 2x8, 32 samples: 20 steps on the data of its tests."
    assert any(line.startswith("# torchrun --nproc-per-node 8 --nnodes 2 ") for line in rest)


@pytest.mark.parametrize(
    ("flavor", "sizes"),
    [
        (("llama3", "405B"), {"model_type": "llama", "dim": (16384, 126, 128, 8, 53248, 128256)}),
        (("qwen3", "14B"), {"model_type": "qwen3", "dim": (5120, 40, 40, 8, 17408, 151936), "head_dim": 128}),
        (("qwen3", "32B"), {"model_type": "qwen3", "dim": (5120, 64, 64, 8, 25600, 151936), "head_dim": 128}),
        (
            ("qwen3", "235B-A22B"),
            {"model_type": "qwen3_moe", "dim": (4096, 94, 64, 4, 12288, 151936), "head_dim": 128}
            | {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 1536},
        ),
        (("deepseek_v3", "671B"), {"model_type": "deepseek_v3"}),
        (("gpt_oss", "120b"), {"model_type": "gpt_oss"}),
    ],
)
def test_flavors_are_those_of_published_sizes(flavor: tuple[str, str], sizes: dict[str, Any]) -> None:
    """Sizes are those of the configurations at Hugging Face, the last two the defaults of transformers."""
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size")
    named = dict(zip((*names, "vocab_size"), sizes.get("dim", ()), strict=False)) | {"tie_word_embeddings": False}
    config = named | {name: size for name, size in sizes.items() if name != "dim"}
    assert torchtitan_model(model_of(config)) == flavor
    with pytest.raises(InputError, match=r"no flavor of torchtitan 0\.2 has its"):
        torchtitan_model(model_of(config | {"vocab_size": 256}))


def test_torchtitan_is_told_of_what_it_has_no_flavor() -> None:
    plan = planned(model_of(LATENT), fix="pp=1,tp=2,dp=2,ep=2,v=1")
    tables = toml(plan)
    assert "model" not in tables
    assert "n_layers 5, dim 64, n_heads 4, n_kv_heads 4, hidden_dim 64 or 96, moe_inter_dim 32" in grid_settings(
        plan, "torchtitan"
    )
    assert tables["parallelism"]["expert_tensor_parallel_degree"] == 2
    measured = replace(PLAN, instance=replace(PLAN.instance, chains=(replace(CHAIN, model=None),)))
    assert "# No sizes of a model are known; add the table [model]" in grid_settings(measured, "torchtitan")


def test_bug_without_a_pipeline_microbatches_follow_one_another() -> None:
    """The samples of all microbatches were one local batch, which was worked on at once."""
    plan = planned("gpt2", fix="pp=1,tp=1,dp=4,v=1", global_batch=16)
    assert plan.microbatches == 4
    assert toml(plan)["training"]["local_batch_size"] == 1


def test_bug_plans_for_torchtitan_have_replicas_side_by_side() -> None:
    """A plan for it had the stages of a pipeline in one server, where torchtitan puts replicas, and its time."""
    words = {"global_batch": 4096, "bandwidth": "300GB/s,0.2GB/s", "micro_batch": "4", "sequence": 1024}
    plans = [planned("gpt2", "2x2", "pp=2,tp=1,dp=2,v=1", runtime=name, **words) for name in ("megatron", "torchtitan")]
    assert [plan.placing for plan in plans] == ["pipelines", "stages"]
    told = ["its step may take longer" in grid_settings(plan, "torchtitan") for plan in plans]
    assert told == [True, False]


def test_torchtitan_recomputes_every_other_product_of_all_layers() -> None:
    plan = planned("gpt2", runtime="torchtitan", checkpoint="half")
    assert set(plan.modes[1:-1]) == {"half"}
    assert toml(plan)["activation_checkpoint"] == {"mode": "selective", "selective_ac_option": "op"}


def test_torchtitan_refuses_what_it_would_not_start() -> None:
    whole = planned("gpt2", fix="pp=2,tp=1,dp=2,v=1", zero="0")
    with pytest.raises(InputError, match="torchtitan has no whole replicas of several devices; plan with ZeRO 1"):
        toml(whole)
    assert toml(planned("gpt2", fix="pp=1,tp=1,dp=4,v=1", zero="0"))["parallelism"]["data_parallel_shard_degree"] == 1
    tied = {
        "model_type": "qwen3",
        "hidden_size": 1024,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 3072,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    }
    with pytest.raises(InputError, match="torchtitan ties the ends of no pipeline, and qwen3 is tied; plan with pp=1"):
        toml(planned(model_of(tied)))
    assert toml(planned(model_of(tied), fix="pp=1,tp=1,v=1"))["model"]["flavor"] == "0.6B"


# Models in files of plans.


@pytest.mark.parametrize("model", [*TRANSFORMERS.values(), model_of(LATENT)], ids=lambda model: model.name)
def test_a_model_is_read_as_it_was_written(model: Transformer) -> None:
    text = json.dumps(written(model))
    assert read(parse_json(text, "m.json"), Transformer) == model
    assert len(text) < 1500


def test_a_model_is_part_of_no_hash(tmp_path: Path) -> None:
    question = PLAN.instance
    bare = replace(question, chains=tuple(replace(chain, model=None) for chain in question.chains))
    assert bare.question_hash == question.question_hash
    assert bare.key == question.key
    document = chain_document(CHAIN)
    assert (
        configured_from_document(parse_json(json.dumps(document), "c.json")).model
        == CHAIN.model
        == written(TRANSFORMERS["gpt2"])
    )
    del document["model"]
    assert configured_from_document(parse_json(json.dumps(document), "c.json")).model is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": []}, "gpt2, model: gpt2: layers is 0; it must be 1 or more"),
        ({"layers": [[10**9, {}]]}, r"gpt2, model\.layers\[0\]\[1\]: missing field 'mixers'"),
        ({"layers": [[3, None]]}, "gpt2: it has 3 layers, and the plan 12"),
        ({"layers": [[-1, None]]}, "runs of equal layers must have 1 layer or more, and 10000 together at most"),
        ({"layers": [[10**9, None]]}, "runs of equal layers must have 1 layer or more, and 10000 together at most"),
        ({"hidden": 0}, "hidden is 0"),
        ({"norm": "x\ny"}, r"norm is 'x\\ny'; give one of"),
        ({"wings": 2}, "unknown field 'wings'"),
    ],
)
def test_a_false_model_is_told_and_left_out(change: dict[str, Any], message: str) -> None:
    document = chain_document(CHAIN)
    (run,) = document["model"]["layers"]
    runs = [[count, run[1] if layer is None else layer] for count, layer in change.get("layers", [run])]
    document["model"] = document["model"] | change | {"layers": runs}
    chain = configured_from_document(parse_json(json.dumps(document), "c.json"))
    script = grid_settings(replace(PLAN, instance=replace(PLAN.instance, chains=(chain,))), "megatron")
    assert re.search(rf"^# No sizes of the model stand here\. .*{message}", script, re.MULTILINE)
    assert [line for line in script.split("\n") if not line.startswith("#")] == UNNAMED
    document["model"] = 3
    with pytest.raises(InputError, match=r"c\.json, model: "):
        configured_from_document(parse_json(json.dumps(document), "c.json"))
