"""Files of exported PyTorch programs, and the sizes of their tensors."""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch._export.serde import schema
from torch._export.serde.serialize import GraphModuleDeserializer, _dict_to_dataclass
from torch._export.verifier import load_verifier
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from instances.errors import InputError, extra
from instances.json_files import LARGEST_TEXT, Value, parse_json
from instances.readers.pytorch.dataflow import missing_sizes
from instances.readers.pytorch.export import first_line, quiet
from instances.system.processes import limit_process

# Files of `torch.export.save`, read as data alone: nothing in them is unpickled, compiled, imported or called.
#
# `torch.export.load` is not for untrusted files. It unpickles sample inputs, custom objects and weights, runs compiled
# code that a file brings along, evaluates symbolic sizes as Python, imports modules that a file names, takes any
# function below `torch` as an operator, and pastes names into source text. Here only the JSON text of the graph is
# read. Its weights are known by their shapes. Each string in it is checked before torch sees it: operators must be ATen
# operators whose shapes torch infers without computing them, names must be identifiers, and what else could be code is
# left out.


_MOST_MEMBERS = 2**18
_AGAIN = "save the program again with torch.export.save"
_SYMBOL = r"Symbol\('([a-z]{1,4}\d{1,6})'(?:, \w{1,20}=True){0,3}\)"
_OBJECTS = ("as_custom_obj", "as_operator", "custom_obj")
_HIGHER_ORDER = ("cond", "while_loop", "wrap_with_set_grad_enabled", "wrap_with_autocast")
_INFERRED = ("Meta", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
_ONLY_CHECKS = ("_assert_", "sym_constrain_range")
_WORDS = ("as_string", "as_strings", "parameter_name", "buffer_name", "tensor_constant_name", "user_input_name")


def load_program(path: str | Path) -> ExportedProgram:
    """The program of a ``.pt2`` file, with fake tensors for its weights; inputs and outputs are one flat tuple each.

    Raises
    ------
    InputError
        If the file is damaged, holds what could run, or is not of the version of torch that is installed.
    Exception
        Whatever torch raises when the graph contradicts itself.
    """
    document = Value(_document(str(path)), str(path)).open_members(["graph_module", "schema_version"])
    version = document["schema_version"].open_members(["major"])["major"].whole()
    if version != schema.SCHEMA_VERSION[0]:
        document["schema_version"].fail("another version of PyTorch wrote this; save the program with the one here.")
    parts = document["graph_module"].open_members(["graph", "signature"])
    _check_graph(parts["graph"])
    _check(parts["signature"])
    checked = {"graph": parts["graph"].data, "signature": parts["signature"].data, "module_call_graph": []}
    module = _dict_to_dataclass(schema.GraphModule, checked)
    dialects = document["verifiers"].items() if "verifiers" in document else []
    return _program(module, _ranges(document), [load_verifier(dialect.text()) for dialect in dialects])


def _document(path: str) -> Any:
    """The JSON text of the graph; an archive with anything that could be executed is refused."""
    with zipfile.ZipFile(path) as archive:
        members = {member.filename: member for member in archive.infolist()}
        if len(members) != len(archive.infolist()) or len(members) > _MOST_MEMBERS:
            raise InputError(f"{path}: the archive has too many members, or one of them twice; {_AGAIN}.")
        root = next(iter(members), "").split("/")[0]
        for name, member in members.items():
            if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
                raise InputError(f"{path}: '{name}' is compressed; {_AGAIN}.")
            if not name.startswith(f"{root}/") or ".." in name or "\\" in name:
                raise InputError(f"{path}: not a file of torch.export.save ('{name}' is outside of its folder).")
            if name.startswith(f"{root}/data/aotinductor/"):
                raise InputError(f"{path}: '{name}' is compiled code, which is never run; save the program alone.")

        def read(name: str) -> Value:
            if name not in members:
                raise InputError(f"{path}: not a file of torch.export.save (there is no '{name}' in it).")
            if members[name].file_size > LARGEST_TEXT:
                raise InputError(f"{path}: '{name}' has {members[name].file_size} bytes; {LARGEST_TEXT} are the most.")
            return parse_json(archive.read(name).decode(), f"{path}, {name}")

        for kind in ("weights", "constants"):
            _check_payloads(read(f"{root}/data/{kind}/model_{kind}_config.json"))
        return read(f"{root}/models/model.json").data


def _check_payloads(config: Value) -> None:
    """Check that tensors are stored as raw bytes; refuse whatever would have to be unpickled."""
    for payload in config.open_members(["config"])["config"].open_members([]).values():
        fields = payload.open_members(["path_name", "use_pickle"])
        if fields["use_pickle"].data is not False:
            payload.fail("this must be unpickled, which can run code; save plain tensors only.")
        if not re.fullmatch(r"(weight|tensor)_\d{1,9}", fields["path_name"].text()):
            payload.fail("this is an object of a program, not a tensor; save plain tensors only.")


def _check_graph(graph: Value) -> None:
    """Refuse a graph with expressions that torch could run, or with sizes that have no value."""
    parts = graph.open_members(["inputs", "outputs", "nodes", "tensor_values"])
    open_sizes: dict[str, None] = {}
    for tensor in parts["tensor_values"].open_members([]).values():
        elements = 1
        for size in tensor.open_members(["sizes"])["sizes"].items():
            fields = size.open_members([])
            if "as_expr" in fields:
                symbol = fields["as_expr"].open_members(["expr_str"])["expr_str"].text()
                open_sizes |= dict.fromkeys(re.findall(_SYMBOL, symbol[:1000]) or [symbol[:100]])
                continue
            elements *= size.open_members(["as_int"])["as_int"].whole()
        if not 0 <= elements < 2**58:
            tensor.fail("the tensor has an impossible size.")
    if open_sizes:
        raise InputError(
            f"{graph.file}: {missing_sizes(list(open_sizes))}; export the module with fixed shapes or, if you trust "
            f"the file, load it in Python: mtpp.load(torch.export.load(file), dims={{'{next(iter(open_sizes))}': 64}})."
        )
    for node in parts["nodes"].items():  # what a node is told about its origin is read for the names of modules alone
        metadata = node.open_members(["target", "metadata"])["metadata"].open_members([])
        stack = metadata["nn_module_stack"].text() if "nn_module_stack" in metadata else ""
        node.data["metadata"] = {"nn_module_stack": stack} if stack else {}
    _check(graph)


def _check(value: Value, key: str = "") -> None:
    """Check each string of the graph by the rule for its field."""
    data = value.data
    if isinstance(data, dict):
        for name, item in value.open_members([]).items():
            _as_name(Value(name, value.file, value.path))
            if name in _OBJECTS:
                item.fail("objects, and operators as arguments, are not read; export the module without them.")
            if name == "as_graph":
                body = item.open_members(["name", "graph"])
                _check(body["name"])
                _check_graph(body["graph"])
            else:
                _check(item, name)
    elif isinstance(data, list):
        for item in value.items():
            _check(item, key)
    elif isinstance(data, str):
        _RULES.get(key, _as_name)(value)
    elif isinstance(data, int) and abs(data) >= 2**63:
        value.fail("the whole number is too large.")


def _matching(pattern: str) -> Callable[[Value], None]:
    """Make a check that a text matches a pattern."""
    allowed = re.compile(pattern)

    def check(value: Value) -> None:
        if not allowed.fullmatch(value.data):
            value.fail(f"the text '{value.data[:100]}' is none that torch.export writes there; save the program again.")

    return check


def _as_operator(value: Value) -> None:
    """Refuse operators other than control flow and those ATen operators whose shapes torch infers safely."""
    match value.data.split("."):
        case ["torch", "ops", "higher_order", name] if name in _HIGHER_ORDER:
            return
        case ["torch", "ops", "aten", name, overload] if not overload.endswith("out") and not overload.startswith("__"):
            full = f"aten::{name}" if overload == "default" else f"aten::{name}.{overload}"
            if torch._C._dispatch_has_kernel(full) and any(
                torch._C._dispatch_has_kernel_for_dispatch_key(full, way) for way in _INFERRED
            ):
                operator = getattr(getattr(torch.ops.aten, name), overload)
                if operator._schema.returns or name.startswith(_ONLY_CHECKS):
                    return
    value.fail(f"the operator '{value.data[:100]}' is not read; export the module in ATen operators alone.")


#: Texts that become a part of source text: an identifier, or nothing.
_as_name = _matching(r"(?:[A-Za-z_][A-Za-z0-9_]*)?")
#: Modes, equations, and paths of parameters: no quotes, no line breaks.
_as_words = _matching(r"[\w ,.>+/()-]{0,2000}")
_RULES: dict[str, Callable[[Value], None]] = {
    **dict.fromkeys(_WORDS, _as_words),
    "target": _as_operator,
    "expr_str": _matching(_SYMBOL),
    "as_float": _matching("NaN|-?Infinity"),
    "nn_module_stack": lambda stack: None,  # only ever split into names
}


def _ranges(document: Mapping[str, Value]) -> dict[str, ValueRanges[Any]]:
    """Value ranges of the program's symbolic sizes."""
    result: dict[str, ValueRanges[Any]] = {}
    if "range_constraints" not in document:
        return result
    for name, limits in document["range_constraints"].open_members([]).items():
        if not re.fullmatch(r"[a-z]{1,4}\d{1,6}", name):
            limits.fail("this is no symbol of torch; save the program again.")
        low, high = (limits.open_members([key])[key] for key in ("min_val", "max_val"))
        bounds = (-int_oo if low.data is None else low.whole(), int_oo if high.data is None else high.whole())
        result[name] = ValueRanges(*bounds)
    return result


def _program(
    module: schema.GraphModule, ranges: Mapping[str, ValueRanges[Any]], verifiers: list[Any]
) -> ExportedProgram:
    """The program of a checked graph; its weights are fake tensors, as its inputs are."""
    restored = GraphModuleDeserializer().deserialize(module, {}, {}, None, dict(ranges))
    values = {node.name: node.meta["val"] for node in restored.graph_module.graph.nodes if node.op == "placeholder"}
    states: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    for spec in restored.signature.input_specs:
        if spec.kind is InputKind.PARAMETER:
            states[spec.target] = torch.nn.Parameter(values[spec.arg.name], values[spec.arg.name].requires_grad)
        elif spec.kind is InputKind.BUFFER and spec.persistent:
            states[spec.target] = values[spec.arg.name]
        elif spec.kind in (InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            constants[spec.target] = values[spec.arg.name]
    arguments = tuple(s.arg for s in restored.signature.input_specs if s.kind is InputKind.USER_INPUT)
    returned = tuple(s.arg for s in restored.signature.output_specs if s.kind is OutputKind.USER_OUTPUT)
    call = ModuleCallSignature([], [], pytree.tree_structure((arguments, {})), pytree.tree_structure(returned))
    symbols = restored.names_to_symbols
    return ExportedProgram(
        root=restored.graph_module,
        graph=restored.graph_module.graph,
        graph_signature=restored.signature,
        state_dict=states,
        range_constraints={symbols[name]: ranges[name] for name in ranges if name in symbols},
        module_call_graph=[ModuleCallEntry("", call)],
        constants=constants,
        verifiers=verifiers,
    )


def _limit(path: str) -> None:
    """End this process if it takes far more time or memory than a graph needs."""
    with zipfile.ZipFile(path) as archive:
        size = max((member.file_size for member in archive.infolist() if "/models/" in member.filename), default=0)
    size = min(size, LARGEST_TEXT)
    limit_process(memory=2**31 + 100 * size, cpu_seconds=30 + size // 2**14)


def _main(path: str, out: str, peak_flops: str, memory_bandwidth: str) -> int:
    """Write the graph of a file as `mtpp-graph/1`; print an error as one line."""
    from instances.devices import Device
    from instances.graph.graph import save_graph
    from instances.readers.pytorch.export import first_line, from_exported_program, quiet

    try:
        _limit(path)
        with quiet():
            program = load_program(path)
    except InputError as error:
        return _complain(str(error))
    except Exception as error:  # torch raises many kinds for what contradicts itself
        return _complain(f"{path}: not a file of torch.export.save, or damaged ({first_line(error)}).")
    try:
        save_graph(
            from_exported_program(program, Device(float(peak_flops), float(memory_bandwidth)), Path(path).stem), out
        )
    except Exception as error:
        return _complain(f"{path}: {error if isinstance(error, InputError) else first_line(error)}")
    return 0


def _complain(message: str) -> int:
    print(message, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))


# ONNX files of PyTorch modules, by torch's own exporter: the default one where it can run, else the older one.


def save_onnx(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], path: Path) -> None:
    """Export a module with its weights to ONNX, with the shapes of the example.

    Parameters
    ----------
    module : torch.nn.Module
    args, kwargs : sequence and mapping
        Example inputs.
    path : Path
        The file to write; large weights come to lie beside it.

    Raises
    ------
    InputError
        If it is no module with weights, onnx is missing, or the exporter fails.
    """
    import torch

    name = type(module).__name__
    if find_spec("onnx") is None:
        raise InputError(f"{name}: an ONNX file of it needs onnx; install the extra: {extra('onnx')}")
    if not isinstance(module, torch.nn.Module) or any(weight.is_meta for weight in module.parameters()):
        raise InputError(f"{name}: files of stages are made from a module with its weights; give that, or no folder.")
    dynamo = find_spec("onnxscript") is not None
    try:
        with quiet():
            torch.onnx.export(module, tuple(args), str(path), kwargs=dict(kwargs), dynamo=dynamo)
    except Exception as error:
        raise InputError(
            f"{name} cannot be exported to ONNX: {first_line(error)[:300]}; split it without a folder, or export it "
            "and split the file."
        ) from error
