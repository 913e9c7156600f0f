"""Tiny training pipelines on extreme clusters, and what every planner must hold to."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from planning_oracles import all_plans, queue_makespan, workload

from heuristics.planning import PLANNERS
from instances import InputError
from instances.planning import Cluster, LayerChain, TrainingInstance
from mtpp_models.planning.bounds import iteration_bound

__all__ = ["PipelineCase", "build_pipeline", "check_planner", "random_pipeline_case"]

_CLOSE = 1e-9


@dataclass(frozen=True)
class PipelineCase:
    """A chain of layers on a cluster, as plain lists; see `TrainingInstance`."""

    forward: list[float]
    backward: list[float]
    forward_bytes: list[float]
    backward_bytes: list[float]
    params: list[float]
    bandwidth: list[list[float]]
    microbatches: int
    full_duplex: bool
    memory: float
    seed: int = 0

    def smaller(self) -> Iterator[PipelineCase]:
        """The same with a layer or a device less, or plainer numbers."""
        for layer in range(len(self.forward) if len(self.forward) > 1 else 0):
            gap = min(layer, len(self.forward_bytes) - 1)
            yield dataclasses.replace(
                self,
                **{name: _less(getattr(self, name), layer) for name in ("forward", "backward", "params")},
                **{name: _less(getattr(self, name), gap) for name in ("forward_bytes", "backward_bytes")},
            )
        for device in range(len(self.bandwidth) if len(self.bandwidth) > 1 else 0):
            left = [_less(row, device) for row in _less(self.bandwidth, device)]
            yield dataclasses.replace(self, bandwidth=left)
        for name in ("forward", "backward", "forward_bytes", "backward_bytes", "params"):
            values = getattr(self, name)
            for i, value in enumerate(values):
                for plain in (0.0, 1.0):
                    if value not in (0.0, plain):
                        yield dataclasses.replace(self, **{name: [*values[:i], plain, *values[i + 1 :]]})
        if self.microbatches > 1:
            yield dataclasses.replace(self, microbatches=self.microbatches - 1)
        if self.memory < math.inf:
            yield dataclasses.replace(self, memory=math.inf)


def _less(values: list, i: int) -> list:  # type: ignore[type-arg]
    return [*values[:i], *values[i + 1 :]]


def random_pipeline_case(r: random.Random) -> PipelineCase:
    """Zero work, missing, slow and fast links, one device or layer, more devices than layers, little memory."""
    layers, devices = r.randint(1, 4), r.randint(1, 4)
    kinds = (
        lambda: 0.0,
        lambda: 3.0,
        lambda: float(r.randrange(10)),
        lambda: r.uniform(0, 10),
        lambda: 10 ** r.uniform(-12, 12),
    )
    links = (*kinds[1:], lambda: r.choice((0.0, 1.0)), lambda: r.choice((1e-300, 1.0, 1e300)), lambda: 1e-12)
    times, sizes, rate = r.choice(kinds), r.choice(kinds), r.choice(links)
    bandwidth = [[rate() for _ in range(devices)] for _ in range(devices)]
    if r.random() < 0.7:
        bandwidth = [[bandwidth[min(v, w)][max(v, w)] for w in range(devices)] for v in range(devices)]
    forward, backward, params = ([values() for _ in range(layers)] for values in (times, times, sizes))
    there, back = ([sizes() for _ in range(layers - 1)] for _ in range(2))
    memory = r.choice((math.inf, math.inf, 0.0, 10.0, 100.0, 4 * sum(params), 1e300))
    return PipelineCase(
        forward, backward, there, back, params, bandwidth, r.randint(1, 4), r.random() < 0.3, memory, r.randrange(2**31)
    )


def build_pipeline(case: PipelineCase) -> TrainingInstance:
    """The instance of a case."""
    chain = LayerChain(case.forward, case.backward, case.forward_bytes, case.backward_bytes, case.params)
    return TrainingInstance(
        chain, Cluster(case.bandwidth), case.microbatches, full_duplex=case.full_duplex, memory=case.memory
    )


def check_planner(name: str, case: PipelineCase) -> float:
    """Whether a planner's costs are those of the definition, and no bound exceeds what it or any plan needs.

    Returns
    -------
    float
        By how much the bound for any plan exceeds the best time known, as a part of it.

    Raises
    ------
    InputError
        If no plan fits.
    AssertionError
        If a number is false.
    """
    instance = build_pipeline(case)
    iteration = PLANNERS[name].run(instance, np.random.default_rng(case.seed))
    assert 0 <= iteration.time < math.inf, f"the iteration takes {iteration.time}"
    least = math.inf
    for schedule in iteration.schedules:
        plan = schedule.plan
        least = schedule.makespan if plan.instance.key == instance.key else least
        assert math.isclose(plan.workload, workload(plan), rel_tol=_CLOSE), (
            f"W is {plan.workload}, not {workload(plan)}"
        )
        assert plan.lower_bound <= schedule.makespan * (1 + _CLOSE), f"{plan.lower_bound} exceeds {schedule.makespan}"
        if name == "spp":
            again = queue_makespan(plan)
            assert math.isclose(schedule.makespan, again, rel_tol=_CLOSE), f"it takes {again}, not {schedule.makespan}"
    if math.isinf(least):  # servers that run pipelines of their own are not covered by the bound
        return 0.0
    devices = instance.cluster.n
    for order in itertools.permutations(range(devices)) if devices <= 3 else ():
        for used in range(1, devices + 1):
            plans = all_plans(instance, order[:used])
            while True:
                try:
                    least = min(least, next(plans).makespan_bound)
                except StopIteration:
                    break
                except InputError:  # this plan does not fit, nor can the generator go on
                    break
    bound = iteration_bound(instance).value
    assert bound <= least * (1 + _CLOSE), f"the bound {bound} exceeds {least}"
    return bound / least - 1 if least > 0 else 0.0
