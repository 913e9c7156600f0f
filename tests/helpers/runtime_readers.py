"""Readers of what runtimes take, written from their rules: each gives back the stage of every unit of a network.

Units are what comes before the layers, each layer, and what comes after them.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from types import SimpleNamespace

import numpy as np


def counted(counts: list[int], layers: int) -> list[int]:
    """Layers by number, the ends with the first and the last stage, every stage with a layer, as vLLM wants it."""
    assert sum(counts) == layers
    assert min(counts) >= 1
    stages = [stage for stage, count in enumerate(counts) for _ in range(count)]
    return [0, *stages, len(counts) - 1]


def shell(text: str) -> tuple[dict[str, str], list[str], dict[str, str]]:
    """Variables, words and options of a command as a shell reads it."""
    words = shlex.split(text)
    first = next(i for i, word in enumerate(words) if not re.match(r"[A-Z_]+=", word))
    option = next(i for i, word in enumerate(words) if word.startswith("--"))
    pairs = zip(words[option::2], words[option + 1 :: 2], strict=True)
    return dict(word.split("=", 1) for word in words[:first]), words[first:option], dict(pairs)


def environment(name: str, command: str, tensor: str, pipeline: str) -> Callable[[str, int, int], list[int]]:
    def read(text: str, layers: int, k: int) -> list[int]:
        variables, words, options = shell(text)
        counts = [int(word) for word in variables.pop(name).split(",")]
        assert variables.keys() <= {"CUDA_VISIBLE_DEVICES"}
        assert " ".join(words) == command
        assert (len(counts), options[tensor], options[pipeline]) == (k, "1", str(k))
        return counted(counts, layers)

    return read


def tensorrt_llm(text: str, layers: int, k: int) -> list[int]:
    fields = dict(line.split(": ", 1) for line in text.splitlines())
    counts = json.loads(fields["pp_partition"])
    assert int(fields["pipeline_parallel_size"]) == len(counts) == k
    return counted(counts, layers)


def megatron(text: str, layers: int, k: int) -> list[int]:
    """The layout, unrolled letter by letter; first one E, last one L, as many t as there are layers."""
    options = re.fullmatch(r'--pipeline-model-parallel-size (\d+) --pipeline-model-parallel-layout "(.*)"\n', text)
    assert options is not None
    word, plain, i = options[2].replace(",", ""), "", 0
    while i < len(word):
        end = word.index(")", i) + 1 if word[i] == "(" else i + 1
        item = word[i:end].strip("()")
        times = re.match(r"\*(\d+)", word[end:])
        plain += item * (int(times[1]) if times else 1)
        i = end + (times.end() if times else 0)
    stages = plain.split("|")
    assert len(stages) == k
    assert k % int(options[1]) == 0
    assert "".join(stages) == "E" + "t" * layers + "L"
    return [stage for stage, units in enumerate(stages) for _ in units]


def torchtitan(text: str, layers: int, k: int) -> list[int]:
    """The field of the configuration, which is Python; modules by their paths."""
    (call,) = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    fields = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    assert ast.unparse(call.func) == "ParallelismConfig"
    assert k % fields["pipeline_parallel_degree"] == 0
    return _parts(fields["module_fqns_per_model_part"], layers, k)


def _parts(parts: list[list[str]], layers: int, k: int) -> list[int]:
    assert len(parts) == k
    names = {"tok_embeddings": "model.embed_tokens", "norm": "model.norm"}  # of its own networks
    stage = {
        re.sub(r"^layers", "model.layers", names.get(module, module)): n
        for n, part in enumerate(parts)
        for module in part
    }
    assert list(stage) == ["model.embed_tokens", *(f"model.layers.{i}" for i in range(layers)), "model.norm", "lm_head"]
    assert stage["model.norm"] == stage["lm_head"]
    return [stage[module] for module in stage if module != "model.norm"]


def torch(text: str, layers: int, k: int) -> list[int]:
    """A stage begins before the module; modules run one after the other."""
    (dictionary,) = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Dict))
    begins = [ast.literal_eval(key) for key in dictionary.keys if key is not None]
    assert {ast.unparse(value) for value in dictionary.values} <= {"SplitPoint.BEGINNING"}
    modules = ["model.embed_tokens", *(f"model.layers.{i}" for i in range(layers)), "model.norm"]
    assert len(begins) == k - 1
    assert set(begins) <= set(modules)
    return list(accumulate(int(module in begins) for module in modules))


def accelerate(text: str, layers: int, k: int) -> list[int]:
    """Each parameter is on the device of the longest module that it lies in, and all are covered."""
    device = json.loads(text)
    weights = ["model.embed_tokens.weight", *(f"model.layers.{i}.mlp.weight" for i in range(layers))]
    weights += ["model.norm.weight", "lm_head.weight"]
    devices = []
    for weight in weights:
        holders = [module for module in device if weight.startswith(f"{module}.")]
        assert holders, f"{weight} is on no device"
        devices.append(device[max(holders, key=len)])
    assert devices[-1] == devices[-2]
    assert set(devices) == set(range(max(devices) + 1))
    assert max(devices) < k
    return devices[:-1]


def llama_cpp(text: str, layers: int, k: int) -> list[int]:
    """Single precision, as there; the first layer says where what comes before it counts."""
    words = text.split()
    assert words[:4] == ["-ngl", "999", "-sm", "layer"]
    parts = np.cumsum([float(part) for part in words[words.index("-ts") + 1].split(",")], dtype=np.float32)
    assert len(parts) <= k
    assert parts.tolist() == sorted(set(parts.tolist()))
    bounds = (parts / parts[-1]).tolist()
    stages = [bisect_right(bounds, float(np.float32(i) / np.float32(layers + 1))) for i in range(layers + 1)]
    return [stages[0], *stages]


def exo(text: str, layers: int, k: int) -> list[int]:
    """Counts that a program of jq spreads over the nodes of a placement; that it does is a test of its own."""
    ask, change, _ = text.split(" | ", 1)[0], *re.findall(r" \| (jq '.*') \| (curl .*)\n", text)[0]
    assert shlex.split(ask)[-1] == f"min_nodes={k}"
    counts = json.loads(change[4 : change.index("]") + 1])
    assert f"if length != {len(counts)} then" in change
    return counted(counts, layers)


def deepspeed(text: str, layers: int, k: int) -> list[int]:
    """The class runs, over a base class with what it uses of DeepSpeed: specs, a topology and bounds."""
    before, after = 1, 2
    ranges = []
    for rank in range(k):

        class Topology:
            def get_coord(self, rank: int) -> object:
                return SimpleNamespace(pipe=rank)

        class Base:
            global_rank = rank
            _topo = Topology()
            _layer_specs = tuple(range(before + layers + after))

            def _set_bounds(self, start: int, stop: int) -> None:
                ranges.append((start, stop))

        scope = {"PipelineModule": Base}
        exec(text.replace("from deepspeed.pipe import PipelineModule", ""), scope)
        scope["CutPipelineModule"]()._partition_layers()  # type: ignore[attr-defined]
    assert [stop for _, stop in ranges[:-1]] == [start for start, _ in ranges[1:]]
    assert (ranges[0][0], ranges[-1][1]) == (0, before + layers + after)
    inner = [stage for stage, (start, stop) in enumerate(ranges) for _ in range(start, stop)]
    return inner[: before + layers + 1]


def galvatron(text: str, layers: int, k: int) -> list[int]:
    fields = json.loads(text)
    counts = [int(word) for word in fields["pp_division"].split(",")]
    assert fields["pp_deg"] == len(counts) == k
    for name in ("tp_sizes_enc", "tp_consecutive_flags", "dp_types_enc"):
        assert len([int(flag) for flag in fields[name].split(",")]) == layers
    assert fields["global_bsz"] % fields["chunks"] == 0
    return counted(counts, layers)


def onnxruntime_genai(text: str, layers: int, k: int) -> list[int]:
    """Each stage reads what an earlier one writes; a stage holds the caches of its layers, in order."""
    model = json.loads(text)["model"]
    (stages,) = model["decoder"]["pipeline"]
    assert model["type"] == "decoder-pipeline"
    assert len(stages) == k
    tensors = {"input_ids", "attention_mask"}
    numbers = []
    for n, stage in enumerate(stages.values()):
        cached = [name.removeprefix("past_key_values.") for name in stage["inputs"] if name.startswith("past")]
        assert {name for name in stage["inputs"] if not name.startswith("past")} <= tensors
        assert [name.removeprefix("present.") for name in stage["outputs"] if name.startswith("present")] == cached
        tensors |= set(stage["outputs"])
        numbers += [n for name in cached if name.endswith(".key")]
        assert [int(name.partition(".")[0]) for name in cached if name.endswith(".key")] == list(
            range(len(numbers))[-len(cached) // 2 :]
        )
    assert "logits" in tensors
    return [0, *numbers, k - 1]


READERS: dict[str, Callable[[str, int, int], list[int]]] = {
    "vllm": environment(
        "VLLM_PP_LAYER_PARTITION", "vllm serve $MODEL", "--tensor-parallel-size", "--pipeline-parallel-size"
    ),
    "sglang": environment("SGLANG_PP_LAYER_PARTITION", "python -m sglang.launch_server", "--tp-size", "--pp-size"),
    "tensorrt-llm": tensorrt_llm,
    "megatron": megatron,
    "torchtitan": torchtitan,
    "torch": torch,
    "accelerate": accelerate,
    "llama-cpp": llama_cpp,
    "exo": exo,
    "deepspeed": deepspeed,
    "galvatron": galvatron,
    "onnxruntime-genai": onnxruntime_genai,
}
