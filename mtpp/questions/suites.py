"""Questions of suites, architectures and files side by side."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from instances import ComputationGraph, InputError, Instance, Platform
from instances.errors import WordError
from instances.readers import load_graph
from instances.suites import SUITES
from mtpp.questions.partitioning import Blocks, counts_of
from mtpp.questions.platforms import PlatformWords, bandwidth_of, memory_limits

__all__ = ["load_targets"]


def load_targets(targets: Iterable[str], k: Blocks, words: PlatformWords) -> list[Instance]:
    """One instance per k of each graph of the suites, architectures and files in `targets`.

    Raises
    ------
    InputError
        If a word or a graph is refused, or a bandwidth is given for a suite, which has its own.
    """
    counts, bandwidth = counts_of(k), words["bandwidth"]
    limits = memory_limits(words["memory"], words["activation_buffer"])
    found = []
    for target in targets:
        if target not in SUITES:
            graph = _load(target)
            platforms = [Platform(count, bandwidth_of(graph, bandwidth), *limits, words["fit"]) for count in counts]
            found += [Instance(graph, platform) for platform in platforms]
            continue
        if bandwidth is not None:
            raise WordError(
                "bandwidth", bandwidth, f"the suite {target} has its own bandwidths; leave this option out."
            )
        for entry in SUITES[target].entries:
            graph = entry.build()
            platforms = [Platform(count, entry.bandwidth, *limits, words["fit"]) for count in counts]
            found += [Instance(graph, platform, entry.name) for platform in platforms]
    return found


def _load(target: str) -> ComputationGraph:
    try:
        return load_graph(target)
    except InputError as error:
        if Path(target).exists() or "no file" not in str(error):
            raise
        raise InputError(f"{error} Suites are {', '.join(SUITES)}.") from None
