"""ONNX files of PyTorch modules, by torch's own exporter: the default one where it can run, else the older one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from instances.errors import InputError, extra
from instances.readers.pytorch.export import quiet
from instances.readers.pytorch.remedies import first_line

__all__ = ["save_onnx"]


def save_onnx(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], path: Path) -> None:
    """Write a module with its weights as an ONNX model with the shapes of the example.

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
        raise InputError(f"{name}: an ONNX file of it needs onnx; install the extra: {extra('onnx')}.")
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
