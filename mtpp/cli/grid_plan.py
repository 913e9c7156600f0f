"""The part of ``mtpp plan`` for a global batch: what is printed, drawn and written of a plan in a grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from instances.errors import InputError
from mtpp.cli.exit_codes import DONE, INTERRUPTED
from mtpp.cli.messages import complain

if TYPE_CHECKING:
    from mtpp.cli.printing import Printing
    from mtpp.questions.planning import PlanWords

__all__ = ["plan_for_batch"]


class Drawn(Protocol):
    """Files of a plan: its document, a picture, and settings of a runtime."""

    @property
    def plot(self) -> Path | None:
        """Where the picture goes."""

    @property
    def export(self) -> Path | None:
        """Where the settings go."""

    def write(self, document: Callable[[], Mapping[str, Any]]) -> None:
        """Write the document, if there is a file for it."""


def plan_for_batch(chain: str, cluster: str, words: PlanWords, files: Drawn, printing: Printing) -> int:
    """Plan, print, draw and write."""
    from instances.planning.grid.accelerators import ACCELERATORS
    from instances.runtimes.grid_settings import grid_settings
    from mtpp.api.grid import planned_in_grid
    from mtpp.certificates.writing import result_document
    from mtpp.cli.grid_tables import comparison_rows, grid_headlines, stage_rows
    from mtpp.text.parsing import parse_flops
    from mtpp.text.tables import fitted, left_aligned, terminal_width

    runtime = words["runtime"]
    if files.export is not None and runtime is None:
        raise InputError(f"--export {files.export}: say with --for which runtime it is for, megatron or torchtitan.")
    with printing.working(f"{chain} on {cluster}") as line:
        covered = planned_in_grid(chain, cluster, words, line.show)
    plan = covered.result.answer
    assert plan is not None
    peak = words["peak_flops"]
    flops = ACCELERATORS[words["device"] or "A100-80"].peak_flops if peak is None else parse_flops(peak, "peak_flops")
    document: Any = partial(result_document, covered.result)
    files.write(document)
    printing.say(left_aligned(grid_headlines(covered, flops, words["price"])))
    printing.detail(fitted(*stage_rows(plan), terminal_width(), words={1, 4, 8}))
    printing.detail(fitted(*comparison_rows(covered), terminal_width(), words={0, 1}))
    if files.plot is not None:
        from mtpp.plots.grids import grid_figure
        from mtpp.plots.style import save_figure

        save_figure(grid_figure(plan, covered.uniform), files.plot)
    printing.document(document)
    if files.export is not None and runtime is not None:
        Path(files.export).write_text(grid_settings(plan, runtime), encoding="utf-8")
    if covered.result.interrupted:
        return complain("stopped; this is the best plan by then.", INTERRUPTED)
    return DONE
