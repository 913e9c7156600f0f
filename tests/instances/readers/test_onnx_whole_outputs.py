"""Models of the kinds that exporters write, and corners of the format: their stages give what the whole model gives."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")

from onnx_models import model, save  # noqa: E402
from stage_folders import partition_of  # noqa: E402

from instances import InputError, InputWarning  # noqa: E402
from instances.readers.onnx.graph import open_shapes  # noqa: E402
from instances.readers.onnx.operators import Scope  # noqa: E402
from instances.readers.onnx.stages import Cut, cut_model  # noqa: E402


def run(network: onnx.ModelProto, names: list[str], feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(network.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(names, feeds))


def assert_whole(path: Path, cut: Cut) -> None:
    """All outputs are equal byte by byte, and all tensors have the shapes that are said."""
    rng = np.random.default_rng(0)
    feeds = {}
    for spec in cut.inputs:
        kind = onnx.helper.tensor_dtype_to_np_dtype(spec.element)
        feeds[spec.name] = np.asarray(rng.integers(0, 2, spec.shape), kind)
    made: dict[int | None, dict[str, np.ndarray]] = {None: feeds}
    for stage in cut.stages:
        names = [spec.name for spec in stage.sent]
        found = run(stage.model, names, {spec.name: made[sender][spec.name] for spec, sender in stage.received})
        assert [value.shape for value in found] == [spec.shape for spec in stage.sent]
        made[stage.block] = dict(zip(names, found, strict=True))
    given = {name: value for tensors in made.values() for name, value in tensors.items()}
    names = [spec.name for spec in cut.outputs]
    for name, value in zip(names, run(onnx.load(path), names, feeds), strict=True):
        assert np.array_equal(given[name], value), name


CORNERS = {
    "an output that is read inside": "g (float[2] x) => (float[2] a, float[2] y) { a = Relu(x) b = Neg(a) y = Exp(b) }",
    "an output twice": "g (float[2,3] x) => (float[2,3] y, float[2,3] y) { a = Relu(x) y = Exp(a) }",
    "one node": "g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }",
    "only a view": "g (float[2,3] x) => (float[2,3] y) { y = Identity(x) }",
    "an input that nobody reads": "g (float[2,3] x, float[4] z) => (float[2,3] y) { a = Relu(x) y = Exp(a) }",
    "a scalar": "g (float[2,3] x) => (float[2,3] y) { a = Relu(x) s = ReduceSum<keepdims = 0>(a) y = Add(x, s) }",
    "no elements": "g (float[0,3] x) => (float[0,3] y) { a = Relu(x) y = Exp(a) }",
    "a shape that is an output": "g (float[2] x) => (float[2] y, int64[1] s) { a = Relu(x) s = Shape(a) y = Exp(a) }",
    "branches that read what is around them": (
        "g (float[2] x, bool c) => (float[2] y) { a = Relu(x) b = Neg(x) d = If (c) "
        "<then_branch = t () => (float[2] u) { u = Add(a, b) }, else_branch = e () => (float[2] v) { v = Mul(b, x) }> "
        "y = Tanh(d) }"
    ),
    "a loop that reads what is around it": (
        "g (float[2,3] x) => (float[2,3] y) { n = Constant<value = int64 {3}>() t = Constant<value = bool {1}>() "
        "a = Relu(x) b = Neg(x) d = Loop (n, t, b) <body = l (int64 i, bool p, float[2,3] v) => (bool q, float[2,3] w) "
        "{ q = Identity(p) w = Add(v, a) }> y = Tanh(d) }"
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CORNERS)
def test_corners_of_the_format(name: str, tmp_path: Path) -> None:
    """Also with more blocks than nodes."""
    path = save(tmp_path, model(CORNERS[name]))
    assert_whole(path, cut_model(path, {}, partition_of(path, [0, 1, 2, 3], 9)))


def test_names_that_two_nodes_have_are_not_needed(tmp_path: Path) -> None:
    """Then a node is called by its operator and outputs; if that is a name as well, it is refused."""
    network = model("g (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Tanh(b) }")
    for node in network.graph.node:
        node.name = "same"
    path = save(tmp_path, network)
    cut = cut_model(path, {}, partition_of(path, [0, 1, 2], 3))
    assert [[node.op_type for node in stage.model.graph.node] for stage in cut.stages] == [["Relu"], ["Neg"], ["Tanh"]]
    for node, name in zip(network.graph.node, ("Neg b", "", "Relu a"), strict=True):
        node.name = name
    path = save(tmp_path, network)
    with pytest.raises(InputError, match="2 nodes of the model are called 'Neg b'; give each a name of its own"):
        cut_model(path, {}, partition_of(path, [0], 1))


@pytest.mark.slow
def test_bug_shapes_that_depend_on_values_are_not_fixed(tmp_path: Path) -> None:
    """That of one run was taken for that of all, and the next stage refused what came."""
    nodes = "s = NonZero(x) a = Cast<to = 1>(s) b = ReduceSum<keepdims = 0>(a) y = Add(x, b)"
    path = save(tmp_path, model(f"g (float[2,3] x) => (float[2,3] y) {{ {nodes} }}"))
    with pytest.warns(InputWarning, match="sizes that depend on values are those for inputs of ones: s, a"):
        partition = partition_of(path, [0, 1, 1, 1], 2)
    with pytest.raises(InputError, match="the shape of tensor 's' depends on values, and stages need fixed ones"):
        cut_model(path, {}, partition)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("s = NonZero(x) a = Cast<to = 1>(s) b = ReduceSum<keepdims = 0>(a) y = Add(x, b)", {"s", "a"}),
        ("r = ReduceMax<keepdims = 0>(x) s = Range(r, e, e) m = ReduceMax<keepdims = 0>(s) y = Add(x, m)", {"s"}),
        ("r = ArgMax(x) a = Tile(x, r) b = Relu(a) y = Relu(x)", {"a", "b"}),
        ("s = Shape(x) a = Expand(x, s) b = Reshape(a, s) y = Relu(b)", set()),
    ],
)
def test_which_shapes_depend_on_values(nodes: str, expected: set[str]) -> None:
    network = model(f"g (float[2,3] x) => (float[2,3] y) {{ {nodes} }}", e=())
    assert open_shapes(network, Scope(network.graph)) == expected


@pytest.mark.slow
def test_an_exported_transformer(tmp_path: Path) -> None:
    """Embeddings, attention, norms and a head, as PyTorch writes them, with an open batch."""
    torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    torch.manual_seed(0)

    class Network(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(20, 16)
            layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
            self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, ids: object) -> object:
            return self.layers(self.words(ids)) @ self.words.weight.T

    path = tmp_path / "net.onnx"
    with warnings.catch_warnings(action="ignore"):
        torch.onnx.export(
            Network().eval(), (torch.ones(1, 6, dtype=torch.int64),), str(path), dynamo=False, input_names=["ids"],
            dynamic_axes={"ids": {0: "batch"}},
        )  # fmt: skip
    dims = {"batch": 2}
    cut = cut_model(path, dims, partition_of(path, [v // 20 for v in range(200)], 4, **dims))
    assert len(cut.stages) > 2
    assert_whole(path, cut)
