"""What runtimes are handed says the same cut again, and their rules allow exactly what they can be handed."""

from __future__ import annotations

import json
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime_readers import READERS

from instances import ComputationGraph, InputError, Instance, Partition, Platform, SharedParameter
from instances.architectures import ARCHITECTURES
from instances.planning import Cluster, TrainingInstance
from instances.planning.bert import bert_chain
from instances.planning.plan import Plan
from instances.runtimes import RUNTIMES
from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.layer_stack import LayerStack

BY_LAYERS = list(READERS)


def chain(layers: int, *, front: int = 2, back: int = 1, stem: str = "decoder") -> ComputationGraph:
    """Nodes before the layers, two nodes a layer, and nodes after them."""
    inner = [f"{stem}.{i}.{part}" for i in range(layers) for part in ("attention", "mlp")]
    names = (*(f"front{i}" for i in range(front)), *inner, *(f"back{i}" for i in range(back)))
    n = len(names)
    return ComputationGraph.from_edges(
        pairwise(range(n)), work=[1.0] * n, output_bytes=[1.0] * n, names=names, name="tiny"
    )


def cut(graph: ComputationGraph, units: list[int], k: int) -> Partition:
    """The partition that has each unit in a stage."""
    return Partition(Instance(graph, Platform(k, 1.0)), [units[u] for u in LayerStack.of(graph).unit])


def legal(name: str, units: list[int], k: int) -> bool:
    """Whether a runtime runs it, said once more from the documents of the runtimes."""
    layers = units[1:-1]
    held = {"megatron": units, "torchtitan": units, "torch": units}.get(name, layers)
    free_back = name in ("megatron", "torchtitan", "torch", "llama-cpp", "accelerate")
    free_front = free_back and name != "llama-cpp"
    return (
        (name in ("llama-cpp", "accelerate") or set(held) == set(range(k)))
        and (free_front or units[0] == layers[0])
        and (free_back or units[-1] == layers[-1])
    )


@pytest.mark.parametrize("name", BY_LAYERS)
@given(st.data())
def test_words_say_the_cut(name: str, data: st.DataObject) -> None:
    """A reader that was written from the runtime's rules gives the stage of each unit again, or the cut is refused."""
    layers, k = data.draw(st.integers(2, 40)), data.draw(st.integers(1, 6))
    units = sorted(data.draw(st.lists(st.integers(0, k - 1), min_size=layers + 2, max_size=layers + 2)))
    graph = chain(layers)
    if not legal(name, units, k):
        with pytest.raises(InputError, match=f"runtime='{name}'"):
            RUNTIMES[name].settings(cut(graph, units, k))
        return
    assert READERS[name](RUNTIMES[name].settings(cut(graph, units, k)), layers, k) == units


@pytest.mark.parametrize("name", BY_LAYERS)
def test_rules_are_what_can_be_said(name: str) -> None:
    """Of all blocks of a small graph the constraints allow those, and only those, that the runtime expresses."""
    graph, k = chain(3, front=1), 3
    runtime = RUNTIMES[name]
    rules = runtime.rules(graph)
    seen = set()
    for block in product(range(k), repeat=graph.n):
        if any(a > b for a, b in pairwise(block)):
            continue
        try:
            words = runtime.settings(Partition(Instance(graph, Platform(k, 1.0)), block))
        except InputError:
            words = None
        try:
            Partition(Instance(graph, Platform(k, 1.0), constraints=rules), block)
            allowed = True
        except InputError:
            allowed = False
        assert allowed == (words is not None), block
        seen.add(words)
    assert len(seen - {None}) >= 1


def test_examples_of_the_documents() -> None:
    """Texts as the runtimes' documents show them."""
    graph = chain(61)
    stages = [0] + 16 * [0] + 15 * [1] + 15 * [2] + 15 * [3] + [3]
    partition = cut(graph, stages, 4)
    assert RUNTIMES["vllm"].settings(partition) == "VLLM_PP_LAYER_PARTITION=16,15,15,15\n"
    assert "pp_partition: [16, 15, 15, 15]" in RUNTIMES["tensorrt-llm"].settings(partition)
    assert RUNTIMES["llama-cpp"].settings(partition) == "-ngl 999 -sm layer -ts 16,15,15,16\n"
    assert '"Et*16|t*15|t*15|t*15L"' in RUNTIMES["megatron"].settings(partition)
    deep = [0, 0, 0, 0] + [1 + i // 2 for i in range(58)] + [30]
    assert '"Et*3|(tt|)*29L"' in RUNTIMES["megatron"].settings(cut(graph, deep, 31))
    options = "--pipeline-model-parallel-size 31 --pipeline-model-parallel-layout"
    assert READERS["megatron"](f'{options} "Et*3|(tt|)*29,L"\n', 61, 31) == deep


def test_openvino_names_each_operator() -> None:
    """Any cut is legal there; two operators of a name are refused."""
    graph = chain(2)
    partition = Partition(Instance(graph, Platform(2, 1.0)), [0, 0, 0, 1, 1, 1, 1])
    fields = json.loads(RUNTIMES["openvino"].settings(partition))
    assert fields["device"] == "HETERO:GPU.0,GPU.1"
    assert [fields["affinity"][name] for name in graph.names] == [f"GPU.{b}" for b in partition.block]
    assert not RUNTIMES["openvino"].rules(graph)
    twice = ComputationGraph.from_edges([(0, 1)], work=[1, 1], names=("a", "a"))
    with pytest.raises(InputError, match="2 operators are called a"):
        RUNTIMES["openvino"].settings(Partition(Instance(twice, Platform(1, 1.0)), [0, 0]))


def test_torch_calls_the_norm_of_gpt2_by_its_name() -> None:
    """Where a stage has no layer, it begins with that."""
    words = RUNTIMES["torch"].settings(cut(chain(2, stem="transformer.h"), [0, 0, 0, 1], 2))
    assert '"transformer.ln_f": SplitPoint.BEGINNING' in words
    words = RUNTIMES["torch"].settings(cut(chain(2, stem="model.layers"), [0, 0, 0, 1], 2))
    assert '"model.norm": SplitPoint.BEGINNING' in words


def test_torch_splits_where_it_is_told() -> None:
    """PyTorch's own tracer makes the stages of the cut."""
    torch = pytest.importorskip("torch")
    pipelining = pytest.importorskip("torch.distributed.pipelining")

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embeddings = torch.nn.Linear(4, 4)
            self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(5)])
            self.norm = torch.nn.LayerNorm(4)

        def forward(self, x):  # type: ignore[no-untyped-def]
            x = self.embeddings(x)
            for layer in self.layers:
                x = layer(x)
            return self.norm(x)

    units = [0, 0, 0, 1, 1, 1, 2]
    scope: dict[str, object] = {}
    exec(RUNTIMES["torch"].settings(cut(chain(5), units, 3)), scope)
    pipe = pipelining.pipeline(Net(), mb_args=(torch.zeros(2, 4),), split_spec=scope["split_spec"])
    held = [{key.rpartition(".")[0] for key in pipe.get_stage_module(n).state_dict()} for n in range(3)]
    assert held == [{"embeddings", "layers.0", "layers.1"}, {"layers.2", "layers.3", "layers.4"}, {"norm"}]


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


def test_a_cut_layer_is_refused() -> None:
    """The message names the layer and the stages."""
    with pytest.raises(InputError, match=r"in decoder\.1 lies in stages 0 to 1"):
        LayerCut.of(Partition(Instance(chain(2), Platform(2, 1.0)), [0, 0, 0, 0, 0, 1, 1]))


def test_accelerate_keeps_tied_parameters_together() -> None:
    """The head that uses the table of the embeddings is on their device, or the cut is refused."""
    plain = chain(2)
    tied = SharedParameter("words", 8.0, (0, plain.n - 1))
    graph = ComputationGraph(plain.work, plain.param_bytes, plain.tensors, plain.names, (tied,))
    assert json.loads(RUNTIMES["accelerate"].settings(cut(graph, [0, 0, 0, 0], 2)))["lm_head"] == 0
    with pytest.raises(InputError, match="tied parameters"):
        RUNTIMES["accelerate"].settings(cut(graph, [0, 0, 1, 1], 2))


def test_more_blocks_than_layers() -> None:
    """No question has more stages than layers; one line."""
    graph = chain(3)
    with pytest.raises(InputError, match="give a smaller k"):
        Instance(graph, Platform(4, 1.0), constraints=RUNTIMES["vllm"].rules(graph))


def bert_plan(cuts: tuple[int, ...], devices: tuple[tuple[int, ...], ...]) -> Plan:
    cluster = Cluster(np.full(2 * (max(map(max, devices)) + 1,), 1e9))
    return Plan(TrainingInstance(bert_chain(layers=4), cluster, 2), cuts, devices)


def test_plans_speak_too() -> None:
    """A plan is cut between the layers of its chain; replicas are equal or refused."""
    plan = bert_plan((0, 3, 7), ((0,), (1,)))
    assert RUNTIMES["vllm"].settings(plan) == "VLLM_PP_LAYER_PARTITION=2,2\n"
    assert LayerCut.of(bert_plan((0, 3, 7), ((0, 1), (2, 3)))).replicas == 2
    with pytest.raises(InputError, match="1 to 2 devices"):
        RUNTIMES["vllm"].settings(bert_plan((0, 3, 7), ((0,), (1, 2))))
    with pytest.raises(InputError, match="after the layers lies in stages 1 to 2"):
        RUNTIMES["vllm"].settings(bert_plan((0, 3, 6, 7), ((0,), (1,), (2,))))
    with pytest.raises(InputError, match="give a partition"):
        RUNTIMES["openvino"].settings(plan)
