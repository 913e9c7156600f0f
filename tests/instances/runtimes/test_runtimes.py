"""What runtimes are handed says the same cut again, and their rules allow exactly what they can be handed."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime_cuts import chain, cut
from runtime_pairs import pairs
from runtime_readers import READERS

from instances import ComputationGraph, InputError, Instance, Partition, Platform, SharedParameter
from instances.architectures import ARCHITECTURES
from instances.planning import Cluster, TrainingInstance
from instances.planning.chains import bert_chain
from instances.planning.plan import Plan
from instances.runtimes import RUNTIMES
from instances.runtimes.layers import LayerCut
from mtpp.questions.partitioning import PartitioningWords, instances_of
from mtpp.questions.words import checked

BY_LAYERS = list(READERS)


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


def ranks(stages: list[int]) -> list[int]:
    """The same stages without holes between their numbers."""
    return [sorted(set(stages)).index(stage) for stage in stages]


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
    told = READERS[name](RUNTIMES[name].settings(cut(graph, units, k)), layers, k)
    if name in ("accelerate", "llama-cpp"):  # empty stages take no device
        units = ranks(units if name == "accelerate" else [units[1], *units[1:]])
    assert told == units


@pytest.mark.parametrize("name", BY_LAYERS)
def test_rules_are_what_can_be_said(name: str) -> None:
    """Of all blocks of a small graph the constraints allow those, and only those, that the runtime expresses."""
    graph, k = chain(3, front=("model.embed_tokens.gather",), back=("lm_head.mm",)), 3
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


def test_what_is_allowed_is_what_is_written() -> None:
    """Of random networks with shared modules, code between layers, and ends without weights, in any blocks."""
    allowed, wrong = pairs(150, seed=5)
    assert wrong == []
    assert allowed.total() > 30


def test_examples_of_the_documents() -> None:
    """Texts as the runtimes' documents show them."""
    graph = chain(61)
    stages = [0] + 16 * [0] + 15 * [1] + 15 * [2] + 15 * [3] + [3]
    partition = cut(graph, stages, 4)
    assert RUNTIMES["vllm"].settings(partition) == (
        'VLLM_PP_LAYER_PARTITION=16,15,15,15 vllm serve "$MODEL" --tensor-parallel-size 1 --pipeline-parallel-size 4\n'
    )
    assert "pp_partition: [16, 15, 15, 15]" in RUNTIMES["tensorrt-llm"].settings(partition)
    assert RUNTIMES["llama-cpp"].settings(partition) == "-ngl 999 -sm layer -ts 16,15,15,16\n"
    assert '"Et*16|t*15|t*15|t*15L"' in RUNTIMES["megatron"].settings(partition)
    deep = [0, 0, 0, 0] + [1 + i // 2 for i in range(58)] + [30]
    assert '"Et*3|(tt|)*29L"' in RUNTIMES["megatron"].settings(cut(graph, deep, 31))
    options = "--pipeline-model-parallel-size 31 --pipeline-model-parallel-layout"
    assert READERS["megatron"](f'{options} "Et*3|(tt|)*29,L"\n', 61, 31) == deep


def test_releases_have_their_words() -> None:
    """The latest by default; one that is not known is refused, and says which are."""
    partition = cut(chain(2), [0, 0, 1, 1], 2)
    old = RUNTIMES["torchtitan"].of_version("0.2.1")
    parts = tomllib.loads(old.settings(partition))["parallelism"]["module_fqns_per_model_part"]
    assert parts == [["model.embed_tokens", "model.layers.0"], ["model.layers.1", "model.norm", "lm_head"]]
    assert RUNTIMES["torchtitan"].of_version("0.3.0") is RUNTIMES["torchtitan"].of_version(None)
    llama = ARCHITECTURES["llama-3-8b"].build(level="layer")
    whole = Partition(Instance(llama, Platform(1, 1.0)), np.zeros(llama.n, dtype=int))
    assert '"norm", "output"' in old.settings(whole)
    assert '"norm", "lm_head"' in RUNTIMES["torchtitan"].settings(whole)
    for name, version, words in (
        ("torchtitan", "0.30", "known of 0.3, 0.2"),
        ("vllm", "9", "the same settings in all"),
    ):
        with pytest.raises(InputError, match=words):
            RUNTIMES[name].of_version(version)


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq, which the command calls, is not installed")
def test_the_command_for_exo_changes_a_placement_as_exo_gives_it() -> None:
    """Nodes get their layers by their ranks, whatever their order; on another number of nodes it fails, with why."""
    words = RUNTIMES["exo"].settings(cut(chain(7), [0, 0, 0, 1, 1, 1, 1, 2, 2], 3))
    ask, change, send = (shlex.split(command) for command in re.split(r" \| (?=jq|curl)", words))
    assert ask[:3] == ["curl", "-fsG", "$EXO/instance/placement"]
    assert send[:3] == ["curl", "-fs", "$EXO/instance"]

    def changed(ranks: list[int]) -> subprocess.CompletedProcess[str]:
        shard = {"worldSize": 3, "startLayer": 0, "endLayer": 7, "nLayers": 7}
        runners = {f"runner-{r}": {"PipelineShardMetadata": shard | {"deviceRank": r}} for r in ranks}
        instance = {"instanceId": "1", "shardAssignments": {"modelId": "m", "runnerToShard": runners}}
        text = json.dumps({"MlxRingInstance": instance | {"ephemeralPort": 5}})
        return subprocess.run(change, input=text, capture_output=True, text=True, check=False)

    instance = json.loads(changed([2, 0, 1]).stdout)["instance"]["MlxRingInstance"]
    assert (instance["instanceId"], instance["ephemeralPort"]) == ("1", 5)
    shards = instance["shardAssignments"]["runnerToShard"]
    assert [tuple(shards[f"runner-{r}"]["PipelineShardMetadata"].values())[1:] for r in range(3)] == [
        (0, 2, 7, 0),
        (2, 6, 7, 1),
        (6, 7, 7, 2),
    ]
    failed = changed([0, 1])
    assert failed.returncode != 0
    assert "2 nodes for 3 stages" in failed.stderr


def test_llama_cpp_keeps_the_embeddings_on_the_host() -> None:
    """They cost no device anything, and the head that uses their table has it for itself."""
    plain = chain(2)
    graph = ComputationGraph(
        plain.work, plain.param_bytes, plain.tensors, plain.names, (SharedParameter("words", 8.0, (0, 7)),)
    )
    seen = RUNTIMES["llama-cpp"].seen(graph)
    assert seen.work.tolist() == [0, 0, 1, 1, 1, 1, 1, 1]
    assert seen.param_bytes.tolist() == [0, 0, 0, 0, 0, 0, 0, 8]
    assert seen.parameters == ()
    assert RUNTIMES["vllm"].seen(graph) is graph
    (question,) = instances_of(graph, 2, checked(PartitioningWords, {"runtime": "llama-cpp", "bandwidth": 1}))
    assert question.graph.work[0] == 0


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
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
    graph = chain(5, front=("embeddings.addmm",), stem="layers", back=("norm.native_layer_norm",))
    exec(RUNTIMES["torch"].settings(cut(graph, units, 3)), scope)
    pipe = pipelining.pipeline(Net(), mb_args=(torch.zeros(2, 4),), split_spec=scope["split_spec"])
    held = [{key.rpartition(".")[0] for key in pipe.get_stage_module(n).state_dict()} for n in range(3)]
    assert held == [{"embeddings", "layers.0", "layers.1"}, {"layers.2", "layers.3", "layers.4"}, {"norm"}]


def test_a_cut_layer_is_refused() -> None:
    """The message names the layer and the stages."""
    with pytest.raises(InputError, match=r"in model\.layers\.1 lies in stages 0 to 1"):
        LayerCut.of(Partition(Instance(chain(2), Platform(2, 1.0)), [0, 0, 0, 0, 0, 1, 1, 1]))


def test_tied_parameters_are_on_all_devices_that_use_them() -> None:
    """As they count in each stage that uses them; accelerate makes a copy."""
    plain = chain(2)
    tied = SharedParameter("words", 8.0, (0, plain.n - 1))
    graph = ComputationGraph(plain.work, plain.param_bytes, plain.tensors, plain.names, (tied,))
    partition = cut(graph, [0, 0, 1, 1], 2)
    assert json.loads(RUNTIMES["accelerate"].settings(partition)) == {
        "model.embed_tokens": 0,
        "model.layers.0": 0,
        "model.layers.1": 1,
        "lm_head": 1,
    }
    assert partition.param_bytes.tolist() == [8, 8]


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
    assert RUNTIMES["vllm"].settings(plan).startswith("VLLM_PP_LAYER_PARTITION=2,2 ")
    assert LayerCut.of(bert_plan((0, 3, 7), ((0, 1), (2, 3)))).replicas == 2
    with pytest.raises(InputError, match="1 to 2 devices"):
        RUNTIMES["vllm"].settings(bert_plan((0, 3, 7), ((0,), (1, 2))))
    with pytest.raises(InputError, match="after the layers lies in stages 1 to 2"):
        RUNTIMES["vllm"].settings(bert_plan((0, 3, 6, 7), ((0,), (1,), (2,))))
    with pytest.raises(InputError, match="give a partition"):
        RUNTIMES["openvino"].settings(plan)
