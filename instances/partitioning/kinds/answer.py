"""The partition of a file over kinds of devices, with its cost computed anew."""

from __future__ import annotations

from instances.errors import InputError
from instances.json_files import Value
from instances.partitioning.kinds.file import kinds_from_document
from instances.partitioning.kinds.partition import IDLE, UnlikePartition

__all__ = ["kinds_partition"]


def kinds_partition(document: Value) -> UnlikePartition | None:
    """The partition of a certificate; None if it holds none.

    Raises
    ------
    InputError
        If the file is no certificate, or the partition is refused.
    """
    certificate = kinds_from_document(document)
    stated, instance = certificate.partition, certificate.instance
    if stated is None:
        return None
    numbers = {kind.name: t for t, kind in enumerate(instance.devices.kinds)}
    for name in stated.kind:
        if name is not None and name not in numbers:
            document.fail(f"there is no kind {name!r} among its devices; there are {', '.join(numbers)}.")
    try:
        kind = [IDLE if name is None else numbers[name] for name in stated.kind]
        return UnlikePartition(instance, stated.block, kind, stated.order)
    except InputError as error:
        document.fail(str(error))
