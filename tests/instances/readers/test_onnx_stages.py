"""Stages of an ONNX model: chained they are the whole model, and they send what the cost of the partition counts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")

from onnx.reference import ReferenceEvaluator  # noqa: E402
from onnx_models import model, save  # noqa: E402
from stage_folders import cut_by, networks, partition_of  # noqa: E402

from instances import InputError  # noqa: E402
from instances.readers.onnx.graph import copy_weights  # noqa: E402
from instances.readers.onnx.stages import Cut, cut_model  # noqa: E402


def feeds_of(cut: Cut) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    kinds = {spec.name: onnx.helper.tensor_dtype_to_np_dtype(spec.element) for spec in cut.inputs}
    return {spec.name: rng.standard_normal(spec.shape).astype(kinds[spec.name]) for spec in cut.inputs}


def chained(cut: Cut) -> dict[str, np.ndarray]:
    """All that the stages make, one after the other, each from what it is said to receive."""
    feeds = feeds_of(cut)
    made: dict[int | None, dict[str, np.ndarray]] = {None: feeds}
    for stage in cut.stages:
        onnx.checker.check_model(stage.model)
        inputs = {spec.name: made[sender][spec.name] for spec, sender in stage.received}
        names = [spec.name for spec in stage.sent]
        made[stage.block] = dict(zip(names, ReferenceEvaluator(stage.model).run(names, inputs), strict=True))
    return {name: value for tensors in made.values() for name, value in tensors.items()}


def assert_same(network: onnx.ModelProto, cut: Cut) -> None:
    found, names = chained(cut), [spec.name for spec in cut.outputs]
    for name, value in zip(names, ReferenceEvaluator(network).run(names, feeds_of(cut)), strict=True):
        assert np.array_equal(found[name], value)
        assert found[name].dtype == value.dtype


@pytest.mark.filterwarnings("ignore:.*no node takes any time")
@given(network=networks(), choices=st.lists(st.integers(0, 3), min_size=1, max_size=9), k=st.integers(1, 4))
@settings(max_examples=60)
def test_chained_stages_are_the_whole_model(network: onnx.ModelProto, choices: list[int], k: int) -> None:
    """And each receives the bytes that the partition's cost counts."""
    with tempfile.TemporaryDirectory() as folder:
        path = save(Path(folder), network)
        partition = partition_of(path, choices, k)
        cut = cut_model(path, {}, partition)
    assert_same(network, cut)
    received = np.zeros(k)
    for stage in cut.stages:
        received[stage.block] = sum(4 * np.prod(spec.shape) for spec, sender in stage.received if sender is not None)
    assert received == pytest.approx(partition.costs.receive * partition.instance.platform.bandwidth)
    assert [stage.block for stage in cut.stages] == sorted(set(partition.block.tolist()))


def test_a_shape_is_a_constant_and_is_not_sent(tmp_path: Path) -> None:
    nodes = "a = Relu(x) s = Shape(a) n = Size(a) b = Neg(x) c = Reshape(b, s) y = Tanh(c)"
    path = save(tmp_path, model(f"g (float[2,3] x) => (float[2,3] y) {{ {nodes} }}"))
    cut = cut_model(path, {}, cut_by(path, [0, 1, 2]))
    assert_same(onnx.load(path), cut)
    last = cut.stages[-1]
    assert [(spec.name, sender) for spec, sender in last.received] == [("b", 1)]
    assert [node.op_type for node in last.model.graph.node] == ["Reshape", "Tanh"]
    assert onnx.numpy_helper.to_array(last.model.graph.initializer[0]).tolist() == [2, 3]


def test_a_view_is_made_where_it_is_read(tmp_path: Path) -> None:
    """The tensor itself is sent once to each reader, and an output that is a view stays where its tensor is made."""
    nodes = "a = Relu(x) v = Reshape(a, f) z = Neg(v) y = Tanh(a)"
    network = model(f"g (float[2,3] x) => (float[6] v, float[2,3] y, float[6] z) {{ {nodes} }}")
    network.graph.initializer.append(onnx.numpy_helper.from_array(np.array([6]), "f"))
    path = save(tmp_path, network)
    cut = cut_model(path, {}, cut_by(path, [0, 1, 1]))
    assert_same(network, cut)
    assert [spec.name for spec in cut.stages[0].sent] == ["v", "a"]
    assert [(spec.name, sender) for spec, sender in cut.stages[1].received] == [("a", 0)]


def test_dimensions_are_those_that_were_asked_for(tmp_path: Path) -> None:
    path = save(tmp_path, model("g (float[n,3] x) => (float[n,3] y) { a = Relu(x) y = Neg(a) }"))
    cut = cut_model(path, {"n": 5}, cut_by(path, [0, 1], n=5))
    assert [spec.shape for stage in cut.stages for spec in stage.sent] == [(5, 3), (5, 3)]


def test_an_input_or_a_constant_may_be_an_output(tmp_path: Path) -> None:
    path = save(tmp_path, model("g (float[2] x) => (float[2] x, float[2] w, float[2] y) { y = Relu(x) }", w=(2,)))
    assert_same(onnx.load(path), cut_model(path, {}, cut_by(path, [0])))


def test_an_input_that_is_an_output_is_asked_of_no_stage(tmp_path: Path) -> None:
    """No operator gives it, and what runs stages does not copy it."""
    path = save(tmp_path, model("g (float[2] x) => (float[2] x, float[2] y) { y = Relu(x) }"))
    cut = cut_model(path, {}, cut_by(path, [0]))
    assert [spec.name for spec in cut.outputs] == ["x", "y"]
    assert [spec.name for spec in cut.stages[0].sent] == ["y"]


def test_a_block_that_nothing_reads_has_an_output(tmp_path: Path) -> None:
    path = save(tmp_path, model("g (float[2] x) => (float[2] y) { y = Relu(x) a = Neg(x) b = Tanh(a) }"))
    cut = cut_model(path, {}, cut_by(path, [0, 1, 1]))
    assert [spec.name for spec in cut.stages[1].sent] == ["b"]


def test_inputs_of_old_models_list_their_weights(tmp_path: Path) -> None:
    """Up to version 3 of the format each initializer is an input as well."""
    network = model("g (float[2] x) => (float[2] y) { a = Add(x, w) y = Add(a, w) }", w=(2,))
    network.graph.input.append(onnx.helper.make_tensor_value_info("w", 1, (2,)))
    network.ir_version = 3
    path = save(tmp_path, network)
    cut = cut_model(path, {}, cut_by(path, [0, 1]))
    assert_same(network, cut)
    assert [len(stage.model.graph.input) for stage in cut.stages] == [2, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = Relu(x) b = Neg(a) y = Tanh(b)", "no node 'Tanh y'|is of another model"),
        ("a = Relu(x) y = Exp(a)", "the partition has no node 'Exp y'; it is of another model"),
        ("a = Relu(x) y = Identity(a)", "the model has no node 'Neg y' that runs; the partition is of another model"),
    ],
)
def test_a_partition_of_another_model_is_refused(tmp_path: Path, text: str, words: str) -> None:
    own = save(tmp_path, model("g (float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }"), "own.onnx")
    other = save(tmp_path, model(f"g (float[2] x) => (float[2] y) {{ {text} }}"), "other.onnx")
    with pytest.raises(InputError, match=words):
        cut_model(other, {}, cut_by(own, [0, 1]))


def test_a_partition_whose_edges_point_backwards_here_is_refused(tmp_path: Path) -> None:
    own = save(tmp_path, model("g (float[2] x) => (float[2] b) { a = Relu(x) b = Relu(a) }"), "own.onnx")
    network = model("g (float[2] x) => (float[2] a) { b = Relu(x) a = Relu(b) }")
    with pytest.raises(InputError, match="stage 0 reads 'b' of the later stage 1; the partition is of another model"):
        cut_model(save(tmp_path, network, "other.onnx"), {}, cut_by(own, [0, 1]))


def with_external(folder: Path, **entries: str) -> onnx.ModelProto:
    """A model with a weight in another file, of which the entries say where."""
    network = model("g (float[2,2] x) => (float[2,2] y) { a = MatMul(x, w) y = MatMul(a, w) }", w=(2, 2))
    tensor = network.graph.initializer[0]
    (folder / "data.bin").write_bytes(b"12345678" + tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in ({"location": "data.bin", "offset": "8"} | entries).items():
        tensor.external_data.add(key=key, value=value)
    return network


def test_weights_that_overlap_are_refused(tmp_path: Path) -> None:
    """Each one would be copied, however small the file is that all of them are in."""
    network = with_external(tmp_path)
    second = network.graph.initializer.add()
    second.CopyFrom(network.graph.initializer[0])
    second.name, second.external_data[1].value = "v", "4"
    network.graph.node[1].input[1] = "v"
    path = save(tmp_path, network)
    with pytest.raises(InputError, match=r"different weights overlap in 'data\.bin'"):
        cut_model(path, {}, cut_by(path, [0, 1]))


def test_weights_in_other_files_stay_in_files(tmp_path: Path) -> None:
    """Each stage has its own, with what it uses alone."""
    path = save(tmp_path, with_external(tmp_path))
    out = tmp_path / "out"
    out.mkdir()
    for stage in cut_model(path, {}, cut_by(path, [0, 1])).stages:
        target = out / f"{stage.block}.weights"
        assert copy_weights(stage.model, tmp_path, target)
        assert target.read_bytes() == (tmp_path / "data.bin").read_bytes()[8:]
        onnx.save(stage.model, out / f"{stage.block}.onnx")
        loaded = onnx.load(out / f"{stage.block}.onnx")
        assert loaded.graph.initializer[0].raw_data == target.read_bytes()


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"location": "../data.bin"}, "weights must lie beside the model"),
        ({"location": "/data.bin"}, "weights must lie beside the model"),
        ({"location": ""}, "weights must lie beside the model"),
        ({"location": "link.bin"}, "is a link to outside of the model's folder"),
        ({"location": "folder"}, "this is a folder"),
        ({"location": "pipe"}, "not a regular file"),
        ({"location": "none.bin"}, "there is no such file"),
        ({"offset": "9"}, "is not in 'data.bin'"),
        ({"length": "15"}, "is not in 'data.bin'"),
        ({"offset": "-8"}, "no size or place"),
        ({"offset": "9" * 5000}, "no size or place"),
        ({"location": "data\0.bin"}, "weights must lie beside the model"),
    ],
)
def test_weights_elsewhere_are_refused(tmp_path: Path, entries: dict[str, str], words: str) -> None:
    """Nothing outside of the model's folder is read."""
    folder = tmp_path / "model"
    (folder / "folder").mkdir(parents=True)
    os.mkfifo(folder / "pipe")
    (tmp_path / "data.bin").write_bytes(bytes(64))
    (folder / "link.bin").symlink_to(tmp_path / "data.bin")
    path = save(folder, with_external(folder, **entries))
    with pytest.raises(InputError, match=words) as refusal:
        cut_model(path, {}, cut_by(path, [0, 1]))
    assert str(path) in str(refusal.value)
