"""Stages of a PyTorch program give what the program gives, in processes that talk through gloo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
pytest.importorskip("torch.distributed", reason="torch has no processes here")

import mtpp  # noqa: E402
from instances import InputError, Instance, Partition, Platform  # noqa: E402
from instances.machines import Kind, Machines  # noqa: E402
from instances.readers.pytorch.export import export, from_exported_program  # noqa: E402
from mtpp.stages.torch_run import try_program  # noqa: E402


class Network(torch.nn.Module):
    """A tensor of the first stage is read by the last as well; outputs are of several stages, and an input is one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(6, 6) for _ in range(4))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        skip = self.layers[0](x).relu()
        h = self.layers[1](skip).tanh()
        positive = h > 0
        h = self.layers[2](torch.where(positive, h, -h))
        return {"y": self.layers[3](h) + skip, "positive": positive, "x": x}


def even(graph: mtpp.ComputationGraph, k: int) -> Partition:
    return Partition(Instance(graph, Platform(k, 1e9)), np.arange(graph.n) * k // graph.n)


def torchrun(script: Path, processes: int, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    return subprocess.run([*command, str(script), *options], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_processes_give_what_the_program_gives() -> None:
    k = 3
    torch.manual_seed(0)
    program = export(Network().eval(), (torch.randn(2, 6),))
    trial = try_program(program, even(from_exported_program(program), k), microbatches=3, steps=2)
    assert trial.stages == k
    assert trial.equal
    assert trial.worst == 0
    assert len(trial.seconds) == 2
    other = export(torch.nn.Linear(6, 6), (torch.randn(2, 6),))
    with pytest.raises(InputError, match="and not of this program"):
        try_program(other, even(from_exported_program(program), k))


@pytest.mark.slow
def test_a_script_runs_the_stages_by_itself(tmp_path: Path) -> None:
    """It needs PyTorch alone, says whether outputs are those of the module, and how many processes it wants."""
    torch.manual_seed(0)
    k, model, x = 2, Network().eval(), torch.randn(2, 6)
    graph = from_exported_program(export(model, (x,)))
    cut = mtpp.split(model, partition=even(graph, k), args=(x,), time_limit=1)
    script = cut.write(tmp_path / "stages")
    assert "mtpp" not in script.read_text()
    done = torchrun(script, k, "--device", "cpu", "--steps", "1")
    assert done.returncode == 0, done.stderr
    assert f"{k} stages on cpu: " in done.stdout
    assert "outputs are those of the whole program" in done.stdout
    wrong = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1)
    assert f"torchrun --nproc-per-node {k} run.py" in wrong.stderr
    batches, expected = torch.load(script.with_name("tensors.pt"))
    expected[0][0][0, 0] += 1
    torch.save((batches, expected), script.with_name("tensors.pt"))
    done = torchrun(script, k, "--device", "cpu", "--steps", "1")
    assert done.returncode == 1
    assert "output 0 differs by" in done.stdout


@pytest.mark.slow
def test_a_script_has_the_devices_of_a_cut_and_refuses_what_cannot_run(tmp_path: Path) -> None:
    """Unlike devices are numbered in the order of their kinds; a folder is new, and weights and inputs have values."""
    model, x = Network().eval(), torch.randn(2, 6)
    graph = from_exported_program(export(model, (x,)))
    machines = Machines([Kind(name, 1, speed=speed, bandwidth=1e9) for name, speed in (("a", 1.0), ("b", 2.0))])
    instance = Instance(graph, machines, works=[graph.work, graph.work / 2])
    cut = mtpp.split(model, partition=Partition(instance, even(graph, 2).block, kind=[1, 0]), args=(x,), time_limit=1)
    script = cut.write(tmp_path / "stages")
    layout = json.loads(script.with_name("stages.json").read_text())
    assert layout["devices"] == [1, 0]
    assert [place for place in layout["outputs"] if place[0] == -1] == [[-1, 0]]
    with pytest.raises(InputError, match="not an empty folder"):
        cut.write(tmp_path / "stages")
    with pytest.raises(InputError, match="cannot be made"):
        cut.write(tmp_path / "no" / "stages")
    empty = mtpp.split(lambda: Network().eval(), 2, args=(x,), bandwidth="1GB/s", time_limit=1)
    with pytest.raises(InputError, match="weights have no values"):
        empty.write(tmp_path / "empty")
