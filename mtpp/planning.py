"""Plans of pipelined training: `plan`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.cli.inputs import Roofs
from experiments.cli.plan import PlanningQuestion
from instances.planning import Cluster, LayerChain
from mtpp.graphs import Quantity, word

if TYPE_CHECKING:
    from experiments.certificates.plan_certificate import PlanResult

__all__ = ["plan"]


def plan(
    chain: str | Path | LayerChain,
    cluster: str | Path | Cluster,
    microbatches: int,
    planner: str = "improved",
    *,
    bandwidth: Quantity = None,
    memory: Quantity = None,
    parameter_copies: float = 4.0,
    full_duplex: bool = False,
    dims: Mapping[str, int] | None = None,
    input_work: str | None = None,
    time_unit: str | None = None,
    peak_flops: Quantity = None,
    memory_bandwidth: Quantity = None,
    seed: int = 0,
) -> PlanResult:
    """Plan pipelined training and bound how much faster a plan could be, as ``mtpp plan``.

    Parameters
    ----------
    chain : str, path or LayerChain
        A chain file, a PipeDream profile, an architecture, a graph, or "simulation".
    cluster : str, path or Cluster
        A file, servers as "8x4", a testbed of the paper, or "simulation-SEED".
    microbatches : int
        Of an iteration.
    planner : str
        A name of `mtpp.PLANNERS`.
    bandwidth : float or str, optional
        Of servers: one rate, or one within and one between them as "128Gbps,32Gbps".
    memory : float or str, optional
        Of a device; no limit by default.
    parameter_copies : float
        Bytes kept per byte of parameters.
    full_duplex : bool
        Whether links carry both directions at once.
    dims, input_work, time_unit, peak_flops, memory_bandwidth
        As for `mtpp.load`.
    seed : int

    Returns
    -------
    Result
        Its answer is an `Iteration`, which has the plan.

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
    from experiments.certificates.plan_certificate import certify_plan

    question = PlanningQuestion(
        chain=str(chain),
        cluster=str(cluster),
        microbatches=microbatches,
        bandwidth=word(bandwidth),
        memory=word(memory),
        parameter_copies=parameter_copies,
        full_duplex=full_duplex,
        dim=[f"{name}={size}" for name, size in (dims or {}).items()] or None,
        input_work=input_work,
        time_unit=time_unit,
        roofs=Roofs(word(peak_flops), word(memory_bandwidth)),
    )
    instance = question.instance(
        chain if isinstance(chain, LayerChain) else None, cluster if isinstance(cluster, Cluster) else None
    )
    return certify_plan(instance, np.random.default_rng(seed), planner)
