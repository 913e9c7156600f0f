"""Words for runtimes, judged by the installed programs themselves; `make runtimes` installs those that it can."""

from __future__ import annotations

import ast
import copy
import json
import os
import tomllib
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from installed_programs import function_of, needs
from runtime_cuts import cut

import mtpp
from instances import ComputationGraph, InputError
from instances.planning.grid import GridPlan
from instances.runtimes import RUNTIMES
from instances.runtimes.training import grid_settings


def decoder(layers: int) -> ComputationGraph:
    inner = (f"model.layers.{i}.mlp.mm" for i in range(layers))
    names = ("model.embed_tokens.gather", *inner, "model.norm.mul", "lm_head.mm")
    n = len(names)
    return ComputationGraph.from_edges(pairwise(range(n)), [1.0] * n, [1.0] * n, [1.0] * n, names=names)


@st.composite
def counts(draw: st.DrawFn) -> list[int]:
    """Layers of each stage, one or more."""
    return draw(st.lists(st.integers(1, 9), min_size=1, max_size=8).filter(lambda held: sum(held) > 1))


def units_of(held: list[int]) -> list[int]:
    return [0, *(stage for stage, count in enumerate(held) for _ in range(count)), len(held) - 1]


@given(counts())
def test_sglang_divides_as_told(held: list[int]) -> None:
    indices = function_of("sglang", "sglang/srt/distributed/utils.py", "get_pp_indices", os=os)
    layers, k = sum(held), len(held)
    words = RUNTIMES["sglang"].settings(cut(decoder(layers), units_of(held), k))
    name, _, value = words.split()[0].partition("=")
    os.environ[name] = value
    try:
        ends = list(accumulate(held, initial=0))
        if k > 1:
            assert [indices(layers, rank, k) for rank in range(k)] == list(pairwise(ends))
    finally:
        del os.environ[name]


@given(st.data())
def test_megatron_lays_layers_out(data: st.DataObject) -> None:
    """Its class reads the layout: each virtual stage has these letters, as many layers as there are."""
    module = needs("megatron-core", "megatron.core.transformer.pipeline_parallel_layer_layout")
    layers, k = data.draw(st.integers(2, 30)), data.draw(st.integers(1, 6))
    units = sorted(data.draw(st.lists(st.integers(0, k - 1), min_size=layers + 2, max_size=layers + 2)))
    partition = cut(decoder(layers), units, k)
    try:
        words = RUNTIMES["megatron"].settings(partition)
    except InputError:
        assert set(units) != set(range(k))  # a stage without anything
        return
    layout = module.PipelineParallelLayerLayout(words.split('"')[1], k)
    layout.validate_layer_layout(layers, None)
    counted = [[[part.name for part in stage] for stage in rank] for rank in layout.layout]
    assert [len(rank[0]) for rank in counted] == [units.count(n) for n in range(k)]
    assert counted[0][0][0] == "embedding"
    assert counted[-1][0][-1] == "loss"


def test_torchtitan_splits_a_model() -> None:
    """Its splitter keeps of a Llama of its own what the words name, in each stage; together they are the model."""
    torch = needs("torch")
    split = function_of(
        "torchtitan", "torchtitan/distributed/pipeline_parallel.py", "_split_module",
        copy=copy, nn=torch.nn, ModuleList=torch.nn.ModuleList, ModuleDict=torch.nn.ModuleDict,
    )  # fmt: skip

    class Llama(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tok_embeddings = torch.nn.Embedding(8, 4)
            self.layers = torch.nn.ModuleDict({str(i): torch.nn.Linear(4, 4) for i in range(32)})
            self.norm = torch.nn.LayerNorm(4)
            self.lm_head = torch.nn.Linear(4, 8)

    found = mtpp.partition("llama-3-8b", 3, "kahn", level="layer", runtime="torchtitan")
    (call,) = (node for node in ast.walk(ast.parse(mtpp.export(found, "torchtitan"))) if isinstance(node, ast.Call))
    fields = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    model = Llama()
    parts = [split(model, names) for names in fields["module_fqns_per_model_part"]]
    kept = [name for part in parts for name, _ in part.named_parameters()]
    assert sorted(kept) == sorted(name for name, _ in model.named_parameters())


def test_megatron_takes_the_layout_of_a_plan_in_turns() -> None:
    module = needs("megatron-core", "megatron.core.transformer.pipeline_parallel_layer_layout")
    plan = training_plan("megatron")
    words = dict(line.partition(" ")[::2] for line in grid_settings(plan, "megatron").splitlines())
    assert int(words["--pipeline-model-parallel-size"]) == plan.groups == 2
    layout = module.PipelineParallelLayerLayout(words["--pipeline-model-parallel-layout"].strip('"'), plan.groups)
    layout.validate_layer_layout(plan.instance.layers - 2, None)
    counted = [len(layout.layout[g][v]) for v in range(plan.turns) for g in range(plan.groups)]
    assert counted == np.diff(plan.cuts).tolist()


def test_torchtitan_knows_every_word_of_a_plan() -> None:
    """Members and values are those of its own records."""
    configs = needs("torchtitan", "torchtitan.config.configs")
    plan = training_plan("torchtitan")
    tables = tomllib.loads(grid_settings(plan, "torchtitan"))
    training = configs.TrainingConfig(**tables["training"])
    parallel = configs.ParallelismConfig(**tables["parallelism"])
    devices = parallel.data_parallel_replicate_degree * parallel.data_parallel_shard_degree
    assert devices * parallel.tensor_parallel_degree * parallel.pipeline_parallel_degree == plan.devices
    assert training.local_batch_size * devices == training.global_batch_size == 8
    assert len(parallel.module_fqns_per_model_part) == plan.stages


def training_plan(runtime: str) -> GridPlan:
    found = mtpp.train(
        "gpt2", "1x4", global_batch=8, bandwidth="100GB/s", device="A100-40", fix="pp=2,v=2", runtime=runtime
    )
    assert isinstance(found.answer, GridPlan)
    return found.answer


def test_deepspeed_takes_the_parts() -> None:
    """Its module, with its own topology and bounds, gives each stage the specs of the cut."""
    pipe = needs("deepspeed", "deepspeed.runtime.pipe.module")
    topology = needs("deepspeed", "deepspeed.runtime.pipe.topology")
    words = RUNTIMES["deepspeed"].settings(cut(decoder(9), units_of([4, 3, 2]), 3))
    scope: dict[str, Any] = {}
    exec(words.replace("from deepspeed.pipe import", "from deepspeed.runtime.pipe.module import"), scope)
    bounds = []
    for rank in range(3):
        module = object.__new__(scope["CutPipelineModule"])
        pipe.nn.Module.__init__(module)
        module._topo = topology.PipeDataParallelTopology(num_pp=3, num_dp=1)
        module.global_rank, module._layer_specs = rank, list(range(9 + 3))
        module._partition_layers()
        bounds.append((module._local_start, module._local_stop))
    assert bounds == [(0, 5), (5, 8), (8, 12)]


def test_openvino_compiles_the_stages(tmp_path: Path) -> None:
    """Every operator has an affinity, also the constants and views that the graph lacks, or its compiler refuses."""
    openvino = needs("openvino")
    needs("onnx")
    from onnx_models import model, save

    nodes = "a = MatMul(x, w) b = Relu(a) s = Shape(b) r = Reshape(b, s) y = Add(r, a)"
    path = save(tmp_path, model(f"n (float[2,3] x) => (float[2,3] y) {{ {nodes} }}", w=(3, 3)), "m.onnx")
    scope: dict[str, Any] = {}
    exec(mtpp.export(mtpp.partition(path, 2, "kahn", bandwidth="25GB/s"), "openvino"), scope)
    scope["DEVICES"][:] = ["CPU"] * len(scope["DEVICES"])
    read = openvino.Core().read_model(path)
    scope["assign"](read)
    assert {operator.get_rt_info()["affinity"].astype(str) for operator in read.get_ordered_ops()} == {"CPU"}
    compiled = openvino.Core().compile_model(read, "HETERO:CPU")
    x = np.ones((2, 3), np.float32)
    plain = openvino.Core().compile_model(openvino.Core().read_model(path), "CPU")
    assert np.array_equal(compiled(x)[0], plain(x)[0])
    other = save(tmp_path, model("n (float[2,3] x) => (float[2,3] z) { q = Relu(x) z = Tanh(q) }"), "o.onnx")
    with pytest.raises(ValueError, match="another model"):
        scope["assign"](openvino.Core().read_model(other))


def decoder_file(folder: Path) -> Path:
    """A decoder of two layers without a cache."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    weights = {"emb": (8, 4), "w": (4, 4), "head": (4, 8)}
    nodes = [helper.make_node("Gather", ["emb", "input_ids"], ["h0"], name="/model/embed_tokens/Gather")]
    for i in range(2):
        nodes.append(helper.make_node("MatMul", [f"h{i}", "w"], [f"h{i + 1}"], name=f"/model/layers.{i}/mlp/MatMul"))
    nodes.append(helper.make_node("MatMul", ["h2", "head"], ["logits"], name="/lm_head/MatMul"))
    values = [numpy_helper.from_array(random.random(shape, np.float32), name) for name, shape in weights.items()]
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, 3])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 3, 8])
    network = helper.make_graph(nodes, "decoder", [ids], [logits], values)
    path = folder / "decoder.onnx"
    onnx.save(helper.make_model(network, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    return path


def test_genai_loads_the_stages(tmp_path: Path) -> None:
    """Its configuration and its models, once the processor takes the place of the CUDA devices."""
    genai = needs("onnxruntime-genai", "onnxruntime_genai")
    needs("onnx")
    path, stages = decoder_file(tmp_path), tmp_path / "stages"
    found = mtpp.partition(path, 2, "kahn", bandwidth="25GB/s", runtime="onnxruntime-genai")
    mtpp.split(path, partition=found, out=stages, samples=False)
    document = json.loads(mtpp.export(stages, "onnxruntime-genai"))
    assert "attention_mask" not in document["model"]["decoder"]["inputs"]
    (pipeline,) = document["model"]["decoder"]["pipeline"]
    for stage in pipeline.values():
        stage["session_options"]["provider_options"] = []
    (stages / "genai_config.json").write_text(json.dumps(document))
    assert genai.Model(genai.Config(str(stages))).type == "decoder-pipeline"


def test_galvatron_reads_its_strategy() -> None:
    """Its function makes the degrees of all layers of it."""
    utils = needs("galvatron", "galvatron.utils")
    document = json.loads(RUNTIMES["galvatron"].settings(cut(decoder(9), units_of([4, 3, 2]), 3)))
    pp_deg, *rest = utils.config2strategy(document)
    assert pp_deg == 3
    assert all(len(flags) == 9 for flags in rest if isinstance(flags, list))


@pytest.mark.parametrize("runtime", ["megatron", "sglang"])
def test_check_asks_the_program(runtime: str, tmp_path: Path) -> None:
    """What is exported is taken; other layers, and what is no words, are refused in one line."""
    needs({"megatron": "megatron-core"}.get(runtime, runtime), {"megatron": "megatron.core"}.get(runtime, "orjson"))
    words, false = tmp_path / "words", tmp_path / "false"
    words.write_text(RUNTIMES[runtime].settings(cut(decoder(9), units_of([4, 3, 2]), 3)))
    assert "9 layers" in mtpp.check(words, runtime)
    for text in (words.read_text().replace("t", "x").replace("4", "0"), "nothing", "LD_PRELOAD=1,2"):
        false.write_text(text)
        with pytest.raises(InputError, match="refused by"):
            mtpp.check(false, runtime)


def test_check_runs_no_words(tmp_path: Path) -> None:
    """Of a program only its constants are read."""
    needs("openvino")
    needs("onnx")
    path = decoder_file(tmp_path)
    found = mtpp.partition(path, 2, "kahn", bandwidth="25GB/s")
    words = tmp_path / "words.py"
    mtpp.export(found, "openvino", out=words)
    assert "an affinity for" in mtpp.check(words, "openvino", model=path)
    words.write_text(f"open({str(tmp_path / 'run')!r}, 'w')\n{words.read_text()}")
    assert "an affinity for" in mtpp.check(words, "openvino", model=path)
    assert not (tmp_path / "run").exists()
