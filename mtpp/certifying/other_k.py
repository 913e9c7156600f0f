"""Bounds and partitions for k that follow from other k."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from instances import Bound, Instance, Partition, Result
from mtpp.certificates.writing import bound_document
from mtpp_models.simple import as_answer

__all__ = ["OTHER_K", "from_other_k"]

#: Name of the method in results and files.
OTHER_K = "carried"


def from_other_k(known: Iterable[Result], instance: Instance) -> list[Result]:
    r"""Partitions and bounds of the same graph and platform with other k.

    A partition into fewer blocks is one into more, some of them empty. Merging each :math:`\lceil k / j \rceil`
    consecutive blocks of k leaves at most j, none of which costs more than its blocks together while the memory is
    infinite, so :math:`\lceil k / j \rceil \cdot \mathrm{OPT}_k \ge \mathrm{OPT}_j`. For j >= k this says that more
    blocks never hurt, and holds with any memory, also where it is a hard limit: what is impossible for j blocks is
    impossible for fewer.

    Groups of nodes that share a block change none of that. Windows and least numbers do: they name blocks, and forbid
    empty ones. Then no bound is carried, and a partition only if it obeys.

    There is one result for each known answer from which something follows; answers to other questions do no harm.
    """
    found = []
    for result in known:
        j, k = result.instance.k, instance.k
        if not instance.is_alike or not _same_question(result.instance, instance):
            continue
        partition = None
        if result.partition is not None and j <= k:
            partition = as_answer(
                instance, Partition(instance.relaxed(), result.partition.block, result.partition.order)
            )
        bound = impossible = None
        if not (instance.constraints.windows or instance.constraints.at_least):
            bound, impossible = _bound(result, k), result.impossible if j >= k else None
        if partition is not None or bound is not None or impossible is not None:
            found.append(Result(OTHER_K, instance, partition, bound, solver=result.solver, impossible=impossible))
    return found


def _same_question(one: Instance, other: Instance) -> bool:
    """Whether they differ in the number of blocks alone; with another one, constraints may contradict it."""
    free = one.without_constraints().with_k(other.k)
    return one.constraints == other.constraints and free.key == other.without_constraints().key


def _bound(result: Result, k: int) -> Bound | None:
    j = result.instance.k
    if result.bound is None or (j < k and result.instance.limits_memory):
        return None
    return Bound(result.bound.value / -(-k // j), OTHER_K, False, _witness(result))


def _witness(result: Result) -> dict[str, Any]:
    """The bound for the other number of blocks, with all that a check of it needs."""
    assert result.bound is not None
    return {"from_k": result.instance.k, "value": result.bound.value, "proof": bound_document(result)}
