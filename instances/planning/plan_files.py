"""Files of plans, chains, clusters and schedules."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from instances.devices import Cluster, cluster_from_document
from instances.errors import InputError
from instances.graph.tensors import FloatArray
from instances.json_files import CHAIN_FORMAT, parse_json, read_json, read_text
from instances.planning.chains import collapse
from instances.planning.operations import BACKWARD, FORWARD, INPUT, KINDS, Moments, Pass
from instances.planning.plan import Plan
from instances.planning.problem import LayerChain, chain_from_document
from instances.planning.stated import MOMENTS, PlanMembers, StatedOrders, StatedStage, TimelineMembers
from instances.planning.stated import Moments as StatedMoments
from instances.planning.timeline import Timeline
from instances.readers import load_graph
from instances.readers.profiles import input_nodes, recognises_pipedream
from instances.records import written

# Chains, clusters and plans in files: ``mtpp-chain/1``, ``mtpp-cluster/1``, answers, and clusters as CSV.


_BACKWARD = re.compile(r"^\S+ -- .*backward_compute_time=([^,\s]+)", re.MULTILINE)


def load_chain(path: str | Path, **options: Any) -> LayerChain:
    """Read a chain file, for which `is_chain_file` is true.

    Parameters
    ----------
    **options
        Options of `load_graph`, for PipeDream profiles.

    Raises
    ------
    InputError
        If an option is not for such a file, or its content is refused.
    """
    if f'"{CHAIN_FORMAT}"' not in read_text(path):
        return read_profile(path, **options)
    for name, value in options.items():
        if value or value == "":
            label = f"{name} (peak_flops, memory_bandwidth)" if name == "device" else name
            raise InputError(f"{path}: a chain file takes no {label}; leave it out.")
    return read_chain(path)


def is_chain_file(spec: str | Path) -> bool:
    """Whether a path is a file with a chain, of this project or of PipeDream."""
    path = Path(spec)
    if not path.is_file() or path.suffix in (".onnx", ".pt2"):
        return False
    text = read_text(path)
    return f'"{CHAIN_FORMAT}"' in text or recognises_pipedream(text)


def read_profile(path: str | Path, **options: Any) -> LayerChain:
    """A PipeDream profile, ``graph.txt``, as a chain with its own backward times.

    Parameters
    ----------
    **options
        Options of `load_graph`; with ``input_work="drop"`` the backward pass of Input nodes takes no time either.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    graph = load_graph(path, reader="pipedream", **options)
    try:
        backward = np.array([float(number) for number in _BACKWARD.findall(read_text(path))]) / 1000
        if options.get("input_work") == "drop":
            backward[input_nodes(graph)] = 0.0
        return collapse(graph, backward)
    except (ValueError, InputError) as error:
        raise InputError(f"{path}: a backward_compute_time is not a number of ms, 0 or more ({error}).") from None


def read_chain(path: str | Path) -> LayerChain:
    """Read a chain file.

    Raises
    ------
    InputError
        If the file cannot be read; the message names the place.
    """
    return chain_from_document(read_json(path), Path(path).stem)


def read_cluster(path: str | Path) -> Cluster:
    """Read a cluster from JSON, or from a CSV table of V lines with V bandwidths each, in bytes/s.

    Raises
    ------
    InputError
        If the file cannot be read; the message names the place.
    """
    text = read_text(path)
    if not text.lstrip().startswith("{"):
        return _cluster_from_table(text, path)
    return cluster_from_document(parse_json(text, str(path)), Path(path).stem)


def plan_document(timeline: Timeline) -> dict[str, Any]:
    """The plan of a timeline as the member `answer` of its file, on shared network cards with its order and times.

    Raises
    ------
    InputError
        As `operations_document`.
    """
    plan, instance = timeline.plan, timeline.plan.instance
    if instance.network is not None:
        return _timeline_document(timeline)
    stages = [
        StatedStage(
            layers=(instance.chain.names[plan.cuts[n]], instance.chain.names[plan.cuts[n + 1] - 1]),
            devices=tuple(instance.cluster.names[v] for v in plan.devices[n]),
            forward=float(plan.forward_time[n]),
            backward=float(plan.backward_time[n]),
            allreduce=float(plan.allreduce_time[n]),
        )
        for n in range(plan.n_stages)
    ]
    orders = StatedOrders(**{name: tuple(rows) for name, rows in operations_document(timeline).items()})
    return written(PlanMembers(cuts=plan.cuts, devices=plan.devices, operations=orders, stages=tuple(stages)))


def operations_document(timeline: Timeline) -> dict[str, list[str]]:
    """Orders in which stages and channels work: "f" for a forward pass or transfer, "b" for a backward one.

    Raises
    ------
    InputError
        If a stage or channel does not take the microbatches in their order.
    """
    plan, start = timeline.plan, timeline.start
    passes = (start.forward, plan.forward_time, start.backward, plan.backward_time)
    transfers = (start.send, plan.forward_transfer_time, start.receive, plan.backward_transfer_time)
    return {"stages": _orders(*passes), "channels": _orders(*transfers)}


def _orders(forward: FloatArray, f: FloatArray, backward: FloatArray, b: FloatArray) -> list[str]:
    """Each machine's order of operations as letters "f" and "b", from start times, (machines, M), and durations."""
    if (np.diff(forward) < 0).any() or (np.diff(backward) < 0).any():
        raise InputError("A plan file holds schedules that take the microbatches in their order; this one does not.")
    M, orders = forward.shape[1], []
    for n in range(len(forward)):
        starts = np.concatenate((forward[n], backward[n]))
        ends = starts + np.repeat((f[n], b[n]), M)
        kind, microbatch = np.divmod(np.arange(2 * M), M)
        # What takes no time comes first, and of one instant a microbatch after the other, forward before backward.
        orders.append("".join("fb"[kind[i]] for i in np.lexsort((kind, microbatch, ends, starts))))
    return orders


def _cluster_from_table(text: str, path: str | Path) -> Cluster:
    """The cluster of a CSV table of bandwidths [bytes/s]."""
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                rows.append([float(cell) for cell in line.split(",")])
            except ValueError:
                raise InputError(f"{path}, line {number}: expected numbers between commas, bytes/s.") from None
            if len(rows[-1]) != len(rows[0]):
                raise InputError(f"{path}, line {number}: {len(rows[-1])} numbers, but {len(rows[0])} before.")
    try:
        return Cluster(np.array(rows), name=Path(path).stem)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


# Plans with all their times as documents: answers, schedules of torch as CSV, and traces for Perfetto.


_CELL = re.compile(r"(\d{1,9})([FBIW])(\d{1,9})")
#: Names of operations in a trace.
_NAMES = {"forward": "F", "backward": "B", "weights": "W", "send": "activations", "return": "gradients"}


def _timeline_document(timeline: Timeline) -> dict[str, Any]:
    """The plan with its order and times as members of its file; nan is null."""
    plan = timeline.plan
    members = TimelineMembers(
        cuts=plan.cuts,
        devices=plan.devices,
        recompute=plan.recompute,
        orders=tuple(tuple((n, KINDS[kind], m) for kind, n, m in order) for order in timeline.orders),
        starts=_moments(timeline.start),
        ends=_moments(timeline.end),
        peaks=tuple(peak.total for peak in timeline.peaks),
    )
    return written(members)


def schedule_csv(timeline: Timeline) -> str:
    """The order of passes, one row for each group, in the compute-only CSV format of ``torch.distributed.pipelining``.

    A group is a rank of the pipeline; where it holds several devices, each runs the same row in a pipeline of its own,
    and the pipelines add up their gradients.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(task) for task in order] for order in timeline.orders)
    return text.getvalue()


def read_schedule(text: str, plan: Plan, path: str) -> tuple[tuple[Pass, ...], ...]:
    """Read an order of passes from a table of `schedule_csv`; empty cells are ignored.

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
    stored = np.where(plan.recompute, plan.input_bytes, plan.stored_bytes) / plan.replicas
    for g, order in enumerate(timeline.orders):
        resident = 0.0
        for kind, n, m in order:
            if kind == INPUT:
                continue
            moments = timeline.start.forward if kind == FORWARD else timeline.end[1 if kind == BACKWARD else 2]
            resident += stored[n] if kind == FORWARD else -stored[n]
            yield {
                "ph": "C",
                "name": f"activations of group {g} [MiB]",
                "pid": 0,
                "ts": float(moments[n, m]) * 1e6,
                "args": {"MiB": float(resident) / 2**20},
            }


def _cell(task: Pass) -> str:
    """Text of a pass in a table, such as 0F3: stage, kind, microbatch."""
    kind, n, m = task
    return f"{n}{KINDS[kind]}{m}"


def _parsed(cell: str, place: str) -> Pass:
    """The pass that a text such as 0F3 stands for; `place` names it in errors."""
    match = _CELL.fullmatch(cell)
    if match is None:
        raise InputError(f"{place}: '{cell}' is no pass such as 0F3, the forward pass of microbatch 3 in stage 0.")
    return KINDS.index(match[2]), int(match[1]), int(match[3])


def _moments(moments: Moments) -> StatedMoments:
    return {name: _rows(np.atleast_2d(values)) for name, values in zip(MOMENTS, moments, strict=True)}


def _rows(values: FloatArray) -> tuple[tuple[float | None, ...], ...]:
    return tuple(tuple(None if np.isnan(value) else float(value) for value in row) for row in values)
