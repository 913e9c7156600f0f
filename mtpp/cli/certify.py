"""``mtpp certify``: searches and bounds together."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from instances import Instance, Result
from instances.errors import WordError, assumptions, said
from mtpp.cli import options
from mtpp.cli.command import Files, command, complain, file_for, read_starts
from mtpp.cli.exit_codes import IMPOSSIBLE, INTERRUPTED, NO_SOLVER, NOTHING
from mtpp.cli.printing import Answers, Printing
from mtpp.cli.step_table import draw_trace, tell_steps, with_steps
from mtpp.questions.partitioning import AUTO, OwnMethodsWords, PartitioningWords, StartWords, enough_for, instances_of
from mtpp.questions.words import SolvingWords, solve_options

if TYPE_CHECKING:
    from mtpp.certifying.least_k import LeastK
    from mtpp.certifying.loop import Turn
    from mtpp_models import SolveOptions, SolverNotAvailableError

# Shared by verbs with ``-k auto``: look for the least number of blocks, and say why it is the least.


def questions(graph: str, k: str | None, throughput: str | None, words: PartitioningWords) -> list[Instance]:
    """One question for each k; one for the least that the constraints name if k is asked for.

    Raises
    ------
    InputError
        If a word or the graph is refused.
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
    """Look for the least number of blocks, with progress; with `on_fault` also by proofs, not by search alone."""
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
    """Say why no number of blocks is known that will do, write the answer for the largest one, return the exit code."""
    largest = least.known.get(least.most)
    if largest is not None and not least.open and not least.by_itself:
        from mtpp.problems.checking import result_document

        files.write(partial(result_document, largest))
    code, reason = (NOTHING, None) if least.open else (IMPOSSIBLE, least.sentence())
    printing.document(lambda: {"instance": least.question.name, "k": None, "partition": None, "impossible": reason})
    return complain(least.sentence(), INTERRUPTED if least.interrupted else code)


def tell(least: LeastK | None, printing: Printing) -> None:
    """Say what is the least number of blocks, and why; on stderr where stdout is for JSON."""
    if least is None:
        return
    if not printing.json:
        printing.detail(least.sentence())
    elif not printing.quiet:
        print(least.sentence(), file=sys.stderr)


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
    own: OwnMethodsWords,
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
    from mtpp.cli.rows import certificate_row
    from mtpp.problems.checking import result_document

    faults: list[SolverNotAvailableError] = []
    methods = turns_of(own["methods"])
    traces: list[tuple[Instance, list[Turn]]] = []
    least, interrupted = None, False
    try:
        if k == AUTO:
            if start is not None:
                raise WordError("start", start, f"with {said('k', AUTO)} nothing is known of k; leave it out.")
            least = look(instances[0], throughput, settings, printing, on_fault=faults.append)
            if least.k is None:
                return no_k(least, printing, files)
            instances, starts = [least.known[least.k].instance], [least.known[least.k].partition]
        with printing.answers(certificate_row, instances, files) as answers:
            for instance, begin in zip(instances, starts, strict=True):
                steps: list[Turn] = []
                with printing.working(instance.label) as live:
                    result = find_and_prove(
                        instance,
                        settings,
                        start=begin,
                        known=answers.results if least is None else list(least.known.values()),
                        methods=methods,
                        on_progress=live.show,
                        on_fault=faults.append,
                        on_step=steps.append,
                        on_begin=partial(_hold, answers, instance),
                    )
                result = result.noted(*assumptions())
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
        tell(least, printing)
    finally:
        for fault in dict.fromkeys(map(str, faults)):
            complain(fault, NO_SOLVER)
    return NO_SOLVER if faults else answers.exit_code()


def _hold(answers: Answers, instance: Instance, incumbent: Callable[[], Result | None]) -> None:
    """Have what is known written if a signal stops the work."""
    from mtpp.problems.checking import result_document

    def document() -> dict[str, object] | None:
        result = incumbent()
        empty = result is None or result.impossible is not None or (result.bound is None and result.partition is None)
        return None if empty or result is None else result_document(result)

    answers.at_work = instance, document
