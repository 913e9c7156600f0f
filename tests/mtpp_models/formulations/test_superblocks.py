"""Superblocks of any sizes bound what all blocks together cost."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import modelled_optimum as optimum
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import compositions, heavy_overflows, instances, partitions

from heuristics import HEURISTICS
from instances import ComputationGraph, InputError, Instance, Partition, Platform
from instances.random_graphs import regal_style
from mtpp_models import Case, Formulation, ScaledInstance, SolveOptions, solve
from mtpp_models.formulations.exact import exact
from mtpp_models.formulations.superblocks import coarse, equal_sizes, merged
from mtpp_models.solvers.highs import run_highs
from mtpp_models.solvers.interface import Controls, Termination
from mtpp_models.solvers.modeling import pyo


def of_sizes(sizes: list[int]) -> Formulation:
    def cases(data: ScaledInstance) -> tuple[Case, ...]:
        return (Case("sizes", lambda: exact(data, sizes), lambda partition: merged(partition, sizes)),)

    return Formulation(f"sizes {sizes}", "superblocks of given sizes", "test", cases)


def objective(instance: Instance, sizes: list[int], unit: float = 1.0) -> float:
    """Optimum of the model in the time unit of the instance, without the help of *simple*."""
    model = exact(ScaledInstance(instance, unit), sizes)
    assert run_highs(model, Controls()).termination is Termination.OPTIMAL
    return float(pyo.value(model.objective)) * unit


@settings(max_examples=80)
@given(instances(max_nodes=5, max_k=5, huge_ratio=False), st.booleans(), st.data())
def test_superblocks_of_any_sizes_are_a_lower_bound(instance: Instance, warm: bool, data: st.DataObject) -> None:
    """With several outputs, shared parameters, and memory with and without a buffer, cold or from a start."""
    sizes = data.draw(compositions(instance.k))
    start = Partition(instance, [0] * instance.graph.n) if warm else None
    bound = solve(instance, of_sizes(sizes), start=start, reduce=False).bound
    assert bound is not None
    assert bound.value <= optimum(instance) * (1 + 1e-9)


@settings(max_examples=40)
@given(heavy_overflows(), st.data())
def test_superblocks_are_a_lower_bound_beside_a_huge_overflow(instance: Instance, data: st.DataObject) -> None:
    instance = instance.with_k(data.draw(st.integers(2, 4)))
    bound = solve(instance, of_sizes(data.draw(compositions(instance.k)))).bound
    assert bound is not None
    assert bound.value <= optimum(instance) * (1 + 1e-9)


@settings(max_examples=80)
@given(partitions(max_nodes=6, huge_ratio=False), st.data())
def test_merging_the_blocks_of_a_partition_raises_no_cost(partition: Partition, data: st.DataObject) -> None:
    """The optimum with y fixed to the merged partition is at most the bottleneck."""
    partition = Partition(partition.instance.modelled(), partition.block)
    platform = partition.instance.platform
    assume((platform.activation_buffer or 0.0) <= platform.memory)  # else the model charges empty blocks
    sizes = data.draw(compositions(partition.instance.k))
    (case,) = of_sizes(sizes).cases(ScaledInstance(partition.instance, 1.0))
    model = case.model(partition)
    for variable in model.y.values():
        variable.fix()
    assert run_highs(model, Controls()).termination is Termination.OPTIMAL
    assert pyo.value(model.objective) <= partition.bottleneck * (1 + 1e-6) + 1e-6


@settings(max_examples=40)
@given(instances(max_nodes=6, max_k=5, huge_ratio=False))
def test_one_superblock_has_the_work_per_block(instance: Instance) -> None:
    """Beside it, what even all memory together cannot hold."""
    platform, graph = instance.platform, instance.graph
    spare = platform.memory - (platform.activation_buffer or 0.0)
    room = spare if instance.k == 1 else instance.k * max(0.0, spare)
    need = float(instance.needs.max()) if instance.needs_peaks else 0.0
    streamed = max(0.0, graph.held_total + need - room) / platform.bandwidth
    expected = (float(graph.work.sum()) + streamed) / instance.k
    assume(ScaledInstance(instance, 1.0).has_overflow or streamed == 0)
    assert objective(instance, [instance.k]) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@settings(max_examples=40)
@given(instances(max_nodes=5, huge_ratio=False))
def test_as_many_superblocks_as_blocks_are_exact(instance: Instance) -> None:
    for j in (instance.k, instance.k + 3):
        bound = solve(instance, coarse(j)).bound
        assert bound is not None
        assert bound.value == pytest.approx(optimum(instance), rel=2e-6)


@settings(max_examples=40)
@given(instances(max_nodes=5, huge_ratio=False, overflow=False), st.sampled_from([(1, 2), (1, 3), (2, 4)]))
def test_equal_superblocks_bound_many_blocks_by_few(instance: Instance, numbers: tuple[int, int]) -> None:
    """k OPT_k ≥ j OPT_j, and the model with j superblocks of k / j blocks says just that."""
    j, k = numbers
    few, many = (optimum(instance.with_k(blocks)) for blocks in (j, k))
    assert k * many >= j * few * (1 - 1e-9)
    assert objective(instance.with_k(k), [k // j] * j) == pytest.approx(j * few / k, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("k", range(1, 9))
def test_equal_sizes_share_all_blocks(k: int) -> None:
    for j in range(1, k + 1):
        sizes = equal_sizes(k, j)
        assert (len(sizes), sum(sizes)) == (j, k)
        assert max(sizes) - min(sizes) <= 1
        assert list(sizes) == sorted(sizes, reverse=True)


def test_blocks_are_merged_in_order_and_empty_ones_left_out() -> None:
    instance = Instance(ComputationGraph.from_edges([], [1] * 4), Platform(6, bandwidth=1))
    partition = Partition(instance, [0, 2, 5, 5])
    assert merged(partition, (2, 1, 3)).tolist() == [1, 1, 2, 2]
    assert merged(partition, (1, 1, 4)).tolist() == [1, 2, 3, 3]


def test_every_size_of_model_accepts_a_start() -> None:
    instance = Instance(regal_style("watts-strogatz", 30, seed=0), Platform(8, bandwidth=1))
    start = HEURISTICS["brkga-100"].run(instance, np.random.default_rng(0))
    for j in (2, 3, 8):
        assert "MIP start solution is feasible" in solve(instance, coarse(j), SolveOptions(gap=0.9), start=start).log


def test_no_superblock_is_refused() -> None:
    with pytest.raises(InputError, match="There are 0 superblocks"):
        coarse(0)
