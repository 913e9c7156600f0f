r"""Plans: the cuts of a chain, the devices of each stage, and the costs.

Notation of the paper: stage :math:`n = 1 … S` runs on :math:`r_n` devices; :math:`f_n, b_n` are its forward and
backward times of a microbatch, :math:`t_n = f_n + b_n`; :math:`A_n` is its AllReduce, equation (1);
:math:`c^f_n, c^b_n` are the transfer times between the stages n and n + 1.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from instances.errors import InputError, NothingFitsError
from instances.graph.display import Displayed, Rows, figures
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.problem import TrainingInstance


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Displayed):
    """Answer of planning without a schedule: consecutive layers as stages, each on its own devices.

    Times of passes and transfers follow from it; a `Timeline` adds when each begins.

    Parameters
    ----------
    instance : TrainingInstance
    cuts : sequence of S + 1 integers
        Stage n (from 0) holds the layers ``cuts[n] … cuts[n + 1] - 1``.
    devices : sequence of S sequences of integers
        Devices of each stage; some may be idle. Stages may only share devices if they share all of them, on a network
        whose cards are shared: their group runs these stages in turns.
    recompute : tuple of bool, optional
        Whether each stage keeps its input alone and runs forward again before its backward pass; by default none does.

    Raises
    ------
    InputError
        If the stages do not divide the chain, a device is not there or used twice, devices that have to exchange
        data have no link, or a stage does not fit into memory with a single microbatch in flight.
    """

    instance: TrainingInstance
    cuts: tuple[int, ...]
    devices: tuple[tuple[int, ...], ...]
    recompute: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "cuts", tuple(map(operator.index, self.cuts)))
            object.__setattr__(self, "devices", tuple(tuple(map(operator.index, stage)) for stage in self.devices))
        except TypeError:
            raise InputError("The cuts and devices of a plan must be whole numbers.") from None
        layers, devices = self.instance.chain.n, self.instance.cluster.n
        if (
            len(self.cuts) < 2
            or self.cuts[0] != 0
            or self.cuts[-1] != layers
            or any(i >= j for i, j in pairwise(self.cuts))
        ):
            raise InputError(f"The cuts {list(self.cuts)} must rise from 0 to {layers}, the number of layers.")
        if len(self.devices) != self.n_stages or not all(self.devices):
            raise InputError(f"There are {self.n_stages} stages; give each of them one device or more.")
        object.__setattr__(self, "recompute", tuple(self.recompute) or (False,) * self.n_stages)
        if len(self.recompute) != self.n_stages:
            raise InputError(f"There are {self.n_stages} stages but {len(self.recompute)} values of recompute.")
        if any(self.recompute) and not self.instance.recomputation:
            raise InputError("A stage recomputes, which the question does not allow; ask with recomputation.")
        shared = self.instance.network is not None
        used = [device for stage in (self.groups if shared else self.devices) for device in stage]
        for device in used:
            if not 0 <= device < devices:
                raise InputError(f"Device {device} does not exist; devices run from 0 to {devices - 1}.")
            if used.count(device) > 1:
                raise InputError(f"Device {device} is used twice; a device runs one replica of one stage.")
        self._check_links()
        self.check_memory(np.ones(self.n_stages))

    @classmethod
    def along(
        cls, instance: TrainingInstance, cuts: Iterable[int], replicas: Iterable[int], order: Iterable[int]
    ) -> Plan:
        """Plan whose stages take their replicas from `order` one after the other; the remaining devices stay idle."""
        ends, places = np.cumsum([0, *replicas]).tolist(), tuple(order)
        return cls(instance, tuple(cuts), tuple(places[i:j] for i, j in pairwise(ends)))

    @property
    def n_stages(self) -> int:
        """Number of stages, S."""
        return len(self.cuts) - 1

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Devices that run the same stages, in the order of their first stages."""
        return tuple(dict.fromkeys(self.devices))

    @cached_property
    def replicas(self) -> IntArray:
        """(S,) number of devices of each stage, r_n."""
        return np.array([len(stage) for stage in self.devices])

    @cached_property
    def forward_time(self) -> FloatArray:
        """(S,) forward time of a microbatch, f_n [s]."""
        return self._compute_time(self.instance.arrays.forward)

    @cached_property
    def backward_time(self) -> FloatArray:
        """(S,) backward time of a microbatch, b_n, with the forward pass if it is recomputed [s]."""
        return self._compute_time(self.instance.arrays.backward) + self._again

    @cached_property
    def input_time(self) -> FloatArray:
        """(S,) part of `backward_time` for gradients of the inputs, if backward passes are split [s]."""
        return self._compute_time(self.instance.input_sums) + self._again

    @property
    def _again(self) -> FloatArray:
        """(S,) time of recomputed forward passes in each stage [s]."""
        return np.where(self.recompute, self.forward_time, 0.0)

    @property
    def stage_time(self) -> FloatArray:
        """(S,) time of a microbatch in both passes, t_n [s]."""
        return self.forward_time + self.backward_time

    @cached_property
    def param_bytes(self) -> FloatArray:
        """(S,) parameters of each stage [bytes]."""
        return np.add.reduceat(self.instance.chain.param_bytes, self.cuts[:-1])

    @cached_property
    def stored_bytes(self) -> FloatArray:
        """(S,) bytes of a microbatch kept until its backward pass, all replicas together."""
        return np.add.reduceat(self.instance.chain.stored, self.cuts[:-1])

    @cached_property
    def input_bytes(self) -> FloatArray:
        """(S,) bytes of a microbatch kept if all but the stage's input is recomputed, all replicas together."""
        return self.instance.arrays.forward_bytes[list(self.cuts[:-1])]

    @property
    def is_at_once(self) -> bool:
        """Whether this is one stage on all devices, which takes all samples of an iteration at once."""
        instance = self.instance
        return instance.samples is not None and len(self.devices[0]) == instance.cluster.n

    @cached_property
    def allreduce_time(self) -> FloatArray:
        """(S,) time of each stage's AllReduce, A_n of equation (1), over its slowest link [s]; 0 without replicas."""
        links = self.instance.cluster.symmetric_bandwidth
        times = np.zeros(self.n_stages)
        for n, stage in enumerate(self.devices):
            if len(stage) > 1 and self.param_bytes[n] > 0:
                slowest = min(links[v, w] for i, v in enumerate(stage) for w in stage[:i])
                times[n] = _time(2 * (len(stage) - 1) * self.param_bytes[n], len(stage) * slowest)
        return np.maximum(times, self.loads[2 * self.n_stages - 2 :].max(axis=1, initial=0.0))

    @cached_property
    def forward_transfer_time(self) -> FloatArray:
        """(S - 1,) time to send the activations of a microbatch to the next stage, c^f_n [s]."""
        times = self._transfer_time(self.instance.chain.forward_bytes, self.instance.cluster.bandwidth)
        return np.maximum(times, self.loads[: self.n_stages - 1].max(axis=1, initial=0.0))

    @cached_property
    def backward_transfer_time(self) -> FloatArray:
        """(S - 1,) time to send the gradients of a microbatch back from the next stage, c^b_n [s]."""
        times = self._transfer_time(self.instance.chain.backward_bytes, self.instance.cluster.bandwidth.T)
        return np.maximum(times, self.loads[self.n_stages - 1 : 2 * self.n_stages - 2].max(axis=1, initial=0.0))

    @cached_property
    def loads(self) -> FloatArray:
        """(3 S - 2, P) seconds of load on each port: transfers forward, transfers back, and AllReduces."""
        ports, chain, S = self.instance.ports, self.instance.chain, self.n_stages
        if ports is None:
            return np.zeros((3 * S - 2, 0))
        rows = np.zeros((3 * S - 2, len(ports.rate)))
        for n, (source, target) in enumerate(pairwise(self.devices)):
            if source != target:
                rows[n] = ports.transfer_load(chain.forward_bytes[self.cuts[n + 1] - 1], source, target)
                rows[S - 1 + n] = ports.transfer_load(chain.backward_bytes[self.cuts[n + 1] - 1], target, source)
        for n, stage in enumerate(self.devices):
            rows[2 * S - 2 + n] = ports.allreduce_load(self.param_bytes[n], stage)
        return rows

    @property
    def channel_time(self) -> FloatArray:
        """(S - 1,) time of a microbatch in each channel, both directions added [s]."""
        return self.forward_transfer_time + self.backward_transfer_time

    @property
    def cycle_time(self) -> float:
        """Longest time of a microbatch in a stage or channel, C of Lemma 1 [s]."""
        return float(np.concatenate((self.stage_time, self.channel_time)).max())

    @property
    def workload(self) -> float:
        """Longest time that a stage with its AllReduce or a channel is busy in an iteration, W [s]."""
        M = self.instance.microbatches
        return float(np.concatenate((M * self.stage_time + self.allreduce_time, M * self.channel_time)).max())

    @property
    def makespan_bound(self) -> float:
        """Z: the part of `lower_bound` without round trips, which Z-DP minimises [s]."""
        return self._lower_bound(round_trips=False)

    @property
    def lower_bound(self) -> float:
        r"""Lower bound on the time of any schedule of this plan [s].

        Stage n is reached after :math:`head_n = \sum_{k<n} (f_k + c^f_k)`, what is before it takes
        :math:`tail_n = \sum_{k<n} (b_k + c^b_k)` to finish, and a microbatch takes :math:`rt_n` from leaving it to
        coming back. So for each stage

        .. math:: T ≥ head_n + \max(M t_n, f_n + rt_n + M b_n, M f_n + rt_n + b_n) + \max(tail_n, A_n),

        and for each channel :math:`T ≥ head_n + f_n + M (c^f_n + c^b_n) + b_n + tail_n`, in full duplex with the
        larger of both transfer times instead of their sum.
        """
        return self._lower_bound(round_trips=True)

    def memory_needed(self, in_flight: Sequence[int] | FloatArray | IntArray) -> FloatArray:
        """(S,) bytes on each device of each stage with `in_flight` microbatches between their passes there."""
        fixed, stored = self.instance.parameter_copies * self.param_bytes, np.asarray(in_flight) * self.stored_bytes
        again = np.asarray(in_flight) * self.input_bytes + self.stored_bytes
        return fixed + np.where(self.recompute, again, stored) / self.replicas

    def check_memory(self, in_flight: Sequence[int] | FloatArray | IntArray) -> None:
        """Refuse this plan if a stage does not fit into the memory of its devices.

        Parameters
        ----------
        in_flight : (S,) numbers
            Microbatches between their forward and backward passes in each stage.

        Raises
        ------
        NothingFitsError
            If a stage needs more than `instance.memory`.
        """
        needed = self.memory_needed(in_flight)
        for n in np.flatnonzero(needed > self.instance.memory)[:1]:
            raise NothingFitsError(
                f"Stage {n} needs {needed[n]:.6g} bytes on each device with {np.asarray(in_flight)[n]:g} microbatches "
                f"in flight; a device has {self.instance.memory:.6g}. Use more stages or smaller microbatches.",
                proved=False,
            )

    def _title(self) -> str:
        return self.instance.chain.name

    def _facts(self) -> dict[str, str]:
        devices = f"{self.replicas.sum()} of {self.instance.cluster.n}"
        return {"stages": str(self.n_stages), "devices": devices, "cycle time": figures(self.cycle_time, "s")}

    def _rows(self) -> Rows:
        names, used = self.instance.chain.names, self.instance.cluster.names
        rows = [
            [str(n), names[first], names[end - 1], ", ".join(used[v] for v in self.devices[n]), figures(time)]
            for n, ((first, end), time) in enumerate(zip(pairwise(self.cuts), self.stage_time, strict=True))
        ]
        return ["stage", "first layer", "last layer", "devices", "time [s]"], rows

    def _compute_time(self, sums: FloatArray) -> FloatArray:
        """(S,) times of the stages, from sums as those of `TrainingArrays.forward` [s]."""
        rows, cuts = sums[self.replicas - 1], np.array(self.cuts)
        stage = np.arange(self.n_stages)
        times = (rows[stage, cuts[1:]] - rows[stage, cuts[:-1]]) / self.replicas
        return times * self.instance.at_once if self.is_at_once else times

    def _transfer_time(self, sizes: FloatArray, bandwidth: FloatArray) -> FloatArray:
        """(S - 1,) times to the next stages over links of their own; 0 within a group of devices [s]."""
        times = np.zeros(self.n_stages - 1)
        for n, (source, target) in enumerate(pairwise(self.devices)):
            if source == target:
                continue
            slowest = bandwidth[np.ix_(source, target)].min()
            times[n] = _time(sizes[self.cuts[n + 1] - 1], len(source) * len(target) * slowest)
        return times

    def _check_links(self) -> None:
        """Refuse a plan in which an AllReduce or a transfer has no link."""
        for times, what in (
            (self.allreduce_time, "the devices of stage {n} have to add up their gradients"),
            (self.forward_transfer_time, "stage {n} has to send activations to the next one"),
            (self.backward_transfer_time, "stage {n} has to receive gradients from the next one"),
        ):
            for n in np.flatnonzero(np.isinf(times))[:1]:
                raise InputError(f"There is no link where {what.format(n=n)}; use other devices.")

    def _lower_bound(self, round_trips: bool) -> float:
        """The bound of `lower_bound`, with or without the time that microbatches spend in later stages [s]."""
        M, f, b, A = self.instance.microbatches, self.forward_time, self.backward_time, self.allreduce_time
        cf, cb = self.forward_transfer_time, self.backward_transfer_time
        channel = np.maximum(cf, cb) if self.instance.full_duplex else cf + cb
        head = np.concatenate(([0.0], np.cumsum(f[:-1] + cf)))
        tail = np.concatenate(([0.0], np.cumsum(b[:-1] + cb)))
        busy = M * (f + b)
        if round_trips:
            below = (f + b)[1:] + cf + cb
            trip = np.concatenate((np.cumsum(below[::-1])[::-1], [0.0]))
            busy = np.maximum(busy, np.maximum(f + trip + M * b, M * f + trip + b))
        stages = head + busy + np.maximum(tail, A)
        channels = (head + f)[:-1] + M * channel + (b + tail)[:-1]
        return float(np.concatenate((stages, channels)).max())


def _time(size: float, rate: float) -> float:
    """Bytes over bytes per second; 0 if there is nothing to send, even without a link."""
    if size == 0:
        return 0.0
    return float(size) / float(rate) if rate > 0 else math.inf
