"""Stages from Python: the partition is the user's or the best one, and what cannot be is one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mtpp
from instances import InputError, save_partition
from instances.json_files import read_json
from mtpp.problems.checking import verify

pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")

from onnx_models import model, save

SLOW = {"peak_flops": 1e9, "memory_bandwidth": 1e9}


@pytest.fixture
def network(tmp_path: Path) -> Path:
    nodes = "a = MatMul(x, w) b = Relu(a) c = MatMul(b, w) y = Relu(c)"
    return save(tmp_path, model(f"g (float[n,64] x) => (float[n,64] y) {{ {nodes} }}", w=(64, 64)))


def test_what_is_proved_is_what_runs(network: Path, tmp_path: Path) -> None:
    """A proved answer is taken as it is, with the dimensions of its graph."""
    known = mtpp.certify(network, 2, dims={"n": 8}, **SLOW)
    assert known.proved
    result = mtpp.split(network, partition=known, out=tmp_path / "stages", time_limit=1e-3)
    assert result.partition is known.partition
    assert result.proved
    trial = mtpp.run(tmp_path / "stages", requests=20)
    assert trial.agreement is not None
    assert (trial.agreement.name, trial.agreement.exact) == (None, trial.agreement.requests)
    assert trial.manifest.inputs[0].shape == (8, 64)
    assert verify(read_json(tmp_path / "stages" / "certificate.json")).faults == ()


def test_a_partition_is_kept(network: Path, tmp_path: Path) -> None:
    """As an object or in a file, with a bound beside it."""
    found = mtpp.partition(network, 2, "kahn", dims={"n": 8}, **SLOW).partition
    save_partition(found, tmp_path / "partition.json")
    mtpp.split(network, partition=found, out=tmp_path / "object", samples=False, method="kahn")
    result = mtpp.split(
        network, partition=tmp_path / "partition.json", out=tmp_path / "file", method="kahn", samples=False,
        dims={"n": 8}, **SLOW,
    )  # fmt: skip
    assert result.bound is not None
    assert result.partition.block.tolist() == found.block.tolist()
    manifests = [json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("object", "file")]
    assert manifests[0]["stages"] == manifests[1]["stages"]


def test_what_cannot_be_split(network: Path, tmp_path: Path) -> None:
    found = mtpp.partition(network, 2, "kahn", dims={"n": 8})
    other = save(tmp_path, model("g (float[n,64] x) => (float[n,64] y) { a = Relu(x) y = Neg(a) }"), "other.onnx")
    (tmp_path / "program.pt2").touch()
    refused = [
        (network, {"k": 2}, "dimension 'n' of input 'x' has no value"),
        (network, {"k": "2,3", "dims": {"n": 8}}, "give one number of stages"),
        (network, {"dims": {"n": 8}}, "say how many stages there are with k"),
        (network, {"partition": found, "bandwidth": 1e9}, "leave out what says another: bandwidth"),
        (network, {"k": 2, "dims": {"n": 8}, "memory": "1kB", "fit": True}, "does not fit"),
        (other, {"partition": found}, "of another model or of other dimensions"),
        ("bert-base", {"k": 2}, "an architecture has no weights"),
        (tmp_path / "program.pt2", {"k": 2}, "split a program that you trust"),
        (tmp_path / "missing.onnx", {"k": 2}, r"missing\.onnx: there is no such file"),
    ]
    for path, words, message in refused:
        with pytest.raises(InputError, match=message) as error:
            mtpp.split(path, out=tmp_path / "new", **words)
        assert "\n" not in str(error.value)
    assert not (tmp_path / "new").exists()
    with pytest.raises(InputError, match="there is no such folder"):
        mtpp.run(tmp_path / "new")
