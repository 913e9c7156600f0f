"""Answer to any question as a part of a page: how good it is proved to be, the question, the answer, its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from instances import InputError, Partition, Result
from instances.flow.answer import FlowAnswer
from instances.graph.display import Displayed, figures
from instances.partitioning.serving import ServedPartition
from instances.placement.placement import Placement
from instances.planning import Iteration
from instances.planning.grid.plan import GridPlan
from instances.results import PROOF_TOLERANCE
from mtpp.plots.report.flows import flow_question, flow_sections
from mtpp.plots.report.fronts import front_question, front_sections
from mtpp.plots.report.grids import grid_question, grid_sections
from mtpp.plots.report.markup import details, facts, paragraph, preformatted, section, table, text
from mtpp.plots.report.partitions import partition_question, partition_sections
from mtpp.plots.report.placements import placement_question, placement_sections
from mtpp.plots.report.plans import plan_question, plan_sections
from mtpp.verification.verdict import Verdict
from mtpp_models.planning.bounds import COVERED as PAPER_COVERED
from mtpp_models.planning.grid import COVERED
from mtpp_models.planning.solve import CLASSES

__all__ = ["Reported", "article"]

_LONGEST_WORDS = 4000


@dataclass(frozen=True, kw_only=True)
class Reported:
    """An answer, and all that a page says of it beside what follows from itself."""

    result: Result[Any, Any]
    verdict: Verdict | None  # of a check with code of its own; None if there was none
    unchecked: str = ""  # why there was none
    check: str = ""  # the command that checks it again; empty if there is no file
    front: Sequence[ServedPartition] = ()  # of a serving question, all cuts that no other beats
    served: ServedPartition | None = None  # of these the answer
    words: Mapping[str, str] = field(default_factory=dict)  # settings of runtimes by their names
    refusals: Mapping[str, str] = field(default_factory=dict)  # why others have none
    files: Sequence[Sequence[str]] = ()  # of a folder of stages: name, nodes, inputs, outputs


def article(reported: Reported) -> tuple[str, str]:
    """Title in plain text, and HTML.

    Raises
    ------
    InputError
        If the answer is of no known kind.
    """
    return reported.result.instance.label, "".join(_parts(reported))


def _parts(reported: Reported) -> Iterator[str]:
    result, answer = reported.result, reported.result.answer
    yield _headline(reported)
    yield section("Question", facts(_question(reported)))
    yield _bound_section(reported)
    if reported.served is not None:
        yield from front_sections(reported.front, reported.served)
    if isinstance(answer, Partition):
        yield from partition_sections(answer, result.bound, memory=reported.served is None)
    elif isinstance(answer, Iteration):
        yield from plan_sections(answer)
    elif isinstance(answer, Placement):
        yield from placement_sections(answer)
    elif isinstance(answer, GridPlan):
        yield from grid_sections(answer, result.bound)
    elif isinstance(answer, FlowAnswer):
        yield from flow_sections(answer, result.bound)
    if reported.files:
        header = ["stage", "file", "nodes", "reads", "gives", "predicted"]
        yield section("Files of the stages", table(header, reported.files, words=True, longest=200))
    if reported.words or reported.refusals:
        yield _word_section(reported)


def _question(reported: Reported) -> dict[str, str]:
    answer = reported.result.answer
    if reported.served is not None:
        return front_question(reported.served)
    if isinstance(answer, Partition):
        return partition_question(answer)
    if isinstance(answer, Iteration):
        return plan_question(answer)
    if isinstance(answer, Placement):
        return placement_question(answer)
    if isinstance(answer, GridPlan):
        return grid_question(answer)
    if isinstance(answer, FlowAnswer):
        return flow_question(answer.instance)
    if answer is not None:
        raise InputError(f"{reported.result.instance.label}: there is no page of a {type(answer).__name__}.")
    instance = reported.result.instance
    return dict(instance._facts()) if isinstance(instance, Displayed) else {"question": instance.label}


def _headline(reported: Reported) -> str:
    """One sentence: how far the answer is from any other, and on what that rests."""
    result, verdict = reported.result, reported.verdict
    kind, words = _standing(reported)
    cost = ""
    if result.answer is not None:
        facts_of_answer = result._facts()
        cost = f"{result.answer.cost_name} {facts_of_answer[result.answer.cost_name]}"
        if isinstance(result.answer, FlowAnswer):
            cost = f"flow {figures(result.answer.flow, 'requests/s')}, {cost}"
    faults = "" if verdict is None else "".join(paragraph(fault, "bad") for fault in verdict.faults)
    return f'<div class="headline">{text(cost, None)}<p class="{kind}">{text(words, None)}</p>{faults}</div>'


def _standing(reported: Reported) -> tuple[str, str]:
    result, verdict = reported.result, reported.verdict
    if result.impossible is not None:
        holds = verdict is None or verdict.no_answer is None or verdict.no_answer.holds
        return "bad", f"{'Proved impossible' if holds else 'Impossible, if it is true'}: {result.impossible}"
    if verdict is None:
        why = reported.unchecked or "there is nothing to check"
        return "warn", f"Not checked here: {why}. Costs on this page are computed anew; bounds are as stated."
    if verdict.faults:
        return "bad", f"FALSE: {len(verdict.faults)} of the numbers of this file do not hold."
    if reported.front:
        return "good", "Proved again: no cut is faster and holds more context than one of these."
    proved = verdict.proved_ratio
    shown = None if proved is None else float(proved)
    if shown is None:
        return "warn", "No bound says how good this answer is." if not verdict.checks else _trusted(verdict)
    covered = _covered(result.answer, verdict)
    if shown <= 1 + PROOF_TOLERANCE:
        told = f"Optimal over {covered}" if covered else "Optimal: no answer to this question costs less"
        return "good", f"{told}; proved again for this page."
    if verdict.rests_on_trust:
        return (
            "warn",
            f"{_trusted(verdict)} By bounds proved again for this page alone it is at most {shown - 1:.2%} above.",
        )
    told = f"At most {shown - 1:.2%} above the optimum (ratio {shown:.6f})"
    return "good", f"{told}{f' over {covered}' if covered else ''}; proved again for this page."


def _covered(answer: Any, verdict: Verdict) -> str:
    """The plans that the best bound holds for, in words; empty if it holds for all answers."""
    method = max(verdict.checks, key=lambda check: check.proved or 0).claim.method
    if isinstance(answer, GridPlan):
        return COVERED[method]
    if isinstance(answer, Iteration):
        return CLASSES.get(method.rpartition("-")[2], PAPER_COVERED)
    return ""


def _trusted(verdict: Verdict) -> str:
    ratio = verdict.stated_ratio
    if ratio is None:
        return "Its bounds are trusted, not proved here."
    far = "Optimal" if float(ratio) <= 1 + PROOF_TOLERANCE else f"At most {float(ratio) - 1:.2%} above the optimum"
    return f"{far}, if a bound holds that is trusted here, not proved again."


def _bound_section(reported: Reported) -> str:
    verdict = reported.verdict
    if verdict is None or not verdict.checks:
        bound = reported.result.bound
        told = "No bound is stated." if bound is None else f"{reported.result._facts()['bound']}; not checked here."
        parts = [paragraph("All cuts were compared anew; there is no bound to state." if reported.front else told)]
    else:
        header, *rows = verdict.table()
        parts = [table(header, rows, words=True, longest=300)]
    if reported.check:
        parts.append(f"<p>To check it again: <code>{text(reported.check, 300)}</code></p>")
    return section("Bounds, and what proves them", *parts)


def _word_section(reported: Reported) -> str:
    parts = []
    for name, words in reported.words.items():
        short = words if len(words) <= _LONGEST_WORDS else words[:_LONGEST_WORDS] + "\n… (mtpp export writes all)"
        parts.append(details(name, preformatted(short)))
    if reported.refusals:
        by_reason: dict[str, list[str]] = {}
        for name, reason in reported.refusals.items():
            by_reason.setdefault(reason.replace(name, "…"), []).append(name)
        rows = [[", ".join(names), reason] for reason, names in by_reason.items()]
        parts.append(
            details("Runtimes that cannot express this cut", table(["runtime", "why"], rows, words=True, longest=400))
        )
    return section("Words for runtimes", *parts)
