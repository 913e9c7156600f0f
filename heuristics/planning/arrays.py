"""Plans and schedules as plain arrays, for `kernels`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances.compiled import compiled
from instances.graph.tensors import FloatArray, IntArray
from instances.planning import Plan, TrainingInstance

__all__ = ["Log", "Orders", "PlanState", "Starts", "Times", "empty_log"]


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
    """Start times of operations, as in `Schedule` [s]; a kernel fills them in."""

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


class Orders(NamedTuple):
    """Passes of each group, one after the other: ``(stage M + microbatch) 4 + kind``."""

    passes: IntArray  # (n,)
    begin: IntArray  # (G + 1,): where each group begins

    # Instead of lists, limits: a group with one stage takes what is ready of I, F and W, in this order of priority, F
    # only while fewer F than these are ahead of I and of W. Empty if the lists hold.
    ahead_of_input: IntArray  # (S,) or (0,)
    ahead_of_weights: IntArray  # (S,) or (0,)


class Log(NamedTuple):
    """Start and end of what has run, -1 where nothing has [s]; and in which order the groups took their passes."""

    start: FloatArray  # (3, S, M): forward passes, backward passes or their first parts, their second parts
    end: FloatArray
    transfer_start: FloatArray  # (2 S - 2, M)
    transfer_end: FloatArray
    allreduce_start: FloatArray  # (S,)
    allreduce_end: FloatArray
    taken: IntArray  # (n,): as `Orders.passes`

    @classmethod
    def of(cls, stages: int, microbatches: int) -> Log:
        """Allocate a log for a run."""
        return empty_log(stages, microbatches)


@compiled
def empty_log(S: int, M: int) -> Log:
    """Allocate a log, as `Log.of`; for kernels."""
    return Log(
        np.full((3, S, M), -1.0),
        np.full((3, S, M), -1.0),
        np.full((2 * S - 2, M), -1.0),
        np.full((2 * S - 2, M), -1.0),
        np.full(S, -1.0),
        np.full(S, -1.0),
        np.full(3 * S * M, -1, dtype=np.int64),
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
