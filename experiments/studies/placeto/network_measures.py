"""Numbers of ``mtpp table placeto``: the best placement of a run, samples until it, and Placeto against the RNN."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from experiments.studies.placeto.published import Cell
from mtpp.runs.log import Run

#: Samples count until a time within this of the best one.
_CLOSE = 1.01


class Against(NamedTuple):
    """Placeto against the RNN on one network; None where a run is missing."""

    reduction: float | None  # by how much the step is shorter, as a part
    samples: tuple[int, int] | None  # episodes and simulations until the best time
    planned: tuple[int, int] | None  # those of the RNN until its best
    reached: tuple[int, int] | None  # those of Placeto until the best of the RNN

    @property
    def factor(self) -> float | None:
        """How many times fewer samples Placeto needs to be as good as the RNN."""
        return None if self.reached is None or self.planned is None else self.planned[0] / self.reached[0]


def against(runs: Sequence[Run], cell: Cell) -> Against:
    """Compare the published network with the recurrent planner."""
    ours, rnn = (answer_of(runs, what, cell) for what in ("published", "recurrent"))
    best, other = best_of(ours), best_of(rnn)
    reduction = None if best is None or other is None else 1 - best["time"] / other["time"]
    return Against(reduction, _until(ours, best), _until(rnn, other), _until(ours, other))


def answer_of(runs: Iterable[Run], what: str, cell: Cell) -> dict[str, Any] | None:
    """Answer of a job of that kind on a network; None if there is no run."""
    for run in runs:
        if (run["method"], run["instance"], run["k"]) == (what, cell.network, cell.devices):
            return dict(run["answer"])
    return None


def best_of(answer: dict[str, Any] | None) -> dict[str, float] | None:
    """The last point of a learning curve."""
    return None if answer is None else {"time": answer["curve"][-1][2]}


def orders_of(runs: Iterable[Run], *, planner: bool, orders: int) -> tuple[list[float], float] | None:
    """Times in unseen traversal orders, and the best of the training with so many."""
    for run in runs:
        options = run["options"]
        if run["method"] == "orders" and (options["planner"], options["orders"]) == (planner, orders):
            return run["answer"]["times"], run["answer"]["curve"][-1][2]
    return None


def design_times(runs: Iterable[Run]) -> dict[str, list[float]]:
    """Times on unseen graphs by design of the network."""
    return {run["options"]["design"]: run["answer"]["times"] for run in runs if run["method"] == "design"}


def _until(answer: dict[str, Any] | None, goal: dict[str, float] | None) -> tuple[int, int] | None:
    """Episodes and simulations until the curve is close enough to the time of a goal; None if it never is."""
    if answer is None or goal is None:
        return None
    for episodes, simulations, time in answer["curve"]:
        if time <= _CLOSE * goal["time"]:
            return episodes, simulations
    return None
