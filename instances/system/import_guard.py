"""Check that all packages come from one folder; their import names are general, and others may use them too.

Each package runs this file first, by its path, as its name could already lead to the wrong folder. ``import instances``
cannot be checked where a foreign package `instances` comes first; ``import mtpp`` and the program ``mtpp`` report it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import TracebackType

#: The packages that belong together.
SIBLINGS = ("instances", "heuristics", "mtpp_models", "experiments", "mtpp")

_PROGRAMS = ("mtpp", "mtpp.exe")
_WRONG_USE = 2


class _ForeignSiblingError(ImportError):
    """Error that notebooks show as one line, without a traceback."""

    def _render_traceback_(self) -> list[str]:  # called by notebooks
        return [f"ImportError: {self}"]


def check_siblings() -> None:
    """Check that the packages of this project come from the folder of this one; import nothing.

    Raises
    ------
    ImportError
        If one is missing or comes from elsewhere; the message names both folders. Python prints it as one line.
    SystemExit
        With code 2, after that line, if this is the command line.
    """
    home = Path(__file__).resolve().parents[2]
    for name in SIBLINGS:
        spec = find_spec(name)
        origin = None if spec is None or spec.origin is None else Path(spec.origin).resolve()
        if origin != home / name / "__init__.py":
            elsewhere = origin.parent if origin is not None and origin.name == "__init__.py" else origin
            where = "is not there" if elsewhere is None else f"comes from {elsewhere}"
            _refuse(
                f"The package {name!r} of mtpp should come from {home / name} but {where}; "
                "install mtpp in an environment of its own, or rename or move the other one.",
                name,
            )


def _refuse(message: str, name: str) -> None:
    if _is_command_line():
        print(f"mtpp: {message}", file=sys.stderr)
        raise SystemExit(_WRONG_USE)
    sys.excepthook = _in_one_line(sys.excepthook)
    raise _ForeignSiblingError(message, name=name)


def _is_command_line() -> bool:
    """Whether Python was started as ``mtpp`` or ``python -m mtpp``."""
    module = next((word for flag, word in pairwise(sys.orig_argv) if flag == "-m"), "")
    return module == "mtpp" or any(Path(word).name in _PROGRAMS for word in sys.argv[:1])


Hook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def _in_one_line(others: Hook) -> Hook:
    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, _ForeignSiblingError):
            print(f"ImportError: {error}", file=sys.stderr)
        else:
            others(kind, error, trace)

    return show
