"""Programs of strangers: whatever a .pt2 file holds, nothing of it runs, and it is refused in one line."""

from __future__ import annotations

import json
import pickle
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import mtpp

from instances import InputError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from instances.readers.pytorch.export import read_torch  # noqa: E402
from instances.readers.pytorch.files import load_program  # noqa: E402

Members = dict[str, bytes]
MODEL, WEIGHTS, CONSTANTS = "models/model.json", "data/weights/model_weights_config.json", "data/constants/"


class Attack:
    """Pickled, it makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = str(marker)

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.marker, "w")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Members:
    """Members of a good file: a perceptron with a split, a buffer and a constant."""

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 8)
            self.constant = torch.ones(4)

        def forward(self, x: Any) -> Any:
            left, right = self.layer(x).split(4, 1)
            return torch.relu(left) * self.constant + right

    path = tmp_path_factory.mktemp("good") / "net.pt2"
    torch.export.save(torch.export.export(Network(), (torch.zeros(3, 4),), strict=False), path)
    with zipfile.ZipFile(path) as archive:
        return {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}


def written(members: Members, path: Path, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(f"net/{name}", data)
    return path


def changed(members: Members, name: str, change: Callable[[Any], object]) -> Members:
    """The members with the JSON text of one of them changed in place."""
    document = json.loads(members[name])
    change(document)
    return {**members, name: json.dumps(document).encode()}


def refused(path: Path, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        load_program(path)
    assert len(str(caught.value).splitlines()) == 1
    assert str(path) in str(caught.value)


def test_the_untouched_file_is_read_in_a_process_of_its_own(program: Members, tmp_path: Path) -> None:
    graph = read_torch(written(program, tmp_path / "net.pt2"))
    assert [name.split(".")[-1] for name in graph.names] == ["addmm", "relu", "mul", "add"]
    assert graph.parameter_total == 4 * (4 * 8 + 8 + 4)


def test_bug_sample_inputs_are_not_opened(program: Members, tmp_path: Path) -> None:
    """They were unpickled."""
    marker = tmp_path / "marker"
    attack = {**program, "data/sample_inputs/model.pt": pickle.dumps(Attack(marker))}
    path = written(attack, tmp_path / "net.pt2")
    assert mtpp(f"import {path}") == 0
    assert not marker.exists()


@pytest.mark.parametrize("kind", ["weights", "constants"])
def test_bug_pickled_tensors_are_refused(
    program: Members, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """They were unpickled."""
    marker = tmp_path / "marker"
    config = f"data/{kind}/model_{kind}_config.json"

    def change(document: Any) -> None:
        next(iter(document["config"].values()))["use_pickle"] = True

    attack = changed(program, config, change)
    name = next(iter(json.loads(attack[config])["config"].values()))["path_name"]
    path = written({**attack, f"data/{kind}/{name}": pickle.dumps(Attack(marker))}, tmp_path / "net.pt2")
    assert mtpp(f"import {path}") == 2
    out, err = capsys.readouterr()
    assert "must be unpickled, which can run code" in err
    assert (out, len(err.splitlines())) == ("", 1)
    assert not marker.exists()


@pytest.mark.parametrize("name", ["opaque_obj_0", "custom_obj_0", "../../net/data/constants/tensor_0", "tensor_0\n"])
def test_objects_among_the_constants_are_refused(program: Members, tmp_path: Path, name: str) -> None:
    marker, config = tmp_path / "marker", f"{CONSTANTS}model_constants_config.json"

    def change(document: Any) -> None:
        next(iter(document["config"].values()))["path_name"] = name

    attack = {**changed(program, config, change), CONSTANTS + name.strip().split("/")[-1]: pickle.dumps(Attack(marker))}
    refused(written(attack, tmp_path / "net.pt2"), "an object of a program, not a tensor")
    assert not marker.exists()


@pytest.mark.parametrize("name", ["data/weights/model.pt", f"{CONSTANTS}model.pt"])
def test_pickles_of_old_versions_are_not_opened(program: Members, tmp_path: Path, name: str) -> None:
    marker = tmp_path / "marker"
    load_program(written({**program, name: pickle.dumps(Attack(marker))}, tmp_path / "net.pt2"))
    assert not marker.exists()


def test_an_archive_of_an_old_version_is_refused(tmp_path: Path) -> None:
    marker, path = tmp_path / "marker", tmp_path / "net.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("version", "8.0")
        for part in ("state_dict", "constants", "example_inputs"):
            archive.writestr(f"serialized_{part}.pt", pickle.dumps(Attack(marker)))
        archive.writestr("serialized_exported_program.json", "{}")
    refused(path, r"not a file of torch\.export\.save")
    assert not marker.exists()


def test_compiled_code_is_refused(program: Members, tmp_path: Path) -> None:
    attack = {**program, "data/aotinductor/model/a.so": b"\x7fELF", "data/aotinductor/model/metadata.json": b"{}"}
    refused(written(attack, tmp_path / "net.pt2"), "is compiled code, which is never run")


def node(document: Any) -> Any:
    return document["graph_module"]["graph"]["nodes"][0]


OPERATORS = (
    "torch.os.system",
    "torch.load",
    "torch.hub.load",
    "torch.ops.load_library",
    "torch.ops.aten.save.default",
    "torch.ops.aten.from_file.default",
    "torch.ops.aten.from_file.out",
    "torch.ops.aten._print.default",
    "torch.ops.aten.add.__class__",
    "torch.ops.aten.__dict__.default",
    "torch.ops.higher_order.print",
    "torch.ops.higher_order.call_torchbind",
    "torch.ops.mtpp.unknown.default",
    "_operator.methodcaller",
    "_operator.pow",
    "math.factorial",
    "builtins.eval",
    "#extension:name",
    "",
)


@pytest.mark.parametrize("target", OPERATORS)
def test_only_operators_of_aten_are_taken(program: Members, tmp_path: Path, target: str) -> None:
    attack = changed(program, MODEL, lambda document: node(document).update(target=target))
    refused(written(attack, tmp_path / "net.pt2"), r"the operator '.*' is not read")


def test_an_operator_as_an_argument_is_refused(program: Members, tmp_path: Path) -> None:
    argument = {"name": "f", "arg": {"as_operator": "torch.os.system"}, "kind": 1}
    attack = changed(program, MODEL, lambda document: node(document)["inputs"].append(argument))
    refused(written(attack, tmp_path / "net.pt2"), "operators as arguments, are not read")


def renamed(document: Any, old: str, new: str) -> None:
    """Rename a tensor everywhere, as a consistent attacker does."""
    text = json.dumps(document).replace(json.dumps(old), json.dumps(new))
    document.clear()
    document.update(json.loads(text))


@pytest.mark.parametrize("name", ["x", "relu", "p_layer_weight"])
def test_names_cannot_become_source_text(program: Members, tmp_path: Path, name: str) -> None:
    """PyTorch pastes names into a function and compiles it; a default value runs at once."""
    marker = tmp_path / "marker"
    code = f"{name}=open({str(marker)!r}, 'w')"
    attack = changed(program, MODEL, lambda document: renamed(document, name, code))
    refused(written(attack, tmp_path / "net.pt2"), "the text '.*' is none that torch.export writes there")
    assert not marker.exists()


def test_paths_of_parameters_cannot_become_source_text(program: Members, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    code = f'layer."), open({str(marker)!r}, "w"), ("'
    attack = changed(program, MODEL, lambda document: renamed(document, "layer.weight", code))
    refused(written(attack, tmp_path / "net.pt2"), "is none that torch.export writes there")
    assert not marker.exists()


@pytest.mark.parametrize("place", ["size", "value"])
def test_symbolic_sizes_are_not_evaluated(program: Members, tmp_path: Path, place: str) -> None:
    """SymPy reads its text with Python's eval."""
    marker = tmp_path / "marker"
    size = {"as_expr": {"expr_str": f"open({str(marker)!r}, 'w')", "hint": None}}

    def change(document: Any) -> None:
        graph = document["graph_module"]["graph"]
        if place == "size":
            graph["tensor_values"]["relu"]["sizes"][0] = size
        else:
            graph["sym_int_values"]["number"] = size

    refused(written(changed(program, MODEL, change), tmp_path / "net.pt2"), "has no value|is none that torch")
    assert not marker.exists()


def test_what_is_told_about_the_origin_of_a_program_is_not_read(program: Members, tmp_path: Path) -> None:
    """Trees of inputs name modules to import, guards are source text, and so are traces."""
    marker, module = tmp_path / "marker", tmp_path / "stranger.py"
    module.write_text(f"open({str(marker)!r}, 'w')")
    context = json.dumps({"__enum__": True, "fqn": "stranger:A", "name": "a"})
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    tree = json.dumps([1, {"type": "builtins.dict", "context": context, "children_spec": [leaf]}])

    def change(document: Any) -> None:
        code = f"open({str(marker)!r}, 'w')"
        document["guards_code"] = [code]
        metadata = node(document)["metadata"]
        metadata |= {"stack_trace": f'File "a", line 1, in f\n    \n{code}\n', "source_fn_stack": "a,torch.os.system"}
        for entry in document["graph_module"]["module_call_graph"]:
            if entry["signature"]:
                entry["signature"] |= {"in_spec": tree, "out_spec": tree}

    path = written(changed(program, MODEL, change), tmp_path / "net.pt2")
    script = "import sys; from instances.readers.pytorch.files import load_program as f; f(sys.argv[1]).module()"
    run = subprocess.run([sys.executable, "-c", script, path.name], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert not marker.exists()


@pytest.mark.parametrize("name", ["u999999999", "u", "zuf"])
def test_a_symbol_cannot_be_a_large_number(program: Members, tmp_path: Path, name: str) -> None:
    """PyTorch counts up to it."""
    limits = {"min_val": None, "max_val": None}
    attack = changed(program, MODEL, lambda document: document["range_constraints"].update({name: limits}))
    refused(written(attack, tmp_path / "net.pt2"), "is no symbol of torch")


def test_an_impossible_size_is_refused(program: Members, tmp_path: Path) -> None:
    def change(document: Any) -> None:
        document["graph_module"]["graph"]["tensor_values"]["relu"]["sizes"] = [{"as_int": 2**40}, {"as_int": 2**40}]

    refused(written(changed(program, MODEL, change), tmp_path / "net.pt2"), "has an impossible size")


def test_compressed_members_are_refused(program: Members, tmp_path: Path) -> None:
    """A few bytes can stand for many gigabytes."""
    attack = {**program, "data/weights/weight_0": bytes(10**7)}
    refused(written(attack, tmp_path / "net.pt2", zipfile.ZIP_DEFLATED), "is compressed")


def test_a_false_size_in_the_archive_is_refused(program: Members, tmp_path: Path) -> None:
    path = written(program, tmp_path / "net.pt2")
    data = path.read_bytes()
    entry = data.rindex(b"PK\x01\x02", 0, data.index(f"net/{MODEL}".encode(), data.index(b"PK\x01\x02")))
    sizes = struct.pack("<II", 2**31, 2**31)
    path.write_bytes(data[: entry + 20] + sizes + data[entry + 28 :])
    refused(path, "bytes; .* are the most")


@pytest.mark.parametrize("name", ["../../evil", "other/models/model.json", "..\\evil"])
def test_members_outside_of_the_folder_are_refused(program: Members, tmp_path: Path, name: str) -> None:
    path = written(program, tmp_path / "net.pt2")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, "")
    refused(path, "is outside of its folder")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_that_are_there_twice_are_refused(program: Members, tmp_path: Path) -> None:
    path = written(program, tmp_path / "net.pt2")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"net/{MODEL}", "{}")
    refused(path, "one of them twice")


@pytest.mark.parametrize(
    "text", ["{", "[]", "[" * 100_000, '{"graph_module": 1, "schema_version": 1}', "\xff", "9" * 9999]
)
def test_a_damaged_graph_is_refused(program: Members, tmp_path: Path, text: str) -> None:
    path = written({**program, MODEL: text.encode("latin-1")}, tmp_path / "net.pt2")
    with pytest.raises((InputError, UnicodeDecodeError)):
        load_program(path)


def test_a_contradictory_graph_is_refused_in_one_line(
    program: Members, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attack = changed(program, MODEL, lambda document: document["graph_module"]["graph"]["tensor_values"].clear())
    assert mtpp(f"import {written(attack, tmp_path / 'net.pt2')}") == 2
    err = capsys.readouterr().err
    assert "not a file of torch.export.save, or damaged" in err
    assert len(err.splitlines()) == 1
