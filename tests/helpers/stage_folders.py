"""Models to split, partitions of them, and folders of stages to change."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx_models import model, save

from instances import Instance, Partition, Platform, Result, load_graph
from mtpp.stages.folder import write_stages
from mtpp.stages.manifest import Manifest

__all__ = ["altered", "cut_by", "networks", "partition_of", "split_into", "two_stages"]

SHAPE = (2, 3)


def cut_by(path: Path, block: list[int], **dims: int) -> Partition:
    """The partition of a model with the given block for each node of its graph."""
    graph = load_graph(path, dims=dims)
    return Partition(Instance(graph, Platform(max(block) + 1, 1e9)), block)


def partition_of(path: Path, choices: list[int], k: int, **dims: int) -> Partition:
    """A partition in which each node is in the block of its choice, or a later one if it must."""
    graph = load_graph(path, dims=dims)
    block = [0] * graph.n
    for v in graph.topological_order.tolist():
        before = [block[u] for u, w in graph.edges.tolist() if w == v]
        block[v] = max([choices[v % len(choices)] % k, *before])
    return Partition(Instance(graph, Platform(k, 1e9)), block)


def split_into(folder: Path, path: Path, partition: Partition, **options: Any) -> Manifest:
    return write_stages(path, [Result("given", partition.instance, partition)], folder, **options)


def two_stages(folder: Path) -> tuple[Path, Manifest]:
    """A folder with a small model in two stages, which runs."""
    network = model(
        "g (float[2,3] x) => (float[2,3] y) { a = MatMul(x, w) b = Relu(a) c = Add(b, a) y = Tanh(c) }", w=(3, 3)
    )
    path = save(folder, network)
    return folder / "stages", split_into(folder / "stages", path, cut_by(path, [0, 0, 1, 1]))


def altered(folder: Path, name: str, content: bytes) -> None:
    """Another content of a file, with the manifest that says so, also how many nodes a model has."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for stage in manifest["stages"]:
        if stage["file"] == name:
            with suppress(DecodeError):
                stage["nodes"] = len(onnx.ModelProto.FromString(content).graph.node)
    before = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / name).write_bytes(content)
    text = json.dumps(manifest).replace(before, hashlib.sha256(content).hexdigest())
    (folder / "manifest.json").write_text(text)


@st.composite
def networks(draw: st.DrawFn) -> onnx.ModelProto:
    """Small models with views, shapes, weights in common, several outputs of a node and of the model."""
    nodes, flat = [], [helper.make_node("Transpose", ["w"], ["wt"]), helper.make_node("Transpose", ["wt"], ["shared"])]
    tensors = ["x", "z"]
    for i in range(draw(st.integers(1, 9))):
        first, second = (draw(st.sampled_from(tensors)) for _ in range(2))
        kind = draw(st.sampled_from(["Relu", "Neg", "Add", "Mul", "weight", "view", "shape", "split", "If"]))
        if kind in ("Relu", "Neg"):
            nodes.append(helper.make_node(kind, [first], [f"t{i}"]))
        elif kind in ("Add", "Mul"):
            nodes.append(helper.make_node(kind, [first, second], [f"t{i}"]))
        elif kind == "weight":
            nodes.append(helper.make_node("Add", [first, "shared"], [f"t{i}"]))
        elif kind == "view":
            nodes.append(helper.make_node("Reshape", [first, "flat"], [f"v{i}"]))
            nodes.append(helper.make_node("Reshape", [f"v{i}", "square"], [f"t{i}"]))
        elif kind == "shape":
            nodes.append(helper.make_node("Shape", [second], [f"s{i}"]))
            nodes.append(helper.make_node("Reshape", [first, f"s{i}"], [f"t{i}"]))
        elif kind == "split":
            nodes.append(helper.make_node("Split", [first], [f"p{i}", f"q{i}"], axis=0, num_outputs=2))
            nodes.append(helper.make_node("Concat", [f"q{i}", f"p{i}"], [f"t{i}"], axis=0))
        else:
            branches = [
                helper.make_graph(
                    [helper.make_node(op, [first, second], [f"{op}{i}"])],
                    op,
                    [],
                    [helper.make_tensor_value_info(f"{op}{i}", TensorProto.FLOAT, SHAPE)],
                )
                for op in ("Max", "Min")
            ]
            nodes.append(helper.make_node("If", ["yes"], [f"t{i}"], then_branch=branches[0], else_branch=branches[1]))
        tensors.append(f"t{i}")
    results = draw(st.lists(st.sampled_from(tensors[2:]), min_size=1, max_size=3, unique=True))
    numbers = {"flat": np.array([6]), "square": np.array(SHAPE), "w": np.arange(6, dtype=np.float32).reshape(SHAPE)}
    graph = helper.make_graph(
        flat + nodes,
        "random",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "z")]
        + [helper.make_tensor_value_info("yes", TensorProto.BOOL, ())],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in results],
        [onnx.numpy_helper.from_array(value, name) for name, value in numbers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
