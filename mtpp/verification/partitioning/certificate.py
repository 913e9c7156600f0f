r"""Check of certificates of partitions: costs from the definition, a checker for each bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations

from instances.certificates import Claim, read_claim
from instances.json_files import Value
from instances.partitioning.constraints import Constraints
from instances.partitioning.problem import Instance
from instances.partitioning.stated import Certificate, Stated, StatedImpossible, certificate_from_document
from mtpp.verification.partitioning.costs import bottleneck, fault_of_devices, faults_of_stages, find_breach, find_fault
from mtpp.verification.partitioning.cuts import (
    CutBound,
    block_bound,
    frontier_bound,
    halves_bound,
    read_tree,
    tree_bound,
)
from mtpp.verification.partitioning.exact_instance import (
    ENDS,
    ExactInstance,
    KindQuestion,
    merge_groups,
    shared_blocks,
    with_ends,
)
from mtpp.verification.partitioning.ideals import FalseSwapError, Swaps, fits_nowhere, ideals_bound, read_swaps
from mtpp.verification.partitioning.levels import MOST, holds_by_levels
from mtpp.verification.partitioning.paths import blocks_lead_below
from mtpp.verification.verdict import (
    Check,
    Clock,
    InfeasibilityCheck,
    Limits,
    OutOfTimeError,
    UndecidedError,
    Verdict,
    as_float,
    by_solver,
    compare,
    slack,
    verdict_of,
)

# Checkers of bounds, one a method: each proves a bound again from its witness.


# A bound for one k may rest on another, which rests on another.
_DEEPEST = 8
# Methods whose nodes have to carry the value, however weak it is.
_BY_NODES = ("pinned", "pigeonhole")


# Methods for devices that are alike.
_ALIKE = ("pigeonhole", "carried", "bisection", "priced-quick")


@dataclass(frozen=True)
class Task:
    """The question in exact numbers and the limits, for all checkers."""

    exact: ExactInstance  # the question in whole numbers; nodes that have to share a block are one
    group: Sequence[int]  # node of `exact` that holds each node of the file
    is_alike: bool  # whether all devices are
    one_block: Fraction | None  # cost of all nodes in one block: no bound for any k is above it; None if forbidden
    rules: Constraints  # those of the file
    clock: Clock
    depth: int = 0  # how many bounds for other k rest on this one

    @cached_property
    def windows(self) -> list[tuple[int, int, int]]:
        """Nodes of `exact`, and the first and last block that each may be in."""
        return [(self.group[v], first, last) for v, first, last in self.rules.windows]

    @property
    def alike(self) -> KindQuestion:
        """The question on devices of the first kind alone; for equal devices this is the whole question."""
        return self.exact.kinds[0]

    def check(self, claim: Claim) -> Check:
        """Prove a claim again by its method's checker, or refute it.

        Raises
        ------
        OutOfTimeError
        """
        self.clock.raise_if_late()
        if claim.value <= slack(Fraction(0)):
            return Check(claim, Fraction(0), "nothing to prove")
        if self.is_alike and self.alike.nothing_fits:
            return Check(claim, Fraction(claim.value), "re-proved, as nothing fits into the memory")
        if self.one_block is not None and Fraction(claim.value) > self.one_block + slack(self.one_block):
            cost = as_float(self.one_block)
            return Check(claim, None, "false", f"{claim.value!r} is claimed, all nodes in one block cost {cost!r}")
        if claim.method in _ALIKE and not self.is_alike:
            return Check(claim, None, "false", "no bound of this method holds over several kinds of devices")
        by_work = self.by_work_alone(claim) if self.is_alike and claim.method not in _BY_NODES else None
        return by_work or CHECKERS.get(claim.method, _by_solver)(self, claim)

    def by_work_alone(self, claim: Claim) -> Check | None:
        """Prove a claim that the bound by work implies; None if it claims more."""
        bound = self.alike.work_bound
        if claim.method == "simple":
            return compare(claim, bound, "re-proved by its formula")
        if Fraction(claim.value) > bound + slack(bound):
            return None
        return compare(claim, bound, "re-proved by the formula of simple")

    def bound_by_ideals(self, goal: Fraction, swaps: Swaps) -> Fraction | None:
        """The goal, or a bound close to it, if no blocks below it cover all nodes; else None.

        Raises
        ------
        UndecidedError, FalseSwapError, OutOfTimeError
        """
        if self.is_alike:
            bound = ideals_bound(self.alike, goal, self.clock, swaps)
            if bound is not None or not self.windows:
                return bound
        return None if blocks_lead_below(self.exact, goal, self.clock, self.windows) else goal

    def fits_nowhere(self) -> bool:
        """Whether no feasible blocks cover all nodes.

        Raises
        ------
        UndecidedError, OutOfTimeError
        """
        if self.is_alike:
            proved = fits_nowhere(self.alike, self.clock)
            if proved or not self.windows:
                return proved
        return not blocks_lead_below(self.exact, None, self.clock, self.windows)


Checker = Callable[[Task, Claim], Check]


def _by_solver(_task: Task, claim: Claim) -> Check:
    return by_solver(claim)


def _simple(task: Task, claim: Claim) -> Check:
    """Prove *simple* again: the average work of a device, or the heaviest node.

    Over kinds of devices, the shares of the claim weigh the kinds: all work at its least weighted time, over the
    weights of all devices, is a bound for any shares.
    """
    exact, shares = task.exact, _shares(task, claim)
    if shares is None or max(shares) <= 0:
        fault = f"parameters.shares are not {len(exact.counts)} numbers, none below 0 and not all 0"
        return Check(claim, None, "false", fault)
    runs = [[t for t, barred in enumerate(exact.barred) if v not in barred] for v in range(exact.n)]
    speeds = (min(shares[t] * exact.work[t][v] for t in kinds) for v, kinds in enumerate(runs) if kinds)
    alone = max(min(exact.work[t][v] for t in kinds) if kinds else 0 for v, kinds in enumerate(runs))
    total = sum(count * share for count, share in zip(exact.counts, shares, strict=True))
    return compare(
        claim, max(Fraction(alone), sum(speeds, Fraction(0)) / total) * exact.work_unit, "re-proved by its formula"
    )


def _shares(task: Task, claim: Claim) -> list[Fraction] | None:
    """The claim's weights of the kinds; None unless each kind has a weight of at least 0."""
    shares = claim.parameters.open_members(("shares",))["shares"].numbers()
    return [Fraction(x) for x in shares] if len(shares) == len(task.exact.counts) and min(shares) >= 0 else None


def _pinned(task: Task, claim: Claim) -> Check:
    """Prove a claim again by minimum cuts around its node."""
    nodes, fault = _nodes(task, claim)
    if not fault and not nodes:
        fault = "parameters.nodes has no node"
    if fault:
        return Check(claim, None, "false", fault)
    return _cuts(task, claim, [(v,) for v in nodes[:1]])


def _levels(task: Task, claim: Claim) -> Check:
    """Prove a claim again by what blocks can hold up to each of its nodes, which lie on a path."""
    (nodes, fault), (turn, other) = _nodes(task, claim), _nodes(task, claim, "turn")
    path, value = list(dict.fromkeys(nodes)), Fraction(claim.value)
    if len(path) > MOST:
        fault = f"parameters.nodes has {len(path)} nodes; it takes {MOST} at most"
    elif not (other or (len(turn) == 1 and turn[0] in path)):
        other = "parameters.turn is not one of parameters.nodes"
    if fault := fault or other:
        return Check(claim, None, "false", fault)
    try:
        for goal in (value, value - slack(value)):
            if goal > 0 and holds_by_levels(task.exact, path, turn[0], goal, task.clock):
                return Check(claim, goal, f"re-proved by the levels of a path of {len(path)} nodes")
    except UndecidedError as error:
        return Check(claim, None, f"not re-checked: {error}")
    return Check(claim, None, "false", f"{claim.value!r} is claimed, but the levels of its path do not prove it")


def _pigeonhole(task: Task, claim: Claim) -> Check:
    """Prove a claim again by cuts around all pairs of its k + 1 nodes."""
    nodes, fault = _nodes(task, claim)
    if not fault and len(nodes) <= task.exact.k:
        fault = f"parameters.nodes has {len(nodes)} nodes; it takes {task.exact.k + 1}"
    if fault:
        return Check(claim, None, "false", fault)
    return _cuts(task, claim, list(combinations(nodes[: task.exact.k + 1], 2)))


def _nodes(task: Task, claim: Claim, name: str = "nodes") -> tuple[list[int], str]:
    """The nodes that a member of a bound lists, by their numbers in `exact`, and a fault of these, if any."""
    nodes, count = claim.parameters.open_members((name,))[name].whole_numbers(), len(task.group)
    for v in nodes:
        if not 0 <= v < count:
            return [], f"node {v} of parameters.{name} does not exist; there are {count}"
    twice = f"parameters.{name} names a node twice" if len(set(nodes)) < len(nodes) else ""
    return [task.group[v] for v in nodes], twice


def _cuts(task: Task, claim: Claim, pins: Sequence[tuple[int, ...]]) -> Check:
    """Check of a claim against the cheapest block on any kind that contains one of the sets `pins`."""
    bounds = [block_bound(kind, Fraction(claim.value), pins, task.clock) for kind in task.exact.kinds]
    least, cuts = min(bounds), sum(bound.cuts for bound in bounds)
    return _compared(claim, least, f"re-proved by {cuts} minimum cut{'s' if cuts > 1 else ''}")


def _compared(claim: Claim, bound: CutBound, how: str) -> Check:
    """Check of a claim against a bound by cuts; an excess within their rounding is lowered, not refuted."""
    value, (least, lost, _) = Fraction(claim.value), bound
    if least < value <= least + lost:
        return Check(claim, least, f"{how}, to {as_float(least)!r}")
    return compare(claim, least, how)


def _ideals(task: Task, claim: Claim) -> Check:
    """Prove a claim again by all chains of ideals, up to exchanges of the branches that it names."""
    value, swaps = Fraction(claim.value), read_swaps(claim.parameters, task.group)
    try:
        for goal in (value, value - slack(value)):
            if (proved := task.bound_by_ideals(goal, swaps)) is not None:
                equal = ", up to changes of place of equal branches" if swaps.families else ""
                return Check(claim, proved, f"re-proved by all ideals{equal}")
    except FalseSwapError as error:
        return Check(claim, None, "false", str(error))
    except UndecidedError as error:
        return Check(claim, None, f"not re-checked: {error}")
    blocks, peaks = f"{task.exact.k} blocks" if task.is_alike else "blocks", _but_for_peaks(task.exact)
    return Check(claim, None, "false", f"{claim.value!r} is claimed, but {blocks} below it{peaks} exist")


def _but_for_peaks(exact: ExactInstance) -> str:
    """Text for a verdict whose proof leaves out peaks of memory, which only raise costs; empty if there are none."""
    counts = exact.buffer is None and any(limit is not None for limit in exact.memory) and any(exact.need)
    return ", but for their peaks," if counts else ""


def _other_k(task: Task, claim: Claim) -> Check:
    """Prove the claim again by its bound for another number of blocks, k.

    Merging each ceil(k / j) consecutive blocks of a partition into k leaves at most j, each of which costs at most as
    many bottlenecks: so a bound for j blocks, over ceil(k / j), is one for k.
    """
    fields = claim.parameters.open_members(("from_k", "value"))
    k, j, value = task.exact.k, fields["from_k"].whole(), Fraction(fields["value"].number())
    if j < 1:
        return Check(claim, None, "false", f"parameters.from_k is {j}")
    if any(first > 0 or last < max(j, k) - 1 for _, first, last in task.rules.windows) or any(
        count > 0 for count, _ in task.rules.at_least
    ):
        return Check(claim, None, "false", "with windows or least numbers no bound holds for other k")
    if j < k and task.alike.memory is not None:
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
    of_source = replace(task, exact=replace(task.exact, k=j), depth=task.depth + 1).check(source)
    if of_source.fault:
        return Check(claim, None, "false", f"its proof ({source.method}): {of_source.fault}")
    proved = None if of_source.proved is None else min(Fraction(claim.value), of_source.proved / blocks)
    return Check(claim, proved, f"{check.how}, {of_source.how}")


def _priced(task: Task, claim: Claim) -> Check:
    """Prove a bound by prices again with the claim's tree; without a tree it is trusted."""
    members = claim.parameters.open_members(("prices",))
    prices, fault, group = members["prices"].numbers(), "", task.group
    longer = task.is_alike and len(prices) == len(group) + ENDS
    group = [*group, task.exact.n, task.exact.n + 1] if longer else group
    if len(prices) != len(group):
        fault = f"parameters.prices has {len(prices)} prices for {len(group)} nodes"
    elif not any(prices):
        fault = "parameters.prices are all 0"
    elif not task.is_alike:
        fault = _fault_of_shares(task, claim, prices)
    for v, price in enumerate(prices):
        if price < 0:
            fault = f"parameters.prices[{v}] is {price}; no price is below 0"
    if fault or "tree" not in members or not task.is_alike:
        return Check(claim, None, "false" if fault else "trusted from a search for blocks", fault)
    question = with_ends(task.alike) if longer else task.alike
    worth = [Fraction(0)] * question.n
    for g, price in zip(group, prices, strict=True):
        worth[g] += Fraction(price)
    if "multipliers" not in members and min(members["tree"].whole_numbers(), default=0) >= 0:
        order, fault = _nodes(task, claim, "tree")
        proved = fault or frontier_bound(question, worth, order, Fraction(claim.value), task.clock)
        if isinstance(proved, str):
            return Check(claim, None, "false", proved)
        return _compared(claim, proved, "re-proved by prices and a sweep over the nodes")
    tree = read_tree(claim.parameters, len(group))
    bound = tree_bound(question, group, worth, tree, Fraction(claim.value), task.clock)
    return _compared(claim, bound, f"re-proved by prices and a tree of {len(tree.multipliers)} leaves")


def _fault_of_shares(task: Task, claim: Claim, prices: Sequence[float]) -> str:
    """Why the claim's shares of the kinds are invalid; empty if they are valid."""
    shares = _shares(task, claim)
    if shares is None or min(shares) <= 0:
        return f"parameters.shares are not {len(task.exact.counts)} numbers above 0"
    devices = sum(count * share for count, share in zip(task.exact.counts, shares, strict=True))
    return "the nodes are worth less than the devices" if sum(map(Fraction, prices)) < devices else ""


def _bisection(task: Task, claim: Claim) -> Check:
    """Prove the least cost of two halves again with the claim's tree; without a tree it is trusted."""
    if "tree" not in claim.parameters.open_members(()):
        return Check(claim, None, "trusted from a search for blocks")
    tree = read_tree(claim.parameters, len(task.group) + ENDS)
    bound = halves_bound(task.alike, task.group, tree, Fraction(claim.value), task.clock)
    return _compared(claim, bound, f"re-proved by a tree of {len(tree.multipliers)} leaves")


#: Method to what checks it; all others are trusted from their solver.
CHECKERS: dict[str, Checker] = {
    "simple": _simple,
    "pinned": _pinned,
    "levels": _levels,
    "pigeonhole": _pigeonhole,
    "ideals": _ideals,
    "carried": _other_k,
    "bisection": _bisection,
    "priced": _priced,
    "priced-quick": _priced,
}


# Check of the claim that there is no partition, as nothing fits into hard memory limits, or no kind can run it.
#
# Blocks hold their parameters, shared ones once a block, and beside them the largest need of a node, or a buffer, which
# the room is less by. So none fits where the bytes of some nodes and the largest of their needs are more than the room
# of all devices that may hold them: of all nodes and devices (sum), of nodes that may be in some blocks only (windows),
# or of one node or group on each device that can run it (node). At least one of these blocks is not empty, which counts
# where the room is below 0. Else ideals may show that no chain of blocks fits.


def _no_answer(task: Task, stated: StatedImpossible) -> InfeasibilityCheck:
    """Prove again that there is no partition, by the proof in the file."""
    if stated.kind is None:
        return InfeasibilityCheck(stated.reason, False, "trusted, as its proof is not in the file")
    if stated.kind == "ideals":
        return _by_ideals(task, stated)
    exact, inside, blocks = task.exact, set(task.group), task.exact.k
    kinds: Sequence[int] = range(len(exact.counts)) if exact.sequence is None else exact.sequence
    if stated.kind == "node":
        node = task.group[stated.numbers["node"]]
        inside, blocks = {node}, 1
        kinds = [t for t in kinds if node not in exact.barred[t]]
    elif stated.kind == "windows":
        first, last = stated.numbers["first"], stated.numbers["last"]
        inside, blocks = set(_forced_into(task, first, last)), last - first + 1
        kinds = kinds if exact.sequence is None else exact.sequence[first : last + 1]
    room = _room(exact, kinds, blocks)
    if inside and room is not None and _load(exact, inside) > room:
        return InfeasibilityCheck(stated.reason, True, f"re-proved by its formula ({stated.kind})")
    return InfeasibilityCheck(
        stated.reason, False, "false", f"its proof ({stated.kind}) does not show that nothing fits"
    )


def _by_ideals(task: Task, stated: StatedImpossible) -> InfeasibilityCheck:
    try:
        if task.fits_nowhere():
            return InfeasibilityCheck(stated.reason, True, "re-proved by all ideals")
    except UndecidedError as error:
        return InfeasibilityCheck(stated.reason, False, f"not re-checked: {error}")
    except OutOfTimeError:
        return InfeasibilityCheck(stated.reason, False, "not re-checked within the time limit")
    fault = f"{task.exact.k} blocks that fit{_but_for_peaks(task.exact)} exist"
    return InfeasibilityCheck(stated.reason, False, "false", fault)


def _room(exact: ExactInstance, kinds: Sequence[int], blocks: int) -> int | None:
    """Largest total bytes in `blocks` blocks on devices of these kinds; None if a device has no limit.

    At least one block holds nodes. If no device has room for them, even without bytes, the result is -1.
    """
    rooms: list[int] = []
    for t in kinds:
        if not exact.fit or (limit := exact.memory[t]) is None:
            return None
        rooms += [limit - (exact.buffer or 0)] * (exact.counts[t] if exact.sequence is None else 1)
    largest = sorted((room for room in rooms if room > 0), reverse=True)[:blocks]
    return max([*rooms, sum(largest)]) if any(room >= 0 for room in rooms) else -1


def _load(exact: ExactInstance, inside: set[int]) -> int:
    """Least bytes of blocks that hold these nodes: parameters, states, and the largest need."""
    load = sum(exact.params[v] for v in inside) + sum(size for users, size in exact.shared if users & inside)
    return load + (max(exact.need[v] for v in inside) if exact.buffer is None else 0)


def _forced_into(task: Task, first: int, last: int) -> list[int]:
    """Nodes of `exact` whose windows, followed along edges, lie within blocks `first` to `last`."""
    exact = task.exact
    low, high = [0] * exact.n, [exact.k - 1] * exact.n
    for v, begin, end in task.windows:
        low[v], high[v] = max(low[v], begin), min(high[v], end)
    for v in exact.order:
        low[v] = max([low[v], *(low[u] for u in exact.before[v])])
    for v in reversed(exact.order):
        high[v] = min([high[v], *(high[w] for w in exact.after[v])])
    return [v for v in range(exact.n) if first <= low[v] and high[v] <= last]


# Check the certificate of a partition: costs from the equations of the paper, bounds by one checker a method.


def verify_partition(document: Value, limits: Limits) -> Verdict:
    """Check all that can be checked in the certificate of a partition.

    Raises
    ------
    InputError
        If this is no certificate, or the parameters of a bound are not of the kind that its method needs.
    """
    certificate = certificate_from_document(document)
    instance, stated = certificate.instance, certificate.partition
    exact = ExactInstance.of(instance)
    cost, fault, faults = None, None, list[str]()
    if stated is not None:
        names = stated.kind or None
        fault = find_fault(exact, stated.block, stated.order)
        fault = fault or (None if names is None else fault_of_devices(instance, stated.block, names))
        kind = _kind_numbers(instance, names)
        fault = fault or find_breach(instance, exact, stated.block, stated.order, kind)
        if fault is None:
            cost = bottleneck(exact, stated.block, stated.order, kind)
            faults += _faults_of_copies(certificate, exact, stated)
    group = shared_blocks(exact, instance.constraints)
    task = Task(
        exact=merge_groups(exact, group),
        group=group,
        is_alike=instance.is_alike,
        one_block=_one_block(instance, exact),
        rules=instance.constraints,
        clock=Clock(limits.seconds),
    )
    no_answer = None
    if certificate.impossible is not None:
        no_answer = _no_answer(task, certificate.impossible)
        faults += [f"impossible: {no_answer.fault}"] if no_answer.fault else []
        faults += [] if stated is None else ["impossible: there is a partition beside it"]
    fault = fault and f"partition: {fault}"
    return verdict_of(
        certificate, cost, faults, task.check, limits, fault=fault, no_answer=no_answer, judges_stated=True
    )


def _kind_numbers(instance: Instance, names: Sequence[str | None] | None) -> list[int]:
    """(k,) number of each block's kind, from names; 0 for idle blocks and for equal devices."""
    numbers = {kind.name: t for t, kind in enumerate(instance.machines.kinds)}
    return [0 if name is None else numbers.get(name, 0) for name in names or [None] * instance.k]


def _one_block(instance: Instance, exact: ExactInstance) -> Fraction | None:
    """Cost of all nodes in one block; None if that is not allowed, or devices differ."""
    block, kind = [0] * exact.n, [0] * exact.k
    if not instance.is_alike or find_breach(instance, exact, block, exact.order, kind) is not None:
        return None
    return bottleneck(exact, block, exact.order, kind)


def _faults_of_copies(certificate: Certificate, exact: ExactInstance, stated: Stated) -> Iterator[str]:
    """Faults of values that the answer repeats from elsewhere in the file."""
    instance = certificate.instance
    if instance.is_alike:
        yield from faults_of_stages(instance, exact, stated)
    stages: dict[int, list[str]] = {}
    for v in stated.order:
        stages.setdefault(stated.block[v], []).append(instance.graph.names[v])
    if [list(names) for names in stated.stages] != [stages.get(b, []) for b in range(instance.k)]:
        yield "answer.stages: the names are not those of block and order"
