"""Bounds and partitions for k that follow from other k."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from experiments.certificates.writing import bound_document
from instances import Bound, Instance, Partition, Result

__all__ = ["CARRIED", "carried"]

#: Name of the method in results.
CARRIED = "carried"


def carried(known: Iterable[Result], instance: Instance) -> list[Result]:
    r"""Partitions and bounds of the same graph and platform with other k.

    A partition into fewer blocks is one into more, some of them empty. Merging each :math:`\lceil k / j \rceil`
    consecutive blocks of k leaves at most j, none of which costs more than its blocks together while the memory is
    infinite, so :math:`\lceil k / j \rceil \cdot \mathrm{OPT}_k \ge \mathrm{OPT}_j`. For j >= k this says that more
    blocks never hurt, and holds with any memory.

    Parameters
    ----------
    known : iterable of Result
        Answers to other questions do no harm.
    instance : Instance

    Returns
    -------
    list of Result
        One for each known answer from which something follows.
    """
    found = []
    for result in known:
        j, k = result.instance.k, instance.k
        if result.instance.with_k(k).key != instance.key:
            continue
        partition = None
        if result.partition is not None and j <= k:
            partition = Partition(instance, result.partition.block, result.partition.order)
        bound = None
        if result.bound is not None and (j >= k or not instance.has_overflow):
            value = result.bound.value
            bound = Bound(value / -(-k // j), CARRIED, False, _witness(result))
        if partition is not None or bound is not None:
            found.append(Result(CARRIED, instance, partition, bound, solver=result.solver))
    return found


def _witness(result: Result) -> dict[str, Any]:
    """The bound for the other number of blocks, with all that a check of it needs."""
    assert result.bound is not None
    return {"from_k": result.instance.k, "value": result.bound.value, "proof": bound_document(result)}
