"""ONNX files that cannot be read: one line that says what is wrong, never a traceback or a hang."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import mtpp
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_models import LIGHT, model, onnx, save

from instances import InputError, load_graph
from instances.readers.onnx import graph as graph_module
from instances.readers.onnx import recognises_onnx

CHAIN = "g (float[4] x) => (float[4] y) {a = Relu(x) y = Exp(a)}"


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load_graph(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_a_model_is_recognised_by_its_first_bytes(tmp_path: Path) -> None:
    """Whatever it is called."""
    assert load_graph(save(tmp_path, model(CHAIN), "chain.bin")).n == 2


def test_the_light_models_are_recognised() -> None:
    files = list(LIGHT.glob("*.onnx"))
    assert len(files) >= 9
    assert all(recognises_onnx(path.read_bytes()[:64]) for path in files)


@pytest.mark.parametrize("content", [b"", b"hello", b"{}", b"\x08\x07", b"\x00" * 99, b"PK\x03\x04" + b"\xff" * 99])
def test_what_is_no_model_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    assert refusal(path).startswith(("not an ONNX model, or cut short", "the model has no node"))


def test_a_truncated_model_is_refused(tmp_path: Path) -> None:
    """Wherever it is cut; but behind the graph nothing is missing."""
    network = model(CHAIN)
    content = network.SerializeToString()
    end = content.index(network.graph.SerializeToString()) + network.graph.ByteSize()
    path = tmp_path / "net.onnx"
    for length in range(end):
        path.write_bytes(content[:length])
        refusal(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "g (float[4] x) => (float[4] y) {a = Relu(b) b = Exp(a) y = Neg(b)}",
            "node Relu 'a' reads 'b', which nothing before it produces; nodes must be in topological order.",
        ),
        (
            "g (float[4] x) => (float[4] y) {y = Relu(x) y = Exp(x)}",
            "node Exp 'y' produces 'y', which is there already",
        ),
        ("g (float[4] x) => (float[4] z) {y = Relu(x)}", "output 'z' is produced by no node."),
        ("g (float[] x) => (float[4] y) {y = Relu(x)}", "input 'x' has no shape; export the model with one."),
        ("g (seq(float[4]) x) => (float[4] y) {y = Relu(x)}", "input 'x' is no tensor; only tensors have a size."),
        ("g (float[4] x) => (int64[1] y) {y = Shape(x)}", "nothing in the model depends on an input"),
        (
            'g (float[2,3,4] x) => (float[2] y) {y = Einsum<equation="ab->a">(x)}',
            "node Einsum 'y' does not fit its inputs (the term 'ab' does not fit a tensor with 3 dimensions).",
        ),
    ],
)
def test_a_broken_graph_is_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    assert refusal(save(tmp_path, model(text))).startswith(message)


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("g (float[4,8] x) => (float[4,16] y) {y = MatMul(x, w)}", (9, 16)),
        ("g (float[4,8] x) => (float[4,16] y) {y = Gemm<transB=1>(x, w)}", (16, 9)),
        ("g (float[1,8,5,5] x) => (float[1,4,3,3] y) {y = Conv(x, w)}", (4, 9, 3, 3)),
        ("g (float[1,8,5,5] x) => (float[1,4,7,7] y) {y = ConvTranspose(x, w)}", (9, 4, 3, 3)),
    ],
)
def test_weights_of_another_size_are_refused(text: str, weight: tuple[int, ...], tmp_path: Path) -> None:
    """Shape inference believes the file."""
    assert refusal(save(tmp_path, model(text, w=weight))).endswith("(8 channels or columns meet weights for 9).")


def test_absurd_sizes_are_refused(tmp_path: Path) -> None:
    """More elements than a float can count."""
    network = model("g (float[n] x) => (float[n] y) {y = Relu(x)}")
    for value in (*network.graph.input, *network.graph.output):
        del value.type.tensor_type.shape.dim[:]
        value.type.tensor_type.shape.dim.extend([onnx.TensorShapeProto.Dimension(dim_value=2**62)] * 20)
    assert refusal(save(tmp_path, network)).startswith(("node Relu 'y' does not fit", "the sizes are too large"))


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, model(CHAIN.replace("a =", "abcd =").replace("(a)", "(abcd)")))
    path.write_bytes(path.read_bytes().replace(b"abcd", b"ab\xff\xfe"))
    assert refusal(path) == "a name in the model is not UTF-8; the file may be damaged."


def field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message that holds bytes."""
    size, length = [], len(content)
    while length >= 128:
        size.append(length % 128 + 128)
        length //= 128
    return bytes([8 * number + 2, *size, length]) + content


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    """A graph in an attribute of a node of a graph, a thousand times."""
    graph = b""
    for _ in range(1000):
        graph = field(1, field(5, field(6, graph)))
    path = tmp_path / "net.onnx"
    path.write_bytes(b"\x08\x08" + field(7, graph))
    assert refusal(path).startswith("not an ONNX model, or cut short")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("net.onnx", {"communication": "cost"}, "'onnx' files have no edge costs"),
        ("net.onnx", {"dims": {"batch": 2, "width": 3}}, "there is no dimension 'width'; it has x:0, batch."),
        ("net.onnx", {"cost": "guessed"}, "cost is 'guessed'; give one of roofline, measured."),
    ],
)
def test_options_that_do_not_fit(name: str, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = save(tmp_path, model(CHAIN), name)
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        load_graph(path, **options)


def test_a_damaged_file_is_one_line_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(model(CHAIN).SerializeToString()[:40])
    assert mtpp(f"import {path}") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"mtpp: {path}: not an ONNX model")


SEEDS = [
    model(CHAIN).SerializeToString(),
    model("g (float[4,8] x) => (float[4,16] y) {h = MatMul(x, w) y = Softmax(h)}", w=(8, 16)).SerializeToString(),
    model("""g (float[1,3,8,8] x) => (float[1,4] y) {
        c = Conv<kernel_shape=[3,3]>(x, w)
        p = MaxPool<kernel_shape=[6,6]>(c)
        t = Constant<value=int64[2] {1, 4}>()
        y = Reshape(p, t)
    }""", w=(4, 3, 3, 3)).SerializeToString(),
    model("""g (float[4,8] x, bool c) => (float[4,8] y) {
        n = Constant<value_int=3>()
        h = Loop(n, "", x) <
            body = b (int64 i, bool go, float[] s) => (bool on, float[] t) {on = Identity(go) t = Exp(s)}
        >
        y = If(c) <then_branch = t () => (float[] a) {a = Relu(h)}, else_branch = e () => (float[] b) {b = Neg(h)}>
    }""").SerializeToString(),
]  # fmt: skip
EDITS = st.lists(
    st.tuples(st.integers(0, 2**16), st.integers(0, 4), st.binary(min_size=1, max_size=9)), min_size=1, max_size=4
)


@settings(max_examples=300)
@given(content=st.sampled_from(SEEDS), edits=EDITS, batch=st.integers(1, 3))
def test_mutated_bytes_are_read_or_refused(
    content: bytes, edits: list[tuple[int, int, bytes]], batch: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Bytes replaced, put in or cut out."""
    for place, cut, new in edits:
        place %= len(content) + 1
        content = content[:place] + new + content[place + cut :]
    path = tmp_path_factory.getbasetemp() / "mutated.onnx"
    path.write_bytes(content)
    problem = ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_module, "_ask", lambda *_: None)  # another process a file takes too long
        try:
            load_graph(path, reader="onnx", dims={"batch": batch})
        except InputError as error:
            problem = str(error)
    assert len(problem.splitlines()) <= 1


@pytest.mark.parametrize(
    ("depth", "calls", "message"),
    [(8, 10, "its functions become more than 2000000 nodes"), (0, 1, "a function of the model calls itself")],
)
def test_functions_that_multiply_are_refused(depth: int, calls: int, message: str, tmp_path: Path) -> None:
    """A small file would become ten to the power of eight nodes, or infinitely many."""
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("my", 1)]
    functions = []
    for level in range(depth + 1):
        inner, domain = ("F0" if depth == 0 else "Relu", "my" if depth == 0 else "")
        if level:
            inner, domain = f"F{level - 1}", "my"
        names = ["a", *(f"t{i}" for i in range(calls - 1)), "b"]
        nodes = [onnx.helper.make_node(inner, [names[i]], [names[i + 1]], domain=domain) for i in range(calls)]
        functions.append(onnx.helper.make_function("my", f"F{level}", ["a"], ["b"], nodes, opsets))
    network = model("g (float[4] x) => (float[4] y) {y = Relu(x)}")
    network.graph.node[0].op_type, network.graph.node[0].domain = f"F{depth}", "my"
    network.functions.extend(functions)
    assert refusal(save(tmp_path, network)).startswith(message)
