r"""The least time that a stage takes from its first pass to its last one, if it holds at most k of M microbatches.

A forward pass of time f comes back as a backward one of time b after R or longer, both on the same devices, so that a
microbatch is in the stage for :math:`ρ = f + b + R`; with k < M

.. math:: M (f + b) + (R - (k - 1) f)^+ + (R - (k - 1) b)^+

is least. Before its first backward pass the stage ends at most k forward passes, the one of that microbatch R before,
so that it idles for R - (k - 1) f; likewise for R - (k - 1) b after its last forward pass, while at most k - 1 other
backward passes are left to run. That one starts after some backward pass, as k < M, so that the stage idles twice.

And of forward passes in the order of their starts, and backward ones of their ends, the j-th ones lie ρ apart,
neighbours f and b, and the (j + k)-th forward one starts after the end of the j-th backward one. So q stays follow one
another beside all passes that they leave out: for q = 1 and q = ⌈M / k⌉

.. math:: q ρ + (M - 1 - k (q - 1)) \max(f, b).

All of them grow with f, b and R, so that least values of these will do.
"""

from __future__ import annotations

from instances.compiled import compiled

__all__ = ["least_span"]


@compiled
def least_span(M: int, k: int, forward: float, backward: float, away: float) -> float:
    """Time of a stage that holds k of M microbatches, each away for so long between its passes [s]."""
    both, longer, rounds = forward + backward, max(forward, backward), (M + k - 1) // k
    stays = both + away + (rounds - 1) * max(0.0, both + away - k * longer) + (M - 1) * longer
    waits = max(0.0, away - (k - 1) * forward) + max(0.0, away - (k - 1) * backward) if k < M else 0.0
    return max(M * both + waits, stays)
