"""Graphs of PyTorch modules: flops in closed form, tied weights, views, parts of tensors, and clear refusals."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from instances import ComputationGraph, InputError
from instances.devices import Device
from instances.readers.pytorch.export import export, from_exported_program, read_torch, recognises_torch, trace

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from instances.readers.pytorch.files import load_program  # noqa: E402


def module(forward: Callable[..., Any], **parts: Any) -> Any:
    """A module with the given parts, parameters and buffers."""

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, part in parts.items():
                if isinstance(part, torch.Tensor) and not isinstance(part, torch.nn.Parameter):
                    self.register_buffer(name, part)
                else:
                    setattr(self, name, part)

        def forward(self, *args: Any) -> Any:
            return forward(self, *args)

    return Network().eval()


def kinds(graph: ComputationGraph) -> list[str]:
    """Operators by their names in the program, without module and number."""
    return [name.split(".")[-1].rstrip("0123456789").rstrip("_") for name in graph.names]


def test_a_perceptron_has_the_flops_and_bytes_of_its_layers() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    device = Device(peak_flops=1e3, memory_bandwidth=1e6)
    graph = trace(network, (torch.zeros(3, 4),), device=device, name="perceptron")
    assert (graph.name, graph.names) == ("perceptron", ("0.addmm", "1.relu", "2.addmm_1"))
    counts = {"flops": 2 * 3 * (4 * 8 + 8 * 2), "parameter_count": 4 * 8 + 8 + 8 * 2 + 2}
    assert graph.attributes == counts | {"input_readers": ["0.addmm"]}
    assert graph.param_bytes.tolist() == [4 * 40, 0, 4 * 18]
    assert graph.tensors.bytes.tolist() == [4 * 24, 4 * 24, 4 * 6]
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.work.tolist() == [2 * 3 * 32 / 1e3, 2 * 96 / 1e6, 2 * 3 * 16 / 1e3]


@pytest.mark.parametrize("batch", [1, 3])
def test_a_transformer_layer_has_its_closed_form(batch: int) -> None:
    """Per token 4 d² for the projections and 2 d f for the perceptron, and 4 s d per query for attention."""
    d, f, s = 16, 40, 7

    def build() -> Any:
        layer = torch.nn.TransformerEncoderLayer(d, 4, f, batch_first=True)
        return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()

    graph = trace(build, (torch.zeros(batch, s, d),))
    assert graph.attributes["flops"] == 2 * batch * (2 * s * (4 * d * d + 2 * d * f) + 4 * s * s * d)
    assert graph.attributes["parameter_count"] == sum(p.numel() for p in build().parameters())
    assert graph.parameter_total == 4 * graph.attributes["parameter_count"]


def test_a_convolution_has_its_closed_form() -> None:
    graph = trace(torch.nn.Conv2d(6, 8, 3, groups=2), (torch.zeros(5, 6, 10, 9),))
    assert graph.attributes["flops"] == 2 * 5 * 8 * 8 * 7 * 3 * 9
    assert graph.tensors.bytes.tolist() == [4 * 5 * 8 * 8 * 7]


def test_a_module_that_is_only_built_for_its_shapes_needs_no_memory() -> None:
    """Ten matrices of 40 GB each."""
    size = 100_000
    graph = trace(
        lambda: torch.nn.Sequential(*(torch.nn.Linear(size, size, bias=False) for _ in range(10))),
        (torch.ones(1, size),),
    )
    assert graph.param_bytes.tolist() == [4.0 * size * size] * 10


def test_what_cannot_be_built_on_the_meta_device_is_built_with_fake_tensors() -> None:
    def build() -> Any:
        return torch.nn.Linear(4, int(torch.tensor(8.0).item()))

    assert trace(build, (torch.zeros(3, 4),)).param_bytes.tolist() == [4 * 40]


@pytest.mark.parametrize("built", [True, False])
def test_tied_weights_count_once(built: bool) -> None:
    """The tie goes through a transpose of the weight in the head."""

    def build() -> Any:
        table, head = torch.nn.Embedding(50, 8), torch.nn.Linear(8, 50, bias=False)
        head.weight = table.weight
        return module(lambda self, x: self.head(torch.tanh(self.table(x))), table=table, head=head)

    graph = trace(build if built else build(), (torch.zeros(3, dtype=torch.long),))
    assert kinds(graph) == ["embedding", "tanh", "mm"]
    assert [(p.bytes, p.users) for p in graph.parameters] == [(4 * 400, (0, 2))]
    assert graph.attributes["parameter_count"] == 400
    assert graph.param_bytes.tolist() == [0, 0, 0]


def test_an_embedding_moves_the_rows_that_it_takes() -> None:
    graph = trace(torch.nn.Embedding(1000, 8), (torch.zeros(3, dtype=torch.long),), device=Device(1.0, 1.0))
    assert graph.work.tolist() == [3 * 8 * 4 + 3 * 8 * 4 + 3 * 8]


def test_views_are_the_tensor_that_they_view() -> None:
    """Of the sine, the cosine reads all by way of three views, which is not counted twice."""
    network = module(lambda self, x: (lambda y: torch.cos(y.view(6, 4).t().unsqueeze(0)) + y.view(4, 6))(torch.sin(x)))
    graph = trace(network, (torch.zeros(2, 12),))
    assert kinds(graph)[:2] == ["sin", "cos"]
    assert graph.tensors.bytes[0] == 4 * 24
    assert graph.tensors.producer.tolist().count(0) == 1


def test_an_expanded_tensor_has_the_bytes_that_there_are() -> None:
    network = module(lambda self, x: torch.sin(x).expand(1000, 5) + 1)
    graph = trace(network, (torch.zeros(1, 5),), device=Device(1.0, 1.0))
    assert graph.tensors.bytes.tolist() == [20, 20_000]
    assert graph.work.tolist() == [40, 20 + 20_000]


def test_parts_of_a_tensor_are_tensors_of_their_own() -> None:
    def forward(self: Any, x: Any) -> Any:
        first, second = torch.sin(x).split([1, 3], dim=0)
        return torch.cos(first), torch.exp(second[1:])

    graph = trace(module(forward), (torch.zeros(4, 5),))
    assert kinds(graph) == ["sin", "cos", "exp"]
    assert graph.tensors.producer.tolist() == [0, 0, 1, 2]
    assert sorted(graph.tensors.bytes.tolist()[:2]) == [20, 40]


def test_only_outputs_that_are_used_are_tensors() -> None:
    """Layer normalisation gives a mean and a deviation too; of topk both outputs are read."""

    def forward(self: Any, x: Any) -> Any:
        values, indices = torch.topk(self.norm(x), 2)
        return torch.cos(values), indices + 1

    graph = trace(module(forward, norm=torch.nn.LayerNorm(5)), (torch.zeros(4, 5),))
    assert kinds(graph) == ["native_layer_norm", "topk", "cos", "add"]
    assert graph.tensors.producer.tolist() == [0, 1, 1, 2, 3]
    assert graph.tensors.bytes.tolist() == [80, 32, 64, 32, 64]


def test_buffers_take_memory_but_are_not_trained() -> None:
    network = module(
        lambda self, x: x @ self.weight + self.mask, weight=torch.nn.Parameter(torch.ones(5, 5)), mask=torch.ones(5)
    )
    graph = trace(network, (torch.zeros(4, 5),))
    assert graph.param_bytes.tolist() == [100, 20]
    assert graph.attributes["parameter_count"] == 25


def test_a_parameter_that_is_not_used_is_named() -> None:
    network = module(lambda self, x: torch.cos(x), weight=torch.nn.Parameter(torch.ones(5)))
    assert trace(network, (torch.zeros(5),)).attributes["unused_parameters"] == ["weight"]


def test_an_operator_of_unknown_cost_is_named() -> None:
    graph = trace(module(lambda self, x: torch.linalg.qr(x @ x)), (torch.eye(4),))
    assert graph.attributes["unknown_operators"] == {"aten.linalg_qr.default": 1}
    assert (graph.work > 0).all()


def test_a_condition_costs_its_most_expensive_branch() -> None:
    def forward(self: Any, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x @ x @ x, lambda x: x @ x, (x,))

    graph = trace(module(forward), (torch.eye(4),))
    assert graph.attributes["flops"] == 2 * 2 * 4**3
    assert "unknown_operators" not in graph.attributes


def test_a_program_can_be_read_as_it_was_exported() -> None:
    network, args = torch.nn.Linear(4, 8), (torch.zeros(3, 4),)
    program = torch.export.export(network, args, strict=False)
    assert from_exported_program(program).content_hash == from_exported_program(export(network, args)).content_hash


def test_a_saved_program_is_read_from_its_file(tmp_path: Path) -> None:
    """Tied weights are tied in the file too, and operators have the names of their modules."""
    table, head = torch.nn.Embedding(50, 8), torch.nn.Linear(8, 50, bias=False)
    head.weight = table.weight
    program = export(torch.nn.Sequential(table, torch.nn.ReLU(), head), (torch.zeros(3, dtype=torch.long),))
    path = tmp_path / "tied.pt2"
    torch.export.save(program, path)
    graph = read_torch(path)
    assert (graph.name, graph.content_hash) == ("tied", from_exported_program(program).content_hash)
    assert graph.names == ("0.embedding", "1.relu", "2.mm")
    assert recognises_torch(path.read_bytes()[:64])
    assert not recognises_torch(b"PK\x03\x04" + bytes(60))


def test_what_is_no_saved_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    with pytest.raises(InputError, match=r"net\.pt2: there is no such file"):
        read_torch(path)
    with pytest.raises(InputError, match="this is a folder"):
        read_torch(tmp_path)
    torch.export.save(export(torch.nn.Linear(4, 8), (torch.zeros(3, 4),)), path)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match="or cut short"):
        read_torch(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(InputError, match=r"not a file of torch\.export\.save \(") as caught:
        read_torch(path)
    assert "\n" not in str(caught.value)


def test_a_dimension_without_a_value_is_refused() -> None:
    dimensions = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(torch.nn.Linear(4, 8), (torch.zeros(3, 4),), dynamic_shapes=dimensions, strict=False)
    with pytest.raises(InputError, match=r"1 size has no value: s\d+; export the module with fixed shapes"):
        from_exported_program(program)


def test_a_file_with_a_dimension_without_a_value_is_named(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    dimensions = ({0: torch.export.Dim("batch")},)
    torch.export.save(torch.export.export(torch.nn.Linear(4, 8), (torch.zeros(3, 4),), dynamic_shapes=dimensions), path)
    with pytest.raises(InputError, match=r"net\.pt2: 1 size has no value: s\d+; .* if you trust the file, .*dims="):
        load_program(path)


@pytest.mark.parametrize("built", [True, False])
def test_a_module_that_cannot_be_exported_is_refused_in_one_line(built: bool) -> None:
    def build() -> Any:
        return module(lambda self, x: x if x.sum() > 0 else -x)

    with pytest.raises(InputError, match="cannot be exported: ") as caught:
        trace(build if built else build(), (torch.ones(3),))
    assert "\n" not in str(caught.value)


def test_a_module_that_computes_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="no operator of it computes anything"):
        trace(torch.nn.Identity(), (torch.ones(3),))


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    network = torch.nn.Linear(4, 8)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"PyTorch is not installed; install the extra: pip install torch"):
        trace(network, ())
