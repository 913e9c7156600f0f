"""Files of partitions over kinds of devices, ``mtpp-kinds/1``: a question, an answer and its bounds, to be checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from instances.certificates import KINDS, Envelope, check_written, envelope, opened
from instances.errors import InputError
from instances.graph.graph_file import graph_from_document
from instances.graph.tensors import FloatArray
from instances.json_files import Value, finite_or_none
from instances.machines import Kind, Machines, rates_document, rates_of
from instances.partitioning.constraints import NO_CONSTRAINTS
from instances.partitioning.constraints_file import constraints_document, refused_at, stated_constraints
from instances.partitioning.problem import Instance
from instances.partitioning.stated import StatedImpossible, graph_members, read_impossible

# Files of partitions over kinds of devices, ``mtpp-kinds/1``: a question, an answer and its bounds, to be checked.


KINDS_CERTIFICATE = "mtpp-kinds/1"

_QUESTION = ("name", "k", "bandwidth", "activation_buffer", "fit", "order", "kinds", "graph_hash", "graph")
_KIND = ("name", "count", "memory", "bandwidth", "works")
_PARTITION = ("block", "order", "kind", "bottleneck", "stages")


@dataclass(frozen=True, kw_only=True)
class StatedKinds:
    """A partition as a file states it; nothing is checked yet."""

    block: tuple[int, ...]
    order: tuple[int, ...]
    kind: tuple[str | None, ...]  # name of the kind of each block, None where it is empty
    bottleneck: float
    stages: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class KindsCertificate(Envelope):
    """Certificate of a partition over kinds of devices as its file states it."""

    instance: Instance
    graph_hash: str
    partition: StatedKinds | None
    impossible: StatedImpossible | None = None  # why there is none

    answer_name: ClassVar[str] = "partition"
    cost_name: ClassVar[str] = "bottleneck"


def question_of_kinds_document(instance: Instance) -> dict[str, Any]:
    """The question as the member `instance` of a file; infinite numbers are null."""
    platform = instance.platform
    return {
        "name": instance.name,
        "k": platform.k,
        "bandwidth": finite_or_none(platform.bandwidth),
        "activation_buffer": platform.activation_buffer,
        "fit": platform.fit,
        **kinds_document(instance),
        **({"constraints": constraints_document(instance.constraints)} if instance.constraints else {}),
        **graph_members(instance.graph),
    }


def kinds_document(instance: Instance) -> dict[str, Any]:
    """Members `order` and `kinds` of a question, and `rates` where there are some."""
    devices = instance.machines
    return {
        **({} if instance.rates is None else {"rates": rates_document(instance.rates.tolist())}),
        "order": devices.order,
        "kinds": [
            {
                "name": kind.name,
                "count": kind.count,
                "memory": finite_or_none(kind.memory),
                "bandwidth": finite_or_none(rate),
                "works": [finite_or_none(work) for work in works.tolist()],
            }
            for kind, rate, works in zip(devices.kinds, instance.bandwidths, instance.work, strict=True)
        ],
    }


def kinds_from_document(document: Value) -> KindsCertificate:
    """The certificate of a file.

    Raises
    ------
    InputError
        If it is none; the message names the place.
    """
    document, stated_hash = opened(document, KINDS_CERTIFICATE)
    members = ("format", "instance", "partition", "bottleneck", "bound", "ratio", "bounds")
    fields = document.members(members, ("impossible",))
    if fields["partition"].data is None and not fields["bounds"].items() and "impossible" not in fields:
        document.fail("it holds neither a partition nor a bound; there is nothing to check.")
    instance = _question(fields["instance"])
    reason = read_impossible(fields["impossible"], instance.graph.n, instance.k) if "impossible" in fields else None
    if stated_hash is not None:
        check_written(fields["instance"], question_of_kinds_document(instance))
    return KindsCertificate(
        **envelope(fields, "bottleneck", KINDS, stated_hash),
        instance=instance,
        graph_hash=fields["instance"].open_members(("graph_hash",))["graph_hash"].text(),
        partition=None if fields["partition"].data is None else _stated(fields["partition"]),
        impossible=reason,
    )


def _question(value: Value) -> Instance:
    fields = value.members(_QUESTION, ("rates", "constraints"))
    graph = graph_from_document(fields["graph"])
    devices, works = devices_of_members(fields["kinds"], fields["order"], graph.n, fields.get("rates"))
    try:
        k, rules = fields["k"].whole(), NO_CONSTRAINTS
        if "constraints" in fields:
            rules = stated_constraints(fields["constraints"], graph, k)
        return Instance(
            graph,
            replace(devices, bandwidth=_or_infinite(fields["bandwidth"])),
            fields["name"].text(),
            rules,
            k=k,
            works=works,
            activation_buffer=fields["activation_buffer"].optional_number(),
            fit=fields["fit"].truth(),
        )
    except InputError as error:
        value.fail(str(error))


def devices_of_members(items: Value, order: Value, n: int, rates: Value | None = None) -> tuple[Machines, FloatArray]:
    """Devices and (T, n) works of members `kinds`, `order` and `rates` of a question; `InputError` if they are none."""
    kinds, works = [], []
    for t, item in enumerate(items.items()):
        kind = item.members(_KIND)
        memory, rate = (_or_infinite(kind[name]) for name in ("memory", "bandwidth"))
        row = [_or_infinite(work) for work in kind["works"].items()]
        if len(row) != n or min(row) < 0:
            kind["works"].fail(f"expected {n} numbers, each 0 or more, null where a node cannot run.")
        works.append(row)
        with refused_at(item):
            # Speeds, which are in the works, tell kinds apart whose memory and bandwidth are the same.
            named = kind["name"].text(), kind["count"].whole()
            kinds.append(Kind(*named, speed=t + 1.0, memory=memory, bandwidth=rate))
    with refused_at(items):
        return Machines(kinds, order.text(), None if rates is None else rates_of(rates)), np.array(works)


def _stated(value: Value) -> StatedKinds:
    fields = value.members(_PARTITION)
    return StatedKinds(
        block=tuple(fields["block"].whole_numbers()),
        order=tuple(fields["order"].whole_numbers()),
        kind=kinds_of_blocks(fields["kind"]),
        bottleneck=fields["bottleneck"].number(),
        stages=tuple(tuple(stage.texts()) for stage in fields["stages"].items()),
    )


def kinds_of_blocks(value: Value) -> tuple[str | None, ...]:
    """Name of the kind of each block, None where it is empty."""
    return tuple(None if kind.data is None else kind.text() for kind in value.items())


def _or_infinite(value: Value) -> float:
    number = value.optional_number()
    return math.inf if number is None else number
