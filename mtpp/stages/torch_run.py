"""Stages of a PyTorch program as processes, which `torch.distributed.pipelining` drives through gloo.

The program is one that the caller has made and trusts: it is handed to the processes as torch saves it.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from instances.deadline import CLOCK, Deadline
from instances.errors import InputError
from instances.partitioning.partition import Partition
from mtpp.stages.runner import StageError

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


# Seconds that a process may take to start and to cut its stage, beside the timeout.
_LOADING = 120.0
_LOOK = 0.2
_SEED = 0


@dataclass(frozen=True)
class TorchTrial:
    """A run of a PyTorch program in stages.

    Parameters
    ----------
    stages : int
        Processes, one for each block that has nodes.
    microbatches : int
        Of each step.
    seconds : tuple of float
        Time of each step [s].
    predicted : float
        Bottleneck of the partition [time unit of its graph].
    equal : bool
        Whether the outputs are those of the program, bit by bit.
    worst : float
        Largest difference of two outputs, as a part of the largest number.
    """

    stages: int
    microbatches: int
    seconds: tuple[float, ...]
    predicted: float
    equal: bool
    worst: float

    @property
    def period(self) -> float:
        """Median time a microbatch, without the steps' filling and draining [s]."""
        return float(np.median(self.seconds)) / (self.microbatches + self.stages - 1)


def try_program(
    program: ExportedProgram,
    partition: Partition,
    *,
    microbatches: int = 4,
    steps: int = 3,
    timeout: float = 60.0,
) -> TorchTrial:
    """Run a program in stages on random inputs, and compare the outputs with those of the program.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        With tensors as inputs, whose first dimension is that of samples; one call of it is a microbatch.
    partition : Partition
        Of the graph that was made from it.
    microbatches, steps : int
        Microbatches of a step, and steps that are measured, after one that is not.
    timeout : float
        Seconds for all of it, beside those to start.

    Raises
    ------
    InputError
        If the partition is of another program, or an input is no tensor.
    StageError
        If a stage dies or hangs.
    """
    import torch
    from torch import multiprocessing

    from instances.readers.pytorch.stages import arrange

    arrange(program, partition)  # refuses the partition of another program
    inputs = _inputs(program, microbatches)
    blocks = np.unique(partition.block)
    with tempfile.TemporaryDirectory() as folder:
        torch.export.save(program, Path(folder, "program.pt2"))
        torch.save(inputs, Path(folder, "inputs.pt"))
        arguments = (folder, partition, len(blocks), microbatches, steps)
        context: Any = multiprocessing.start_processes(
            _work, arguments, nprocs=len(blocks), join=False, start_method="spawn"
        )
        try:
            _wait(context, Deadline.after(timeout + _LOADING))
        finally:
            for process in context.processes:
                process.kill()
                process.join()
        outputs, seconds = torch.load(Path(folder, "outputs.pt"), weights_only=True)
    expected = _merged([program.module()(*parts) for parts in _microbatches(inputs, microbatches)])
    return TorchTrial(
        stages=len(blocks),
        microbatches=microbatches,
        seconds=tuple(seconds),
        predicted=partition.bottleneck,
        equal=all(torch.equal(ours, theirs) for ours, theirs in zip(outputs, expected, strict=True)),
        worst=max(differences(outputs, expected), default=0.0),
    )


def _wait(context: Any, deadline: Deadline) -> None:
    """Wait until all processes have ended."""
    from torch.multiprocessing import ProcessExitedException, ProcessRaisedException

    try:
        while not context.join(timeout=_LOOK):
            if deadline.passed:
                raise StageError("the stages did not end in time and were stopped; give a longer timeout.")
    except ProcessRaisedException as error:
        last = str(error).strip().splitlines()[-1][:300]
        raise StageError(f"stage {error.error_index}: {last}") from None
    except ProcessExitedException as error:
        raise StageError(f"stage {error.error_index}: its process died ({error}).") from None


def _work(rank: int, folder: str, partition: Partition, stages: int, microbatches: int, steps: int) -> None:
    """Run one stage."""
    import torch
    from torch import distributed
    from torch.distributed.pipelining import ScheduleGPipe, pipeline

    from instances.readers.pytorch.stages import arrange, split_policy

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=stages)
    module, block = arrange(torch.export.load(Path(folder, "program.pt2")), partition)
    inputs = torch.load(Path(folder, "inputs.pt"), weights_only=True)
    with torch.no_grad():
        example = _microbatches(inputs, microbatches)[0]
        pipe = pipeline(module, mb_args=example, split_policy=split_policy(block))
        schedule = ScheduleGPipe(pipe.build_stage(rank, torch.device("cpu")), microbatches)
        seconds, result = [], None
        for _ in range(steps + 1):
            distributed.barrier()
            begin = CLOCK.now()
            result = schedule.step(*inputs) if rank == 0 else schedule.step()
            distributed.barrier()
            seconds.append(CLOCK.now() - begin)
        if rank == stages - 1:
            outputs = list(result) if isinstance(result, list | tuple) else [result]
            torch.save((outputs, seconds[1:]), Path(folder, "outputs.pt"))
    distributed.barrier()
    distributed.destroy_process_group()


def _inputs(program: ExportedProgram, microbatches: int) -> list[torch.Tensor]:
    """Random inputs of all microbatches together; zeros where they are whole numbers, as an index must exist."""
    import torch

    generator = torch.Generator().manual_seed(_SEED)
    inputs = []
    names = program.graph_signature.user_inputs
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in names:
            value = node.meta["val"]
            if not isinstance(value, torch.Tensor) or not value.shape:
                raise InputError(f"input '{node.name}' is no tensor with samples; export a module of such.")
            shape = (value.shape[0] * microbatches, *value.shape[1:])
            whole = not value.dtype.is_floating_point
            values = torch.zeros(shape) if whole else torch.randn(shape, generator=generator)
            inputs.append(values.to(value.dtype))
    return inputs


def _microbatches(inputs: list[torch.Tensor], count: int) -> list[tuple[torch.Tensor, ...]]:
    return list(zip(*(tensor.chunk(count) for tensor in inputs), strict=True))


def _merged(outputs: list[Any]) -> list[torch.Tensor]:
    """The outputs of all microbatches, one after the other."""
    import torch

    rows = [list(output) if isinstance(output, list | tuple) else [output] for output in outputs]
    return [torch.cat(parts).detach() for parts in zip(*rows, strict=True)]


def differences(ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor]) -> list[float]:
    """The largest difference of each output as a part of the largest number of theirs.

    It is infinite where numbers of outputs, shapes, types or whole numbers differ, or only one is finite.
    """
    if len(ours) != len(theirs):
        return [math.inf] * max(len(ours), len(theirs))
    return [_apart(a, b) for a, b in zip(ours, theirs, strict=True)]


def _apart(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    import torch

    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return math.inf
    if torch.equal(ours, theirs):
        return 0.0
    finite = theirs.isfinite()
    odd = [tensor[~finite].nan_to_num() for tensor in (ours, theirs)]
    if not theirs.is_floating_point() or not torch.equal(ours.isfinite(), finite) or not torch.equal(*odd):
        return math.inf
    a, b = ours[finite].double(), theirs[finite].double()
    return float((a - b).abs().max()) / max(float(b.abs().max()), 1e-30) if len(b) else 0.0
