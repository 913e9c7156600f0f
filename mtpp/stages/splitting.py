"""What comes before a folder of stages: a model that can be cut, a partition of it, and what is proved of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from heuristics import Limits, search
from instances import ComputationGraph, InputError, Instance, Partition, Result
from instances.architectures import ARCHITECTURES
from instances.deadline import Deadline
from instances.json_files import check_readable
from instances.readers.onnx import recognises_onnx
from instances.system.interrupts import catch_interrupt
from mtpp.certifying.certify import certify_all
from mtpp.stages.links import measure_link
from mtpp.stages.runner import StageError
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError, solve

__all__ = ["MEASURED", "check_model", "check_same", "find_answers", "measured_bandwidth"]

#: The word for the bandwidth of links between processes of this machine.
MEASURED = "measured"

_HEAD = 16


def check_model(path: Path) -> None:
    """Refuse what is no ONNX model before it is read.

    Raises
    ------
    InputError
        If it is none.
    """
    if path.suffix == ".pt2":
        raise InputError(
            f"{path}: the weights of a .pt2 are read by code that may run what is in it; split a program that you "
            "trust from Python: instances.readers.pytorch.stages.split."
        )
    if not path.exists() and str(path) in ARCHITECTURES:
        raise InputError(f"{path}: an architecture has no weights; stages are made of an ONNX model.")
    check_readable(path)
    with path.open("rb") as file:
        if path.suffix != ".onnx" and not recognises_onnx(file.read(_HEAD)):
            raise InputError(f"{path}: this is no ONNX model, of which stages are made.")


def check_same(graph: ComputationGraph, other: ComputationGraph, source: str) -> None:
    """Refuse a partition whose graph is another network; its times may come from elsewhere.

    Parameters
    ----------
    graph, other : ComputationGraph
        Of the model, and of the partition.
    source : str
        Where the partition comes from, for the message.

    Raises
    ------
    InputError
        If names, edges or bytes differ.
    """
    same = graph.names == other.names and graph.edges.tolist() == other.edges.tolist()
    if not same or graph.tensors.bytes.tolist() != other.tensors.bytes.tolist():
        raise InputError(
            f"{source}: the certificate is of another model or of other dimensions ('{other.name}', {other.n} nodes, "
            f"not '{graph.name}', {graph.n}); give one of this model."
        )


def find_answers(
    instance: Instance,
    options: SolveOptions,
    *,
    given: Partition | None = None,
    method: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
) -> list[Result]:
    """The partition to split by, and what is proved of it.

    Parameters
    ----------
    instance : Instance
    options : SolveOptions
    given : Partition, optional
        One that is kept; the time is for bounds then.
    method : str, optional
        A search to use alone, with the bound *simple*; otherwise all methods take turns as in `certify`.
    on_progress, on_fault
        As for `certify`.

    Returns
    -------
    list of Result
        Without a partition if none was found.
    """
    if method is None:
        answers = certify_all(instance, options, start=given, on_progress=on_progress, on_fault=on_fault)
    else:
        answers = _quickly(instance, given, method, options)
    if given is None:
        return answers
    return [*(replace(answer, answer=None) for answer in answers), Result("given", instance, given)]


def _quickly(instance: Instance, given: Partition | None, method: str, options: SolveOptions) -> list[Result]:
    found = Result("given", instance, given)
    if given is None:
        with catch_interrupt() as interrupted:
            limits = Limits(Deadline.after(options.time_limit, interrupted))
            found = search(instance, method, np.random.default_rng(options.seed), limits)
    return [found, solve(instance, "simple", options, start=found.partition)]


def measured_bandwidth() -> float:
    """Bytes per second between processes of this machine.

    Raises
    ------
    InputError
        If it cannot be measured.
    """
    try:
        return measure_link().bandwidth
    except StageError as error:
        raise InputError(f"the bandwidth of this machine: {error}") from None
