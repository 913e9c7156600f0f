"""``mtpp partition`` and ``mtpp bound``: one search, one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from instances import InputError, Instance, Partition, combine
from instances.errors import assumptions
from mtpp.cli import options
from mtpp.cli.certify import look, no_k, questions, tell
from mtpp.cli.command import Files, command, complain, file_for, read_starts
from mtpp.cli.exit_codes import DONE, FALSE, INTERRUPTED
from mtpp.cli.printing import Printing
from mtpp.questions.partitioning import AUTO, BoundWords, PartitionWords, instances_of
from mtpp.questions.words import ProofWords, SeedWords, checked, pick, solve_options

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
    from mtpp.cli.rows import partition_row
    from mtpp.problems.checking import certificate_document

    seed, limit, least = words["seed"], words["time_limit"], None
    if k == AUTO:
        proof = checked(ProofWords, pick(SeedWords, words))
        least = look(instances[0], throughput, solve_options(proof, limit), printing, method=method)
        if least.k is None:
            return no_k(least, printing, files)
        instances = [least.known[least.k].instance]
    with printing.answers(partition_row, instances, files) as answers:
        for instance in instances:
            with printing.working(f"{instance.label}, {method}"):
                answer = searched(instance, method, seed, limit).noted(*assumptions())
            if least is not None:
                answer = replace(combine(answer, least.known[instance.k]), method=method)
            answers.add(answer, partial(certificate_document, [answer]))
            if answer.interrupted or answers.stopped:
                return INTERRUPTED
    tell(least, printing)
    return answers.exit_code()


# The verb ``mtpp bound``: what a model proves.


@dataclass(frozen=True)
class Exchange:
    """Models for other programs, and their answers; the fields are the words of the command line."""

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
        """Whether a solution or a bound of another solver is read."""
        return self.solution is not None or self.stated_bound is not None

    def check(self, instances: Sequence[Instance], *, relaxation: bool) -> None:
        """Refuse words that contradict each other, with an `InputError`."""
        if self.reads and self.export is not None:
            raise InputError(f"--export {self.export}: write the model first, solve it, and then read the solution.")
        if self.reads and relaxation:
            raise InputError("--relaxation: nothing is solved where a solution is read; leave it out.")
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
    from mtpp.cli.rows import bound_row
    from mtpp.problems.checking import certificate_document

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
    from mtpp.certificates.rerun import read_back
    from mtpp.cli.rows import bound_row
    from mtpp.problems.checking import certificate_document

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
