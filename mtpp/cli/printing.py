"""Output of a verb on stdout: a result line with tables below it, or one JSON document."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from instances import Instance, Partition, Result
from instances.errors import printable
from instances.json_files import json_text
from instances.system.interrupts import Stop, keeping_answers
from mtpp.cli import options
from mtpp.cli.exit_codes import DONE, IMPOSSIBLE, NOTHING
from mtpp.cli.messages import complain
from mtpp.cli.outputs import Files
from mtpp.text.tables import Rows, fitted, terminal_width

if TYPE_CHECKING:
    from mtpp.text.live_line import LiveLine

__all__ = ["Answers", "Printing", "question_line"]

# Of more k than this, only the result lines are printed.
_MOST_TABLES = 3


@dataclass(frozen=True)
class Printing:
    """Form of the output; the fields are options."""

    json: options.Json = False
    quiet: options.Quiet = False

    def working(self, label: str, cost: str = "bottleneck") -> LiveLine:
        """The live line on stderr, unless nobody wants it."""
        from mtpp.text.live_line import LiveLine

        if self.quiet:
            logging.getLogger("instances.compiled").setLevel(logging.WARNING)  # nor what else is told of the work
        return LiveLine(label, silent=self.quiet, cost=cost)

    def say(self, text: str) -> None:
        """Print text, unless stdout is for JSON."""
        if not self.json:
            print(text)

    def detail(self, *texts: str) -> None:
        """Print texts below an empty line each, unless nobody wants more than the result line."""
        for text in texts:
            if not self.quiet:
                self.say(f"\n{text}")

    def table(self, header: Sequence[str], rows: Rows, words: Collection[int] = (0,)) -> None:
        """Print a table as `fitted` makes it, as a detail."""
        self.detail(fitted(header, rows, terminal_width(), words))

    def notes(self, *results: Result[Any, Any]) -> None:
        """Print what belongs to answers beside them, a line each, below an empty one."""
        notes = dict.fromkeys(note for result in results for note in result.notes)
        if notes:
            self.say("\n" + "\n".join(f"Note: {printable(note)}." for note in notes))

    def rows(self, rows: Sequence[Mapping[str, str]]) -> None:
        """Print a table of rows, column to text; a row need not have all columns."""
        header = max(map(list, rows), key=len)
        self.say(fitted(header, [[row.get(name, "–") for name in header] for row in rows], terminal_width()))

    def document(self, document: Callable[[], Mapping[str, Any] | Sequence[Any]]) -> None:
        """Make and print the JSON document, if it is asked for."""
        if self.json:
            sys.stdout.write(json_text(document(), ascii_only=True))

    @contextmanager
    def answers(
        self,
        row: Callable[[Result], dict[str, str]],
        instances: Sequence[Instance],
        files: Files,
        *,
        tables: bool = True,
    ) -> Iterator[Answers]:
        """Collect answers, which are printed at the end, also when something has failed by then.

        Parameters
        ----------
        row : callable
            The result line of an answer.
        instances : sequence of Instance
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

    def _print(self, answers: Answers, row: Callable[[Result], dict[str, str]], *, tables: bool) -> None:
        if not answers.results:
            return
        if self.json:
            documents = answers.documents
            several = len(answers.instances) > 1
            return self.document((lambda: [document() for document in documents]) if several else documents[0])
        self.rows([row(result) for result in answers.results])
        self.notes(*answers.results)
        found = [result.partition for result in answers.results if result.partition is not None]
        self._tables(found if tables and not self.quiet else [])
        if len(answers.results) <= _MOST_TABLES:
            self.detail("\n".join(question_line(result.instance) for result in answers.results))
        return None

    def _tables(self, partitions: Sequence[Partition]) -> None:
        from mtpp.certifying.findings import memory_sentence
        from mtpp.cli.stage_tables import tables

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


class _Hashed(Protocol):
    """A question."""

    @property
    def question_hash(self) -> str: ...

    @property
    def label(self) -> str: ...


def question_line(instance: _Hashed) -> str:
    """The hash by which a question can be told from others, as far as ``--question`` needs it."""
    return f"question {instance.question_hash[:16]} ({printable(instance.label)})"


@dataclass
class Answers:
    """Results of a verb, one for each k, and what makes the JSON document of each."""

    instances: Sequence[Instance]
    files: Files
    results: list[Result]
    documents: list[Callable[[], dict[str, Any]]]
    #: Document of what is known of the question at work; None while that is nothing.
    at_work: tuple[Instance, Callable[[], Mapping[str, Any] | None]] | None = None
    stop: Stop | None = None

    def add(self, result: Result, document: Callable[[], dict[str, Any]]) -> None:
        """Take an answer, write and draw it."""
        with nullcontext() if self.stop is None else self.stop.deferred():
            self.at_work = None
            own = self.files.of(result.instance, self.instances)
            try:
                if any(found is not None for found in (result.impossible, result.partition, result.bound)):
                    own.write(document)
            finally:
                self.results.append(result)
                self.documents.append(document)
            own.draw(result)

    @property
    def stopped(self) -> bool:
        """Whether a signal was heard."""
        return self.stop is not None and self.stop.heard

    def save(self) -> None:
        """Write what is known of the question at work; whatever goes wrong, the work goes on to its own end."""
        if self.at_work is None:
            return
        instance, document = self.at_work
        with suppress(Exception):
            if (known := document()) is not None:
                self.files.of(instance, self.instances).write(lambda: known)

    def exit_code(self, *, bound_will_do: bool = False) -> int:
        """The largest of all answers; what is missing is said in a line of its own."""
        codes = {DONE}
        for answer in self.results:
            if answer.impossible is not None:
                codes.add(complain(f"{answer.instance.label}: {answer.impossible}", IMPOSSIBLE))
            elif answer.partition is None and not (bound_will_do and answer.bound is not None):
                codes.add(complain(f"{answer.instance.label}: none found", NOTHING))
        return max(codes)
