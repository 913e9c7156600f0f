"""The verb ``mtpp partition``: the best cut that a search finds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

from instances import combine
from mtpp.cli import options
from mtpp.cli.command import command
from mtpp.cli.exit_codes import INTERRUPTED
from mtpp.cli.least_k import look, no_k, questions, tell
from mtpp.cli.outputs import Files
from mtpp.cli.printing import Printing
from mtpp.questions.partitioning import AUTO, PartitionWords
from mtpp.questions.solving import ProofWords, SeedWords, solve_options
from mtpp.questions.words import checked, pick

__all__ = ["partition"]


@command
def partition(
    *,
    graph: options.Graph,
    k: options.BlocksOrAuto = None,
    throughput: options.Throughput = None,
    method: Annotated[str, options.of_search(metavar="NAME", help="See mtpp list heuristics.")] = "portfolio",
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
    from mtpp.certificates.writing import partition_answer
    from mtpp.cli.rows import partition_row

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
                answer = searched(instance, method, seed, limit)
            if least is not None:
                answer = replace(combine(answer, least.known[instance.k]), method=method)
            answers.add(answer, partial(partition_answer, answer))
            if answer.interrupted or answers.stopped:
                return INTERRUPTED
    tell(least, printing)
    return answers.exit_code()
