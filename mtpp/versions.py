"""Versions of everything that can change an answer, for reports of faults."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from instances.system.import_guard import SIBLINGS

_CORE = ("numpy", "scipy", "networkx", "numba", "pyomo", "pandas", "matplotlib", "typer", "rich")
_EXTRAS = ("onnx", "onnxruntime", "torch", "dask", "distributed")


@cache
def package_version(name: str = "mtpp") -> str | None:
    """Installed version of a distribution; None if it is not installed.

    Examples
    --------
    >>> package_version("no-such-distribution") is None
    True
    """
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def version_of_import(name: str) -> str | None:
    """Installed version of the distribution that a package or module belongs to; None if it is not installed.

    Examples
    --------
    >>> version_of_import("yaml") == package_version("PyYAML"), version_of_import("no_such_package") is None
    (True, True)
    """
    version = package_version(name)
    if version is None and name not in sys.builtin_module_names and find_spec(name) is not None:
        others = importlib.metadata.packages_distributions().get(name, ())
        version = next((package_version(other) for other in others), None)
    return version


def versions() -> dict[str, str]:
    """Versions of Python, platform, packages and solvers, and where packages and kernels are."""
    from instances.compiled import is_warm
    from mtpp_models import SOLVERS, available_solvers

    solvers = available_solvers()
    lines = {"mtpp": package_version() or "not installed, run from its folder"}
    lines |= {"python": platform.python_version(), "platform": platform.platform()}
    lines |= {name: package_version(name) or "not installed" for name in (*_CORE, *_EXTRAS)}
    lines |= {f"solver {name}": solvers.get(name, "not available") for name in SOLVERS}
    for name in SIBLINGS:
        spec = find_spec(name)
        lines[name] = str(Path(spec.origin).parent) if spec is not None and spec.origin else "not found"
    folder = is_warm()
    lines["compiled"] = "no, mtpp warm-up does it" if folder is None else f"yes, in {folder}"
    return lines
