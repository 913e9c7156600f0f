"""The numbers of which questions are made, in golden_questions.json: networks, layers with their ways, random graphs.

Other tests hold counts of parameters and operations against publications; these notice when anything else changes, such
as the bytes of one operator. ``make golden`` writes them anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import pytest
from golden_numbers import digest, same, write

from instances import ComputationGraph
from instances.architectures import ARCHITECTURES
from instances.json_files import parse_json
from instances.placement.networks import PLACEMENT_FAMILIES
from instances.planning import LayerChain, TrainingInstance
from instances.planning.chains import TRAINED_MODELS, bert_chain, by_block, collapse, simulation
from instances.planning.grid import Servers
from instances.planning.grid.accelerators import ACCELERATORS
from instances.planning.grid.configurations import ConfiguredChain
from instances.planning.grid.layers import Clockwork, LayerCosts, configured
from instances.planning.grid.transformer import TRANSFORMERS
from instances.random_graphs import GRAPH_MODELS, TOYS, layered, moe, regal_style
from instances.readers.huggingface import configured_architecture
from instances.readers.huggingface.configuration import model_types

FILE = Path(__file__).with_name("golden_questions.json")

#: Tensor, context and expert degree.
DENSE, SPARSE = ((1, 1, 1), (2, 1, 1), (4, 2, 1)), ((1, 1, 1), (2, 1, 2), (4, 2, 4), (8, 1, 8))
#: Small sizes for each type of configuration; the other fields have the defaults of the type.
SIZES = {**dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 9), "n_positions": 8192}
#: Fields without which a type is refused.
NEEDED: dict[str, dict[str, object]] = {
    "gemma4_text": {"hidden_size_per_layer_input": 0},
    "gpt_neo": {"attention_types": [[["global", "local"], 4], [["global"], 1]]},
    "deepseek_v2": {"num_experts_per_tok": 6},
    "dots1": {"n_routed_experts": 8, "num_experts_per_tok": 2},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention"] * 3},
}


def of_graph(graph: ComputationGraph) -> list[float]:
    edges = (graph.edges * [1, 3]).sum(axis=1)
    shared = [parameter.bytes * len(parameter.users) for parameter in graph.parameters]
    rows = (graph.work, graph.param_bytes, graph.state_bytes, graph.tensors.bytes, edges, shared, map(len, graph.names))
    counts = [float(graph.attributes.get(name, 0)) for name in ("flops", "multiply_adds", "parameter_count")]
    return [graph.n, *counts, *(number for row in rows for number in digest(row))]


def of_configured(chain: ConfiguredChain) -> list[float]:
    """Of all ways to run the layers."""
    ways = [way for layer in chain.layers for way in layer.configurations]
    columns = zip(*(number_row(astuple(way)) for way in ways), strict=True)
    return [chain.flops or 0.0, *(number for column in columns for number in digest(column))]


def number_row(values: tuple[object, ...]) -> list[float]:
    return [float(len(value)) if isinstance(value, str) else float(value) for value in values]  # type: ignore[arg-type]


def of_chain(chain: LayerChain) -> list[float]:
    rows = (chain.forward, chain.backward, chain.forward_bytes, chain.backward_bytes, chain.param_bytes)
    return [number for row in rows for number in digest(row)]


def of_training(question: TrainingInstance) -> list[float]:
    return [*of_chain(question.chain), *digest(question.cluster.bandwidth.ravel()), question.microbatches]


def _grid(name: str, device: str, fused: bool) -> ConfiguredChain:
    model, accelerator = TRANSFORMERS[name], ACCELERATORS[device]
    costs = LayerCosts(model, Clockwork(accelerator, 300e9), 2, 1024, 2, Servers(4, 4, 300e9, 25e9), fused)
    return configured(costs, SPARSE if model.experts else DENSE, "bf16")


def _read(kind: str) -> list[float]:
    """A decoder's prompt, whole and in parts, and one token; an encoder's text."""
    longest = "max_seq_len" if kind == "mpt" else "max_position_embeddings"
    fields = {"model_type": kind, longest: 8192, **SIZES, **NEEDED.get(kind, {})}
    architecture, doubts = configured_architecture(parse_json(json.dumps(fields), "c.json"), kind)
    prompt = {"phase": "prefill", "sequence": 64, "context": 100, "kv_bytes": 1}
    steps = [{}, prompt, {"phase": "decode", "context": 5000}] if architecture.served else [{}]
    graphs = [architecture.build(batch=2, **{"sequence": 32, **step}) for step in steps[:2]]  # type: ignore[arg-type]
    graphs += [architecture.build(batch=2, **step) for step in steps[2:]]  # type: ignore[arg-type]
    return [len(doubts), *(number for graph in graphs for number in of_graph(graph))]


CASES: dict[str, Callable[[], list[float]]] = {
    **{name: lambda network=network: of_graph(network.build()) for name, network in ARCHITECTURES.items()},  # type: ignore[misc]
    **{
        f"{name}, training": lambda network=network: of_graph(network.build(training=True, level="layer"))  # type: ignore[misc]
        for name, network in ARCHITECTURES.items()
    },
    **{
        f"{name} on {device}, {'fused' if fused else 'unfused'}": lambda name=name, device=device, fused=fused: (  # type: ignore[misc]
            of_configured(_grid(name, device, fused))
        )
        for name, device in zip(TRANSFORMERS, [*ACCELERATORS, *ACCELERATORS], strict=False)
        for fused in (True, False)
    },
    **{f"random {name}": lambda name=name: of_graph(regal_style(name, 30, seed=2)) for name in GRAPH_MODELS},  # type: ignore[misc]
    **{f"toy {name}": lambda make=make: of_graph(make()[0].graph) for name, make in TOYS.items()},  # type: ignore[misc]
    "layered": lambda: of_graph(layered(60, 150, seed=3)),
    "experts": lambda: of_graph(moe(3, 4)),
    **{
        f"{name} {seed}": lambda family=family, seed=seed: of_graph(family.graph(seed))  # type: ignore[misc]
        for name, family in PLACEMENT_FAMILIES.items()
        for seed in (1, 2)
    },
    "bert": lambda: of_chain(bert_chain(5, microbatch=3, sequence=256, activation_scale=2.0)),
    **{f"simulation {seed}": lambda seed=seed: of_training(simulation(seed)) for seed in range(3)},  # type: ignore[misc]
    **{
        f"{name} on a testbed": lambda model=model: of_training(model.instance("1080ti-8"))  # type: ignore[misc]
        for name, model in TRAINED_MODELS.items()
    },
    "chain of a network": lambda: of_chain(collapse(ARCHITECTURES["inception-v3"].build())),
    "chain of blocks": lambda: of_chain(by_block(collapse(ARCHITECTURES["gpt2"].build(training=True)))),
    **{f"configured {kind}": lambda kind=kind: _read(kind) for kind in [*model_types(), *model_types("encoders")]},  # type: ignore[misc]
}


@pytest.mark.parametrize("name", CASES)
def test_a_question_keeps_its_numbers(name: str) -> None:
    assert same(CASES[name](), json.loads(FILE.read_text())[name])


if __name__ == "__main__":
    write(FILE, {name: make() for name, make in CASES.items()})
