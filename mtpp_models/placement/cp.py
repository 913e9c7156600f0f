"""Bounds on placements by constraint programming and probing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances import Bound, Result
from instances.compiled import compiled
from instances.deadline import Deadline, Stopwatch
from instances.errors import extra
from instances.graph.tensors import FloatArray, IntArray
from instances.placement.placement import OrderedPlacement, Placement
from instances.placement.problem import PlacementInstance
from instances.results import PROOF_TOLERANCE
from instances.system.processes import ask_module, signal_name
from mtpp_models.placement.bounds import (
    ROUNDING,
    Heads,
    Shared,
    colocation_bound,
    heads_bound,
    heads_of,
    share_devices,
    share_more,
)
from mtpp_models.placement.scaled_placement import ScaledPlacement
from mtpp_models.solvers.interface import Controls, SolverFaultError, SolverNotAvailableError, SolverOptionsError

# Probing: assume that two nodes share a device, or do not, and try to refute one of both.
#
# Suppose that nodes u and v share a device, or that they do not. Where one of the two is refuted, the other one holds.
# `mtpp_models.placement.bounds` refutes, and the order on a device: nodes that share one run in an order that leaves
# time for both with their heads and tails, which raises these where only one order does. If u is before v on another
# device, then at least L(u, v) passes between them, and P may be that. What a trial shows makes others show more, so
# trials go on until none does. Source: shaving, Martin and Shmoys, "A new approach to computing optimal schedules for
# the job-shop scheduling problem", 1996.


def probe_sharing(sharing: Shared, deadline: Deadline) -> Shared:
    """Copy of `sharing` with the results of probing: pairs of nodes are assumed to share a device, and not to.

    If one assumption is refuted, the other holds. Probing ends at the deadline, or once no pair yields more.
    """
    sharing, changed = _settled(sharing, deadline), True
    while changed and not sharing.refuted:
        changed = False
        for u, v in combinations(sharing.heads.instance.graph.topological_order.tolist(), 2):
            if deadline.passed or sharing.refuted:
                return sharing
            if sharing.device[u] == sharing.device[v] or sharing.apart[u, v]:
                continue
            together, apart = (_settled(suppose(sharing, u, v), deadline) for suppose in (_together, _apart))
            if together.refuted or apart.refuted:
                sharing, changed = apart if together.refuted else together, True
    return sharing


def _together(sharing: Shared, u: int, v: int) -> Shared:
    """Copy of `sharing` under the assumption that u and v share a device."""
    return replace(sharing, device=np.where(sharing.device == sharing.device[u], sharing.device[v], sharing.device))


def _apart(sharing: Shared, u: int, v: int) -> Shared:
    """Copy of `sharing` under the assumption that u and v do not share a device."""
    sharing = sharing.copied()
    sharing.apart[u, v] = sharing.apart[v, u] = True
    return sharing


def _settled(sharing: Shared, deadline: Deadline) -> Shared:
    """Copy of `sharing` with all consequences of its properties, until none is new or time is up; or `refuted`."""
    sharing = share_more(sharing, deadline)
    while not sharing.refuted and not deadline.passed:
        heads, before = sharing.heads, sharing.heads.head.sum() + sharing.heads.tail.sum()
        rest, limit = np.where(heads.work > 0, float(heads.instance.node_gap), 0.0), sharing.horizon * (1 + ROUNDING)
        forward, backward = sharing.passes.forward, sharing.passes.backward
        for way, earliest in (forward, heads.head), (backward, heads.tail):
            if not _keep_apart(sharing.device, sharing.apart, way.between, way.apart):
                return replace(sharing, refuted=True)
            np.maximum(earliest, (way.between + (earliest + heads.work)).max(axis=1), out=earliest)
        if not _keep_order(heads.head, heads.tail, heads.work, rest, sharing.device, limit):
            return replace(sharing, refuted=True)
        sharing = share_more(sharing, deadline)
        if sharing.heads.head.sum() + sharing.heads.tail.sum() <= before + ROUNDING * limit:
            break
    return sharing


@compiled
def _keep_apart(device: IntArray, is_apart: NDArray[np.bool_], between: FloatArray, apart: FloatArray) -> bool:
    """Extend pairs on different devices to their whole groups, and raise the least times between them.

    Returns False if two such nodes are in one group, a contradiction.
    """
    for u in range(len(device)):
        for v in range(u):
            if is_apart[u, v]:
                if device[u] == device[v]:
                    return False
                for a in range(len(device)):
                    for b in range(len(device)):
                        if device[a] == device[u] and device[b] == device[v]:
                            is_apart[a, b] = is_apart[b, a] = True
    for u in range(len(device)):
        for v in range(len(device)):
            if is_apart[u, v]:
                between[u, v] = max(between[u, v], apart[u, v])
    return True


@compiled
def _keep_order(
    head: FloatArray, tail: FloatArray, work: FloatArray, rest: FloatArray, device: IntArray, limit: float
) -> bool:
    """Raise heads and tails by forced orders of nodes on one device; return False if a pair fits in neither order."""
    for u in range(len(head)):
        for v in range(len(head)):
            if u == v or device[u] != device[v]:
                continue
            if head[u] + work[u] + rest[u] + work[v] + tail[v] > limit:  # so v is first
                head[u] = max(head[u], head[v] + work[v] + rest[v])
                tail[v] = max(tail[v], rest[v] + work[u] + tail[u])
                if head[v] + work[v] + tail[v] > limit or head[u] + work[u] + tail[u] > limit:
                    return False
    return True


# CP-SAT on placements with an order, in a process of its own; its bound is a claim of the solver.
#
# Times are rounded down to whole multiples of a unit: the whole parts of all times of a placement, starts and step time
# included, are those of a placement with whole times, so that no bound gets too high. Devices, starts and transfers of
# the answer are read off as sequences, whose step time is computed from the definition.
#
# Where CP-SAT does not close the question soon, it is asked whether a step can take some shorter time: then more nodes
# have to share a device (see `colocation`), so that refuting it takes less than raising the bound to it.


CP, CP_SOLVER = "place-cp", "cp-sat"

_PACKAGE, _EXTRA = "ortools", "place-cp"
# Units of time in the work of all nodes, at least; and in the start.
_UNITS = 20000
# Parts of the time: for a bound without a solver, which CP-SAT begins from, and for the best step. The rest is for
# times that are refuted, each of them by so much of what is open above the one before.
_BOUNDS, _FIRST, _STRIDE = 0.1, 0.35, 0.35
# Seconds that the process has to end by itself.
_GRACE = 30.0


def cp_version() -> str:
    """Version of CP-SAT; a `SolverNotAvailableError` where it is not installed."""
    if importlib.util.find_spec(_PACKAGE) is None:
        raise SolverNotAvailableError(
            f"Solver {CP_SOLVER} is not available; choose place-exact, or install the extra: {extra(_EXTRA)}"
        )
    return importlib.metadata.version(_PACKAGE)


def prove_cp(start: OrderedPlacement, controls: Controls) -> Result[PlacementInstance, Placement]:
    """A lower bound by CP-SAT, and the better of `start` and the placement by CP-SAT.

    Raises
    ------
    SolverNotAvailableError
        If OR-Tools is not installed.
    SolverOptionsError
        If CP-SAT refuses an option of the user.
    SolverFaultError
        If the process fails, is killed, or its bound is refuted by a placement.
    """
    version, instance, watch = cp_version(), start.instance, Stopwatch()
    options = replace(controls.options, solver=CP_SOLVER)
    controls = replace(controls, options=options, label=f"{instance.label} {CP}")
    heads, deadline = heads_of(instance), controls.deadline
    low = colocation_bound(heads, heads_bound(heads), start.step_time, deadline.share(_BOUNDS)).value
    first, incumbent = replace(controls, deadline=deadline.share(_FIRST)), _Incumbent(start, low, optimal=False)
    built = watch.passed
    incumbent, before = _solve(incumbent, heads, start.step_time, first), None
    while not (incumbent.optimal or incumbent == before or deadline.passed):
        before, time = incumbent, incumbent.low + _STRIDE * (incumbent.best.step_time - incumbent.low)
        incumbent = _solve(incumbent, heads, time, controls)
    closed = incumbent.low >= incumbent.best.step_time * (1 - PROOF_TOLERANCE)
    return Result(
        method=CP,
        instance=instance,
        answer=incumbent.best,
        bound=Bound(max(0.0, incumbent.low), CP, closed, options.user_options),
        seconds=watch.seconds(build=built, solve=watch.passed - built),
        solver=f"{CP_SOLVER} {version}",
        interrupted=deadline.interrupted.is_set(),
    )


class _Incumbent(NamedTuple):
    """The best placement and lower bound so far."""

    best: OrderedPlacement
    low: float  # lower bound on the step time
    optimal: bool  # whether CP-SAT has proved optimality


def _solve(incumbent: _Incumbent, heads: Heads, time: float, controls: Controls) -> _Incumbent:
    """Run CP-SAT for placements with a step of at most `time`; return the updated placement and bound.

    If there are none, `time` is a bound. The shorter the time, the more nodes must share a device.
    """
    best, instance = incumbent.best, incumbent.best.instance
    data = ScaledPlacement(best, share_devices(heads, time, controls.deadline))
    if data.shared.refuted:
        return incumbent._replace(low=time * (1 - ROUNDING))
    unit = min(instance.total_work, best.step_time) / _UNITS
    question = _question(data, unit / best.step_time, incumbent.low / best.step_time, time / best.step_time, controls)
    reply = _ask(question, controls.deadline)
    controls.keep_log(reply.get("log", ""))
    if "refused" in reply:
        raise SolverOptionsError(controls.options, f"it takes no {reply['refused']}")
    if reply["status"] == "INFEASIBLE":
        if time >= best.step_time:
            raise SolverFaultError(CP_SOLVER, "says that there is no placement, against one that is known")
        return incumbent._replace(low=time * (1 - ROUNDING))
    candidate = best if reply["device"] is None else _placement(data, question, reply)
    proved = float(reply["bound"]) * unit * (1 - ROUNDING)
    if time < best.step_time:
        proved = min(proved, time)
    if proved > min(best.step_time, candidate.step_time) * (1 + ROUNDING):
        raise SolverFaultError(
            CP_SOLVER, f"states the bound {proved:.6g} against a step time of {candidate.step_time:.6g}"
        )
    return _Incumbent(
        best=min((best, candidate), key=lambda placement: placement.preference),
        low=max(incumbent.low, proved),
        optimal=reply["status"] == "OPTIMAL",
    )


def _question(
    data: ScaledPlacement, unit: float, shortest: float, longest: float, controls: Controls
) -> dict[str, Any]:
    """The question for the CP-SAT process as JSON members, with times in whole units, rounded down.

    Steps take from `shortest` to `longest`, in multiples of the step time of the start.
    """

    def whole(time: float) -> int:
        return int(time / unit * (1 - ROUNDING))

    timeline = data.start.timeline
    names = dict(zip(data.start.device.tolist(), data.start_device, strict=True))
    sent = {(x.tensor, names[d]): int(x.start / data.unit / unit) for x in timeline.transfers for d in x.targets}
    options = controls.options
    for name, value in options.solver_options.items():
        if not re.fullmatch(r'[a-z_]+=([\w.+-]+|"[^"\\]*")', f"{name}={value}"):
            raise SolverOptionsError(options, f"{name}={value} is no name with one value")
    parameters: dict[str, Any] = {"num_workers": options.threads, "random_seed": options.seed}
    parameters |= {"relative_gap_limit": options.gap, "log_to_stdout": False}
    if options.log is not None:
        parameters["log_search_progress"] = True
    if controls.time_limit is not None:
        parameters["max_time_in_seconds"] = controls.time_limit
    return {
        "devices": len(data.devices),
        "equal": data.instance.is_symmetric,
        "least": whole(shortest),
        "horizon": int(longest / unit) + 1,
        "bus_rest": whole(data.bus_rest),
        "nodes": [
            {
                "time": [whole(data.work(v, d)) for d in data.devices],
                "rest": whole(data.rest(v)),
                "head": whole(data.head(v)),
                "tail": whole(data.tail(v)),
            }
            for v in data.nodes
        ],
        "edges": data.edges,
        "together": data.together,
        "rank": data.rank if data.instance.is_symmetric else [],
        "transfers": [
            {
                "producer": data.producer[transfer.tensor],
                "readers": data.readers[transfer.tensor],
                "targets": transfer.targets,
                "time": [
                    [whole(data.time(transfer.tensor, h, d)) if h != d else 0 for d in data.devices]
                    for h in data.devices
                ],
            }
            for transfer in data.transfers
        ],
        "hint": {
            "device": data.start_device,
            "start": [int(time / data.unit / unit) for time in timeline.start.tolist()],
            "sent": [
                min((sent[x.tensor, d] for d in x.targets if (x.tensor, d) in sent), default=None)
                for x in data.transfers
            ],
        },
        "parameters": controls.with_user_options(parameters),
    }


def _placement(data: ScaledPlacement, question: dict[str, Any], reply: dict[str, Any]) -> OrderedPlacement:
    """The placement in an answer of the process."""
    whole = float(question["horizon"])
    starts = {v: time / whole for v, time in enumerate(reply["start"])}
    sent = {transfer: time / whole for transfer, time in zip(data.transfers, reply["sent"], strict=True)}
    return data.placement(dict(enumerate(reply["device"])), starts, sent)


def _ask(question: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
    """Answer of the process that runs CP-SAT; at Ctrl-C and at the deadline it is the best so far."""
    process = ask_module(
        "mtpp_models.placement.cp_process",
        json.dumps(question),
        interrupted=deadline.interrupted,
        is_late=lambda: deadline.passed,
        patience=_GRACE,
    )
    if process.returncode < 0:
        raise SolverFaultError(CP_SOLVER, f"was killed ({signal_name(-process.returncode)})")
    try:
        answer: dict[str, Any] = json.loads(process.stdout)
    except ValueError:
        last = (process.stderr.strip().splitlines() or ["no answer"])[-1]
        raise SolverFaultError(CP_SOLVER, f"failed ({last})") from None
    return answer
