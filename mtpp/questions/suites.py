"""Questions of suites, architectures and files side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from instances import InputError, Instance
from instances.architectures import ARCHITECTURES
from instances.errors import WordError, nearest
from instances.json_files import beside
from instances.suites import SUITES, Suite, find_suite, is_suite
from mtpp.questions.partitioning import Blocks, PartitioningWords, PlatformWords, counts_of, instances_of
from mtpp.questions.reading import NetworkWords
from mtpp.questions.words import checked, pick
from mtpp.text.tables import CountingBar


def load_targets(
    targets: Iterable[str],
    k: Blocks,
    words: PlatformWords,
    left_out: list[str] | None = None,
    studies: Iterable[str] = (),
) -> list[Instance]:
    """Instances of all graphs of these suites, folders, architectures and files, one for each k.

    A graph of a suite or folder that cannot be loaded gives an `InputWarning`; the others are returned.

    Parameters
    ----------
    targets : iterable of str
        Graphs as for `mtpp.load`, and names of suites as for `find_suite`.
    k : Blocks
    words : PlatformWords or KindWords
        Devices are for all graphs; kinds of devices for graphs of a suite state their speeds.
    left_out : list of str, optional
        List to which a line is appended for each graph that is left out.
    studies : iterable of str
        Further names that the caller accepts, to propose for a misspelled target.

    Raises
    ------
    InputError
        If a keyword argument or a graph is refused, or a bandwidth is given for a suite that has its own.
    """
    counts, settings = counts_of(k), checked(PartitioningWords, words)
    bandwidth = settings["bandwidth"]
    reading = {name: value for name, value in pick(NetworkWords, settings).items() if value is not None}
    instances = []
    for target in targets:
        if not is_suite(target):
            _check_there(target, studies)
            instances += instances_of(target, counts, settings)
            continue
        suite = find_suite(target, **reading)
        allowed = _counts(suite, counts)
        if bandwidth is not None and any(entry.bandwidth is not None for entry in suite.entries):
            raise WordError(
                "bandwidth", bandwidth, f"the suite {target} has its own bandwidths; leave this option out."
            )
        with CountingBar(len(suite.entries), f"graphs of {suite.name}") as bar:
            for entry, made in suite.graphs(left_out):
                if made is not None:
                    rate = bandwidth if entry.bandwidth is None else entry.bandwidth
                    questions = instances_of(
                        made, allowed, {**settings, "dims": None, "weights": None, "bandwidth": rate}
                    )
                    instances += [replace(question, name=entry.name, family=entry.family) for question in questions]
                bar.count()
    return instances


def _counts(suite: Suite, counts: Iterable[int]) -> list[int]:
    """The numbers of blocks that a suite allows among `counts`."""
    allowed = [count for count in counts if not suite.k or count in suite.k]
    if not allowed:
        raise WordError("k", None, f"{suite.name} asks for k = {', '.join(map(str, suite.k))} alone.")
    return allowed


def _check_there(target: str, studies: Iterable[str]) -> None:
    if target not in ARCHITECTURES and not Path(target).exists():
        rest = f"suites are {', '.join(SUITES)}, regal-style:N, regal:FOLDER and folders"
        end = nearest([*SUITES, *studies, *ARCHITECTURES, *beside(target)], Path(target).name, rest)
        raise InputError(f"There is no suite, no architecture and no file {target!r}{end}")
