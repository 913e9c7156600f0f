"""Small ONNX models, written as text with weights added by shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")

from instances import ComputationGraph, load_graph  # noqa: E402

#: Networks without weights that the package onnx brings along.
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def model(text: str, opset: int = 18, dtype: type = np.float32, **weights: tuple[int, ...]) -> onnx.ModelProto:
    """Parse ``name (inputs) => (outputs) {nodes}`` and add weights of the given shapes."""
    result = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "my.own" : 1]> {text}')
    for name, shape in weights.items():
        values = np.random.default_rng(0).standard_normal(shape).astype(dtype)
        result.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return result


def save(folder: Path, network: onnx.ModelProto, name: str = "net.onnx") -> Path:
    path = folder / name
    path.write_bytes(network.SerializeToString())
    return path


def read(folder: Path, network: onnx.ModelProto, **dims: int) -> ComputationGraph:
    return load_graph(save(folder, network), dims=dims)


def named_edges(graph: ComputationGraph) -> set[tuple[str, str, float]]:
    """Producer, consumer and bytes of each edge; a name is that of the operator."""
    sizes = graph.tensors.bytes[graph.edge_tensor].tolist()
    return {(graph.names[u], graph.names[v], size) for (u, v), size in zip(graph.edges.tolist(), sizes, strict=True)}
