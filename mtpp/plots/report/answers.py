"""Answer to any question as a part of a page: its proved quality, the question, the answer, settings of runtimes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from instances import Result
from instances.results import PROOF_TOLERANCE
from mtpp.plots.report.drawing import details, html, paragraph, preformatted, table, text
from mtpp.plots.sections import Section, Table
from mtpp.problems.registry import PROBLEMS
from mtpp.verification.verdict import Verdict

_LONGEST_WORDS = 4000


@dataclass(frozen=True)
class Reported:
    """An answer with the verdict, settings and notes that its page shows."""

    result: Result[Any, Any]
    verdict: Verdict | None  # of a check with code of its own; None if there was none
    _: KW_ONLY
    unchecked: str = ""  # why there was none
    check: str = ""  # the command that checks it again; empty if there is no file
    words: Mapping[str, str] = field(default_factory=dict)  # settings of runtimes by their names
    refusals: Mapping[str, str] = field(default_factory=dict)  # why others have none
    files: Sequence[Sequence[str]] = ()  # of a folder of stages: name, nodes, inputs, outputs


def article(reported: Reported) -> tuple[str, str]:
    """Title (plain text) and HTML of a page's part."""
    return reported.result.instance.label, "".join(_parts(reported))


def _parts(reported: Reported) -> Iterator[str]:
    result = reported.result
    problem = PROBLEMS.of(result.instance)
    yield _headline(reported)
    facts = result.instance._facts() if result.answer is None else problem.facts(result.answer)
    yield html(Section("Question", facts=facts))
    if result.notes:
        yield html(Section("What to know beside it", sentences=[f"{note}." for note in result.notes]))
    yield _bound_section(reported)
    if result.answer is not None:
        yield from map(html, problem.sections(result.answer, result.bound))
    if reported.files:
        header = ["stage", "file", "nodes", "reads", "gives", "predicted"]
        yield html(Section("Files of the stages", table=Table(header, reported.files, words=True, longest=200)))
    if reported.words or reported.refusals:
        yield _word_section(reported)


def _headline(reported: Reported) -> str:
    """HTML of the cost of an answer, of a sentence on how good it is and what that rests on, and of faults."""
    result, verdict = reported.result, reported.verdict
    kind, words = _standing(reported)
    cost = ""
    if result.answer is not None:
        name = result.instance.cost_name
        cost = text(f"{name} {result._facts()[name]}", None)
        measures: Mapping[str, str] = getattr(result.answer, "measures", {})
        cost += paragraph(", ".join(f"{label} {value}" for label, value in measures.items()), "soft")
    faults = "" if verdict is None else "".join(paragraph(fault, "bad") for fault in verdict.faults)
    return f'<div class="headline">{cost}<p class="{kind}">{text(words, None)}</p>{faults}</div>'


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
    if verdict.proved_of_all:
        return "good", f"Proved again: {verdict.proved_of_all}."
    proved = verdict.proved_ratio
    ratio = None if proved is None else float(proved)
    if ratio is None:
        return "warn", "No bound says how good this answer is." if not verdict.checks else _trusted(verdict)
    method = max(verdict.checks, key=lambda check: check.proved or 0).claim.method
    covered = PROBLEMS.of(result.instance).covers(method)
    if ratio <= 1 + PROOF_TOLERANCE:
        sentence = f"Optimal over {covered}" if covered else "Optimal: no answer to this question costs less"
        return "good", f"{sentence}; proved again for this page."
    if verdict.rests_on_trust:
        return (
            "warn",
            f"{_trusted(verdict)} By bounds proved again for this page alone it is at most {ratio - 1:.2%} above.",
        )
    sentence = f"At most {ratio - 1:.2%} above the optimum (ratio {ratio:.6f})"
    return "good", f"{sentence}{f' over {covered}' if covered else ''}; proved again for this page."


def _trusted(verdict: Verdict) -> str:
    ratio = verdict.stated_ratio
    if ratio is None:
        return "Its bounds are trusted, not proved here."
    far = "Optimal" if float(ratio) <= 1 + PROOF_TOLERANCE else f"At most {float(ratio) - 1:.2%} above the optimum"
    return f"{far}, if a bound holds that is trusted here, not proved again."


def _bound_section(reported: Reported) -> str:
    verdict, title = reported.verdict, "Bounds, and what proves them"
    if verdict is None or not verdict.checks:
        bound = reported.result.bound
        words = "No bound is stated." if bound is None else f"{reported.result._facts()['bound']}; not checked here."
        if verdict is not None and verdict.proved_of_all:
            words = "All answers were compared anew; there is no bound to state."
        section = Section(title, sentences=[words])
    else:
        header, *rows = verdict.table()
        section = Section(title, table=Table(header, rows, words=True, longest=300))
    check = f"<p>To check it again: <code>{text(reported.check, 300)}</code></p>" if reported.check else ""
    return html(section) + check


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
        summary = "Runtimes that cannot express this cut"
        parts.append(table(Table(["runtime", "why"], rows, words=True, longest=400, summary=summary)))
    return html(Section("Words for runtimes")) + "".join(parts)
