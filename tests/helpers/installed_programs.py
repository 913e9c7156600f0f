"""Parsers of installed programs, and functions of them whose packages cannot be imported as a whole."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

__all__ = ["function_of", "needs"]


def needs(package: str, module: str | None = None) -> Any:
    """An installed package; without it the test is skipped."""
    return pytest.importorskip(module or package, reason=f"{package} is not installed; make runtimes installs it")


def function_of(package: str, file: str, name: str, **scope: Any) -> Callable[..., Any]:
    """A function of an installed package, run on its own, as its package needs more than there is here."""
    try:
        path = Path(str(distribution(package).locate_file(file)))
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed; make runtimes installs it")
    (definition,) = (
        node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef) and node.name == name
    )
    definition.returns, definition.decorator_list = None, []
    for argument in definition.args.args:
        argument.annotation = None
    exec(compile(ast.Module([definition], []), str(path), "exec"), scope)
    function: Callable[..., Any] = scope[name]
    return function
