"""Suites of the files in a folder, with what a ``suite.toml`` there says about them."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.json_files import read_text
from instances.readers import load_graph
from instances.readers.costgraph import read_regal
from instances.registry import unknown
from instances.suites.suite import Entry, LeftOutError, Suite

__all__ = ["SETTINGS", "folder_suite", "regal_suite"]

#: Name of the file of settings in a folder.
SETTINGS = "suite.toml"

_REGAL_FILES = "graph_*.pbtxt"


@dataclass(frozen=True)
class _Settings:
    """Content of a ``suite.toml``."""

    bandwidth: float | None = None
    k: tuple[int, ...] = ()
    clusters: dict[str, str] = field(default_factory=dict)  # by patterns of names, the first that fits counts


def folder_suite(folder: str | Path) -> Suite:
    """All graph files directly in a folder, in the order of their names, of any format that can be read.

    Files whose name begins with a dot are not looked at. ``suite.toml`` may give `bandwidth`, bytes per unit of the
    graphs' time, `k`, the only numbers of blocks that are asked, and `clusters`, a table of names or patterns of graphs
    and the network of which they are variants.

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
            raise InputError(f"{settings_file}, clusters: no graph is called {pattern!r}; there are {_few(named)}.")
    entries = (
        Entry(name, partial(_read, load_graph, path), settings.bandwidth, clusters[name])
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
        raise InputError(f"regal:{folder}: there is no such folder; give one of the data set, such as regal:test.")
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
        given = tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not valid TOML ({error or 'nested too deeply'}).") from None
    fields = tuple(_Settings.__dataclass_fields__)
    for word in given:
        if word not in fields:
            raise InputError(f"{path}: {unknown(fields, word, 'word')}")
    counts = _counts(given["k"], path) if "k" in given else ()
    return _Settings(_bandwidth(given.get("bandwidth"), path), counts, _names(given.get("clusters"), path))


def _bandwidth(given: Any, path: Path) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= sys.float_info.max:
        raise InputError(f"{path}: bandwidth must be a number of bytes per unit of the graphs' time, such as 25e9.")
    return float(given)


def _counts(given: Any, path: Path) -> tuple[int, ...]:
    counts = given if isinstance(given, list) else [given]
    if not counts or not all(type(k) is int and k >= 1 for k in counts):
        raise InputError(f"{path}: k must be a list of numbers of blocks, such as [2, 4, 8].")
    return tuple(counts)


def _names(given: Any, path: Path) -> dict[str, str]:
    names = {} if given is None else given
    if not isinstance(names, dict) or not all(isinstance(name, str) and name for name in names.values()):
        raise InputError(f'{path}: clusters must be a table of graphs and networks, such as "bert-*" = "bert".')
    return names


def _cluster(name: str, clusters: dict[str, str]) -> str:
    return next((cluster for pattern, cluster in clusters.items() if fnmatchcase(name, pattern)), name)


def _few(names: dict[str, Path]) -> str:
    first = list(names)[:5]
    return ", ".join(first) + (" and more" if len(names) > len(first) else "")
