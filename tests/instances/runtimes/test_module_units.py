"""Units of modules: what the rules of accelerate allow runs where tensors have devices, and nothing mixes these."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import mtpp
from heuristics import HEURISTICS
from instances import ComputationGraph, InputError, Instance, Partition, Platform
from instances.runtimes import RUNTIMES
from instances.runtimes.modules import ModuleUnits

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn = torch.nn

X = torch.ones(2, 4)


class Block(nn.Module):
    """One of several ways in which code joins what its modules make."""

    def __init__(self, rng: np.random.Generator, depth: int, shared: list[Any]) -> None:
        super().__init__()
        self.way = str(rng.choice(["chain", "residual", "branches", "weight", "functional"]))
        parts = [self._part(rng, depth, shared) for _ in range(int(rng.integers(1, 4)))]
        self.parts = nn.ModuleDict(dict(zip("abc", parts, strict=False)))  # not numbered, as layers are
        if self.way == "weight":
            self.scale = nn.Parameter(torch.randn(4))

    @staticmethod
    def _part(rng: np.random.Generator, depth: int, shared: list[Any]) -> Any:
        if shared and rng.random() < 0.1:
            return shared[int(rng.integers(len(shared)))]
        if depth and rng.random() < 0.5:
            return Block(rng, depth - 1, shared)
        part = rng.choice(["linear", "relu", "norm"])
        found = nn.Linear(4, 4) if part == "linear" else nn.ReLU() if part == "relu" else nn.LayerNorm(4)
        shared.append(found)
        return found

    def forward(self, x: Any) -> Any:
        first = x
        for part in self.parts.values():
            x = torch.relu(part(x)) if self.way == "functional" else part(x)
        if self.way == "branches":
            return self.parts["a"](first) + x
        return first + x if self.way == "residual" else x * self.scale if self.way == "weight" else x


class Joined(nn.Module):
    """A sum of the whole network over three of its modules."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.head = (nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: Any) -> Any:
        x = self.a(x)
        return self.head(x + self.c(self.b(x)))


class Inner(nn.Module):
    """A sum over two modules, of which one may be a child of another module."""

    def __init__(self, other: Any, child: bool) -> None:
        super().__init__()
        self.linear, self.other = nn.Linear(4, 4), other if child else (other,)

    def forward(self, x: Any) -> Any:
        other = self.other[0] if isinstance(self.other, tuple) else self.other
        y = other(x)
        return y + self.linear(y)


class Late(nn.Module):
    """A network that reads its input and a weight of its own at its end."""

    def __init__(self, read: str) -> None:
        super().__init__()
        self.a, self.b, self.read = nn.Linear(4, 4), nn.Linear(4, 4), read
        self.own = nn.Parameter(torch.randn(4))

    def forward(self, x: Any) -> Any:
        y = self.b(self.a(x * 2))
        return y + x if self.read == "input" else y * self.own


def called_elsewhere() -> Any:
    first = nn.Linear(4, 4)
    return nn.Sequential(first, nn.Linear(4, 4), Inner(first, child=False))


def of_two_names() -> Any:
    first = nn.Linear(4, 4)
    return nn.Sequential(Inner(first, child=True), nn.Linear(4, 4), Inner(first, child=True))


def mapped(graph: ComputationGraph, block: list[int], k: int) -> dict[str, int]:
    cut = Partition(Instance(graph, Platform(k, 1.0)), block)
    found: dict[str, int] = json.loads(RUNTIMES["accelerate"].settings(cut))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_cuts_by_units_mix_no_devices(seed: int) -> None:
    """Every cut that the rules allow has a map with all weights, runs, and gives the outputs of the module."""
    from tagged_tensors import tagged_run

    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    shared: list[Any] = []
    net = nn.Sequential(*(Block(rng, 2, shared) for _ in range(3)), nn.Linear(4, 4)).eval()
    graph = mtpp.load(net, args=(X,))
    rules = RUNTIMES["accelerate"].rules(graph)
    instance = Instance(graph, Platform(3, 1e18), constraints=rules)
    for number in range(4):
        block = HEURISTICS["random-1"].run(instance, np.random.default_rng(number)).block.tolist()
        devices = mapped(graph, block, 3)
        left = [name for name in net.state_dict() if not any(f"{name}.".startswith(f"{key}.") for key in devices)]
        assert left == []
        assert torch.equal(tagged_run(net, devices, (X,), {}), net(X))


def test_a_sum_of_the_network_keeps_its_makers_together() -> None:
    """And a cut through them is refused by the words, and would mix devices."""
    from tagged_tensors import MixedDevicesError, tagged_run

    net = Joined().eval()
    graph = mtpp.load(net, args=(X,))
    found = mtpp.certify(graph, 2, bandwidth=1e18, runtime="accelerate", time_limit=5)
    assert json.loads(mtpp.export(found, "accelerate")) == {"a": 0, "b": 0, "c": 0, "head": 1}
    assert found.proved
    places = {"a": 0, "b": 1, "c": 1, "head": 1}
    with pytest.raises(InputError, match=r"in stage 0 has to be where .* is, in stage 1; cut it again with"):
        mapped(graph, [places.get(name.partition(".")[0], 1) for name in graph.names], 2)
    with pytest.raises(MixedDevicesError):
        tagged_run(net, places, (X,), {})


@pytest.mark.parametrize(
    ("make", "ends"),
    [
        (called_elsewhere, ("0.addmm", "2.add")),
        (of_two_names, ("0.other.addmm", "2.other.addmm_3")),
        (lambda: Late("input"), ("mul", "add")),
        (lambda: Late("weight"), ("mul", "mul_1")),
    ],
)
def test_what_code_reads_from_afar_is_there(make: Any, ends: tuple[str, str]) -> None:
    """A module that another one calls, one of two names, the input, and weights of the network."""
    graph = mtpp.load(make().eval(), args=(X,))
    assert any({*ends} <= {graph.names[v] for v in group} for group in ModuleUnits(graph).groups)


def test_layers_with_residual_sums_are_units() -> None:
    """Each sum reads what was made before, and no two layers have to be together for it."""
    residual = Block(np.random.default_rng(0), 0, [])
    residual.way, residual.parts = "residual", nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.ReLU()})
    graph = mtpp.load(nn.Sequential(nn.Linear(4, 4), residual, nn.ReLU(), nn.Linear(4, 4)), args=(X,))
    assert ModuleUnits(graph).unit == ("0", "1", "1", "1", "", "3")
    assert [graph.names[v] for group in ModuleUnits(graph).groups for v in group[-1:]] == [
        "0.addmm",
        "2.relu_1",
        "3.addmm_2",
    ]


def test_attributes_of_strangers_tell_no_units() -> None:
    """Layers count then."""
    for told in ({"input_readers": 1}, {"input_readers": [], "calls_elsewhere": {"a": 1}}):
        graph = ComputationGraph.from_edges([(0, 1)], [1, 1], names=("a.x", "b.x"), attributes=told)
        assert not ModuleUnits.stated_in(graph)
    deep = ComputationGraph.from_edges(
        [(0, 1)], [1, 1], names=("a" + ".a" * 200, "b"), attributes={"input_readers": []}
    )
    assert not ModuleUnits.stated_in(deep)
