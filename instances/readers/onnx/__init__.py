"""ONNX models: the weights may be in the file, in other files, or missing.

All shapes must be fixed; dimensions that are open in the file get values by name. Operators that do not depend on an
input are folded away: shape computations vanish, and constants belong to the nodes that use them, once a block, also if
they are transposed or split first. The package onnx is imported when a file is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from instances.devices import DEFAULT_DEVICE, Device
from instances.errors import InputError, check_one_of, extra
from instances.graph.graph import ComputationGraph
from instances.graph.views import fold_views

__all__ = ["read_onnx", "recognises_onnx"]


def recognises_onnx(head: bytes) -> bool:
    """Whether a file that begins like this may be an ONNX model: first the IR version, then another field."""
    return len(head) > 2 and head[0] == 0x08 and 0 < head[1] < 64 and head[2] in b"\x12\x1a\x22\x28\x32\x3a\x42"


def read_onnx(
    path: str | Path, dims: Mapping[str, int] | None = None, device: Device = DEFAULT_DEVICE, cost: str = "roofline"
) -> ComputationGraph:
    """Read a model.

    Parameters
    ----------
    path : path of an ONNX file
    dims : mapping of str to int, optional
        Dimensions that are open in the file, by name, or as `INPUT:AXIS` where they have none. "batch" also stands
        for the first dimension of inputs where the file has a number.
    device : Device
        Turns operations and bytes into seconds.
    cost : {"roofline", "measured"}
        Whether the work comes from `device`, or from a profile of onnxruntime on this machine, with one thread
        and without fusion.

    Returns
    -------
    ComputationGraph
        Views, such as Reshape, are folded. The attributes hold `flops`, `multiply_adds` and `parameter_count`; the
        number of `views_folded`; `dims` and how `shapes` were found; and, if there are any, `unknown_operators`, of
        which only the bytes count, `approximate_loops`, which count once as the file does not say how often they run,
        or as if their state kept its first shape, and `sizes_by_values`, the tensors whose sizes depend on values and
        are those of a run on inputs of ones.

    Raises
    ------
    InputError
        If onnx is not installed, the file is not a valid model, or a shape is open.
    """
    check_one_of("cost", cost, ("roofline", "measured"))
    for dim, size in (dims or {}).items():
        if isinstance(size, str):
            raise InputError(f"{path}: dimension {dim} is {size}; give a whole number.")
    try:
        from instances.readers.onnx.graph import build
    except ImportError as error:
        if error.name is None or not error.name.startswith("onnx"):
            raise
        raise InputError(f"{path}: reading ONNX needs the package onnx; install the extra: {extra('onnx')}") from None
    return fold_views(*build(path, dims or {}, device, cost))
