"""Two more nodes, before all others and behind them, without work, bytes and time.

The one joins the first block that is not empty, the other the last such block. These cost as much as before, and there
are no more blocks with nodes than the original graph has nodes.
"""

from __future__ import annotations

from dataclasses import replace

from mtpp.verification.partitioning.exact_instance import ExactInstance, Tensor

__all__ = ["ENDS", "with_ends"]

#: More nodes, behind those of the file: the one before all others, and the one behind.
ENDS = 2


def with_ends(exact: ExactInstance) -> ExactInstance:
    """The question with the two more nodes, the last ones."""
    first, last = exact.n, exact.n + 1
    sources = frozenset(v for v in range(exact.n) if not exact.before[v])
    sinks = [v for v in range(exact.n) if not exact.after[v]]
    ends = [Tensor(first, sources, 0, 0), *(Tensor(v, frozenset({last}), 0, 0) for v in sinks)]
    return replace(
        exact,
        n=exact.n + ENDS,
        k=min(exact.k, exact.n),
        work=[*exact.work, 0, 0],
        tensors=[*exact.tensors, *ends],
        held=[*exact.held, 0, 0],
        need=[*exact.need, 0, 0],
    )
