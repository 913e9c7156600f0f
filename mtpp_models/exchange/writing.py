"""Models as files, for other solvers and for reading."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyomo.environ as pyo

from instances import InputError, Instance, Partition
from instances.json_files import check_writable, write_json
from mtpp_models.exchange.building import BuiltModel, builders
from mtpp_models.exchange.names import columns
from mtpp_models.formulations.formulation import Formulation

__all__ = ["names_file", "write_model"]

_NAMES_FORMAT = "mtpp-names/1"
_COMMENTS = {".lp": "\\ ", ".mps": "* "}
# Characters of a line of comment; some solvers read no longer ones.
_LONGEST = 200


def write_model(
    instance: Instance, model: str | Formulation, path: str | Path, start: Partition | None = None
) -> list[Path]:
    """Write the cases of a model as LP or MPS files, each with a file of names (`names_file`).

    Variables and rows have the names of nodes, shortened; the file of names has them in full. Both files say which time
    an objective of 1 stands for.

    Parameters
    ----------
    instance : Instance
    model : str or Formulation
    path : path
        Ends in ``.lp`` or ``.mps``; with several cases their numbers are put before the suffix.
    start : Partition, optional
        Its bottleneck is the unit of the coefficients, as in `solve`; needed by a strengthened model, which is then
        written for the instance with its joins. Nodes that have to share a block are one node in the model.

    Returns
    -------
    list of Path
        The files of the models.

    Raises
    ------
    InputError
        If the suffix is another one, the model has no case, or a strengthened one has no start.
    """
    path = Path(path)
    if path.suffix not in _COMMENTS:
        raise InputError(f"{path}: a model is written as .lp or .mps; choose one of these suffixes.")
    cases = builders(instance, model, start)
    files = [path]
    if len(cases) > 1:
        files = [path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(1, len(cases) + 1)]
    for file in files:
        check_writable(file)
        check_writable(names_file(file))
    for build, file in zip(cases, files, strict=True):
        built = build()
        _write(built, file)
        write_json(names_file(file), _names_document(built))
    return files


def names_file(path: Path) -> Path:
    """Path of the file of names of a model: ``model.names.json`` for ``model.lp``."""
    return path.with_suffix(".names.json")


def _write(built: BuiltModel, file: Path) -> None:
    labels, mark = built.labels, _COMMENTS[file.suffix]
    options: dict[str, Any] = {"labeler": labels}
    if file.suffix == ".mps":  # columns in the order of the LP file, as some solvers number them
        order = pyo.ComponentMap((variable, i) for i, variable in enumerate(columns(built.model, labels)))
        for variable in built.model.component_data_objects(pyo.Var):
            order.setdefault(variable, len(order))
        options |= {"column_order": order, "skip_objective_sense": True}  # GLPK knows no section OBJSENSE
    with TemporaryDirectory() as folder:
        draft = Path(folder, f"model{file.suffix}")
        built.model.write(str(draft), io_options=options)
        with (
            draft.open(encoding="utf-8") as source,
            file.open("w", encoding="utf-8") as target,
        ):  # through a symbolic link, too
            for line in _comments(built, names_file(file).name):
                target.write(f"{mark}{_plain(line)}\n")
            shutil.copyfileobj(source, target)


def _comments(built: BuiltModel, names: str) -> Iterator[str]:
    instance, unit = built.instance, built.instance.time_unit
    yield f"{built.name} of {instance.label}, graph {instance.graph.content_hash[:16]}"
    yield f"unit of time: {built.unit!r} {unit}; an objective of 1 is a bottleneck of {built.unit!r} {unit}"
    yield f"y.NODE.B = 1: NODE is in block B or before, blocks from 1 on; the full names are in {names}"


def _plain(line: str) -> str:
    """Reduce a line to characters that every solver accepts in a comment."""
    return "".join(c if c.isascii() and c.isprintable() and c != "\\" else "?" for c in line)[:_LONGEST]


def _names_document(built: BuiltModel) -> dict[str, Any]:
    """Document that explains the names in a written model."""
    labels, graph, instance = built.labels, built.data.instance.graph, built.instance
    tensors = {labels.tensors[t]: graph.names[graph.tensors.producer[t]] for t in built.data.tensors}
    parts = built.model.component_objects((pyo.Var, pyo.Constraint))
    return {
        "format": _NAMES_FORMAT,
        "model": built.name,
        "instance": instance.label,
        "graph_hash": instance.graph.content_hash,
        "time_unit": instance.time_unit,
        "unit": built.unit,
        "components": {part.local_name: part.doc for part in parts},
        "nodes": dict(zip(labels.nodes, graph.names, strict=True)),
        "tensors": tensors,
    }
