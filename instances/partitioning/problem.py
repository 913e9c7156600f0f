r"""Question of partitioning: a computation graph, its machines, and the bottleneck to minimise.

Of kind t there are :math:`N_t` devices, with a work :math:`w_t(v)` of each node, a bandwidth :math:`\beta_t` and a
memory :math:`M_t`. A block S on a device of kind t costs

.. math:: f_t(S) = w_t(S) + \tfrac{1}{\beta_t} \big(\mathrm{in}(S) + \mathrm{out}(S)
    + \max(0, \mathrm{held}(S) + \mathrm{peak}(S) - M_t)\big),

which is eq. (3) of `instances.partitioning.partition` in the question of that kind alone, `Instance.of_kind`.
Where there is a rate :math:`r_{st}` for each pair of kinds, a tensor that a block on kind s sends to one on kind t
takes its bytes over :math:`r_{st}` in both; one that several blocks read is sent once, at the least of their rates.
With :math:`\beta_t` at least the rates of kind t, :math:`f_t` is a bound on that.
An answer has blocks in order, a kind for each, and at most :math:`N_t` blocks of kind t that are not empty.

Devices are *alike* where there is a single kind, in free order, without a rate of its own between two of them: then
there are as many as blocks.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from instances.devices import Platform, memory_in_words, platform_in_words
from instances.errors import InputError, OneKindError, printable, unknown
from instances.graph.display import exact_figures, figures
from instances.graph.graph import ComputationGraph, graph_document, graph_from_document
from instances.graph.memory import touched_bytes
from instances.graph.questions import GraphQuestion, digest_of
from instances.graph.tensors import FloatArray, freeze
from instances.json_files import Value
from instances.machines import Kind, Machines
from instances.partitioning.constraints import (
    NO_CONSTRAINTS,
    BlockRules,
    Constraints,
    NodeName,
    Windows,
    instance_in_words,
)
from instances.records import By, Floats, Limit, read, written

# Whole numbers up to this are floats.
_EXACT = 2.0**53
# Largest number of nodes that a short description lists one by one.
_MOST_NODES = 8


#: A graph as a member of files.
GraphMember = Annotated[ComputationGraph, By(graph_from_document, graph_document)]


@dataclass(frozen=True, eq=False)
class _KindMembers:
    """A kind of devices in a question of a file."""

    name: str
    count: int
    memory: Limit
    bandwidth: Limit
    works: Annotated[FloatArray, Floats("n")]  # infinite where a node cannot run


class _Members(NamedTuple):
    """Members of a question in a file; `order`, `kinds` and `rates` are only there where devices differ."""

    k: int
    bandwidth: Limit
    graph: GraphMember
    name: str = ""
    memory: Limit = math.inf
    activation_buffer: float | None = None
    fit: bool = False
    constraints: Constraints = NO_CONSTRAINTS
    need: Annotated[FloatArray, Floats("n")] | None = None
    by_need: bool = False
    order: str | None = None
    kinds: tuple[_KindMembers, ...] = ()
    rates: Annotated[FloatArray, Floats("T", "T")] | None = None


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Instance(GraphQuestion):
    """Question of partitioning: how to cut a graph into k blocks, so that the slowest block is as fast as possible.

    An answer is a `Partition`; questions with equal `key` have the same answers at the same costs.

    Parameters
    ----------
    graph : ComputationGraph
    machines : Machines or Platform
        A platform stands for k devices that are alike, and for k, buffer and fit.
    name : str, optional
        By default the name of the graph.
    constraints : Constraints
        Side constraints in node numbers. Over several kinds without least numbers of nodes; windows count device slots
        0 to k - 1, some of which may be empty.
    need : (n,) floats, optional
        For merged nodes, the most that one of them read and wrote [bytes].
    by_need : bool
        Without a fixed buffer, the peak of a block is not that of its order but the largest need of its nodes.
    together, windows, uncut, at_least
        More constraints, as `Constraints.of` takes them.
    family : str, optional
        The network or random graph that this is a variant of, such as one of several batches; statistics count
        families, as variants are not independent. By default the name. No cost depends on it.
    k : int, optional
        Largest number of blocks that are not empty; by default the number of devices.
    works : (T, n) floats, optional
        Time of each node on a device of each kind; infinite where it cannot run there. By default the work of the graph
        over the speed of the kind. Of devices that are alike they become the work of the graph.
    activation_buffer, fit
        As in `Platform`; a kind without a limit on its memory always fits.

    Raises
    ------
    InputError
        If graph or machines are something else, k times the cost of a block can exceed the largest number, a node can
        run nowhere, there are fewer devices than blocks, or the constraints contradict one another.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[1, 2, 3], names=("a", "b", "c"))
    >>> Instance(graph, Platform(2, 1.0), together=[["a", "c"]], windows={"b": 1}).rules.first.tolist()
    [1, 1, 1]
    """

    problem: ClassVar[str] = "partition"
    cost_name: ClassVar[str] = "bottleneck"

    graph: ComputationGraph
    machines: Machines
    k: int  # number of blocks
    works: FloatArray | None  # as `work`; None where devices are alike and the work of the graph holds
    activation_buffer: float | None
    fit: bool
    constraints: Constraints
    need: FloatArray | None
    by_need: bool
    name: str
    family: str

    def __init__(
        self,
        graph: ComputationGraph,
        machines: Machines | Platform,
        name: str = "",
        constraints: Constraints = NO_CONSTRAINTS,
        need: FloatArray | None = None,
        by_need: bool = False,
        together: Iterable[Sequence[NodeName] | str] = (),
        windows: Windows | None = None,
        uncut: Iterable[NodeName] = (),
        at_least: Iterable[tuple[int, Iterable[NodeName] | str]] = (),
        family: str = "",
        *,
        k: int | None = None,
        works: ArrayLike | None = None,
        activation_buffer: float | None = None,
        fit: bool = False,
    ) -> None:
        if not (isinstance(graph, ComputationGraph) and isinstance(machines, Machines | Platform)):
            raise InputError(
                f"An instance is made of a ComputationGraph and a Platform, not of {type(graph).__name__} and "
                f"{type(machines).__name__}; `mtpp.load` makes a graph of what describes one."
            )
        rules: dict[str, Any] = {"together": together, "windows": windows, "uncut": uncut, "at_least": at_least}
        if not all(rule is None or (isinstance(rule, tuple) and not rule) for rule in rules.values()):
            constraints += Constraints.of(graph, **rules)
        if isinstance(machines, Platform):
            platform, works = machines, None
            machines = Machines.alike(platform.k, platform.bandwidth, platform.memory)
            if constraints.on:
                raise InputError("The constraints say on which kinds nodes are, and devices are alike; leave 'on' out.")
        else:
            machines = machines.without_overflow(fit)
            platform = machines.platform(k, activation_buffer, fit)
            graph, works, constraints = _worked(graph, machines, works, constraints)
            if machines.are_alike:
                machines = Machines.alike(platform.k, platform.bandwidth, platform.memory, machines.kinds[0].name)
        fields = {
            "graph": graph,
            "machines": machines,
            "k": platform.k,
            "works": works,
            "activation_buffer": platform.activation_buffer,
            "fit": platform.fit,
            "constraints": constraints,
            "need": need,
            "by_need": by_need,
            "name": name or graph.name,
            "family": family or name or graph.name,
            "platform": platform,
        }
        self.__dict__.update(fields)
        self._check()

    def _check(self) -> None:
        """Refuse contradictory parameters, and numbers that are too large."""
        need = self.need
        if need is not None and not (len(need) == self.graph.n and ((need >= 0) & (need < math.inf)).all()):
            raise InputError(f"need: give {self.graph.n} numbers, the bytes of each node, finite and 0 or more.")
        if not self.is_alike and self.constraints.at_least:
            raise InputError(
                "Least numbers of nodes cannot be combined with devices of several kinds; leave them out, and give "
                "windows of stages and nodes that are together or uncut as `constraints`."
            )
        if self.constraints:
            self.rules  # noqa: B018 - a contradiction shows here
        if not self.is_alike:
            for t in range(self.kinds):
                self.of_kind(t)
        elif not math.isfinite(self.k * self._longest):
            raise InputError(
                f"With k = {self.k} and a bandwidth of {self.platform.bandwidth:g} costs of {self.graph.name!r} exceed "
                "the largest number; give times and sizes in larger units."
            )

    @cached_property
    def platform(self) -> Platform:
        """Platform of k blocks, with the buffer and `fit` of the question; see `Machines.platform`."""
        return self.machines.platform(self.k, self.activation_buffer, self.fit)

    @cached_property
    def is_alike(self) -> bool:
        """Whether devices are alike."""
        return self.machines.are_alike

    @property
    def kinds(self) -> int:
        """Number of kinds, T."""
        return len(self.machines.kinds)

    @cached_property
    def work(self) -> FloatArray:
        """(T, n) time of each node on a device of each kind [time unit of the graph]; infinite where it cannot run."""
        return self.graph.work[None] if self.works is None else self.works

    @property
    def label(self) -> str:
        """Name of the graph, and number of blocks or devices, as messages and tables show them."""
        if self.is_alike:
            return f"{self.name}, k = {self.k}"
        limit = "" if self.k == self.machines.total else f", at most {self.k} of them"
        return f"{self.name}, {self.machines}{limit}"

    @property
    def caveats(self) -> tuple[str, ...]:
        """Warning that memory counts the states of one batch, while a full pipeline holds a batch for each block."""
        if self.k == 1 or not self.graph.state_bytes.any() or not self.machines.is_limited:
            return ()
        batches = f"the throughput needs up to {self.k} batches in flight"
        return (f"{batches}, and the memory counts the states of one; mtpp serve counts those of all",)

    def of_kind(self, t: int) -> Instance:
        """The question for k devices of kind t alone, without constraints; its costs are those of blocks on them."""
        if self.is_alike:
            return self.without_constraints()
        if t not in self._of_kinds:
            kind = self.machines.kinds[t]
            fit = self.fit and math.isfinite(kind.memory)
            platform = Platform(self.k, self.bandwidths[t], kind.memory, self.activation_buffer, fit)
            graph = replace(self.graph, work=self.finite_works[t])
            self._of_kinds[t] = Instance(graph, platform, self.name, need=self.need, by_need=self.by_need)
        return self._of_kinds[t]

    @cached_property
    def _of_kinds(self) -> dict[int, Instance]:
        return {}

    @cached_property
    def able(self) -> NDArray[np.bool_]:
        """(T, n) whether a device of each kind can run each node."""
        return np.isfinite(self.work)

    @cached_property
    def finite_works(self) -> FloatArray:
        r"""(T, n) works, with infinite ones replaced by twice the longest time of all nodes and tensors together.

        An answer with every node on a device that can run it costs less than that, so bounds on the question with these
        works are bounds on this one.
        """
        if self.able.all():
            return self.work
        longest = np.where(self.able, self.work, 0.0).max(axis=0).sum()
        resident = self.graph.held_total + touched_bytes(self.graph).max()
        slowest = self.bandwidths if self.rates is None else (*self.bandwidths, float(self.rates.min()))
        moved = (self.graph.tensors.bytes.sum() + resident) / min(slowest)
        return np.where(self.able, self.work, 2.0 * float(longest + moved) or 1.0)

    @cached_property
    def bandwidths(self) -> tuple[float, ...]:
        """Bandwidth of a device of each kind [bytes per unit of work time].

        With rates for pairs it is the fastest rate of the kind, except for a kind with a bandwidth on which overflow
        takes time: there it is this bandwidth.
        """
        defaults = self.machines.kind_rates
        if self.rates is None:
            return defaults
        fastest = np.maximum(self.rates.max(axis=0), self.rates.max(axis=1)).tolist()
        return tuple(
            rate if kind.bandwidth is not None and math.isfinite(kind.memory) and not self.fit else fastest_rate
            for kind, rate, fastest_rate in zip(self.machines.kinds, defaults, fastest, strict=True)
        )

    @cached_property
    def rates(self) -> FloatArray | None:
        """(T, T) bytes per unit of work time from a device of one kind to one of another; None without such rates."""
        return self.machines.between

    @cached_property
    def has_windows(self) -> bool:
        """Whether windows exclude some node from some of the k blocks."""
        return bool(self.constraints.windows) and self.rules.has_windows(self.k)

    @cached_property
    def rules(self) -> BlockRules:
        """Constraints, resolved to arrays over the nodes."""
        return BlockRules.of(self.graph, self.k, self.constraints)

    @cached_property
    def needs(self) -> FloatArray:
        """(n,) bytes that each node reads and writes, live while it runs; for merged nodes the most of any member."""
        return touched_bytes(self.graph) if self.need is None else self.need

    @cached_property
    def tensor_time(self) -> FloatArray:
        """(t,) time to move each tensor once [time unit of the graph]; 0 for tensors without readers.

        Raises
        ------
        InputError
            If devices differ; it ends methods that only handle alike devices.
        """
        if not self.is_alike:
            raise OneKindError(
                f"{self.name}: this method is for devices that are all alike; use mtpp certify or partition."
            )
        tensors = self.graph.tensors
        with np.errstate(over="ignore"):  # `_longest` finds out
            return np.where(np.diff(tensors.start) > 0, tensors.bytes, 0.0) / self.platform.bandwidth

    @property
    def has_overflow(self) -> bool:
        """Whether on some kind the memory is finite, and bytes beyond it take time."""
        if not self.is_alike:
            return any(self.of_kind(t).has_overflow for t in range(self.kinds))
        return math.isfinite(self.platform.memory) and math.isfinite(self.platform.bandwidth)

    @property
    def limits_memory(self) -> bool:
        """Whether memory matters on some kind: it is a hard limit, or bytes beyond it take time."""
        if not self.is_alike:
            return any(self.of_kind(t).limits_memory for t in range(self.kinds))
        return self.fit or self.has_overflow

    @cached_property
    def has_exact_bytes(self) -> bool:
        """Whether sums of bytes are exact as floats: whole numbers, all of them together below 2^53."""
        graph = self.graph
        limits = [kind.memory for kind in self.machines.kinds if kind.memory < math.inf]
        single = (*limits, self.activation_buffer or 0.0, *(p.bytes for p in graph.parameters))
        need = () if self.need is None else self.need
        sizes = np.concatenate((graph.tensors.bytes, graph.param_bytes, graph.state_bytes, single, need))
        with np.errstate(over="ignore"):
            return bool(sizes.sum() < _EXACT and (sizes == np.floor(sizes)).all())

    @cached_property
    def communication_over_work(self) -> float | None:
        """Time to move every tensor that is read once, over the total work; None without work, or for several kinds."""
        work = float(self.graph.work.sum())
        return float(self.tensor_time.sum()) / work if self.is_alike and work > 0 else None

    @cached_property
    def key(self) -> str:
        """Hash of everything that costs depend on."""
        if not self.is_alike:
            return self._key_of_kinds()
        digest = hashlib.sha256(f"{self.graph.content_hash}{self.platform.key}".encode())
        if self.constraints and self.rules.forbid(self.k):
            for array in vars(self.rules).values():
                digest.update(array.tobytes() + b"|")
        if self.need is not None:
            digest.update(self.need.tobytes())
        if self.by_need:
            digest.update(b"by need")
        return digest.hexdigest()

    def _key_of_kinds(self) -> str:
        numbers = [
            (kind.count, rate, kind.memory) for kind, rate in zip(self.machines.kinds, self.bandwidths, strict=True)
        ]
        words = f"{self.graph.content_hash}{self.platform.key}{self.machines.order}{numbers}{self.by_need}"
        digest = hashlib.sha256(words.encode())
        if self.constraints and self.rules.has_groups:
            digest.update(self.rules.group.tobytes())
        if self.has_windows:
            digest.update(np.array([self.rules.first, self.rules.last]).tobytes())
        if self.rates is not None:
            digest.update(self.rates.tobytes())
        digest.update(self.work.tobytes())
        if self.need is not None:
            digest.update(self.need.tobytes())
        return digest.hexdigest()

    def document(self) -> dict[str, Any]:
        """The question as the member `question` of a file."""
        platform = self.platform
        members = _Members(
            k=self.k,
            bandwidth=platform.bandwidth,
            graph=self.graph,
            name="" if self.name == self.graph.name else self.name,
            activation_buffer=self.activation_buffer,
            fit=self.fit,
            constraints=self.constraints.canonical(self.k),
            need=self.need,
            by_need=self.by_need,
        )
        if self.is_alike:
            return written(members._replace(memory=platform.memory))
        columns = zip(self.machines.kinds, self.bandwidths, self.work, strict=True)
        kinds = [_KindMembers(kind.name, kind.count, kind.memory, rate, works) for kind, rate, works in columns]
        return written(members._replace(order=self.machines.order, kinds=tuple(kinds), rates=self.rates))

    @classmethod
    def of_document(cls, value: Value) -> Instance:
        """The question from the member `question` of a file; an `InputError` names the place of an error."""
        members = read(value, _Members)
        with value.refusing():
            return _instance_of(members)

    @property
    def question_words(self) -> str:
        """The question in one line, with sizes and digests but no names of graph, nodes or devices."""
        devices = self._devices_in_words()
        return instance_in_words(self.graph, devices, self.constraints, self.k, self.need, self.by_need)

    def _devices_in_words(self) -> list[str]:
        alike = platform_in_words(self.platform, self.time_unit)
        if self.is_alike:
            return alike
        unit = f"bytes/{self.time_unit}"
        blocks, default_rate, _, *limits = alike  # the memory is the largest of the kinds
        words = [f"{blocks} in {self.machines.order} order", f"{default_rate} by default", *limits]
        for kind, rate, able, times in zip(self.machines.kinds, self.bandwidths, self.able, self.work, strict=True):
            total = figures(float(times[able].sum()), self.time_unit)
            words.append(
                f"{kind.count} devices ({memory_in_words(kind.memory)}, {exact_figures(rate, unit)}, "
                f"work {total} {digest_of(times.tolist())}{_unable_in_words(able)})"
            )
        if self.rates is not None:
            slowest, fastest = (exact_figures(float(rate), unit) for rate in (self.rates.min(), self.rates.max()))
            words.append(f"{slowest} to {fastest} between kinds {digest_of(self.rates.tolist())}")
        return words

    def _facts(self) -> dict[str, str]:
        graph, unit = self.graph, f"bytes/{self.time_unit}"
        facts = {"nodes": str(graph.n), "edges": str(graph.m), "k": str(self.k)}
        for kind, rate in zip(self.machines.kinds, self.bandwidths, strict=True):
            memory = figures(kind.memory, "bytes") if math.isfinite(kind.memory) else ""
            if self.is_alike:
                facts |= {"bandwidth": figures(rate, unit)} | ({"memory": memory} if memory else {})
            else:
                facts[kind.name] = f"{kind.count} at {figures(rate, unit)}{memory and ', '}{memory}"
        if self.activation_buffer is not None:
            facts["activation buffer"] = figures(self.activation_buffer, "bytes")
        return facts

    @property
    def _longest(self) -> float:
        """Upper bound on the cost of any block [time unit]; where moving takes no time, bytes are added instead."""
        with np.errstate(over="ignore"):
            longest = self.graph.work.sum() + self.tensor_time.sum()
            if self.limits_memory:
                buffer, bandwidth = self.platform.activation_buffer, self.platform.bandwidth
                activations = self.graph.tensors.bytes.sum() if buffer is None else buffer
                activations = max(activations, 0.0 if self.need is None else self.need.max())
                longest += (self.graph.held_total + activations) / (bandwidth if math.isfinite(bandwidth) else 1.0)
        return float(longest)

    def with_k(self, k: int) -> Instance:
        """The same question for another number of blocks."""
        if k == self.k:
            return self
        return self.with_platform(replace(self.platform, k=k)) if self.is_alike else replace(self, k=k)

    def with_platform(self, platform: Platform) -> Instance:
        """The same question for other devices, which are alike."""
        rest = self.name, self.constraints, self.need, self.by_need
        return Instance(self.graph, platform, *rest, family=self.family)

    @property
    def needs_peaks(self) -> bool:
        """Whether costs depend on peaks of activations: memory is limited, and no fixed buffer replaces the peaks."""
        return self.limits_memory and self.platform.activation_buffer is None

    def modelled(self) -> Instance:
        """The question as bounds and models take it: the peak of a block is the largest need of its nodes."""
        return replace(self, by_need=True) if self.needs_peaks and not self.by_need else self

    def without_constraints(self) -> Instance:
        """Instance without constraints."""
        return replace(self, constraints=NO_CONSTRAINTS) if self.constraints else self

    def relaxed(self, *, modelled: bool = True) -> Instance:
        """The question without constraints and hard memory limits, by default with peaks as in `modelled`.

        Every answer to the original question is an answer to it, and costs no more there.
        """
        free = (self.modelled() if modelled else self).without_constraints()
        return replace(free, fit=False) if free.fit else free


def _instance_of(members: _Members) -> Instance:
    """The question of the members of a file."""
    rules = members.constraints
    windows = [(v, (first, last)) for v, first, last in rules.windows]
    constraints = Constraints.of(members.graph, **vars(rules) | {"windows": windows})
    rest = members.name, constraints, members.need, members.by_need
    buffer, fit = members.activation_buffer, members.fit
    if not members.kinds:
        if members.order is not None or members.rates is not None:
            raise InputError("There is an order or there are rates, and no kinds of devices; give these, too.")
        return Instance(members.graph, Platform(members.k, members.bandwidth, members.memory, buffer, fit), *rest)
    if members.order is None or members.memory < math.inf:
        raise InputError("Kinds of devices have an order, and each its own memory.")
    # Speeds, which are in the works, tell kinds apart whose memory and bandwidth are the same.
    kinds = [
        Kind(kind.name, kind.count, t + 1.0, memory=kind.memory, bandwidth=kind.bandwidth)
        for t, kind in enumerate(members.kinds)
    ]
    rates = None if members.rates is None else members.rates.tolist()
    machines = Machines(kinds, members.order, rates, members.bandwidth)
    works = np.array([kind.works for kind in members.kinds])
    return Instance(members.graph, machines, *rest, k=members.k, works=works, activation_buffer=buffer, fit=fit)


def places_of_kinds(graph: ComputationGraph, machines: Machines, constraints: Constraints) -> NDArray[np.bool_]:
    """(T, n) whether constraints let each node be on each kind.

    Raises
    ------
    InputError
        If they name an unknown kind.
    """
    names = [kind.name for kind in machines.kinds]
    places = np.ones((len(names), graph.n), dtype=bool)
    for v, kinds in constraints.on:
        for name in kinds:
            if name not in names:
                raise InputError(unknown(names, name, "kind of devices"))
        places[:, v] &= [name in kinds for name in names]
    return places


def _worked(
    graph: ComputationGraph, machines: Machines, works: ArrayLike | None, constraints: Constraints
) -> tuple[ComputationGraph, FloatArray | None, Constraints]:
    """The graph; (T, n) works on each kind, None where all devices are alike; and constraints without `on`.

    A work is infinite where the kind cannot run the node. Works that are no times, and nodes that no kind can run, are
    refused by an `InputError`.
    """
    kinds = machines.kinds
    if works is None and (priced := [kind.name for kind in kinds if kind.roofline is not None]):
        raise InputError(f"kind {printable(priced[0])} has no speed; give the works of all nodes on it.")
    if works is None and machines.are_alike and kinds[0].speed is None and not constraints.on:
        return graph, None, constraints
    table = np.array([graph.work / (kind.speed or 1.0) for kind in kinds] if works is None else works, dtype=np.float64)
    if table.shape != (len(kinds), graph.n):
        raise InputError(f"There are works for {table.shape}; give {len(kinds)} kinds times {graph.n} nodes.")
    table[~places_of_kinds(graph, machines, constraints)] = math.inf
    for t, v in np.argwhere(~(table >= 0))[:1].tolist():
        where = f"the work of node {v} ({graph.names[v]}) on {kinds[t].name}"
        raise InputError(f"{where} is {table[t, v]}; it must be 0 or more, infinite where it cannot run.")
    for v in np.flatnonzero(np.isinf(table).all(axis=0))[:1].tolist():
        raise InputError(f"Node {v} ({graph.names[v]}) can run on no kind of devices; allow one.")
    constraints = replace(constraints, on=())
    if machines.are_alike:
        return replace(graph, work=table[0]), None, constraints
    freeze(table)
    return graph, table, constraints


def _unable_in_words(able: NDArray[np.bool_]) -> str:
    nodes = np.flatnonzero(~able).tolist()
    listed = f"{len(nodes)} nodes" if len(nodes) > _MOST_NODES else " ".join(map(str, nodes))
    return f", not for {listed}" if nodes else ""
