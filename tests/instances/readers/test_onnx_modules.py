"""Names of nodes of torch's default exporter, whose metadata tell of modules."""

from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")

from onnx_models import model, save

from instances import load_graph
from instances.runtimes.layers import LayerStack

KEY = "pkg.torch.onnx.name_scopes"
TEXT = "g (float[4,4] x) => (float[4,4] y) { a = Relu(x) b = Exp(a) c = Relu(b) y = Exp(c) }"


def exported(scopes: list[str], folder: Path) -> Path:
    """A model whose nodes have these metadata."""
    network = model(TEXT)
    for i, (node, scope) in enumerate(zip(network.graph.node, scopes, strict=True)):
        node.name = f"node_{i}"
        node.metadata_props.add(key=KEY, value=scope)
    return save(folder, network)


def test_nodes_are_called_after_their_modules(tmp_path):
    scopes = [str(["", f"model.layers.{i // 2}", f"model.layers.{i // 2}.act{i}", "relu"]) for i in range(4)]
    graph = load_graph(exported(scopes, tmp_path))
    assert graph.names[0] == "model.layers.0.act0.node_0"
    assert LayerStack.of(graph).unit.tolist() == [1, 1, 2, 2]


def test_the_code_of_the_root_has_no_path(tmp_path):
    graph = load_graph(exported([str(["", "relu"])] * 4, tmp_path))
    assert graph.names == ("node_0", "node_1", "node_2", "node_3")


STRANGE = ["", "[", "3", "[1, 2]", "__import__('os').system('touch x')", "{}", "[[]]"]
STRANGE += ["[" * 5000, "['a', " + "'b', " * 10_000 + "]"]


@pytest.mark.parametrize("scope", STRANGE, ids=range(len(STRANGE)))
def test_strange_metadata_are_left_out(tmp_path, scope, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_graph(exported([scope] * 4, tmp_path)).names[0] == "node_0"
    assert not (tmp_path / "x").exists()
