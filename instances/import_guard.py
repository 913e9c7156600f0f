"""Check that all four packages come from one folder: their import names are general, and others may have them too."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["SIBLINGS", "check_siblings"]

#: The packages that belong together.
SIBLINGS = ("instances", "heuristics", "mtpp_models", "experiments")


def check_siblings() -> None:
    """Check that the four packages come from the folder of this one; nothing is imported.

    Raises
    ------
    ImportError
        If one is missing or comes from elsewhere; the message names it and its folder.
    """
    home = Path(__file__).resolve().parent.parent
    for name in SIBLINGS:
        spec = find_spec(name)
        found = None if spec is None or spec.origin is None else Path(spec.origin).resolve().parent
        if found != home / name:
            where = f"comes from {found}" if found else "is not there"
            raise ImportError(
                f"The package {name!r} of mtpp should be in {home} but {where}; "
                "install mtpp in an environment of its own, or rename or move the other package.",
                name=name,
            )
