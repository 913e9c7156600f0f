r"""*apart-grid*: bound on plans with degrees of parallelism on servers with slow links, interleaved stages or not.

A group is local if all its pipelines lie in one server. A plan is one of these:

1. All devices lie in one server: it is a plan of the question with that server alone, and takes as long as the bounds
   of both classes of its plans.
2. Some group is local, and devices lie elsewhere. Between it and those, the first two neighbours that do not share a
   server have a local one among them, of degree t with d t c devices in the server. All M microbatches cross there, and
   come back: :math:`T ≥ 2 M (o / b + λ)`, M for 2 M in full duplex, with o the least bytes that a layer sends at a
   degree that has room, b the rate to other servers, and λ the latency.
3. No group is local. Then each ring of D = d c devices has r in each server, at most D / 2, and r t are at most its
   devices, so that it sends at most at the rate ρ of r cards, or of the links inside. A group of degree t first runs
   all its passes, of time τ a microbatch, and then adds up its gradients: :math:`T ≥ M τ + A`. Weighted by t, over all
   groups, :math:`T ≥ \sum_l \min_t t (M τ_l + A_l) / K`, K devices of a pipeline. What ZeRO 2 and 3 send in passes
   may count in place of the passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from instances.deadline import Deadline
from instances.errors import InputError
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.program import Setting, even_work, settings_of
from instances.planning.grid.recomputation import GridArrays

#: Takes a question, a time and a deadline; returns a lower bound on all plans of the question, at most that time.
Proof = Callable[[GridInstance, float, Deadline], float]


def apart_bound(question: GridInstance, ceiling: float, deadline: Deadline, one_server: Proof) -> float | None:
    """Lower bound on the time of plans, at most `ceiling` [s]; None if it is no larger than the even share of work.

    `one_server` gives a bound for a question with a single server.
    """
    if question.servers.count == 1:
        return None
    settings = [(even_work(question, *pair), *pair) for pair in settings_of(question)]
    share = min([ceiling, *(work for work, _, _ in settings)])
    least = min([ceiling, *(max(work, _across(question, *pair)) for work, *pair in settings)])  # type: ignore[arg-type]
    if least <= share:
        return None
    try:
        alone = replace(question, servers=replace(question.servers, count=1))
    except InputError:  # no plan of the question lies in one server
        return least
    return min(least, one_server(alone, least, deadline))


def _across(question: GridInstance, setting: Setting, arrays: GridArrays) -> float:
    """Least time of plans of a setting that use several servers [s]."""
    servers, d, c = question.servers, setting.pipelines, setting.context
    M, K = question.global_batch // (d * setting.micro_batch), servers.devices // (d * c)
    degrees = arrays.degrees.tolist()
    chain, ways = question.chain(setting.micro_batch), 1 if question.full_duplex else 2
    sent = [
        min(way.output_bytes for way in layer.modes((t, c, setting.expert)))
        for t in degrees
        if d * t * c <= servers.size
        for layer in chain.layers[:-1]
    ]
    local = ways * M * servers.transfer(min(sent), inside=False) if sent else np.inf
    return min(local, _apart(question, setting, arrays, M, K))


def _apart(question: GridInstance, setting: Setting, arrays: GridArrays, M: int, K: int) -> float:
    """Least time of plans in which every group spans several servers [s]."""
    servers, sizes, zero = question.servers, question.state_bytes, setting.zero
    D = setting.pipelines * setting.context
    if D == 1:
        return np.inf
    t = arrays.degrees[:, None]
    ranks = np.minimum(D // 2, servers.size // t)
    rates = servers.reached * np.minimum(servers.inner, servers.outer * ranks)
    numbers = np.diff(arrays.parameters[0], axis=1)
    numbers[:, -1] -= arrays.tied
    ring = numbers * (D - 1) / D / rates
    in_passes = 2 * sizes.weights * (zero == 3) + sizes.gradients * (zero >= 2)
    passes = np.diff(arrays.forward + arrays.backward, axis=1)
    after = sizes.summed(zero) * ring
    return max(float((t * (M * times + after)).min(axis=0).sum() / K) for times in (passes, in_passes * ring))
