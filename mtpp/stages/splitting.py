"""Splitting of models into stages."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heuristics import Limits, search
from instances import Instance, Partition, Result
from instances.deadline import Deadline
from instances.errors import InputError
from instances.graph.display import Displayed, Rows
from instances.results import combine
from instances.system.processes import catch_interrupt
from mtpp.certifying.certify import certify
from mtpp.questions.stages import SplitWords
from mtpp.questions.words import solve_options
from mtpp.stages.folder import fill
from mtpp.stages.manifest import Manifest, check_new_folder, file_record
from mtpp.stages.runner import Pipeline, StageError, StageJob, measure_link
from mtpp.stages.torch_run import SCRIPT, differences, write_stages
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError, solve

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

# Other uses of the cores of a pipeline: one process with as many threads, and a copy of the whole model a core.


# Memory limit of a process of the whole model: this [bytes], and some copies of its files.
_PROCESS, _COPIES = 2**32, 4
_WARM_UP = 10
# A difference of throughput below this part is none.
_SAME = 0.05


@dataclass(frozen=True)
class Alternatives:
    """Times per request of other uses of the same cores: copies, or one process [s]."""

    cores: int
    one_process: float  # one process with a thread for each core
    copies: float  # a process with one thread on each core
    model_bytes: int  # that each copy holds

    def sentence(self, period: float | None) -> str:
        """A sentence that compares the pipeline's time per request, `period` [s], with the better alternative."""
        best = min(self.one_process, self.copies)
        other = f"{self.cores} copies of the model" if self.copies <= self.one_process else "one process"
        if not period or self.cores == 1:
            return "One stage is no pipeline; there is nothing to compare."
        if period > best * (1 + _SAME):
            return (
                f"The pipeline is not worth it here: {other} on the same {self.cores} cores take {best / period:.0%} "
                "of its time a request. It pays where the model does not fit into one device."
            )
        if period > best * (1 - _SAME):
            return f"The pipeline is as fast as {other} on the same {self.cores} cores."
        return (
            f"The pipeline is worth it: {other} on the same {self.cores} cores take {best / period:.2f} times as long."
        )

    def document(self) -> dict[str, Any]:
        """The measurement as JSON members."""
        return dict(vars(self))


def measure_alternatives(
    manifest: Manifest, model: Path, *, requests: int, queue: int, timeout: float, fusion: bool
) -> Alternatives:
    """Run the whole model on sample inputs, in one process and in as many copies as cores; return their times.

    Parameters
    ----------
    manifest : Manifest
        Manifest of the stages into which the model was split.
    model : path
        The ONNX file, with its weights beside it.
    requests, queue, timeout, fusion
        As for `Pipeline`.

    Raises
    ------
    InputError
        If `model` is another model than the stages are made from.
    StageError
        If onnxruntime does not run it.
    """
    from instances.readers.onnx.graph import weight_files
    from instances.readers.onnx.model import load_model

    if file_record(model).sha256 != manifest.model_sha256:
        raise InputError(f"{model}: this is not the model that was split ({manifest.model}); give that.")
    size = model.stat().st_size + sum((model.parent / name).stat().st_size for name in weight_files(load_model(model)))
    cores = len(manifest.stages)
    if hasattr(os, "sched_getaffinity"):
        cores = min(cores, len(os.sched_getaffinity(0)))

    def job(number: int, threads: int) -> StageJob:
        return StageJob(
            label=f"copy {number} of the whole model",
            inputs=tuple(tensor.received(None) for tensor in manifest.inputs),
            outputs=tuple(tensor.sent(()) for tensor in manifest.outputs),
            model=model,
            memory_limit=_PROCESS + _COPIES * size,
            threads=threads,
        )

    def period(jobs: Sequence[StageJob]) -> float:
        with Pipeline(
            jobs, queue=queue, samples=1, requests=max(requests, _WARM_UP), timeout=timeout, fusion=fusion
        ) as pipeline:
            pipeline.start()
            fill(pipeline, manifest.inputs, 0 if manifest.samples is None else manifest.samples.seed, 1)
            pipeline.run(_WARM_UP)
            events = pipeline.run(requests)
        return 1 / sum(1 / max(float(np.median(np.diff(row[:, 1]))), 1e-12) for row in events)

    return Alternatives(
        cores=cores,
        one_process=period([job(0, cores)]),
        copies=period([job(number, 1) for number in range(cores)]),
        model_bytes=size,
    )


# Stages of a PyTorch module as modules of this process, compared with the whole on its example.


_SEED = 0
#: How far outputs may be apart, by bytes of an element: operators run in another order, and not as others.
_TOLERANCES = {2: 2e-2, 4: 1e-4, 8: 1e-9}

#: Inputs by place and by name.
Example = tuple[Sequence[Any], Mapping[str, Any]]


@dataclass(frozen=True, eq=False, repr=False)
class ModuleStages(Displayed):
    """A PyTorch module cut into stages; calling it runs them one after the other.

    Parameters
    ----------
    result : Result
        The partition of its operators, with its bounds.
    whole : torch.fx.GraphModule
        Calls the stages with the inputs in a row.
    program : torch.export.ExportedProgram
        Program that was cut.
    difference : float, optional
        The largest difference of an output on the example from that of the whole module, as a part of the largest
        number of that output; None where there was nothing to run.
    """

    result: Result
    whole: torch.nn.Module
    program: ExportedProgram
    difference: float | None = None

    @property
    def stages(self) -> tuple[torch.nn.Module, ...]:
        """The module of each non-empty block, with the parameters that it uses."""
        return tuple(self.whole.children())

    def write(self, folder: str | PathLike[str]) -> Path:
        """Write the stages with a script that runs them in several processes; return its path.

        It is for ``torchrun --nproc-per-node STAGES run.py`` and needs PyTorch alone: tensors go through NCCL between
        graphics cards, or through gloo (``--device cpu``). It runs on the example, and compares the outputs.

        Parameters
        ----------
        folder : path
            New or empty.

        Raises
        ------
        InputError
            If the module has no weights or other inputs and outputs than tensors, or the folder is refused.
        """
        from torch import Tensor
        from torch.utils._pytree import tree_leaves

        example, cut = example_of(self.program), self.result.partition
        if example is None:
            raise InputError(
                f"{self._title()}: its weights have no values; give the module itself, not what builds it."
            )
        inputs = tree_leaves(example)
        if not all(isinstance(value, Tensor) for value in inputs):
            raise InputError(f"{self._title()}: an input is no tensor; give the others their values in the module.")
        target = Path(folder)
        check_new_folder(target)
        try:
            target.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"{target}: it cannot be made ({error.strerror}); give another name.") from None
        assert cut is not None
        write_stages(self.whole, cut, [inputs], target)
        return target / SCRIPT

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run all stages on inputs with the types and shapes of the example.

        Raises
        ------
        InputError
            If there are others.
        """
        from torch.utils._pytree import tree_flatten, tree_unflatten

        spec = self.program.call_spec
        assert spec.in_spec is not None
        names = list(spec.in_spec.children()[1].context)
        ordered = {name: kwargs[name] for name in (*(n for n in names if n in kwargs), *kwargs)}
        flat, structure = tree_flatten((args, ordered))
        if structure != spec.in_spec:
            raise InputError(f"{self._title()}: give the inputs by place and name as in the example.")
        outputs = self.whole(*flat)
        return tree_unflatten(list(outputs) if isinstance(outputs, list | tuple) else [outputs], spec.out_spec)

    def _title(self) -> str:
        return self.result.instance.label

    def _facts(self) -> dict[str, str]:
        difference = "not run" if self.difference is None else f"{self.difference:.2g} from the module's at the most"
        return {"stages": str(len(self.stages)), "outputs": difference, **self.result._facts()}

    def _rows(self) -> Rows | None:
        return self.result._rows()


def example_of(program: ExportedProgram) -> Example | None:
    """The inputs with which a program was exported; None if they have no values."""
    import torch
    from torch._subclasses import FakeTensor
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves((program.example_inputs, dict(program.state_dict), dict(program.constants)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if program.example_inputs is None or any(tensor.is_meta or isinstance(tensor, FakeTensor) for tensor in tensors):
        return None
    return program.example_inputs


def stages_of_module(
    program: ExportedProgram, result: Result, model: Callable[..., Any], example: Example | None
) -> ModuleStages:
    """The stages of a partition.

    Parameters
    ----------
    program : ExportedProgram
        In core ATen operators.
    result : Result
        With a partition of the program's graph.
    model : callable
        Module or function from which the program was exported, to compare with.
    example : Example, optional
        Where there is one, stages and model are run with it.

    Raises
    ------
    InputError
        If a stage cannot be made, or gives something else than the model.
    """
    from instances.readers.pytorch.stages import split

    assert result.partition is not None
    cut = ModuleStages(result, split(program, result.partition), program)
    if example is None:
        return cut
    apart = 0.0
    theirs = _outputs(model, example)
    for run in (model, cut):
        for tensor, far in zip(theirs, differences(_outputs(run, example), theirs), strict=False):
            if far > _TOLERANCES.get(tensor.itemsize if tensor.is_floating_point() else 0, 0.0):
                who = "it gives something else at each call" if run is model else "its stages give something else"
                raise InputError(
                    f"{cut._title()}: on the example {who} ({far:.2g} of the largest number); give the module in eval "
                    "mode, without changes of itself."
                )
            apart = max(apart, far)
    return ModuleStages(result, cut.whole, program, apart)


def _outputs(model: Callable[..., Any], example: Example) -> list[torch.Tensor]:
    import torch
    from torch.utils._pytree import tree_leaves

    args, kwargs = example
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        result = model(*args, **kwargs)
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]


# Certified partitions to split models by, and the bandwidth between processes.


def find_answer(
    instance: Instance,
    partition: Partition | None,
    words: SplitWords,
    on_progress: Callable[[Progress], None] | None = None,
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
) -> Result:
    """The partition to split by, with its bounds.

    Parameters
    ----------
    instance : Instance
        The question.
    partition : Partition, optional
        Partition to keep; the time is for bounds then.
    words : SplitWords
        Solver, time limit and seed; and perhaps the `method` to search by alone, with the bound *simple*. Otherwise all
        methods take turns as in `certify`.
    on_progress, on_fault
        As for `certify`.

    Returns
    -------
    Result
        Without a partition if none was found.
    """
    options, method = solve_options(words, words["time_limit"]), words["method"]
    if method is None:
        best = certify(instance, options, start=partition, on_progress=on_progress, on_fault=on_fault)
        answers = list(best.parts)
    else:
        answers = _quickly(instance, partition, method, options)
    if partition is not None:
        answers = [*(replace(answer, answer=None) for answer in answers), Result("given", instance, partition)]
    return combine(*answers)


def _quickly(instance: Instance, partition: Partition | None, method: str, options: SolveOptions) -> list[Result]:
    result = Result("given", instance, partition)
    if partition is None:
        with catch_interrupt() as interrupted:
            limits = Limits(Deadline.after(options.time_limit, interrupted))
            result = search(instance, method, np.random.default_rng(options.seed), limits)
    return [result, solve(instance, "simple", options, start=result.partition)]


def measured_bandwidth() -> float:
    """Measured bytes per second between processes of this machine.

    Raises
    ------
    InputError
        If it cannot be measured.
    """
    try:
        return measure_link().bandwidth
    except StageError as error:
        raise InputError(f"the bandwidth of this machine: {error}") from None
