r"""Check of certificates of partitions: costs from the definition, a checker for each bound.

**Check of bounds by node prices: a tree of decisions in each leaf of which no cheap block is worth its share.**

Let k' be the smaller of k and the number of nodes with a price above 0, and
:math:`w_v = \lceil 2^{40} k' price_v / \sum price \rceil`. The blocks of any partition share all prices, at most k' of
them have any, and so some block S has :math:`w(S) \ge 2^{40}`. If S holds two nodes of a listed pair, it costs at least
what a block with both does. Else it lies in one leaf of the tree, with all that follows from the decisions there for
blocks without such pairs, and costs at least the bound of that leaf by its multiplier. So the least of all pairs and
leaves is a bound on every bottleneck.

All of this is of the graph in the file, where nodes that have to share a block are one: no other reduction is trusted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.certificates import Claim, read_claim
from instances.json_files import Value
from instances.partitioning.constraints import Constraints
from instances.partitioning.problem import Instance
from instances.partitioning.stated import Certificate, Stated, StatedImpossible, certificate_from_document
from mtpp.verification.partitioning.costs import bottleneck, faults_of_stages, find_breach, find_fault
from mtpp.verification.partitioning.cuts import UNIT, BlockCuts, CutBound, block_bound
from mtpp.verification.partitioning.exact_instance import (
    ENDS,
    ExactInstance,
    Rational,
    merge_groups,
    shared_blocks,
    with_ends,
)
from mtpp.verification.partitioning.ideals import FalseSwapError, UndecidedError, fits_nowhere, ideals_bound, read_swaps
from mtpp.verification.partitioning.kernel import IN, OUT, SHARE
from mtpp.verification.verdict import (
    Check,
    Clock,
    Limits,
    NoAnswer,
    OutOfTimeError,
    Verdict,
    as_float,
    by_solver,
    check_claims,
    compare,
    faults_of_copies,
    faults_of_cost,
    faults_of_sum,
    slack,
    unequal,
)

# Entry of a tree that is a leaf; most leaves, and the largest multiplier in parts of the goal.
_LEAF, _MOST_LEAVES, _LARGEST = -1, 50_000, 2047.0
# Parts of the overflow by which leaves are bounded.
_PARTS = tuple(Fraction(part, 4) for part in range(5))


class PriceTree(NamedTuple):
    """Tree in pre-order, behind a node first what has it in the block; a multiplier a leaf, and pairs of nodes."""

    entries: Sequence[int]
    multipliers: Sequence[float]  # in parts of the value that shall be proved
    pairs: Sequence[tuple[int, int]]


def read_tree(parameters: Value, n: int) -> PriceTree:
    """Read the members `tree`, `multipliers` and `apart` of a bound; n is the number of nodes in the file.

    Raises
    ------
    InputError
        If they are no tree over these nodes.
    """
    fields = parameters.open_members(("tree", "multipliers", "apart"))
    entries, multipliers = fields["tree"].whole_numbers(), fields["multipliers"].numbers()
    leaves = entries.count(_LEAF)
    if leaves > _MOST_LEAVES:
        fields["tree"].fail(f"it has {leaves} leaves; {_MOST_LEAVES} are the most.")
    if len(entries) != 2 * leaves - 1:
        fields["tree"].fail(f"{leaves} leaves among {len(entries)} entries are no tree; it may be cut short.")
    if len(multipliers) != leaves:
        fields["multipliers"].fail(f"there are {len(multipliers)} for {leaves} leaves.")
    for i, multiplier in enumerate(multipliers):
        if not 0 <= multiplier <= _LARGEST:
            fields["multipliers"].fail(f"number {i} is {multiplier}; they are from 0 to {_LARGEST:g}.")
    pairs = [pair.whole_numbers() for pair in fields["apart"].items()]
    for name, nodes in (("tree", [v for v in entries if v != _LEAF]), ("apart", [v for pair in pairs for v in pair])):
        for v in nodes:
            if not 0 <= v < n:
                fields[name].fail(f"there is no node {v}; there are {n}.")
    if any(len(pair) != 2 for pair in pairs):
        fields["apart"].fail("an item has not two nodes.")
    for _ in _leaves(entries, range(n), fields["tree"]):
        pass
    return PriceTree(entries, multipliers, [(u, v) for u, v in pairs])


def tree_bound(
    exact: ExactInstance,
    group: Sequence[int],
    prices: Sequence[Rational],
    tree: PriceTree,
    value: Fraction,
    clock: Clock,
) -> CutBound:
    """Bound that a tree proves, at most a value.

    Parameters
    ----------
    exact : ExactInstance
    group : (n,) integers
        Node of `exact` that holds each node of the file.
    prices : numbers
        Of the nodes of `exact`, not negative, not all 0.
    tree : PriceTree
    value : Fraction
        Positive.
    clock : Clock

    Raises
    ------
    OutOfTimeError
    """
    full = Fraction(SHARE * min(exact.k, sum(price > 0 for price in prices))) / sum(prices)
    weights = [min(SHARE, (full * price).__ceil__()) for price in prices]
    pairs = {(group[u], group[v]) for u, v in tree.pairs}
    alone = BlockCuts(exact, value)
    least = UNIT
    for u, v in pairs:
        clock.raise_if_late()
        least = min(least, alone.least((u, v)))
    cuts = BlockCuts(exact, value, weights, pairs, _PARTS)
    for decided, multiplier in zip(_leaves(tree.entries, group), tree.multipliers, strict=True):
        clock.raise_if_late()
        least = min(least, cuts.least_decided(decided, int(multiplier * UNIT)))
        if least == 0:
            break
    return CutBound(value * least / UNIT, cuts.lost, len(pairs) + len(tree.multipliers))


def _leaves(entries: Sequence[int], group: Sequence[int], place: Value | None = None) -> Iterator[NDArray[np.int8]]:
    """Yield the decisions of each leaf on the nodes of a group each; what is no tree is refused at its place.

    Where nodes of one group are decided one below the other, the first decision stays: fewer exclude no block.
    """
    decided = np.zeros(max(group) + 1, dtype=np.int8)
    path: list[tuple[int, bool, bool]] = []  # node, whether it was decided here, whether it is now left out
    ended = False
    for i, entry in enumerate(entries):
        if ended and place is not None:
            place.fail(f"the tree ends before entry {i}.")
        if entry != _LEAF:
            v = group[entry]
            if decided[v] and place is not None:
                place.fail(f"node {entry} of entry {i} is decided above.")
            path.append((v, not decided[v], False))
            decided[v] = decided[v] or IN
            continue
        yield decided
        while path and path[-1][2]:
            v, here, _ = path.pop()
            decided[v] = 0 if here else decided[v]
        ended = not path
        if path:
            v, here, _ = path.pop()
            path.append((v, here, True))
            decided[v] = OUT if here else decided[v]


# Check of bounds by two halves, the first h blocks and the others, with h = ⌈k / 2⌉.
#
# Merged, each costs at most h bottlenecks: what either holds beyond h times the memory its blocks hold beyond theirs,
# if a block has room at all, and in any case a half with nodes has a block with nodes. Two more nodes, before all
# others and behind them, belong to the first half and the last. So a h-th of what a price tree proves of two blocks of
# the longer graph bounds the bottleneck. The prices are fixed: each node has its work, and each of the two more all
# work together.


def halves_bound(
    exact: ExactInstance, group: Sequence[int], tree: PriceTree, value: Fraction, clock: Clock
) -> CutBound:
    """Bound that a tree over the longer graph proves, at most a value; parameters are those of `tree_bound`."""
    halves, total = -(-exact.k // 2), sum(exact.work)
    if not total:
        return CutBound(Fraction(0), Fraction(0), 0)
    ends = [exact.n, exact.n + 1]
    times = halves if exact.room is not None and exact.room >= 0 else 1
    two = replace(
        with_ends(exact),
        k=2,
        memory=None if exact.memory is None else times * exact.memory,
        buffer=None if exact.buffer is None else times * exact.buffer,
    )
    found = tree_bound(two, [*group, *ends], [*exact.work, total, total], tree, value * halves, clock)
    return CutBound(found.least / halves, found.lost / halves, found.cuts)


# Checkers of bounds, one a method: each proves a bound again from its witness.


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


# Check of the claim that there is no partition, as nothing fits into hard memory limits, or no kind can run it.
#
# Blocks hold their parameters, shared ones once a block, and beside them the largest need of a node, or a buffer, which
# the room is less by. So none fits where the bytes of some nodes and the largest of their needs are more than the room
# of all devices that may hold them: of all nodes and devices (sum), of nodes that may be in some blocks only (windows),
# or of one node or group on each device that can run it (node). At least one of these blocks is not empty, which counts
# where the room is below 0. Else ideals may show that no chain of blocks fits.


def check_impossible(
    instance: Instance,
    exact: ExactInstance,
    group: Sequence[int],
    stated: StatedImpossible,
    fits_nowhere: Callable[[], bool],
) -> NoAnswer:
    """Prove again that there is no partition, by the proof that the file names.

    Parameters
    ----------
    instance : Instance
    exact : ExactInstance
        With one node for each group of nodes that have to share a block; of any kind.
    group : (n,) integers
        Node of `exact` that holds each node of the file.
    stated : StatedImpossible
    fits_nowhere : callable
        Whether all ideals show it; it raises an `UndecidedError` or an `OutOfTimeError`.
    """
    if stated.kind is None:
        return NoAnswer(stated.reason, False, "trusted, as its proof is not in the file")
    if stated.kind == "ideals":
        return _by_ideals(exact, stated, fits_nowhere)
    machines, inside, blocks = instance.machines, set(group), instance.k
    kinds: Iterable[int] = machines.sequence
    if stated.kind == "node":
        inside, blocks = {group[stated.numbers["node"]]}, 1
        members = [v for v, g in enumerate(group) if g in inside]
        kinds = [t for t in range(instance.kinds) if not any(math.isinf(instance.work[t, v]) for v in members)]
    elif stated.kind == "windows":
        first, last = stated.numbers["first"], stated.numbers["last"]
        inside, blocks = set(_forced_into(instance, exact, group, first, last)), last - first + 1
        kinds = machines.sequence[first : last + 1] if machines.is_fixed else kinds
    room = _room(instance, kinds, blocks)
    if inside and room is not None and _load(instance, group, inside) > room:
        return NoAnswer(stated.reason, True, f"re-proved by its formula ({stated.kind})")
    return NoAnswer(stated.reason, False, "false", f"its proof ({stated.kind}) does not show that nothing fits")


def _by_ideals(exact: ExactInstance, stated: StatedImpossible, fits_nowhere: Callable[[], bool]) -> NoAnswer:
    try:
        if fits_nowhere():
            return NoAnswer(stated.reason, True, "re-proved by all ideals")
    except UndecidedError as error:
        return NoAnswer(stated.reason, False, f"not re-checked: {error}")
    except OutOfTimeError:
        return NoAnswer(stated.reason, False, "not re-checked within the time limit")
    peaks = ", but for their peaks," if any(exact.need) else ""
    return NoAnswer(stated.reason, False, "false", f"{exact.k} blocks that fit{peaks} exist")


def _room(instance: Instance, kinds: Iterable[int], blocks: int) -> Fraction | None:
    """The most bytes that so many blocks on devices of these kinds have room for; None without a limit.

    One of them is not empty. Below all numbers of bytes where there is no device.
    """
    limits = [instance.machines.kinds[t].memory for t in kinds]
    if any(not instance.fit or math.isinf(limit) for limit in limits):
        return None
    rooms = [Fraction(limit) - Fraction(instance.activation_buffer or 0) for limit in limits]
    largest = sorted((room for room in rooms if room > 0), reverse=True)[:blocks]
    return max([*rooms, sum(largest, Fraction(0))]) if any(room >= 0 for room in rooms) else Fraction(-1)


def _load(instance: Instance, group: Sequence[int], inside: set[int]) -> Fraction:
    """Least bytes of blocks that hold some groups: parameters and states, shared ones once, and the largest need."""
    graph = instance.graph
    members = {v for v, g in enumerate(group) if g in inside}
    held = [*graph.param_bytes.tolist(), *graph.state_bytes.tolist()]
    load = sum((Fraction(held[v]) + Fraction(held[graph.n + v]) for v in members), Fraction(0))
    load += sum((Fraction(p.bytes) for p in graph.parameters if members.intersection(p.users)), Fraction(0))
    if instance.activation_buffer is not None:
        return load
    needs = [Fraction(0)] * graph.n if instance.need is None else [Fraction(x) for x in instance.need.tolist()]
    tensors, start = graph.tensors, graph.tensors.start.tolist()
    readers = tensors.consumers.tolist()
    for t, (producer, size) in enumerate(zip(tensors.producer.tolist(), tensors.bytes.tolist(), strict=True)):
        for v in {producer, *readers[start[t] : start[t + 1]]} if instance.need is None else ():
            needs[v] += Fraction(size)
    return load + max((needs[v] for v in members), default=Fraction(0))


def _forced_into(instance: Instance, exact: ExactInstance, group: Sequence[int], first: int, last: int) -> list[int]:
    """Groups that may be in the blocks from the first to the last and in no others, as no edge points backwards."""
    low, high = [0] * exact.n, [exact.k - 1] * exact.n
    for v, begin, end in instance.constraints.windows:
        low[group[v]] = max(low[group[v]], begin)
        high[group[v]] = min(high[group[v]], end)
    for v in exact.order:
        low[v] = max([low[v], *(low[u] for u in exact.before[v])])
    for v in reversed(exact.order):
        high[v] = min([high[v], *(high[w] for w in exact.after[v])])
    return [g for g in range(exact.n) if first <= low[g] and high[g] <= last]


# Check the certificate of a partition: costs from the equations of the paper, bounds by one checker a method.


def verify_partition(document: Value, limits: Limits) -> Verdict:
    """Check everything in a certificate that can be checked.

    Raises
    ------
    InputError
        If this is no certificate, or the parameters of a bound are not of the kind that its method needs.
    """
    certificate = certificate_from_document(document)
    instance, stated = certificate.instance, certificate.partition
    exact, rules = ExactInstance.of(instance), instance.constraints
    cost, faults = None, []
    if certificate.graph_hash != instance.graph.content_hash:
        faults.append(unequal("instance.graph_hash", certificate.graph_hash, instance.graph.content_hash))
    if stated is not None:
        fault = find_fault(exact, stated.block, stated.order)
        fault = fault or find_breach(exact, rules, instance.graph.names, stated.block, stated.order)
        if fault is None:
            cost = bottleneck(exact, stated.block, stated.order)
            faults += _faults_of_copies(certificate, exact, stated, cost)
        else:
            faults.append(f"partition: {fault}")
    group = shared_blocks(exact, rules)
    task = Task(
        exact=merge_groups(exact, group),
        group=group,
        one_block=_one_block(instance, exact),
        rules=rules,
        clock=Clock(limits.seconds),
    )
    checks, false = check_claims(certificate, task.check, limits.seconds)
    faults += false
    no_answer = None
    if certificate.impossible is not None:
        no_answer = check_impossible(
            instance, task.exact, group, certificate.impossible, lambda: fits_nowhere(task.exact, task.clock)
        )
        faults += [f"impossible: {no_answer.fault}"] if no_answer.fault else []
        faults += [] if stated is None else ["impossible: there is a partition beside it"]
    if stated is None or cost is not None:  # else the numbers below mean nothing
        faults += faults_of_sum(certificate, cost)
    return Verdict(certificate, cost, checks, tuple(faults), no_answer=no_answer)


def _one_block(instance: Instance, exact: ExactInstance) -> Fraction | None:
    """Cost of all nodes in the first block, in some order; None if they may not be there."""
    block = [0] * exact.n
    if find_breach(exact, instance.constraints, instance.graph.names, block, exact.order) is not None:
        return None
    return bottleneck(exact, block, exact.order)


def _faults_of_copies(certificate: Certificate, exact: ExactInstance, stated: Stated, cost: Fraction) -> Iterator[str]:
    """Faults of the values that the document of the partition repeats."""
    graph, platform = certificate.instance.graph, certificate.instance.platform
    yield from faults_of_copies(asdict(stated.platform), asdict(platform), "partition.")
    if stated.constraints != certificate.instance.constraints:
        yield "partition.constraints: they are not those of the instance"
    if stated.graph_hash != graph.content_hash:
        yield unequal("partition.graph_hash", stated.graph_hash, graph.content_hash)
    stages: dict[int, list[str]] = {}
    for v in stated.order:
        stages.setdefault(stated.block[v], []).append(graph.names[v])
    if len(stated.stages) != platform.k or any(
        list(names) != stages.get(b, []) for b, names in enumerate(stated.stages)
    ):
        yield "partition.stages: the names are not those of block and order"
    yield from faults_of_stages(certificate.instance, exact, stated)
    yield from faults_of_cost("partition.bottleneck", stated.bottleneck, cost)
    yield from faults_of_cost("bottleneck", certificate.cost, cost)
