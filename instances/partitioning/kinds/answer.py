"""Partitions of files over kinds of devices, with their costs computed anew."""

from __future__ import annotations

from collections.abc import Sequence

from instances.errors import InputError
from instances.json_files import Value
from instances.partitioning.kinds.file import KindsCertificate, StatedKinds, kinds_from_document
from instances.partitioning.partition import IDLE, Partition
from instances.partitioning.problem import Instance
from instances.partitioning.stated import Certificate
from instances.partitioning.stated_serving import StatedPoint

__all__ = ["kinds_partition", "served_cut", "stated_partition"]


def kinds_partition(document: Value) -> Partition | None:
    """The partition of a certificate; None if it holds none.

    Raises
    ------
    InputError
        If the file is no certificate, or the partition is refused.
    """
    try:
        return stated_partition(kinds_from_document(document))
    except InputError as error:
        document.fail(str(error))


def stated_partition(certificate: Certificate | KindsCertificate) -> Partition | None:
    """The partition that a certificate states, with its costs computed anew; None if it states none.

    Raises
    ------
    InputError
        If it is no partition.
    """
    stated = certificate.partition
    instance = certificate.instance
    if isinstance(stated, StatedKinds):
        return Partition(instance, stated.block, stated.order, _kind_numbers(instance, stated.kind))
    return None if stated is None else Partition(instance, stated.block, stated.order)


def served_cut(instance: Instance, point: StatedPoint) -> Partition:
    """The cut of a point of a serving front, with its costs computed anew; `InputError` if it is none."""
    return Partition(instance, point.block, kind=_kind_numbers(instance, point.kind or ()))


def _kind_numbers(instance: Instance, names: Sequence[str | None]) -> list[int]:
    """Kinds by their names, `IDLE` for None; `InputError` if there is no such kind."""
    numbers = {kind.name: t for t, kind in enumerate(instance.machines.kinds)}
    for name in names:
        if name is not None and name not in numbers:
            raise InputError(f"there is no kind {name!r} among its devices; there are {', '.join(numbers)}.")
    return [IDLE if name is None else numbers[name] for name in names]
