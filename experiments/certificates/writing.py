"""Certificates as documents: everything that others need to check an answer again."""

from __future__ import annotations

import math
from typing import Any

from instances import InputError, Result, combine
from instances.certificate_file import SOLVER_NAMES, recheck
from instances.graph.graph_file import graph_document
from instances.json_files import CERTIFICATE_FORMAT
from instances.partitioning.partition_file import partition_document

__all__ = ["bound_document", "certificate_document"]


def certificate_document(answers: list[Result]) -> dict[str, Any]:
    """The answers to one instance as the JSON document of a certificate.

    Raises
    ------
    InputError
        If a bound comes from a method or a solver that nobody who reads the certificate can look up.
    """
    best = combine(*answers)
    for answer in answers:
        _check_names(answer)
    graph, platform = best.instance.graph, best.instance.platform
    return {
        "format": CERTIFICATE_FORMAT,
        "instance": {
            "name": best.instance.name,
            "k": platform.k,
            "bandwidth": _finite(platform.bandwidth),
            "memory": _finite(platform.memory),
            "activation_buffer": platform.activation_buffer,
            "graph_hash": graph.content_hash,
            "graph": graph_document(graph),
        },
        "partition": None if best.partition is None else partition_document(best.partition),
        "bottleneck": None if best.partition is None else best.partition.bottleneck,
        "bound": None if best.bound is None else best.bound.value,
        "ratio": None if best.ratio is None else _finite(best.ratio),
        "bounds": [bound_document(answer) for answer in answers if answer.bound is not None],
    }


def bound_document(answer: Result) -> dict[str, Any]:
    """The bound of an answer, with what a check of it needs."""
    assert answer.bound is not None
    solver, _, version = (answer.solver or "").partition(" ")
    return {
        "method": answer.bound.method,
        "value": answer.bound.value,
        "optimal": answer.bound.optimal,
        "parameters": dict(answer.bound.witness),
        "solver": solver or None,
        "version": version or None,
        "seconds": sum(answer.seconds.values()),
        "recheck": recheck(answer.bound.method) or "trusted",
    }


def _check_names(answer: Result) -> None:
    """Refuse what a reader of the certificate could not look up."""
    solver = (answer.solver or "").partition(" ")[0]
    if answer.bound is None:
        return
    if recheck(answer.bound.method) is None:
        raise InputError(f"A certificate cannot hold a bound of {answer.bound.method!r}; name a model of the registry.")
    if solver and solver not in SOLVER_NAMES:
        raise InputError(f"A certificate cannot hold a bound of {solver!r}; solvers are {', '.join(SOLVER_NAMES)}.")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
