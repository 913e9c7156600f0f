"""Looking graphs up by name, file and format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from profile_files import MSR, PIPEDREAM, write

from instances import ComputationGraph, InputError, load_graph, save_graph
from instances.architectures import ARCHITECTURES
from instances.readers import READERS
from instances.readers.profiles import read_pipedream


def test_architectures_are_found_by_name() -> None:
    graph = load_graph("bert-base", dims={"batch": 2, "sequence": 64})
    assert graph.content_hash == ARCHITECTURES["bert-base"].build(batch=2, sequence=64).content_hash


def test_level_and_backward_pass_are_passed_on(tmp_path: Path) -> None:
    graph = load_graph("squeezenet", level="layer", training=True)
    assert graph.content_hash == ARCHITECTURES["squeezenet"].build(level="layer", training=True).content_hash
    path = write(tmp_path / "net.graph.txt", PIPEDREAM)
    assert load_graph(path, training=True).content_hash == read_pipedream(path, training=True).content_hash


def test_the_format_is_recognised_by_content(tmp_path: Path) -> None:
    """Whatever the file is called."""
    own = tmp_path / "a.txt"
    graph = ComputationGraph.from_edges([(0, 1)], [1, 2], attributes={"note": '"fpgaLatency"'})
    save_graph(graph, own)
    assert load_graph(own).content_hash == load_graph(str(own), reader="json").content_hash == graph.content_hash
    assert load_graph(write(tmp_path / "b.bin", MSR)).n == 3
    assert load_graph(write(tmp_path / "c.json", PIPEDREAM)).n == 5


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("bert-bse", {}, "bert-bse: there is no such file or architecture; did you mean bert-base"),
        ("zzz", {}, "zzz: there is no such file or architecture; all architectures are in mtpp list architectures"),
        ("bert-base", {"reader": "mrs"}, "There is no reader 'mrs'; did you mean msr"),
        ("bert-base", {"communication": "bytes"}, "communication is 'bytes'; give one of size, cost"),
        ("bert-base", {"communication": "cost"}, "architectures have no edge costs"),
        ("bert-base", {"dims": {"device": 3}}, "bert-base: there is no dimension 'device'; it has batch"),
        ("bert-base", {"dims": {"batch": 0}}, "dimension batch is 0"),
        ("bert-base", {"cost": "free"}, "cost is 'free'; give one of roofline, measured"),
        ("bert-base", {"level": "block"}, "bert-base: level is 'block'; give one of operator, layer"),
        ("bert-base", {"reader": "json"}, "bert-base: there is no such file"),
    ],
)
def test_a_bad_request_is_refused(spec: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_graph(spec, **options)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", {}, "the file is empty"),
        ("hello", {}, f"not recognised; name the reader, one of {', '.join(READERS)}"),
        ('{"nodes": []}', {}, "missing field 'format'"),
        (PIPEDREAM, {"communication": "cost"}, "'pipedream' files have no edge costs"),
        (
            PIPEDREAM,
            {"dims": {"batch": 2}},
            r"'pipedream' files take no dims \(batch\); leave it out \(architectures, onnx, huggingface do\)",
        ),
        (PIPEDREAM, {"level": "layer"}, r"take no level; leave it out \(architectures, huggingface do\)"),
        (json.dumps(MSR), {"training": True}, "'msr' files take no training"),
        (PIPEDREAM, {"reader": "json"}, "not valid JSON at line 1"),
        ("hello", {"reader": "pipedream"}, "line 1: expected 'id"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    content: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "file", content)
    with pytest.raises(InputError, match=message) as caught:
        load_graph(path, **options)
    assert str(caught.value).startswith(str(path))


def test_bug_a_file_of_pytorch_was_called_a_text(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    path.write_bytes(b"PK\x03\x04" + bytes(60) + b"\xff")
    with pytest.raises(InputError, match=r"net\.pt: this is an archive, of which nothing is run; save a module"):
        load_graph(path)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this is a folder"):
        load_graph(tmp_path)


@pytest.mark.parametrize("name", READERS)
def test_every_reader_names_a_missing_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        load_graph(tmp_path / "nothing", reader=name)
