"""Studies of three papers: their runs, tables and claims."""

from pathlib import Path
from runpy import run_path

run_path(str(Path(__file__).resolve().parents[1] / "instances" / "system" / "import_guard.py"))["check_siblings"]()

__all__ = ["paper"]


def __getattr__(name: str) -> object:
    """Import `paper` at its first use; an `AttributeError` for any other name."""
    if name == "paper":
        from experiments.studies.papers.make import paper

        return paper
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
