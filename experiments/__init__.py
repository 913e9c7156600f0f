"""The command line, runs, certificates, studies and plots."""

from __future__ import annotations

try:
    from pathlib import Path
    from runpy import run_path
    from typing import TYPE_CHECKING, Any

    run_path(str(Path(__file__).resolve().parents[1] / "instances" / "import_guard.py"))["check_siblings"]()
    from instances import Result
except KeyboardInterrupt:  # Ctrl-C while numpy is loading; the code is that of the command line
    exec("")  # see `mtpp.__main__`
    raise SystemExit(130) from None

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _drawing(result: Result[Any, Any]) -> Figure:
    from experiments.plots.results import result_figure

    return result_figure(result)


Result.drawing = _drawing
