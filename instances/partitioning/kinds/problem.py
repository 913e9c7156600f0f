r"""Question of partitioning over kinds of devices that are not alike.

Of kind t there are :math:`N_t` devices, with a work :math:`w_t(v)` of each node, a bandwidth :math:`\beta_t` and a
memory :math:`M_t`. A block S on a device of kind t costs

.. math:: f_t(S) = w_t(S) + \tfrac{1}{\beta_t} \big(\mathrm{in}(S) + \mathrm{out}(S)
    + \max(0, \mathrm{held}(S) + \mathrm{peak}(S) - M_t)\big),

which is eq. (3) of `instances.partitioning.partition` in the question of that kind alone, `UnlikeInstance.of_kind`.
Where there is a rate :math:`r_{st}` for each pair of kinds, a tensor that a block on kind s sends to one on kind t
takes its bytes over :math:`r_{st}` in both; one that several blocks read is sent once, at the least of their rates.
With :math:`\beta_t` at least the rates of kind t, :math:`f_t` is a bound on that.
An answer has blocks in order, a kind for each, and at most :math:`N_t` blocks of kind t that are not empty.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from instances.devices.kinds import Devices
from instances.devices.platform import Platform
from instances.errors import InputError
from instances.graph.display import exact_figures, figures
from instances.graph.graph import ComputationGraph
from instances.graph.memory import touched_bytes
from instances.graph.question_lines import digest_of, said_number, said_text
from instances.graph.tensors import FloatArray, freeze
from instances.partitioning.constraints import NO_CONSTRAINTS, Constraints
from instances.partitioning.kinds.works import check_works, places_of_kinds
from instances.partitioning.problem import Instance
from instances.partitioning.question_lines import memory_in_words

__all__ = ["UnlikeInstance", "pair_rates", "question_of_kinds"]

# Nodes that are listed one by one in a few words.
_MOST_NODES = 8


@dataclass(frozen=True, eq=False, repr=False)
class UnlikeInstance(Instance):
    """Question of partitioning for devices of several kinds; `question_of_kinds` makes it.

    An answer is an `UnlikePartition`: blocks, and the kind of the device of each.

    Parameters
    ----------
    devices : Devices
    works : (T, n) floats
        Time of each node on a device of each kind; infinite where it cannot run there.
    """

    problem: ClassVar[str] = "partitioning over kinds"

    devices: Devices = None  # type: ignore[assignment]
    works: FloatArray = None  # type: ignore[assignment]

    def __post_init__(self, *given: object) -> None:
        if any(given) or self.constraints.at_least or self.constraints.on:
            raise InputError(
                "Least numbers of nodes cannot be combined with devices of several kinds; leave them out, and give "
                "windows of stages and nodes that are together or uncut as `constraints`."
            )
        if self.constraints:
            self.rules  # noqa: B018 - a contradiction shows here
        if self.devices.is_fixed and self.k != self.devices.total:
            raise InputError(
                f"k is {self.k}, and in a fixed order each of the {self.devices.total} devices has a block, which may "
                "be empty; leave k out, or give as many."
            )
        if self.k > self.devices.total:
            raise InputError(f"k is {self.k}, but there are {self.devices.total} devices; give no more.")
        freeze(self.works)
        if self.rates is not None:
            freeze(self.rates)
        if not self.name:
            object.__setattr__(self, "name", self.graph.name)
        if not self.cluster:
            object.__setattr__(self, "cluster", self.name)
        for t in range(len(self.devices.kinds)):
            self.of_kind(t)  # refuses numbers that are too large

    def _devices_in_words(self) -> list[str]:
        unit = f"bytes/{self.time_unit}"
        blocks, rate, _, *limits = super()._devices_in_words()  # the memory is the largest of the kinds
        words = [f"{blocks} in {self.devices.order} order", f"{rate} by default", *limits]
        for kind, own, able, works in zip(self.devices.kinds, self.bandwidths, self.able, self.works, strict=True):
            total = figures(float(works[able].sum()), self.time_unit)
            words.append(
                f"{kind.count} devices ({memory_in_words(kind.memory)}, {exact_figures(own, unit)}, "
                f"work {total} {digest_of(map(said_number, works.tolist()))}{_unable_in_words(able)})"
            )
        if self.rates is not None:
            slowest, fastest = (exact_figures(float(rate), unit) for rate in (self.rates.min(), self.rates.max()))
            words.append(f"{slowest} to {fastest} between kinds {digest_of(map(str, self.rates.tolist()))}")
        return words

    def lines(self) -> Iterator[str]:
        """All lines of the question but the first two."""
        yield from super().lines()
        yield f"order {self.devices.order}"
        for kind, rate, works in zip(self.devices.kinds, self.bandwidths, self.works.tolist(), strict=True):
            yield " ".join(["kind", said_text(kind.name), str(kind.count), said_number(kind.memory), said_number(rate)])
            yield " ".join(["works", *map(said_number, works)])
        for row in () if self.rates is None else self.rates.tolist():
            yield " ".join(["rates", *map(said_number, row)])

    @property
    def kinds(self) -> int:
        """Number of kinds, T."""
        return len(self.devices.kinds)

    @cached_property
    def _of_kinds(self) -> dict[int, Instance]:
        return {}

    def of_kind(self, t: int) -> Instance:
        """The question for k devices of kind t alone, without constraints; its costs are those of blocks on them."""
        if t not in self._of_kinds:
            kind, platform = self.devices.kinds[t], self.platform
            fit = platform.fit and math.isfinite(kind.memory)
            own = Platform(self.k, self.bandwidths[t], kind.memory, platform.activation_buffer, fit)
            graph = replace(self.graph, work=self.finite_works[t])
            self._of_kinds[t] = Instance(graph, own, self.name, need=self.need, by_need=self.by_need)
        return self._of_kinds[t]

    @cached_property
    def able(self) -> NDArray[np.bool_]:
        """(T, n) whether a device of each kind can run each node."""
        return np.isfinite(self.works)

    @cached_property
    def finite_works(self) -> FloatArray:
        r"""(T, n) works, where no device of a kind can run a node twice what all nodes and tensors can take together.

        No answer costs as much whose nodes are on devices that can run them, so that bounds on the question with these
        works are bounds on this one, whatever they are; large ones make them strong.
        """
        if self.able.all():
            return self.works
        longest = np.where(self.able, self.works, 0.0).max(axis=0).sum()
        held = self.graph.held_total + touched_bytes(self.graph).max()
        moved = (self.graph.tensors.bytes.sum() + held) / min(self._slowest)
        return np.where(self.able, self.works, 2.0 * float(longest + moved) or 1.0)

    @property
    def _slowest(self) -> tuple[float, ...]:
        return self.bandwidths if self.rates is None else (*self.bandwidths, float(self.rates.min()))

    @property
    def bandwidths(self) -> tuple[float, ...]:
        """Bandwidth of a device of each kind [bytes per unit of work time].

        Where there are rates for pairs, it is what overflows that takes it; else it is the fastest of these rates.
        """
        given = [kind.bandwidth for kind in self.devices.kinds]
        if self.rates is None:
            return tuple(self.platform.bandwidth if rate is None else rate for rate in given)
        streams = [math.isfinite(kind.memory) and not self.platform.fit for kind in self.devices.kinds]
        fastest = np.maximum(self.rates.max(axis=0), self.rates.max(axis=1)).tolist()
        return tuple(
            rate if rate is not None and over else own for rate, over, own in zip(given, streams, fastest, strict=True)
        )

    @cached_property
    def rates(self) -> FloatArray | None:
        """(T, T) bytes per unit of work time from a device of one kind to one of another; None without such rates."""
        return pair_rates(self.devices)

    @cached_property
    def has_windows(self) -> bool:
        """Whether some node may not be in each place."""
        return bool(self.constraints.windows) and self.rules.has_windows(self.k)

    @property
    def has_overflow(self) -> bool:
        """Whether on some kind the memory is finite, and what does not fit takes time."""
        return any(self.of_kind(t).has_overflow for t in range(self.kinds))

    @property
    def limits_memory(self) -> bool:
        """Whether on some kind it matters what fits into the memory."""
        return any(self.of_kind(t).limits_memory for t in range(self.kinds))

    @property
    def tensor_time(self) -> FloatArray:
        """Refused: it depends on the kind, so that methods for devices that are alike end here.

        Raises
        ------
        InputError
        """
        raise InputError(f"{self.name}: this method is for devices that are all alike; use mtpp certify or partition.")

    @cached_property
    def key(self) -> str:
        """Hash of everything that costs depend on."""
        numbers = [
            (kind.count, rate, kind.memory) for kind, rate in zip(self.devices.kinds, self.bandwidths, strict=True)
        ]
        words = f"{self.graph.content_hash}{self.platform.key}{self.devices.order}{numbers}{self.by_need}"
        digest = hashlib.sha256(words.encode())
        if self.constraints and self.rules.has_groups:
            digest.update(self.rules.group.tobytes())
        if self.has_windows:
            digest.update(np.array([self.rules.first, self.rules.last]).tobytes())
        if self.rates is not None:
            digest.update(self.rates.tobytes())
        digest.update(self.works.tobytes())
        if self.need is not None:
            digest.update(self.need.tobytes())
        return digest.hexdigest()

    @property
    def label(self) -> str:
        """Name of the graph and the devices, as messages and tables show them."""
        most = "" if self.k == self.devices.total else f", at most {self.k} of them"
        return f"{self.name}, {self.devices}{most}"

    @property
    def communication_over_work(self) -> None:
        """None: it depends on the kind."""
        return None

    def modelled(self) -> Instance:
        """Instance of the bounds: a block's peak is its nodes' largest need."""
        return replace(self, by_need=True) if self.needs_peaks and not self.by_need else self

    def _facts(self) -> dict[str, str]:
        unit = self.graph.time_unit
        facts = {"nodes": str(self.graph.n), "edges": str(self.graph.m), "k": str(self.k)}
        for kind, rate in zip(self.devices.kinds, self.bandwidths, strict=True):
            memory = f", {figures(kind.memory, 'bytes')}" if math.isfinite(kind.memory) else ""
            facts[kind.name] = f"{kind.count} at {figures(rate, f'bytes/{unit}')}{memory}"
        return facts


def _unable_in_words(able: NDArray[np.bool_]) -> str:
    nodes = np.flatnonzero(~able).tolist()
    listed = f"{len(nodes)} nodes" if len(nodes) > _MOST_NODES else " ".join(map(str, nodes))
    return f", not for {listed}" if nodes else ""


def question_of_kinds(
    graph: ComputationGraph,
    devices: Devices,
    works: ArrayLike,
    k: int | None = None,
    *,
    bandwidth: float = math.inf,
    activation_buffer: float | None = None,
    fit: bool = False,
    constraints: Constraints = NO_CONSTRAINTS,
    name: str = "",
) -> Instance:
    """The question for devices of several kinds; with a single kind in free order that of equal devices.

    Parameters
    ----------
    graph : ComputationGraph
        Its own works are not looked at.
    devices : Devices
    works : (T, n) floats
        Time of each node on a device of each kind; infinite where it cannot run there.
    k : int, optional
        The most blocks that are not empty; by default as many as devices.
    bandwidth : float
        Of kinds that have none.
    activation_buffer, fit
        As of `Platform`; a kind without a limit on its memory always fits.
    constraints : Constraints
        Without least numbers, unless there is a single kind in free order; windows count places 0 to k - 1, some of
        which may be empty.

    Raises
    ------
    InputError
        If something does not fit together, or is out of its range.
    """
    table = np.array(works, dtype=np.float64)
    if table.shape != (len(devices.kinds), graph.n):
        raise InputError(f"There are works for {table.shape}; give {len(devices.kinds)} kinds times {graph.n} nodes.")
    rates = [bandwidth if kind.bandwidth is None else kind.bandwidth for kind in devices.kinds]
    table[~places_of_kinds(graph, devices, constraints)] = math.inf
    constraints = replace(constraints, on=())
    check_works(graph, devices, table)
    k = devices.total if k is None else k
    paired = pair_rates(devices)
    if paired is not None and len(rates) == 1 and devices.kinds[0].bandwidth in (None, paired[0, 0]):
        rates, paired = [paired[0, 0]], None
    if len(rates) == 1 and not devices.is_fixed and paired is None:
        if k > devices.total:
            raise InputError(f"k is {k}, but there are {devices.total} devices; give no more.")
        platform = Platform(k, rates[0], devices.kinds[0].memory, activation_buffer, fit)
        return Instance(replace(graph, work=table[0]), platform, name, constraints)
    limits = [kind.memory for kind in devices.kinds if math.isfinite(kind.memory)]
    memory = max(limits) if fit and limits else math.inf if len(limits) < len(rates) else max(limits)
    platform = Platform(k, bandwidth, memory, activation_buffer, fit)
    return UnlikeInstance(graph, platform, name, constraints, devices=devices, works=table)


def pair_rates(devices: Devices) -> FloatArray | None:
    """(T, T) rates between devices of each two kinds, which no bandwidth of either exceeds; None without rates."""
    if devices.rates is None:
        return None
    own = np.array([math.inf if kind.bandwidth is None else kind.bandwidth for kind in devices.kinds])
    found: FloatArray = np.minimum(devices.rates, np.minimum(own, own[:, None]))
    for t in np.flatnonzero(np.array(devices.counts) == 1).tolist() if len(own) > 1 else ():
        found[t, t] = 0.0  # a device that is alone sends nothing to its like
        found[t, t] = max(found[t].max(), found[:, t].max())
    return found
