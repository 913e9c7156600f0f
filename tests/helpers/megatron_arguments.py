"""A reader of scripts for Megatron-LM: what bash hands over, and the parameters of the model that it makes of that."""

from __future__ import annotations

import subprocess
from typing import Any

#: Of torchrun, the script and its arguments.
_STUB = 'torchrun() { printf "%s\\n" "$@"; }; source /dev/stdin'


def arguments_of(script: str, **environment: str) -> dict[str, str]:
    """The words that torchrun gets, each with its value, empty for a flag; the script that it starts is "program"."""
    command = ["bash", "-euc", _STUB]
    run = subprocess.run(command, input=script, env=environment, capture_output=True, text=True, check=True)
    words: dict[str, str] = {}
    name = "program"
    for word in run.stdout.splitlines():
        if word.startswith("--"):
            name = word.removeprefix("--")
            assert name not in words
            words[name] = ""
        elif word.endswith(".py"):
            words["program"] = word
        else:
            assert words[name] == ""
            words[name] = word
    return words


def parameters_of(arguments: dict[str, str]) -> int:
    """Parameters of Megatron-LM's GPTModel, all its tables with the rows that it adds."""
    numbers: dict[str, Any] = {name: int(value) for name, value in arguments.items() if value.isdigit()}
    h, layers, heads = (numbers[name] for name in ("hidden-size", "num-layers", "num-attention-heads"))
    bias = "disable-bias-linear" not in arguments
    norms = {"RMSNorm": 1, "LayerNorm": 2}[arguments["normalization"]]
    tables = padded_rows(arguments) * h * (1 + ("untie-embeddings-and-output-weights" in arguments))
    if arguments["position-embedding-type"] == "learned_absolute":
        tables += numbers["max-position-embeddings"] * h
    if "multi-latent-attention" in arguments:
        rank, rotary = numbers["kv-lora-rank"], numbers["qk-pos-emb-head-dim"]
        key, value, queries = numbers["qk-head-dim"], numbers["v-head-dim"], numbers.get("q-lora-rank")
        wide = heads * (key + rotary)
        attention = wide * h if queries is None else queries * (h + wide + norms)
        attention += (rank + rotary) * h + rank * (norms + heads * (key + value)) + heads * value * h
    else:
        width, groups = numbers["kv-channels"], numbers.get("num-query-groups", heads)
        made = (heads + 2 * groups) * width
        attention = made * h + heads * width * h + bias * h + (bias or "add-qkv-bias" in arguments) * made
        attention += 2 * width * norms * ("qk-layernorm" in arguments)
    gated = "swiglu" in arguments

    def network(inner: int) -> int:
        return (2 + gated) * h * inner + bias * ((1 + gated) * inner + h)

    total = tables + norms * h + layers * (attention + 2 * norms * h)
    sparse = eval(arguments.get("moe-layer-freq", "[1]" if "num-experts" in arguments else "[0]"))  # of this project
    sparse *= layers // len(sparse)
    assert len(sparse) == layers
    if any(sparse):
        shared = numbers.get("moe-shared-expert-intermediate-size", 0)
        each = numbers["num-experts"] * (h + network(numbers["moe-ffn-hidden-size"])) + (shared and network(shared))
        each += h * ("moe-shared-expert-gate" in arguments)
        each += numbers["num-experts"] * ("moe-router-enable-expert-bias" in arguments)  # a buffer there
        total += sum(sparse) * each
    return total + (layers - sum(sparse)) * (0 if all(sparse) else network(numbers["ffn-hidden-size"]))


def padded_rows(arguments: dict[str, str]) -> int:
    """Rows of a table of tokens: NullTokenizer adds one token, and the rest fills the devices."""
    multiple = int(arguments.get("make-vocab-size-divisible-by", 128)) * int(arguments["tensor-model-parallel-size"])
    return -(-(int(arguments["vocab-size"]) + 1) // multiple) * multiple
