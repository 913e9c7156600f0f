"""Plans with all their times as documents: ``mtpp-plan/2``, schedules of torch as CSV, and traces for Perfetto."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from instances.errors import InputError
from instances.graph.tensors import FloatArray
from instances.json_files import TIMED_PLAN_FORMAT
from instances.planning.operations import BACKWARD, FORWARD, INPUT, KINDS, Moments, Pass
from instances.planning.plan import Plan
from instances.planning.stated import MOMENTS
from instances.planning.timeline import Timeline

__all__ = ["perfetto_trace", "read_schedule", "schedule_csv", "timeline_document"]

_CELL = re.compile(r"(\d{1,9})([FBIW])(\d{1,9})")
#: Names of operations in a trace.
_NAMES = {"forward": "F", "backward": "B", "weights": "W", "send": "activations", "return": "gradients"}


def timeline_document(timeline: Timeline) -> dict[str, Any]:
    """The plan with its order and times as members of its file; nan is null."""
    plan, instance = timeline.plan, timeline.plan.instance
    return {
        "format": TIMED_PLAN_FORMAT,
        "chain": instance.chain.name,
        "cluster": instance.cluster.name,
        "key": instance.key,
        "cuts": list(plan.cuts),
        "devices": [list(stage) for stage in plan.devices],
        "recompute": list(plan.recompute),
        "order_name": timeline.order_name,
        "order": [[_cell(one) for one in order] for order in timeline.orders],
        "starts": _moments(timeline.start),
        "ends": _moments(timeline.end),
        "peak_bytes": [peak.total for peak in timeline.peaks],
    }


def schedule_csv(timeline: Timeline) -> str:
    """The order of passes, one row a group of devices, as ``torch.distributed.pipelining`` reads it (compute only).

    A group is a rank of the pipeline; where it holds several devices, each runs the same row in a pipeline of its own,
    and the pipelines add up their gradients.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(one) for one in order] for order in timeline.orders)
    return text.getvalue()


def read_schedule(text: str, plan: Plan, path: str) -> tuple[tuple[Pass, ...], ...]:
    """An order of passes from such a table; empty cells are of no matter.

    Raises
    ------
    InputError
        If it does not have a row for each group of the plan, or a cell is no pass; the message names the line.
    """
    rows = [[cell.strip() for cell in row if cell.strip()] for row in csv.reader(io.StringIO(text))]
    rows = [row for row in rows if row]
    if len(rows) != len(plan.groups):
        raise InputError(f"{path}: there are {len(rows)} rows for {len(plan.groups)} groups of devices; give one each.")
    return tuple(
        tuple(_parsed(cell, f"{path}, line {number}") for cell in row) for number, row in enumerate(rows, start=1)
    )


def perfetto_trace(timeline: Timeline) -> dict[str, Any]:
    """The iteration as a trace of events that Perfetto and ``chrome://tracing`` show, in microseconds.

    Tracks are the groups of devices, the channels between stages, and the AllReduces; counters show what a device of
    each group keeps for backward passes, and how many transfers each port of a network card carries.
    """
    plan = timeline.plan
    tracks = {0: "groups of devices", 1: "channels", 2: "AllReduces"}
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}} for pid, name in tracks.items()
    ]
    for g, group in enumerate(plan.groups):
        names = ", ".join(plan.instance.cluster.names[v] for v in group)
        events.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": g, "args": {"name": f"group {g}: {names}"}})
    for operation in timeline.operations():
        n = operation.stage
        channel, reduces = operation.kind in ("send", "return"), operation.microbatch is None
        events.append(
            {
                "ph": "X",
                "name": f"A{n}" if reduces else f"{n} {_NAMES[operation.kind]} {operation.microbatch}",
                "pid": 2 if reduces else 1 if channel else 0,
                "tid": n if reduces or channel else plan.groups.index(plan.devices[n]),
                "ts": operation.start * 1e6,
                "dur": (operation.end - operation.start) * 1e6,
            }
        )
    return {"traceEvents": [*events, *_memory(timeline), *_ports(timeline)], "displayTimeUnit": "ms"}


def _ports(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Counters of the transfers that each port carries at once."""
    plan, ports = timeline.plan, timeline.plan.instance.ports
    if ports is None:
        return
    yield {"ph": "M", "name": "process_name", "pid": 3, "args": {"name": "ports of network cards"}}
    rows = {"send": 0, "return": plan.n_stages - 1, "allreduce": 2 * plan.n_stages - 2}
    changes: list[list[tuple[float, int]]] = [[] for _ in ports.rate]
    for operation in timeline.operations():
        if operation.kind in rows and operation.end > operation.start:
            for port in np.flatnonzero(plan.loads[rows[operation.kind] + operation.stage]).tolist():
                changes[port] += [(operation.start, 1), (operation.end, -1)]
    for port, moments in enumerate(changes):
        way = "" if not ports.entering else " out" if port < ports.entering else " in"
        name = f"server {port % (ports.entering or len(ports.rate))}{way} [transfers]"
        active = 0
        for time, change in sorted(moments):
            active += change
            yield {"ph": "C", "name": name, "pid": 3, "ts": time * 1e6, "args": {"transfers": active}}


def _memory(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Counters of what a device of each group keeps."""
    plan = timeline.plan
    kept = np.where(plan.recompute, plan.input_bytes, plan.stored_bytes) / plan.replicas
    for g, order in enumerate(timeline.orders):
        held = 0.0
        for kind, n, m in order:
            if kind == INPUT:
                continue
            moments = timeline.start.forward if kind == FORWARD else timeline.end[1 if kind == BACKWARD else 2]
            held += kept[n] if kind == FORWARD else -kept[n]
            yield {
                "ph": "C",
                "name": f"activations of group {g} [MiB]",
                "pid": 0,
                "ts": float(moments[n, m]) * 1e6,
                "args": {"MiB": float(held) / 2**20},
            }


def _cell(one: Pass) -> str:
    kind, n, m = one
    return f"{n}{KINDS[kind]}{m}"


def _parsed(cell: str, place: str) -> Pass:
    match = _CELL.fullmatch(cell)
    if match is None:
        raise InputError(f"{place}: '{cell}' is no pass such as 0F3, the forward pass of microbatch 3 in stage 0.")
    return KINDS.index(match[2]), int(match[1]), int(match[3])


def _moments(moments: Moments) -> dict[str, list[list[float | None]]]:
    return {name: _rows(np.atleast_2d(values)) for name, values in zip(MOMENTS, moments, strict=True)}


def _rows(values: FloatArray) -> list[list[float | None]]:
    return [[None if np.isnan(value) else float(value) for value in row] for row in values]
