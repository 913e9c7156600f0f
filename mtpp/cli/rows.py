"""Result lines of verbs: one aligned row per instance and k."""

from __future__ import annotations

import math

from instances import Bound, Instance, Partition, Result
from instances.results import LP_SUFFIX
from mtpp.api.partitioning import over_simple
from mtpp.text.numbers import bytes_in_words, or_dash

#: Column to text.
Row = dict[str, str]


def partition_row(answer: Result) -> Row:
    """Table row of a heuristic's partition, with its ratio to the bound *simple*."""
    partition = answer.partition
    return {
        **_instance(answer.instance),
        "method": answer.method,
        **(_no_costs(answer.instance) if partition is None else _costs(partition)),
        "over simple": "–" if partition is None else or_dash(over_simple(partition.bottleneck, answer.instance), ".4f"),
        "seconds": f"{answer.spent:.2f}",
    }


def bound_row(answer: Result) -> Row:
    """Table row of a model's bound, with the best known partition."""
    value = None if answer.bound is None else answer.bound.value
    unit = answer.instance.graph.time_unit
    return {
        **_instance(answer.instance),
        "model": answer.method,
        "solver": answer.solver or "–",
        **_relaxation(answer.bound, unit),
        f"bound [{unit}]": or_dash(value),
        "to its end": "–" if answer.bound is None else _standing(answer.bound),
        "over simple": "–" if value is None else or_dash(over_simple(value, answer.instance), ".4f"),
        f"bottleneck [{unit}]": or_dash(None if answer.partition is None else answer.partition.bottleneck),
        "ratio": or_dash(answer.ratio, ".4f"),
        "seconds": f"{answer.spent:.2f}",
    }


def certificate_row(answer: Result) -> Row:
    """Table row of a certificate: the best partition, the best bound and their ratio."""
    return {
        **_instance(answer.instance),
        **(_no_costs(answer.instance) if answer.partition is None else _costs(answer.partition)),
        f"bound [{answer.instance.graph.time_unit}]": or_dash(None if answer.bound is None else answer.bound.value),
        "by": answer.by,
        "ratio": or_dash(answer.ratio, ".4f"),
        "status": answer.status.value,
        "seconds": f"{answer.spent:.2f}",
    }


def explained_row(partition: Partition, bound: Bound | None) -> Row:
    """Table row of a given partition: its costs, the best known bound and their ratio."""
    fits = partition.bottleneck < math.inf
    answer = Result("given", partition.instance, partition if fits else None, bound)
    return {name: cell for name, cell in certificate_row(answer).items() if name != "seconds"}


def _instance(instance: Instance) -> Row:
    ratio = instance.communication_over_work
    return {
        "instance": instance.name,
        "n": str(instance.graph.n),
        "m": str(instance.graph.m),
        "comm/work": "–" if ratio is None else f"{ratio:.3g}",
        "k": str(instance.k),
    }


def _costs(partition: Partition) -> Row:
    unit = partition.instance.graph.time_unit
    values = (partition.bottleneck, partition.throughput, partition.latency)
    return {**dict(zip(_cost_columns(unit), map(or_dash, values), strict=True)), **_memory(partition)}


def _memory(partition: Partition) -> Row:
    """Cells for the memory of the fullest block and the overflow of the slowest; empty if everything fits."""
    overflow, unit = partition.costs.overflow, partition.instance.graph.time_unit
    if not overflow.any():
        return {}
    need = float((partition.param_bytes + partition.state_bytes + partition.peaks).max())
    return {"memory": bytes_in_words(need), f"overflow [{unit}]": or_dash(overflow[partition.block_costs.argmax()])}


def _no_costs(instance: Instance) -> Row:
    return dict.fromkeys(_cost_columns(instance.graph.time_unit), "–")


def _cost_columns(unit: str) -> tuple[str, str, str]:
    return f"bottleneck [{unit}]", f"throughput [1/{unit}]", f"latency [{unit}]"


def _relaxation(bound: Bound | None, unit: str) -> Row:
    """Cell with the value of the linear relaxation; empty for other bounds."""
    if bound is None or not bound.method.endswith(LP_SUFFIX):
        return {}
    return {f"LP [{unit}]": or_dash(bound.witness["relaxation"])}


def _standing(bound: Bound) -> str:
    """Text of a table cell: "yes" or "no" whether a proved bound is the best of its method, "stated" without proof."""
    return ("yes" if bound.optimal else "no") if bound.proved else "stated"
