"""The part of ``mtpp plan`` for a global batch: what is printed, drawn and written of a plan in a grid."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from mtpp.cli.exit_codes import DONE, INTERRUPTED
from mtpp.cli.messages import complain

if TYPE_CHECKING:
    from mtpp.certifying.grid import CoveredGrid
    from mtpp.cli.outputs import PlanFiles
    from mtpp.cli.printing import Printing
    from mtpp.questions.planning import PlanQuestionWords

__all__ = ["show_grid"]


def show_grid(covered: CoveredGrid, words: PlanQuestionWords, files: PlanFiles, printing: Printing) -> int:
    """Print, draw and write a plan; the exit code."""
    from instances.runtimes.grid_settings import grid_settings
    from mtpp.certificates.writing import result_document
    from mtpp.cli.grid_tables import comparison_rows, grid_headlines, stage_rows
    from mtpp.questions.grid import accelerator_of
    from mtpp.text.tables import left_aligned

    runtime, plan = words["runtime"], covered.result.answer
    assert plan is not None
    document: Any = partial(result_document, covered.result)
    files.write(document)
    printing.say(left_aligned(grid_headlines(covered, accelerator_of(words).peak_flops, words["price"])))
    printing.table(*stage_rows(plan), words={1, 4, 8})
    printing.table(*comparison_rows(covered), words={0, 1})
    if files.plot is not None:
        from mtpp.plots.grids import grid_figure
        from mtpp.plots.style import save_figure

        save_figure(grid_figure(plan, covered.uniform), files.plot)
    printing.document(document)
    if files.export is not None and runtime is not None:
        files.export.write_text(grid_settings(plan, runtime), encoding="utf-8")
    if covered.result.interrupted:
        return complain("stopped; this is the best plan by then.", INTERRUPTED)
    return DONE
