"""Plans of pipelined training: `plan`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, overload

import numpy as np

from instances.errors import InputError, WordError, is_refused
from instances.json_files import read_text
from instances.planning import Iteration, LayerChain, Plan
from instances.planning.grid import ConfiguredChain
from instances.planning.grid.transformer import Transformer
from instances.system.interrupts import catch_interrupt
from mtpp.certifying.grid import GridResult, covered_grid
from mtpp.certifying.planning import CoveredPlan, PlanResult, PlanSearch, covered_plan, recovered
from mtpp.questions.partitioning import runtime_of
from mtpp.questions.planning import PlanningQuestion, PlanSearchWords, PlanWords, plan_question
from mtpp.questions.words import pick, takes_words

if TYPE_CHECKING:
    from instances import ComputationGraph
    from instances.devices.cluster import Cluster
    from instances.runtimes import Runtime

__all__ = ["plan", "planned"]


@overload
def plan(
    chain: str | PathLike[str] | LayerChain | ComputationGraph,
    cluster: str | PathLike[str] | Cluster,
    microbatches: int,
    planner: str = "improved",
    **words: Unpack[PlanWords],
) -> PlanResult: ...


@overload
def plan(
    chain: str | PathLike[str] | ConfiguredChain | Transformer, cluster: str, **words: Unpack[PlanWords]
) -> GridResult: ...


@takes_words(PlanWords)
def plan(
    chain: str | PathLike[str] | LayerChain | ComputationGraph | ConfiguredChain | Transformer,
    cluster: str | PathLike[str] | Cluster,
    microbatches: int | None = None,
    planner: str = "improved",
    **words: Unpack[PlanWords],
) -> PlanResult | GridResult:
    """Plan pipelined training and bound how much faster a plan could be, as ``mtpp plan``.

    Parameters
    ----------
    chain : str, path, LayerChain or ComputationGraph
        A chain file, a PipeDream profile, an architecture, a graph, or "simulation".
    cluster : str, path or Cluster
        A file, servers as "8x4", a testbed of the paper, or "simulation-SEED".
    microbatches : int
        Of an iteration; leave it out for a plan of `global_batch` samples.
    planner : str
        A name of `mtpp.PLANNERS`.
    bandwidth : float or str, optional
        Of servers: one rate, or one within and one between them as "128Gbps,32Gbps".
    memory : float or str, optional
        Of a device; no limit by default.
    network : str
        "shared" if servers share network cards, "paper" if links share nothing.
    nic : str
        Of a server's card: "full", "half", and a rate, such as "25GB/s,half".
    dtype : str, optional
        "fp32" by default, "bf16" with `global_batch`, "fp16" or "fp8"; that of an architecture, and of the bytes of a
        file.
    sequence : int, optional
        Tokens of a sample.
    optimizer_bytes : float, optional
        Bytes a parameter, with its gradient and the optimizer's state; 16 by default, 18 with `global_batch`.
    parameter_copies : float, optional
        The same for each byte of parameters; 4 by default for the paper's network.
    samples : int, optional
        Samples of a microbatch, of which each replica takes whole ones.
    recompute : bool
        Whether stages that do not fit may keep their input alone.
    runtime : str, optional
        Only plans that it can express, of a graph with layers: a name of ``mtpp list runtimes``.
    full_duplex : bool
        Whether links carry both directions at once.
    dims, input_work, time_unit, peak_flops, memory_bandwidth
        As for `mtpp.load`.
    effort : int
        0 to 3, of "improved" on shared cards.
    orders : str
        Orders of passes that it may choose there, such as "auto", "unsplit", "zb" or "interleaved"; or a CSV file with
        the order for the plan that is found.
    time_limit : float, optional
        For the search, and with `global_batch` as much again for bounds [s].
    seed : int
    global_batch, micro_batch, tp, cp, ep, zero, checkpoint, attention, fix, device, price, runtime
        Of equal pipelines of whole microbatches, with degrees of parallelism: `docs/training.md`.

    Returns
    -------
    Result
        Its answer is an `Iteration`, which has the plan; with `global_batch` a `GridPlan`.

    Raises
    ------
    InputError
        If a word is refused, or no plan fits into memory.

    Examples
    --------
    >>> import mtpp
    >>> mtpp.plan("simulation", "2x2", 4, bandwidth="128Gbps,32Gbps").answer.plan.n_stages > 0
    True
    """
    question = plan_question(chain, cluster, microbatches, words, planner, pick(PlanSearchWords, words))
    if isinstance(question, PlanningQuestion):
        return planned(question).result
    return covered_grid(question.instance, question.time_limit, question.runtime).result


def planned(question: PlanningQuestion, tell: Callable[[str, float], None] | None = None) -> CoveredPlan:
    """Plan with the bounds of all classes of plans, in the order of a file if there is one.

    Parameters
    ----------
    question : PlanningQuestion
    tell : callable, optional
        Told each phase with the best time by then.

    Raises
    ------
    InputError
        If the planner is refused, or no plan fits into memory.
    """
    words, planner, runtime = question.search, question.planner, question.runtime
    orders, seed, limit = words["orders"], words["seed"], words["time_limit"]
    from_file = orders.endswith(".csv")
    legal = None if runtime is None else partial(_legal, runtime_of(runtime))
    with catch_interrupt() as interrupted:  # never in the middle of a kernel
        order = "unsplit" if from_file else orders
        search = PlanSearch(planner, words["effort"], order, limit, tell, interrupted, legal)
        covered = covered_plan(question.instance, np.random.default_rng(seed), search)
        if from_file:
            covered = _in_listed_order(covered, Path(orders))
        stopped = interrupted.is_set()
    covered = replace(covered, result=replace(covered.result, interrupted=stopped))
    provenance = {"planner": planner, "seed": seed, "time_limit": limit}
    result = replace(covered.result, provenance=provenance, clocked=limit is not None)
    wider = tuple(replace(other, provenance=provenance) for other in covered.wider)
    return replace(covered, result=replace(result, parts=(result, *wider)), wider=wider)


def _legal(runtime: Runtime, plan: Plan) -> bool:
    """Whether the runtime can express a plan."""
    return not is_refused(runtime.settings, plan)


def _in_listed_order(covered: CoveredPlan, path: Path) -> CoveredPlan:
    """The plan that was found, in the order of a file."""
    from heuristics.planning.orders import execute_orders
    from instances.planning.timeline_file import read_schedule

    found = covered.result.answer
    if found is None or found.plan is None or found.instance.network is None:
        why = "only a single pipeline on shared network cards takes an order; choose another planner."
        raise WordError("orders", path, why)
    plan: Plan = found.plan
    orders = read_schedule(read_text(path), plan, str(path))
    try:
        timeline = execute_orders(plan, orders, path.name)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return recovered(replace(covered.result, bound=None, answer=Iteration(plan.instance, (timeline,))))
