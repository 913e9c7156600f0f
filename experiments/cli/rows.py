"""What the verbs print: one aligned row per instance and k."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from experiments.cli.complaints import complain
from experiments.cli.exit_codes import DONE, IMPOSSIBLE, NOTHING
from experiments.text_tables import aligned
from instances import Instance, Partition, Result
from mtpp_models import simple

__all__ = ["bound_row", "certificate_row", "exit_code", "partition_row", "printed"]

#: Column to text.
Row = dict[str, str]


@contextmanager
def printed(row: Callable[[Result], Row]) -> Iterator[list[Result]]:
    """A list of answers, whose rows are printed at the end, also when something has failed by then."""
    answers: list[Result] = []
    try:
        yield answers
    finally:
        rows = [row(answer) for answer in answers]
        if rows:
            print(aligned(list(rows[0]), [list(row.values()) for row in rows]))


def exit_code(answers: Iterable[Result], *, bound_will_do: bool = False) -> int:
    """The largest of all answers; what is missing is said in a line of its own."""
    codes = {DONE}
    for answer in answers:
        if answer.impossible is not None:
            codes.add(complain(f"{answer.instance.label}: {answer.impossible}", IMPOSSIBLE))
        elif answer.partition is None and not (bound_will_do and answer.bound is not None):
            codes.add(complain(f"{answer.instance.label}: none found", NOTHING))
    return max(codes)


def partition_row(answer: Result) -> Row:
    """Row of a heuristic's partition, with its ratio to the bound *simple*."""
    partition = answer.partition
    return {
        **_instance(answer.instance),
        "method": answer.method,
        **(_no_costs(answer.instance) if partition is None else _costs(partition)),
        "over simple": "–" if partition is None else _over_simple(partition.bottleneck, answer.instance),
        "seconds": _seconds(answer),
    }


def bound_row(answer: Result) -> Row:
    """Row of a model's bound, with the best partition known."""
    value = None if answer.bound is None else answer.bound.value
    unit = answer.instance.graph.time_unit
    return {
        **_instance(answer.instance),
        "model": answer.method,
        "solver": answer.solver or "–",
        f"bound [{unit}]": _number(value),
        "to its end": "–" if answer.bound is None else ("yes" if answer.bound.optimal else "no"),
        "over simple": "–" if value is None else _over_simple(value, answer.instance),
        f"bottleneck [{unit}]": _number(None if answer.partition is None else answer.partition.bottleneck),
        "ratio": _ratio(answer.ratio),
        "seconds": _seconds(answer),
    }


def certificate_row(answer: Result) -> Row:
    """Row of a certificate: the best partition, the best bound and how far they are apart."""
    return {
        **_instance(answer.instance),
        **(_no_costs(answer.instance) if answer.partition is None else _costs(answer.partition)),
        f"bound [{answer.instance.graph.time_unit}]": _number(None if answer.bound is None else answer.bound.value),
        "by": "–" if answer.bound is None else answer.bound.method,
        "ratio": _ratio(answer.ratio),
        "status": answer.status.value,
        "seconds": _seconds(answer),
    }


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
    return dict(zip(_cost_columns(unit), map(_number, values), strict=True))


def _no_costs(instance: Instance) -> Row:
    return dict.fromkeys(_cost_columns(instance.graph.time_unit), "–")


def _cost_columns(unit: str) -> tuple[str, str, str]:
    return f"bottleneck [{unit}]", f"throughput [1/{unit}]", f"latency [{unit}]"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.6g}"


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _over_simple(value: float, instance: Instance) -> str:
    floor = simple(instance)
    if floor > 0:
        return _ratio(value / floor)
    return _ratio(1.0 if value == 0 else math.inf)


def _seconds(answer: Result) -> str:
    return f"{sum(answer.seconds.values()):.2f}"
