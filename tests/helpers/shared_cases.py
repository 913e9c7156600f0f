"""Tiny training pipelines on servers with shared network cards, what every planner must hold to, and all plans."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from answer_files import covered_plan_file
from planning_cases import PipelineCase, random_pipeline_case

from heuristics import Limits
from heuristics.planning import PLANNERS
from heuristics.planning.execution import steady, warmed_up
from heuristics.planning.orders import interleaved_plans, zero_bubble
from instances import InputError
from instances.devices import NetworkCards
from instances.json_files import Value
from instances.planning import Cluster, LayerChain, Plan, Timeline, TrainingInstance
from instances.planning.operations import BACKWARD, FORWARD, WEIGHTS, Flows, PassLists, encoded, simulate
from instances.planning.simulator import empty_log, run
from mtpp.problems.checking import verify
from mtpp_models.planning.solve import CLASSES, bounds_by_coverage, port_bound

__all__ = ["SharedCase", "build_shared", "check_bounds", "check_shared", "every_plan", "random_shared_case"]

_CLOSE = 1 + 1e-9
_FEW = Limits(evaluations=30)


@dataclass(frozen=True)
class SharedCase(PipelineCase):
    """A pipeline whose devices stand in servers, in their order."""

    servers: list[int] = field(default_factory=list)
    half: bool = False
    samples: int | None = None
    input_part: float = 0.5  # of backward passes

    def smaller(self) -> Iterator[SharedCase]:
        """As `PipelineCase`; a device that goes leaves its server."""
        for case in super().smaller():
            assert isinstance(case, SharedCase)
            if len(case.bandwidth) == len(self.bandwidth):
                yield case
        server = np.repeat(np.arange(len(self.servers)), self.servers).tolist()
        for device in range(len(server) if len(server) > 1 else 0):
            servers = [size - (h == server[device]) for h, size in enumerate(self.servers)]
            keep = [v for v in range(len(server)) if v != device]
            left = [[self.bandwidth[v][w] for w in keep] for v in keep]
            yield dataclasses.replace(self, bandwidth=left, servers=[size for size in servers if size])
        if self.samples is not None:
            yield dataclasses.replace(self, samples=None)


def random_shared_case(r: random.Random) -> SharedCase:
    """A random pipeline in up to as many servers as it has devices."""
    case = random_pipeline_case(r)
    devices = len(case.bandwidth)
    ends = sorted(r.sample(range(1, devices), r.randint(0, devices - 1))) if devices > 1 else []
    servers = [j - i for i, j in zip([0, *ends], [*ends, devices], strict=True)]
    samples = r.randint(1, 5) if r.random() < 0.3 else None
    return SharedCase(
        **dataclasses.asdict(case),
        servers=servers,
        half=r.random() < 0.5,
        samples=samples,
        input_part=r.choice((0.0, 0.25, 0.5, 1.0)),
    )


def build_shared(case: SharedCase) -> TrainingInstance:
    """The instance of a case."""
    chain = LayerChain(
        case.forward,
        case.backward,
        case.forward_bytes,
        case.backward_bytes,
        case.params,
        input_backward=case.input_part * np.array(case.backward),
    )
    return TrainingInstance(
        chain,
        Cluster(case.bandwidth, tuple(case.servers)),
        case.microbatches,
        full_duplex=case.full_duplex,
        memory=case.memory,
        network=NetworkCards(half=case.half),
        samples=case.samples,
    )


def every_plan(instance: TrainingInstance) -> Iterator[Plan]:
    """All cuts and all ways to give each device a stage or none, as far as links and memory allow them."""
    layers, devices = instance.chain.n, instance.cluster.n
    for stages in range(1, min(layers, devices) + 1):
        for stage_of in itertools.product(range(stages + 1), repeat=devices):
            if set(range(stages)) <= set(stage_of):
                groups = tuple(tuple(v for v in range(devices) if stage_of[v] == n) for n in range(stages))
                for inner in itertools.combinations(range(1, layers), stages - 1):
                    try:
                        yield Plan(instance, (0, *inner, layers), groups)
                    except InputError:
                        continue


def check_bounds(instance: TrainingInstance) -> int:
    """Compare the bounds with simulated times of every plan in several orders; return how often.

    Raises
    ------
    AssertionError
        If a bound exceeds one.
    """
    bounds, count, M = bounds_by_coverage(instance), 0, instance.microbatches
    for plan in every_plan(instance):
        flows, S = Flows.of(plan), plan.n_stages
        unsplit = [warmed_up(steady(S, M, distance), M) for distance in (1, M)]
        split = [zero_bubble(plan, distance, M)[0] for distance in (1, M)]
        for name, orders in (("fixed", unsplit), ("split", split)):
            orders = [order for order in orders if _fits(plan, order)]
            least = min((_time_of(flows, order, M) for order in orders), default=math.inf) * _CLOSE
            covering = list(CLASSES)[list(CLASSES).index(name) :]
            most = max(bounds[wider].value for wider in covering)
            assert most <= least, f"a bound of {name} plans, {most}, exceeds {least}"
            assert port_bound(plan) <= least, f"ports are loaded for {port_bound(plan)}, it takes {least}"
            count += len(orders)
    for plan, orders in interleaved_plans(instance, [np.arange(instance.cluster.n)]):
        least = _time_of(Flows.of(plan), orders, M) * _CLOSE
        assert bounds["any"].value <= least, f"the bound of any plan, {bounds['any'].value}, exceeds {least}"
        count += 1
    return count


def check_shared(name: str, case: SharedCase) -> float:
    """Whether a planner's times are those of exact simulation, its file is accepted, and bounds hold for all plans.

    Returned is by how much the bound of its class exceeds the time, as a part of it. An `InputError` says that no plan
    fits, an `AssertionError` that a number is false.
    """
    instance = build_shared(case)
    iteration = PLANNERS[name].run(instance, np.random.default_rng(case.seed), _FEW)
    assert 0 <= iteration.time < math.inf, f"the iteration takes {iteration.time}"
    for timeline in iteration.schedules:
        if isinstance(timeline, Timeline):
            exact = float(simulate(Flows.of(timeline.plan), timeline.orders, case.microbatches).makespan)
            assert math.isclose(timeline.makespan, exact, rel_tol=1e-9, abs_tol=1e-300), (
                f"it takes {exact}, not {timeline.makespan}"
            )
    if instance.chain.n <= 3 and instance.cluster.n <= 3:
        check_bounds(instance)
    if iteration.plan is None:
        return 0.0
    document = covered_plan_file(name, iteration)
    verdict = verify(Value(document, "plan.json"))
    assert not verdict.faults, f"its file is refused: {verdict.faults[0]}"
    return float(document["bound"]) / iteration.time - 1 if iteration.time > 0 else 0.0


def _fits(plan: Plan, orders: PassLists) -> bool:
    """Whether each stage has room for what it holds between forward passes and backward passes, or their last parts."""
    held = [
        max(np.cumsum([(kind == FORWARD) - (kind in (BACKWARD, WEIGHTS)) for kind, _, _ in order])) for order in orders
    ]
    return bool((plan.memory_needed(held) <= plan.instance.memory).all())


def _time_of(flows: Flows, orders: PassLists, microbatches: int) -> float:
    log = empty_log(len(flows.group), microbatches)
    return run(flows, encoded(orders, microbatches), microbatches, log, math.inf)
