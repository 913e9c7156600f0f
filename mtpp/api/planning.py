"""Plans of pipelined training: `plan`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from instances.planning import Cluster, LayerChain
from mtpp.questions.partitioning import Roofs
from mtpp.questions.planning import PlanningQuestion
from mtpp.questions.reading import Quantity, word

if TYPE_CHECKING:
    from mtpp.certifying.planning import PlanResult

__all__ = ["plan"]


def plan(
    chain: str | Path | LayerChain,
    cluster: str | Path | Cluster,
    microbatches: int,
    planner: str = "improved",
    *,
    bandwidth: Quantity = None,
    memory: Quantity = None,
    network: str = "shared",
    nic: str = "full",
    dtype: str | None = None,
    sequence: int | None = None,
    optimizer_bytes: float | None = None,
    parameter_copies: float | None = None,
    samples: int | None = None,
    recompute: bool = False,
    full_duplex: bool = False,
    dims: Mapping[str, int] | None = None,
    input_work: str | None = None,
    time_unit: str | None = None,
    peak_flops: Quantity = None,
    memory_bandwidth: Quantity = None,
    effort: int = 2,
    orders: str = "auto",
    time_limit: float | None = None,
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
    network : str
        "shared" if servers share network cards, "paper" if links share nothing.
    nic : str
        Of a server's card: "full", "half", and a rate, such as "25GB/s,half".
    dtype : str, optional
        "fp32" by default, "bf16", "fp16" or "fp8"; it is that of an architecture, and says what bytes of a file count.
    sequence : int, optional
        Tokens of a sample.
    optimizer_bytes : float, optional
        Bytes a parameter, with its gradient and the optimizer's state; 16 by default.
    parameter_copies : float, optional
        The same for each byte of parameters; 4 by default for the paper's network.
    samples : int, optional
        Samples of a microbatch, of which each replica takes whole ones.
    recompute : bool
        Whether stages that do not fit may keep their input alone.
    full_duplex : bool
        Whether links carry both directions at once.
    dims, input_work, time_unit, peak_flops, memory_bandwidth
        As for `mtpp.load`.
    effort : int
        0 to 3, of "improved" on shared cards.
    orders : str
        Orders of passes that it may choose there, such as "auto", "unsplit", "zb" or "interleaved".
    time_limit : float, optional
        For the search [s].
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
    from mtpp.certifying.planning import PlanSearch, covered_plan

    question = PlanningQuestion(
        chain=str(chain),
        cluster=str(cluster),
        microbatches=microbatches,
        bandwidth=word(bandwidth),
        memory=word(memory),
        network=network,
        nic=nic,
        dtype=dtype,
        sequence=sequence,
        optimizer_bytes=optimizer_bytes,
        parameter_copies=parameter_copies,
        samples=samples,
        recompute=recompute,
        full_duplex=full_duplex,
        dim=[f"{name}={size}" for name, size in (dims or {}).items()] or None,
        input_work=input_work,
        time_unit=time_unit,
        roofs=Roofs(word(peak_flops), word(memory_bandwidth)),
    )
    instance = question.instance(
        chain if isinstance(chain, LayerChain) else None, cluster if isinstance(cluster, Cluster) else None
    )
    search = PlanSearch(planner=planner, effort=effort, orders=orders, time_limit=time_limit)
    return covered_plan(instance, np.random.default_rng(seed), search).result
