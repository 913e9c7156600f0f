"""Explanations of what limits an answer: its slowest stage or device, and what would help."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from itertools import pairwise
from typing import Any

import numpy as np

from instances import Bound, InputError, Partition, Result
from instances.deadline import Deadline
from instances.errors import printable, word
from instances.flow.answer import FlowAnswer
from instances.flow.problem import FlowInstance
from instances.graph.display import figures, how_many
from instances.partitioning.partition import crossings, stages
from instances.partitioning.serving import ServingInstance
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance
from instances.planning import Iteration, Plan, TrainingInstance
from instances.planning.grid import GridInstance, GridPlan
from instances.results import PROOF_TOLERANCE
from instances.runtimes.serving_front import Front
from instances.serving.answer import Deployment
from instances.serving.costs import costs_of
from instances.serving.problem import PICO, DeploymentInstance
from instances.system.processes import catch_interrupt
from mtpp.certifying.certify import certify
from mtpp.text.numbers import Scale, bytes_in_words, time_in_words
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError
from mtpp_models.bounds.cuts import pinned
from mtpp_models.planning.grid import covered as covered_in_grid
from mtpp_models.planning.solve import covered as covered_by_plans

# Sentences that explain plans, placements, flows and fronts: how good they are, and what limits them.


#: A device or a link is full from this part of its capacity on; of many so many are named.
_FULL, _MOST_NAMED = 1 - 1e-9, 4


@dataclass(frozen=True)
class Reasons:
    """A result with sentences that explain it."""

    result: Result[Any, Any]
    lines: tuple[str, ...]

    def sentences(self) -> list[str]:
        """The sentences, the most important first."""
        return list(self.lines)


def _explains(
    say: Callable[[Result[Any, Any], Any], Iterator[str]],
) -> Callable[..., tuple[Reasons, bool]]:
    """Make a function of a result, which returns `Reasons` and False, as it is not interrupted.

    `say` yields the sentences for a result and its answer.
    """

    @wraps(say)
    def explain(result: Result[Any, Any], *_: Any) -> tuple[Reasons, bool]:
        if result.answer is None:
            raise InputError(f"{result.instance.label}: there is no answer to explain; give one.")
        return Reasons(result, tuple(say(result, result.answer))), False

    return explain


@_explains
def explain_plan(result: Result[TrainingInstance, Iteration], iteration: Iteration) -> Iterator[str]:
    """Explain a plan: its slowest stage or channel, the filling of the pipeline, the memory."""
    yield _ratio(result, covered_by_plans)
    for schedule in iteration.schedules:
        plan, span = schedule.plan, schedule.makespan
        M = plan.instance.microbatches
        stages = M * plan.stage_time
        n = int(stages.argmax())
        share = (
            f"{time_in_words(float(stages[n]), 's')}, {stages[n] / span:.1%} of the iteration" if span else "no time"
        )
        yield f"Stage {n} is the slowest: {_layers(plan, n)} on {_devices(plan, n)} compute {share}."
        channels = M * plan.channel_time
        if channels.size and channels.max() > 0:
            c = int(channels.argmax())
            busy = f"{time_in_words(float(channels[c]), 's')}, {channels[c] / span:.1%} of the iteration"
            yield f"The channel behind stage {c} is the fullest: it moves tensors for {busy}."
        sums = float(plan.allreduce_time.max())
        if sums > 0:
            yield f"Gradients of a stage are added up for {time_in_words(sums, 's')} at most."
        yield _limit_of_memory([float(size) for size in schedule.memory_needed], plan.instance.memory, "stage")
    yield f"Devices compute {iteration.utilisation:.1%} of the iteration; the rest they wait, most of it while the " + (
        "pipeline fills and drains, which more microbatches make shorter."
    )


def _layers(plan: Plan, n: int) -> str:
    names, first, last = plan.instance.chain.names, plan.cuts[n], plan.cuts[n + 1] - 1
    return printable(names[first]) if first == last else f"{printable(names[first])} to {printable(names[last])}"


def _devices(plan: Plan, n: int) -> str:
    return _listed([printable(plan.instance.cluster.names[v]) for v in plan.devices[n]])


@_explains
def explain_grid(result: Result[GridInstance, GridPlan], plan: GridPlan) -> Iterator[str]:
    """Explain a plan for a global batch: its slowest group, idle times, the memory."""
    yield _ratio(result, covered_in_grid)
    of_stages = plan.microbatches * (plan.forward_time + plan.backward_time)
    groups = np.bincount(np.arange(plan.stages) % plan.groups, of_stages, plan.groups)
    g, names = int(groups.argmax()), [layer.name for layer in plan.chain.layers]
    stages = [(a, b) for n, (a, b) in enumerate(pairwise(plan.cuts)) if n % plan.groups == g]
    layers = [names[a] if b == a + 1 else f"{names[a]} to {names[b - 1]}" for a, b in stages]
    share = f"{time_in_words(float(groups[g]), 's')}, {groups[g] / plan.time:.1%} of the step"
    yield f"Group {g} is the slowest: {printable(_listed(layers))} compute {share}."
    yield f"Devices run no pass for {plan.bubble:.1%} of the step."
    moved = float(plan.transfer_time.max(initial=0.0))
    if moved > 0:
        yield f"A microbatch moves to the next stage in {time_in_words(moved, 's')} at most."
    yield _limit_of_memory(plan.memory.total.tolist(), plan.instance.memory, "group")


@_explains
def explain_placement(result: Result[PlacementInstance, Placement], placement: Placement) -> Iterator[str]:
    """Explain a placement: the busiest device, the busiest bus, the longest path, the memory."""
    instance, times, step = placement.instance, placement.timeline, placement.step_time
    yield _ratio(result)
    busy = np.bincount(placement.device, times.end - times.start, instance.devices)
    d = int(busy.argmax())
    yield f"Device {d} is the busiest: it computes {_part(float(busy[d]), step, instance.time_unit)}."
    buses = np.zeros(instance.devices)
    for transfer in times.transfers:
        buses[transfer.source] += transfer.end - transfer.start
    if buses.max() > 0:
        d = int(buses.argmax())
        yield f"The bus out of device {d} is the busiest: it moves {_part(float(buses[d]), step, instance.time_unit)}."
    path = instance.lower_bound
    yield f"Longest path and even share of the work take {_part(path, step, instance.time_unit)} on any devices."
    sizes = placement.peak_memory / instance.memories
    fullest = int(sizes.argmax())
    peak = bytes_in_words(float(placement.peak_memory[fullest]))
    limit = float(instance.memories[fullest])
    yield f"Device {fullest} holds most: {peak}" + ("." if math.isinf(limit) else f" of {bytes_in_words(limit)}.")


@_explains
def explain_flow(result: Result[FlowInstance, FlowAnswer], answer: FlowAnswer) -> Iterator[str]:
    """Explain a flow: devices and links at their limits, and layers on few devices."""
    instance, rate = answer.instance, answer.instance.rate_unit
    bound = result.bound
    if bound is not None and bound.value > 0:
        limit = figures(1 / bound.value, rate)
        yield f"{figures(answer.flow, rate)} pass, and no layers let more than {limit} pass ({_by(result)})."
    else:
        yield f"{figures(answer.flow, rate)} pass; nothing says how many could."
    if "in flight" in answer.measures:
        yield f"{answer.measures['in flight']}; {instance.terms}."
    n, passing, network = instance.n, answer.passing, answer.network
    through = passing[np.arange(2, n + 2), np.arange(n + 2, 2 * n + 2)]
    full = np.flatnonzero((through >= answer.capacity * _FULL) & (answer.capacity > 0)).tolist()
    if full:
        named = [f"{printable(instance.devices[i])} (layers {_interval(answer, i)})" for i in full]
        yield f"{len(full)} of {n} devices are full: {_listed(named)}."
    names = ["the source", "the sink", *map(printable, instance.devices), *map(printable, instance.devices)]
    links = [
        f"{names[u]} to {names[v]}"
        for u, v in np.argwhere(passing > 0).tolist()
        if (v != u + n or u < 2) and passing[u, v] >= network[u, v] * _FULL
    ]
    if links:
        yield f"{len(links)} links are full: {_listed(links)}."
    capacity = np.zeros(instance.layers)
    for i, (begin, end) in enumerate(answer.interval.tolist()):
        capacity[begin:end] += answer.capacity[i]
    layer = int(capacity.argmin())
    fewest = figures(float(capacity[layer]), rate)
    yield f"Devices alone, without links, let the fewest pass at layer {layer}: {fewest}."


def _interval(answer: FlowAnswer, i: int) -> str:
    begin, end = answer.interval[i].tolist()
    return str(begin) if end == begin + 1 else f"{begin} to {end - 1}"


@_explains
def explain_front(result: Result[ServingInstance, Front], front: Front) -> Iterator[str]:
    """Explain the chosen cut of a front: its slowest stage, and the stage that limits the context."""
    point, partition, unit = front.chosen, front.partition, front.instance.time_unit
    yield (
        f"No cut is faster than {time_in_words(front.cost, unit)} a batch, and none of {len(front.points)} is beaten "
        "in both speed and the context that it has room for."
    )
    costs = partition.block_costs
    b = int(costs.argmax())
    kinds = partition.kind_names
    on = f" (on {printable(kinds[b])})" if kinds else ""
    in_flight = front.instance.in_flight
    counted = "sequences" if in_flight is None else "tokens"
    passing = f"{figures(point.throughput, f'{counted} per {unit}')} pass"
    if in_flight is not None:
        passing += f" with {how_many(in_flight, 'batch')} of {front.instance.batch} in flight"
    yield f"Stage {b}{on} is the slowest: {time_in_words(float(costs[b]), unit)}; {passing}."
    least = int(np.argmin(point.stage_capacity))
    on = f" (on {printable(kinds[least])})" if kinds else ""
    if math.isinf(point.capacity):
        yield "Every stage has room for any context."
        return
    weights, peak = (bytes_in_words(float(sizes[least])) for sizes in (partition.param_bytes, partition.peaks))
    cache = bytes_in_words(float(point.cache_bytes(point.capacity)[least]))
    yield f"Stage {least}{on} has room for the least context, {point.capacity:.0f} tokens: weights take {weights}, " + (
        f"activations {peak}, keys and values {cache}."
    )


@_explains
def explain_deployment(result: Result[DeploymentInstance, Deployment], answer: Deployment) -> Iterator[str]:
    """Explain a deployment: its bound, and each chain's slowest stage and fullest device."""
    bound = result.bound
    question, rate = answer.instance, figures(answer.rate, "tokens/s")
    at_most = "".join(f", {name} at most {time_in_words(value, 's')}" for name, value in question.limits.items())
    context = f"a context of {float(question.context):g} tokens in the mean"
    yield f"{rate} at {context}, weights in {question.weights}{at_most}."
    if bound is not None and bound.value > 0 and question.objective != "cost":
        uses = "use of the devices gives" if bound.method == "device-seconds" else "deployment of chains gives"
        yield f"No {uses} more than {figures(1 / bound.value, 'tokens/s')} ({_by(result)})."
    if bound is not None and question.objective == "cost":
        others = f"no deployment of chains gives them for less than {bound.value * 1e6:.4g} ({_by(result)})"
        yield f"A million tokens cost {answer.price:.4g}; {others}."
    room = costs_of(question).room
    for pool, chain, count in answer.pools:
        times = chain.stage_times
        slowest = max(range(len(times)), key=times.__getitem__)
        needed = chain.chain.batches * times[slowest]
        limit = "the slowest stage" if needed >= sum(times) else "the sum of all stages"
        takes = f"{'they take' if pool else 'a token takes'} {time_in_words(chain.tpot, 's')}"
        yield (
            f"{pool}{count} x {printable(chain.words)}: {how_many(chain.chain.batches, 'batch')} of "
            f"{how_many(chain.chain.batch, 'sequence')} in flight; {takes}, by {limit} (stage {slowest} takes "
            f"{time_in_words(times[slowest] / PICO, 's')})."
        )
        rows = zip(chain.chain.stages, chain.weight_bytes, chain.cache_bytes, strict=True)
        filled = [(weights + caches) / float(room[stage.servers]) for stage, weights, caches in rows]
        fullest = max(range(len(filled)), key=filled.__getitem__)
        yield f"Stage {fullest} is the fullest: {filled[fullest]:.1%} of the memory that may be filled."


def _ratio(result: Result[Any, Any], covered: Callable[[str], str] = lambda method: "") -> str:
    """Sentence on the cost of a result, and by how much other answers could be better by its bound."""
    bound, unit = result.bound, result.instance.time_unit
    cost = result.cost
    assert cost is not None
    if bound is None or bound.value <= 0:
        return f"It takes {time_in_words(cost, unit)}; no bound above 0 is known."
    method = bound.method if bound.proved else str(bound.witness.get("by", ""))
    others = covered(method) or "any answer"
    if cost <= bound.value * (1 + PROOF_TOLERANCE):
        return f"It is optimal: {others} takes {time_in_words(bound.value, unit)} or more ({_by(result)})."
    least = f"{time_in_words(bound.value, unit)}, {1 - bound.value / cost:.2%} below this one"
    return f"It takes {time_in_words(cost, unit)}; the least time of {others} is {least} or more ({_by(result)})."


def _by(result: Result[Any, Any]) -> str:
    bound = result.bound
    assert bound is not None
    return f"{bound.method}, proved" if bound.proved else f"{bound.witness.get('by', bound.method)}, as the file states"


def _part(time: float, whole: float, unit: str) -> str:
    return f"{time_in_words(time, unit)}, {time / whole:.1%} of the step"


def _limit_of_memory(sizes: Sequence[float], limit: float, name: str) -> str:
    fullest = max(range(len(sizes)), key=sizes.__getitem__)
    sentence = f"The fullest device is of {name} {fullest}: {bytes_in_words(sizes[fullest])}"
    return f"{sentence}; there is no limit." if math.isinf(limit) else f"{sentence} of {bytes_in_words(limit)}."


def _listed(words: Sequence[str]) -> str:
    listed = [*words[:_MOST_NAMED], *([f"{len(words) - _MOST_NAMED} more"] if len(words) > _MOST_NAMED else [])]
    return _joined(listed)


# Explanation of a partition: the best bound, a better partition if one is found, the least cost of a stage.


# Part of the time limit that minimum cuts around the slowest stage's nodes may take.
_CUTS = 0.2


def explain_partition(
    result: Result,
    options: SolveOptions,
    on_progress: Callable[[Progress], None] | None = None,
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
) -> tuple[Findings, bool]:
    """Collect findings on how good a partition is and why it is not better.

    Parameters
    ----------
    result : Result
        With the partition, and perhaps a bound that counts as stated. If that equals the bottleneck, none is proved.
    options : SolveOptions
        The time limit is for everything together.
    on_progress, on_fault : callable, optional
        As for `certify`.

    Returns
    -------
    Findings, bool
        The findings, and whether Ctrl-C ended the work early.

    Raises
    ------
    InputError
        If there is no partition, or the bound is above its cost; or as `certify`.
    SolverNotAvailableError
        As `certify`.
    """
    partition, best = result.partition, result.bound
    if partition is None:
        raise InputError(f"{result.method} found no partition, so that there is nothing to explain; give one.")
    fits = partition.bottleneck < math.inf
    certified = Result("given", partition.instance, partition if fits else None)
    if best is None or _is_more(partition.bottleneck, best.value):
        limited = replace(options, time_limit=Deadline.after(options.time_limit).share(1 - _CUTS).time_limit)
        start = partition if fits else None
        certified = certify(partition.instance, limited, start=start, on_progress=on_progress, on_fault=on_fault)
        if certified.bound is not None and (best is None or certified.bound.value > best.value):
            best = certified.bound
    findings = Findings(
        partition=partition,
        bound=best,
        stated=best is not None and best is not certified.bound,
        better=certified.partition
        if certified.cost is not None and _is_more(partition.bottleneck, certified.cost)
        else None,
        impossible=certified.impossible,
    )
    if certified.interrupted or not 0 < partition.bottleneck < math.inf or partition.kind_names:
        return findings, certified.interrupted
    nodes = np.flatnonzero(partition.block == findings.slowest).tolist()
    with catch_interrupt() as interrupted:
        cut = pinned(partition, Deadline.after(options.time_limit, interrupted).share(_CUTS), nodes).bound
    return replace(findings, cut=cut), interrupted.is_set()


def _is_more(cost: float, other: float) -> bool:
    """Whether a cost is larger by more than the tolerance."""
    return cost > other * (1 + PROOF_TOLERANCE)


# Sentences that explain a partition, one function each; every number follows from the definitions.


# Stages within this part of the slowest are no slack; of the others, so many are named.
_LITTLE = 0.01
_TIE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Facts about a partition and its bounds, from which sentences are made.

    Parameters
    ----------
    partition : Partition
    bound : Bound, optional
        The best known bound.
    stated : bool
        Whether the bound stands in a file and was not proved here.
    better : Partition, optional
        A partition with a smaller bottleneck.
    cut : Bound, optional
        Best bound by minimum cuts around a node of the slowest block; its witness names the node.
    impossible : str, optional
        Why no partition fits into the memory.
    """

    partition: Partition
    bound: Bound | None = None
    stated: bool = False
    better: Partition | None = None
    cut: Bound | None = None
    impossible: str | None = None

    def sentences(self) -> list[str]:
        """The findings in words, the most important first."""
        return list(sentences(self))

    @property
    def slowest(self) -> int:
        """The first of the slowest blocks."""
        return int(self.partition.block_costs.argmax())

    def time(self, value: float) -> str:
        """A time in words."""
        return time_in_words(value, self.partition.instance.time_unit)

    def part(self, value: float) -> str:
        """A time in words, with its fraction of the bottleneck."""
        return f"{self.time(value)} ({value / self.partition.bottleneck:.1%} of the bottleneck)"

    def name(self, node: int) -> str:
        """A node's name."""
        return printable(self.partition.instance.graph.names[node])


def sentences(findings: Findings) -> Iterator[str]:
    """Sentences on how good a partition is, why it is as slow as it is, and which change would help."""
    if findings.partition.bottleneck == 0:
        yield "No stage takes any time: no partition is faster."
        return
    if math.isinf(findings.partition.bottleneck):  # where memory is a hard limit
        yield from (sentence for say in (_memory, _impossible, _better) if (sentence := say(findings)) is not None)
        return
    said = [_ratio_of_partition, _better, _memory, _slowest, _largest_tensor, _slack]
    if not findings.partition.kind_names:  # on devices of several kinds they do not hold
        said += [_largest_node, _minimum_cut, _even_work]
    yield from (sentence for say in said if (sentence := say(findings)) is not None)


def memory_sentence(partition: Partition) -> str | None:
    """Say what does not fit into memory, and the time that it costs; None if everything fits."""
    instance = partition.instance
    overflow = partition.costs.overflow
    over = np.flatnonzero(overflow)
    if not over.size:
        return None
    slowest, memory, k = int(partition.block_costs.argmax()), instance.platform.memory, instance.k
    if not partition.kind_names and instance.graph.held_total > k * memory:
        contents = f"{bytes_in_words(instance.graph.held_total)} of {instance.graph.held_words}"
        why = f"{contents}, {bytes_in_words(k * memory)} on {how_many(k, 'device')}"
    else:
        need = partition.param_bytes + partition.state_bytes + partition.peaks
        worst = int((need - partition.memories).argmax())
        why = f"stage {worst} needs {bytes_in_words(need[worst])} of {bytes_in_words(partition.memories[worst])}"
        why += f", and {over.size} of {k} stages do not fit" if over.size > 1 else ""
    if math.isinf(partition.bottleneck):
        return f"does not fit: {why}"
    scale = Scale.of_times([partition.bottleneck], instance.time_unit)
    share = f"{scale.cell(overflow[slowest])} of {scale.cell(partition.bottleneck)} {scale.unit} are overflow"
    return f"does not fit: {why}; {share}; {word('fit')} makes memory a hard limit"


def _ratio_of_partition(findings: Findings) -> str | None:
    """State the ratio of cost to bound; None without a bound."""
    if findings.bound is None:
        return None
    cost, bound, k = findings.partition.bottleneck, findings.bound, findings.partition.instance.k
    node = bound.witness.get("nodes", ()) if bound.method == "pinned" else ()
    method = f"{bound.method} around {findings.name(node[0])}" if node else bound.method
    by = f"{method}, as the file states" if findings.stated else f"{method}, proved now"
    if bound.value <= 0:
        return f"No bound above 0 is known: nothing says how much faster a partition into {k} could be."
    if cost <= bound.value * (1 + PROOF_TOLERANCE):
        return f"It is optimal: no partition into {k} stages is faster ({by})."
    lower = f"no partition into {k} stages takes less than {findings.time(bound.value)} ({by})"
    return f"Its ratio is {cost / bound.value:.4f}: {lower}, {1 - bound.value / cost:.2%} below this one."


def _impossible(findings: Findings) -> str | None:
    """State why no other partition fits; None if that is not proved."""
    reason = findings.impossible
    return None if reason is None else f"No other fits either: {reason.removeprefix('does not fit: ')}."


def _better(findings: Findings) -> str | None:
    """Name the bottleneck of a better partition; None if none is known."""
    if findings.better is None:
        return None
    cost = findings.time(findings.better.bottleneck)
    if math.isinf(findings.partition.bottleneck):
        return f"A partition that fits is known now, of {cost}; the JSON document holds it."
    faster = 1 - findings.better.bottleneck / findings.partition.bottleneck
    return f"A better partition is known now, of {cost}, {faster:.2%} below this one; the JSON document holds it."


def _memory(findings: Findings) -> str | None:
    """Say what does not fit into memory; None if everything fits."""
    sentence = memory_sentence(findings.partition)
    return None if sentence is None else f"It {sentence}."


def _slowest(findings: Findings) -> str:
    """State the slowest stage, and the parts of its time."""
    costs, b, bottleneck = findings.partition.costs, findings.slowest, findings.partition.bottleneck
    names = {"work": "working", "receive": "receiving", "send": "sending", "overflow": "overflow"}
    times = {word: float(getattr(costs, name)[b]) for name, word in names.items()}
    parts = [f"{time / bottleneck:.1%} {word}" for word, time in times.items() if time > 0]
    ties = int((findings.partition.block_costs >= bottleneck * (1 - _TIE)).sum()) - 1
    equal = f" ({ties} other{'s cost' if ties > 1 else ' costs'} as much)" if ties else ""
    on = f" (on {printable(findings.partition.kind_names[b])})" if findings.partition.kind_names else ""
    return f"Stage {b}{on} is the slowest{equal}: {findings.time(bottleneck)}, of which {', '.join(parts)}."


def _largest_tensor(findings: Findings) -> str | None:
    """State the tensor with the largest part of the slowest stage's communication; None if there is none."""
    b = findings.slowest
    moved = [tensor for tensor in crossings(findings.partition) if b == tensor.source or b in tensor.readers]
    total = sum(tensor.time for tensor in moved)
    if total == 0:
        return None
    largest = max(moved, key=lambda tensor: tensor.time)
    way = "sends" if largest.source == b else f"receives from stage {largest.source}"
    what = f"{bytes_in_words(largest.bytes)} of {printable(largest.producer)}"
    share = f"{largest.time / total:.1%} of its communication"
    return f"The largest tensor that stage {b} {way}, {what}, takes {findings.part(largest.time)}, {share}."


def _slack(findings: Findings) -> str | None:
    """State the stages that could take more work; None for k = 1."""
    k, spare = findings.partition.instance.k, sorted(stages(findings.partition), key=lambda stage: stage.share)
    slack = [stage for stage in spare if stage.share < 1 - _LITTLE]
    empty = k - len(spare)
    idle = [how_many(empty, "empty stage")] if empty else []
    named = [f"stage {stage.stage} ({1 - stage.share:.1%})" for stage in slack[:_MOST_NAMED]]
    rest = [f"{len(slack) - _MOST_NAMED} more"] if len(slack) > _MOST_NAMED else []
    if k == 1:
        return None
    if not idle and not named:
        return f"No stage has slack: all are within {_LITTLE:.0%} of the slowest."
    return f"Slack is in {_joined([*idle, *named, *rest])}."


def _largest_node(findings: Findings) -> str | None:
    """Lower bound on the slowest stage by its largest node."""
    graph, b = findings.partition.instance.graph, findings.slowest
    nodes = np.flatnonzero(findings.partition.block == b)
    node = int(nodes[graph.work[nodes].argmax()])
    if graph.work[node] == 0:
        return None
    name, part = findings.name(node), findings.part(float(graph.work[node]))
    return f"The largest node of stage {b}, {name}, takes {part}: below that only if it becomes faster or is split."


def _minimum_cut(findings: Findings) -> str | None:
    """Lower bound by a minimum cut: any stage that holds a certain node of the slowest stage takes at least so long."""
    if findings.cut is None or findings.cut.value <= 0:
        return None
    node = findings.name(int(findings.cut.witness["nodes"][0]))
    least = (
        f"Any stage that holds {node} takes at least {findings.part(findings.cut.value)}, by a minimum cut around it"
    )
    return f"{least}: below that only if nodes there become faster, tensors smaller or the bandwidth larger."


def _even_work(findings: Findings) -> str | None:
    """Lower bound on the slowest stage by evenly spread work; None if there is no work."""
    work, k = float(findings.partition.instance.graph.work.sum()), findings.partition.instance.k
    if work == 0:
        return None
    spread = f"The work spread evenly over {how_many(k, 'stage')} takes {findings.part(work / k)}"
    return f"{spread}: below that only with more stages or less work."


def _joined(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
