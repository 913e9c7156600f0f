"""Studies of three papers: their runs, tables and claims."""

from pathlib import Path
from runpy import run_path

run_path(str(Path(__file__).resolve().parents[1] / "instances" / "import_guard.py"))["check_siblings"]()
