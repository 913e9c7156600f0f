"""Blocks handed back to PyTorch compute what the whole module computes, and send what the partition counts."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from instances import ComputationGraph, InputError, Instance, Partition, Platform
from instances.readers.pytorch.export import export, from_exported_program

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


class Network(torch.nn.Module):
    """Two branches, tied weights, a buffer, views, slices, a split, and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(11, 8)
        self.left, self.right = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.norm = torch.nn.LayerNorm(8)
        self.head = torch.nn.Linear(8, 11, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("scale", torch.randn(3, 1))

    def forward(self, x: Any) -> Any:
        h = self.table(x)
        first, second = (torch.relu(self.left(h)) * self.scale).chunk(2, -1)
        turned = torch.cat([torch.sin(second), first], -1).transpose(0, 1)
        mixed = self.norm(torch.tanh(self.right(h)) + turned.transpose(0, 1))
        return self.head(mixed[1:]), torch.cos(turned), mixed.view(-1)


@pytest.fixture(scope="module")
def example() -> tuple[Any, Any, ComputationGraph, Any]:
    """Program, inputs, graph, and the outputs of the module as it is."""
    torch.manual_seed(0)
    network, x = Network().eval(), torch.randint(0, 11, (3,))
    program = export(network, (x,))
    return program, x, from_exported_program(program), network(x)


def random_partitions(graph: ComputationGraph, count: int) -> list[Partition]:
    """Cuts of random topological orders into up to five blocks, some of them empty."""
    rng = np.random.default_rng(0)
    digraph = nx.DiGraph(graph.edges.tolist())
    digraph.add_nodes_from(range(graph.n))
    partitions = []
    for _ in range(count):
        k = int(rng.integers(1, 6))
        priority = rng.random(graph.n)
        order = list(nx.lexicographical_topological_sort(digraph, key=priority.__getitem__))
        cuts = np.sort(rng.integers(0, graph.n + 1, k - 1))
        block = np.empty(graph.n, dtype=np.int64)
        block[order] = np.searchsorted(cuts, np.arange(graph.n), side="right")
        partitions.append(Partition(Instance(graph, Platform(k, bandwidth=1.0)), block, order))
    return partitions


def test_some_of_the_partitions_are_no_cut_of_the_original_order(example: Any) -> None:
    assert sum((np.diff(partition.block) < 0).any() for partition in random_partitions(example[2], 15)) >= 5


def test_the_blocks_compute_what_the_module_computes(example: Any) -> None:
    from instances.readers.pytorch.stages import split

    program, x, graph, expected = example
    for partition in random_partitions(graph, 15):
        blocks = split(program, partition)
        assert {name for name, _ in blocks.named_children()} == {f"submod_{b}" for b in partition.block}
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(blocks(x), expected, strict=True))


def test_a_changed_tensor_between_two_blocks_changes_the_outputs(example: Any) -> None:
    """So the comparison above can fail."""
    from instances.readers.pytorch.stages import split

    program, x, graph, expected = example
    blocks = split(
        program, Partition(Instance(graph, Platform(2, bandwidth=1.0)), (np.arange(graph.n) >= 4).astype(int))
    )
    blocks.submod_0.register_forward_hook(lambda *call: tuple(tensor.flip(0) for tensor in call[-1]))
    assert not all(torch.equal(ours, theirs) for ours, theirs in zip(blocks(x), expected, strict=True))


def values_of(module: Any, x: Any) -> dict[str, Any]:
    """Value of each node of a graph module."""
    values: dict[str, Any] = {}

    class Record(torch.fx.Interpreter):
        def run_node(self, node: Any) -> Any:
            values[node.name] = super().run_node(node)
            return values[node.name]

    Record(module).run(x)
    return values


def size(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def test_the_blocks_receive_and_hold_the_bytes_of_the_partition(example: Any) -> None:
    """At bandwidth 1 the time to receive is the number of bytes; a buffer counts as a parameter, a tied one once."""
    from instances.readers.pytorch.stages import split

    program, x, graph, _ = example
    for partition in random_partitions(graph, 15):
        blocks = split(program, partition)
        values = values_of(blocks, x)
        received = np.zeros(partition.instance.k)
        for call in blocks.graph.nodes:
            if call.op == "call_module":
                sent = [values[source.name] for source in call.all_input_nodes if source.op != "placeholder"]
                received[int(call.target.removeprefix("submod_"))] = size(sent)
        np.testing.assert_array_equal(received, partition.costs.receive)
        held = [
            sum(
                t.numel() * t.element_size()
                for t in getattr(blocks, f"submod_{b}", torch.nn.Module()).state_dict().values()
            )
            for b in range(partition.instance.k)
        ]
        np.testing.assert_array_equal(held, partition.param_bytes)


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
def test_a_pipeline_is_cut_at_any_node(example: Any) -> None:
    """Also inside a branch, and along another order than that of the module."""
    pipelining = pytest.importorskip("torch.distributed.pipelining", reason="torch has no pipelining here")
    from instances.readers.pytorch.stages import arrange, split_policy

    program, x, graph, expected = example
    for partition in random_partitions(graph, 6):
        arranged, block = arrange(program, partition)
        pipe = pipelining.pipeline(arranged, mb_args=(x,), split_policy=split_policy(block))
        assert pipe.num_stages == len(set(partition.block.tolist()))
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(pipe(x), expected, strict=True))


def test_a_policy_refuses_another_module(example: Any) -> None:
    from instances.readers.pytorch.stages import arrange, split_policy

    program, _, graph, _ = example
    _, block = arrange(program, random_partitions(graph, 1)[0])
    with pytest.raises(InputError, match="has traced another module than the arranged one"):
        split_policy(block)(torch.fx.symbolic_trace(torch.nn.Linear(8, 8)))


def test_a_partition_of_another_graph_is_refused(example: Any) -> None:
    from instances.readers.pytorch.stages import split

    graph = ComputationGraph.from_edges([(0, 1)], [1, 2])
    with pytest.raises(InputError, match="is of a graph of 2 nodes, and not of this program"):
        split(example[0], Partition(Instance(graph, Platform(2, bandwidth=1.0)), [0, 1]))


def test_a_module_that_keeps_statistics_is_refused() -> None:
    """In training mode batch normalisation writes to its buffers, which no block could do alone."""
    from instances.readers.pytorch.stages import split

    program = export(torch.nn.Sequential(torch.nn.Conv2d(2, 2, 1), torch.nn.BatchNorm2d(2)), (torch.ones(2, 2, 3, 3),))
    graph = from_exported_program(program)
    with pytest.raises(
        InputError, match=r"changes its buffers or inputs \(.*running_mean.*; export it in the mode for inf"
    ):
        split(program, Partition(Instance(graph, Platform(1, bandwidth=1.0)), np.zeros(graph.n, dtype=np.int64)))
