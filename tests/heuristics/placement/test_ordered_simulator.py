"""The pass along an order against the definition, and walks against passes from scratch."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import placements

from heuristics.local_search.annealing import Cooling
from heuristics.orders.orders import kahn
from heuristics.placement.ordered import Lane, Sequences, begin, evaluate, forget, read_off, sequences, walk
from heuristics.placement.simulator import SimulatorArrays, peak_memory, simulate, workspace
from instances.placement.placement import Placement

SEEDS = st.integers(0, 2**31 - 1)


def loaded(placement: Placement, seed: int) -> tuple[SimulatorArrays, Sequences, float]:
    """A random order and random bits for the devices of a placement."""
    rng, instance = np.random.default_rng(seed), placement.instance
    arrays, state = SimulatorArrays.of(instance), sequences(instance)
    state.order[:], state.device[:] = kahn(instance.graph, rng.random(instance.graph.n)), placement.device
    state.eager[:] = rng.random(len(state.eager)) < 0.5
    return arrays, state, begin(arrays, state)


def space_of(arrays: SimulatorArrays, state: Sequences) -> Any:
    shape = (len(state.eager), arrays.devices)
    views = {"sent": state.sent.reshape(shape), "arrived": state.arrived.reshape(shape)}
    return workspace(arrays)._replace(start=state.start, end=state.end, **views)


@given(placements(), SEEDS)
def test_the_pass_agrees_with_the_longest_path(placement: Placement, seed: int) -> None:
    arrays, state, time = loaded(placement, seed)
    ordered = read_off(placement.instance, state)
    assert ordered.step_time == time
    assert ordered.timeline.start.tolist() == state.start.tolist()
    assert ordered.timeline.end.tolist() == state.end.tolist()
    for transfer in ordered.timeline.transfers:
        for d in transfer.targets:
            assert state.sent[transfer.tensor * arrays.devices + d] == transfer.start
            assert state.arrived[transfer.tensor * arrays.devices + d] == transfer.end
    space = space_of(arrays, state)
    peak_memory(arrays, state.device.astype(np.int64), space)
    np.testing.assert_allclose(space.peak, ordered.peak_memory, atol=1e-9)


@given(placements())
def test_first_come_first_served_is_one_order(placement: Placement) -> None:
    """By the time when nodes are ready, all tensors eager."""
    arrays, state, _ = loaded(placement, 0)
    space = workspace(arrays)
    time = simulate(arrays, placement.device.copy(), space)
    state.order[:], state.eager[:] = np.lexsort((arrays.rank, space.ready)), True
    assert begin(arrays, state) == time
    assert state.start.tolist() == space.start.tolist()
    assert state.end.tolist() == space.end.tolist()


@given(placements(max_nodes=7), SEEDS)
def test_a_trial_that_is_forgotten_leaves_nothing(placement: Placement, seed: int) -> None:
    """Other devices for all nodes: the trial takes what a pass from scratch does, and then all is as before."""
    arrays, state, _ = loaded(placement, seed)
    _, other, _ = loaded(placement, seed)
    other.device[:] = np.random.default_rng(seed).permutation(state.device)
    time = begin(arrays, other)
    names = ("start", "end", "queue", "slot", "sent", "arrived")
    before = {name: getattr(state, name).tolist() for name in names}
    for name in ("device", "load", "remote"):
        getattr(state, name)[:] = getattr(other, name)
    assert evaluate(arrays, state, 0, np.inf) == time
    forget(state)
    assert {name: getattr(state, name).tolist() for name in names} == before


@settings(max_examples=60)
@given(placements(max_nodes=7), SEEDS, st.sampled_from([0.0, 0.1, 3.0]))
def test_walks_end_where_a_pass_from_scratch_does(placement: Placement, seed: int, hot: float) -> None:
    arrays, state, time = loaded(placement, seed)
    space = space_of(arrays, state)
    peak_memory(arrays, state.device.astype(np.int64), space)
    value = np.array([np.maximum(0, space.peak - arrays.memory).sum(), time])
    best = Lane(state.order.copy(), state.device.copy(), state.eager.copy(), value.copy())
    for chunk in range(5):
        walk(arrays, state, space, best, value, Cooling(40, hot, hot / 2), seed + chunk)
        assert tuple(best.value) <= tuple(value)
        here = state.start.copy(), state.end.copy(), state.load.copy(), state.remote.copy()
        assert begin(arrays, state) == value[1]
        assert here[0].tolist() == state.start.tolist()
        assert here[1].tolist() == state.end.tolist()
        np.testing.assert_allclose(here[2], state.load, atol=1e-9)
        assert here[3].tolist() == state.remote.tolist()
    state.order[:], state.device[:], state.eager[:] = best.order, best.device, best.eager
    assert begin(arrays, state) == best.value[1]
    ordered = read_off(placement.instance, state)
    over = np.maximum(0, ordered.peak_memory - placement.instance.memories).sum()
    np.testing.assert_allclose(over, best.value[0], atol=1e-9)
