"""Test of a caller's bound or heuristic: `hunt`."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from mtpp.questions.words import path_of

if TYPE_CHECKING:
    from mtpp.runs.hunting import Hunt


def hunt(
    method: Any,
    *,
    seconds: float = 60.0,
    seed: int = 0,
    solver: str = "highs",
    out: str | PathLike[str] | None = None,
) -> Hunt:
    """Test a bound or a heuristic on small random questions against brute force, as ``mtpp hunt``.

    The questions have up to six nodes, some of them limited memory, peaks, shared parameters, side constraints and, for
    functions and models with ``kinds="any"``, devices of several kinds with memories, rates and an order. The first one
    that the method fails ends the hunt and is made small: a bound above the optimum, a partition that breaks a rule or
    has another cost, two answers to one question, a search that takes much longer than its limit, or an error.

    Parameters
    ----------
    method : str, callable, Formulation or Algorithm
        A method of your own or where it is, "mine.py:NAME" or "package.module:NAME", or a name of this project.
    seconds : float
        Time by the clock.
    seed : int
        The same seed draws the same questions.
    solver : str
        A name of `mtpp.SOLVERS`, for formulations.
    out : str or path, optional
        Folder for the counterexample: its graph, and the whole question with its optimum.

    Returns
    -------
    Hunt
        `method`, `seed`, `asked` and `refused` (counts of questions by class) and `counterexample`: None, or a record
        of `complaint`, `instance`, `optimum` and `number`. Its text is what the verb prints.

    Raises
    ------
    InputError
        If there is no such method, or a word is refused.

    Examples
    --------
    >>> import mtpp
    >>> print(mtpp.hunt("kahn", seconds=1).counterexample)
    None
    """
    from mtpp.runs.hunting import hunt_methods

    (outcome,) = hunt_methods([method], seconds, seed, solver)
    if out is not None and outcome.counterexample is not None:
        outcome.counterexample.save(path_of("out", out), outcome.method)
    return outcome
