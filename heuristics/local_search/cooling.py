"""Temperatures of a walk under simulated annealing."""

from __future__ import annotations

from typing import NamedTuple

from instances.compiled import compiled

__all__ = ["Cooling", "factor_of"]


class Cooling(NamedTuple):
    """Moves of a walk, and its temperature, which falls by the same factor at each move.

    Examples
    --------
    >>> Cooling(100, hot=4.0, cold=1.0).part(0, 50)
    Cooling(moves=50, hot=4.0, cold=2.0)
    """

    moves: int
    hot: float  # before the first move; 0 stays 0
    cold: float  # after the last one

    def part(self, done: int, moves: int) -> Cooling:
        """The next moves of the walk after those that are done."""
        hot, cold = (self.hot and self.hot * (self.cold / self.hot) ** (at / self.moves) for at in (done, done + moves))
        return Cooling(moves, hot, cold)


@compiled(allocates=False)
def factor_of(cooling: Cooling) -> float:
    """Factor of the temperature at each move."""
    if cooling.hot <= 0.0:
        return 1.0
    return float((cooling.cold / cooling.hot) ** (1.0 / max(1, cooling.moves)))
