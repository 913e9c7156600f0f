"""Certificates as JSON documents, with everything that is needed to check them again."""

from __future__ import annotations

import math
from typing import Any

from experiments.certifying import combine
from instances import Result
from instances.serialization import graph_document, partition_document

__all__ = ["CERTIFICATE_FORMAT", "certificate_document"]

CERTIFICATE_FORMAT = "mtpp-certificate/1"


def certificate_document(answers: list[Result]) -> dict[str, Any]:
    """The answers to one instance as the JSON document ``mtpp-certificate/1``."""
    best = combine(answers)
    platform = best.instance.platform
    ratio = best.ratio
    return {
        "format": CERTIFICATE_FORMAT,
        "instance": {
            "name": best.instance.name,
            "k": platform.k,
            "bandwidth": _finite(platform.bandwidth),
            "memory": _finite(platform.memory),
            "activation_buffer": platform.activation_buffer,
            "graph": graph_document(best.instance.graph),
        },
        "partition": None if best.partition is None else partition_document(best.partition),
        "bottleneck": None if best.partition is None else best.partition.bottleneck,
        "bound": None if best.bound is None else best.bound.value,
        "ratio": None if ratio is None else _finite(ratio),
        "bounds": [_bound_entry(answer) for answer in answers if answer.bound is not None],
    }


def _bound_entry(answer: Result) -> dict[str, Any]:
    assert answer.bound is not None
    solver, _, version = (answer.solver or "").partition(" ")
    return {
        "method": answer.bound.method,
        "value": answer.bound.value,
        "optimal": answer.bound.optimal,
        "parameters": {},
        "solver": solver or None,
        "version": version or None,
        "seconds": sum(answer.seconds.values()),
        "recheck": None if solver else "formula",
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
