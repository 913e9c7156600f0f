"""Tables of ``mtpp plan``: question, stages and memory of a plan; and its exports."""

from __future__ import annotations

import math
from pathlib import Path

from instances.errors import InputError, printable
from instances.json_files import json_text
from instances.planning import Iteration, Timeline, TrainingInstance
from instances.planning.problem import ELEMENT_BYTES
from instances.planning.timeline_file import perfetto_trace, schedule_csv
from mtpp.certifying.planning import CoveredPlan

__all__ = ["exported", "headlines", "plan_rows", "rank_lines"]


def plan_rows(schedule: Timeline) -> tuple[list[str], list[list[str]]]:
    """Header and rows of text: the stages of a plan, times of a microbatch and of the AllReduce, memory of a device."""
    plan = schedule.plan
    names, cluster = plan.instance.chain.names, plan.instance.cluster
    times = (plan.forward_time, plan.backward_time, plan.allreduce_time)
    header = ["stage", "layers", "number", "devices", "replicas", "forward [s]", "backward [s]", "AllReduce [s]"]
    header += ["memory [GiB]"] if plan.instance.network is None else _MEMORY
    rows = []
    for n in range(plan.n_stages):
        first, last = plan.cuts[n], plan.cuts[n + 1] - 1
        rows.append(
            [
                f"{n} recomputes" if plan.recompute[n] else str(n),
                names[first] if first == last else f"{names[first]} … {names[last]}",
                str(last - first + 1),
                ",".join(cluster.names[v] for v in plan.devices[n]),
                str(plan.replicas[n]),
                *(f"{time[n]:.4g}" for time in times),
                *_memory(schedule, n),
            ]
        )
    return header, rows


_MEMORY = ["in flight", "weights [GiB]", "optimizer [GiB]", "activations [GiB]"]


def _memory(schedule: Timeline, n: int) -> list[str]:
    """Memory of a device of a stage; activations are those of all stages of its group, when they are most."""
    if schedule.plan.instance.network is None:
        return [f"{schedule.memory_needed[n] / 2**30:.3g}"]
    plan = schedule.plan
    peak = schedule.peaks[plan.groups.index(plan.devices[n])]
    weights = plan.param_bytes[n]
    sizes = (weights, (plan.instance.parameter_copies - 1) * weights, peak.activations)
    return [str(peak.in_flight), *(f"{size / 2**30:.3g}" for size in sizes)]


def headlines(covered: CoveredPlan, iteration: Iteration) -> list[tuple[str, str]]:
    """Labels and words: what was asked, how long the plan takes, and how long any plan of a class does."""
    answer, instance = covered.result, covered.result.instance
    duplex = "full duplex" if instance.full_duplex else "half duplex"
    network = "the paper's, links share nothing" if instance.network is None else instance.network.words
    rows = [
        ("chain", f"{instance.chain.name}, {instance.chain.n} layers, {instance.microbatches} microbatches"),
        ("cluster", f"{instance.cluster.name}, {instance.cluster.n} devices, {duplex}"),
        ("network", network),
        ("question", instance.question_hash),
    ]
    if instance.network is not None:
        rows += [("numbers", _numbers(instance))] + [("source", printable(instance.chain.source))] * bool(
            instance.chain.source
        )
    (schedule, *_) = iteration.schedules
    order = f", {schedule.order_name}" if schedule.order_name else ""
    rows += [
        ("planner", f"{answer.method}{order}"),
        ("iteration", f"{iteration.time:.6g} s, devices compute {iteration.utilisation:.1%} of it"),
    ]
    if instance.network is not None:
        peak = max(schedule.peaks, key=lambda one: one.total)
        limit = "" if math.isinf(instance.memory) else f" of {instance.memory / 2**30:.4g}"
        rows.append(
            ("memory", f"{peak.total / 2**30:.4g}{limit} GiB on the fullest device, {peak.in_flight} in flight")
        )
    if answer.bound is None:
        return [*rows, ("bound", "–" if iteration.plan else "–, pipelines side by side are not covered")]
    rows += [("bound", f"{answer.bound.value:.6g} s for {covered.words}"), ("gap", f"{answer.gap:.2%}")]
    if instance.network is not None:
        rows.append(("bounds", ", ".join(f"{name} {value:.6g} s" for name, value in covered.bounds.items())))
    return rows


def _numbers(instance: TrainingInstance) -> str:
    """Type of numbers, sequence, bytes a parameter and shares, defaults included."""
    assert instance.dtype is not None
    width = ELEMENT_BYTES[instance.dtype]
    sequence = "sequence not stated" if instance.sequence is None else f"sequence {instance.sequence}"
    samples = "even shares" if instance.samples is None else f"{instance.samples} whole samples a microbatch"
    again = ", recomputation where needed" if instance.recomputation else ""
    optimizer = f"{instance.parameter_copies * width:g} bytes a parameter with optimizer"
    return f"{instance.dtype}, {sequence}, {optimizer}, {samples}{again}"


def rank_lines(iteration: Iteration, path: Path) -> list[str]:
    """The devices of each row of a schedule as CSV, which has no room for them; nothing for a trace."""
    (schedule,) = iteration.schedules
    if path.suffix != ".csv":
        return []
    groups, names = schedule.plan.groups, schedule.plan.instance.cluster.names
    rows = (f"row {n}: {', '.join(names[v] for v in group)}" for n, group in enumerate(groups))
    return [printable(f"Devices of {path}: {'; '.join(rows)}")]


def exported(iteration: Iteration, path: Path) -> str:
    """The iteration as the suffix says: a schedule as CSV, or a trace.

    Raises
    ------
    InputError
        If the plan is one for the paper's network, whose file has no times.
    """
    (schedule,) = iteration.schedules
    if schedule.plan.instance.network is None:
        raise InputError(f"--export {path}: plans for the paper's network have no such file; choose --network shared.")
    return schedule_csv(schedule) if path.suffix == ".csv" else json_text(perfetto_trace(schedule))
