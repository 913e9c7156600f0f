"""Prices in the graph with a node before all others and one behind: never too much, and more than without the two."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
from brute_force import best_partition
from certificates import check
from hypothesis import given, settings
from hypothesis import strategies as st
from price_oracle import cheapest, prices_for, searched_tree
from strategies import heavy_overflows, instances, partitions

from instances import Bound, ComputationGraph, Instance, Partition, Platform, Result
from instances.deadline import Deadline
from mtpp.problems.checking import certificate_document
from mtpp_models.bounds.priced.prices import BlockTree
from mtpp_models.bounds.priced.relaxation import partition_with_ends, with_ends
from mtpp_models.bounds.priced.trees import price_witness


@settings(max_examples=60)
@given(partitions(max_nodes=6))
def test_blocks_cost_the_same_with_the_two(start: Partition) -> None:
    """Each in its order, but for those that are empty."""
    start = Partition(start.instance.modelled(), start.block)
    _, taken = np.unique(start.block, return_index=True)
    longer = partition_with_ends(start)
    assert longer.bottleneck == pytest.approx(start.bottleneck, rel=1e-12)
    assert longer.block_costs[: len(taken)] == pytest.approx(start.block_costs[start.block[taken]], rel=1e-12)


@settings(max_examples=120)
@given(st.data())
def test_some_block_is_worth_its_share(data: st.DataObject) -> None:
    """No prices prove more than the optimum, and the tree proves no goal a ten-millionth above it."""
    instance = data.draw(instances(max_nodes=4, max_k=3) | heavy_overflows())
    best, longer = best_partition(instance.modelled()).bottleneck, with_ends(instance.modelled())
    prices = data.draw(prices_for(longer.graph.n))
    assert cheapest(longer, prices, 1e-12) <= best * (1 + 1e-12)
    if 1e-200 < best < 1e200:
        done, block = searched_tree(longer, prices, best * (1 + 1e-7))
        assert not done
        assert block is not None


FORK = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)], [1.0, 3.0, 3.0, 1.0], [1.0, 1.0, 1.0, 0.0])


def test_first_and_last_blocks_are_told_apart(tmp_path: Path) -> None:
    """One of two parallel nodes is in the first block or the last, which then holds another node as well.

    All of the worth on the two more nodes, whose blocks cost nothing, is false, and so are numbers of prices that fit
    neither graph.
    """
    instance = Instance(FORK, Platform(3, 1.0))
    best, prices = best_partition(instance), np.array([0.0, 1.0, 1.0, 0.0])
    assert cheapest(instance, prices) < best.bottleneck
    prices, goal = np.append(prices, [1.0, 1.0]), best.bottleneck * (1 - 1e-9)
    tree = BlockTree(with_ends(instance), prices, goal)
    assert tree.explore(Deadline.after(60.0)) == (True, None)
    proof = tree.proof()
    assert proof is not None
    witness = {"prices": prices.tolist(), **price_witness(proof, Deadline())}
    made = certificate_document([Result("priced", instance, best, Bound(goal, "priced", witness=witness))])
    verdict = check(made, tmp_path)
    assert verdict.faults == ()
    assert verdict.proved_bound is not None
    assert verdict.proved_bound >= goal * (1 - 1e-9)
    assert check(made, tmp_path, again=True).faults == ()
    for forged in ([0.0] * 4 + [1.0, 0.0], [0.0] * 4 + [1.0, 1.0], [1.0] * 5, [1.0] * 7):
        other = copy.deepcopy(made)
        other["bounds"][0]["parameters"]["prices"] = forged
        assert check(other, tmp_path).faults
    del made["bounds"][0]["parameters"]["tree"]
    made["bounds"][0]["recheck"] = "trusted"
    assert check(made, tmp_path, again=True).checks[0].confirmed
