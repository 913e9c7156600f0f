"""Sentences that explain a partition, one function each; every number follows from the definitions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from instances import Bound, Partition
from instances.errors import printable, word
from instances.partitioning.partition import crossings, stages
from instances.results import PROOF_TOLERANCE
from mtpp.text.numbers import Scale, bytes_in_words, time_in_words

# Stages within this part of the slowest are no slack; of the others, so many are named.
_LITTLE, _MOST_NAMED = 0.01, 4
_TIE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Partition with its bounds and other findings, which sentences report.

    Parameters
    ----------
    partition : Partition
    bound : Bound, optional
        The best that is known.
    stated : bool
        Whether the bound stands in a file and was not proved here.
    better : Partition, optional
        One with a smaller bottleneck.
    cut : Bound, optional
        Of minimum cuts around the nodes of the slowest block; its witness names the node.
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
        """A time in words, with its part of the bottleneck."""
        return f"{self.time(value)} ({value / self.partition.bottleneck:.1%} of the bottleneck)"

    def name(self, node: int) -> str:
        """A node's name."""
        return printable(self.partition.instance.graph.names[node])


def sentences(findings: Findings) -> Iterator[str]:
    """Yield sentences: how good a partition is, why it is as slow as it is, and which change would help."""
    if findings.partition.bottleneck == 0:
        yield "No stage takes any time: no partition is faster."
        return
    if math.isinf(findings.partition.bottleneck):  # where memory is a hard limit
        yield from (sentence for say in (_memory, _impossible, _better) if (sentence := say(findings)) is not None)
        return
    said = [_ratio, _better, _memory, _slowest, _largest_tensor, _slack]
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
        contents = f"{bytes_in_words(instance.graph.held_total)} of parameters"
        contents += " and states" if instance.graph.state_bytes.any() else ""
        why = f"{contents}, {bytes_in_words(k * memory)} on {k} {'devices' if k > 1 else 'device'}"
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


def _ratio(findings: Findings) -> str | None:
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
    equal = f", as {ties} other{'s' if ties > 1 else ''} of equal cost" if ties else ""
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
    idle = [f"{empty} empty {'stages' if empty > 1 else 'stage'}"] if empty else []
    named = [f"stage {stage.stage} ({1 - stage.share:.1%})" for stage in slack[:_MOST_NAMED]]
    rest = [f"{len(slack) - _MOST_NAMED} more"] if len(slack) > _MOST_NAMED else []
    if k == 1:
        return None
    if not idle and not named:
        return f"No stage has slack: all are within {_LITTLE:.0%} of the slowest."
    return f"Slack is in {_listed([*idle, *named, *rest])}."


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
    spread = f"The work spread evenly over {k} {'stages' if k > 1 else 'stage'} takes {findings.part(work / k)}"
    return f"{spread}: below that only with more stages or less work."


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
