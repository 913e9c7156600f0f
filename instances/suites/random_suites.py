"""Random graphs of any number in the style of REGAL's."""

from __future__ import annotations

from functools import partial

from instances.errors import InputError
from instances.random_graphs import GRAPH_MODELS, regal_style
from instances.suites.suite import Entry, Suite

__all__ = ["random_entry", "regal_style_entries", "regal_style_suite"]

# Nodes of the graphs with seeds 1 to 6.
_SIZES = (50, 80, 110, 140, 170, 200)
_MOST = 100_000


def random_entry(family: str, n: int, seed: int) -> Entry:
    """A random graph, which is a cluster of its own."""
    name = f"{family}-{n}-{seed}"
    return Entry(name, partial(regal_style, family, n, seed), 1.0, name)


def regal_style_entries(count: int) -> tuple[Entry, ...]:
    """`count` graphs, as many of each family; a longer list begins with the 24 of the suite ``regal-style``.

    Up to 24, family by family with seeds from 1; beyond, seed by seed, and sizes that spread over 50 to 200.
    """
    each = count // len(GRAPH_MODELS)
    first = [(family, _SIZES[i], i + 1) for family in GRAPH_MODELS for i in range(min(each, len(_SIZES)))]
    more = [(family, _size(seed), seed) for seed in range(len(_SIZES) + 1, each + 1) for family in GRAPH_MODELS]
    return tuple(random_entry(*graph) for graph in (*first, *more))


def regal_style_suite(count: str) -> Suite:
    """The suite ``regal-style:COUNT``.

    Raises
    ------
    InputError
        If the count is no multiple of the number of families, or too large.
    """
    families, name = len(GRAPH_MODELS), f"regal-style:{count[:20]}"
    number = int(count) if count.isascii() and count.isdigit() and len(count) <= len(str(_MOST)) else 0
    if not 0 < number <= _MOST or number % families:
        raise InputError(
            f"{name}: N must be a multiple of {families}, up to {_MOST}: there are {families} families; "
            f"say regal-style:24 or regal-style:1000."
        )
    return Suite(name, f"{number} random graphs of 50 to 200 nodes, {families} families", regal_style_entries(number))


def _size(seed: int) -> int:
    """Number of nodes of the graphs with this seed: 151 is prime, so 151 seeds have different sizes, spread widely."""
    return 50 + 93 * seed % 151
