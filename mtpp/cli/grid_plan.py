"""The part of ``mtpp plan`` for a global batch: the search of a plan in a grid, and what is shown of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from mtpp.cli.exit_codes import DONE, INTERRUPTED
from mtpp.cli.messages import complain

if TYPE_CHECKING:
    from mtpp.cli.outputs import PlanFiles
    from mtpp.cli.printing import Printing
    from mtpp.questions.grid import GridQuestion

__all__ = ["show_grid"]


def show_grid(question: GridQuestion, files: PlanFiles, printing: Printing) -> int:
    """Plan, print, draw and write; the exit code."""
    from instances.runtimes.grid_settings import grid_settings
    from mtpp.certifying.grid import covered_grid
    from mtpp.cli.grid_tables import comparison_rows, grid_headlines, stage_rows
    from mtpp.problems.answers import result_document
    from mtpp.text.tables import left_aligned

    runtime = question.runtime
    with printing.working(question.instance.label, "best") as line:
        covered = covered_grid(question.instance, question.time_limit, runtime, line.tell)
    plan = covered.result.answer
    assert plan is not None
    document: Any = partial(result_document, covered.result)
    files.write(document)
    printing.say(left_aligned(grid_headlines(covered, question.device.peak_flops, question.price)))
    printing.notes(covered.result)
    printing.table(*stage_rows(plan), words={1, 4, 8})
    printing.table(*comparison_rows(covered), words={0, 1})
    if files.plot is not None:
        from mtpp.plots.grids import grid_figure
        from mtpp.plots.style import save_figure

        save_figure(grid_figure(plan, covered.result.bound, covered.uniform), files.plot)
    printing.document(document)
    if files.export is not None and runtime is not None:
        files.export.write_text(grid_settings(plan, runtime), encoding="utf-8")
    if covered.result.interrupted:
        return complain("stopped; this is the best plan by then.", INTERRUPTED)
    return DONE
