"""Plans with degrees of parallelism, and their files.

**Plans: stages of all pipelines, their degrees of parallelism, what each layer recomputes; and all costs.**

d equal pipelines run :math:`M = G / (d μ)` whole microbatches of μ samples each. Stage n holds consecutive layers on
:math:`c · t_n` devices of one server, c the context degree. With S groups of devices and v turns there are S v stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from instances.errors import InputError
from instances.graph.display import Displayed, Rows, figures
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.grid.configurations import FULL, NONE, Configuration, ConfiguredChain, ConfiguredLayer
from instances.planning.grid.configurations import Degrees as ConfiguredDegrees
from instances.planning.grid.problem import GridInstance
from instances.planning.operations import FORWARD, NO_LIMITS, Flows, Moments, Orders, one_forward_one_backward
from instances.planning.stated import Degrees, GridMembers, Rank, StatedGrid
from instances.records import written

# Memory of the devices of a plan, part by part.


class MemoryParts(NamedTuple):
    """Memory of a device of each group at its peak [bytes]."""

    weights: FloatArray  # (S,): parameters, with those that ZeRO 3 gathers
    gradients: FloatArray  # (S,): gradients of parameters
    optimizer: FloatArray  # (S,): states of the optimizer
    stored: FloatArray  # (S,): activations between the passes of all microbatches on their way
    working: FloatArray  # (S,): held while the largest layer recomputes

    @property
    def total(self) -> FloatArray:
        """(S,) sum of all parts."""
        return self.weights + self.gradients + self.optimizer + self.stored + self.working


# Places of the stages of all pipelines on servers, such that no tensor group leaves its server.


#: Which devices are neighbours: the replicas of a stage, as Megatron-LM does, or the stages of a pipeline.
PLACINGS = ("stages", "pipelines")


@lru_cache(maxsize=1024)  # a search asks for the same degrees with many cuts
def place(count: int, size: int, widths: tuple[int, ...], pipelines: int, placing: str) -> IntArray | None:
    """First device of each stage of each pipeline.

    Wider groups come first, so that degrees that divide one another leave no gaps; each goes to the first server that
    has room, or to whole servers in a row if none is large enough.

    Parameters
    ----------
    count, size : int
        Servers and their devices.
    widths : (S,) integers
        Devices of a stage of one pipeline, which lie in one server, or fill several servers.
    pipelines : int
    placing : str
        One of `PLACINGS`.

    Returns
    -------
    (S, pipelines) read-only integers, or None if the stages do not fit
    """
    wide = np.repeat(np.array(widths), pipelines)
    stage, pipeline = np.divmod(np.arange(wide.size), pipelines)
    keys = (pipeline, stage, -wide) if placing == "stages" else (stage, pipeline, -wide)
    first, used = np.empty(wide.size, dtype=np.int64), np.zeros(count, dtype=np.int64)
    start = 0  # servers before it have no room for groups that are no wider
    for group in np.lexsort(keys).tolist():
        while start < count and used[start] == size:
            start += 1
        server = start
        while server < count and used[server] + wide[group] > size and (used[server] or wide[group] % size):
            server += 1
        whole = max(1, wide[group] // size)
        if server + whole > count:
            return None
        first[group] = server * size + used[server]
        used[server : server + whole] += min(wide[group], size)
    first.flags.writeable = False
    return first.reshape(len(widths), pipelines)


def first_recomputed(chain: ConfiguredChain, cuts: Sequence[int], count: int) -> tuple[str, ...]:
    """(L,) mode of each layer where the first `count` layers of each stage that can recompute everything do so."""
    modes = [NONE] * chain.n
    for begin, end in pairwise(cuts):
        able = [layer for layer in range(begin, end) if chain.layers[layer].recomputes]
        for layer in able[:count]:
            modes[layer] = FULL
    return tuple(modes)


@lru_cache(maxsize=256)
def _channels(groups: int, stages: int, full_duplex: bool) -> tuple[IntArray, int]:
    """(2 stages - 2,) channel of each transfer, those to the next stage before those back; and number of channels."""
    machines: dict[tuple[int, int], int] = {}
    there = [(n % groups, (n + 1) % groups) for n in range(stages - 1)]
    back = [(target, source) for source, target in there]
    pairs = there + back if full_duplex else [(min(pair), max(pair)) for pair in there + back]
    return np.array([machines.setdefault(pair, len(machines)) for pair in pairs], dtype=np.int64), len(machines)


# Values that are computed once, and do not depend on where the devices lie.
_PLACED_ANYHOW = ("layers", "parameters", "memory")


@dataclass(frozen=True, eq=False, repr=False)
class GridPlan(Displayed):
    """Answer to a `GridInstance`: degrees of parallelism, the stages, and what each layer recomputes.

    Parameters
    ----------
    instance : GridInstance
    micro_batch : int
        Samples of a microbatch, μ.
    pipelines : int
        Equal pipelines, d.
    cuts : sequence of S v + 1 integers
        Stage n holds the layers ``cuts[n] … cuts[n + 1] - 1`` and runs on group n modulo S.
    tensor : sequence of S integers
        Tensor degree of each group.
    modes : sequence of L str
        Mode of recomputation of each layer.
    context, expert : int
        Context degree, and expert degree.
    zero : int
        Stage of ZeRO.
    placing : str
        One of `PLACINGS`.

    Raises
    ------
    InputError
        If it is no plan of the question, or a group does not fit into the memory of its devices.
    """

    instance: GridInstance
    micro_batch: int
    pipelines: int
    cuts: tuple[int, ...]
    tensor: tuple[int, ...]
    modes: tuple[str, ...]
    context: int = 1
    expert: int = 1
    zero: int = 1
    placing: str = PLACINGS[0]

    def __post_init__(self) -> None:
        for name in ("cuts", "tensor", "modes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        question, L = self.instance, self.instance.layers
        cuts = self.cuts
        if len(cuts) < 2 or cuts[0] != 0 or cuts[-1] != L or any(i >= j for i, j in pairwise(cuts)):
            raise InputError(f"The cuts {list(cuts)} must rise from 0 to {L}, the number of layers.")
        if not self.tensor or self.stages % self.groups or self.groups == 1 < self.stages or len(self.modes) != L:
            raise InputError("Give a mode for each layer, a degree for each group, and whole turns, of two groups.")
        if self.zero not in question.zero:
            raise InputError(f"The question does not allow stage {self.zero} of ZeRO.")
        if self.pipelines not in question.pipelines(self.chain, self.context):
            raise InputError(
                f"{self.pipelines} pipelines do not divide {question.global_batch} samples, or the devices."
            )
        if not all(self.shards(g)[1] for g in range(self.groups)):
            times = "pipelines times context" + " times tensor" * question.whole_experts
            raise InputError(f"An expert degree of {self.expert} must divide {times} degree.")
        fixed = question.fixed
        if fixed.recomputed is not None and self.modes != first_recomputed(self.chain, self.cuts, fixed.recomputed):
            raise InputError(
                f"The question asks for {fixed.recomputed} layers of each stage that recompute everything."
            )
        for name, value in (("pp", self.groups), ("v", self.turns), *(("tp", t) for t in self.tensor)):
            if getattr(fixed, name) not in (None, value):
                raise InputError(f"The question asks for {name} {getattr(fixed, name)}, not {value}.")
        self._check_place()
        for g in np.flatnonzero(self.memory.total > question.memory * (1 + 1e-12))[:1]:
            raise InputError(
                f"Group {g} needs {self.memory.total[g]:.6g} bytes on each device, which has {question.memory:.6g}."
            )

    def _check_place(self) -> None:
        servers = self.instance.servers
        if self.first_device is None or not all(servers.has_room(t, self.context) for t in self.tensor):
            raise InputError(f"{self.devices} devices of this plan do not fit on {servers.name}.")

    def placed(self, placing: str) -> GridPlan:
        """The same plan with its devices in another order of `PLACINGS`; an `InputError` if they do not fit so."""
        plan, kept = object.__new__(GridPlan), {*(entry.name for entry in fields(self)), *_PLACED_ANYHOW}
        plan.__dict__.update({name: value for name, value in self.__dict__.items() if name in kept}, placing=placing)
        plan._check_place()
        return plan

    @property
    def chain(self) -> ConfiguredChain:
        """The layers with the times of its microbatches [s]."""
        return self.instance.chain(self.micro_batch)

    @property
    def groups(self) -> int:
        """Number of groups of devices of a pipeline, S."""
        return len(self.tensor)

    @property
    def stages(self) -> int:
        """Number of stages of a pipeline, S v."""
        return len(self.cuts) - 1

    @property
    def turns(self) -> int:
        """Number of stages of each group, v."""
        return self.stages // self.groups

    @property
    def microbatches(self) -> int:
        """Number of microbatches of a pipeline in a step, M."""
        return self.instance.global_batch // (self.pipelines * self.micro_batch)

    @property
    def devices(self) -> int:
        """Number of devices in use."""
        return self.pipelines * self.context * sum(self.tensor)

    def shards(self, group: int) -> tuple[int, int]:
        """Numbers of devices that hold the same dense parameters of a group, and the same experts."""
        return self.instance.shards(self.pipelines, (self.tensor[group], self.context, self.expert))

    @cached_property
    def first_device(self) -> IntArray | None:
        """(S, d) first device of each stage's group in each pipeline."""
        servers = self.instance.servers
        widths = tuple(self.context * t for t in self.tensor)
        return place(servers.count, servers.size, widths, self.pipelines, self.placing)

    @cached_property
    def layers(self) -> tuple[Configuration, ...]:
        """(L,) configuration of each layer."""
        chosen, layers, configurations = [], self.chain.layers, dict[tuple[str, int, str], Configuration]()
        for n, (begin, end) in enumerate(pairwise(self.cuts)):
            t = self.tensor[n % self.groups]
            for layer in range(begin, end):
                key = layers[layer].kind, t, self.modes[layer]
                if key not in configurations:
                    configurations[key] = self._way(layers[layer], (t, self.context, self.expert), self.modes[layer])
                chosen.append(configurations[key])
        return tuple(chosen)

    def _way(self, layer: ConfiguredLayer, degrees: ConfiguredDegrees, mode: str) -> Configuration:
        """The configuration of a layer with these degrees and this mode, if the question allows it."""
        for way in self.instance.ways(layer, degrees):
            if way.recompute == mode:
                return way
        raise InputError(f"Layer {layer.name} has no configuration {degrees} that may recompute {mode}.")

    @cached_property
    def parameters(self) -> FloatArray:
        """(2, S v) parameters on each device of each stage: dense ones, and those of experts."""
        sums = np.stack((self._sums("parameters"), self._sums("expert_parameters")))
        if self.stages == 1 and self.instance.layers > 1:
            sums[0] -= self.layers[-1].tied_parameters
        return sums

    @cached_property
    def forward_time(self) -> FloatArray:
        """(S v,) forward time of a microbatch, with the gathering of weights by ZeRO 3 that is not hidden [s]."""
        return self._with_sharing(self._sums("forward"), forward=True)

    @cached_property
    def backward_time(self) -> FloatArray:
        """(S v,) backward time of a microbatch, with the traffic of ZeRO 2 and 3 that is not hidden [s]."""
        return self._with_sharing(self._sums("backward"), forward=False)

    @cached_property
    def transfer_time(self) -> FloatArray:
        """(S v - 1,) time to send a microbatch to the next stage; sending back takes as long [s]."""
        times, layers, S = np.zeros(self.stages - 1), self.chain.layers, self.groups
        alike: dict[tuple[str, str, int], float] = {}
        for n, cut in enumerate(self.cuts[1:-1]):
            key = layers[cut - 1].kind, self.modes[cut - 1], n % S
            if key not in alike:
                received = layers[cut - 1].modes((self.tensor[(n + 1) % S], self.context, self.expert))[0]
                sent = max(self.layers[cut - 1].output_bytes, received.output_bytes)
                alike[key] = self.instance.servers.transfer(sent, inside=self._beside(n % S, (n + 1) % S))
            times[n] = alike[key]
        return times

    @cached_property
    def after_time(self) -> FloatArray:
        """(S v,) time after the last backward pass at the first stage of each group, 0 at its other stages [s].

        In this time replicas add up the gradients of all stages of the group, and parameters are updated.
        """
        question, sizes, times = self.instance, self.instance.state_bytes, np.zeros((self.turns, self.groups))
        each = [
            [
                sizes.summed(self.zero) * (shards - 1) / shards / rate
                + question.update_time / (shards if self.zero else 1)
                for shards, rate in zip(self.shards(g), self._rates[g], strict=True)
            ]
            for g in range(self.groups)
        ]
        numbers = self.parameters.reshape(2, self.turns, self.groups).swapaxes(0, 1)
        times[0] = (numbers * np.transpose(each)).reshape(-1, self.groups).sum(axis=0)
        if self.stages > 1:
            copies = question.servers.transfer(self._tied * sizes.gradients, inside=self._beside(0, -1))
            times[0, [0, -1]] += copies
        return times.ravel()

    @cached_property
    def memory(self) -> MemoryParts:
        """Memory of a device of each group."""
        S, question = self.groups, self.instance
        sizes = np.zeros((3, S))
        for g in range(S):
            layers = [layer for n in range(g, self.stages, S) for layer in self.layers[self.cuts[n] : self.cuts[n + 1]]]
            sizes[:, g] = question.kept_bytes(layers, self.zero, self.shards(g), whole=len(layers) == len(self.layers))
        stored = self._sums("stored_bytes")
        if self.turns == 1:
            peak = np.minimum(self.microbatches, S - np.arange(S)) * stored
        else:
            passes = self.orders
            changes = np.where(passes % 4 == FORWARD, 1.0, -1.0) * stored[passes // 4 // self.microbatches]
            peak = np.cumsum(changes, axis=1).max(axis=1)
        return MemoryParts(sizes[0], sizes[1], sizes[2], peak, self._largest("working_bytes"))

    @property
    def orders(self) -> IntArray:
        """(S, 2 v M) passes of each group in order, encoded as in `Orders.passes`."""
        return one_forward_one_backward(self.groups, self.turns, self.microbatches)

    @property
    def flows(self) -> Flows:
        """Operations of one pipeline as the simulator takes them; gradient exchange and updates share no link."""
        C, unsplit = self.stages, np.zeros(self.stages)
        channel, channels = _channels(self.groups, C, self.instance.full_duplex)
        return Flows(
            passes=np.stack((self.forward_time, self.backward_time, unsplit, unsplit)),
            alone=np.concatenate((self.transfer_time, self.transfer_time, self.after_time)),
            speed_load=np.zeros((3 * C - 2, 0)),
            group=np.arange(C) % self.groups,
            channel=channel.copy(),
            channels=channels,
        )

    @cached_property
    def timeline(self) -> tuple[Moments, Moments, float]:
        """Start and end of all operations of a pipeline, and the time of the step [s]."""
        from instances.planning.simulator import timed

        passes = self.orders
        begin = np.arange(len(passes) + 1) * passes.shape[1]
        return timed(self.flows, Orders(passes.flatten(), begin, NO_LIMITS, NO_LIMITS), self.microbatches)

    @property
    def time(self) -> float:
        """Time of a step [s]."""
        return self.timeline[2]

    @property
    def cost(self) -> float:
        """Time of a step [s]."""
        return self.time

    @property
    def bubble(self) -> float:
        """Part of the step in which a working device neither computes nor recomputes, on average."""
        busy = self.microbatches * (self.forward_time + self.backward_time).reshape(self.turns, -1).sum(axis=0)
        return 1 - float((busy * self.tensor).sum()) / (sum(self.tensor) * self.time)

    def _sums(self, name: str) -> FloatArray:
        """(S v,) sum over the layers of each stage of the attribute `name` of their configurations."""
        return np.add.reduceat(
            np.array([getattr(layer, name) for layer in self.layers], dtype=np.float64), self.cuts[:-1]
        )

    def _largest(self, name: str) -> FloatArray:
        """(S,) largest attribute `name` of the configurations of the layers of each group."""
        largest = np.maximum.reduceat([getattr(layer, name) for layer in self.layers], self.cuts[:-1])
        return largest.reshape(self.turns, self.groups).max(axis=0)

    @cached_property
    def _server(self) -> IntArray:
        """(S, d) server of each group of each pipeline."""
        assert self.first_device is not None
        return self.first_device // self.instance.servers.size

    def _beside(self, group: int, other: int) -> bool:
        """Whether two groups share a server in each pipeline."""
        return bool((self._server[group] == self._server[other]).all())

    @property
    def _tied(self) -> float:
        """Number of parameters shared by the first and the last stage, on the device that has more of them."""
        ends = [(t, self.context, self.expert) for t in (self.tensor[0], self.tensor[-1])]
        return max(self.chain.layers[-1].modes(degrees)[0].tied_parameters for degrees in ends)

    @cached_property
    def _rates(self) -> list[tuple[float, float]]:
        """For each group, rates between devices with the same dense parameters, and with the same experts [bytes/s]."""
        rates, size = [], self.instance.servers.size
        for t, servers in zip(self.tensor, self._server, strict=True):
            width, counts = t * self.context, np.bincount(servers)
            counts = counts[counts > 0]
            ranks = min(self.context, size // t) * int(counts.min())
            inside = len(counts) == 1 and width <= size
            rates.append(self.instance.ring_rates(0 if inside else ranks, (t, self.context, self.expert)))
        return rates

    def _with_sharing(self, passes: FloatArray, *, forward: bool) -> FloatArray:
        """(S v,) time of passes, with the part of gathering weights and dividing gradients that is not hidden [s]."""
        sizes, times = self.instance.state_bytes, np.zeros(self.stages)
        moved = sizes.weights * (self.zero == 3) + (0.0 if forward else sizes.gradients * (self.zero >= 2))
        for n in range(self.stages if moved else 0):
            g = n % self.groups
            for numbers, shards, rate in zip(self.parameters[:, n], self.shards(g), self._rates[g], strict=True):
                times[n] += numbers * moved * (shards - 1) / shards / rate
        return np.maximum(passes + self.instance.exposed * times, times)

    def _title(self) -> str:
        return self.chain.name

    def _facts(self) -> dict[str, str]:
        degrees = f"pp {self.groups}, tp {', '.join(map(str, sorted(set(self.tensor))))}, dp {self.pipelines}"
        return {"grid": degrees, "time": figures(self.time, "s"), "devices": str(self.devices)}

    def _rows(self) -> Rows:
        names = [layer.name for layer in self.chain.layers]
        rows = [
            [str(n), names[begin], names[end - 1], str(self.tensor[n % self.groups]), figures(time)]
            for n, ((begin, end), time) in enumerate(
                zip(pairwise(self.cuts), (self.forward_time + self.backward_time).tolist(), strict=True)
            )
        ]
        return ["stage", "first layer", "last layer", "tp", "time [s]"], rows


# Plans with degrees of parallelism as JSON.


def grid_document(plan: GridPlan) -> dict[str, Any]:
    """The plan as the member `answer` of its file, with all its times."""
    start = plan.timeline[0]
    pairs = zip(start.forward.tolist(), start.backward.tolist(), strict=True)
    members = GridMembers(
        degrees=Degrees(plan.groups, plan.tensor, plan.context, plan.expert, plan.pipelines, plan.turns),
        micro_batch=plan.micro_batch,
        zero=plan.zero,
        cuts=plan.cuts,
        modes=plan.modes,
        ranks=ranks(plan),
        memory=tuple(zip(*(part.tolist() for part in plan.memory), strict=True)),
        starts=tuple(tuple(row) for pair in pairs for row in pair),
        sent=tuple(map(tuple, [*start.send.tolist(), *start.receive.tolist()])),
    )
    return written(members)


def ranks(plan: GridPlan) -> tuple[Rank, ...]:
    """A `Rank` for every device in use: its server, number there, first stage, and index in each degree."""
    assert plan.first_device is not None
    size, rows = plan.instance.servers.size, list[Rank]()
    for g, d in ((g, d) for g in range(plan.groups) for d in range(plan.pipelines)):
        for place in range(plan.context * plan.tensor[g]):
            device, (cp, tp) = int(plan.first_device[g, d]) + place, divmod(place, plan.tensor[g])
            rows.append(Rank(len(rows), *divmod(device, size), g, tp, cp, d))
    return tuple(rows)


def plan_of(stated: StatedGrid) -> GridPlan:
    """The plan that a file states, with all its costs computed anew.

    Raises
    ------
    InputError
        If it is no valid plan of its question.
    """
    for placing in PLACINGS:
        plan = GridPlan(
            stated.instance,
            stated.micro_batch,
            stated.pipelines,
            stated.cuts,
            stated.tensor,
            stated.modes,
            stated.context,
            stated.expert,
            stated.zero,
            placing,
        )
        if ranks(plan) == stated.ranks:
            return plan
    raise InputError(f"{stated.file}: its devices lie otherwise than any plan puts them.")
