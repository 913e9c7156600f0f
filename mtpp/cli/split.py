"""The verb ``mtpp split``: a model in stages, as files that run, with the certificate beside them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from instances import ComputationGraph, InputError, Instance, Partition, Platform, combine
from instances.errors import InputWarning
from instances.partitioning.answer_file import AnswerFile
from instances.partitioning.constraints import NO_CONSTRAINTS
from instances.partitioning.constraints_file import read_constraints
from instances.registry import find
from mtpp.cli import options
from mtpp.cli.command import Without, takes_words
from mtpp.cli.exit_codes import DONE, IMPOSSIBLE, INTERRUPTED, NO_SOLVER, NOTHING
from mtpp.cli.messages import complain
from mtpp.cli.printing import Printing
from mtpp.questions.partitioning import Reading, Solving, bandwidth_of, memory_limits
from mtpp.stages.manifest import check_new_folder
from mtpp.text.parsing import parse_dims

if TYPE_CHECKING:
    from mtpp_models import SolverNotAvailableError

__all__ = ["split"]

_FOR_ONNX = Without({"level", "training", "reader", "communication", "input_work", "time_unit"})


@dataclass(frozen=True, kw_only=True)
class _Question:
    """What is to be split, and how; the fields are the words of the command line."""

    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="An ONNX model, with its weights beside it.")]
    blocks: Annotated[int | None, options.of_question("-k", metavar="K", min=1, help="Number of stages.")] = None
    partition: Annotated[
        Path | None,
        options.of_question(metavar="FILE", help="Split as this says: a certificate or a partition of the model."),
    ] = None
    bandwidth: Annotated[
        str | None,
        options.of_question(
            metavar="RATE|measured", help="Between stages: 25GB/s, or what it is here.  [default: 25GB/s]"
        ),
    ] = None
    memory: options.Memory = None
    activation_buffer: options.ActivationBuffer = None
    fit: options.Fit = False
    constraints: options.ConstraintsFile = None
    reading: Annotated[Reading, _FOR_ONNX]
    cost: options.Cost = None

    def start(self) -> tuple[Instance, Partition | None]:
        """The question, and the partition that is given.

        Raises
        ------
        InputError
            If a word, the model or the partition is refused.
        """
        if (self.blocks is None) == (self.partition is None):
            raise InputError("say how many stages there are with -k, or which ones with --partition FILE.")
        answer = None if self.partition is None else AnswerFile.read(self.partition)
        if answer is not None and answer.holds_graph:
            from mtpp.stages.splitting import check_same

            words = (self.bandwidth, self.memory, self.activation_buffer, self.constraints, self.cost)
            if words != (None,) * 5 or self.fit:
                raise InputError(f"{self.partition}: a certificate holds its question; leave out what says another.")
            graph, given = self.reading.load(str(self.model)), answer.certified()[0]
            check_same(graph, given.instance.graph, str(self.partition))
            return given.instance, given
        graph = self.reading.load(str(self.model), cost=self.cost)
        rules = NO_CONSTRAINTS if self.constraints is None else read_constraints(self.constraints, graph)
        if answer is None:
            assert self.blocks is not None
            return Instance(graph, self._platform(graph, self.blocks), constraints=rules), None
        given = answer.partition(
            graph, lambda k, said: self._platform(graph, k, said), rules if self.constraints is not None else None
        )
        return given.instance, given

    def _platform(self, graph: ComputationGraph, k: int, said: dict[str, float | None] | None = None) -> Platform:
        """The platform of the words, or that of the file where they say nothing."""
        from mtpp.stages.splitting import MEASURED, measured_bandwidth

        told = said or {}
        rate = told.get("bandwidth")
        if self.bandwidth == MEASURED:
            rate = measured_bandwidth()
        elif self.bandwidth is not None or rate is None:
            rate = bandwidth_of(graph, self.bandwidth)
        memory, buffer = told.get("memory"), told.get("activation_buffer")
        if self.memory is not None or memory is None:
            memory, buffer = memory_limits(self.memory, self.activation_buffer)
        return Platform(k, rate, memory, buffer, self.fit or bool(told.get("fit")))


@takes_words
def split(
    *,
    question: _Question,
    out: Annotated[Path, options.of_files(metavar="FOLDER", help="Where the stages are written; new or empty.")],
    samples: Annotated[
        bool, options.of_files("--samples/--no-samples", help="Run the whole model once, to compare outputs with.")
    ] = True,
    method: Annotated[
        str | None,
        options.of_search(
            metavar="NAME", help="Search by this alone (mtpp list heuristics), and prove next to nothing."
        ),
    ] = None,
    solving: Solving,
    printing: Printing,
) -> int:
    """Cut an ONNX model into stages that run, and write them with a certificate of how good the cut is.

    The folder holds a model a stage, its weights, the certificate and manifest.json (mtpp-stages/1). Nothing outside of
    it is written. With --partition, that partition is kept, and the time is for a bound on it.

    Example: mtpp split model.onnx -k 4 --bandwidth 10GB/s --out stages
    """
    from mtpp.stages.splitting import check_model, find_answers

    check_new_folder(out)
    check_model(question.model)
    if method is not None:
        from heuristics import HEURISTICS

        find(HEURISTICS, method, "heuristic")
    settings = solving.options()
    instance, given = question.start()
    faults: list[SolverNotAvailableError] = []
    with printing.working(instance.label) as live:
        answers = find_answers(
            instance, settings, given=given, method=method, on_progress=live.show, on_fault=faults.append
        )
    best = combine(*answers)
    if best.partition is None:
        if best.impossible is not None:
            return complain(f"{instance.label}: {best.impossible}", IMPOSSIBLE)
        return complain(f"{instance.label}: none found", NOTHING)

    from mtpp.cli.rows import certificate_row
    from mtpp.stages.folder import write_stages

    dims = {name: int(size) for name, size in parse_dims(question.reading.dim or ()).items()}
    manifest = write_stages(question.model, answers, out, dims=dims, samples=samples, on_fault=_warn)
    printing.rows([certificate_row(best)])
    printing.say(f"{len(manifest.stages)} stages in {out}; run them: mtpp run {out}")
    printing.document(manifest.document)
    for fault in dict.fromkeys(map(str, faults)):
        complain(fault, NO_SOLVER)
    return INTERRUPTED if best.interrupted else NO_SOLVER if faults else DONE


def _warn(fault: str) -> None:
    warnings.warn(f"{fault} The outputs of the stages will not be compared.", InputWarning, stacklevel=2)
