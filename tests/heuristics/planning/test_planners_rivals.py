"""The planners that SPP is compared with: one instance by hand each, and none weaker than its own rule."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from planning_oracles import all_plans, random_instance

from heuristics.planning import PLANNERS
from heuristics.planning.rivals import (
    data_parallel,
    gpipe,
    hetpipe,
    microbatches_by_server,
    pipedream,
    pipedream_hierarchical,
)
from heuristics.planning.spp import even_counts, hierarchical_split, min_max_split
from instances import InputError
from instances.planning import Cluster, LayerChain, TrainingInstance


def by_hand(microbatches: int, servers: list[int], within: float = 2.0, between: float = 1.0) -> TrainingInstance:
    """Four layers; forward 1, backward 2; 4 bytes of activations, 2 of gradients, 6 of parameters a layer."""
    chain = LayerChain([1.0] * 4, [2.0] * 4, [4.0] * 3, [2.0] * 3, [6.0] * 4)
    return TrainingInstance(chain, Cluster.of_servers(servers, within, between), microbatches)


def test_data_parallelism_by_hand() -> None:
    """Half of M = 3 times 12 on each device, then 2 · 1/2 · 24 bytes over 2 bytes/s."""
    assert data_parallel(by_hand(3, [2])).time == 3 * 12 / 2 + 2 * (2 - 1) * 24 / (2 * 2.0)


def test_gpipe_by_hand() -> None:
    """Two stages of two layers (f = 2, b = 4), transfers of 2 and 1.

    Stage 0 forward 0–2–4; stage 1 forward 4–6, 6–8, backward 8–12–16; gradients arrive at 13 and 17; stage 0
    backward 13–17–21.
    """
    iteration = gpipe(by_hand(2, [2]))
    (schedule,) = iteration.schedules
    assert schedule.plan.cuts == (0, 2, 4)
    assert schedule.start.forward.tolist() == [[0, 2], [4, 6]]
    assert schedule.start.backward.tolist() == [[13, 17], [8, 12]]
    assert iteration.time == 21
    assert iteration.utilisation == 2 * 12 / (2 * 21)


def test_gpipe_shares_layers_evenly() -> None:
    """Sizes differ by one at most, the larger ones first; with more devices than layers some are idle."""
    assert even_counts(11, 4) == [3, 3, 3, 2]
    plan = gpipe(by_hand(2, [6])).plan
    assert plan is not None
    assert plan.devices == ((0,), (1,), (2,), (3,))


def test_pipedream_by_hand() -> None:
    """It sees links of (2 · 2 + 4 · 1) / 6 = 4/3 bytes/s, and loads of 16.5, 13.5, 54 and 54 with 1 to 4 stages; 1F1B.

    One stage: 4 · 12 / 4 + 2 · 3/4 · 4 / (4/3). Two of two devices: 4 · 6 / 2 + 2 · 1/2 · 2 / (4/3), and as much for
    the channel, 4 · 18 / (2 · 2 · 4/3). More stages have a channel of at most two links, 4 · 18 / (2 · 4/3), or one.
    """
    chain = LayerChain([1.0] * 4, [2.0] * 4, [12.0] * 3, [6.0] * 3, [1.0] * 4)
    iteration = pipedream(TrainingInstance(chain, Cluster.of_servers([2, 2], 2.0, 1.0), 4))
    assert iteration.plan is not None
    assert (iteration.plan.cuts, iteration.plan.devices) == ((0, 2, 4), ((0, 1), (2, 3)))
    assert [peak.in_flight for peak in iteration.schedules[0].peaks] == [2, 1]
    # On the true links: f = 1, b = 2, transfers of 12 / 4 and 6 / 4, AllReduces of 2 / 2.
    assert iteration.plan.stage_time.tolist() == [3, 3]
    assert iteration.plan.channel_time.tolist() == [4.5]
    assert iteration.plan.allreduce_time.tolist() == [1, 1]


def test_pipedream_minimises_the_load_on_equal_links() -> None:
    """No plan in the order of the indices has less W on the mean bandwidth; the original counts M AllReduces."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        instance = random_instance(rng, 5, 4, 4)
        equal = Cluster.of_servers([4], instance.cluster.links.mean())
        for every_minibatch, times in ((False, 1), (True, 4)):
            chain = instance.chain
            seen = LayerChain(
                chain.forward, chain.backward, chain.forward_bytes, chain.backward_bytes, times * chain.param_bytes
            )
            plans = list(all_plans(TrainingInstance(seen, equal, 4), range(4)))
            chosen = pipedream(instance, every_minibatch=every_minibatch).plan
            assert chosen is not None
            (same,) = [p for p in plans if (p.cuts, p.devices) == (chosen.cuts, chosen.devices)]
            assert same.workload == pytest.approx(min(p.workload for p in plans))


def test_hierarchical_pipedream_by_hand() -> None:
    """Two servers of two devices, two layers of 3 s, M = 4.

    With 6 bytes both ways and 6 bytes of parameters, a layer on a server takes 4 · 3 / 2 + 6 / 100 and the channel
    4 · 6 / 4: 6.06. One stage on both servers, split in each, takes 12 / 2 + 12 / 4. With 600 bytes both ways and
    1 byte of parameters it is the other way round: the channel takes 600, one stage on both servers 12 / 2 + 2 / 4.
    """
    for sent, params, devices in ((3.0, 6.0, ((0, 1), (2, 3))), (300.0, 1.0, ((0, 2), (1, 3)))):
        chain = LayerChain([1.0] * 2, [2.0] * 2, [sent], [sent], [params] * 2)
        cluster = Cluster.of_servers([2, 2], within=100.0 if sent < 10 else 1e4, between=4.0)
        plan = pipedream_hierarchical(TrainingInstance(chain, cluster, 4)).plan
        assert plan is not None
        assert (plan.cuts, plan.devices) == ((0, 1, 2), devices)


def level_by_hand(times: list[float], params: list[float], crossing: list[float], units: int, rate: float) -> float:
    """Least of all ways to cut into stages and to share out the units."""
    best = np.inf
    for stages in range(1, min(len(times), units) + 1):
        for inner in itertools.combinations(range(1, len(times)), stages - 1):
            cuts = (0, *inner, len(times))
            for ends in itertools.combinations(range(1, units), stages - 1):
                shares = np.diff([0, *ends, units]).tolist()
                loads = [
                    sum(times[i:j]) / r + (2 * (r - 1) * sum(params[i:j]) / (r * rate))
                    for (i, j), r in zip(itertools.pairwise(cuts), shares, strict=True)
                ]
                best = min(best, max([*loads, *(crossing[cut - 1] / rate for cut in inner)]))
    return best


def test_each_level_of_pipedream_is_optimal() -> None:
    """With one device a server there is one level, and its load is the least by brute force."""
    for seed in range(30):
        instance = random_instance(np.random.default_rng(seed), 5, 4, 3)
        chain = instance.chain
        (*stages,) = hierarchical_split(chain, 3, 4, 1, np.inf, 5.0)
        times = (3 * (chain.forward + chain.backward)).tolist()
        crossing = (3 * (chain.forward_bytes + chain.backward_bytes)).tolist()
        start, load = 0, 0.0
        for end, r, inner in stages:
            assert inner == [(end, 1)]
            load = max(load, sum(times[start:end]) / r + 2 * (r - 1) * chain.param_bytes[start:end].sum() / (r * 5.0))
            load = max(load, crossing[end - 1] / 5.0 if end < chain.n else 0.0)
            start = end
        assert load == pytest.approx(level_by_hand(times, chain.param_bytes.tolist(), crossing, 4, 5.0))


def test_hierarchical_pipedream_refuses_servers_of_different_sizes() -> None:
    with pytest.raises(InputError, match="one size"):
        pipedream_hierarchical(by_hand(2, [1, 2]))


def test_hetpipe_by_hand() -> None:
    """Two microbatches on each server: f = 2, b = 4, transfers of 2 and 1, 1F1B; then 2 · 1/2 · 24 bytes over 1 byte/s.

    Stage 0 forward 0–2–4; stage 1 4–10–16; gradients arrive at 11 and 17; stage 0 backward 11–15, 17–21.
    """
    iteration = hetpipe(by_hand(4, [2, 2]))
    assert [schedule.makespan for schedule in iteration.schedules] == [21, 21]
    assert iteration.time == 21 + 24
    assert iteration.plan is None
    assert hetpipe(by_hand(4, [2, 2]), only_largest_stage=True).time == 21 + 12
    assert hetpipe(by_hand(4, [4])).synchronisation == 0


def test_hetpipe_shares_microbatches_by_devices() -> None:
    """Largest remainder: 5 · (1, 2, 3) / 6 is 0.83, 1.67, 2.5; a server without any has no pipeline."""
    assert microbatches_by_server(by_hand(5, [1, 2, 3])) == [1, 2, 2]
    assert microbatches_by_server(by_hand(1, [2, 2])) == [1, 0]
    iteration = hetpipe(by_hand(1, [2, 2]))
    assert len(iteration.schedules) == 1
    assert iteration.schedules[0].plan.instance.cluster.names == ("0", "1")


def test_hetpipe_cuts_for_its_slowest_device() -> None:
    """No other cut has a smaller largest part."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        times = rng.integers(0, 20, int(rng.integers(1, 8))).astype(float)
        parts = int(rng.integers(1, len(times) + 1))
        cuts = min_max_split(times, parts)
        assert len(cuts) == parts + 1

        def largest(cuts: list[int], times: np.ndarray = times) -> float:
            return max(times[i:j].sum() for i, j in itertools.pairwise(cuts))

        inner = itertools.combinations(range(1, len(times)), parts - 1)
        assert largest(cuts) == min(largest([0, *middle, len(times)]) for middle in inner)


def test_registry_names_are_unique_and_described() -> None:
    """A planner is found under its own name and says what it does and where it comes from."""
    for name, spec in PLANNERS.items():
        assert name == spec.name
        assert spec.summary
        assert spec.reference


@pytest.mark.parametrize("name", list(PLANNERS))
def test_planners_take_the_smallest_questions(name: str) -> None:
    """One layer, one device, one microbatch; and more devices than layers."""
    one = TrainingInstance(LayerChain([1], [2], [], [], [3]), Cluster([[0]]), 1)
    assert PLANNERS[name].run(one, np.random.default_rng(0)).time == 3
    wide = TrainingInstance(one.chain, Cluster.of_servers([2, 2], 1.0, 1.0), 2)
    assert PLANNERS[name].run(wide, np.random.default_rng(0)).time > 0
