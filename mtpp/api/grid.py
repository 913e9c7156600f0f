"""Plans in a grid, for a global batch: the part of `mtpp.plan` that has degrees of parallelism."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from instances.errors import InputError, said, word
from mtpp.certifying.grid import CoveredGrid, GridResult, covered_grid
from mtpp.questions.grid import GridWords, grid_instance
from mtpp.questions.words import chosen
from mtpp_models import Progress

__all__ = ["GridResult", "in_grid", "planned_in_grid"]


def in_grid(microbatches: int | None, planner: str, words: Mapping[str, Any]) -> bool:
    """Whether the words ask for a plan in a grid.

    Raises
    ------
    InputError
        If they ask for both kinds of plans, or for none.
    """
    if words["global_batch"] is None:
        if microbatches is None:
            raise InputError(f"Give {word('microbatches')}, or {word('global_batch')} for equal pipelines.")
        for name in chosen(GridWords, words):
            raise InputError(f"{word(name)} belongs to plans for {word('global_batch')}; give that, or leave it out.")
        return False
    if microbatches is not None:
        raise InputError(f"{word('global_batch')} chooses their number; leave out {word('microbatches')}.")
    if planner != "improved":
        raise InputError(
            f"{said('planner', planner)}: plans for {word('global_batch')} have one planner; leave it out."
        )
    return True


def planned_in_grid(
    chain: Any, cluster: Any, words: Mapping[str, Any], on_progress: Callable[[Progress], None] | None = None
) -> CoveredGrid:
    """Plan with bounds and the best uniform plan, such that the runtime that is named can run it.

    Raises
    ------
    InputError
        If a word is refused, or nothing fits.
    """

    def tell(phase: str, time: float) -> None:
        if on_progress is not None:
            on_progress(Progress(f"{phase}, best {time:.6g} s", 0.0, None, None, None))

    question = grid_instance(chain, cluster, words)
    return covered_grid(question, words["time_limit"], words["runtime"], tell)
