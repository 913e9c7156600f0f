"""Runtimes that train: settings of Megatron-LM, torchtitan and others for cuts and plans."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, groupby, pairwise

from instances.errors import InputError, printable
from instances.json_files import Value
from instances.planning.grid.accelerators import DTYPES
from instances.planning.grid.configurations import FULL, MODES, NONE
from instances.planning.grid.plan import PLACINGS, GridPlan, ranks
from instances.planning.grid.transformer import Transformer, norm_parameters
from instances.readers.huggingface.record import Attention, FeedForward, LatentAttention, Layer
from instances.records import read
from instances.runtimes.layers import LayerCut, Naming
from instances.runtimes.runtime import LayerRuntime, Runtime

# Megatron-Core: the layout of all stages as one word, E for embeddings, t for a layer, L for the loss.


_SHORTEST = 3  # layers or stages in a row that are written as a product


def _megatron_arguments(cut: LayerCut) -> str:
    return f'--pipeline-model-parallel-size {cut.devices} --pipeline-model-parallel-layout "{layout(cut)}"\n'


def layout(cut: LayerCut) -> str:
    """The pipeline layout as Megatron-LM reads it, stage by stage; equal consecutive stages become a product."""
    stages = ["E" * (n == cut.first) + "t" * count + "L" * (n == cut.last) for n, count in enumerate(cut.counts)]
    *before, final = stages
    text = ""
    for stage, run in groupby(before):
        times = len(list(run))
        text += f"({stage}|)*{times}" if times >= _SHORTEST else f"{_shortened(stage)}|" * times
    return text + _shortened(final)


def _shortened(stage: str) -> str:
    """The letters of a stage with its layers as a product, such as ``Et*8``; products cannot be nested."""
    count = stage.count("t")
    return stage.replace("t" * count, f"t*{count}") if count >= _SHORTEST else stage


MEGATRON = LayerRuntime.of_units(
    "megatron",
    "--pipeline-model-parallel-layout of Megatron-Core",
    "megatron/core/transformer/pipeline_parallel_layer_layout.py",
    None,
    _megatron_arguments,
    version="0.16",
)


# DeepSpeed: the layers at which stages begin, by overriding how a PipelineModule is divided.


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


def _deepspeed_settings(cut: LayerCut) -> str:
    return _CLASS.format(parts=[0, *accumulate(cut.counts)])


DEEPSPEED = LayerRuntime(
    "deepspeed",
    "a PipelineModule with the parts of the cut, Python",
    "deepspeed/runtime/pipe/module.py",
    "#",
    _deepspeed_settings,
    version="0.19",
)


# Settings of a plan with degrees of parallelism for training runtimes: all degrees, cuts and recomputation.


def grid_settings(plan: GridPlan, runtime: str) -> str:
    """The arguments or the TOML file that make a runtime execute the plan, with a line break at the end.

    Raises
    ------
    InputError
        If it cannot express the plan.
    """
    if runtime not in GRID_SETTINGS:
        raise InputError(f"{runtime} trains no plans for a global batch; those are for {' or '.join(GRID_SETTINGS)}.")
    if len(set(plan.tensor)) > 1:
        raise InputError(f"{runtime} has one tensor degree for all stages, and this plan has {list(plan.tensor)}.")
    return GRID_SETTINGS[runtime](plan)


def _cut(plan: GridPlan) -> LayerCut:
    units = [n for n, (begin, end) in enumerate(pairwise(plan.cuts)) for _ in range(begin, end)]
    kinds, names = ([getattr(layer, name) for layer in plan.chain.layers] for name in ("kind", "name"))
    equal = len(units) > 2 and len(set(kinds[1:-1])) == 1 and kinds[1] not in (kinds[0], kinds[-1])
    if not equal and names != ["embedding", *(f"layer.{n}" for n in range(len(units) - 2)), "head"]:
        raise InputError(
            f"{plan.chain.name}: runtimes cut what comes before equal layers, these, and what comes after; layers "
            "that differ have to be named embedding, layer.0 and on, and head."
        )
    return LayerCut(
        network=plan.chain.name,
        stem="layers",
        k=plan.stages,
        unit_stage=tuple(units),
        ranks=tuple(n % plan.groups for n in range(plan.stages)),
        replicas=plan.pipelines,
        naming=Naming.of_chain(plan.chain.name, "layers"),
    )


def _recomputed(plan: GridPlan) -> list[int]:
    """Number of layers of each stage that recompute everything; refused unless they are its first layers."""
    counts = []
    for begin, end in pairwise(plan.cuts):
        modes = [plan.modes[layer] for layer in range(max(begin, 1), min(end, len(plan.modes) - 1))]
        number = modes.count(FULL)
        if modes != [FULL] * number + [NONE] * (len(modes) - number):
            raise InputError(f"{plan.chain.name}: a stage does not recompute its first layers as a whole; plan for it.")
        counts.append(number)
    return counts


_SCRIPT = """#!/bin/bash
# {title}: {steps} steps on mock data.
# To be run in the folder of Megatron-LM{where}.
# {sizes}
export CUDA_DEVICE_MAX_CONNECTIONS=1
ARGUMENTS=(
{arguments}
)
torchrun {launch} pretrain_gpt.py "${{ARGUMENTS[@]}}" "$@"
"""
_STEPS = 20
_EACH_NODE = ", on each node with its NODE_RANK, MASTER_ADDR and MASTER_PORT"
_AS_MODEL = (
    "Sizes, biases, norms and tying are the model's. Activations, scores of routers, epsilons and the scaling of angles"
    " are Megatron-LM's own: SiLU in gated networks, else GELU."
)
_RUN = (f"train-iters {_STEPS}", "eval-iters 0", "lr 1e-4", "log-interval 1", "log-throughput", "mock-data")
_NUMBERS = {"bf16": ("bf16",), "fp16": ("fp16",), "fp8": ("bf16", "fp8-format hybrid")}
_ATTENTION, _HALF = MODES[2:4]


def _megatron(plan: GridPlan) -> str:
    """A script that runs Megatron-LM with its arguments, one a line."""
    servers = _processes(plan)
    arguments, sizes = _model_arguments(plan)
    arguments += [*_parallel_arguments(plan), *_NUMBERS.get(plan.chain.dtype, ()), *_RUN]
    return _SCRIPT.format(
        title=printable(plan.instance.label),
        steps=_STEPS,
        where=_EACH_NODE if len(servers) > 1 else "",
        sizes=printable(sizes),
        arguments="\n".join(f"--{argument}" for argument in arguments),
        launch=_launch(servers),
    )


def _model_arguments(plan: GridPlan) -> tuple[list[str], str]:
    """Arguments of the model if Megatron-LM can express it, and a sentence about them."""
    chain = plan.chain
    if chain.model is None or chain.sequence is None:
        return [], "No sizes of a model are known; give their arguments after the name of this file."
    try:
        arguments = megatron_model(_model(plan), chain.sequence, plan.tensor[0])
    except InputError as error:
        return [], f"No sizes of the model stand here. {error}"
    return [*arguments, f"attention-backend {'unfused' if chain.attention == 'eager' else 'auto'}"], _AS_MODEL


def _model(plan: GridPlan) -> Transformer:
    model = read(Value(plan.chain.model, plan.chain.name, "model"), Transformer)
    if len(model.layers) != plan.chain.n - 2:
        raise InputError(f"{model.name}: it has {len(model.layers)} layers, and the plan {plan.chain.n - 2}.")
    return model


def _parallel_arguments(plan: GridPlan) -> list[str]:
    question, tensor, sequence = plan.instance, plan.tensor[0], plan.chain.sequence
    lines = [
        f"tensor-model-parallel-size {tensor}",
        f"pipeline-model-parallel-size {plan.groups}",
        f'pipeline-model-parallel-layout "{layout(_cut(plan))}"',
        f"context-parallel-size {plan.context}",
        f"micro-batch-size {plan.micro_batch}",
        f"global-batch-size {question.global_batch}",
    ]
    if sequence is not None:
        lines.append(f"seq-length {sequence}")
        if plan.context > 1 and sequence % (2 * plan.context):
            raise InputError(
                f"megatron divides {sequence} tokens into {2 * plan.context} parts for a context degree of "
                f"{plan.context}; give a multiple of them, or plan without."
            )
    if tensor > 1:
        lines += ["sequence-parallel", *["tp-comm-overlap"] * (plan.chain.overlap == "tp")]
    if plan.expert > 1:
        lines.append(f"expert-model-parallel-size {plan.expert}")
    if any(way.expert_parameters for way in plan.layers):
        lines.append(f"expert-tensor-parallel-size {1 if question.whole_experts else tensor}")
    if plan.placing != PLACINGS[0] and plan.groups > 1:
        lines.append("use-tp-pp-dp-mapping")
    if plan.zero == 1:
        lines.append("use-distributed-optimizer")
    elif plan.zero > 1:
        raise InputError("megatron divides optimizer states alone with a pipeline; plan with ZeRO 0 or 1.")
    if plan.instance.state_bytes.gradients == DTYPES.get(plan.chain.dtype):  # else they have 32 bits
        lines += ["grad-reduce-in-bf16"] * (plan.chain.dtype != "fp16")
    elif plan.chain.dtype == "fp16":
        lines.append("accumulate-allreduce-grads-in-fp32")
    return lines + _recomputation_arguments(plan)


def _recomputation_arguments(plan: GridPlan) -> list[str]:
    if set(plan.modes[1:-1]) == {_ATTENTION}:
        return ["recompute-granularity selective", "recompute-modules core_attn"]
    counts = _recomputed(plan)
    limit = max(counts)
    sizes = [min(end, len(plan.modes) - 1) - max(begin, 1) for begin, end in pairwise(plan.cuts)]
    if any(count != min(limit, size) for count, size in zip(counts, sizes, strict=True)):
        raise InputError("megatron recomputes as many layers in each stage; this plan does not: plan for it.")
    return ["recompute-granularity full", "recompute-method block", f"recompute-num-layers {limit}"] if limit else []


def _processes(plan: GridPlan) -> list[int]:
    """Number of devices in use on each server."""
    counts = Counter(rank.server for rank in ranks(plan))
    return [counts[server] for server in sorted(counts)]


def _launch(servers: list[int]) -> str:
    """Options of torchrun for the processes on each node."""
    if len(servers) == 1:
        return f"--nproc-per-node {servers[0]}"
    nodes = (
        f'--nnodes {len(servers)} --node-rank "$NODE_RANK" --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT"'
    )
    if len({*servers}) == 1:
        return f"--nproc-per-node {servers[0]} {nodes}"
    return f'--nproc-per-node "$(set -- {" ".join(map(str, servers))}; shift "$NODE_RANK"; echo "$1")" {nodes}'


_TOML = """# {title}: {steps} steps on the data of its tests.
# {model}
# To be run in the folder of torchtitan, FILE being this file{where}:
# torchrun {launch} -m torchtitan.train --job.config_file FILE
"""


def _torchtitan(plan: GridPlan) -> str:
    """A TOML file of torchtitan 0.2."""
    servers, half = _processes(plan), set(plan.modes[1:-1]) == {_HALF}  # as its selective recomputation of operators
    count = 0 if half else sum(_recomputed(plan))
    if count not in (0, len(plan.modes) - 2):
        raise InputError("torchtitan recomputes all layers or none; this plan recomputes some: plan for it.")
    flavor, sentence = _flavor(plan)
    text = _TOML.format(
        title=printable(plan.instance.label),
        steps=_STEPS,
        model=printable(sentence),
        where=_EACH_NODE if len(servers) > 1 else "",
        launch=_launch(servers),
    )
    if plan.placing != PLACINGS[0]:
        text += "# The plan has the stages of a pipeline side by side, torchtitan replicas: its step may take longer.\n"
    if plan.tensor[0] > 1 and plan.chain.overlap == "tp":
        text += "# Its times hide tensor collectives; enable_async_tensor_parallel, which needs compile, is not set.\n"
    if flavor is not None:
        converters = ["float8"] if plan.chain.dtype == "fp8" else []
        text += _table("model", {"name": flavor[0], "flavor": flavor[1], "converters": converters})
    local = plan.micro_batch * (plan.microbatches if plan.groups > 1 else 1)  # else it accumulates gradients
    training = {"steps": _STEPS, "local_batch_size": local, "global_batch_size": plan.instance.global_batch}
    if plan.chain.sequence is not None:
        training["seq_len"] = plan.chain.sequence
    text += _table("training", training) + _table("parallelism", _parallelism(plan))
    recomputed = {"mode": "selective", "selective_ac_option": "op"} if half else {"mode": "full" if count else "none"}
    return text + _table("activation_checkpoint", recomputed)


def _table(name: str, members: Mapping[str, object]) -> str:
    """A table in TOML; its values are written as in JSON."""
    lines = [f"{member} = {json.dumps(value)}" for member, value in members.items()]
    return "\n".join(["", f"[{name}]", *lines, ""])


def _parallelism(plan: GridPlan) -> dict[str, object]:
    cut, tensor = _cut(plan), plan.tensor[0]
    whole = plan.zero == 0 and plan.pipelines > 1
    if whole and plan.groups * tensor > 1 == plan.context:
        raise InputError("torchtitan has no whole replicas of several devices; plan with ZeRO 1, 2 or 3.")
    members: dict[str, object] = {
        "data_parallel_replicate_degree": plan.pipelines if whole else 1,
        "data_parallel_shard_degree": 1 if whole else plan.pipelines,
        "fsdp_reshard_after_forward": "always" if plan.zero == 3 else "never",
        "tensor_parallel_degree": tensor,
        "context_parallel_degree": plan.context,
        "expert_parallel_degree": plan.expert,
        "pipeline_parallel_degree": plan.groups,
    }
    if plan.expert > 1 and tensor > 1 and not plan.instance.whole_experts:
        members["expert_tensor_parallel_degree"] = tensor
    if plan.groups > 1:
        members["pipeline_parallel_schedule"] = "1F1B" if plan.turns == 1 else "Interleaved1F1B"
        members["pipeline_parallel_microbatch_size"] = plan.micro_batch
        members["module_fqns_per_model_part"] = [
            ["tok_embeddings"] * (n == cut.first)
            + [f"layers.{layer}" for layer in cut.members(n)]
            + ["norm", "output"] * (n == cut.last)
            for n in range(cut.k)
        ]
    return members


def _flavor(plan: GridPlan) -> tuple[tuple[str, str] | None, str]:
    """Name and flavor of the plan's model in torchtitan, if it is there, and a sentence about it."""
    if plan.chain.model is None:
        return None, "No sizes of a model are known; add the table [model] with its name and flavor."
    try:
        model = _model(plan)
        named = torchtitan_model(model)
    except InputError as error:
        return None, str(error)
    if model.tied and plan.groups > 1:
        raise InputError(f"torchtitan ties the ends of no pipeline, and {model.name} is tied; plan with pp=1.")
    return named, "The flavor has the sizes of the model."


#: Runtimes that take plans with degrees of parallelism.
GRID_SETTINGS = {"megatron": _megatron, "torchtitan": _torchtitan}


def writers(*runtimes: Runtime) -> dict[str, Callable[[GridPlan], str]]:
    """Function that writes a plan, for each runtime that takes one or for the given ones."""
    return {name: partial(grid_settings, runtime=name) for name in [r.name for r in runtimes] or GRID_SETTINGS}


# Models as runtimes that train are told them.


# Megatron-LM: the arguments of pretrain_gpt.py that are a model's.


_NORMS = {"rms": "RMSNorm", "layer": "LayerNorm"}
#: What divides the rows of the table of tokens on each device: the first that adds none, else the default.
_ROWS = (128, 64, 32, 16, 8)

#: A value, whether a flag stands there, or None for neither.
_Arguments = dict[str, str | int | bool | None]


def megatron_model(model: Transformer, sequence: int, tensor: int) -> list[str]:
    """Arguments of Megatron-LM for a model of these sizes, without their dashes.

    Raises
    ------
    InputError
        If there are none for a part of it; the message names the part.
    """
    if why := _strange_ends(model):
        raise InputError(f"{model.name}: Megatron-LM has no arguments for {why}.")
    arguments: _Arguments = {"num-layers": len(model.layers), "hidden-size": model.hidden}
    for layer in model.kinds:
        if why := _strange_part(layer, model.norm):
            raise InputError(f"{model.name}: Megatron-LM has no arguments for {why} of its layers.")
        for name, value in _of_layer(layer).items():
            if arguments.setdefault(name, value) != value:
                raise InputError(f"{model.name}: its layers differ in --{name}, and Megatron-LM has one for all.")
    arguments |= _of_kinds(model) | _of_ends(model, sequence, tensor)
    return [name if value is True else f"{name} {value}" for name, value in arguments.items() if value]


def _strange_ends(model: Transformer) -> str | None:
    """Text that names a part outside the layers that Megatron-LM's GPT does not have; None if there is none."""
    norm = norm_parameters(model.norm, model.hidden)
    if not (model.causal and model.head):
        return "an encoder, which pretrain_gpt.py does not train"
    if model.norm not in _NORMS:
        return f"its norms, {model.norm}"
    if model.table_width != model.hidden:
        return "a table of tokens of another width than its layers"
    if (model.before, model.after, model.pooled) != (model.positions * model.hidden, norm, False):
        return "parameters before or after its layers beside tokens, positions and a norm"
    return None


def _strange_part(layer: Layer, norm: str) -> str | None:
    """Text that names the part of a layer that Megatron-LM's arguments cannot express; None if there is none."""
    mixer, feed = layer.mixers[0], layer.feed
    assert feed is not None
    mixing: Attention | LatentAttention
    if isinstance(mixer, LatentAttention):
        sizes = (mixer.heads, mixer.rank, mixer.rotary, mixer.plain, mixer.value_width, mixer.query_rank)
        mixing = LatentAttention(*sizes)
    else:
        assert isinstance(mixer, Attention)
        norms = norm_parameters(norm, mixer.width) if any(mixer.norms) else 0
        mixing = Attention(
            mixer.heads,
            mixer.key_heads,
            mixer.width,
            mixer.width,
            window=mixer.window,
            bias=mixer.bias or feed.bias,
            output_bias=feed.bias,
            norms=(norms, norms),
        )
    experts = feed.experts
    if experts is None:
        network = FeedForward(feed.inner, feed.gated, feed.bias)
    else:
        vectors = experts.count if experts.router_vectors else 0
        network = FeedForward(0, feed.gated, experts=replace(experts, bias=False, width=0, router_vectors=vectors))
    if mixer != mixing:
        return "the attention"
    if feed != network:
        return "the experts" if experts else "the feed-forward network"
    return None if layer == Layer((mixing,), network, norms=2) else "the norms or vectors"


def _of_layer(layer: Layer) -> _Arguments:
    """Arguments of a layer, which must be the same for all layers that have them."""
    mixer, feed = layer.mixers[0], layer.feed
    assert feed is not None
    shared: _Arguments = {"swiglu": feed.gated, "disable-bias-linear": not feed.bias}
    experts = feed.experts
    if experts is None:
        shared |= {"ffn-hidden-size": feed.inner}
    else:
        chosen, groups = experts.groups if experts.groups != (1, 1) else (None, None)
        shared |= {
            "moe-router-num-groups": groups,
            "moe-router-group-topk": chosen,
            "num-experts": experts.count,
            "moe-router-topk": experts.chosen,
            "moe-router-pre-softmax": experts.chosen == 1,  # shares of a single expert would all be 1
            "moe-ffn-hidden-size": experts.inner,
            "moe-grouped-gemm": True,
            "moe-token-dispatcher-type": "alltoall",
            "moe-shared-expert-intermediate-size": experts.shared,
            "moe-shared-expert-gate": experts.shared_gate,
            "moe-router-enable-expert-bias": experts.router_vectors > 0,
            "moe-router-score-function": "sigmoid" if experts.router_vectors else None,
        }
    if isinstance(mixer, LatentAttention):
        return shared | {
            "num-attention-heads": mixer.heads,
            "kv-channels": mixer.value_width,
            "multi-latent-attention": True,
            "q-lora-rank": mixer.query_rank,
            "kv-lora-rank": mixer.rank,
            "qk-head-dim": mixer.plain,
            "qk-pos-emb-head-dim": mixer.rotary,
            "v-head-dim": mixer.value_width,
            "qk-layernorm": True,  # of the latent vectors
            "rope-type": "rope",
        }
    assert isinstance(mixer, Attention)
    grouped = mixer.key_heads != mixer.heads
    return shared | {
        "num-attention-heads": mixer.heads,
        "kv-channels": mixer.width,
        "group-query-attention": grouped,
        "num-query-groups": mixer.key_heads if grouped else None,
        "multi-latent-attention": False,
        "add-qkv-bias": mixer.bias and not feed.bias,
        "qk-layernorm": any(mixer.norms),
    }


def _of_kinds(model: Transformer) -> _Arguments:
    """Arguments that say which layers have experts, and which a window."""
    mixers = [layer.mixers[0] for layer in model.layers]
    windows = [mixer.window if isinstance(mixer, Attention) else None for mixer in mixers]
    sizes = sorted({window for window in windows if window is not None})
    if len(sizes) > 1:
        raise InputError(f"{model.name}: its layers differ in --window-size, and Megatron-LM has one for all.")
    return {
        "moe-layer-freq": _pattern(
            [layer.feed is not None and layer.feed.experts is not None for layer in model.layers]
        ),
        "window-size": f"{sizes[0] - 1},0" if sizes else None,
        "window-attn-skip-freq": _pattern([window is not None for window in windows]),
    }


def _pattern(flags: Sequence[bool]) -> str | None:
    """The flags of layers as a sum of Python lists, as Megatron-LM evaluates; None if all are equal."""
    runs = [f"[{int(flag)}]*{len([*run])}" for flag, run in groupby(flags)]
    return f'"({"+".join(runs)})"' if len(runs) > 1 else None


def _of_ends(model: Transformer, sequence: int, tensor: int) -> _Arguments:
    """Arguments for embedding, positions, norms and head, and for synthetic data."""
    rows = next((rows for rows in _ROWS if model.vocabulary % (rows * tensor) == 0), _ROWS[0])
    learned = model.positions > 0
    return {
        "normalization": _NORMS[model.norm],
        "position-embedding-type": "learned_absolute" if learned else "rope",
        "max-position-embeddings": model.positions or sequence,
        "rotary-base": None if learned or model.rotary_base is None else int(model.rotary_base),
        "untie-embeddings-and-output-weights": not model.tied,
        "attention-dropout": None if model.dropout else "0.0",
        "hidden-dropout": None if model.dropout else "0.0",
        "tokenizer-type": "NullTokenizer",
        "vocab-size": model.vocabulary - 1,  # it adds a token, the end of a text
        "make-vocab-size-divisible-by": rows if rows != _ROWS[0] else None,
    }


# torchtitan: names and flavors of the models that it has.


#: Parameters, layers, width and heads of a model to its name and flavor in torchtitan 0.2.
_FLAVORS = {
    (8_030_261_248, 32, 4096, 32): ("llama3", "8B"),
    (70_553_706_496, 80, 8192, 64): ("llama3", "70B"),
    (405_853_388_800, 126, 16384, 128): ("llama3", "405B"),
    (596_049_920, 28, 1024, 16): ("qwen3", "0.6B"),
    (1_720_574_976, 28, 2048, 16): ("qwen3", "1.7B"),
    (4_022_468_096, 36, 2560, 32): ("qwen3", "4B"),
    (8_190_735_360, 36, 4096, 32): ("qwen3", "8B"),
    (14_768_307_200, 40, 5120, 40): ("qwen3", "14B"),
    (32_762_123_264, 64, 5120, 64): ("qwen3", "32B"),
    (30_532_122_624, 48, 2048, 32): ("qwen3", "30B-A3B"),
    (235_093_634_560, 94, 4096, 64): ("qwen3", "235B-A22B"),
    (15_706_484_224, 27, 2048, 16): ("deepseek_v3", "16B"),
    (235_741_434_880, 60, 5120, 128): ("deepseek_v3", "236B"),
    (671_026_404_352, 61, 7168, 128): ("deepseek_v3", "671B"),
    (20_914_757_184, 24, 2880, 64): ("gpt_oss", "20b"),
    (116_829_156_672, 36, 2880, 64): ("gpt_oss", "120b"),
}


def torchtitan_model(model: Transformer) -> tuple[str, str]:
    """Name and flavor of a model.

    Raises
    ------
    InputError
        If torchtitan has none of these sizes; the message says which a flavor would need.
    """
    kinds = model.kinds.values()
    heads = {sizes.attention.heads for sizes in kinds}
    key = (model.parameters, len(model.layers), model.hidden, max(heads))
    if key in _FLAVORS:
        return _FLAVORS[key]
    numbers = {
        "n_layers": {len(model.layers)},
        "dim": {model.hidden},
        "n_heads": heads,
        "n_kv_heads": {sizes.key_heads for sizes in kinds},
        "hidden_dim": {sizes.inner for sizes in kinds if sizes.inner},
        "moe_inter_dim": {sizes.experts.inner for sizes in kinds if sizes.experts is not None},
        "num_experts": {*model.experts},
        "vocab_size": {model.vocabulary},
    }
    sizes = ", ".join(f"{name} {' or '.join(map(str, sorted(values)))}" for name, values in numbers.items() if values)
    raise InputError(f"{model.name}: no flavor of torchtitan 0.2 has its {model.parameters} parameters, with {sizes}.")
