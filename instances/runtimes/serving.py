"""Runtimes that take stages as files or operators by name."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from instances.errors import InputError, word
from instances.graph.graph import ComputationGraph
from instances.graph.memory import touched_bytes
from instances.graph.views import merge_graph
from instances.partitioning.partition import Partition
from instances.partitioning.problem import Instance
from instances.partitioning.serving import ServingInstance
from instances.partitioning.stated import ServedDecoder
from instances.runtimes.layer_counts import LAYER_COUNTS, ServerRuntime, ServerStages
from instances.runtimes.layers import Cut, LayerCut, LayerStack
from instances.runtimes.runtime import LayerRuntime, NodeRuntime, Runtime
from instances.serving.answer import Deployment, ServedChain

# Conversion of a decoder to the serving question: a node for each layer, one before them and one after them.


#: Between stages if nobody says more [bytes/s].
DEFAULT_LINK = 64e9


def serving_chain(question: Instance, runtime: Runtime, in_flight: int | None = None) -> ServingInstance:
    """The question of serving for a decoder in one phase.

    Parameters
    ----------
    question : Instance
        A decoder at operator level, which has the activations inside of layers, and its devices; its states are caches
        at the context of its dimensions, and grow with it. Over several kinds of devices, nodes that the runtime keeps
        with a layer are merged into it.
    runtime : Runtime
        Runtime that must be able to express the cuts.
    in_flight : int, optional
        Batches in flight; for None see `ServingInstance`.

    Returns
    -------
    ServingInstance
        The activations are those of the graph's own dimensions, but for scores of attention and their mask, for which
        kernels have no room. The attribute ``caches`` of the graph says which layers hold a window of tokens at most,
        and which bytes do not grow with the context; those count as weights, for each batch in flight; ``longest``, the
        most tokens of a sequence, stays.

    Raises
    ------
    InputError
        If the graph has no layers in a row, or no dimensions of a cache.
    """
    graph, works = runtime.seen(question.graph), None
    if not question.is_alike:
        works = np.array([runtime.seen(replace(question.graph, work=row)).work for row in question.work])
    dims = graph.attributes.get("dims", {})
    if "context" not in dims or "batch" not in dims:
        raise InputError(
            f"{graph.name}: it tells of no cache of keys and values; give a decoder with phase=decode or phase=prefill."
        )
    context, batch = int(dims["context"]), int(dims["batch"])
    stack = LayerStack.of_decoder(graph)
    graph, unit = without_scores(graph, stack), stack.unit
    if works is not None and isinstance(runtime, LayerRuntime):
        lowest, highest = int(runtime.front_with_first), stack.layers + 1 - int(runtime.back_with_last)
        unit = np.clip(unit, lowest, highest)
    units, unit = np.unique(unit, return_inverse=True)
    merged, _ = merge_graph(graph, unit)
    names = tuple(stack.unit_names[u] for u in units)
    caches = graph.attributes.get("caches", {})
    window = np.array([caches.get(name, {}).get("window", np.inf) for name in names])
    constant = np.array([float(caches.get(name, {}).get("constant", 0)) for name in names])
    tokens = np.minimum(context, window)
    token_bytes = np.divide(merged.state_bytes - constant, tokens, out=np.zeros(len(names)), where=tokens > 0)
    chain = replace(
        merged,
        names=names,
        param_bytes=merged.param_bytes + (in_flight or 1) * constant,
        name=graph.name,
        source=graph.source,
        attributes={name: graph.attributes[name] for name in ("dims", "longest") if name in graph.attributes},
        state_bytes=np.zeros(merged.n),
    )
    need = np.zeros(chain.n)
    np.maximum.at(need, unit, touched_bytes(graph))
    rules = runtime.rules(chain)
    if works is None:
        instance = Instance(chain, question.platform, constraints=rules, need=need, by_need=True)
    else:
        rows = [np.bincount(unit, row) for row in works]
        machines, k, fit = question.machines, question.k, question.fit
        instance = Instance(chain, machines, need=need, by_need=True, k=k, works=rows, fit=fit)
    return ServingInstance(
        instance=instance,
        token_bytes=token_bytes,
        window=window,
        context=context,
        batch=batch,
        source=ServedDecoder(graph, unit, runtime.name, constant, works),
        in_flight=in_flight,
    )


def without_scores(graph: ComputationGraph, stack: LayerStack) -> ComputationGraph:
    """The decoder without bytes of scores and their mask.

    Scores are the tensors on paths within a layer from the node that holds keys to the node that holds values, without
    parameters in between.
    """
    bare, order, (tail, head) = graph.param_bytes == 0, graph.topological_order, graph.edges.T
    keeps = (graph.state_bytes > 0) & bare
    behind, before = keeps.copy(), keeps.copy()
    for nodes, marked, (start, near) in ((order, behind, graph.predecessors), (order[::-1], before, graph.successors)):
        for v in nodes[bare[nodes]]:
            others = near[start[v] : start[v + 1]]
            marked[v] |= (marked[others] & (stack.unit[others] == stack.unit[v])).any()
    scores = (stack.unit[tail] == stack.unit[head]) & behind[tail] & before[head]
    sizes, between = graph.tensors.bytes.copy(), behind & before & ~keeps
    sizes[np.setdiff1d(graph.edge_tensor[scores], graph.edge_tensor[~scores])] = 0.0
    return replace(
        graph,
        tensors=replace(graph.tensors, bytes=sizes),
        parameters=tuple(p for p in graph.parameters if not between[list(p.users)].all()),
    )


# ONNX Runtime GenAI: the stages of a decoder as a pipeline of models, each with its own session.
#
# A session holds one instance of an execution provider, so that each device has a stage file of its own. A cut tells of
# layers, not of the tensors of a file: then names are a convention that stage files have to follow, with the tensor
# ``hidden_states.N``, that which layer N reads first, between two stages. Where the files are there, as `mtpp split`
# writes them, files and tensors are called as they are.


_CONTEXT = 4096


class StageFile(NamedTuple):
    """The file of a stage, with the names of its inputs and outputs."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class StageFileRuntime(LayerRuntime):
    """A runtime that takes one model file for each stage."""

    def settings_for(self, answer: Cut, files: Sequence[StageFile]) -> str:
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


def _genai_config(cut: LayerCut) -> str:
    return _config(cut, [_by_convention(cut, n) for n in range(cut.k)])


#: Roles of tensors of the whole decoder, besides input_ids and logits, and how they begin where layers have their own.
_INPUTS = {"attention_mask": "attention_mask", "position_ids": "position_ids"}
_CACHES = {"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"}
_NEW_CACHES = {"present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}


def _config(cut: LayerCut, files: Sequence[StageFile]) -> str:
    """The configuration, which names only tensors that some stage file has."""
    read, written = ({name for file in files for name in getattr(file, side)} for side in ("inputs", "outputs"))
    inputs = {role: name for role, name in _INPUTS.items() if name in read}
    inputs |= {role: name for role, name in _CACHES.items() if name % 0 in read}
    last = files[-1].outputs[0] if len(files[-1].outputs) == 1 else "logits"
    decoder = {
        "num_hidden_layers": cut.layers,
        "inputs": {"input_ids": files[0].inputs[0] if len(files[0].inputs) == 1 else "input_ids"} | inputs,
        "outputs": {"logits": last} | {role: name for role, name in _NEW_CACHES.items() if name % 0 in written},
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
    _genai_config,
    one_batch=True,
    version="0.18",
)


# OpenVINO: the affinity of each operator by its name, for its device HETERO.


#: Operator in the name of a node of ONNX that has none of its own, before that of its output, as OpenVINO calls it.
_UNNAMED = re.compile(r"^[A-Z]\w* (?=\S+$)")

#: OpenVINO wants an affinity for each operator, and has more of them than the graph: constants, views, results.
_PROGRAM = '''import openvino as ov

DEVICES = {devices}
STAGE = {stage}


def assign(model: ov.Model) -> str:
    """Give each operator of a model its stage, and return the device to compile it for.

    What has no stage gets the latest of those that it reads from, or else the earliest of those that read from it.
    """
    operators = model.get_ordered_ops()
    names = {{operator.get_friendly_name() for operator in operators}}
    found = {{name: stage for name, stage in STAGE.items() if name in names}}
    if 2 * len(found) < len(STAGE):
        raise ValueError(f"this is another model: it has {{len(found)}} of {{len(STAGE)}} operators")
    for operator in operators:
        before = [value.get_source_output().get_node().get_friendly_name() for value in operator.inputs()]
        known = [found[name] for name in before if name in found]
        if known:
            found.setdefault(operator.get_friendly_name(), max(known))
    for operator in reversed(operators):
        readers = [reader for value in operator.outputs() for reader in value.get_target_inputs()]
        after = [found[reader.get_node().get_friendly_name()] for reader in readers]
        found.setdefault(operator.get_friendly_name(), min(after, default=0))
    for operator in operators:
        operator.get_rt_info()["affinity"] = DEVICES[found[operator.get_friendly_name()]]
    return "HETERO:" + ",".join(DEVICES)
'''


def _affinities(partition: Partition) -> str:
    used = sorted(set(partition.block.tolist()))
    numbers = partition.device[used].tolist() if not partition.instance.is_alike else range(len(used))
    devices = [f"GPU.{number}" for number in numbers]
    names = (_UNNAMED.sub("", name) for name in partition.instance.graph.names)
    stage = dict(zip(names, map(used.index, partition.block.tolist()), strict=True))
    return program(devices, stage)


def program(devices: Sequence[str], stage: Mapping[str, int]) -> str:
    """Text of a Python program that assigns operators to devices, from device names and the stage of each operator."""
    return _PROGRAM.format(devices=json.dumps(list(devices)), stage=json.dumps(dict(stage), indent=1))


OPENVINO = NodeRuntime(
    "openvino",
    "affinity of each operator for HETERO, Python",
    "docs.openvino.ai, heterogeneous execution",
    "#",
    _affinities,
    version="2026.4",
)


# Deployments in the words of runtimes: what starts each chain that differs, with its devices as a comment.


_WORDS = {runtime.name: runtime.words for runtime in LAYER_COUNTS if isinstance(runtime, ServerRuntime)}


def writers(*runtimes: Runtime) -> dict[str, Callable[[Deployment], str]]:
    """By runtime name, the function that writes its settings for a deployment; by default of all that have one."""
    return {name: partial(deployment_settings, runtime=name) for name in [r.name for r in runtimes] or _WORDS}


def deployment_settings(answer: Deployment, runtime: str) -> str:
    """The settings of all chains of a deployment, in sequence.

    Raises
    ------
    InputError
        If the runtime has none for one of them.
    """
    if runtime not in _WORDS:
        raise InputError(f"{runtime} takes no deployment on servers; give one of {', '.join(_WORDS)}.")
    lines = []
    for pool, chain, count in answer.pools:
        times = "" if count == 1 else f", {count} times"
        unit = "tokens/s" if not pool else "prompts/s, whose caches pass on,"
        try:
            words = _WORDS[runtime](_stages(chain, runtime))
        except InputError as error:
            raise InputError(f"{error} {_instead(runtime)}") from None
        lines.append(f"# {_devices(chain)}{times}: {float(chain.rate):.6g} {unit} each\n{words}")
    return "".join(lines)


def _instead(runtime: str) -> str:
    return f"Serve with {word('runtime')} {runtime} for the best that it can express."


def _stages(chain: ServedChain, runtime: str) -> ServerStages:
    """Stages of a chain with the length of a sequence to make room for.

    llama.cpp divides its cache evenly among sequences; other runtimes may preempt, so that only the longest must fit.
    """
    question = chain.question
    longest = question.resident_tokens if runtime == "llama-cpp" else question.input + question.output
    return ServerStages(
        layers=tuple(stage.end - stage.first for stage in chain.chain.stages),
        degrees=tuple(stage.degree for stage in chain.chain.stages),
        batch=chain.chain.batch,
        in_flight=chain.chain.batches,
        length=question.input + 1 if chain.chain.prompts else math.ceil(longest),
    )


def _devices(chain: ServedChain) -> str:
    """Devices of a chain in the order of its stages."""
    servers, parts = chain.question.servers, dict[tuple[int, int], int]()
    for stage in chain.chain.stages:
        home = stage.servers, stage.server
        parts[home] = parts.get(home, 0) + stage.degree
    return ", ".join(f"{count} x {servers[s].kind} of one server" for (s, _), count in parts.items())
