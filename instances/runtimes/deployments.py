"""Deployments in the words of runtimes: what starts each chain that differs, with its devices as a comment."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from instances.errors import InputError, word
from instances.runtimes.layer_counts import ServerStages, llama_words, sglang_words, tensorrt_words, vllm_words
from instances.serving.answer import Deployment, ServedChain

_WORDS = {"vllm": vllm_words, "sglang": sglang_words, "tensorrt-llm": tensorrt_words, "llama-cpp": llama_words}


def writers() -> dict[str, Callable[[Deployment], str]]:
    """Function that writes a deployment, for each runtime."""
    return {name: partial(deployment_settings, runtime=name) for name in _WORDS}


def deployment_settings(answer: Deployment, runtime: str) -> str:
    """Words of all chains, one after the other.

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
    """Stages with the longest sequence; llama.cpp divides its room evenly, and other runtimes may preempt."""
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
