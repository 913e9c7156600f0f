"""Graphs from files and from named architectures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from instances.architectures import ARCHITECTURES, Architecture
from instances.documents import read_text
from instances.errors import InputError
from instances.graph import ComputationGraph
from instances.readers.msr import read_msr, recognises_msr
from instances.readers.pipedream import read_pipedream, recognises_pipedream
from instances.serialization import read_graph

__all__ = ["READERS", "Reader", "load_graph"]


@dataclass(frozen=True)
class Reader:
    """One file format.

    Parameters
    ----------
    name, summary : str
        Name to ask for, and one line about the format.
    read : callable
        From the path to the graph.
    recognises : callable
        Whether the text of a file looks like this format.
    read_costs : callable, optional
        As `read`, for formats that hold a cost of their own for each edge, to be used with bandwidth 1.
    """

    name: str
    summary: str
    read: Callable[[str | Path], ComputationGraph]
    recognises: Callable[[str], bool]
    read_costs: Callable[[str | Path], ComputationGraph] | None = None


#: All readers by name. Recognition asks them in this order: the last one takes all other JSON.
READERS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        Reader(
            "msr",
            "JSON profiles of Tarnawski et al. (2020), work in ms",
            read_msr,
            recognises_msr,
            lambda path: read_msr(path, communication="cost"),
        ),
        Reader("pipedream", "graph.txt of PipeDream, forward times in ms", read_pipedream, recognises_pipedream),
        Reader("json", "mtpp-graph/1, the format of this project", read_graph, lambda text: text.lstrip()[:1] in "{["),
    )
}


def load_graph(
    spec: str | Path,
    *,
    reader: str | None = None,
    dims: Mapping[str, int] | None = None,
    communication: str = "size",
) -> ComputationGraph:
    """Build a named architecture or read a file.

    Parameters
    ----------
    spec : str or path
        Name of an architecture, or a file. A name wins; write ``./name`` for a file that is called like one.
    reader : str, optional
        Name of the file's format in `READERS`; by default it is recognised by content.
    dims : mapping of str to int, optional
        Dimensions of the architecture, such as batch and sequence.
    communication : {"size", "cost"}
        "size": tensors in bytes, work in seconds, except that `mtpp-graph/1` files keep their own time unit.
        "cost": the file's own edge costs and time unit, to be used with bandwidth 1; `msr` files only.

    Returns
    -------
    ComputationGraph

    Raises
    ------
    InputError
        If there is no such architecture, file or format, or the content is refused.

    Examples
    --------
    >>> load_graph("bert-base", dims={"batch": 8, "sequence": 128}).name
    'bert-base'
    """
    if communication not in ("size", "cost"):
        raise InputError(f"communication is '{communication}'; it must be 'size' or 'cost'.")
    if reader is not None and reader not in READERS:
        raise InputError(f"There is no reader '{reader}'; {_suggest(reader, READERS)}")
    if reader is None and spec in ARCHITECTURES:
        if communication == "cost":
            raise InputError(f"{spec}: an architecture has no edge costs; use communication 'size'.")
        return _build(ARCHITECTURES[str(spec)], dims or {})
    if reader is None and not Path(spec).exists():
        raise InputError(f"There is no file and no architecture '{spec}'; {_suggest(str(spec), ARCHITECTURES)}")
    if dims:
        raise InputError(f"{spec}: dimensions ({', '.join(dims)}) are for architectures; a file has none.")
    chosen = READERS[reader] if reader is not None else _recognise(spec)
    if communication == "size":
        return chosen.read(spec)
    if chosen.read_costs is None:
        raise InputError(f"{spec}: '{chosen.name}' files have no edge costs; use communication 'size'.")
    return chosen.read_costs(spec)


def _build(architecture: Architecture, dims: Mapping[str, int]) -> ComputationGraph:
    chosen: dict[str, Any] = {}
    for dim, value in dims.items():
        if dim not in architecture.dims:
            raise InputError(
                f"{architecture.name}: there is no dimension '{dim}'; it has {', '.join(architecture.dims)}."
            )
        chosen[dim] = value
    return architecture.build(**chosen)


def _recognise(path: str | Path) -> Reader:
    text = read_text(path)
    for reader in READERS.values():
        if reader.recognises(text):
            return reader
    raise InputError(f"{path}: the format is not recognised; name the reader, one of {', '.join(READERS)}.")


def _suggest(name: str, known: Mapping[str, object]) -> str:
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"known names are {', '.join(known)}."
