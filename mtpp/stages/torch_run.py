"""Stages of a PyTorch program as a folder with a script that runs them, a process each, through `torch.distributed`.

The program is one that the caller has made and trusts: it is handed to the processes as torch saves it.
"""

from __future__ import annotations

import math
import operator
import os
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from instances.deadline import Deadline
from instances.errors import InputError, one_line
from instances.json_files import write_json
from instances.partitioning.partition import Partition
from mtpp.stages.runner import StageError

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import GraphModule, Node

#: Names of the files of a folder of stages.
SCRIPT, _LAYOUT, _TENSORS = "run.py", "stages.json", "tensors.pt"
_INPUTS = -1
# Seconds that a process may take to start and to cut its stage, besides the timeout.
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
        Number of microbatches in each step.
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
        """Median time per microbatch, without filling and draining [s]."""
        return float(np.median(self.seconds)) / (self.microbatches + self.stages - 1)


def try_program(
    program: ExportedProgram,
    partition: Partition,
    *,
    microbatches: int = 4,
    steps: int = 3,
    timeout: float = 60.0,
    device: str = "cpu",
) -> TorchTrial:
    """Run a program in stages on random inputs, and compare the outputs with those of the program.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        With tensors as inputs, whose first dimension is that of samples; one call of it is a microbatch.
    partition : Partition
        Partition of the graph that was made from the program.
    microbatches, steps : int
        Microbatches of a step, and steps that are measured, after one that is not.
    timeout : float
        Time limit for all steps together, besides the time to start [s].
    device : str
        "cpu", or "cuda" for one graphics card for each stage.

    Raises
    ------
    InputError
        If the partition is of another program, or an input is no tensor.
    StageError
        If a stage dies or hangs.
    """
    import torch
    from torch import multiprocessing
    from torch.utils._pytree import tree_leaves

    from instances.readers.pytorch.stages import split

    whole = split(program, partition)
    batches = _microbatches(_inputs(program, microbatches), microbatches)
    with tempfile.TemporaryDirectory() as folder:
        stages = write_stages(whole, partition, batches, Path(folder))
        context: Any = multiprocessing.start_processes(
            _work, (Path(folder), stages, device, steps), nprocs=stages, join=False, start_method="spawn"
        )
        try:
            _wait(context, Deadline.after(timeout + _LOADING))
        finally:
            for process in context.processes:
                process.kill()
                process.join()
        rows, seconds = torch.load(Path(folder, "out"), weights_only=True)
    outputs = _merged(rows)
    expected = _merged([tree_leaves(program.module()(*parts)) for parts in batches])
    return TorchTrial(
        stages=stages,
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


def _work(rank: int, folder: Path, stages: int, device: str, steps: int) -> None:
    """Run one stage."""
    from mtpp.stages.torch_process import run

    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(stages)}
    run(folder, device, steps, folder / "meeting", folder / "out")


def write_stages(
    whole: GraphModule, partition: Partition, batches: Sequence[Sequence[torch.Tensor]], folder: Path
) -> int:
    """Write stages, sample batches with outputs, and the script to run them; return their number.

    Parameters
    ----------
    whole : torch.fx.GraphModule
        As `instances.readers.pytorch.stages.split` makes it.
    partition : Partition
        It says the devices of the stages, numbered in the order of their kinds.
    batches : sequence of sequences of tensors
        One of inputs in their order, or more.
    folder : Path
        New or empty.

    Raises
    ------
    InputError
        If an output is no tensor, or a stage cannot be exported.
    """
    import torch

    calls = [node for node in whole.graph.nodes if node.op == "call_module"]
    places = _places(whole, calls)
    values = _values(whole, batches[0])
    stages = []
    for number, call in enumerate(calls):
        module, example = whole.get_submodule(str(call.target)), tuple(values[source] for source in call.args)
        try:
            with warnings.catch_warnings(action="ignore"):
                torch.export.save(torch.export.export(module, example), folder / f"stage-{number}.pt2")
        except Exception as error:  # torch has no base class of its errors
            raise InputError(f"stage {number} cannot be exported ({one_line(error, 200)}).") from None
        outputs = values[call] if isinstance(values[call], tuple) else (values[call],)
        shapes = [{"shape": list(out.shape), "dtype": str(out.dtype).removeprefix("torch.")} for out in outputs]
        reads = [list(places[source]) for source in call.args]
        stages.append({"file": f"stage-{number}.pt2", "inputs": reads, "outputs": shapes})
    (returned,) = next(node for node in whole.graph.nodes if node.op == "output").args
    returned = returned if isinstance(returned, tuple | list) else (returned,)
    if not all(node in places for node in returned):
        raise InputError("an output of the program is no tensor; leave it out of what the module returns.")
    used = np.unique(partition.block)
    devices = list(range(len(used))) if partition.instance.is_alike else partition.device[used].tolist()
    layout = {"stages": stages, "outputs": [list(places[node]) for node in returned], "devices": devices}
    write_json(folder / _LAYOUT, layout)
    with torch.no_grad():
        rows = [whole(*batch) for batch in batches]
    expected = [[tensor.contiguous() for tensor in (row if isinstance(row, list | tuple) else [row])] for row in rows]
    torch.save(([list(batch) for batch in batches], expected), folder / _TENSORS)
    shutil.copyfile(Path(__file__).with_name("torch_process.py"), folder / SCRIPT)
    return len(calls)


def _places(whole: GraphModule, calls: Sequence[Node]) -> dict[Node, tuple[int, int]]:
    """(stage, output) of each value that stages exchange; stage -1 stands for inputs."""
    inputs = [node for node in whole.graph.nodes if node.op == "placeholder"]
    places = {node: (_INPUTS, i) for i, node in enumerate(inputs)} | {call: (n, 0) for n, call in enumerate(calls)}
    for node in whole.graph.nodes:
        if node.op == "call_function" and node.target is operator.getitem:
            places[node] = (places[node.args[0]][0], node.args[1])
    return places


def _values(whole: GraphModule, batch: Sequence[torch.Tensor]) -> dict[Node, Any]:
    """Value of each node of a module for a batch."""
    import torch

    values: dict[Node, Any] = {}

    class Recording(torch.fx.Interpreter):
        """An interpreter that keeps the value of every node."""

        def run_node(self, n: Node) -> Any:
            """Run a node and keep its value."""
            values[n] = super().run_node(n)
            return values[n]

    with torch.no_grad():
        Recording(whole).run(*batch)
    return values


def _inputs(program: ExportedProgram, microbatches: int) -> list[torch.Tensor]:
    """Random inputs of all microbatches; zeros for integers, which may be indices."""
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


def _merged(rows: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    """The outputs of all microbatches, concatenated."""
    import torch

    return [torch.cat(parts).detach() for parts in zip(*rows, strict=True)]


def differences(ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor]) -> list[float]:
    """The largest difference of each output relative to the largest number in `theirs`.

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
