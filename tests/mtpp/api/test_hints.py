"""Every hint of a refusal, followed, ends in an answer."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd
import pytest
from transformers_configurations import LLAMA, written
from weight_files import gguf, shapes_of_llama, stored, stored_bytes, tensors_of_gguf

import mtpp
from instances import InputError, InputWarning

BF16 = stored_bytes("BF16", 2, shapes_of_llama())
FIRST = {name: own for name, own in BF16.items() if ".0." in name}
Q8 = gguf(tensors_of_gguf(8))
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n"
PART = "q-00001-of-00002.gguf"
INDEX = json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}).encode()


def away(*names: str) -> Callable[[Path], dict[str, Any]]:
    """Move files elsewhere."""

    def follow(folder: Path) -> dict[str, Any]:
        for name in names:
            (folder / name).rename(folder.parent / f"{folder.name} {name}")
        return {}

    return follow


#: Files beside the tiny Llama, changes of its configuration, a part of the hint, and what follows it: words to add.
FOLDERS: dict[str, tuple[dict[str, bytes], dict[str, Any], str, Callable[[Path], dict[str, Any]]]] = {
    "several": (
        {"q8.gguf": Q8, "q4.gguf": gguf(tensors_of_gguf(2))},
        {},
        "choose one, as in weights='q4.gguf'",
        lambda folder: {"weights": "q4.gguf"},
    ),
    "pointer": ({"q8.gguf": POINTER}, {}, "or move the pointer elsewhere", away("q8.gguf")),
    "missing part": ({PART: Q8}, {}, "or move the other parts elsewhere", away(PART)),
    "missing file of an index": (
        {"model-1.safetensors": stored(FIRST), "model.safetensors.index.json": INDEX},
        {},
        "or move the other parts elsewhere",
        away("model-1.safetensors"),
    ),
    "a tensor in two parts": (
        {"model-1-of-2.safetensors": stored(BF16), "model-2-of-2.safetensors": stored(FIRST)},
        {},
        "or move one file elsewhere",
        lambda folder: {"weights": str((folder / "model-1-of-2.safetensors").rename(folder / "model.safetensors"))},
    ),
    "damaged header": ({"q8.gguf": Q8[:100]}, {}, "or move it elsewhere", away("q8.gguf")),
    "large header": ({"model.safetensors": b"\xff" * 64}, {}, "or move it elsewhere", away("model.safetensors")),
    "another model": (
        {"model.safetensors": stored(BF16)},
        {"intermediate_size": 13},
        "move them elsewhere",
        away("model.safetensors"),
    ),
    "another depth": (
        {"model.safetensors": stored(BF16)},
        {"num_hidden_layers": 3},
        "move them elsewhere",
        away("model.safetensors"),
    ),
    "an adapter is chosen": (
        {"adapter_model.safetensors": stored({"x.lora_A.weight": ("F32", [1], 4)}), "q8.gguf": Q8},
        {"weights": "adapter_model.safetensors"},
        "give the weights of the model",
        lambda folder: {"weights": "q8.gguf"},
    ),
    "not weights": (
        {"q8.gguf": Q8},
        {"weights": "config.json"},
        "give a *.safetensors, *.gguf, *.bin or *.pth file",
        lambda folder: {"weights": "q8.gguf"},
    ),
    "training": (
        {"q8.gguf": Q8},
        {"weights": "q8.gguf", "training": True},
        "leave it out",
        lambda folder: {"weights": None, "training": True},
    ),
}
_WORDS = ("weights", "training")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        yield


@pytest.mark.parametrize("name", FOLDERS)
def test_hints_about_folders_of_weights_work(tmp_path: Path, name: str) -> None:
    files, changes, hint, follow = FOLDERS[name]
    folder = tmp_path / "model"
    folder.mkdir()
    for file, content in files.items():
        (folder / file).write_bytes(content)
    words = {word: changes[word] for word in _WORDS if word in changes}
    path = written(folder, LLAMA | {field: value for field, value in changes.items() if field not in _WORDS})
    with pytest.raises(InputError) as refused:
        mtpp.load(path, **words)
    assert hint in str(refused.value)
    assert mtpp.load(path, **words | follow(folder)).n > 0


def digraph(work: Any = 1.0, **attributes: Any) -> nx.DiGraph[Any]:
    """A pair of nodes."""
    graph: nx.DiGraph[Any] = nx.DiGraph([("a", "b")])
    graph.add_node("a", work=work, **attributes)
    graph.add_node("b", work=1.0)
    return graph


def frame(work: Any) -> pd.DataFrame:
    """The same as a frame."""
    return pd.DataFrame({"work": [work, 1.0]}, index=["a", "b"])


EDGES = pd.DataFrame({"source": ["a"], "target": ["b"]})
#: A call that is refused, a part of the hint, and the call that follows it.
CALLS: dict[str, tuple[Callable[[], Any], str, Callable[[], Any]]] = {
    "no work": (
        lambda: mtpp.load(digraph(None)),
        "work is None; give a number, 0 if there is none",
        lambda: mtpp.load(digraph(0)),
    ),
    "no bytes": (
        lambda: mtpp.load(digraph(output_bytes=None)),
        "output_bytes is None; give a number, 0 if there is none",
        lambda: mtpp.load(digraph(output_bytes=0)),
    ),
    "no work of edges": (
        lambda: mtpp.ComputationGraph.from_edges([(0, 1)], [None, 1]),
        "Node 0: work is missing; give a number, 0 if there is none",
        lambda: mtpp.ComputationGraph.from_edges([(0, 1)], [0, 1]),
    ),
    "no work of a frame": (
        lambda: mtpp.ComputationGraph.from_frames(frame(None), EDGES),
        "give a number, 0 if there is none",
        lambda: mtpp.ComputationGraph.from_frames(frame(0.0), EDGES),
    ),
    "words of dims": (
        lambda: mtpp.load("bert-base", dims="batch"),
        "give name=number, for example dims='batch=8'",
        lambda: mtpp.load("bert-base", dims="batch=8"),
    ),
    "an unknown dimension": (
        lambda: mtpp.load("bert-base", dims="num_atoms=1"),
        "there is no dimension 'num_atoms'; it has batch, sequence",
        lambda: mtpp.load("bert-base", dims=["sequence=1"]),
    ),
    "weights of an architecture": (
        lambda: mtpp.load("bert-base", weights="q8.gguf"),
        "architectures take no weights; leave it out",
        lambda: mtpp.load("bert-base"),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_hints_of_python_work(name: str) -> None:
    call, hint, follow = CALLS[name]
    with pytest.raises(InputError) as refused:
        call()
    assert hint in str(refused.value)
    assert follow().n > 0


def test_dims_in_words_are_those_of_a_mapping() -> None:
    stated = mtpp.load("gpt2", dims={"batch": 2, "phase": "decode"})
    for words in (
        "batch=2,phase=decode",
        "batch=2 phase=decode",
        ["batch=2", "phase=decode"],
        ("batch=2", "phase=decode"),
    ):
        assert mtpp.load("gpt2", dims=words).content_hash == stated.content_hash  # type: ignore[arg-type]


def test_nodes_that_are_written_alike_stay_apart() -> None:
    graph: nx.DiGraph[Any] = nx.DiGraph([(1, "1"), ("1", 2)])
    nx.set_node_attributes(graph, 1.0, "work")
    assert mtpp.load(graph).names == ("1", "'1'", "2")
    nodes = pd.DataFrame({"work": [1.0, 2.0]}, index=[1, "1"])
    edges = pd.DataFrame({"source": [1], "target": ["1"]})
    assert mtpp.ComputationGraph.from_frames(nodes, edges).names == ("1", "'1'")


def test_a_module_that_counts_its_calls_is_cut_without_its_counter_or_as_a_graph() -> None:
    torch = pytest.importorskip("torch")

    class Counting(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, counts: bool) -> None:
            super().__init__()
            self.counts = counts
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Any) -> Any:
            if self.counts:
                self.calls.add_(1)
            return self.layers(x)

    example = {"args": (torch.ones(2, 4),), "bandwidth": "1GB/s"}
    with pytest.raises(InputError) as refused:
        mtpp.split(Counting(True), 2, **example)
    assert "(calls); export it in the mode for inference, module.eval(), or without what changes" in str(refused.value)
    assert "mtpp.partition takes it as it is" in str(refused.value)
    assert mtpp.partition(Counting(True), 2, "kahn", **example).partition is not None
    assert len(mtpp.split(Counting(False), 2, **example).stages) >= 1
