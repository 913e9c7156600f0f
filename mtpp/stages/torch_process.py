"""Stages of a PyTorch program on several devices, a process each.

    torchrun --nproc-per-node STAGES run.py [--device cuda] [--steps N]

It reads what lies beside it: stages.json, which says what each stage reads and gives, the stages as programs of
torch.export, and tensors.pt with batches of inputs and the outputs of the whole program. Process n runs stage n, on a
graphics card or on the processor; tensors go from the stage that makes them to those that read them, through NCCL or
gloo, and the last stage has all outputs. `Stage.run` takes other batches of the same shapes.

It is run as a file, beside copies of it, and imports nothing but PyTorch.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

#: How far outputs may be from those of the whole program, as a part of the largest number, by bytes of an element.
_TOLERANCES = {2: 2e-2, 4: 1e-4, 8: 1e-9}
#: Number of the stage that stands for the inputs of the program.
_INPUTS = -1

#: Number of a stage and of one of its outputs, or -1 and the number of an input.
Place = tuple[int, int]


class Stage:
    """The stage that this process runs.

    Parameters
    ----------
    folder : Path
        Folder with the files of the stages.
    rank : int
        Number of the stage.
    device : torch.device
        Device on which it runs.
    """

    def __init__(self, folder: Path, rank: int, device: torch.device) -> None:
        self._layout = json.loads((folder / "stages.json").read_text(encoding="utf-8"))
        stages = self._layout["stages"]
        self.rank, self.device, self._is_last = rank, device, rank == len(stages) - 1
        self._inputs = [tuple(place) for place in stages[rank]["inputs"]]
        self._outputs = [tuple(place) for place in self._layout["outputs"]]
        # Of each stage in its order, so that both ends of a connection have the same order.
        self._received = sorted(place for place in self._needs(rank) if place[0] not in (_INPUTS, rank))
        readers = range(rank + 1, len(stages))
        self._sent = [(place, t) for t in readers for place in sorted(self._needs(t)) if place[0] == rank]
        self._program = torch.export.load(folder / stages[rank]["file"]).module().to(device)

    def _needs(self, rank: int) -> set[Place]:
        """Places that a stage reads; for the last stage also those of the program's outputs."""
        stages = self._layout["stages"]
        inputs = {tuple(place) for place in stages[rank]["inputs"]}
        return inputs | (set(map(tuple, self._layout["outputs"])) if rank == len(stages) - 1 else set())

    def run(self, batches: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
        """Outputs of each batch in the last stage, none in others; all stages get the same batches."""
        results, sending = [], list[tuple[Any, Tensor]]()
        for batch in batches:
            values = {(_INPUTS, i): tensor.to(self.device) for i, tensor in enumerate(batch)}
            values |= {place: self._receive(place) for place in self._received}
            outputs = self._program(*(values[place] for place in self._inputs))
            values |= {
                (self.rank, j): tensor for j, tensor in enumerate(outputs if isinstance(outputs, tuple) else (outputs,))
            }
            for place, reader in self._sent:
                if values[place].numel():
                    data = _bytes(values[place].contiguous())
                    sending.append((distributed.isend(data, reader), data))
            if self._is_last:
                results.append([values[place] for place in self._outputs])
        for work, _ in sending:
            work.wait()
        return results

    def _receive(self, place: Place) -> Tensor:
        stage, j = place
        output = self._layout["stages"][stage]["outputs"][j]
        tensor = torch.empty(output["shape"], dtype=getattr(torch, output["dtype"]), device=self.device)
        if tensor.numel():
            distributed.recv(_bytes(tensor), stage)
        return tensor


def _bytes(tensor: Tensor) -> Tensor:
    """The tensor's memory as bytes, which all backends can send."""
    return tensor.reshape(-1).view(torch.uint8)


def main() -> None:
    """Run the stage of this process with its command-line options."""
    parser = argparse.ArgumentParser(description="Run the stages of a PyTorch program, a process each.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=3, help="that are measured, after one that is not")
    words = parser.parse_args()
    run(Path(__file__).resolve().parent, words.device, words.steps)


def run(folder: Path, device_type: str, steps: int, meeting: Path | None = None, out: Path | None = None) -> None:
    """Run the stage of this process on the batches of a folder; end with 1 if the outputs are not the program's.

    Parameters
    ----------
    folder : Path
        Folder with the files of the stages.
    device_type : str
        "cpu" or "cuda".
    steps : int
        Number of measured steps, after one that is not measured; each step runs all batches.
    meeting : Path, optional
        A new file by which processes of one machine find each other, where torchrun does not start them.
    out : Path, optional
        For the outputs of all batches and the seconds of each step.
    """
    layout = json.loads((folder / "stages.json").read_text(encoding="utf-8"))
    count, rank = len(layout["stages"]), int(os.environ.get("RANK", "-1"))
    if int(os.environ.get("WORLD_SIZE", "0")) != count:
        start = f"torchrun --nproc-per-node {count} {Path(__file__).name}"
        sys.exit(f"there are {count} stages; start a process each: {start}")
    device = torch.device("cpu")
    if device_type == "cuda":
        here = int(os.environ.get("LOCAL_WORLD_SIZE", count)) == count
        number = layout["devices"][rank] if here else int(os.environ["LOCAL_RANK"])
        cards = torch.cuda.device_count()
        if number >= cards:
            sys.exit(f"stage {rank} runs on device {number}, and there are {cards}; give --device cpu.")
        device = torch.device("cuda", number)
        torch.cuda.set_device(device)
    torch.set_num_threads(1)
    place = {} if meeting is None else {"init_method": f"file://{meeting}", "rank": rank, "world_size": count}
    distributed.init_process_group("nccl" if device_type == "cuda" else "gloo", **place)
    stage = Stage(folder, rank, device)
    batches, expected = torch.load(folder / "tensors.pt", weights_only=True)
    seconds, outputs = [], list[list[Tensor]]()
    with torch.no_grad():
        for _ in range(steps + 1):
            _wait(device)
            begin = time.perf_counter()
            outputs = stage.run(batches)
            _wait(device)
            seconds.append(time.perf_counter() - begin)
    outputs = [[tensor.cpu() for tensor in row] for row in outputs]
    fault = ""
    if rank == count - 1:
        if out is not None:
            torch.save((outputs, seconds[1:]), out)
        fault = _difference(outputs, expected)
        period = statistics.median(seconds[1:]) / (len(batches) + count - 1)
        verdict = fault or "outputs are those of the whole program"
        print(f"{count} stages on {device_type}: {period:.6g} s a batch; {verdict}")
    with suppress(RuntimeError):  # others may have gone
        distributed.barrier()
    distributed.destroy_process_group()
    if fault:
        sys.exit(1)


def _wait(device: torch.device) -> None:
    """Wait until all stages have finished their work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    distributed.barrier()


def _difference(outputs: list[list[Tensor]], expected: list[list[Tensor]]) -> str:
    """The first output that differs from the whole program's, in words; empty without one."""
    for row, rows in zip(outputs, expected, strict=True):
        for j, (ours, theirs) in enumerate(zip(row, rows, strict=True)):
            if torch.equal(ours.nan_to_num(), theirs.nan_to_num()):
                continue
            largest = float(theirs.abs().max()) if theirs.is_floating_point() else 0.0
            apart = float((ours.double() - theirs.double()).abs().max())
            if not apart <= _TOLERANCES.get(theirs.itemsize, 0.0) * largest:
                return f"output {j} differs by {apart:.3g} of {largest:.3g}"
    return ""


if __name__ == "__main__":
    main()
