"""``mtpp import``: read a network or a profile, say what it is, and write it as a graph file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from experiments.cli.outputs import check_files
from experiments.cli.units import parse_dims
from instances.errors import InputError
from instances.graph.graph_file import save_graph
from instances.graph.summary import Summary, summarise
from instances.readers import load_graph
from instances.roofline import Device

__all__ = ["import_graph", "summary_rows"]


def import_graph(
    spec: str,
    out: Path | None,
    *,
    dims: Iterable[str] = (),
    level: str = "operator",
    training: bool = False,
    reader: str | None = None,
    cost: str | None = None,
    peak_flops: float | None = None,
    memory_bandwidth: float | None = None,
    input_work: str | None = None,
    time_unit: str | None = None,
) -> Summary:
    """Read a graph and write it to `out`, if given.

    Parameters
    ----------
    spec : str
        An architecture or a file.
    out : Path, optional
        File of the format mtpp-graph/1.
    dims, level, training, reader, cost, input_work, time_unit
        As for `load_graph`; the dimensions are ``name=number`` pairs.
    peak_flops, memory_bandwidth : float, optional
        Of the device that turns operations and bytes into seconds [1/s, bytes/s].

    Returns
    -------
    Summary

    Raises
    ------
    InputError
        If an option or the graph is refused.
    """
    check_files(out, None)
    if out is not None and out.exists() and Path(spec).exists() and out.samefile(spec):
        raise InputError(f"{out}: this is the file to read; give --out another name.")
    given = {"peak_flops": peak_flops, "memory_bandwidth": memory_bandwidth}
    roofs = {name: value for name, value in given.items() if value is not None}
    graph = load_graph(
        spec, dims=parse_dims(dims), level=level, training=training, reader=reader,
        device=Device(**roofs) if roofs else None, cost=cost, input_work=input_work, time_unit=time_unit,
    )  # fmt: skip
    if out is not None:
        save_graph(graph, out)
    return summarise(graph)


def summary_rows(summary: Summary) -> list[tuple[str, str]]:
    """The summary as it is printed; what could not be priced is named."""
    unit = summary.time_unit
    share = f"{summary.heaviest_work / summary.work:.1%} of the work" if summary.work else "no work"
    width = "not computed, the graph is large" if summary.width is None else str(summary.width)
    rows = [
        ("name", summary.name),
        ("source", summary.source or "–"),
        ("nodes", str(summary.nodes)),
        ("edges", str(summary.edges)),
        (f"work [{unit}]", f"{summary.work:.6g}"),
        ("parameters [bytes]", f"{summary.param_bytes:.6g}"),
        ("tensors [bytes]", f"{summary.tensor_bytes:.6g}"),
        ("widest antichain", width),
        ("heaviest node", f"{summary.heaviest_node}, {summary.heaviest_work:.6g} {unit}, {share}"),
    ]
    return rows + [
        (label, _shown(summary.attributes[key])) for key, label in _NOTES.items() if key in summary.attributes
    ]


def _shown(value: object, depth: int = 2) -> str:
    if isinstance(value, Mapping | list | tuple) and not depth:
        return "…"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} ({_shown(item, depth - 1)})" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_shown(item, depth - 1) for item in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


#: Attributes that are worth a line, and what it is called.
_NOTES = {
    "flops": "flops",
    "multiply_adds": "multiply-adds",
    "parameter_count": "parameters",
    "views_folded": "views folded",
    "unknown_operators": "unknown operators, only their bytes count",
    "approximate_loops": "loops with a guessed cost",
    "unused_parameters": "parameters that nothing reads",
    "warnings": "warnings",
}
