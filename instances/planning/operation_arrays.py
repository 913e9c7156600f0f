"""Times of the operations of a plan and their loads on ports, as plain arrays for simulators."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from instances.graph.tensors import FloatArray, IntArray
from instances.planning.plan import Plan

__all__ = ["BACKWARD", "FORWARD", "INPUT", "KINDS", "WEIGHTS", "Flows"]

#: Kinds of passes: forward; backward in one piece; its two parts, for gradients of inputs and of weights.
FORWARD, BACKWARD, INPUT, WEIGHTS = range(4)
KINDS = "FBIW"


class Flows(NamedTuple):
    """Operations of a plan with S stages on G groups of devices, and P ports.

    Transfers stand in rows: those to the next stage, S - 1, those back, S - 1, and the AllReduces, S.
    """

    passes: FloatArray  # (4, S): of each kind in each stage [s]
    alone: FloatArray  # (3 S - 2,): of each transfer and AllReduce, if it shares nothing [s]
    speed_load: FloatArray  # (3 S - 2, P): part of each port that it takes at full speed
    group: IntArray  # (S,): that runs each stage
    channel: IntArray  # (2 S - 2,): machine of each transfer, -1 between stages of one group
    channels: int  # number of machines

    @classmethod
    def of(cls, plan: Plan) -> Flows:
        """Flows of a plan."""
        S, f, b, i = plan.n_stages, plan.forward_time, plan.backward_time, plan.input_time
        alone = np.concatenate((plan.forward_transfer_time, plan.backward_transfer_time, plan.allreduce_time))
        group = np.array([plan.groups.index(stage) for stage in plan.devices])
        machines: dict[tuple[int, ...], int] = {}
        channel = np.full(2 * S - 2, -1)
        for n, (here, there) in enumerate(pairwise(group.tolist())):
            for row, ends in ((n, (here, there)), (S - 1 + n, (there, here))):
                if here != there:
                    pair = ends if plan.instance.full_duplex else tuple(sorted(ends))
                    channel[row] = machines.setdefault(pair, len(machines))
        loads = np.divide(plan.loads, alone[:, None], out=np.zeros_like(plan.loads), where=alone[:, None] > 0)
        return cls(
            passes=np.stack((f, b, i, np.maximum(b - i, 0.0))),
            alone=alone,
            speed_load=np.ascontiguousarray(loads),
            group=group,
            channel=channel,
            channels=len(machines),
        )
