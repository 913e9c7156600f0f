"""Checkers of bounds, one a method: each proves a bound again from its witness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

from instances.certificates.claims import Claim, read_claim
from instances.partitioning.constraints import Constraints
from mtpp.verification.clock import Clock
from mtpp.verification.faults import slack
from mtpp.verification.fractions import as_float
from mtpp.verification.partitioning.bisection import halves_bound
from mtpp.verification.partitioning.cuts import CutBound, block_bound
from mtpp.verification.partitioning.ends import ENDS, with_ends
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.partitioning.ideals import UndecidedError, ideals_bound
from mtpp.verification.partitioning.price_trees import read_tree, tree_bound
from mtpp.verification.partitioning.swaps import FalseSwapError, read_swaps
from mtpp.verification.verdict import Check, by_solver, compare

__all__ = ["CHECKERS", "Checker", "Task"]

# A bound for one k may rest on another, which rests on another.
_DEEPEST = 8
# Methods whose nodes have to carry the value, however weak it is.
_BY_NODES = ("pinned", "pigeonhole")


@dataclass(frozen=True)
class Task:
    """Question and limits for all checkers."""

    exact: ExactInstance  # the question in whole numbers; nodes that have to share a block are one
    group: Sequence[int]  # node of `exact` that holds each node of the file
    one_block: Fraction | None  # cost of all nodes in one block: no bound for any k is above it; None if forbidden
    rules: Constraints  # those of the file
    clock: Clock
    depth: int = 0  # how many bounds for other k rest on this one

    def check(self, claim: Claim) -> Check:
        """Prove a claim again by the checker of its method, or find that it cannot be true.

        Raises
        ------
        OutOfTimeError
        """
        self.clock.raise_if_late()
        if claim.value <= slack(Fraction(0)):
            return Check(claim, Fraction(0), "nothing to prove")
        if self.exact.nothing_fits:
            return Check(claim, Fraction(claim.value), "re-proved, as nothing fits into the memory")
        if self.one_block is not None and Fraction(claim.value) > self.one_block + slack(self.one_block):
            most = as_float(self.one_block)
            return Check(claim, None, "false", f"{claim.value!r} is claimed, all nodes in one block cost {most!r}")
        by_work = None if claim.method in _BY_NODES else self.by_work_alone(claim)
        if by_work is None and claim.method not in CHECKERS:
            return by_solver(claim)
        return by_work or CHECKERS[claim.method](self, claim)

    def by_work_alone(self, claim: Claim) -> Check | None:
        """Prove a claim of any method that the bound by work alone implies; None if it claims more."""
        bound = self.exact.work_bound
        if claim.method == "simple":
            return compare(claim, bound, "re-proved by its formula")
        if Fraction(claim.value) > bound + slack(bound):
            return None
        return compare(claim, bound, "re-proved by the formula of simple")


Checker = Callable[[Task, Claim], Check]


def _pinned(task: Task, claim: Claim) -> Check:
    """Prove the claim again by a minimum cut around its one node, which lies in some block."""
    nodes, fault = _nodes(task, claim)
    if not fault and len(nodes) != 1:
        fault = f"parameters.nodes has {len(nodes)} nodes; it takes 1"
    return Check(claim, None, "false", fault) if fault else _cuts(task, claim, [(v,) for v in nodes])


def _pigeonhole(task: Task, claim: Claim) -> Check:
    """Cut around all pairs of k + 1 nodes of the claim: two of them share a block."""
    nodes, fault = _nodes(task, claim)
    if not fault and len(nodes) <= task.exact.k:
        fault = f"parameters.nodes has {len(nodes)} nodes; it takes {task.exact.k + 1}"
    if fault:
        return Check(claim, None, "false", fault)
    return _cuts(task, claim, combinations(nodes[: task.exact.k + 1], 2))


def _nodes(task: Task, claim: Claim) -> tuple[list[int], str]:
    """The nodes that a bound rests on, as those of `exact`, and why they are none."""
    nodes, count = claim.parameters.open_members(("nodes",))["nodes"].whole_numbers(), len(task.group)
    for v in nodes:
        if not 0 <= v < count:
            return [], f"node {v} of parameters.nodes does not exist; there are {count}"
    twice = "parameters.nodes names a node twice" if len(set(nodes)) < len(nodes) else ""
    return [task.group[v] for v in nodes], twice


def _cuts(task: Task, claim: Claim, pins: Iterable[tuple[int, ...]]) -> Check:
    """Hold the claim against the cheapest block that holds one of the sets."""
    found = block_bound(task.exact, Fraction(claim.value), pins, task.clock)
    return _compared(claim, found, f"re-proved by {found.cuts} minimum cut{'s' if found.cuts > 1 else ''}")


def _compared(claim: Claim, found: CutBound, how: str) -> Check:
    """Hold the claim against what cuts prove; what is beyond their digits is no fault of the claim."""
    value, (least, lost, _) = Fraction(claim.value), found
    if least < value <= least + lost:
        return Check(claim, least, f"{how}, to {as_float(least)!r}")
    return compare(claim, least, how)


def _ideals(task: Task, claim: Claim) -> Check:
    """Search all chains of ideals for k blocks below the claim, up to changes of place of the branches it names."""
    value, swaps = Fraction(claim.value), read_swaps(claim.parameters, task.group)
    try:
        for goal in (value, value - slack(value)):
            if (proved := ideals_bound(task.exact, goal, task.clock, swaps)) is not None:
                equal = ", up to changes of place of equal branches" if swaps.families else ""
                return Check(claim, proved, f"re-proved by all ideals{equal}")
    except FalseSwapError as error:
        return Check(claim, None, "false", str(error))
    except UndecidedError as error:
        return Check(claim, None, f"not re-checked: {error}")
    peaks = ", but for their peaks," if any(task.exact.need) else ""
    return Check(claim, None, "false", f"{claim.value!r} is claimed, but {task.exact.k} blocks below it{peaks} exist")


def _other_k(task: Task, claim: Claim) -> Check:
    """Prove the bound for other k that the claim follows from.

    Merging each ceil(k / j) consecutive blocks leaves at most j, each of which costs at most as many bottlenecks.
    """
    fields = claim.parameters.open_members(("from_k", "value"))
    k, j, value = task.exact.k, fields["from_k"].whole(), Fraction(fields["value"].number())
    if j < 1:
        return Check(claim, None, "false", f"parameters.from_k is {j}")
    if any(first > 0 or last < max(j, k) - 1 for _, first, last in task.rules.windows) or any(
        count > 0 for count, _ in task.rules.at_least
    ):
        return Check(claim, None, "false", "with windows or least numbers no bound holds for other k")
    if j < k and task.exact.memory is not None:
        return Check(claim, None, "false", "with finite memory no bound holds for more blocks")
    blocks = -(-k // j)
    check = compare(claim, value / blocks, f"carried from k = {j}")
    if check.fault:
        return check
    if "proof" not in fields:
        if task.one_block is not None and value > task.one_block + slack(task.one_block):
            return Check(claim, None, "false", f"parameters.value is {as_float(value)!r}; one block costs less")
        return Check(claim, None, f"trusted, {check.how}, whose proof is not in the file")
    if task.depth >= _DEEPEST:
        return Check(claim, None, "false", f"its proof rests on more than {_DEEPEST} others")
    source = read_claim(fields["proof"])
    if source.value != value:
        return Check(claim, None, "false", f"parameters.value is not that of its proof, {source.value!r}")
    found = replace(task, exact=replace(task.exact, k=j), depth=task.depth + 1).check(source)
    if found.fault:
        return Check(claim, None, "false", f"its proof ({source.method}): {found.fault}")
    proved = None if found.proved is None else min(Fraction(claim.value), found.proved / blocks)
    return Check(claim, proved, f"{check.how}, {found.how}")


def _priced(task: Task, claim: Claim) -> Check:
    """Prove the bound of valid prices by the tree of the claim; without one it is trusted."""
    members = claim.parameters.open_members(("prices",))
    prices = members["prices"].numbers()
    fault = "" if any(prices) else "parameters.prices are all 0"
    exact, group = task.exact, task.group
    if len(prices) == len(group) + ENDS:
        exact, group = with_ends(exact), [*group, exact.n, exact.n + 1]
    if len(prices) != len(group):
        fault = f"parameters.prices has {len(prices)} prices for {len(group)} nodes"
    for v, price in enumerate(prices):
        if price < 0:
            fault = f"parameters.prices[{v}] is {price}; no price is below 0"
    if fault or "tree" not in members:
        return Check(claim, None, "false" if fault else "trusted from a search for blocks", fault)
    tree = read_tree(claim.parameters, len(group))
    shares = [Fraction(0)] * exact.n
    for g, price in zip(group, prices, strict=True):
        shares[g] += Fraction(price)
    found = tree_bound(exact, group, shares, tree, Fraction(claim.value), task.clock)
    return _compared(claim, found, f"re-proved by prices and a tree of {len(tree.multipliers)} leaves")


def _bisection(task: Task, claim: Claim) -> Check:
    """Prove the least cost of two halves by the tree of the claim; without one it is trusted."""
    if "tree" not in claim.parameters.open_members(()):
        return Check(claim, None, "trusted from a search for blocks")
    tree = read_tree(claim.parameters, len(task.group) + ENDS)
    found = halves_bound(task.exact, task.group, tree, Fraction(claim.value), task.clock)
    return _compared(claim, found, f"re-proved by a tree of {len(tree.multipliers)} leaves")


def _stated(_task: Task, claim: Claim) -> Check:
    """Report a stated bound, which nothing has proved."""
    return Check(claim, None, "stated, not proved")


#: Method to what checks it, beside *simple*; all others are trusted from their solver.
CHECKERS: dict[str, Checker] = {
    "pinned": _pinned,
    "pigeonhole": _pigeonhole,
    "ideals": _ideals,
    "carried": _other_k,
    "bisection": _bisection,
    "priced": _priced,
    "stated": _stated,
    "priced-quick": _priced,
}
