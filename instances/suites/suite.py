"""Suites of instances: of networks of other packages, and of folders."""

from __future__ import annotations

import csv
import hashlib
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

from instances.devices import Platform
from instances.errors import InputError, InputWarning, extra, nearest, unknown
from instances.graph.graph import ComputationGraph, read_graph
from instances.json_files import beside, read_text
from instances.partitioning.problem import Instance
from instances.readers import load_graph
from instances.readers.costgraph import read_regal
from instances.system.files import syntax_tree
from instances.system.processes import SubprocessError as SubprocessError
from instances.system.processes import run_module

# Suites and their entries.


class LeftOutError(InputError):
    """One graph of a suite is not available; the others are."""


@dataclass(frozen=True)
class Entry:
    """One graph of a suite."""

    name: str  # unique in its suite
    build: Callable[[], ComputationGraph]  # makes the graph
    bandwidth: float | None  # bytes per unit of the graph's time; None where the suite does not say
    family: str  # the network or random graph of which it is a variant

    def question(self, graph: ComputationGraph, platform: Platform) -> Instance:
        """The question about the entry's graph on this platform."""
        return Instance(graph, platform, self.name, family=self.family)

    def instance(self, k: int) -> Instance:
        """The question with `k` blocks.

        Raises
        ------
        InputError
            If the graph cannot be built, the suite has no bandwidth, or `k` is less than 1.
        """
        return self.question(self.build(), self.platform(k))

    def platform(self, k: int) -> Platform:
        """`k` devices with the suite's bandwidth; raises the errors of `instance`."""
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

        A graph that is not available, or equals an earlier one, is left out: its entry comes with None, and an
        `InputWarning` says why.

        Parameters
        ----------
        left_out : list of str, optional
            List to which a line is appended for each graph that is left out.

        Raises
        ------
        InputError
            If a graph cannot be built for a reason that concerns all graphs, or no graph is left.
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
            As for `graphs` and `Entry.instance`.
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


# Networks of installed packages, traced by `instances.readers.pytorch` when they are asked for first.
#
# ``networks.csv``, which ``make networks`` writes, names them: one model a module of timm and torchvision, and one a
# type of transformers, of those whose graphs differ. The graphs are kept as files in the user's cache, in a folder for
# the versions of the package, of torch and of the code that traces.


#: Inputs of a network at once, and tokens of each.
BATCH, SEQUENCE = 8, 128

#: Exit code of the process that traces, where the package cannot be imported.
NOT_IMPORTED = 3

#: Bandwidth between blocks [bytes/s].
_BANDWIDTH = 25e9

# What a graph depends on, besides the versions of packages.
_TRACERS = (*("readers/pytorch/dataflow", "readers/pytorch/export", "devices", "suites/network_process"),)
# Of the numbers in networks.csv.
_TORCH = "2.13.0"
# Until a process that does not end by itself is killed; it limits its processor time, too.
_SECONDS = 3600.0
_PROCESS = "instances.suites.network_process"
_REMEDY = "torchvision must be built for the torch that is installed"
# How many at a time; each takes a processor, and a gigabyte or two.
_PROCESSES = min(4, os.cpu_count() or 1)


@dataclass(frozen=True)
class SuiteModel:
    """One line of ``networks.csv``."""

    network: str  # unique
    cluster: str  # that of other networks of the same design, if there are any
    package: str
    version: str  # of the package, for the numbers here
    model: str  # what the package calls it
    licence: str  # of the package
    nodes: int
    edges: int
    hash: str  # beginning of `ComputationGraph.content_hash`

    def build(self) -> ComputationGraph:
        """The graph, from the cache or traced now; an `InputWarning` says if it differs from the list.

        Raises
        ------
        LeftOutError
            If it cannot be traced.
        InputError
            If it is not in the cache, and no package is there to trace it.
        """
        file = cache_folder(self.package, self.version) / f"{self.model}.json"
        if not file.exists():
            trace_network(self.package, self.model, file)
        graph = read_graph(file)
        if not graph.content_hash.startswith(self.hash):
            installed = f"{self.package} {_installed(self.package)} with torch {_installed('torch')}"
            difference = (
                f"some graphs of {installed} differ from those of {self.package} {self.version} with torch {_TORCH}."
            )
            warnings.warn(f"{difference} Compare ratios with care.", InputWarning, stacklevel=2)
        return graph


def trace_network(package: str, model: str, file: Path) -> None:
    """Trace a model of a package in a process of its own, and save its graph.

    Parameters
    ----------
    package, model : str
        The model is called as the package does.
    file : Path
        Graph file that is written.

    Raises
    ------
    LeftOutError
        If the model cannot be traced.
    InputError
        If the package or torch is missing, or does not work, or the file cannot be written.
    """
    for needed in (package, "torch"):
        if not _installed(needed):
            missing = f"{needed} is not installed, with which {model} is traced"
            raise InputError(f"{missing}; {_REMEDY}: {extra('networks')}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        done = run_module(_PROCESS, package, model, file, seconds=_SECONDS)
        problem = (done.stderr.decode(errors="replace").strip().splitlines() or ["it was ended from outside"])[-1]
    except SubprocessError:
        problem, done = f"it takes more than {_SECONDS:g} s", None
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror}).") from None
    if done is not None and done.returncode == NOT_IMPORTED:
        raise InputError(f"{package} cannot be imported: {problem}; {_REMEDY}: {extra('networks')}")
    if not file.exists():
        raise LeftOutError(f"{package} {version(package)}, {model} cannot be traced and is left out: {problem}")


def cache_folder(package: str, version: str = "") -> Path:
    """Folder of the graphs that are traced with the versions installed here.

    Parameters
    ----------
    package : str
    version : str
        Version of the package where it is not installed.
    """
    from instances.compiled import user_cache

    torch = (_installed("torch") or _TORCH).partition("+")[0]
    name = f"{package}-{_installed(package) or version}-torch-{torch}-{_tracer()}"
    return user_cache("mtpp") / "networks" / name


def network_suite(name: str, summary: str, networks: Iterable[SuiteModel], more: Iterable[Entry] = ()) -> Suite:
    """A suite of networks, after the entries `more`."""
    entries = (Entry(network.network, network.build, _BANDWIDTH, network.cluster) for network in networks)
    return Suite(name, summary, (*more, *entries), processes=_PROCESSES)


def _installed(package: str) -> str:
    """The version of an installed package, "" if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@cache
def _tracer() -> str:
    """Hash of the code that traces graphs, comments left out."""
    import ast

    digest = hashlib.sha256()
    for path in _TRACERS:
        tree = syntax_tree(files("instances").joinpath(f"{path}.py").read_bytes())
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:8]


def _listed() -> tuple[SuiteModel, ...]:
    lines = files("instances.suites").joinpath("networks.csv").read_text(encoding="utf-8").splitlines()
    return tuple(
        SuiteModel(**{**row, "nodes": int(row["nodes"]), "edges": int(row["edges"])})  # type: ignore[arg-type]
        for row in csv.DictReader(lines)
    )


#: All networks that can be traced.
NETWORKS = _listed()


# Suites of the files in a folder, with what a ``suite.toml`` there says about them.


#: Name of the file of settings in a folder.
SETTINGS = "suite.toml"

_REGAL_FILES = "graph_*.pbtxt"


@dataclass(frozen=True)
class _Settings:
    """Content of a ``suite.toml``."""

    bandwidth: float | None = None
    k: tuple[int, ...] = ()
    clusters: dict[str, str] = field(default_factory=dict)  # by patterns of names, the first that fits counts


def folder_suite(folder: str | Path, **words: Any) -> Suite:
    """All graph files of a folder (not of folders in it), by name, in any format that `load_graph` reads with `words`.

    Files whose name begins with a dot are ignored. ``suite.toml`` may give `bandwidth`, bytes per unit of the
    graphs' time, `k`, the only allowed numbers of blocks, and `clusters`, a table of names or patterns of graphs and
    the network of which they are variants.

    Raises
    ------
    InputError
        If there is no file in the folder, or `suite.toml` has something else.
    """
    files = _files(folder, lambda path: path.name != SETTINGS and not path.name.startswith("."))
    if not files:
        raise InputError(f"{folder}: there is no file in this folder; give one with graph files.")
    stems = Counter(path.stem for path in files)
    named = {path.stem if stems[path.stem] == 1 else path.name: path for path in files}
    settings_file = Path(folder, SETTINGS)
    settings = _settings(settings_file) if settings_file.exists() else _Settings()
    clusters = {name: _cluster(name, settings.clusters) for name in named}
    for pattern in settings.clusters:
        if not any(fnmatchcase(name, pattern) for name in named):
            end = nearest(named, pattern, f"there are {_few(named)}")
            raise InputError(f"{settings_file}, clusters: no graph is called {pattern!r}{end}")
    entries = (
        Entry(name, partial(_read, partial(load_graph, **words), path), settings.bandwidth, clusters[name])
        for name, path in named.items()
    )
    return Suite(str(folder), f"files of the folder {folder}", tuple(entries), settings.k)


def regal_suite(folder: str) -> Suite:
    """Files ``graph_*.pbtxt`` of a folder, as `read_regal` reads them: a byte takes a microsecond.

    Raises
    ------
    InputError
        If there is no such file.
    """
    if not os.path.isdir(folder):
        end = nearest(beside(folder), os.path.basename(folder), "give one of the data set, such as regal:test")
        raise InputError(f"regal:{folder}: there is no such folder{end}")
    files = _files(folder, lambda path: fnmatchcase(path.name, _REGAL_FILES))
    if not files:
        raise InputError(f"regal:{folder}: there is no file {_REGAL_FILES}; give a folder of REGAL's data set.")
    entries = (Entry(path.stem, partial(_read, read_regal, path), 1.0, path.stem) for path in files)
    return Suite(f"regal:{folder}", f"graphs of REGAL's data set in the folder {folder}", tuple(entries))


def _files(folder: str | Path, wanted: Callable[[Path], bool]) -> list[Path]:
    try:
        return sorted(path for path in Path(folder).iterdir() if wanted(path) and not path.is_dir())
    except OSError as error:
        raise InputError(f"{folder}: the folder cannot be read ({error.strerror}).") from None


def _read(read: Callable[[Path], ComputationGraph], path: Path) -> ComputationGraph:
    try:
        return read(path)
    except InputError as error:
        raise LeftOutError(f"{error} This file is left out.") from None


def _settings(path: Path) -> _Settings:
    import tomllib

    try:
        settings = tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not valid TOML ({error or 'nested too deeply'}).") from None
    fields = tuple(_Settings.__dataclass_fields__)
    for word in settings:
        if word not in fields:
            raise InputError(f"{path}: {unknown(fields, word, 'word')}")
    counts = _counts(settings["k"], path) if "k" in settings else ()
    return _Settings(_bandwidth(settings.get("bandwidth"), path), counts, _names(settings.get("clusters"), path))


def _bandwidth(value: Any, path: Path) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
        raise InputError(f"{path}: bandwidth must be a number of bytes per unit of the graphs' time, such as 25e9.")
    return float(value)


def _counts(value: Any, path: Path) -> tuple[int, ...]:
    counts = value if isinstance(value, list) else [value]
    if not counts or not all(type(k) is int and k >= 1 for k in counts):
        raise InputError(f"{path}: k must be a list of numbers of blocks, such as [2, 4, 8].")
    return tuple(counts)


def _names(value: Any, path: Path) -> dict[str, str]:
    names = {} if value is None else value
    if not isinstance(names, dict) or not all(isinstance(name, str) and name for name in names.values()):
        raise InputError(f'{path}: clusters must be a table of graphs and networks, such as "bert-*" = "bert".')
    return names


def _cluster(name: str, clusters: dict[str, str]) -> str:
    return next((cluster for pattern, cluster in clusters.items() if fnmatchcase(name, pattern)), name)


def _few(names: dict[str, Path]) -> str:
    first = list(names)[:5]
    return ", ".join(first) + (" and more" if len(names) > len(first) else "")
