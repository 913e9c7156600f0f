"""``mtpp certify``: searches and bounds together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from instances import InputError, Instance, Partition, Result, combine
from instances.errors import WordError, assumptions, said
from mtpp.cli import options
from mtpp.cli.command import Files, command, complain, file_for, read_starts
from mtpp.cli.exit_codes import DONE, FALSE, IMPOSSIBLE, INTERRUPTED, NO_SOLVER, NOTHING
from mtpp.cli.printing import Answers, Printing, draw_trace, tell_steps, with_steps
from mtpp.problems.checking import certificate_document, result_document
from mtpp.questions.partitioning import (
    AUTO,
    BoundWords,
    PartitioningWords,
    PartitionWords,
    StartWords,
    UserMethodsWords,
    enough_for,
    instances_of,
)
from mtpp.questions.words import ProofWords, SeedWords, SolvingWords, checked, pick, solve_options

if TYPE_CHECKING:
    from mtpp.certifying.least_k import LeastK
    from mtpp.certifying.loop import Turn
    from mtpp_models import SolveOptions, SolverNotAvailableError

# Shared by verbs with ``-k auto``: look for the least number of blocks, and say why it is the least.


def questions(graph: str, k: str | None, throughput: str | None, words: PartitioningWords) -> list[Instance]:
    """One question for each k; with ``-k auto`` one for the least k that the constraints allow.

    Raises
    ------
    InputError
        If an option or the graph is refused.
    """
    if k == AUTO:
        return instances_of(graph, None, words, is_open=True)
    if throughput is not None:
        raise WordError("throughput", throughput, f"it is for {said('k', AUTO)}; leave it out, or give that.")
    return instances_of(graph, k, words)


def look(
    question: Instance,
    throughput: str | None,
    options: SolveOptions,
    printing: Printing,
    *,
    method: str = "portfolio",
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
) -> LeastK:
    """Result of the search for the least number of blocks, with progress; bounds are proved only with `on_fault`."""
    from mtpp.certifying.least_k import find_least

    enough = enough_for(question, throughput)
    with printing.working(f"{question.name}, k = auto") as live:
        return find_least(
            question,
            enough,
            options,
            method=method,
            prove=on_fault is not None,
            on_progress=live.show,
            on_fault=on_fault,
        )


def no_k(least: LeastK, printing: Printing, files: Files) -> int:
    """Print why no number of blocks suffices, write the answer for the largest; return the exit code."""
    largest = least.results.get(least.largest_k)
    if largest is not None and not least.open and not least.by_itself:
        files.write(partial(result_document, largest))
    code, reason = (NOTHING, None) if least.open else (IMPOSSIBLE, least.sentence())
    printing.document(lambda: {"instance": least.question.name, "k": None, "partition": None, "impossible": reason})
    return complain(least.sentence(), INTERRUPTED if least.interrupted else code)


def notes_of(least: LeastK | None) -> tuple[str, ...]:
    """Sentences beside an answer: the defaults that were taken and, with ``-k auto``, why k is the least."""
    return (*assumptions(), *([] if least is None else [least.sentence().removesuffix(".")]))


# The verb ``mtpp certify``: a good partition, and how good it is.


@command
def certify(
    *,
    graph: options.Graph,
    k: options.BlocksOrAuto = None,
    throughput: options.Throughput = None,
    question: PartitioningWords,
    solving: SolvingWords,
    starting: StartWords,
    user_methods: UserMethodsWords,
    explain: Annotated[
        bool, options.of_output("--explain", basic=False, help="Also what each step cost and gained.")
    ] = False,
    plot_progress: Annotated[
        Path | None,
        options.of_files(basic=False, metavar="FILE", help="Draw bottleneck and bound over time (.png, .svg or .pdf)."),
    ] = None,
    files: Files,
    printing: Printing,
) -> int:
    """Find a good partition and prove how good it is, under one time budget.

    Below the result line are the stages, and the tensors that cross each cut.
    If the solver fails at work, the other methods go on without it, and the exit code is 3.

    Example: mtpp certify bert-base -k 2,4,8 --time-limit 60 --out certificate.json
    """
    files.check()
    Files(plot=plot_progress).check()
    settings = solve_options(solving, solving["time_limit"])
    instances, start = questions(graph, k, throughput, question), starting["start"]
    starts = read_starts(None if k == AUTO else start, instances)

    from mtpp.api.partitioning import turns_of
    from mtpp.certifying.certify import certify as find_and_prove
    from mtpp.cli.printing import certificate_row

    faults: list[SolverNotAvailableError] = []
    methods = turns_of(user_methods["methods"])
    traces: list[tuple[Instance, list[Turn]]] = []
    least, interrupted = None, False
    try:
        if k == AUTO:
            if start is not None:
                raise WordError("start", start, f"with {said('k', AUTO)} nothing is known of k; leave it out.")
            least = look(instances[0], throughput, settings, printing, on_fault=faults.append)
            if least.k is None:
                return no_k(least, printing, files)
            instances, starts = [least.results[least.k].instance], [least.results[least.k].partition]
        with printing.answers(certificate_row, instances, files) as answers:
            for instance, begin in zip(instances, starts, strict=True):
                steps: list[Turn] = []
                with printing.working(instance.label) as live:
                    result = find_and_prove(
                        instance,
                        settings,
                        start=begin,
                        earlier=answers.results if least is None else list(least.results.values()),
                        methods=methods,
                        on_progress=live.show,
                        on_fault=faults.append,
                        on_step=steps.append,
                        on_begin=partial(_hold, answers, instance),
                    )
                result = result.noted(*notes_of(least))
                document = partial(result_document, result)
                answers.add(result, partial(with_steps, document, steps) if explain else document)
                if explain:
                    traces.append((instance, steps))
                if plot_progress is not None:
                    draw_trace(file_for(plot_progress, instance, instances), result)
                if interrupted := result.interrupted or answers.stopped:
                    break
        tell_steps(traces, printing)
        if interrupted:
            return INTERRUPTED
    finally:
        for fault in dict.fromkeys(map(str, faults)):
            complain(fault, NO_SOLVER)
    return NO_SOLVER if faults else answers.exit_code()


def _hold(answers: Answers, instance: Instance, incumbent: Callable[[], Result | None]) -> None:
    """Arrange that the best results so far are written if a signal stops the work."""

    def document() -> dict[str, object] | None:
        result = incumbent()
        empty = result is None or result.impossible is not None or (result.bound is None and result.partition is None)
        return None if empty or result is None else result_document(result)

    answers.at_work = instance, document


# ``mtpp partition`` and ``mtpp bound``: one search, one model.


# The verb ``mtpp partition``: the best cut that a search finds.


@command
def partition(
    *,
    graph: options.Graph,
    k: options.BlocksOrAuto = None,
    throughput: options.Throughput = None,
    method: Annotated[
        str, options.of_search(metavar="NAME", help="See mtpp list heuristics; one of your own is mine.py:NAME.")
    ] = "portfolio",
    words: PartitionWords,
    files: Files,
    printing: Printing,
) -> int:
    """Search for a partition with a small bottleneck.

    Below the result line are the stages, and the tensors that cross each cut.

    Example: mtpp partition bert-base -k 8 --bandwidth 25GB/s --dim batch=8 --out partition.json --plot partition.svg
    """
    files.check()
    instances = questions(graph, k, throughput, words)

    from mtpp.api.partitioning import searched
    from mtpp.cli.printing import partition_row

    seed, limit, least = words["seed"], words["time_limit"], None
    if k == AUTO:
        proof = checked(ProofWords, pick(SeedWords, words))
        least = look(instances[0], throughput, solve_options(proof, limit), printing, method=method)
        if least.k is None:
            return no_k(least, printing, files)
        instances = [least.results[least.k].instance]
    with printing.answers(partition_row, instances, files) as answers:
        for instance in instances:
            with printing.working(f"{instance.label}, {method}"):
                answer = searched(instance, method, seed, limit)
            if least is not None:
                answer = replace(combine(answer, least.results[instance.k]), method=method)
            answer = answer.noted(*notes_of(least))
            answers.add(answer, partial(certificate_document, [answer]))
            if answer.interrupted or answers.stopped:
                return INTERRUPTED
    return answers.exit_code()


# The verb ``mtpp bound``: what a model proves.


@dataclass(frozen=True)
class Exchange:
    """Options of `mtpp bound` for models of other programs and their answers."""

    export: Annotated[
        Path | None,
        options.of_files(
            basic=False,
            metavar="FILE",
            help="Write the model (.lp or .mps) instead of solving it, and its names in full (.names.json).",
        ),
    ] = None
    solution: Annotated[
        Path | None,
        options.of_files(
            basic=False,
            metavar="FILE",
            help="Read what a solver wrote of the exported model (HiGHS, CBC, GLPK, SCIP, Gurobi, a list of names and "
            "values) instead of solving it; with several k, '-kK' is put into the name.",
        ),
    ] = None
    stated_bound: Annotated[
        float | None,
        options.of_files(
            basic=False,
            metavar="X",
            help="What that solver states as its bound, in multiples of the file's unit of time. It is written as "
            "stated, not proved.",
        ),
    ] = None

    @property
    def reads(self) -> bool:
        """Whether another solver's solution or bound is read."""
        return self.solution is not None or self.stated_bound is not None

    def check(self, instances: Sequence[Instance], *, relaxation: bool) -> None:
        """Refuse options that contradict each other, with an `InputError`."""
        if self.reads and self.export is not None:
            raise InputError(f"--export {self.export}: write the model first, solve it, and then read the solution.")
        if relaxation and (self.reads or self.export is not None):
            raise InputError("--relaxation: nothing is solved where a model is written or read; leave it out.")
        if self.stated_bound is not None and len(instances) > 1:
            raise InputError(f"--stated-bound {self.stated_bound}: it is of one k; name that alone.")


@command
def bound(
    *,
    graph: options.Graph,
    k: Annotated[str | None, options.of_question("-k", metavar="K[,K…]", help="Number of blocks, or several.")] = None,
    model: Annotated[
        str,
        options.of_search(
            metavar="NAME",
            help="See mtpp list models; exact+all or coarse-4+cuts+joins are strengthened, and need --start. One of "
            "your own is mine.py:NAME or package.module:NAME; its bound is stated.",
        ),
    ] = "exact",
    words: BoundWords,
    files: Files,
    exchange: Exchange,
    printing: Printing,
) -> int:
    """Prove a lower bound on the bottleneck of every partition.

    With --export the model is written for another program, with --solution its answer is read back: the partition is
    checked and its cost computed anew, the bound is only stated.

    Example: mtpp bound bert-base -k 8 --model guess-the-bottleneck --solver highs --time-limit 60
    """
    files.check(exchange.export)
    solve_options(words, words["time_limit"])  # refused before a graph is read
    instances = instances_of(graph, k, words)
    exchange.check(instances, relaxation=words["relaxation"])
    starts = read_starts(words["start"], instances)
    if exchange.export is not None:
        return _export(instances, model, exchange.export, starts, printing)
    if exchange.reads:
        return _read_back(instances, model, exchange, starts, files, printing)

    from mtpp.api.partitioning import bounded
    from mtpp.cli.printing import bound_row

    with printing.answers(bound_row, instances, files, tables=False) as answers:
        for instance, begin in zip(instances, starts, strict=True):
            with printing.working(instance.label) as live:
                answer = bounded(instance, model, begin, words, live.show).noted(*assumptions())
            answers.add(answer, partial(certificate_document, [answer]))
            if answer.interrupted or answers.stopped:
                return INTERRUPTED
    return answers.exit_code(bound_will_do=True)


def _export(
    instances: Sequence[Instance], model: str, path: Path, starts: Sequence[Partition | None], printing: Printing
) -> int:
    from mtpp import write_model

    written = [
        str(file)
        for instance, begin in zip(instances, starts, strict=True)
        for file in write_model(instance, model, file_for(path, instance, instances), begin)
    ]
    printing.say("\n".join(written))
    printing.document(lambda: written)
    return DONE


def _read_back(
    instances: Sequence[Instance],
    model: str,
    exchange: Exchange,
    starts: Sequence[Partition | None],
    files: Files,
    printing: Printing,
) -> int:
    from mtpp.certifying.rerun import read_back
    from mtpp.cli.printing import bound_row

    code, sentences = DONE, []
    with printing.answers(bound_row, instances, files, tables=exchange.solution is not None) as answers:
        for instance, begin in zip(instances, starts, strict=True):
            path = None if exchange.solution is None else file_for(exchange.solution, instance, instances)
            read = read_back(instance, model, start=begin, solution=path, stated=exchange.stated_bound)
            answer, document = combine(*read.answers), partial(certificate_document, read.answers)
            assert answer.bound is not None
            answers.add(replace(answer, method=answer.bound.method if answer.bound.proved else model), document)
            if read.false is not None:
                code = complain(read.false, FALSE)
            elif not answer.bound.proved:
                sentences.append(
                    f"The bound of k = {instance.k} is stated by {read.source}; nothing here has proved it."
                )
    printing.detail(*sentences)
    return code
