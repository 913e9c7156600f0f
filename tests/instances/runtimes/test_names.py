"""Names of nodes tell the layers and the modules of a network: found, called as the network calls them, or refused."""

from __future__ import annotations

import ast
import json

import numpy as np
import pytest
from runtime_cuts import chain, cut

from instances import ComputationGraph, InputError, Instance, Partition, Platform
from instances.architectures import ARCHITECTURES
from instances.runtimes import RUNTIMES
from instances.runtimes.layers import LayerStack


def test_openvino_names_each_operator() -> None:
    """Any cut is legal there; two operators of a name are refused, and empty stages take no device."""
    graph = chain(2)
    partition = Partition(Instance(graph, Platform(3, 1.0)), [0, 0, 0, 2, 2, 2, 2, 2])
    words = RUNTIMES["openvino"].settings(partition)
    values = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(words).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert values["DEVICES"] == ["GPU.0", "GPU.1"]
    assert [values["STAGE"][name] for name in graph.names] == [0, 0, 0, 1, 1, 1, 1, 1]
    assert not RUNTIMES["openvino"].rules(graph)
    twice = ComputationGraph.from_edges([(0, 1)], work=[1, 1], names=("a", "a"))
    with pytest.raises(InputError, match="2 operators are called a"):
        RUNTIMES["openvino"].settings(Partition(Instance(twice, Platform(1, 1.0)), [0, 0]))


def test_names_of_operators_run_nothing_in_a_program() -> None:
    """They are texts of it, whatever is in them."""
    evil = 'x"}\nimport os; os.abort() #{{}}\\'
    graph = ComputationGraph.from_edges([(0, 1)], work=[1, 1], names=(evil, "b"))
    words = RUNTIMES["openvino"].settings(Partition(Instance(graph, Platform(2, 1.0)), [0, 1]))
    (stage,) = (node.value for node in ast.parse(words).body if ast.unparse(node).startswith("STAGE"))
    assert ast.literal_eval(stage) == {evil: 0, "b": 1}


def test_modules_are_called_as_the_network_calls_them() -> None:
    """Whatever its names are, and built-in networks as transformers calls them; what nothing tells is refused."""
    paths = {"front": ("transformer.wte.embedding", "transformer.wpe.embedding"), "stem": "transformer.h"}
    graph = chain(2, **paths, back=("transformer.ln_f.native_layer_norm", "lm_head.mm"))  # type: ignore[arg-type]
    devices = json.loads(RUNTIMES["accelerate"].settings(cut(graph, [0, 0, 1, 1], 2)))
    before = {"transformer.wte": 0, "transformer.wpe": 0, "transformer.h.0": 0}
    assert devices == before | {"transformer.h.1": 1, "transformer.ln_f": 1, "lm_head": 1}
    assert '"transformer.ln_f": SplitPoint.BEGINNING' in RUNTIMES["torch"].settings(cut(graph, [0, 0, 0, 1], 2))
    built_in = {
        "gpt2": ("transformer.wte", "transformer.h.0", "lm_head"),
        "bert-base": ("embeddings", "encoder.layer.0", "pooler"),
    }
    built_in["llama-3-8b"] = ("model.embed_tokens", "model.layers.0", "model.norm")
    for name, expected in built_in.items():
        own = ARCHITECTURES[name].build(level="layer")
        words = RUNTIMES["accelerate"].settings(Partition(Instance(own, Platform(1, 1.0)), np.zeros(own.n, dtype=int)))
        assert set(expected) <= set(json.loads(words))
        assert len(json.loads(words)) == {"gpt2": 2 + 12 + 2, "bert-base": 1 + 12 + 1, "llama-3-8b": 1 + 32 + 2}[name]


@pytest.mark.parametrize(
    ("network", "runtime"), [("vit-b16", "accelerate"), ("vit-b16", "torch"), ("bert-base", "torchtitan")]
)
def test_names_that_nothing_tells_are_refused(network: str, runtime: str) -> None:
    """By the words and by the rules alike, in one line."""
    graph = ARCHITECTURES[network].build(level="layer")
    for refused in (
        lambda: RUNTIMES[runtime].rules(graph),
        lambda: RUNTIMES[runtime].settings(Partition(Instance(graph, Platform(1, 1.0)), np.zeros(graph.n, dtype=int))),
    ):
        with pytest.raises(InputError, match="nothing tells the names of its modules"):
            refused()


def test_a_module_on_both_ends_is_not_torn() -> None:
    """accelerate has one device for a module, also for one that is called twice."""
    graph = chain(2, back=("model.embed_tokens.mm",))
    assert json.loads(RUNTIMES["accelerate"].settings(cut(graph, [0, 0, 0, 0], 2)))["model.embed_tokens"] == 0
    with pytest.raises(InputError, match=r"model\.embed_tokens of tiny runs in stages 0 and 1"):
        RUNTIMES["accelerate"].settings(cut(graph, [0, 0, 1, 1], 2))


@pytest.mark.parametrize("level", ["operator", "layer"])
@pytest.mark.parametrize("name", [name for name, network in ARCHITECTURES.items() if network.served])
def test_layers_of_the_decoders(name: str, level: str) -> None:
    """They are found by names; experts belong to their layer."""
    stack = LayerStack.of(ARCHITECTURES[name].build(level=level))
    assert stack.stem == "decoder"
    assert stack.layers == {"gpt2": 12, "llama-3-70b": 80}.get(name, 32)
    assert stack.members(0)
    assert stack.members(stack.layers + 1)


def test_layers_by_paths() -> None:
    """Names of ONNX and PyTorch programs, and what has no number, between layers and beside them."""
    names = ("ids", "mask", "/model/layers.0/mlp/MatMul", "Cast", "/model/layers.1/mlp/MatMul", "constant", "/lm_head")
    edges = [(0, 2), (1, 4), (2, 3), (3, 4), (4, 6), (5, 6)]
    graph = ComputationGraph.from_edges(edges, work=[1.0] * 7, names=names)
    stack = LayerStack.of(graph)
    assert (stack.stem, stack.unit.tolist()) == ("model.layers", [0, 0, 1, 1, 2, 3, 3])


def test_the_stack_with_most_of_the_work_counts() -> None:
    """The encoder before it is no layer; of two lists in turns, the other one lies in its layers."""
    names = ("encoder.0", "encoder.1", "decoder.0", "decoder.1")
    edges = [(0, 1), (1, 2), (2, 3), (1, 3)]
    graph = ComputationGraph.from_edges(edges, work=[1.0, 1.0, 2.0, 2.0], names=names)
    stack = LayerStack.of(graph)
    assert (stack.stem, stack.unit.tolist()) == ("decoder", [0, 0, 1, 2])
    names = ("attention.0", "experts.0", "attention.1", "experts.1", "head")
    path = [(0, 1), (1, 2), (2, 3), (3, 4)]
    stack = LayerStack.of(ComputationGraph.from_edges(path, work=[1.0, 9.0, 1.0, 9.0, 1.0], names=names))
    assert (stack.stem, stack.unit.tolist()) == ("experts", [0, 1, 1, 2, 3])


@pytest.mark.parametrize(
    ("names", "edges", "words"),
    [
        (("a", "b"), [(0, 1)], "tell of no layers"),
        (("x.0", "x.1", "y.0", "y.1"), [(0, 1), (1, 2), (2, 3)], "2 stacks of layers"),
        (("x.0", "x.2"), [(0, 1)], "but none x.1"),
        (("x.1", "x.0"), [(0, 1)], "not in a row"),
        (("x.0", "x.1"), [], "not in a row"),
    ],
)
def test_what_has_no_layers_is_refused(names: tuple[str, ...], edges: list[tuple[int, int]], words: str) -> None:
    """One line says why."""
    graph = ComputationGraph.from_edges(edges, work=[1.0] * len(names), names=names)
    with pytest.raises(InputError, match=words):
        RUNTIMES["vllm"].rules(graph)


def test_names_write_no_program() -> None:
    """What stands before a number goes into settings and programs, so that it has to be a path."""
    hostile = 'x"]; import os #'
    graph = ComputationGraph.from_edges([(0, 1)], work=[1, 1], names=(f"{hostile}.layers.0", f"{hostile}.layers.1"))
    with pytest.raises(InputError, match="tell of no layers"):
        RUNTIMES["torch"].settings(Partition(Instance(graph, Platform(2, 1.0)), [0, 1]))
    ends = chain(2, back=(f"{hostile}.mm",))
    for name in ("torch", "torchtitan", "accelerate"):
        with pytest.raises(InputError, match="is no path of a module"):
            RUNTIMES[name].settings(cut(ends, [0, 0, 0, 0], 1))
