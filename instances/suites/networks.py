"""Networks of installed packages, traced by `instances.readers.pytorch` when they are asked for first.

``networks.csv``, which ``make networks`` writes, names them: one model a module of timm and torchvision, and one a type
of transformers, of those whose graphs differ. The graphs are kept as files in the user's cache, in a folder for the
versions of the package, of torch and of the code that traces.
"""

from __future__ import annotations

import csv
import hashlib
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from instances.errors import InputError, InputWarning, extra
from instances.graph.graph import ComputationGraph
from instances.graph.graph_file import read_graph
from instances.suites.suite import Entry, LeftOutError, Suite
from instances.system.fresh_python import SubprocessError, run_module

__all__ = [
    "BATCH",
    "NETWORKS",
    "NOT_IMPORTED",
    "SEQUENCE",
    "SuiteModel",
    "cache_folder",
    "network_suite",
    "trace_network",
]

#: Inputs of a network at once, and tokens of each.
BATCH, SEQUENCE = 8, 128

#: Exit code of the process that traces, where the package cannot be imported.
NOT_IMPORTED = 3

#: Bandwidth between blocks [bytes/s].
_BANDWIDTH = 25e9

# What a graph depends on, beside the versions of packages.
_TRACERS = (
    *("readers/pytorch/costs", "readers/pytorch/dataflow", "readers/pytorch/export"),
    *("devices/roofline", "suites/network_process"),
)
# Of the numbers in networks.csv.
_TORCH = "2.13.0"
# Until a process that does not end by itself is killed; it limits its processor time, too.
_SECONDS = 3600.0
_PROCESS = "instances.suites.network_process"
_REMEDY = f"{extra('networks')}; torchvision must be built for the torch that is installed"
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
        """The graph, from the cache, or traced now; an `InputWarning` says that it is not that of the list.

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
            here = f"{self.package} {_installed(self.package)} with torch {_installed('torch')}"
            difference = (
                f"some graphs of {here} differ from those of {self.package} {self.version} with torch {_TORCH}."
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
        Is there afterwards.

    Raises
    ------
    LeftOutError
        If the model cannot be traced.
    InputError
        If the package or torch is missing, or does not work, or the file cannot be written.
    """
    for needed in (package, "torch"):
        if not _installed(needed):
            raise InputError(f"{needed} is not installed, with which {model} is traced; {_REMEDY}.")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        done = run_module(_PROCESS, package, model, file, seconds=_SECONDS)
        problem = (done.stderr.decode(errors="replace").strip().splitlines() or ["it was ended from outside"])[-1]
    except SubprocessError:
        problem, done = f"it takes more than {_SECONDS:g} s", None
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror}).") from None
    if done is not None and done.returncode == NOT_IMPORTED:
        raise InputError(f"{package} cannot be imported: {problem}; {_REMEDY}.")
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
    made = f"{package}-{_installed(package) or version}-torch-{torch}-{_tracer()}"
    return user_cache("mtpp") / "networks" / made


def network_suite(name: str, summary: str, networks: Iterable[SuiteModel], more: Iterable[Entry] = ()) -> Suite:
    """A suite of networks, after other entries."""
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
    """Hash of the code that graphs depend on, but for its comments."""
    import ast

    digest = hashlib.sha256()
    for path in _TRACERS:
        digest.update(
            ast.dump(ast.parse(files("instances").joinpath(f"{path}.py").read_text(encoding="utf-8"))).encode()
        )
    return digest.hexdigest()[:8]


def _listed() -> tuple[SuiteModel, ...]:
    lines = files("instances.suites").joinpath("networks.csv").read_text(encoding="utf-8").splitlines()
    return tuple(
        SuiteModel(**{**row, "nodes": int(row["nodes"]), "edges": int(row["edges"])})  # type: ignore[arg-type]
        for row in csv.DictReader(lines)
    )


#: All networks that can be traced.
NETWORKS = _listed()
