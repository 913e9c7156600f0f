"""Check for PyTorch, which networks need; trained policies run without it."""

from __future__ import annotations

from importlib.util import find_spec

from instances.errors import InputError, extra


def require_torch() -> None:
    """Refuse in one line where PyTorch is missing.

    Raises
    ------
    InputError
        If it is not installed.
    """
    if find_spec("torch") is None:
        raise InputError(f"PyTorch is not installed; install the extra: {extra('learn')}.")
