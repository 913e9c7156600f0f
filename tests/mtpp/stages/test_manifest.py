"""Folders of stages: what is written is read again, and what a stranger changed is refused in one line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")

from onnx_models import model, save  # noqa: E402
from stage_folders import cut_by, split_into  # noqa: E402

from instances import InputError, Partition, Result  # noqa: E402
from instances.json_files import read_json  # noqa: E402
from instances.partitioning.stated import certificate_from_document  # noqa: E402
from mtpp.stages.folder import write_stages  # noqa: E402
from mtpp.stages.manifest import read_manifest  # noqa: E402


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three stages; the first sends to both others."""
    network = model("g (float[2,3] x) => (float[2,3] y) { a = MatMul(x, w) b = Relu(a) y = Add(b, a) }", w=(3, 3))
    path = save(tmp_path, network)
    written = split_into(tmp_path / "stages", path, cut_by(path, [0, 1, 2]), samples=False)
    assert read_manifest(tmp_path / "stages") == written
    return tmp_path / "stages"


def change(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads((folder / "manifest.json").read_text())
    edit(document)
    (folder / "manifest.json").write_text(json.dumps(document))


def test_what_a_manifest_says(folder: Path) -> None:
    manifest = read_manifest(folder)
    assert [stage.file for stage in manifest.stages] == ["stage-0.onnx", "stage-1.onnx", "stage-2.onnx"]
    assert [(sent.name, sent.bytes, sent.readers) for sent in manifest.stages[0].outputs] == [("a", 24, (1, 2))]
    assert [(received.name, received.sender) for received in manifest.stages[2].inputs] == [("a", 0), ("b", 1)]
    certificate = certificate_from_document(read_json(folder / manifest.certificate.file))
    assert max(stage.time for stage in manifest.stages) == manifest.bottleneck
    assert certificate.instance.graph.content_hash == manifest.graph_hash


FORGED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "cycle": (lambda d: d["stages"][1]["inputs"][0].update({"from": 2}), "which is not before it; that is a cycle"),
    "itself": (lambda d: d["stages"][1]["inputs"][0].update({"from": 1}), "which is not before it; that is a cycle"),
    "negative": (lambda d: d["stages"][1]["inputs"][0].update({"from": -1}), "that is a cycle"),
    "up": (lambda d: d["stages"][0].update(file="../net.onnx"), "is no plain name of a file in this folder"),
    "absolute": (lambda d: d["stages"][0].update(file="/etc/passwd"), "is no plain name of a file in this folder"),
    "hidden": (lambda d: d["certificate"].update(file=".bashrc"), "is no plain name of a file in this folder"),
    "weights": (
        lambda d: d["stages"][0].update(weights={"file": "a/../../b", "sha256": ""}),
        "is no plain name of a file in this folder",
    ),
    "twice": (lambda d: d["stages"][1].update(file="stage-0.onnx"), "two things are in one file"),
    "itself as a stage": (lambda d: d["stages"][1].update(file="manifest.json"), "two things are in one file"),
    "missing": (lambda d: d["stages"][0].update(file="stage-7.onnx"), "there is no such file"),
    "hash": (lambda d: d["stages"][0].update(sha256="0" * 64), "stage-0.onnx: the file was altered"),
    "format": (lambda d: d.update(format="mtpp-stages/9"), "this is 'mtpp-stages/9'"),
    "no stages": (lambda d: d.update(stages=[]), "there are 0 stages"),
    "many stages": (lambda d: d.update(stages=d["stages"] * 100), "there are 300 stages"),
    "unknown": (lambda d: d.update(run="rm -rf"), "unknown field 'run'"),
    "lacking": (lambda d: d["stages"][0].pop("outputs"), "missing field 'outputs'"),
    "type": (lambda d: d["stages"][0]["outputs"][0].update(type="object"), "this is 'object'; "),
    "shape": (lambda d: d["inputs"][0].update(shape=[2**31, 2**31], bytes=2**62), "this is no size of a tensor"),
    "negative shape": (lambda d: d["inputs"][0].update(shape=[-2, -3]), "this is no size of a tensor"),
    "bytes": (lambda d: d["inputs"][0].update(bytes=25), "a tensor of this shape has 24 bytes"),
    "other input": (lambda d: d["inputs"][0].update(name="q"), "the model has no input 'x'"),
    "other output": (lambda d: d["outputs"][0].update(name="q"), "no stage gives 'q'"),
    "other sender": (lambda d: d["stages"][2]["inputs"][1].update({"from": 0}), "stage 0 gives no 'b'"),
    "other readers": (lambda d: d["stages"][0]["outputs"][0].update(to=[1]), "does not send 'a' to those that read it"),
    "same name": (lambda d: d["stages"][2]["inputs"].append(d["stages"][2]["inputs"][0]), "two tensors are called"),
    "silent": (lambda d: d["stages"][2].update(outputs=[]), "the stage gives nothing"),
    "time": (lambda d: d["stages"][2].update(time=-1.0), "the number is negative"),
    "samples": (lambda d: d.update(samples={"file": "s", "sha256": "", "count": 10**9, "seed": 0}), "1 to 16 samples"),
    "text": (lambda d: d.update(bottleneck="fast"), "expected a number"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_manifests_are_refused(folder: Path, name: str) -> None:
    edit, words = FORGED[name]
    change(folder, edit)
    with pytest.raises(InputError, match=words) as refusal:
        read_manifest(folder)
    assert str(folder) in str(refusal.value)
    assert "\n" not in str(refusal.value)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two stages, for many examples."""
    folder = tmp_path_factory.mktemp("model")
    path = save(folder, model("g (float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }"))
    split_into(folder / "stages", path, cut_by(path, [0, 1]), samples=False)
    return folder / "stages"


@given(data=st.data())
def test_whatever_is_changed_is_read_or_refused(written: Path, data: st.DataObject) -> None:
    """No other error, whatever a member becomes."""

    def edit(document: dict[str, Any]) -> None:
        here: Any = document
        while True:
            key = data.draw(st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here))))
            if not isinstance(here[key], dict | list) or not here[key] or data.draw(st.booleans()):
                break
            here = here[key]
        here[key] = data.draw(st.one_of(VALUES, st.lists(VALUES, max_size=2), st.just({})))

    before = (written / "manifest.json").read_text()
    try:
        change(written, edit)
        with suppress(InputError):
            read_manifest(written)
    finally:
        (written / "manifest.json").write_text(before)


def test_altered_links_and_missing_files_are_refused(folder: Path) -> None:
    content = (folder / "stage-1.onnx").read_bytes()
    (folder / "stage-1.onnx").write_bytes(content + b" ")
    with pytest.raises(InputError, match=r"stage-1\.onnx: the file was altered"):
        read_manifest(folder)
    (folder / "stage-1.onnx").unlink()
    with pytest.raises(InputError, match=r"stage-1\.onnx: there is no such file"):
        read_manifest(folder)
    (folder.parent / "elsewhere.onnx").write_bytes(content)
    (folder / "stage-1.onnx").symlink_to(folder.parent / "elsewhere.onnx")
    with pytest.raises(InputError, match=r"stage-1\.onnx: this is a link"):
        read_manifest(folder)
    with pytest.raises(InputError, match="there is no such folder; it is made by mtpp split"):
        read_manifest(folder / "stages")
    (folder / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"no folder that mtpp split has written; there is no manifest\.json in it"):
        read_manifest(folder)


def test_times_are_seconds(folder: Path) -> None:
    path = folder.parent / "net.onnx"
    partition = cut_by(path, [0, 1, 2])
    question = replace(partition.instance, graph=replace(partition.instance.graph, time_unit="ms"))
    other = Partition(question, partition.block)
    with pytest.raises(InputError, match="the work is in units of 'ms'; stages are measured in seconds"):
        split_into(folder.parent / "new", path, other)


def test_a_folder_in_use_stays_as_it_is(folder: Path) -> None:
    before = sorted(os.listdir(folder))
    path = folder.parent / "net.onnx"
    with pytest.raises(InputError, match="it is there and not an empty folder"):
        split_into(folder, path, cut_by(path, [0, 1, 2]))
    assert sorted(os.listdir(folder)) == before


def test_a_split_that_fails_leaves_nothing(folder: Path) -> None:
    """A tensor that no process can pass on is found when some files are written."""
    nodes = "a = Relu(x) b = Cast<to = 22>(a) c = Cast<to = 1>(b) y = Neg(c)"
    path = save(folder.parent, model(f"g (float[2] x) => (float[2] y) {{ {nodes} }}", opset=21), "narrow.onnx")
    partition = cut_by(path, [0, 0, 1, 1])
    for target in (folder.parent / "new", folder.parent / "empty"):
        if target.name == "empty":
            target.mkdir()
        with pytest.raises(InputError, match="tensor 'b' is of type INT4, which stages cannot pass on"):
            write_stages(path, [Result("given", partition.instance, partition)], target)
        assert target.exists() == (target.name == "empty")
    assert os.listdir(folder.parent / "empty") == []


def test_weights_are_in_a_file_of_the_folder(tmp_path: Path) -> None:
    network = model("g (float[2,2] x) => (float[2,2] y) { a = MatMul(x, w) y = MatMul(a, w) }", w=(2, 2))
    onnx.save(network, tmp_path / "net.onnx", save_as_external_data=True, location="data.bin", size_threshold=0)
    path = tmp_path / "net.onnx"
    manifest = split_into(tmp_path / "stages", path, cut_by(path, [0, 1]), samples=False)
    assert [stage.weights.file for stage in manifest.stages if stage.weights] == ["stage-0.weights", "stage-1.weights"]
    assert read_manifest(tmp_path / "stages") == manifest
    assert "stage-0.weights" in os.listdir(tmp_path / "stages")
    (tmp_path / "data.bin").unlink()
    with pytest.raises(InputError, match=r"data\.bin: there is no such file"):
        split_into(tmp_path / "again", path, cut_by(path, [0, 1]), samples=False)
    assert not (tmp_path / "again").exists()
