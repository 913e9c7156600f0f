"""One checker a method: from what a bound rests on to what it proves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations

from experiments.verification.clock import Clock
from experiments.verification.costs import bottleneck
from experiments.verification.cuts import Network
from experiments.verification.exact_instance import ExactInstance, as_float
from experiments.verification.ideals import TooManyIdealsError, some_chain_is_below
from experiments.verification.verdict import ROUNDING, Check
from instances.certificate_file import Claim, read_claim
from instances.errors import printable
from instances.partitioning.problem import Instance

__all__ = ["CHECKERS", "Checker", "Task"]

# A bound for one k may rest on another, which rests on another.
_DEEPEST = 8


@dataclass(frozen=True)
class Task:
    """What all checkers need.

    Parameters
    ----------
    instance : Instance
        The question as the file states it.
    exact : ExactInstance
        The same in whole numbers.
    clock : Clock
    pairs : int, optional
        Most pairs of ideals to look at; None if the program over ideals shall not run.
    depth : int
        How many bounds for other k rest on this one.
    """

    instance: Instance
    exact: ExactInstance
    clock: Clock
    pairs: int | None
    depth: int = 0

    def proved(self, claim: Claim, proved: Fraction, how: str) -> Check:
        """Compare a claim with what is proved here."""
        value = Fraction(claim.value)
        if value > proved * (1 + ROUNDING):
            return Check(claim, None, "false", f"value {claim.value!r} is claimed, only {as_float(proved)!r} is proved")
        return Check(claim, min(value, proved), how)

    def check(self, claim: Claim) -> Check:
        """Prove a claim again by the checker of its method, or find that it cannot be true.

        Raises
        ------
        OutOfTimeError
        """
        if claim.value <= 0:
            return Check(claim, Fraction(0), "nothing to prove")
        if self.one_block is not None and Fraction(claim.value) > self.one_block * (1 + ROUNDING):
            most = as_float(self.one_block)
            return Check(claim, None, "false", f"{claim.value!r} is claimed, all nodes in one block cost {most!r}")
        return CHECKERS.get(claim.method, Task.trusted)(self, claim)

    @cached_property
    def one_block(self) -> Fraction | None:
        """What all nodes in one block cost, whatever k is; None where that depends on an order."""
        if self.exact.memory is not None and self.exact.buffer is None:
            return None
        nodes = range(self.exact.n)
        return bottleneck(self.exact, [0] * self.exact.n, nodes)

    def trusted(self, claim: Claim) -> Check:
        """Take the word of a solver."""
        floor = self.floor(claim)
        if floor is not None:
            return floor
        if claim.solver is None:
            return Check(claim, None, "false", "nothing checks this method and no solver is named to be trusted")
        return Check(claim, None, f"trusted from {_solver(claim)}")

    def floor(self, claim: Claim) -> Check | None:
        """A claim that says no more than the work does, whatever its method."""
        bound = self.exact.work_bound
        if Fraction(claim.value) > bound * (1 + ROUNDING):
            return None
        return self.proved(claim, bound, "re-proved by the formula of simple")


Checker = Callable[[Task, Claim], Check]


def _simple(task: Task, claim: Claim) -> Check:
    return task.proved(claim, task.exact.work_bound, "re-proved by its formula")


def _pinned(task: Task, claim: Claim) -> Check:
    """Every node lies in some block."""
    nodes, fault = _nodes(task, claim)
    if not fault and len(nodes) != 1:
        fault = f"parameters.nodes has {len(nodes)} nodes; it takes 1"
    return Check(claim, None, "false", fault) if fault else _cuts(task, claim, [(v,) for v in nodes])


def _pigeonhole(task: Task, claim: Claim) -> Check:
    """Two of k + 1 nodes share a block; with fewer nodes each may have its own."""
    nodes, fault = _nodes(task, claim)
    if not fault and len(nodes) <= task.exact.k:
        fault = f"parameters.nodes has {len(nodes)} nodes; it takes {task.exact.k + 1}"
    if fault:
        return Check(claim, None, "false", fault)
    return _cuts(task, claim, combinations(nodes[: task.exact.k + 1], 2))


def _nodes(task: Task, claim: Claim) -> tuple[list[int], str]:
    """The nodes that a bound rests on, and why they are none."""
    nodes = claim.parameters.open_members(("nodes",))["nodes"].whole_numbers()
    for v in nodes:
        if not 0 <= v < task.exact.n:
            return [], f"node {v} of parameters.nodes does not exist; there are {task.exact.n}"
    return nodes, "parameters.nodes names a node twice" if len(set(nodes)) < len(nodes) else ""


def _cuts(task: Task, claim: Claim, pins: Iterable[tuple[int, ...]]) -> Check:
    """The cheapest block that holds one of the sets."""
    ceiling = 2 * Fraction(claim.value)
    network, least, count = Network(task.exact, ceiling, task.clock), ceiling, 0
    for count, pin in enumerate(pins, start=1):  # noqa: B007 - the last one is their number
        least = min(least, network.least_cost(pin))
    return task.proved(claim, least, f"re-proved by {count} minimum cut{'s' if count > 1 else ''}")


def _ideals(task: Task, claim: Claim) -> Check:
    floor = task.floor(claim)
    if floor is not None:
        return floor
    if task.pairs is None:
        return Check(claim, None, "not re-checked (--ideals does)")
    value = Fraction(claim.value)
    try:
        for proved in (value, value * (1 - ROUNDING)):
            if not some_chain_is_below(task.exact, proved, task.clock, task.pairs):
                return Check(claim, proved, "re-proved by all ideals")
    except TooManyIdealsError as error:
        return Check(claim, None, f"not re-checked: {error}")
    return Check(claim, None, "false", f"{claim.value!r} is claimed, but {task.exact.k} blocks below it exist")


def _carried(task: Task, claim: Claim) -> Check:
    """Merging each ceil(k / j) consecutive blocks leaves at most j, each at most as many bottlenecks long."""
    fields = claim.parameters.open_members(("from_k", "value"))
    k, j, value = task.exact.k, fields["from_k"].whole(), Fraction(fields["value"].number())
    if j < 1:
        return Check(claim, None, "false", f"parameters.from_k is {j}")
    if j < k and task.exact.memory is not None:
        return Check(claim, None, "false", "with finite memory no bound holds for more blocks")
    blocks = -(-k // j)
    check = task.proved(claim, value / blocks, f"carried from k = {j}")
    if check.fault or (floor := task.floor(claim)) is not None:
        return check if check.fault else floor or check
    if "proof" not in fields:
        return Check(claim, None, f"trusted, {check.how}, whose proof is not in the file")
    if task.depth >= _DEEPEST:
        return Check(claim, None, "false", f"its proof rests on more than {_DEEPEST} others")
    source = read_claim(fields["proof"])
    if source.value != value:
        return Check(claim, None, "false", f"parameters.value is not that of its proof, {source.value!r}")
    there = replace(task, instance=task.instance.with_k(j), exact=replace(task.exact, k=j), depth=task.depth + 1)
    found = there.check(source)
    if found.fault:
        return Check(claim, None, "false", f"its proof ({source.method}): {found.fault}")
    how = f"{check.how}, {found.how}"
    proved = None if found.proved is None else min(Fraction(claim.value), found.proved / blocks)
    return Check(claim, proved, how)


def _priced(task: Task, claim: Claim) -> Check:
    floor = task.floor(claim)
    if floor is not None:
        return floor
    prices = [price.number() for price in claim.parameters.open_members(("prices",))["prices"].items()]
    fault = "" if any(prices) else "parameters.prices are all 0"
    if len(prices) != task.exact.n:
        fault = f"parameters.prices has {len(prices)} prices for {task.exact.n} nodes"
    for v, price in enumerate(prices):
        if price < 0:
            fault = f"parameters.prices[{v}] is {price}; no price is below 0"
    return Check(claim, None, "false" if fault else "trusted from a search for blocks", fault)


#: Method to what checks it; all others are trusted from their solver.
CHECKERS: dict[str, Checker] = {
    "simple": _simple,
    "pinned": _pinned,
    "pigeonhole": _pigeonhole,
    "ideals": _ideals,
    "carried": _carried,
    "priced": _priced,
}


def _solver(claim: Claim) -> str:
    return f"{claim.solver} {printable(claim.version)}" if claim.version else f"{claim.solver}"
