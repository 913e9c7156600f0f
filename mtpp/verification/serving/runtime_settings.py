"""Reading of runtime settings by the runtimes' rules: the stage of each layer. Nothing in them is executed."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise

from instances.partitioning.problem import Instance
from instances.partitioning.stated import StatedServing

# Nodes that are no layers.
_ENDS = ("before", "after")
# Runtimes whose words leave empty stages out.
_DENSE = ("accelerate", "llama-cpp")

# Runtimes that take the number of layers of each stage, and their words; older files have the counts alone.
_DEVICES = r"(?:CUDA_VISIBLE_DEVICES=(?P<devices>\d+(?:,\d+)*) )?"
_COUNTS = {
    "vllm": _DEVICES
    + r'VLLM_PP_LAYER_PARTITION=(?P<counts>[\d,]+)(?: vllm serve "\$MODEL" --tensor-parallel-size 1'
    + r" --pipeline-parallel-size (?P<stages>\d+)(?: --max-num-seqs (?P<sequences>\d+))?"
    + r"(?: --max-model-len (?P<length>\d+))?)?\n",
    "sglang": _DEVICES
    + r"SGLANG_PP_LAYER_PARTITION=(?P<counts>[\d,]+)(?: python -m sglang\.launch_server"
    + r' --model-path "\$MODEL" --tp-size 1 --pp-size (?P<stages>\d+)(?: --pp-max-micro-batch-size (?P<batch>\d+)'
    + r" --max-running-requests (?P<sequences>\d+))?(?: --context-length (?P<length>\d+))?)?\n",
    "tensorrt-llm": r"(?:tensor_parallel_size: 1\n)?pipeline_parallel_size: (?P<stages>\d+)\n"
    + r"pp_partition: \[(?P<counts>[\d, ]+)\]\n"
    + r"(?:max_batch_size: (?P<batch>\d+)\n)?(?:max_seq_len: (?P<length>\d+)\n)?",
    "galvatron": r'\{\s*"pp_deg": (?P<stages>\d+),\s*"pp_division": "(?P<counts>[\d,]*)"(?:,\s*"\w+": [\d",]+)*\s*\}\n',
    "exo": r'curl -fsG "\$EXO/instance/placement" -d model_id="\$MODEL" -d sharding=Pipeline'
    + r" -d min_nodes=(?P<stages>\d+)"
    + r" \| jq '\[(?P<counts>[\d,]+)\] as \$n \| [^']*' \| curl [^\n]*\n",
    "llama-cpp": r"-ngl 999 -sm layer -ts (?P<counts>\d+(?:,\d+)*)(?: --rpc (?P<servers>[\w.:,-]+))?"
    + r"(?: -dev (?P<names>(?:CUDA|RPC)\d+(?:,(?:CUDA|RPC)\d+)*))?(?: -c (?P<tokens>\d+) -np (?P<sequences>\d+))?\n",
}
# A cache of llama.cpp has a multiple of so many tokens for each sequence.
_LLAMA_STEP = 256
_ROOM = ("stages", "batch", "sequences", "length", "tokens")
# Name of a kind whose device is on another host.
_ADDRESS = re.compile(r"[A-Za-z0-9][\w.-]*:[0-9]{1,5}")


def faults_of_words(stated: StatedServing) -> Iterator[str]:
    """Yield dimensions that contradict the graph, and settings that describe another cut."""
    dims = stated.instance.graph.attributes.get("dims", {})
    dims = dims if isinstance(dims, dict) and stated.source is None else {}
    for name, number in (("batch", stated.batch), ("context", stated.context)):
        if number < 1 or dims.get(name, number) != number:
            yield f"question.{name}: it is {number}, and the graph is one of {dims.get(name, 'at least 1')}"
    if not 0 <= stated.chosen < len(stated.front) or (not stated.settings and _may_lack_words(stated)):
        return
    block = stated.front[stated.chosen].block
    layers = [b for b, name in zip(block, stated.instance.graph.names, strict=True) if name not in _ENDS]
    try:
        assigned = stages_of_layers(stated.runtime, stated.settings, len(layers))
        if not stated.instance.is_alike:
            assigned = _devices_assigned(stated, assigned)
        yield from _faults_of_room(stated)
    except (ValueError, IndexError) as error:
        yield f"answer.words: {stated.runtime!r} does not take them for {len(layers)} layers ({error})"
        return
    if not stated.instance.is_alike:
        device = _devices(stated.instance, stated.front[stated.chosen].kind or ())
        layers = [device[b] for b in layers]
    elif stated.runtime in _DENSE:  # empty stages take no device
        assigned, layers = _ranks(assigned), _ranks(layers)
    if assigned != layers:
        yield f"answer.words: they have the layers in stages {assigned}, and the answer in {layers}"


def _may_lack_words(stated: StatedServing) -> bool:
    """Whether a front may come without settings, as its runtime cannot express it."""
    if stated.source is None or not stated.instance.is_alike:
        return True
    if stated.runtime == "tensorrt-llm":
        return stated.waits
    return stated.runtime == "llama-cpp" and stated.front[stated.chosen].context < _LLAMA_STEP


def _faults_of_room(stated: StatedServing) -> Iterator[str]:
    """Yield numbers of stages, sequences and tokens in settings that differ from the answer's."""
    if stated.runtime not in _COUNTS:
        return
    named, room = _words(stated.runtime, stated.settings), dict[str, int]()
    context, longest = stated.front[stated.chosen].context, stated.instance.graph.attributes.get("longest")
    if type(longest) is int:  # tokens that the model takes
        context = min(context, longest)
    if named.get("stages"):
        room["stages"] = len(_numbers(named["counts"] or ""))
    if stated.in_flight is not None:
        sequences = stated.in_flight * stated.batch
        if stated.runtime != "llama-cpp":
            room |= {"batch": stated.batch, "sequences": sequences}
            room |= {} if math.isinf(context) else {"length": int(context)}
        elif not math.isinf(context):
            room |= {"sequences": sequences, "tokens": sequences * (int(context) // _LLAMA_STEP) * _LLAMA_STEP}
    for name, word in named.items():
        if name in _ROOM and (None if word is None else int(word)) != room.get(name):
            yield f"answer.words: {name} is {word}, and the answer has {room.get(name)}"


def _words(runtime: str, settings: str) -> dict[str, str | None]:
    """Values in the settings of a runtime, by name; None for missing ones."""
    match = re.fullmatch(_COUNTS[runtime], settings)
    if match is None:
        raise ValueError("other settings")
    return match.groupdict()


def _devices(instance: Instance, kind: Sequence[str | None]) -> list[int]:
    """Device number of each stage, in the order of the kinds; -1 for an empty stage."""
    devices = instance.machines
    free: dict[str | None, list[int]] = {}
    for d, t in enumerate(devices.sequence):
        free.setdefault(devices.kinds[t].name, []).append(d)
    if devices.is_fixed:
        return list(range(len(kind)))
    return [-1 if name is None else free[name].pop(0) for name in kind]


def _devices_assigned(stated: StatedServing, stages: list[int]) -> list[int]:
    """Device number of each layer, by the settings; without numbers stage n is on device n."""
    named = _words(stated.runtime, stated.settings) if stated.runtime in _COUNTS else {}
    order = _numbers(named.get("devices") or "")
    if named.get("names"):
        devices, servers = stated.instance.machines, (named["servers"] or "").split(",")
        kinds = [devices.kinds[t].name for t in devices.sequence]
        local = [d for d, name in enumerate(kinds) if not _ADDRESS.fullmatch(name)]
        for name in (named["names"] or "").split(","):
            number = int(name.lstrip("ACDUPR"))
            order.append(kinds.index(servers[number]) if name.startswith("RPC") else local[number])
    return [order[stage] if stage < len(order) else stage for stage in stages]


def _ranks(stages: list[int]) -> list[int]:
    """Stage numbers of layers without gaps for empty stages: 0, 2, 2 becomes 0, 1, 1."""
    rank = {stage: number for number, stage in enumerate(sorted(set(stages)))}
    return [rank[stage] for stage in stages]


def stages_of_layers(runtime: str, settings: str, layers: int) -> list[int]:
    """The stage of each layer.

    Parameters
    ----------
    runtime : str
        Name of a runtime.
    settings : str
        Settings of the runtime, as text.
    layers : int
        Number of layers.

    Raises
    ------
    ValueError
        If the runtime is unknown, or does not accept the settings.
    """
    try:
        if runtime in _COUNTS and runtime != "llama-cpp":
            stages = _unrolled(_numbers(_words(runtime, settings)["counts"] or ""), layers)
        else:
            stages = _READERS[runtime](settings, layers)
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(str(error)) from None
    if len(stages) != layers:
        raise ValueError(f"{len(stages)} layers")
    return stages


def _match(pattern: str, settings: str) -> str:
    match = re.fullmatch(pattern, settings)
    if match is None:
        raise ValueError("other settings")
    return match[1]


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if text]


def _unrolled(counts: list[int], layers: int) -> list[int]:
    if sum(counts) != layers or min(counts) < 0:
        raise ValueError(f"{sum(counts)} layers")
    return [stage for stage, count in enumerate(counts) for _ in range(count)]


def _megatron(settings: str, layers: int) -> list[int]:
    """Stages of layers in Megatron's notation: a letter for each layer, bars between stages, ``*n`` repeats."""
    layout = _match(r'--pipeline-model-parallel-size \d+ --pipeline-model-parallel-layout "(.*)"\n', settings)
    plain = ""
    for group, letter, times in re.findall(r"(?:\(([^()]*)\)|([^()*\d]))(?:\*(\d+))?", layout.replace(",", "")):
        if int(times or 1) > layers + len(layout):
            raise ValueError("more than there is")
        plain += (group or letter) * int(times or 1)
    return [stage for stage, units in enumerate(plain.split("|")) for unit in units if unit == "t"]


def _torchtitan(settings: str, layers: int) -> list[int]:
    """Stages of layers from lists of modules."""
    parts = json.loads(_match(r"(?:.*\n)*\s*module_fqns_per_model_part ?= ?(.*?),?\n(?:.*\n)*", settings))
    stage = {_number(module): n for n, part in enumerate(parts) for module in part}
    return [stage[str(i)] for i in range(layers)]


def _number(module: str) -> str:
    """The number of a layer's module, or the path of another module."""
    return re.sub(r"^[\w.]*\.(?=\d+$)", "", module)


def _torch(settings: str, layers: int) -> list[int]:
    """Stages of layers from the modules that begin stages."""
    spec = _match(r"(?:.*\n)*split_spec = \{\n((?:.*\n)*)\}\n", settings)
    begins = map(_number, re.findall(r'"([\w.]+)": SplitPoint\.BEGINNING', spec))
    firsts = sorted(int(number) if number.isdecimal() else layers for number in begins)
    return [bisect_right(firsts, layer) for layer in range(layers)]


def _accelerate(settings: str, layers: int) -> list[int]:
    device = {_number(module): place for module, place in json.loads(settings).items()}
    return [int(device[str(layer)]) for layer in range(layers)]


def _llama_cpp(settings: str, layers: int) -> list[int]:
    """Stages of layers from llama.cpp's proportions: unit i lies in the stage with its fraction."""
    ends = list(accumulate(_numbers(_words("llama-cpp", settings)["counts"] or "")))
    return [bisect_right(ends, Fraction(layer, layers + 1) * ends[-1]) for layer in range(layers)]


def _deepspeed(settings: str, layers: int) -> list[int]:
    (bounds,) = re.findall(r"^parts = \[([\d, ]+)\]", settings, flags=re.MULTILINE)
    begins = _numbers(bounds)
    return _unrolled([end - begin for begin, end in pairwise(begins)], layers)


def _onnxruntime_genai(settings: str, layers: int) -> list[int]:
    (stages,) = json.loads(settings)["model"]["decoder"]["pipeline"]
    stage = {name: n for n, fields in enumerate(stages.values()) for name in fields["inputs"]}
    return [stage[f"past_key_values.{layer}.key"] for layer in range(layers)]


_READERS: dict[str, Callable[[str, int], list[int]]] = {
    "megatron": _megatron,
    "torchtitan": _torchtitan,
    "torch": _torch,
    "accelerate": _accelerate,
    "llama-cpp": _llama_cpp,
    "deepspeed": _deepspeed,
    "onnxruntime-genai": _onnxruntime_genai,
}
