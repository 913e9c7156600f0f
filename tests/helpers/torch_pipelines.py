"""Plans executed by torch's pipeline runtime in processes that talk through gloo."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from multiprocessing import set_forkserver_preload
from pathlib import Path

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

__all__ = ["gradients_of_plans", "gradients_of_whole"]

_WIDTH = 6

Gradients = list[list[torch.Tensor]]  # of each stage


def model(layers: int) -> list[nn.Module]:
    """Layers that differ, the same in each process."""
    torch.manual_seed(7)
    return [nn.Sequential(nn.Linear(_WIDTH, _WIDTH, dtype=torch.float64), nn.Tanh()) for _ in range(layers)]


def data(microbatches: int, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(8)
    shape = (microbatches, samples, _WIDTH)
    return torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)


def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return ((output - target) ** 2).sum()


def gradients_of_whole(layers: int, microbatches: int, samples: int) -> Gradients:
    """Of the model in one piece, for all samples at once."""
    modules = model(layers)
    inputs, targets = data(microbatches, samples)
    loss(nn.Sequential(*modules)(inputs.flatten(0, 1)), targets.flatten(0, 1)).backward()
    return [[parameter.grad for parameter in module.parameters()] for module in modules]


def gradients_of_plans(
    schedules: Sequence[str], groups: Sequence[Sequence[int]], stages: Sequence[int], microbatches: int, samples: int
) -> list[list[Gradients]]:
    """Of each process and each schedule, the gradients of all stages; empty where it does not run a stage.

    Parameters
    ----------
    schedules : sequence of str
        As `schedule_csv` makes them, one run each.
    groups : sequence of sequences of int
        Processes of each row of the schedule, as many in each: the i-th of all form a pipeline.
    stages : sequence of int
        Which group runs each stage, which is one layer.
    microbatches, samples : int
        The samples of a microbatch are divided among the pipelines.
    """
    with tempfile.TemporaryDirectory() as folder:
        for number, schedule in enumerate(schedules):
            (Path(folder) / f"{number}.csv").write_text(schedule)
        size = sum(map(len, groups))
        arguments = (folder, len(schedules), groups, stages, microbatches, samples)
        # Copies of a process that has loaded torch, which takes seconds.
        set_forkserver_preload([PipelineStage.__module__])
        multiprocessing.start_processes(_work, arguments, size, start_method="forkserver")  # type: ignore[attr-defined]
        return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(size)]


def _work(
    rank: int,
    folder: str,
    schedules: int,
    groups: Sequence[Sequence[int]],
    stages: Sequence[int],
    microbatches: int,
    samples: int,
) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=sum(map(len, groups))
    )
    replica, mine = next((group.index(rank), g) for g, group in enumerate(groups) if rank in group)
    pipelines = [distributed.new_group([group[i] for group in groups]) for i in range(len(groups[0]))]
    adders = [distributed.new_group(list(group)) for group in groups]
    inputs, targets = (
        whole.chunk(len(pipelines), dim=1)[replica].flatten(0, 1) for whole in data(microbatches, samples)
    )
    first, last = [inputs] if stages[0] == mine else [], {"target": targets} if stages[-1] == mine else {}
    steps: list[Gradients] = []
    for number in range(schedules):
        modules = model(len(stages))
        runs = [
            PipelineStage(modules[n], n, len(stages), torch.device("cpu"), group=pipelines[replica])
            for n, group in enumerate(stages)
            if group == mine
        ]
        runtime = _PipelineScheduleRuntime(runs, microbatches, loss_fn=loss, scale_grads=False)
        runtime._load_csv(f"{folder}/{number}.csv", "compute_only")
        runtime.step(*first, **last)
        steps.append([])
        for n, group in enumerate(stages):
            gradients = [parameter.grad for parameter in modules[n].parameters()] if group == mine else []
            for gradient in gradients:
                distributed.all_reduce(gradient, group=adders[mine])
            steps[-1].append(gradients)
    torch.save(steps, f"{folder}/{rank}.pt")
    distributed.destroy_process_group()
