"""Plans and schedules as plain arrays, for `kernels`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances.graph.tensors import FloatArray, IntArray
from instances.planning import Plan, TrainingInstance

__all__ = ["PlanState", "Starts", "Times"]


class Times(NamedTuple):
    """Times of the operations of a plan [s]."""

    f: FloatArray  # (S,): forward pass of a microbatch in each stage
    b: FloatArray  # (S,): backward pass
    cf: FloatArray  # (S - 1,): transfer of a microbatch to the next stage
    cb: FloatArray  # (S - 1,): transfer of its gradient back
    A: FloatArray  # (S,): AllReduces

    @classmethod
    def of(cls, plan: Plan) -> Times:
        """Times of a plan."""
        return cls(
            f=plan.forward_time,
            b=plan.backward_time,
            cf=plan.forward_transfer_time,
            cb=plan.backward_transfer_time,
            A=plan.allreduce_time,
        )


class Starts(NamedTuple):
    """Start times of operations, as in `Moments` [s]; a kernel fills them in."""

    forward: FloatArray
    backward: FloatArray
    send: FloatArray
    receive: FloatArray
    allreduce: FloatArray

    @classmethod
    def of(cls, stages: int, microbatches: int) -> Starts:
        """Allocate start times for a schedule."""
        stage, channel = (stages, microbatches), (stages - 1, microbatches)
        return cls(
            forward=np.zeros(stage),
            backward=np.zeros(stage),
            send=np.zeros(channel),
            receive=np.zeros(channel),
            allreduce=np.zeros(stages),
        )


class PlanState(NamedTuple):
    """A plan and its order of execution, as the search changes it; rows beyond the stages are of no matter."""

    cuts: IntArray  # (s + 1,)
    replicas: IntArray  # (s + 1,): those of each stage, then the number of idle devices
    order: IntArray  # (V,): stages take their devices from it, one after the other
    # (3,): number of stages, distance of `execution.steady`, and how much more than that forward passes may be ahead of
    # the gradients of weights, 0 if backward passes are in one piece.
    counts: IntArray

    @classmethod
    def of(cls, plan: Plan, distance: int, behind: int = 0) -> PlanState:
        """Arrays of a plan, with room for as many stages as there can be."""
        layers, devices, S = plan.instance.chain.n, plan.instance.cluster.n, plan.n_stages
        used = [device for stage in plan.devices for device in stage]
        idle = sorted(set(range(devices)) - set(used))
        cuts, replicas = np.zeros((2, min(layers, devices) + 1), dtype=np.int64)
        cuts[: S + 1], replicas[: S + 1] = plan.cuts, [*plan.replicas, len(idle)]
        return cls(cuts, replicas, np.array(used + idle), np.array([S, distance, behind]))

    def plan(self, instance: TrainingInstance) -> Plan:
        """Plan with this state."""
        stages = self.counts[0]
        return Plan.along(instance, self.cuts[: stages + 1], self.replicas[:stages], self.order)
