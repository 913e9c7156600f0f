"""Several results of one question as one."""

from __future__ import annotations

from instances.deadline import COMPILE
from instances.errors import InputError
from instances.results.question import A, Q
from instances.results.result import Result

__all__ = ["combine"]


def combine(*answers: A | Result[Q, A]) -> Result[Q, A]:
    """Combine answers to one question: the best answer with the best bound.

    Parameters
    ----------
    *answers : Partition, Iteration, Placement or Result
        At least one; all of the same question.

    Returns
    -------
    Result
        Method "certify", whose bound keeps the method that proved it.

    Raises
    ------
    InputError
        If the answers belong to different questions.
    FalseCertificateError
        If a bound exceeds the cost of an answer.
    """
    if not answers:
        raise InputError("Nothing to combine; give at least one answer or result.")
    instance: Q = answers[0].instance
    if any(answer.instance.key != instance.key for answer in answers):
        raise InputError("The answers belong to different instances; combine those of one at a time.")
    results = [answer for answer in answers if isinstance(answer, Result)]
    parts = [part for result in results for part in result.parts or (result,)]
    found = [answer for answer in answers if not isinstance(answer, Result)]
    found += [result.answer for result in results if result.answer is not None]
    bounds = [(r.bound.value, r.bound.proved, -i) for i, r in enumerate(results) if r.bound is not None]
    proof = results[-max(bounds)[2]] if bounds else None
    seconds: dict[str, float] = {}
    for result in results:
        seconds[result.method] = seconds.get(result.method, 0.0) + result.spent
    compiling = [result.seconds[COMPILE] for result in results if COMPILE in result.seconds]
    hopeless = next((result for result in results if result.impossible is not None), None)
    proof = proof if hopeless is None else hopeless
    return Result(
        method="certify",
        instance=instance,
        answer=min(found, key=lambda answer: answer.cost, default=None),
        bound=None if proof is None else proof.bound,
        seconds=seconds | ({COMPILE: sum(compiling)} if compiling else {}),
        solver=None if proof is None else proof.solver,
        interrupted=any(result.interrupted for result in results),
        impossible=None if hopeless is None else hopeless.impossible,
        parts=tuple(parts),
        clocked=any(result.clocked for result in results),
        notes=tuple(dict.fromkeys(note for result in results for note in result.notes)),
    )
