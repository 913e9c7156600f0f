"""Pages of deployments: chains, their stages, and what fills the devices."""

from __future__ import annotations

from collections.abc import Iterator

from instances.graph.display import figures
from instances.results import Bound
from instances.serving.answer import Deployment
from instances.serving.costs import costs_of
from instances.serving.problem import PICO
from mtpp.plots.sections import Chart, Kind, Section, Table, stacked
from mtpp.text.numbers import Scale

_NAMES = "chain and layers"


def deployment_question(answer: Deployment) -> dict[str, str]:
    """The question of a deployment, label to text."""
    question = answer.instance
    widths = f"weights {question.weights}, keys and values {question.kv}"
    return {
        "model": f"{question.model.name}, {question.model.layers} layers, {widths}",
        "servers": ", ".join(servers.label for servers in question.servers),
        "workload": f"prompts of {question.input} tokens, outputs of {question.output}",
        "objective": f"{question.objective} of {question.topology}",
    }


def deployment_sections(answer: Deployment, bound: Bound | None) -> Iterator[Section]:
    """All sections, one after the other."""
    yield Section("Time of each stage in a step", chart=time_chart(answer))
    yield Section("Memory of a device of each stage", chart=memory_chart(answer))
    words = [f"{name}: {value}" for name, value in answer.measures.items()]
    if bound is not None and answer.instance.objective != "cost":
        words.append(f"no deployment of chains gives more than {figures(1 / bound.value, 'tokens/s')}.")
    yield Section("Chains", sentences=words, table=Table(*answer._rows()))


def _labels(answer: Deployment) -> list[str]:
    """Number of the chain and layers of each stage."""
    return [
        f"{c}: {stage.first}–{stage.end - 1}"
        for c, (_, chain, _) in enumerate(answer.pools, 1)
        for stage in chain.chain.stages
    ]


def time_chart(answer: Deployment) -> Chart:
    """A bar for each stage of each chain that differs."""
    times = [time / PICO for _, chain, _ in answer.pools for time in chain.stage_times]
    scale = Scale.of_numbers(times, "s")
    return stacked(
        _labels(answer), {"work": times}, scale, "chain and layers", axis="time of a step", kinds={"work": "step"}
    )


def memory_chart(answer: Deployment) -> Chart:
    """Weights, caches of all sequences in flight, and what is free, of a device of each stage [GB]."""
    room = costs_of(answer.instance).room
    rows = [
        (weights / 1e9, caches / 1e9, float(room[stage.servers] - weights - caches) / 1e9)
        for _, chain, _ in answer.pools
        for stage, weights, caches in zip(chain.chain.stages, chain.weight_bytes, chain.cache_bytes, strict=True)
    ]
    parts = {"weights": [r[0] for r in rows], "send": [r[1] for r in rows], "spare": [r[2] for r in rows]}
    scale = Scale.of_numbers([sum(row) for row in rows], "GB")
    kinds: dict[Kind, str] = {"weights": "weights", "send": "caches", "spare": "free"}
    return stacked(_labels(answer), parts, scale, _NAMES, axis="memory of a device", kinds=kinds)
