"""Suites and their entries."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from instances.devices.platform import Platform
from instances.errors import InputError, InputWarning
from instances.graph.graph import ComputationGraph
from instances.partitioning.problem import Instance

__all__ = ["Entry", "LeftOutError", "Suite"]


class LeftOutError(InputError):
    """One graph of a suite cannot be had; the others can."""


@dataclass(frozen=True)
class Entry:
    """One graph of a suite."""

    name: str  # unique in its suite
    build: Callable[[], ComputationGraph]  # makes the graph
    bandwidth: float | None  # bytes per unit of the graph's time; None where the suite does not say
    cluster: str  # the network or random graph of which it is a variant

    def question(self, graph: ComputationGraph, platform: Platform) -> Instance:
        """The question about its graph on this platform."""
        return Instance(graph, platform, self.name, cluster=self.cluster)

    def instance(self, k: int) -> Instance:
        """The question for `k` blocks.

        Raises
        ------
        InputError
            If the graph cannot be built, the suite has no bandwidth, or `k` is less than 1.
        """
        return self.question(self.build(), self.platform(k))

    def platform(self, k: int) -> Platform:
        """`k` devices with the suite's bandwidth; the errors are those of `instance`."""
        if self.bandwidth is None:
            raise InputError(f"{self.name}: its suite has no bandwidth; add one to the suite.toml of the folder.")
        return Platform(k, self.bandwidth)


@dataclass(frozen=True)
class Suite:
    """A list of graphs."""

    name: str  # to ask for
    summary: str  # one line
    entries: tuple[Entry, ...]
    k: tuple[int, ...] = ()  # numbers of blocks that make sense; empty: all
    processes: int = 1  # how many graphs are made at the same time, where processes of their own make them

    def graphs(self, left_out: list[str] | None = None) -> Iterator[tuple[Entry, ComputationGraph | None]]:
        """Build the graphs, in the order of the entries.

        A graph that cannot be had, or is the same as one before it, is left out: None stands in its place, and an
        `InputWarning` says why.

        Parameters
        ----------
        left_out : list of str, optional
            Takes a line for each graph that is left out.

        Raises
        ------
        InputError
            If a graph cannot be built for a reason that all have, or none is left.
        """
        first: dict[str, str] = {}
        warning = ""
        for entry, built in zip(self.entries, self._built(), strict=True):
            if isinstance(built, ComputationGraph):
                same = first.setdefault(built.content_hash, entry.name)
                if same == entry.name:
                    yield entry, built
                    continue
                warning = f"{self.name}: {entry.name} is the same graph as {same}; it counts once."
            else:
                warning = str(built)
            warnings.warn(warning, InputWarning, stacklevel=2)
            if left_out is not None:
                left_out.append(warning)
            yield entry, None
        if not first:
            raise InputError(f"{self.name}: none of {len(self.entries)} graphs can be had; the last: {warning}")

    def instances(self, k: int) -> list[Instance]:
        """All questions of the suite for `k` blocks, without those whose graph is left out.

        Raises
        ------
        InputError
            As of `graphs` and `Entry.instance`.
        """
        return [entry.question(graph, entry.platform(k)) for entry, graph in self.graphs() if graph is not None]

    def _built(self) -> Iterator[ComputationGraph | LeftOutError]:
        if self.processes == 1:
            yield from map(_graph_of, self.entries)
            return
        pool = ThreadPoolExecutor(self.processes)  # each thread waits for a process
        try:
            yield from pool.map(_graph_of, self.entries)
        finally:
            pool.shutdown(cancel_futures=True)


def _graph_of(entry: Entry) -> ComputationGraph | LeftOutError:
    try:
        return entry.build()
    except LeftOutError as error:
        return error
