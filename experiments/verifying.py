"""Check a certificate without the programs that made it.

The partition is evaluated and the bounds are proved again by `experiments.recheck`; neither the searches nor the
models are imported, unless bounds of solvers shall be found again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from experiments.certificate_files import Certificate, Claim, Stated, recheck
from experiments.recheck import Network, block_costs, find_fault, work_bound
from experiments.recheck_ideals import PAIRS, TooManyIdealsError, some_chain_is_below
from experiments.verdicts import Check, Verdict, ratio_of
from instances import Instance, Partition
from instances.interrupts import catch_interrupt

__all__ = ["verify"]

#: Two floats that are the same number computed in two ways differ by less than this part.
_ROUNDING = 1e-9
#: Two runs of a solver to the end may prove bounds that differ by this part: 1e-6 is its tolerance, 1e-6 our margin.
_SOLVER = 4e-6


def verify(certificate: Certificate, *, ideals: bool = False, rerun: bool = False, pairs: int = PAIRS) -> Verdict:
    """Check everything in a certificate that can be checked.

    Parameters
    ----------
    certificate : Certificate
    ideals : bool
        Run a plain program over ideals again, which may take minutes.
    rerun : bool
        Let what is trusted prove its bounds again, with the same parameters.
    pairs : int
        Most pairs of ideals to look at.

    Returns
    -------
    Verdict

    Raises
    ------
    InputError
        If the parameters of a bound are not of the kind that its method needs.
    SolverNotAvailableError
        If a solver that shall run again cannot.
    """
    instance, stated = certificate.instance, certificate.partition
    bottleneck, faults = None, []
    if certificate.graph_hash != instance.graph.content_hash:
        faults.append(_unequal("instance.graph_hash", certificate.graph_hash, instance.graph.content_hash))
    if stated is not None:
        fault = find_fault(instance, stated.block, stated.order)
        if fault is None:
            bottleneck = max(block_costs(instance, stated.block, stated.order))
            faults += _faults_of_copies(certificate, stated, bottleneck)
        else:
            faults.append(f"partition: {fault}")
    checks = []
    for claim in certificate.claims:
        check = _check(instance, claim, pairs if ideals else 0)
        if rerun and recheck(claim.method) == "trusted" and check.proved is None and not check.fault:
            check = _run_again(certificate, check)
        checks.append(check)
        faults += [f"{claim.place} ({claim.method}): {check.fault}"] if check.fault else []
    if stated is None or bottleneck is not None:  # else the numbers below mean nothing
        faults += _faults_of_sum(certificate, bottleneck)
    return Verdict(certificate, bottleneck, tuple(checks), tuple(faults))


def _faults_of_copies(certificate: Certificate, stated: Stated, bottleneck: float) -> Iterator[str]:
    """What the partition repeats."""
    instance = certificate.instance
    graph, platform = instance.graph, instance.platform
    for name in ("k", "bandwidth", "memory", "activation_buffer"):
        claimed, true = getattr(stated.platform, name), getattr(platform, name)
        if claimed != true:
            yield _unequal(f"partition.{name}", claimed, true)
    if stated.graph_hash != graph.content_hash:
        yield _unequal("partition.graph_hash", stated.graph_hash, graph.content_hash)
    stages = [tuple(graph.names[v] for v in stated.order if stated.block[v] == b) for b in range(instance.k)]
    if list(stated.stages) != stages:
        yield "partition.stages: the names are not those of block and order"
    slack = _slack(instance)
    for place, claimed in (("partition.bottleneck", stated.bottleneck), ("bottleneck", certificate.bottleneck)):
        if claimed is None or not math.isclose(claimed, bottleneck, rel_tol=_ROUNDING, abs_tol=slack):
            yield _unequal(place, claimed, bottleneck)


def _slack(instance: Instance) -> float:
    """What rounding may change a cost by, besides a part of it: overflow is a small difference of large numbers."""
    graph, platform = instance.graph, instance.platform
    if not instance.has_overflow:
        return 0.0
    memory = graph.parameter_total + float(graph.tensors.bytes.sum()) + platform.memory
    return 1e-12 * memory / platform.bandwidth


def _faults_of_sum(certificate: Certificate, bottleneck: float | None) -> Iterator[str]:
    """Bounds against the bottleneck, and the numbers that sum the certificate up."""
    best = max((claim.value for claim in certificate.claims), default=None)
    if bottleneck is None and certificate.bottleneck is not None:
        yield f"bottleneck: {certificate.bottleneck!r} is claimed without a partition"
    for claim in certificate.claims:
        if bottleneck is not None and claim.value > bottleneck * (1 + _ROUNDING) + _slack(certificate.instance):
            yield f"{claim.place}.value ({claim.method}): {claim.value!r} is above the bottleneck {bottleneck!r}"
    if certificate.bound != best:
        yield _unequal("bound", certificate.bound, best)
    # Of the bottleneck as stated, which is checked where it stands: what overflows rounds, and a ratio can enlarge it.
    ratio = ratio_of(None if bottleneck is None else certificate.bottleneck, best)
    same = certificate.ratio == ratio
    if certificate.ratio is not None and ratio is not None:
        same = math.isclose(certificate.ratio, ratio, rel_tol=2 * _ROUNDING)
    if not same:
        yield _unequal("ratio", certificate.ratio, ratio)


def _check(instance: Instance, claim: Claim, pairs: int) -> Check:
    """Prove one bound again, if its method allows that."""
    kind = recheck(claim.method)
    if claim.recheck != kind:
        return Check(claim, None, "false", f"recheck is {claim.recheck!r} but this method has {kind!r}")
    if claim.value <= 0:
        return Check(claim, claim.value, "nothing to prove")
    if kind == "formula":
        return _compare(claim, work_bound(instance), "re-proved by its formula")
    if kind == "minimum cuts":
        fault = _fault_of_nodes(instance, claim)
        if fault:
            return Check(claim, None, "false", fault)
        nodes = [value.whole() for value in claim.parameters.open_members(("nodes",))["nodes"].items()]
        pins = [(v,) for v in nodes] if claim.method == "pinned" else list(combinations(nodes, 2))
        network, ceiling = Network(instance), 2 * claim.value
        proved = min(network.least_cost(pin, ceiling) for pin in pins)
        return _compare(claim, proved, f"re-proved by {len(pins)} minimum cut{'s' if len(pins) > 1 else ''}")
    floor = work_bound(instance)
    if claim.value <= floor * (1 + _ROUNDING):
        return _compare(claim, floor, "re-proved by the formula of simple")
    if kind == "ideals":
        return _check_ideals(instance, claim, pairs) if pairs else Check(claim, None, "not re-checked (--ideals does)")
    if claim.method == "carried":
        return _check_carried(instance, claim)
    if claim.method == "priced":
        fault = _fault_of_prices(instance, claim)
        return Check(claim, None, "false" if fault else "trusted from a search for blocks", fault)
    if claim.solver is None:
        return Check(claim, None, "false", "nothing checks this method and no solver is named to be trusted")
    return Check(claim, None, f"trusted from {claim.solver}")


def _fault_of_nodes(instance: Instance, claim: Claim) -> str:
    """Why the nodes that a bound rests on do not carry it."""
    nodes = [value.whole() for value in claim.parameters.open_members(("nodes",))["nodes"].items()]
    for v in nodes:
        if not 0 <= v < instance.graph.n:
            return f"node {v} of parameters.nodes does not exist; there are {instance.graph.n}"
    if len(set(nodes)) < len(nodes):
        return "parameters.nodes names a node twice"
    if claim.method == "pinned":
        return "" if len(nodes) == 1 else f"parameters.nodes has {len(nodes)} nodes; it takes 1"
    # Two of k + 1 nodes share a block; with fewer nodes each may have its own.
    return "" if len(nodes) > instance.k else f"parameters.nodes has {len(nodes)} nodes; it takes {instance.k + 1}"


def _prices(claim: Claim) -> list[float]:
    return [price.number() for price in claim.parameters.open_members(("prices",))["prices"].items()]


def _fault_of_prices(instance: Instance, claim: Claim) -> str:
    """Why prices are none."""
    prices = _prices(claim)
    if len(prices) != instance.graph.n:
        return f"parameters.prices has {len(prices)} prices for {instance.graph.n} nodes"
    for v, price in enumerate(prices):
        if price < 0:
            return f"parameters.prices[{v}] is {price}; no price is below 0"
    return "" if any(prices) else "parameters.prices are all 0"


def _check_ideals(instance: Instance, claim: Claim, pairs: int) -> Check:
    proved = claim.value * (1 - _ROUNDING)
    try:
        below = some_chain_is_below(instance, proved, pairs)
    except TooManyIdealsError:
        return Check(claim, None, f"not re-checked: more than {pairs} pairs of ideals")
    if below:
        return Check(claim, None, "false", f"{claim.value!r} is claimed, but {instance.k} blocks below it exist")
    return Check(claim, min(proved, claim.value), "re-proved by all ideals")


def _check_carried(instance: Instance, claim: Claim) -> Check:
    """Merging each ceil(k / j) consecutive blocks leaves at most j, each at most as many bottlenecks long."""
    fields = claim.parameters.open_members(("from_k", "value"))
    j, value = fields["from_k"].whole(), fields["value"].number()
    if j < 1:
        return Check(claim, None, "false", f"parameters.from_k is {j}")
    if j < instance.k and instance.has_overflow:
        return Check(claim, None, "false", "with finite memory no bound holds for more blocks")
    check = _compare(claim, value / -(-instance.k // j), "")
    source = f"trusted from {claim.solver}" if claim.solver else "trusted"
    return check if check.fault else Check(claim, None, f"{source}, carried from k = {j}")


def _compare(claim: Claim, proved: float, how: str) -> Check:
    if claim.value > proved * (1 + _ROUNDING):
        return Check(claim, None, "false", f"value {claim.value!r} is claimed, only {proved!r} is proved")
    return Check(claim, min(claim.value, proved), how)


def _run_again(certificate: Certificate, check: Check) -> Check:
    """Let the solver of a trusted bound prove it once more."""
    from mtpp_models import solve
    from mtpp_models.registry import find_model

    claim, instance, stated = check.claim, certificate.instance, certificate.partition
    if claim.method == "priced":
        return _search_again(instance, check)
    if claim.method == "carried" or claim.solver is None:
        return check
    name = claim.method.removesuffix("-lp")
    given = {key: value for key, value in claim.parameters.open_members(()).items() if value.data is not None}
    start = None
    if stated is not None and find_fault(instance, stated.block, stated.order) is None:
        start = Partition(instance, stated.block, stated.order)
    result = solve(
        instance,
        find_model(name),
        solver=claim.solver.split()[0],
        time_limit=given["time_limit"].number() if "time_limit" in given else max(_SHORTEST, 2 * claim.seconds),
        gap=given["gap"].number() if "gap" in given else 0.0,
        threads=given["threads"].whole() if "threads" in given else 1,
        seed=given["seed"].whole() if "seed" in given else 0,
        start=start,
        relaxation=name != claim.method,
    )
    if result.interrupted:
        raise KeyboardInterrupt
    assert result.bound is not None
    if result.partition is not None:
        found = max(block_costs(instance, result.partition.block.tolist(), result.partition.order.tolist()))
        if claim.value > found * (1 + _ROUNDING) + _slack(instance):
            return Check(claim, None, "false", f"value {claim.value!r} is claimed, a partition of {found!r} exists")
    if claim.value <= result.bound.value * (1 + _SOLVER):
        return Check(claim, None, f"{check.how}, solved again with {result.solver}")
    if result.bound.optimal:
        fault = f"value {claim.value!r} is claimed, {result.solver} says {result.bound.value!r}"
        return Check(claim, None, "false", fault)
    return Check(claim, None, f"{check.how}, solved again only to {result.bound.value:.6g}")


def _search_again(instance: Instance, check: Check) -> Check:
    """Look once more for a block that is worth its share of the stated prices and costs too little."""
    from mtpp_models.block_tree import BlockTree
    from mtpp_models.formulation import as_modelled

    claim = check.claim
    end = time.monotonic() + max(_SHORTEST, 2 * claim.seconds)
    with catch_interrupt() as interrupted:
        tree = BlockTree(instance, np.array(_prices(claim)), claim.value * (1 - _SOLVER))
        proved, block = tree.explore(lambda: interrupted.is_set() or time.monotonic() > end)
    if interrupted.is_set():
        raise KeyboardInterrupt
    if block is None:
        return Check(claim, None, f"{check.how}, {'searched again' if proved else 'not searched to the end again'}")
    order, (start, after) = instance.graph.topological_order.tolist(), instance.graph.successors
    superblock = np.where(block, 1, 2)
    for v in reversed(order):  # what leads to the block lies before it
        if not block[v] and (superblock[after[start[v] : start[v + 1]]] < 2).any():
            superblock[v] = 0
    cost = block_costs(as_modelled(instance).with_k(3), superblock.tolist(), order)[1]
    if claim.value <= cost * (1 + _SOLVER) + _slack(instance):
        return Check(claim, None, f"{check.how}, searched again")
    fault = f"value {claim.value!r} is claimed, a block of {cost!r} is worth its share"
    return Check(claim, None, "false", fault)


#: Seconds for a solver that shall run again and of which no limit is known.
_SHORTEST = 10.0


def _unequal(place: str, claimed: object, true: object) -> str:
    return f"{place}: {claimed!r} is claimed, {true!r} is recomputed"
