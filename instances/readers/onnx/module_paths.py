"""Paths of the PyTorch modules that nodes come from, as torch's exporter writes them beside the nodes."""

from __future__ import annotations

import ast

from onnx import NodeProto

__all__ = ["module_path"]

_SCOPES = "pkg.torch.onnx.name_scopes"
#: Characters of the list of scopes that is read; the longest have some hundreds.
_MOST = 10_000


def module_path(node: NodeProto) -> str:
    """The path of the module that calls a node, such as ``model.layers.0.mlp``; empty if the file does not say.

    The metadata is a list of nested scopes: paths of modules from the root on, and the call itself.

    Examples
    --------
    >>> from onnx.helper import make_node
    >>> node = make_node("MatMul", ["x", "w"], ["y"])
    >>> entry = node.metadata_props.add(key=_SCOPES, value="['', 'layers.0', 'layers.0.linear', 'linear']")
    >>> module_path(node)
    'layers.0.linear'
    """
    text = next((entry.value for entry in node.metadata_props if entry.key == _SCOPES), "")
    if not text or len(text) > _MOST:
        return ""
    try:
        scopes = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ""
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        return ""
    return next((scope for scope in reversed(scopes[:-1]) if scope), "")
