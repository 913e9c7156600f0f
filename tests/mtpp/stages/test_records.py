"""What a manifest says of tensors."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from mtpp.stages.folder import tolerance
from mtpp.stages.manifest import ELEMENTS, TensorRecord
from mtpp.stages.runner import Layout


def test_elements_are_those_of_onnx() -> None:
    """Numbers as in its enumeration of types, sizes as numpy has them; bfloat16, which it lacks, takes two bytes."""
    onnx = pytest.importorskip("onnx")
    numbers = onnx.TensorProto.DataType
    assert {name: number for name, (number, _, _) in ELEMENTS.items()} == {
        name: numbers.Value(name.upper()) for name in ELEMENTS
    }
    sizes = {name: size for name, (_, size, _) in ELEMENTS.items()}
    assert sizes.pop("bfloat16") == 2
    assert sizes == {name: np.dtype(ELEMENTS[name][2]).itemsize for name in sizes}
    for name in sizes:
        assert onnx.helper.tensor_dtype_to_np_dtype(numbers.Value(name.upper())) == np.dtype(ELEMENTS[name][2])


def test_bytes_of_a_tensor() -> None:
    """All its elements; a scalar has one, and a tensor with an empty side none."""
    shapes = [(), (2, 3), (2, 0)]
    assert [TensorRecord("t", "float16", shape).bytes for shape in shapes] == [2, 12, 0]


def test_a_tensor_lies_in_shared_memory_once() -> None:
    """An input of the model that two stages read has a slot a sample, what a stage gives a slot a request under way."""
    given, between = TensorRecord("x", "float", (16,)), TensorRecord("y", "float", (32,))
    first = ([given.received(None)], [between.sent((1,))])
    last = ([given.received(None), between.received(0)], [])
    layout = Layout([first, last], slots=3, samples=5, requests=7)
    assert set(layout.inputs) == {"x"}
    assert set(layout.made) == {(0, "y")}
    assert layout.bytes == pytest.approx(5 * 64 + 3 * 128 + 2 * 7 * 3 * 8, abs=2 * 64)


@pytest.mark.parametrize(
    ("element", "expected"), [("float16", 0.02), ("bfloat16", 0.02), ("float", 1e-3), ("double", 1e-9)]
)
def test_outputs_may_differ_by_their_precision(element: str, expected: float) -> None:
    """Half precision has three digits, single precision with sums in another order as many to be safe."""
    assert tolerance(TensorRecord("t", element, (2,))) == expected


@pytest.mark.parametrize("name", ["splitting", "trial"])
def test_bug_stages_without_onnx_name_the_extra(name: str) -> None:
    """The module that says so is loaded before those that need onnx."""
    hidden = f"import scipy.stats, sys; sys.modules['onnx'] = None\nimport mtpp.stages.{name}"
    run = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert "InputError: stages need onnx and onnxruntime; install the extra" in run.stderr
