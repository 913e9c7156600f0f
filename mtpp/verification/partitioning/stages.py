"""Check of the stages that a partition states and of the tensors between them, in exact numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from instances.partitioning.problem import Instance
from instances.partitioning.stated import Stated
from mtpp.verification.faults import is_near, unequal
from mtpp.verification.fractions import as_float
from mtpp.verification.partitioning.costs import block_terms, held
from mtpp.verification.partitioning.exact_instance import ExactInstance

__all__ = ["faults_of_stages"]


def faults_of_stages(instance: Instance, exact: ExactInstance, stated: Stated) -> Iterator[str]:
    """Yield stated numbers and names of stages that are false.

    Parameters
    ----------
    instance : Instance
    exact : ExactInstance
        The same.
    stated : Stated

    Yields
    ------
    str
    """
    rows = {"costs": (stated.costs, _stages), "crossing": (stated.crossing, _crossings)}
    for member, (claims, compute) in rows.items():
        truth = list(compute(instance, exact, stated))
        if len(claims) != len(truth):
            yield unequal(f"partition.{member}", f"{len(claims)} items", f"{len(truth)} items")
            continue
        for i, (claim, row) in enumerate(zip(claims, truth, strict=True)):
            for name, true in row.items():
                claimed = getattr(claim, name)
                if not _same(claimed, true):
                    shown = as_float(true) if isinstance(true, Fraction) else true
                    yield unequal(f"partition.{member}[{i}].{name}", claimed, shown)


def _same(claimed: object, true: object) -> bool:
    if isinstance(claimed, float) and isinstance(true, Fraction):
        return math.isfinite(claimed) and is_near(claimed, true)
    return claimed == true


def _stages(instance: Instance, exact: ExactInstance, stated: Stated) -> Iterator[Mapping[str, Any]]:
    names, state_bytes = instance.graph.names, instance.graph.state_bytes.tolist()
    bandwidth = instance.platform.bandwidth
    unit = exact.unit * (1 if math.isinf(bandwidth) else Fraction(bandwidth))  # of bytes
    params, peaks = held(exact, stated.block, stated.order)
    terms = block_terms(exact, stated.block, stated.order)
    slowest = max(map(sum, terms.values()))
    nodes: dict[int, list[int]] = {}
    for v in stated.order:
        nodes.setdefault(stated.block[v], []).append(v)
    for b, own in sorted(nodes.items()):
        cost, states = sum(terms[b]), sum(Fraction(state_bytes[v]) for v in own)
        yield {
            "stage": b,
            "first": names[own[0]],
            "last": names[own[-1]],
            "nodes": len(own),
            **{name: time * exact.unit for name, time in terms[b]._asdict().items()},
            "cost": cost * exact.unit,
            "share": Fraction(cost, slowest) if slowest else Fraction(1),
            "param_bytes": params[b] * unit - states,
            "state_bytes": Fraction(states),
            "peak_bytes": peaks[b] * unit,
        }


def _crossings(instance: Instance, exact: ExactInstance, stated: Stated) -> Iterator[Mapping[str, Any]]:
    graph = instance.graph
    first: dict[int, int] = {}
    for t, (tensor, size) in enumerate(zip(exact.tensors, graph.tensors.bytes.tolist(), strict=True)):
        node, source = tensor.producer, stated.block[tensor.producer]
        output = t - first.setdefault(node, t)
        elsewhere = {stated.block[v] for v in tensor.readers} - {source}
        if elsewhere:
            yield {
                "producer": graph.names[node],
                "node": node,
                "output": output,
                "source": source,
                "readers": tuple(sorted(elsewhere)),
                "bytes": Fraction(size),
                "time": tensor.time * exact.unit,
            }
