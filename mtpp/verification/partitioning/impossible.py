"""Check of the claim that no partition fits into a memory that is a hard limit.

Blocks hold their parameters, shared ones once a block, and beside them the largest need of a node, or a buffer, which
the room is less by. So none fits where the bytes of some nodes and the largest of their needs are more than the room of
all blocks that may hold them: of all nodes and blocks (sum), of nodes that may be in some blocks only (windows), or of
one node or group (node). At least one of these blocks is not empty, which counts where the room is below 0. Else ideals
may show that no chain of blocks fits.
"""

from __future__ import annotations

from collections.abc import Sequence

from instances.partitioning.constraints import Constraints
from instances.partitioning.stated_impossible import StatedImpossible
from mtpp.verification.clock import Clock, OutOfTimeError
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.partitioning.ideals import UndecidedError, fits_nowhere
from mtpp.verification.verdict import NoAnswer

__all__ = ["check_impossible"]


def check_impossible(
    exact: ExactInstance, group: Sequence[int], rules: Constraints, stated: StatedImpossible, clock: Clock
) -> NoAnswer:
    """Prove again that nothing fits, by the proof that the file names.

    Parameters
    ----------
    exact : ExactInstance
        With one node for each group of nodes that have to share a block.
    group : (n,) integers
        Node of `exact` that holds each node of the file.
    rules : Constraints
    stated : StatedImpossible
    clock : Clock
    """
    if stated.kind is None:
        return NoAnswer(stated.reason, False, "trusted, as its proof is not in the file")
    if stated.kind == "ideals":
        return _by_ideals(exact, stated, clock)
    members, blocks = list(range(exact.n)), exact.k
    if stated.kind == "node":
        members, blocks = [group[stated.numbers["node"]]], 1
    elif stated.kind == "windows":
        first, last = stated.numbers["first"], stated.numbers["last"]
        members, blocks = _forced_into(exact, group, rules, first, last), last - first + 1
    nodes = set(members)
    held = sum(exact.held[v] for v in nodes) + sum(size for users, size in exact.shared if users & nodes)
    load = held + max((exact.need[v] for v in nodes), default=0)
    if nodes and exact.fit and exact.room is not None and load > max(exact.room, blocks * exact.room):
        return NoAnswer(stated.reason, True, f"re-proved by its formula ({stated.kind})")
    return NoAnswer(stated.reason, False, "false", f"its proof ({stated.kind}) does not show that nothing fits")


def _by_ideals(exact: ExactInstance, stated: StatedImpossible, clock: Clock) -> NoAnswer:
    try:
        if fits_nowhere(exact, clock):
            return NoAnswer(stated.reason, True, "re-proved by all ideals")
    except UndecidedError as error:
        return NoAnswer(stated.reason, False, f"not re-checked: {error}")
    except OutOfTimeError:
        return NoAnswer(stated.reason, False, "not re-checked within the time limit")
    peaks = ", but for their peaks," if any(exact.need) else ""
    return NoAnswer(stated.reason, False, "false", f"{exact.k} blocks that fit{peaks} exist")


def _forced_into(exact: ExactInstance, group: Sequence[int], rules: Constraints, first: int, last: int) -> list[int]:
    """Nodes that may be in the blocks from the first to the last and in no others."""
    low, high = [0] * exact.n, [exact.k - 1] * exact.n
    for v, begin, end in rules.windows:
        low[group[v]] = max(low[group[v]], begin)
        high[group[v]] = min(high[group[v]], end)
    return [g for g in range(exact.n) if first <= low[g] and high[g] <= last]
