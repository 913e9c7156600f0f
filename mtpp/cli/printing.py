"""Lines and tables that verbs print."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from instances import Bound, Instance, Partition, Result
from instances.errors import ASSUMED, assumptions, printable
from instances.graph.tensors import FloatArray, IntArray
from instances.json_files import json_text
from instances.partitioning.partition import crossings, stages
from instances.partitioning.stated import Crossing, StageReport
from instances.results import LP_SUFFIX, A, Q, Question
from instances.system.processes import Stop, keeping_answers
from mtpp.cli import options
from mtpp.cli.command import Files, complain
from mtpp.cli.exit_codes import DONE, IMPOSSIBLE, INTERRUPTED, NO_SOLVER, NOTHING
from mtpp.problems.checking import result_document
from mtpp.text.numbers import Scale, bytes_in_words, or_dash
from mtpp.text.tables import LiveLine, Rows, fitted, terminal_width

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mtpp.certifying.loop import Turn
    from mtpp_models import SolverNotAvailableError

#: Receives each solver that is missing or fails.
OnFault: TypeAlias = "Callable[[SolverNotAvailableError], None]"

# Tables below the result: what each stage of a partition is and costs, and what crosses each cut.


# Of many stages and cuts, so many are shown; of the tensors of a cut, and of those of all cuts together.
_MOST_ROWS, _MOST_A_CUT, _MOST_TENSORS = 64, 16, 64


def tables(partition: Partition, width: int | None) -> list[str]:
    """Tables of a partition's stages and of the tensors between them, as text.

    Parameters
    ----------
    width : int, optional
        Width of the terminal [characters].
    """
    reports, moved = stages(partition), crossings(partition)
    parts = [stage_table(partition, reports, width)]
    return [*parts, crossing_table(partition, reports, moved, width)] if moved else parts


def stage_table(partition: Partition, reports: Sequence[StageReport], width: int | None) -> str:
    """A row for each stage, at most the costliest of very many; empty ones are counted.

    Parameters
    ----------
    reports : sequence of StageReport
        Reports on the stages of the partition.
    width : int, optional
        Width of the terminal [characters].
    """
    cheapest_first = sorted(reports, key=lambda stage: stage.cost)
    hidden = cheapest_first[: max(0, len(reports) - _MOST_ROWS)]
    listed = sorted(cheapest_first[len(hidden) :], key=lambda stage: stage.stage)
    time = Scale.of_times((stage.cost for stage in listed), partition.instance.time_unit)
    times = ["work", "receive", "send", *(["overflow"] if any(stage.overflow for stage in reports) else []), "cost"]
    states = {"states": "state_bytes"} if any(stage.state_bytes for stage in reports) else {}
    sizes = {"parameters": "param_bytes", **states, "peak": "peak_bytes"}
    size = Scale.of_bytes(getattr(stage, field) for stage in listed for field in sizes.values())
    on = [f" {printable(name)}" for name in partition.kind_names] or [""] * partition.instance.k
    rows = [
        [
            f"{stage.stage}{on[stage.stage]}",
            stage.first,
            stage.last if stage.nodes > 1 else "",
            str(stage.nodes),
            *(time.cell(getattr(stage, name)) for name in times),
            f"{stage.share:.1%}",
            *(size.cell(getattr(stage, field)) for field in sizes.values()),
        ]
        for stage in listed
    ]
    header = ["stage", "first node", "last node", "nodes", *(f"{name} [{time.unit}]" for name in times), "share"]
    table = fitted([*header, *(f"{name} [{size.unit}]" for name in sizes)], rows, width, words={0, 1, 2})
    notes = []
    if hidden:
        notes.append(f"… {len(hidden)} more stages, each at most {hidden[-1].share:.1%} of the bottleneck")
    if empty := partition.instance.k - len(reports):
        notes.append(f"empty: {empty} of {partition.instance.k} stages")
    return "\n".join([table, *notes])


def crossing_table(
    partition: Partition, reports: Sequence[StageReport], moved: Sequence[Crossing], width: int | None
) -> str:
    """The tensors that cross each cut between consecutive stages, the largest first.

    A tensor crosses a cut if it is made before and read behind it, so that one of many stages is in several cuts.

    Parameters
    ----------
    reports : sequence of StageReport
        Reports on the stages of the partition.
    moved : sequence of Crossing
        At least one, of the partition.
    width : int, optional
        Width of the terminal [characters].
    """
    before = np.array([stage.stage for stage in reports[:-1]])
    source = np.array([tensor.source for tensor in moved])
    last = np.array([tensor.readers[-1] for tensor in moved])
    size = np.array([tensor.bytes for tensor in moved])
    totals = _totals(np.searchsorted(before, source), np.searchsorted(before, last), size, len(before))
    cuts = np.sort(np.argsort(-totals, kind="stable")[:_MOST_ROWS])
    largest = float(totals[cuts].max())
    sizes = Scale.of_bytes([largest])
    times = Scale.of_times([largest / partition.instance.platform.bandwidth], partition.instance.time_unit)
    limit = min(_MOST_A_CUT, max(1, _MOST_TENSORS // len(cuts)))
    outputs = np.diff(partition.instance.graph.output_start)
    rows: list[list[str]] = []
    for cut in cuts.tolist():
        crossing = np.flatnonzero((source <= before[cut]) & (last > before[cut]))
        crossing = crossing[np.argsort(-size[crossing], kind="stable")]
        label = f"{before[cut]}|{reports[cut + 1].stage}"
        rows += _cut_rows(label, [moved[i] for i in crossing.tolist()], limit, outputs, (sizes, times))
    header = ["cut", "tensor", "from", "to", f"size [{sizes.unit}]", f"time [{times.unit}]"]
    table = fitted(header, rows, width, words={0, 1, 3})
    hidden = len(before) - len(cuts)
    return (
        f"{table}\n… {hidden} more cuts, each of at most {bytes_in_words(float(totals[cuts].min()))}"
        if hidden
        else table
    )


def _cut_rows(
    label: str, crossing: Sequence[Crossing], limit: int, outputs: IntArray, scales: tuple[Scale, Scale]
) -> Iterator[list[str]]:
    """Rows for a cut and its tensors; a single tensor shares the row of its cut."""

    def numbers(tensors: Sequence[Crossing]) -> list[str]:
        sums = (sum(tensor.bytes for tensor in tensors), sum(tensor.time for tensor in tensors))
        return [scale.cell(total) for scale, total in zip(scales, sums, strict=True)]

    if len(crossing) > 1:
        yield [label, f"{len(crossing)} tensors", "", "", *numbers(crossing)]
        label = ""
    limit += len(crossing) == limit + 1  # a row that says "1 more" says less than the tensor
    for tensor in crossing[:limit]:
        name = f"{tensor.producer}:{tensor.output}" if outputs[tensor.node] > 1 else tensor.producer
        yield [label, name, str(tensor.source), _ranges(tensor.readers), *numbers([tensor])]
    if rest := crossing[limit:]:
        yield ["", f"… {len(rest)} more", "", "", *numbers(rest)]


def _ranges(numbers: Sequence[int]) -> str:
    """Sorted numbers with runs as ranges: 1–3,5."""
    cuts = [i for i in range(1, len(numbers)) if numbers[i] != numbers[i - 1] + 1]
    runs = [numbers[i:j] for i, j in zip([0, *cuts], [*cuts, len(numbers)], strict=True)]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def _totals(first: IntArray, behind: IntArray, size: FloatArray, count: int) -> FloatArray:
    """(count,) bytes that cross each cut; tensor i crosses cuts `first` to `behind` - 1."""
    change = np.zeros(count + 1)
    np.add.at(change, first, size)
    np.subtract.at(change, behind, size)
    return np.maximum(0.0, np.cumsum(change[:count]))


# Output of a verb on stdout: a result line with tables below it, or one JSON document.


# Of more k than this, only the result lines are printed.
_MOST_TABLES = 3


@dataclass(frozen=True)
class Printing:
    """Options for the form of the output, and the functions that print in this form."""

    json: options.Json = False
    quiet: options.Quiet = False

    def working(self, label: str, cost: str = "bottleneck") -> LiveLine:
        """The live line on stderr, unless output is quiet."""
        return LiveLine(label, silent=self.quiet, cost=cost)

    def say(self, text: str) -> None:
        """Print text, unless stdout is for JSON."""
        if not self.json:
            print(text)

    def detail(self, *texts: str) -> None:
        """Print texts after an empty line each, unless output is quiet."""
        for text in texts:
            if not self.quiet:
                self.say(f"\n{text}")

    def table(self, header: Sequence[str], rows: Rows, words: Collection[int] = (0,)) -> None:
        """Print a table as a detail, fitted to the width of the terminal."""
        self.detail(fitted(header, rows, terminal_width(), words))

    def part_table(self, result: Result[Any, Any]) -> None:
        """Print the table of the answer's parts, as a detail."""
        assert result.answer is not None
        self.table(*result.answer._rows())

    def notes(self, *results: Result[Any, Any]) -> None:
        """Print notes on answers, a line each; notes on assumed defaults are left out if output is quiet."""
        notes = dict.fromkeys(note for result in results for note in result.notes)
        lines = [f"{printable(note)}." for note in notes if not (self.quiet and note.startswith(ASSUMED))]
        if lines:
            self.say("\n" + "\n".join(lines))

    def rows(self, rows: Sequence[Mapping[str, str]]) -> None:
        """Print a table of rows, each a mapping from column to text, perhaps incomplete."""
        header = max(map(list, rows), key=len)
        self.say(fitted(header, [[row.get(name, "–") for name in header] for row in rows], terminal_width()))

    def document(self, document: Callable[[], Mapping[str, Any] | Sequence[Any]]) -> None:
        """Make and print the JSON document if it was asked for."""
        if self.json:
            sys.stdout.write(json_text(document(), ascii_only=True))

    def answer(
        self,
        label: tuple[str, str],
        find: Callable[[LiveLine, OnFault], Result[Q, A]],
        files: Files,
        show: Callable[[Result[Q, A]], None],
        tables: Callable[[Result[Q, A]], None] = lambda result: None,
        figure: Callable[[Result[Q, A]], Figure] = Result.plot,
    ) -> int:
        """Find, write, print and draw the answer to a question; return the exit code.

        Parameters
        ----------
        label : two texts
            The question and its cost, for the live line.
        find : callable
            The answer, from the live line and a listener for solvers that fail.
        files : Files
        show : callable
            Prints the result lines of an answer.
        tables : callable
            Prints the tables and notes below the result lines.
        figure : callable
            Makes the picture of an answer.
        """
        from mtpp import SolverNotAvailableError

        faults = list[SolverNotAvailableError]()
        with keeping_answers() as stop:
            with self.working(*label) as live:
                result = find(live, faults.append).noted(*assumptions())
            for line in dict.fromkeys(map(str, faults)):
                complain(line, NO_SOLVER)
            stopped = stop.heard or result.interrupted
            if result.impossible is not None:
                return complain(f"{result.instance.label}: {result.impossible}", IMPOSSIBLE)
            if result.answer is None:
                return complain(f"{result.instance.label}: none found", INTERRUPTED if stopped else NOTHING)
            document = partial(result_document, result)
            with stop.deferred():
                files.write(document)
                show(result)
                self.notes(result)
                tables(result)
                self.detail(question_line(result.instance))
                self.document(document)
            files.draw(result, figure)
        if stop.heard or result.interrupted:
            return INTERRUPTED
        if faults:
            return NO_SOLVER
        return DONE if getattr(result.answer, "fits", True) else NOTHING

    @contextmanager
    def answers(
        self,
        row: Callable[[Result[Any, Any]], dict[str, str]],
        instances: Sequence[Any],
        files: Files,
        *,
        tables: bool = True,
    ) -> Iterator[Answers]:
        """Context in which answers are collected; they are printed at its end, after failures too.

        Parameters
        ----------
        row : callable
            The result line of an answer.
        instances : sequence
            The questions: of several, the JSON document is a list.
        files : Files
            Where each answer is written and drawn as soon as it is there.
        tables : bool
            Whether the stages of partitions are printed, too.
        """
        answers = Answers(instances, files, [], [])
        with keeping_answers(answers.save) as stop:
            answers.stop = stop
            try:
                yield answers
            finally:
                with stop.deferred():
                    self._print(answers, row, tables=tables)

    def _print(self, answers: Answers, row: Callable[[Result[Any, Any]], dict[str, str]], *, tables: bool) -> None:
        if not answers.results:
            return
        if self.json:
            documents = answers.documents
            several = len(answers.instances) > 1
            return self.document((lambda: [document() for document in documents]) if several else documents[0])
        self.rows([row(result) for result in answers.results])
        self.notes(*answers.results)
        partitions = [result.partition for result in answers.results if result.partition is not None]
        self._tables(partitions if tables and not self.quiet else [])
        if len(answers.results) <= _MOST_TABLES:
            self.detail("\n".join(question_line(result.instance) for result in answers.results))
        return None

    def _tables(self, partitions: Sequence[Partition]) -> None:
        from mtpp.certifying.explain import memory_sentence

        several, sentences = len(partitions) > 1, map(memory_sentence, partitions)
        for partition, sentence in zip(partitions, sentences, strict=True):
            if sentence is not None:
                self.say(f"k = {partition.instance.k}: {sentence}" if several else sentence)
        if len(partitions) > _MOST_TABLES:
            return self.detail(
                f"Stages and cuts are shown of at most {_MOST_TABLES} k; mtpp explain shows those of a file."
            )
        for partition in partitions:
            heading = [f"k = {partition.instance.k}"] if several else []
            self.detail(*heading, *tables(partition, terminal_width()))


def question_line(instance: Question) -> str:
    """The question's hash, shortened as far as ``--question`` accepts it."""
    return f"question {instance.question_hash[:19]} ({printable(instance.label)})"


@dataclass
class Answers:
    """Results of a verb, one for each k or point of a front, with their JSON documents."""

    instances: Sequence[Any]
    files: Files
    results: list[Result[Any, Any]]
    documents: list[Callable[[], dict[str, Any]]]
    #: Document of what is known of the question at work; None while that is nothing.
    at_work: tuple[Instance, Callable[[], Mapping[str, Any] | None]] | None = None
    stop: Stop | None = None

    def add(self, result: Result[Any, Any], document: Callable[[], dict[str, Any]]) -> None:
        """Record, write and draw an answer."""
        with nullcontext() if self.stop is None else self.stop.deferred():
            self.at_work = None
            files = self.files.of(result.instance, self.instances)
            try:
                if any(part is not None for part in (result.impossible, result.answer, result.bound)):
                    files.write(document)
            finally:
                self.results.append(result)
                self.documents.append(document)
            files.draw(result)

    @property
    def stopped(self) -> bool:
        """Whether a signal has arrived."""
        return self.stop is not None and self.stop.heard

    def save(self) -> None:
        """Write the best results of the current question; errors of writing do not stop the work."""
        if self.at_work is None:
            return
        instance, document = self.at_work
        with suppress(Exception):
            if (incumbent := document()) is not None:
                self.files.of(instance, self.instances).write(lambda: incumbent)

    def exit_code(self, *, bound_will_do: bool = False) -> int:
        """The largest exit code of all answers; missing answers are reported in a line."""
        codes = {DONE}
        for answer in self.results:
            if answer.impossible is not None:
                codes.add(complain(f"{answer.instance.label}: {answer.impossible}", IMPOSSIBLE))
            elif answer.answer is None and not (bound_will_do and answer.bound is not None):
                codes.add(complain(f"{answer.instance.label}: none found", NOTHING))
        return max(codes)


# Table of ``mtpp certify --explain``: the cost of each step, and the best results after it.


def with_steps(document: Callable[[], dict[str, Any]], steps: Sequence[Turn]) -> dict[str, Any]:
    """The JSON document of an answer with its steps as `provenance`, which no check reads."""
    members = document()
    return {**members, "provenance": {**members["provenance"], "steps": [asdict(step) for step in steps]}}


def tell_steps(traces: Sequence[tuple[Instance, Sequence[Turn]]], printing: Printing) -> None:
    """Print a table of improvements for each question."""
    for instance, steps in traces:
        unit = instance.graph.time_unit
        header = ["step", "seconds", "at its end", f"bottleneck [{unit}]", f"bound [{unit}]", "by", "ratio"]
        rows = [_step_row(step) for step in steps]
        printing.say(f"\nSteps, k = {instance.k}:")
        printing.say(fitted(header, rows, terminal_width()))


def draw_trace(path: Path, result: Result) -> None:
    """Draw cost and bound over time, if the result has a trace."""
    from mtpp.plots.profiles import plot_trace
    from mtpp.plots.style import save_figure

    if result.moments:
        save_figure(plot_trace(result), path)


def _step_row(step: Turn) -> list[str]:
    ratio = f"{step.bottleneck / step.bound:.4f}" if step.bottleneck is not None and step.bound else "–"
    times = [f"{step.seconds:.2f}", f"{step.end:.2f}"]
    return [step.method, *times, or_dash(step.bottleneck), or_dash(step.bound), step.by or "–", ratio]


# Result lines of verbs: one aligned row per instance and k.


#: Column to text.
Row = dict[str, str]


def partition_row(answer: Result) -> Row:
    """Table row of a heuristic's partition, with its ratio to the bound *simple*."""
    from mtpp.api.partitioning import over_simple

    partition = answer.partition
    return {
        **_instance(answer.instance),
        "method": answer.method,
        **(_no_costs(answer.instance) if partition is None else _costs(partition)),
        "over simple": "–" if partition is None else or_dash(over_simple(partition.bottleneck, answer.instance), ".4f"),
        "seconds": f"{answer.spent:.2f}",
    }


def bound_row(answer: Result) -> Row:
    """Table row of a model's bound, with the best known partition."""
    from mtpp.api.partitioning import over_simple

    value = None if answer.bound is None else answer.bound.value
    unit = answer.instance.graph.time_unit
    return {
        **_instance(answer.instance),
        "model": answer.method,
        "solver": answer.solver or "–",
        **_relaxation(answer.bound, unit),
        f"bound [{unit}]": or_dash(value),
        "to its end": "–" if answer.bound is None else _standing(answer.bound),
        "over simple": "–" if value is None else or_dash(over_simple(value, answer.instance), ".4f"),
        f"bottleneck [{unit}]": or_dash(None if answer.partition is None else answer.partition.bottleneck),
        "ratio": or_dash(answer.ratio, ".4f"),
        "seconds": f"{answer.spent:.2f}",
    }


def certificate_row(answer: Result) -> Row:
    """Table row of a certificate: the best partition, the best bound and their ratio."""
    return {
        **_instance(answer.instance),
        **(_no_costs(answer.instance) if answer.partition is None else _costs(answer.partition)),
        f"bound [{answer.instance.graph.time_unit}]": or_dash(None if answer.bound is None else answer.bound.value),
        "by": answer.by,
        "ratio": or_dash(answer.ratio, ".4f"),
        "status": answer.status.value,
        "seconds": f"{answer.spent:.2f}",
    }


def explained_row(partition: Partition, bound: Bound | None) -> Row:
    """Table row of a given partition: its costs, the best known bound and their ratio."""
    fits = partition.bottleneck < math.inf
    answer = Result("given", partition.instance, partition if fits else None, bound)
    return {name: cell for name, cell in certificate_row(answer).items() if name != "seconds"}


def _instance(instance: Instance) -> Row:
    ratio = instance.communication_over_work
    return {
        "instance": instance.name,
        "n": str(instance.graph.n),
        "m": str(instance.graph.m),
        "comm/work": "–" if ratio is None else f"{ratio:.3g}",
        "k": str(instance.k),
    }


def _costs(partition: Partition) -> Row:
    values = (partition.bottleneck, partition.throughput, partition.latency)
    return {**dict(zip(_cost_columns(partition.instance), map(or_dash, values), strict=True)), **_memory(partition)}


def _memory(partition: Partition) -> Row:
    """Cells for the memory of the fullest block and the overflow of the slowest; empty if everything fits."""
    overflow, unit = partition.costs.overflow, partition.instance.graph.time_unit
    if not overflow.any():
        return {}
    need = float((partition.param_bytes + partition.state_bytes + partition.peaks).max())
    return {"memory": bytes_in_words(need), f"overflow [{unit}]": or_dash(overflow[partition.block_costs.argmax()])}


def _no_costs(instance: Instance) -> Row:
    return dict.fromkeys(_cost_columns(instance), "–")


def _cost_columns(instance: Instance) -> tuple[str, str, str]:
    """Names of the columns for costs; runs of several samples are called batches."""
    unit, dims = instance.graph.time_unit, instance.graph.attributes.get("dims", {})
    runs = "1" if dims.get("batch", 1) == 1 else "batches"
    return f"bottleneck [{unit}]", f"throughput [{runs}/{unit}]", f"latency [{unit}]"


def _relaxation(bound: Bound | None, unit: str) -> Row:
    """Cell with the value of the linear relaxation; empty for other bounds."""
    if bound is None or not bound.method.endswith(LP_SUFFIX):
        return {}
    return {f"LP [{unit}]": or_dash(bound.witness["relaxation"])}


def _standing(bound: Bound) -> str:
    """Text of a table cell: "yes" or "no" whether a proved bound is the best of its method, "stated" without proof."""
    return ("yes" if bound.optimal else "no") if bound.proved else "stated"
