"""Plans for a global batch, and calibration of their times by measured steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from instances.errors import InputError, printable
from instances.graph.display import how_many
from instances.json_files import Value, read_json
from instances.planning.grid import ConfiguredChain
from instances.planning.grid.accelerators import MEASURED
from instances.planning.grid.estimates import ALIKE, STEPS_FORMAT, Calibration, Step, calibrated, spread
from instances.planning.grid.plan import GridPlan, first_recomputed, plan_of
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.transformer import Transformer
from instances.planning.stated import grid_from_document
from mtpp.certifying.loop import ignore
from mtpp.certifying.methods import GridResult, certify_grid, plans_of_other_degrees
from mtpp.questions.grid import GridQuestion, grid_question
from mtpp.questions.planning import TrainWords
from mtpp.questions.words import path_of, takes_words, words_of
from mtpp_models import Progress

#: A step above it, or devices used below it, are mostly a number in another unit [s].
_LONG, _IDLE = 3600.0, 0.01


@takes_words(TrainWords)
def train(
    model: str | PathLike[str] | ConfiguredChain | Transformer, cluster: str, **words: Unpack[TrainWords]
) -> GridResult:
    """Plan training for a global batch and bound how much faster a plan could be, as ``mtpp train``.

    Parameters
    ----------
    model : str, path, ConfiguredChain or Transformer
        A model by name, a ``config.json``, or a file of mtpp-chain/2 or Piper.
    cluster : str
        Equal servers such as "8x8", or by name such as "16xDGX-H100".
    global_batch : int
        Samples of a step.
    bandwidth : float or str, optional
        Within and between servers as "300GB/s,200GB/s"; that of servers known by name by default.
    memory : float or str, optional
        Memory of a device; by default 94 % of that of `device`.
    nic, dtype, sequence, optimizer_bytes, full_duplex, peak_flops, memory_bandwidth, time_unit
        As for `plan`; "bf16" by default, with 18 bytes a parameter; "fp8" has 8-bit products.
    micro_batch, tp, cp, ep, etp, imbalance, dispatch, overlap, zero, checkpoint, attention, fix, device, price, runtime
        Degrees of parallelism and settings of equal pipelines: see `docs/training.md`.
    calibration : str, optional
        A file of `calibrate`.
    top : int
        Largest number of plans with other degrees that are shown beside the best one.
    tokens : float, optional
        Tokens of a whole training, whose days and price are shown.
    time_limit : float, optional
        For the search, and as much again for bounds [s].

    Returns
    -------
    Result
        Its answer is a `GridPlan`; its notes say between which times four of five steps are.

    Raises
    ------
    InputError
        If an argument is refused, or no plan fits into memory.

    Examples
    --------
    >>> import mtpp
    >>> words = {"bandwidth": "300GB/s", "sequence": 64, "micro_batch": 1}
    >>> mtpp.train("gpt2", "1x2", global_batch=2, **words).answer.devices
    2
    """
    return trained(grid_question(model, cluster, words, words["time_limit"]))


def trained(question: GridQuestion, on_progress: Callable[[Progress], None] = ignore) -> GridResult:
    """As `train`, for a question that is already checked."""
    result = certify_grid(question.instance, question.time_limit, question.runtime, on_progress, question.top)
    return result.noted(*_notes(question, result))


def _notes(question: GridQuestion, result: GridResult) -> list[str]:
    """Sentences on the range of the step's time, and on numbers that look like another unit."""
    plan, notes = result.answer, list[str]()
    if plan is None:
        return notes
    if question.estimate is not None:
        factor = spread(question.estimate, plan, question.calibration)
        basis = "as published ones of such runs"
        if question.calibration is not None:
            basis = f"by the calibration {printable(question.calibration.name)}"
        elif question.estimate.device.name not in MEASURED:
            basis = f"as nobody has measured {question.estimate.device.name} here"
        notes.append(f"four of five steps take {plan.time / factor:.4g} to {plan.time * factor:.4g} s, {basis}")
        others = plans_of_other_degrees(result)
        if others:
            number = sum(is_alike(other, plan) for other in others)
            words = f"{number} of {how_many(len(others), 'plan')} of other degrees"
            notes.append(f"{words} within {ALIKE:.0%} of the fastest: predictions do not tell them apart")
    if plan.time > _LONG:
        notes.append(f"a step of {plan.time:.3g} s is longer than an hour; look at the units of rates")
    use = use_of(plan, question.peak_flops)
    if use is not None and use < _IDLE:
        notes.append(f"{use:.2%} of the devices' peak is used; look at the units of rates")
    return notes


def is_alike(other: GridPlan, plan: GridPlan) -> bool:
    """Whether `other`, a slower plan, may be as fast as `plan`, as predictions are uncertain."""
    return other.time <= (1 + ALIKE) * plan.time


def use_of(plan: GridPlan, peak_flops: float) -> float | None:
    """Fraction of the devices' peak used for the model's operations, without recomputation (MFU).

    None where the operations of a sample are unknown.
    """
    flops, question = plan.chain.flops, plan.instance
    if flops is None:
        return None
    return 3 * flops * question.global_batch / (plan.time * question.servers.devices * peak_flops)


# Measured steps.


def calibrate(steps: str | PathLike[str], software: str = "") -> Calibration:
    """Fit the constants of a device, a type of numbers and a runtime to measured steps, as ``mtpp train calibrate``.

    Parameters
    ----------
    steps : str or path
        A file ``mtpp-steps/1``: a list `steps` of objects with `seconds`, the arguments of `train` as `words`, with
        `model` and `cluster` among them, and perhaps `plan`, a file of the plan that ran, and `source`. Without a plan,
        `fix` names all degrees, and stages are even.
    software : str
        Release of the runtime and what else the times depend on.

    Returns
    -------
    Calibration

    Raises
    ------
    InputError
        If the file or a step is refused, steps are of several kinds, or one contradicts the others.
    """
    path = path_of("steps", steps)
    document = read_json(path)
    document.check_format(STEPS_FORMAT)
    rows = document.members(("format", "steps"))["steps"].items()
    return calibrated([_step(row, path.parent) for row in rows], path.stem, software)


def _step(row: Value, folder: Path) -> Step:
    """A measured step from a row of a file."""
    members = row.members(("seconds", "words"), ("plan", "source"))
    seconds = members["seconds"].number()
    if not 0 < seconds < math.inf:
        members["seconds"].fail("a step takes more than 0 seconds; give what was measured.")
    row_words = members["words"].open_members(("model", "cluster", "global_batch"))
    for name in row_words:
        if name not in ("model", "cluster", *words_of(TrainWords)):
            members["words"].fail(f"train has no word {name!r}; leave it out.")
    words = {name: value.data for name, value in row_words.items()}
    with row.refusing():
        question = asked(words.pop("model"), words.pop("cluster"), **words)
        if question.estimate is None:
            raise InputError("its layers are measured, so that there is nothing to calibrate; give a model by name.")
        if "plan" in members:
            plan = plan_of(grid_from_document(read_json(folder / members["plan"].text())))
        else:
            plan = even_plan(question.instance)
        plan = question.estimate.retimed(plan)
    return Step(question.estimate, plan, seconds, members["source"].text() if "source" in members else "")


@takes_words(TrainWords)
def asked(model: Any, cluster: str, **words: Unpack[TrainWords]) -> GridQuestion:
    """The question that `train` answers, from the same arguments."""
    return grid_question(model, cluster, words, words["time_limit"])


def even_plan(question: GridInstance) -> GridPlan:
    """The plan with the fixed degrees and equally many layers in all stages.

    Raises
    ------
    InputError
        If a degree is not fixed, or it is no plan.
    """
    fixed, chain = question.fixed, question.chains[0]
    ((_, context, expert), *others) = sorted({(1, c, e) for _, c, e in chain.degrees})
    if fixed.pp is None or fixed.tp is None or others or len(question.chains) > 1:
        raise InputError("fix has not all of pp, tp, cp and ep, or micro_batch names several; name those that ran.")
    pipelines = fixed.dp or question.servers.devices // (fixed.pp * fixed.tp * context)
    stages, layers = fixed.pp * (fixed.v or 1), chain.n - 2
    cuts = (0, *(1 + layers * (i + 1) // stages for i in range(stages - 1)), chain.n)
    if any(begin >= end for begin, end in pairwise(cuts)):
        raise InputError(f"{layers} layers are fewer than {stages} stages; lower pp or v.")
    if fixed.recomputed is not None:
        modes = first_recomputed(chain, cuts, fixed.recomputed)
    else:
        ways = [question.ways(layer, (fixed.tp, context, expert)) for layer in chain.layers]
        modes = tuple(way[0].recompute for way in ways)
    roomy = replace(question, memory=math.inf)  # it ran
    tensor, zero = (fixed.tp,) * fixed.pp, question.zero[0]
    return GridPlan(roomy, chain.micro_batch, pipelines, cuts, tensor, modes, context, expert, zero)


def training_of(plan: GridPlan, tokens: float, price: float | None) -> Mapping[str, float | None]:
    """Days of a training on `tokens` tokens, and its price if a device costs `price` an hour."""
    sequence = plan.chain.sequence
    if sequence is None:
        raise InputError(
            f"{plan.chain.name}: its layers are of no sequence, so that tokens are unknown; leave tokens out."
        )
    seconds = tokens / (plan.instance.global_batch * sequence) * plan.time
    devices = plan.instance.servers.devices
    return {"days": seconds / 86_400, "price": None if price is None else price * devices * seconds / 3600}
