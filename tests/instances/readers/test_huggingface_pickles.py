"""Weights in archives of torch.save: bytes of tensors without running a pickle, and files that are none."""

import json
import pickle
import struct
import zipfile
from argparse import Namespace

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from transformers_configurations import LLAMA, written
from weight_files import shapes_of_llama

import mtpp
from instances import InputError
from instances.readers import load_graph
from instances.readers.huggingface.headers import read_header

TENSORS = {name: torch.zeros(shape, dtype=torch.bfloat16) for name, shape in shapes_of_llama().items()}
FIRST = {name: tensor for name, tensor in TENSORS.items() if "layers.1" not in name}
SECOND = {name: tensor for name, tensor in TENSORS.items() if name not in FIRST}
PARAMETERS = 1160


def held(folder, **config):
    return load_graph(written(folder, LLAMA | config)).held_total


def save_shards(folder):
    torch.save(FIRST, folder / "pytorch_model-00001-of-00002.bin")
    torch.save(SECOND, folder / "pytorch_model-00002-of-00002.bin")
    names = {name: f"pytorch_model-0000{1 + (name in SECOND)}-of-00002.bin" for name in TENSORS}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": names}), encoding="utf-8")


@pytest.mark.parametrize(
    "stored", [TENSORS, {"state_dict": TENSORS}, {n: torch.nn.Parameter(t) for n, t in TENSORS.items()}]
)
def test_a_file_has_the_bytes_of_its_tensors(tmp_path, stored):
    torch.save(stored, tmp_path / "pytorch_model.bin")
    assert held(tmp_path) == 2 * PARAMETERS


def test_bug_a_file_of_ones_own_name_that_ends_in_capitals_was_not_read(tmp_path):
    torch.save(TENSORS, tmp_path / "OWN.BIN")
    graph = load_graph(written(tmp_path, LLAMA), weights="OWN.BIN")
    assert graph.held_total == 2 * PARAMETERS


def test_parts_are_joined_and_a_missing_one_is_refused(tmp_path):
    save_shards(tmp_path)
    assert held(tmp_path) == 2 * PARAMETERS
    (tmp_path / "pytorch_model-00002-of-00002.bin").unlink()
    with pytest.raises(InputError, match=r"pytorch_model-00002-of-00002\.bin: this part of the weights is missing"):
        held(tmp_path)


def test_slices_of_matrices_are_joined_and_vectors_count_once(tmp_path):
    for part in range(2):
        cut = {name: tensor.chunk(2)[part].clone() if tensor.dim() > 1 else tensor for name, tensor in TENSORS.items()}
        torch.save(cut, tmp_path / f"consolidated.0{part}.pth")
    assert held(tmp_path) == 2 * PARAMETERS
    (tmp_path / "consolidated.00.pth").unlink()
    with pytest.raises(InputError, match=r"consolidated\.00\.pth: this part of the weights is missing"):
        held(tmp_path)


def test_a_shared_storage_counts_once_where_it_is_loaded_once(tmp_path):
    """Tied: one table. Untied: two parameters are loaded from the one storage."""
    torch.save(TENSORS | {"lm_head.weight": TENSORS["model.embed_tokens.weight"]}, tmp_path / "pytorch_model.bin")
    assert held(tmp_path, tie_word_embeddings=True) == 2 * (PARAMETERS - 80)
    assert held(tmp_path) == 2 * PARAMETERS


def test_safetensors_count_where_they_lie_beside_and_a_choice_takes_any(tmp_path):
    safe = pytest.importorskip("safetensors.torch")
    safe.save_file(TENSORS, tmp_path / "model.safetensors")
    torch.save({name: tensor.float() for name, tensor in TENSORS.items()}, tmp_path / "other.pt")
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK")
    assert held(tmp_path) == 2 * PARAMETERS
    assert mtpp.load(tmp_path / "config.json", weights="other.pt").held_total == 4 * PARAMETERS


def archive(path, names=("a/data.pkl", "a/data/0"), words=None, storage=b"", method=zipfile.ZIP_STORED):
    words = pickle.dumps({}, protocol=2) if words is None else words
    with zipfile.ZipFile(path, "w", method) as made:
        for name in names:
            made.writestr(name, words if name.endswith("pkl") else storage)


def claimed(elements):
    """A pickle of a tensor of so many numbers, whose storage is file 0."""
    number = b"\x8a\x08" + struct.pack("<q", elements)
    storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu" + number + b"tQ"
    view = b"(" + storage + b"K\0" + number + b"\x85K\x01\x85\x89}t"
    return b"\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n" + view + b"Rs."


class Harmful:
    def __reduce__(self):
        return exec, ("raise SystemExit",)


REFUSED = {
    "old": (lambda path: torch.save(TENSORS, path, _use_new_zipfile_serialization=False), "this is no archive"),
    "truncated": (lambda path: (torch.save(TENSORS, path), path.write_bytes(path.read_bytes()[:-200])), "is damaged"),
    "nothing": (lambda path: path.write_bytes(b""), "this is no archive"),
    "whole module": (lambda path: torch.save(torch.nn.Linear(2, 2), path), "more than tensors"),
    "object": (lambda path: torch.save({"args": Namespace(x=1)}, path), "more than tensors"),
    "call": (lambda path: archive(path, words=pickle.dumps(Harmful(), protocol=2)), "more than tensors"),
    "compressed": (
        lambda path: archive(path, storage=bytes(10**6), method=zipfile.ZIP_DEFLATED),
        "compressed or overlap",
    ),
    "no list": (lambda path: archive(path, names=("a/data/0",)), "no list of tensors"),
    "two lists": (lambda path: archive(path, names=("a/data.pkl", "b/data.pkl")), "no list of tensors"),
    "absurd size": (lambda path: archive(path, words=claimed(2**40)), "tensor w has more bytes than the file holds"),
    "negative size": (lambda path: archive(path, words=claimed(-1)), "damaged"),
    "no storage": (lambda path: archive(path, names=("a/data.pkl",), words=claimed(1)), "tensor w has more bytes"),
    "nested in itself": (lambda path: archive(path, words=b"\x80\x02}q\0X\x01\0\0\0ah\0s."), "damaged"),
    "doubled forty times": (
        lambda path: archive(path, words=b"\x80\x02)" + b"q\0h\0\x86" * 40 + b"."),
        "damaged",
    ),
    "a key of doubled tuples": (
        lambda path: archive(path, words=b"\x80\x02})" + b"q\0h\0\x86" * 40 + b"Ns."),
        "damaged",
    ),
    "cut in its words": (lambda path: archive(path, words=claimed(1)[:-20]), "damaged"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_torch_save_does_not_write_is_refused_in_a_line(tmp_path, name):
    write, message = REFUSED[name]
    write(tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match=rf"pytorch_model\.bin: .*{message}") as caught:
        held(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_claimed_tensor_that_is_there_is_read(tmp_path):
    archive(tmp_path / "w.pt", words=claimed(3), storage=bytes(12))
    assert [tensor[:3] for tensor in read_header(tmp_path / "w.pt").tensors] == [("w", 3, 12)]
