"""Tables of plans that verbs print."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

from instances.errors import InputError, printable
from instances.graph.display import figures, how_many
from instances.json_files import json_text
from instances.planning import Iteration, Timeline, TrainingInstance
from instances.planning.grid.plan import GridPlan
from instances.planning.plan_files import perfetto_trace, schedule_csv
from instances.planning.problem import ELEMENT_BYTES
from mtpp.api.training import is_alike, training_of, use_of
from mtpp.certifying.methods import GridResult, PlanResult, plans_of_other_degrees, uniform_plan
from mtpp.problems.registry import PROBLEMS

# Tables of ``mtpp train``: question, speed, stages, memory, and the plan beside the uniform one.


_GIB = 2**30


def grid_headlines(
    result: GridResult, peak_flops: float, price: float | None, tokens: float | None = None
) -> list[tuple[str, str]]:
    """Labels and texts: the question, the degrees, the speed, and the bound on the speed."""
    plan, uniform = _plan(result), uniform_plan(result)
    question, chain = result.instance, plan.chain
    servers, sizes, layers = question.servers, question.state_bytes, how_many(chain.n, "layer")
    inner, outer = (figures(rate, "bytes/s") for rate in (servers.inner, servers.outer))
    others = "" if servers.count == 1 else f", {outer} to others"
    sequence = "sequence not stated" if chain.sequence is None else f"sequence {chain.sequence}"
    state = f"{sizes.weights:g} + {sizes.gradients:g} + {sizes.optimizer:g} bytes a parameter"
    at_most = "" if min(chain.degrees)[0] == 1 else "at most "
    rows = [
        ("model", f"{chain.name}, {layers}, {at_most}{chain.parameters:,.0f} parameters; {chain.source or 'measured'}"),
        ("numbers", f"{chain.dtype}, {sequence}, {state}"),
        ("servers", f"{servers.name}; a device sends {inner} inside its server{others}"),
        ("allowed", question.allowed),
        ("grid", _grid(plan)),
        ("step", f"{plan.time:.6g} s, {how_many(question.global_batch, 'sample')}, {plan.bubble:.1%} of it no pass"),
        *_speeds(plan, peak_flops, price),
    ]
    if tokens is not None:
        whole = training_of(plan, tokens, price)
        cost = "" if whole["price"] is None else f", {whole['price']:,.2f} for all devices"
        days = whole["days"] or 0.0
        rows.append(("training", f"{days:{',.0f' if days >= 1000 else '.3g'}} days for {tokens:.3g} tokens{cost}"))
    peak = float(plan.memory.total.max())
    limit = "" if math.isinf(question.memory) else f" of {question.memory / _GIB:.4g}"
    again = {mode: plan.modes.count(mode) for mode in dict.fromkeys(plan.modes) if mode != "none"}
    words = ", ".join(f"{count} {mode}" for mode, count in again.items())
    recomputed = f"layers that recompute: {words}" if words else "nothing recomputed"
    rows.append(("memory", f"{peak / _GIB:.4g}{limit} GiB on the fullest device; {recomputed}"))
    if uniform is not None:
        slower = uniform.time / plan.time - 1
        rows.append(("uniform", f"{uniform.time:.6g} s, {slower:+.2%}: {_grid(uniform)}"))
    if result.bound is None:
        return [*rows, ("bound", "–")]
    covers = PROBLEMS.of(question).covers(result.bound.method)
    return [*rows, ("bound", f"{result.bound.value:.6g} s for {covers}"), ("gap", f"{result.gap:.2%}")]


def _plan(result: GridResult) -> GridPlan:
    assert result.answer is not None
    return result.answer


def _grid(plan: GridPlan) -> str:
    degrees = ",".join(map(str, sorted(set(plan.tensor))))
    others = f", cp {plan.context}" * (plan.context > 1) + f", ep {plan.expert}" * (plan.expert > 1)
    return (
        f"pp {plan.groups}, tp {degrees}{others}, dp {plan.pipelines}, v {plan.turns}, ZeRO {plan.zero}, "
        f"{how_many(plan.microbatches, 'microbatch')} of {plan.micro_batch}, {how_many(plan.devices, 'device')}"
    )


def _speeds(plan: GridPlan, peak_flops: float, price: float | None) -> list[tuple[str, str]]:
    """Tokens a second, use of the devices and price, where known."""
    chain, question, rows = plan.chain, plan.instance, []
    V = question.servers.devices
    useful = use_of(plan, peak_flops)
    if useful is not None:
        times = (plan.forward_time + plan.backward_time).sum()
        plain = sum(way.forward + way.backward for way in chain.plain((plan.tensor[0], plan.context, plan.expert)))
        hardware = useful * max(1.0, float(times) / plain) if len(set(plan.tensor)) == 1 else None
        words = f"{useful:.1%} of each device's {peak_flops / 1e12:g} TFLOP/s in model operations (MFU)"
        rows.append(("use", words if hardware is None else f"{words}, about {hardware:.1%} with recomputation"))
    if chain.sequence is not None:
        tokens = question.global_batch * chain.sequence
        rows.append(("speed", f"{tokens / plan.time:,.0f} tokens/s, {tokens / plan.time / V:,.0f} a device"))
        if price is not None:
            step = price * V * plan.time / 3600
            rows.append(("price", f"{step:.4g} a step, {step / tokens * 1e6:.4g} for 10^6 tokens"))
    return rows


def stage_rows(plan: GridPlan) -> tuple[list[str], list[list[str]]]:
    """Header and rows: the stages of a pipeline with devices, times and memory."""
    header = ["stage", "layers", "number", "tp", "devices of pipeline 0", "forward [s]", "backward [s]", "after [s]"]
    header += ["recompute", "state [GiB]", "stored [GiB]", "working [GiB]"]
    names, memory, rows = [layer.name for layer in plan.chain.layers], plan.memory, []
    state = memory.weights + memory.gradients + memory.optimizer
    assert plan.first_device is not None
    for n, (begin, end) in enumerate(pairwise(plan.cuts)):
        g = n % plan.groups
        first = int(plan.first_device[g, 0])
        last = first + plan.context * plan.tensor[g] - 1
        modes = [mode for mode in plan.modes[begin:end] if mode != "none"]
        rows.append(
            [
                str(n),
                names[begin] if end == begin + 1 else f"{names[begin]} … {names[end - 1]}",
                str(end - begin),
                str(plan.tensor[g]),
                str(first) if first == last else f"{first}…{last}",
                *(f"{times[n]:.4g}" for times in (plan.forward_time, plan.backward_time, plan.after_time)),
                ", ".join(f"{modes.count(mode)} {mode}" for mode in dict.fromkeys(modes)) or "–",
                *(f"{part[g] / _GIB:.3g}" for part in (state, memory.stored, memory.working)),
            ]
        )
    return header, rows


def comparison_rows(result: GridResult) -> tuple[list[str], list[list[str]]]:
    """Header and rows: the plan, the best uniform plan, and plans with other degrees."""
    header = ["plan", "pp", "tp", "cp", "ep", "dp", "v", "ZeRO", "batches", "devices", "step [s]", "GiB", "no pass"]
    rows, best = [], _plan(result)
    others = [("alike" if is_alike(plan, best) else "slower", plan) for plan in plans_of_other_degrees(result)]
    for name, plan in (("planned", best), ("uniform", uniform_plan(result)), *others):
        if plan is not None:
            peak = float(plan.memory.total.max()) / _GIB
            degrees = [plan.groups, max(plan.tensor), plan.context, plan.expert, plan.pipelines, plan.turns, plan.zero]
            batches = f"{plan.microbatches} of {plan.micro_batch}"
            cells = [*map(str, degrees), batches, str(plan.devices), f"{plan.time:.6g}", f"{peak:.4g}"]
            rows.append([name, *cells, f"{plan.bubble:.1%}"])
    return header, rows


# Tables of ``mtpp plan``: question, stages and memory of a plan; and its exports.


def plan_rows(schedule: Timeline) -> tuple[list[str], list[list[str]]]:
    """Header and rows: the stages of a plan with times of a microbatch, AllReduce and memory."""
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
    """Cells on the memory of a device of stage `n`; activations at the peak of its group."""
    if schedule.plan.instance.network is None:
        return [f"{schedule.memory_needed[n] / 2**30:.3g}"]
    plan = schedule.plan
    peak = schedule.peaks[plan.groups.index(plan.devices[n])]
    weights = plan.param_bytes[n]
    sizes = (weights, (plan.instance.parameter_copies - 1) * weights, peak.activations)
    return [str(peak.in_flight), *(f"{size / 2**30:.3g}" for size in sizes)]


def headlines(answer: PlanResult) -> list[tuple[str, str]]:
    """Labels and texts: the question, the time of the plan, and bounds by class of plans."""
    instance, iteration = answer.instance, answer.answer
    assert iteration is not None
    duplex = f"{'full' if instance.full_duplex else 'half'}-duplex links"
    network = "the paper's, links share nothing" if instance.network is None else instance.network.words
    rows = [
        ("chain", f"{instance.chain.name}, {instance.chain.n} layers, {instance.microbatches} microbatches"),
        ("cluster", f"{instance.cluster.name}, {instance.cluster.n} devices, {duplex}"),
        ("network", network),
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
        peak = max(schedule.peaks, key=lambda group: group.total)
        limit = "" if math.isinf(instance.memory) else f" of {instance.memory / 2**30:.4g}"
        rows.append(
            ("memory", f"{peak.total / 2**30:.4g}{limit} GiB on the fullest device, {peak.in_flight} in flight")
        )
    if answer.bound is None:
        return [*rows, ("bound", "–" if iteration.plan else "–, pipelines side by side are not covered")]
    covers = PROBLEMS.of(instance).covers(answer.bound.method)
    rows += [("bound", f"{answer.bound.value:.6g} s for {covers}"), ("gap", f"{answer.gap:.2%}")]
    if instance.network is not None:
        bounds = [part.bound for part in answer.parts if part.bound is not None]
        named = (f"{bound.method.rpartition('-')[2]} {bound.value:.6g} s" for bound in bounds)
        rows.append(("bounds", ", ".join(named)))
    return rows


def _numbers(instance: TrainingInstance) -> str:
    """Text on number type, sequence length, bytes a parameter, samples of replicas, and recomputation."""
    assert instance.dtype is not None
    width = ELEMENT_BYTES[instance.dtype]
    sequence = "sequence not stated" if instance.sequence is None else f"sequence {instance.sequence}"
    samples = "even shares" if instance.samples is None else f"{instance.samples} whole samples a microbatch"
    again = ", recomputation where needed" if instance.recomputation else ""
    optimizer = f"{instance.parameter_copies * width:g} bytes a parameter with optimizer"
    return f"{instance.dtype}, {sequence}, {optimizer}, {samples}{again}"


def rank_lines(iteration: Iteration, path: Path) -> list[str]:
    """The devices of each row of a schedule, as CSV lines; none for a trace."""
    (schedule,) = iteration.schedules
    if path.suffix != ".csv":
        return []
    groups, names = schedule.plan.groups, schedule.plan.instance.cluster.names
    rows = (f"row {n}: {', '.join(names[v] for v in group)}" for n, group in enumerate(groups))
    return [printable(f"Devices of {path}: {'; '.join(rows)}")]


def exported(iteration: Iteration, path: Path) -> str:
    """Text of the schedule as CSV if `path` ends in .csv, else of a trace of events as JSON.

    Raises
    ------
    InputError
        If the plan is for the paper's network, which has no such files.
    """
    (schedule,) = iteration.schedules
    if schedule.plan.instance.network is None:
        raise InputError(f"--export {path}: plans for the paper's network have no such file; choose --network shared.")
    return schedule_csv(schedule) if path.suffix == ".csv" else json_text(perfetto_trace(schedule))
