"""Export of PyTorch modules to graphs, with errors of torch.export as a single line."""

from __future__ import annotations

import io
import logging
import os
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from instances.devices import DEFAULT_DEVICE, Device
from instances.errors import InputError, extra
from instances.graph.graph import ComputationGraph, read_graph
from instances.graph.tensors import SharedParameter
from instances.json_files import check_readable
from instances.system.processes import run_module

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

# Errors of torch.export in a line, with what to do.


_UNSCRIPTED = "give the module as it was before it was scripted or quantised"

#: Words in messages of torch.export, and what to do.
_REMEDIES = {
    "uninitialized parameter": "run the module once on the example before, which makes its parameters",
    "__torch__": _UNSCRIPTED,
    "functorch": "leave torch.func out of forward",
    "not a known type": "return tensors in lists and dictionaries; for transformers kwargs={'use_cache': False}",
    "data-dependent": "write branches on values of tensors with torch.where or torch.cond, and loops with fixed bounds",
    "dynamic control flow": "write branches on values of tensors with torch.where or torch.cond",
    "takes": "give args and kwargs as forward takes them",
    "missing a required argument": "give args and kwargs as forward takes them",
    "state_dict": "let forward change no parameters; export the module in eval mode",
    "meta": "give the module itself, with its weights, instead of a function that builds it",
    ".numpy()": "leave numpy out of forward",
    ".item()": "leave .item() and int() of tensors out of forward",
}


def with_remedy(error: Exception, scripted: bool) -> str:
    """Message about a failed export: the kind of error, the first line of its message, and advice."""
    line, whole = shorten(first_line(error), 200, placeholder=" …"), str(error)
    remedy = next((remedy for part, remedy in _REMEDIES.items() if part in whole), "try it in eval mode")
    return f"{line.rstrip('.;')}; {_UNSCRIPTED if scripted else remedy}."


def first_line(error: Exception) -> str:
    """The kind of an error and the first line of its message, as one text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


# PyTorch modules by way of `torch.export`, with flops from torch's own counter and a roofline cost model.
#
# A module is exported and decomposed into core ATen operators. No tensor is computed: parameters may live on the meta
# device, so that the size of a network does not matter. Flops are those of `torch.utils.flop_counter`, that is of
# matrix products, convolutions and attention; all other operators are counted by the bytes that they move.


def recognises_torch(head: bytes) -> bool:
    """Whether a file may be an exported program, by its first bytes: a ZIP archive with weights."""
    return head.startswith(b"PK\x03\x04") and b"/data/weights/" in head


def read_torch(path: str | Path, device: Device = DEFAULT_DEVICE) -> ComputationGraph:
    """Graph of a file written by `torch.export.save`, made as by `from_exported_program`.

    The file may be untrusted: nothing in it is run, see `instances.readers.pytorch.files`, and a process of its
    own with limited time and memory reads it.

    Parameters
    ----------
    path : path of a ``.pt2`` file
    device : Device
        Device for which the operators are priced.

    Raises
    ------
    InputError
        If torch is not installed, or the file cannot be read.
    """
    if find_spec("torch") is None:
        raise InputError(f"PyTorch is not installed; install the extra: {extra('torch')}")
    check_readable(path)
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path}: not a file of torch.export.save, or cut short.")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "graph.json")
        costs = (repr(device.peak_flops), repr(device.memory_bandwidth))
        done = run_module("instances.readers.pytorch.files", os.path.abspath(path), out, *costs)
        if not out.exists():
            messages = done.stderr.decode(errors="replace").splitlines()
            problem = "the program takes too much time or memory, or PyTorch fails on it"
            if done.returncode == 2 and messages:
                problem = messages[-1].removeprefix(f"{os.path.abspath(path)}").lstrip(":, ")
            raise InputError(f"{path}: {problem}")
        return read_graph(out)


def trace(
    module: torch.nn.Module | Callable[[], torch.nn.Module],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    device: Device = DEFAULT_DEVICE,
    name: str = "module",
    sizes: Mapping[str, int] | None = None,
    observe: bool = False,
) -> ComputationGraph:
    """Graph of a PyTorch module, as `from_exported_program` makes it.

    Parameters
    ----------
    module : torch.nn.Module or callable
        The module, in the mode (`train` or `eval`) that is meant, or a function without arguments that builds it: then
        its parameters take no memory.
    args, kwargs : sequence and mapping
        Example inputs; their shapes count, not their values.
    device, name, sizes
        As for `from_exported_program`.
    observe : bool
        Whether the program is run once on the example inputs, to measure the sizes that are not given.

    Raises
    ------
    InputError
        If torch is not installed or cannot export the module.
    """
    program = export(module, args, kwargs)
    return from_exported_program(program, device, name, sizes, (args, kwargs or {}) if observe else None)


def export(
    module: torch.nn.Module | Callable[[], torch.nn.Module],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
) -> ExportedProgram:
    """Export a module in core ATen operators, in the form that `from_exported_program` takes.

    A function that builds the module runs on the meta device and, if the module cannot be exported from there, with
    fake tensors.

    Parameters
    ----------
    module, args, kwargs
        As for `trace`, and so are the errors.
    """
    torch = _torch()
    if isinstance(module, torch.nn.Module):
        return _export(module, tuple(args), dict(kwargs or {}))
    from torch._subclasses import FakeTensorMode
    from torch.utils._pytree import tree_map_only

    def like(tensor: Any) -> Any:
        return torch.empty(tensor.shape, dtype=tensor.dtype)

    problems = []
    for place in (torch.device("meta"), FakeTensorMode(allow_non_fake_inputs=True)):
        try:
            with place:
                return _export(module(), *tree_map_only(torch.Tensor, like, (tuple(args), dict(kwargs or {}))))
        except Exception as error:  # whatever the user's function raises, as some modules do on the meta device
            problems.append(error)
    if isinstance(problems[0], InputError):
        raise problems[0]
    raise InputError(f"The module cannot be built: {first_line(problems[0])}") from problems[0]


def from_exported_program(
    program: ExportedProgram,
    device: Device = DEFAULT_DEVICE,
    name: str = "module",
    sizes: Mapping[str, int] | None = None,
    example: tuple[Sequence[Any], Mapping[str, Any]] | None = None,
) -> ComputationGraph:
    """Graph of an exported program.

    Nodes are the operators that compute something, in the order of the program; views are part of the tensor that they
    view, and inputs of the program are there for everyone. Tied parameters count once in each block that uses them;
    buffers and constants count as parameters.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    device : Device
        Device for which the operators are priced.
    name : str
        Name of the network.
    sizes : mapping, optional
        Values of sizes that depend on values of tensors, by their names.
    example : tuple, optional
        Positional and keyword inputs on which the program is run once, to measure sizes that are not given.

    Returns
    -------
    ComputationGraph
        Work in seconds. Its attributes hold `flops`, `parameter_count` and, if there are any, `unknown_operators`, of
        which only the bytes count, and `unused_parameters`. `weights_elsewhere` maps each weight of a module that has
        modules in it, or none of whose weights an operator reads, to the first node that reads the weight, or None.
        `input_readers` are the names of the nodes that read inputs. `calls_elsewhere` maps each node that runs in a
        module called from outside its parent to the modules in whose calls it runs.

    Raises
    ------
    InputError
        If torch is not installed, a dimension has no value, or no operator computes anything.
    """
    _torch()
    from instances.readers.pytorch.dataflow import (
        Dataflow,
        bytes_moved,
        calls_elsewhere,
        fix_sizes,
        flops_of,
        input_readers,
        is_unknown,
        label,
        observed_sizes,
        open_sizes,
        weights_elsewhere,
    )

    program = decompose(program)
    example_sizes = {} if example is None or not open_sizes(program) else observed_sizes(program, *example)
    sizes = example_sizes | dict(sizes or {})
    fix_sizes(program, sizes)
    flow = Dataflow(program)
    if not flow.operators:
        raise InputError(f"{name}: no operator of it computes anything; there is nothing to cut.")
    flops = [flops_of(node, program.graph_module) for node in flow.operators]
    work = [device.time(count, bytes_moved(node, flow)) for node, count in zip(flow.operators, flops, strict=True)]
    outputs: list[list[float]] = [[] for _ in flow.operators]
    edges = []
    for output in flow.outputs:
        edges += [(output.producer, reader, len(outputs[output.producer])) for reader in output.readers]
        outputs[output.producer].append(output.bytes)
    param_bytes = [0.0] * len(flow.operators)
    shared = []
    for weight in flow.weights:
        if len(weight.readers) == 1:
            param_bytes[weight.readers[0]] += weight.bytes
        elif weight.readers:
            shared.append(SharedParameter(weight.name, weight.bytes, tuple(weight.readers)))
    unknown = Counter(str(node.target) for node in flow.operators if is_unknown(node))
    unused = [weight.name for weight in flow.weights if weight.elements and not weight.readers]
    notes = {
        "unknown_operators": dict(sorted(unknown.items())),
        "unused_parameters": unused,
        "weights_elsewhere": weights_elsewhere(program, flow),
        "input_readers": input_readers(flow),
        "calls_elsewhere": calls_elsewhere(flow),
    }
    return ComputationGraph.from_edges(
        edges,
        work,
        outputs,
        param_bytes,
        names=tuple(label(node) for node in flow.operators),
        parameters=tuple(shared),
        name=name,
        source=f"torch.export, {device.peak_flops:g} flop/s, {device.memory_bandwidth:g} bytes/s",
        attributes={
            **({"sizes": sizes} if sizes else {}),
            "flops": sum(flops),
            "parameter_count": sum(weight.elements for weight in flow.weights if weight.readers),
            **{key: value for key, value in notes.items() if value},
        },
    )


def decompose(program: ExportedProgram) -> ExportedProgram:
    """The program in core ATen operators without in-place changes; unchanged if it is one already.

    Raises
    ------
    InputError
        If torch cannot decompose it.
    """
    torch = _torch()
    table = torch.export.default_decompositions()
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    if not any(target in table or getattr(getattr(target, "_schema", None), "is_mutable", False) for target in targets):
        return program
    try:
        with quiet():
            return program.run_decompositions(table)
    except Exception as error:
        raise InputError(f"The program cannot be decomposed: {first_line(error)}") from error


def _export(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
    torch = _torch()
    try:
        with quiet():
            program = torch.export.export(module, args, kwargs, strict=False)
    except Exception as error:
        scripted = any(isinstance(part, torch.jit.ScriptModule) for part in module.modules())
        remedy = with_remedy(error, scripted)
        raise InputError(f"{type(module).__name__} cannot be exported: {remedy}") from error
    return decompose(program)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings, logs and output of torch; errors are still raised."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        with warnings.catch_warnings(action="ignore"), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _torch() -> Any:
    try:
        import torch
        import torch.export
    except ImportError:
        raise InputError(f"PyTorch is not installed; install the extra: {extra('torch')}") from None
    return torch
