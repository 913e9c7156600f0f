"""Instances, plans and schedules as plain arrays, for `kernels`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances.graph.tensors import FloatArray, IntArray
from instances.planning import Plan, TrainingInstance

__all__ = ["Costs", "Starts", "State", "Times"]


class Times(NamedTuple):
    """What the operations of a plan take [s].

    Parameters
    ----------
    f, b : (S,) floats
        Passes of a microbatch in each stage.
    cf, cb : (S - 1,) floats
        Transfers of a microbatch to the next stage and back.
    A : (S,) floats
        AllReduces.
    """

    f: FloatArray
    b: FloatArray
    cf: FloatArray
    cb: FloatArray
    A: FloatArray

    @classmethod
    def of(cls, plan: Plan) -> Times:
        """Times of a plan."""
        transfers = (plan.forward_transfer_time, plan.backward_transfer_time)
        return cls(plan.forward_time, plan.backward_time, *transfers, plan.allreduce_time)


class Starts(NamedTuple):
    """When they start, as in `Schedule`; a kernel fills them in [s]."""

    forward: FloatArray
    backward: FloatArray
    send: FloatArray
    receive: FloatArray
    allreduce: FloatArray

    @classmethod
    def of(cls, stages: int, microbatches: int) -> Starts:
        """Room for a schedule."""
        stage, channel = (stages, microbatches), (stages - 1, microbatches)
        return cls(np.zeros(stage), np.zeros(stage), np.zeros(channel), np.zeros(channel), np.zeros(stages))


class Costs(NamedTuple):
    """A training instance as plain arrays; sums are those before each layer.

    Parameters
    ----------
    forward, backward : (V, L + 1) floats
        `TrainingInstance.scaled`.
    params, stored : (L + 1,) floats
        Sums of parameters and of what is stored [bytes].
    forward_bytes, backward_bytes : (L,) floats
        Transfers before each layer [bytes].
    bandwidth : (V, V) floats
    microbatches : int
    full_duplex : bool
    memory, copies : float
    """

    forward: FloatArray
    backward: FloatArray
    params: FloatArray
    stored: FloatArray
    forward_bytes: FloatArray
    backward_bytes: FloatArray
    bandwidth: FloatArray
    microbatches: int
    full_duplex: bool
    memory: float
    copies: float

    @classmethod
    def of(cls, instance: TrainingInstance) -> Costs:
        """Arrays of an instance."""
        chain = instance.chain
        return cls(
            *instance.scaled,
            np.concatenate(([0.0], np.cumsum(chain.param_bytes))),
            np.concatenate(([0.0], np.cumsum(chain.stored))),
            np.concatenate(([0.0], chain.forward_bytes)),
            np.concatenate(([0.0], chain.backward_bytes)),
            instance.cluster.bandwidth,
            instance.microbatches,
            instance.full_duplex,
            instance.memory,
            instance.parameter_copies,
        )


class State(NamedTuple):
    """A plan and its order of execution, as the search changes it; rows beyond the stages are of no matter.

    Parameters
    ----------
    cuts : (s + 1,) integers
    replicas : (s + 1,) integers
        Those of each stage, then the number of idle devices.
    order : (V,) integers
        Stages take their devices from it, one after the other.
    counts : (2,) integers
        Number of stages, and distance of `execution.steady`.
    """

    cuts: IntArray
    replicas: IntArray
    order: IntArray
    counts: IntArray

    @classmethod
    def of(cls, plan: Plan, distance: int) -> State:
        """Arrays of a plan, with room for as many stages as there can be."""
        layers, devices, S = plan.instance.chain.n, plan.instance.cluster.n, plan.n_stages
        used = [device for stage in plan.devices for device in stage]
        idle = sorted(set(range(devices)) - set(used))
        cuts, replicas = np.zeros((2, min(layers, devices) + 1), dtype=np.int64)
        cuts[: S + 1], replicas[: S + 1] = plan.cuts, [*plan.replicas, len(idle)]
        return cls(cuts, replicas, np.array(used + idle), np.array([S, distance]))

    def plan(self, instance: TrainingInstance) -> Plan:
        """The plan again."""
        stages = self.counts[0]
        return Plan.along(instance, self.cuts[: stages + 1], self.replicas[:stages], self.order)
