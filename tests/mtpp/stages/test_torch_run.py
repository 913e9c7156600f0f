"""Stages of a PyTorch program give what the program gives, in processes that talk through gloo."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
pytest.importorskip("torch.distributed.pipelining", reason="torch has no pipelining here")

from instances import InputError, Instance, Partition, Platform  # noqa: E402
from instances.readers.pytorch.export import export, from_exported_program  # noqa: E402
from mtpp.stages.torch_run import try_program  # noqa: E402


class Network(torch.nn.Module):
    """A tensor of the first stage is read by the last as well."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = self.first(x).relu()
        return self.second(skip).tanh() + skip


@pytest.mark.slow
def test_two_processes_give_what_the_program_gives() -> None:
    torch.manual_seed(0)
    program = export(Network(), (torch.randn(2, 6),))
    graph = from_exported_program(program)
    partition = Partition(Instance(graph, Platform(2, 1e9)), (np.arange(graph.n) >= graph.n // 2).astype(int))
    trial = try_program(program, partition, microbatches=3, steps=2)
    assert trial.stages == 2
    assert trial.equal
    assert trial.worst == 0
    assert len(trial.seconds) == 2
    other = export(torch.nn.Linear(6, 6), (torch.randn(2, 6),))
    with pytest.raises(InputError, match="and not of this program"):
        try_program(other, partition)
