"""Stages that run: `split` and `run`."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from instances import ComputationGraph, InputError, Instance, Partition, Result
from instances.errors import InputWarning, WordError, find
from mtpp.questions.reading import is_module, read_program, save_module
from mtpp.questions.stages import MEASURED, ModelWords, RunWords, SplitWords, StagesWords, check_model, stages_question
from mtpp.questions.words import checked, path_of, pick, takes_words
from mtpp.stages.manifest import Manifest, check_new_folder

if TYPE_CHECKING:
    from mtpp.stages.splitting import ModuleStages
    from mtpp.stages.trial import Trial


@overload
def split(
    model: Any,
    k: int | None = None,
    *,
    out: str | PathLike[str],
    partition: Partition | Result | str | PathLike[str] | None = None,
    **words: Unpack[SplitWords],
) -> Result: ...
@overload
def split(
    model: Any,
    k: int | None = None,
    *,
    out: None = None,
    partition: Partition | Result | str | PathLike[str] | None = None,
    **words: Unpack[SplitWords],
) -> ModuleStages: ...
@takes_words(SplitWords)
def split(
    model: Any,
    k: int | None = None,
    *,
    out: str | PathLike[str] | None = None,
    partition: Partition | Result | str | PathLike[str] | None = None,
    **words: Unpack[SplitWords],
) -> Result | ModuleStages:
    """Cut a model into runnable stages: an ONNX file into files, as ``mtpp split``, a PyTorch module into modules.

    Parameters
    ----------
    model : path of an ONNX file, torch.nn.Module or torch.export.ExportedProgram
        Or a function that builds a module, whose stages then have no weights.
    k : int, optional
        Number of stages; that of the partition if one is given.
    out : path, optional
        Folder to write, new or empty. An ONNX file needs one; a module is exported to ONNX for it.
    partition : Partition, Result or file, optional
        The partition to split by; the time limit is then for a bound on it, and a proved `Result` needs none. A
        partition file needs the arguments of its question; the others hold their question, with the dimensions of the
        model.
    bandwidth : float or str, optional
        As for `partition`, or "measured": between processes of this machine.
    devices, memory, activation_buffer, fit, constraints
        As for `partition`; with kinds of devices k may be left out.
    dims, peak_flops, memory_bandwidth, cost
        As for `load`. With ``cost="measured"`` times are those of onnxruntime on this machine.
    args, kwargs : sequence, mapping
        Example inputs of a module.
    samples : bool
        Whether the whole model is run once, to compare the outputs of the stages with its outputs.
    method : str, optional
        A name of `mtpp.HEURISTICS`, to search by it alone and prove next to nothing.
    solver, time_limit, gap, threads, seed, solver_options, log
        As for `certify`.

    Returns
    -------
    Result or ModuleStages
        The partition of the stages, with its bounds. Of a module without `out` a record with it as `result`, and
        `stages`, which are modules; called as the module is, it runs them.

    Raises
    ------
    InputError
        If an argument, the model, the partition or the folder is refused, there is no partition, or the outputs of the
        stages of a module differ from those of the module.
    SolverNotAvailableError
        If the solver cannot run here; one that fails at work is a warning.

    Examples
    --------
    >>> import mtpp, onnx, os, tempfile
    >>> slow = {"peak_flops": 1e9, "memory_bandwidth": 1e9}
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "net.onnx")
    >>> text = "g (float[8] x) => (float[8] y) { a = Tanh(x) b = Exp(a) y = Tanh(b) }"
    >>> onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}'), path)
    >>> stages = os.path.join(folder.name, "stages")
    >>> mtpp.split(path, 2, out=stages, **slow).proved
    True
    >>> sorted(os.listdir(stages))
    ['certificate.json', 'manifest.json', 'samples.bin', 'stage-0.onnx', 'stage-1.onnx']
    >>> mtpp.run(stages, requests=20).agreement.exact
    4
    >>> folder.cleanup()
    """
    if not isinstance(model, str | PathLike):
        if not is_module(model):
            raise InputError(f"A model to split is an ONNX file or a PyTorch module, no {type(model).__name__}.")
        if out is None:
            return _split_module(model, k, partition, words)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, f"{type(model).__name__}.onnx")
            check_new_folder(path_of("out", out))
            save_module(model, pick(ModelWords, words), file)
            words["args"] = words["kwargs"] = None
            return _split_file(file, k, path_of("out", out), partition, words)
    if out is None:
        raise WordError("out", None, "name the folder where the stages are written.")
    return _split_file(Path(model), k, path_of("out", out), partition, words)


def _split_file(model: Path, k: int | None, out: Path, partition: Any, words: SplitWords) -> Result:
    splitting = Splitting.of(model, k, out, partition, words)
    best = _certified(splitting.instance, splitting.given, partition, words)
    splitting.write(best)
    return best


def _split_module(model: Any, k: int | None, partition: Any, words: SplitWords) -> ModuleStages:
    """Export a module, cut its program, and check that the stages have the same outputs."""
    from mtpp.stages.splitting import example_of, stages_of_module

    _check_method(words)
    program, graph = read_program(model, pick(ModelWords, words))
    question = pick(StagesWords, {**words, **checked(ModelWords, {})})
    best = _certified(*_question(graph, k, partition, question), partition, words)
    example = example_of(program) if words["samples"] else None
    run = model.module(check_guards=False) if type(model).__name__ == "ExportedProgram" else model
    return stages_of_module(program, best, run, example)


def _certified(instance: Instance, given: Partition | None, partition: object, words: SplitWords) -> Result:
    """The partition to split by, with its bounds; a result with a proof is returned unchanged."""
    from mtpp.stages.splitting import find_answer

    best = partition if isinstance(partition, Result) and partition.proved else find_answer(instance, given, words)
    if best.partition is None:
        raise InputError(f"{best.instance.label}: {best.impossible or 'no partition was found; give more time.'}")
    return best


@dataclass(frozen=True)
class Splitting:
    """A model, its question, and where its stages are written."""

    model: Path
    instance: Instance
    given: Partition | None  # the partition to split by, if there is one
    out: Path
    words: SplitWords

    @classmethod
    def of(
        cls,
        model: Path,
        k: int | None,
        out: Path,
        partition: Partition | Result | str | PathLike[str] | None,
        words: SplitWords,
    ) -> Splitting:
        """A splitting of a model, after all checks that take little time.

        Raises
        ------
        InputError
            If an argument, the model, the partition or the folder is refused.
        """
        check_new_folder(out)
        check_model(model)
        _check_method(words)
        return cls(model, *_question(model, k, partition, pick(StagesWords, words)), out, words)

    def write(self, best: Result) -> Manifest:
        """Write the stages."""
        from mtpp.stages.folder import write_stages

        dims = self.instance.graph.attributes.get("dims") or {}
        answers = best.parts or (best,)
        return write_stages(self.model, answers, self.out, dims=dims, samples=self.words["samples"], on_fault=_warn)


def _question(
    model: Path | ComputationGraph, k: int | None, partition: Any, words: StagesWords
) -> tuple[Instance, Partition | None]:
    """As `stages_question`; the bandwidth may be measured."""
    if words["bandwidth"] == MEASURED:
        from mtpp.stages.splitting import measured_bandwidth

        words["bandwidth"] = measured_bandwidth()
    return stages_question(model, k, partition, words)


def _check_method(words: SplitWords) -> None:
    if words["method"] is not None:
        from heuristics import HEURISTICS

        find(HEURISTICS, words["method"], "heuristic")


@takes_words(RunWords)
def run(stages: str | PathLike[str], **words: Unpack[RunWords]) -> Trial:
    """Run stages on this machine, a process each, and compare period and outputs with what was promised.

    This is ``mtpp run``; it works in a notebook, too.

    Parameters
    ----------
    stages : path
        Folder that `split` has written; its docstring has an example.
    requests : int
        Number of requests that are measured, after some to warm up.
    queue : int
        Requests that wait between two stages.
    timeout : float
        Seconds without progress, after which a stage is stopped.
    device : str
        "cpu", "cuda" for one graphics card for each stage, or a device for each stage, as "cuda:1,cuda:0,cpu".
    fusion : bool
        Whether onnxruntime may fuse operators: faster, but not as it was priced.
    compare : path, optional
        The ONNX file of the whole model, to be measured on the same cores, too: in one process with as many threads,
        and in as many copies.

    Returns
    -------
    Trial
        Its `period`, `latency` and `over_predicted`, and as `agreement` how outputs compare with the whole model's: the
        `name` of that is an output that differs, or None. With `compare`, `others` are the periods of the whole model.
        `mtpp.plots.plans.trial_figure` draws a trial.

    Raises
    ------
    InputError
        If the folder is refused, or there is not the memory for it.
    mtpp.stages.runner.StageError
        If a stage dies, hangs or fails.
    """
    from mtpp.stages.trial import try_stages

    return try_stages(path_of("stages", stages), **words)


def _warn(fault: str) -> None:
    warnings.warn(f"{fault} The outputs of the stages will not be compared.", InputWarning, stacklevel=4)
