"""`mtpp import`: what it prints and writes, and the summary of a graph."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from command_line import mtpp
from hypothesis import given
from strategies import graphs

from instances import ComputationGraph, load_graph
from instances.architectures import ARCHITECTURES
from instances.devices import Device
from instances.graph.memory import summarise, width
from instances.readers import READERS


def printed(out: str) -> dict[str, str]:
    """The rows of a summary by label; label and value are at least two blanks apart."""
    return {label: value.strip() for label, _, value in (line.partition("  ") for line in out.splitlines())}


def test_an_architecture_is_written_and_read_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("import gnmt --dim batch=2 --out graph.json") == 0
    rows = printed(capsys.readouterr().out)
    graph = ARCHITECTURES["gnmt"].build(batch=2)
    assert load_graph(folder / "graph.json").content_hash == graph.content_hash
    assert (rows["name"], rows["nodes"], rows["edges"]) == ("gnmt", str(graph.n), str(graph.m))
    assert float(rows["work [s]"]) == pytest.approx(graph.work.sum(), rel=1e-5)
    assert float(rows["parameters [bytes]"]) == pytest.approx(graph.parameter_total, rel=1e-5)
    assert rows["widest antichain"] == str(width(graph))
    assert rows["heaviest node"].startswith(f"{graph.names[int(graph.work.argmax())]}, ")


def test_level_and_backward_pass_are_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("import squeezenet --level layer --training --out graph.json") == 0
    expected = ARCHITECTURES["squeezenet"].build(level="layer", training=True)
    assert load_graph(folder / "graph.json").content_hash == expected.content_hash
    assert "at layer level, forward and backward" in printed(capsys.readouterr().out)["source"]


def test_the_device_prices_what_has_no_times(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("import gnmt --peak-flops 1e12 --memory-bandwidth 1e9 --out graph.json") == 0
    expected = ARCHITECTURES["gnmt"].build(device=Device(1e12, 1e9))
    assert load_graph(folder / "graph.json").work.tolist() == expected.work.tolist()
    assert "roofline at 1e+12 flop/s and 1e+09 bytes/s" in printed(capsys.readouterr().out)["source"]


def test_what_could_not_be_priced_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    network = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18, "my.own" : 1]> '
        "g (float[batch,4] x) => (float[batch,4] y) {a = Relu(x) y = my.own.Mix(a)}"
    )
    (folder / "net.onnx").write_bytes(network.SerializeToString())
    assert mtpp("import net.onnx --dim batch=3") == 0
    shown = capsys.readouterr()
    assert printed(shown.out)["unknown operators, only their bytes count"] == "my.own.Mix (1)"
    assert shown.err == ("mtpp: warning: net.onnx: unknown operators, of which only the bytes count: my.own.Mix.\n")
    assert not (folder / "graph.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "path.json --dim batch=2",
            "mtpp: path.json: 'json' files take no --dim (batch); leave it out (architectures, onnx, huggingface do).",
        ),
        (
            "path.json --level layer",
            "mtpp: path.json: 'json' files take no --level; leave it out (architectures, huggingface do).",
        ),
        ("path.json --peak-flops 1e12", "mtpp: path.json: 'json' files take no --peak-flops"),
        ("path.json --cost measured", "mtpp: path.json: 'json' files take no --cost"),
        ("gnmt --cost measured", "mtpp: gnmt: architectures take no --cost; leave it out (onnx do)."),
        ("gnmt --peak-flops 0", "mtpp: --peak-flops 0: it must be positive."),
        ("path.json --out path.json", "mtpp: --out path.json: this is a file to read; give another name."),
        ("gnmt --out missing/graph.json", "mtpp: missing/graph.json: "),
        ("nothing.onnx", "mtpp: nothing.onnx: there is no such file or architecture"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_does_not_fit_is_refused(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(f"import {arguments}") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(message)
    assert err.count("\n") == 1


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where onnx cannot be imported, the extra to install is told."""
    import sys

    for name in [name for name in sys.modules if name.startswith("instances.readers.onnx.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    path = tmp_path / "net.onnx"
    path.write_bytes(b"\x08\x08\x3a\x00")
    with pytest.raises(ValueError, match=r"reading ONNX needs the package onnx; install the extra: pip install .*onnx"):
        READERS["onnx"].read(path)


def antichain(graph: ComputationGraph) -> int:
    """Try all sets of nodes."""
    reach = {(v, v) for v in range(graph.n)} | {(u, v) for u, v in graph.edges.tolist()}
    for w, u, v in itertools.product(range(graph.n), repeat=3):
        if (u, w) in reach and (w, v) in reach:
            reach.add((u, v))
    apart = {(u, v) for u, v in itertools.permutations(range(graph.n), 2)} - reach - {(v, u) for u, v in reach}
    sets = (s for size in range(graph.n, 0, -1) for s in itertools.combinations(range(graph.n), size))
    return next(len(nodes) for nodes in sets if apart.issuperset(itertools.combinations(nodes, 2)))


@given(graphs())
def test_the_width_is_that_of_the_widest_antichain(graph: ComputationGraph) -> None:
    assert width(graph) == antichain(graph)


@given(graphs())
def test_a_summary_adds_up(graph: ComputationGraph) -> None:
    summary = summarise(graph)
    assert (summary.nodes, summary.edges, summary.width) == (graph.n, graph.m, width(graph))
    assert summary.work == pytest.approx(sum(graph.work.tolist()))
    assert summary.heaviest_work == max(graph.work)
    read = {t: graph.tensors.bytes[t] for t in graph.edge_tensor.tolist()}
    assert summary.tensor_bytes == pytest.approx(sum(read.values()))


def test_the_width_of_a_large_graph_is_left_out() -> None:
    n = 20_001
    graph = ComputationGraph.from_edges([(v, v + 1) for v in range(n - 1)], [1.0] * n)
    assert summarise(graph).width is None


def test_the_cache_of_a_decoder_has_a_line_of_its_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """12 layers of keys and values of 768, 100 tokens; and the file says the same."""
    assert mtpp("import gpt2 --dim phase=decode --dim context=100 --dim kv_bytes=2 --out served.json") == 0
    out = capsys.readouterr().out
    assert re.search(r"states \[bytes\] +3.6864e\+06\n", out)
    assert mtpp("import served.json") == 0
    assert capsys.readouterr().out == out
    assert mtpp("import gpt2") == 0
    assert "states" not in capsys.readouterr().out
    assert mtpp("import gpt2 --dim phase=decoding") == 2
    assert "did you mean decode? Give one of forward, prefill, decode" in capsys.readouterr().err


def test_bug_names_of_dimensions_with_spaces_were_proposed_without_quotes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shell took the second word for another argument; lengths are proposed as such, and not as 1."""
    onnx = pytest.importorskip("onnx")
    network = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[n,src_len] x) => (float[a,b] y) {y = Relu(x)}'
    )
    network.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch size"
    file = tmp_path / "net.onnx"
    file.write_bytes(network.SerializeToString())
    assert mtpp(f"certify {file} -k 1") == 2
    assert "give for example --dim 'batch size=1' --dim src_len=128 (the" in capsys.readouterr().err
