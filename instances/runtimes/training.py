"""Runtimes that train."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import accumulate, groupby, pairwise

from instances.errors import InputError
from instances.planning.grid.configurations import FULL, NONE
from instances.planning.grid.plan import GridPlan
from instances.runtimes.layers import LayerCut, Naming
from instances.runtimes.runtime import LayerRuntime

# Megatron-Core: the layout of all stages as one word, E for embeddings, t for a layer, L for the loss.


_SHORTEST = 3  # layers or stages in a row that are written as a product


def _megatron_arguments(cut: LayerCut) -> str:
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


# Settings of a plan in a grid for training runtimes: all degrees, cuts and recomputation.


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
    """Number of layers of each stage that recompute everything; refused unless they are its first ones."""
    counts = []
    for begin, end in pairwise(plan.cuts):
        modes = [plan.modes[layer] for layer in range(max(begin, 1), min(end, len(plan.modes) - 1))]
        number = modes.count(FULL)
        if modes != [FULL] * number + [NONE] * (len(modes) - number):
            raise InputError(f"{plan.chain.name}: a stage does not recompute its first layers as a whole; plan for it.")
        counts.append(number)
    return counts


def _megatron(plan: GridPlan) -> str:
    """Arguments of Megatron-LM, one a line."""
    question, counts = plan.instance, _recomputed(plan)
    lines = [
        f"tensor-model-parallel-size {plan.tensor[0]}",
        f"pipeline-model-parallel-size {plan.groups}",
        f'pipeline-model-parallel-layout "{layout(_cut(plan))}"',
        f"context-parallel-size {plan.context}",
        f"micro-batch-size {plan.micro_batch}",
        f"global-batch-size {question.global_batch}",
    ]
    if plan.chain.sequence is not None:
        lines.append(f"seq-length {plan.chain.sequence}")
    if plan.tensor[0] > 1:
        lines.append("sequence-parallel")
    if plan.expert > 1:
        lines.append(f"expert-model-parallel-size {plan.expert}")
    if plan.zero == 1:
        lines.append("use-distributed-optimizer")
    elif plan.zero > 1:
        raise InputError("megatron divides optimizer states alone with a pipeline; plan with ZeRO 0 or 1.")
    if max(counts):
        limit = max(counts)
        sizes = [min(end, len(plan.modes) - 1) - max(begin, 1) for begin, end in pairwise(plan.cuts)]
        if any(count != min(limit, size) for count, size in zip(counts, sizes, strict=True)):
            raise InputError("megatron recomputes as many layers in each stage; this plan does not: plan for it.")
        lines += ["recompute-granularity full", "recompute-method block", f"recompute-num-layers {limit}"]
    return "".join(f"--{line}\n" for line in lines)


def _torchtitan(plan: GridPlan) -> str:
    """A TOML file of torchtitan 0.2."""
    cut, counts = _cut(plan), _recomputed(plan)
    inner = len(plan.modes) - 2
    if sum(counts) not in (0, inner):
        raise InputError("torchtitan recomputes all layers or none; this plan recomputes some: plan for it.")
    if plan.zero == 0 and plan.pipelines > 1:
        replicate, shard = plan.pipelines, 1
    else:
        replicate, shard = 1, plan.pipelines
    parts = [
        ["tok_embeddings"] * (n == cut.first)
        + [f"layers.{layer}" for layer in cut.members(n)]
        + ["norm", "output"] * (n == cut.last)
        for n in range(cut.k)
    ]
    schedule = "1F1B" if plan.turns == 1 else "Interleaved1F1B"
    reshard = {0: "never", 1: "never", 2: "never", 3: "always"}[plan.zero]
    text = f"""[training]
local_batch_size = {plan.micro_batch * plan.microbatches}
global_batch_size = {plan.instance.global_batch}
seq_len = {plan.chain.sequence or 0}

[parallelism]
data_parallel_replicate_degree = {replicate}
data_parallel_shard_degree = {shard}
fsdp_reshard_after_forward = "{reshard}"
tensor_parallel_degree = {plan.tensor[0]}
context_parallel_degree = {plan.context}
expert_parallel_degree = {plan.expert}
pipeline_parallel_degree = {plan.groups}
"""
    if plan.groups > 1:
        text += f"""pipeline_parallel_schedule = "{schedule}"
pipeline_parallel_microbatch_size = {plan.micro_batch}
module_fqns_per_model_part = {json.dumps(parts)}
"""
    return text + f'\n[activation_checkpoint]\nmode = "{"full" if sum(counts) else "none"}"\n'


#: Runtimes that take plans in a grid.
GRID_SETTINGS = {"megatron": _megatron, "torchtitan": _torchtitan}


def writers() -> dict[str, Callable[[GridPlan], str]]:
    """Function that writes a plan, for each runtime that takes one."""
    return {name: partial(grid_settings, runtime=name) for name in GRID_SETTINGS}
