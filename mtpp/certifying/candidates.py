"""Methods of a question of partitioning, in an order and with shares of the time that its measures suggest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from heuristics import Limits, search
from instances import Instance, Partition, Result
from instances.deadline import Deadline
from instances.partitioning.symmetry import families
from mtpp.certifying.loop import Method
from mtpp_models import solve
from mtpp_models.bounds.cuts import Algorithm
from mtpp_models.bounds.ideals.ideals import IDEALS, MOST_LISTED, Ideals
from mtpp_models.bounds.ideals.lattice import antichain
from mtpp_models.bounds.priced.bisection import BISECTION
from mtpp_models.bounds.priced.priced import PRICED, Prices
from mtpp_models.bounds.priced.prices import PRICED_QUICK, QuickPrices
from mtpp_models.cuts.max_flow import MOST_PAIRED
from mtpp_models.formulations.formulation import Formulation
from mtpp_models.registry import Model, find_model
from mtpp_models.solve_model import tells_of_question
from mtpp_models.solvers.interface import Controls

# Up to so many blocks, and nodes times blocks, the exact model as published is solved early, if they are not few.
_FEW_BLOCKS, _SMALL = 4, 4_000
# Up to so many nodes times blocks of large graphs it has a short turn, strengthened, before prices, which take long:
# 0.6 s are enough for wavernn (321 nodes) in 4 blocks, and 1.3 s in 16.
_TRIED = 6_000
# Up to so many nodes times blocks times kinds of devices it finds better answers than searches.
_FEW = 1_000
# Up to so many nodes times blocks it mostly comes to its end, strengthened, in this part of the time, before prices do;
# and a short search is enough.
_FEW_PLACES, _TO_ITS_END, _SHORT_SEARCH = 250, 0.6, 0.03
# Of fewer blocks than three, prices and superblocks say no more than others do; of many the exact model says nothing.
_TWO, _MOST_BLOCKS = 2, 8
# Of more nodes, prices that are guessed prove more than prices of a program, which takes long to converge; of fewer,
# superblocks prove nothing that prices do not.
_MANY_NODES = 250
# Guessed prices have a part of the time that grows with the cube of the nodes, from and up to so many of them.
_MOST_GUESSED, _FEW_NODES, _MANY_GUESSED = 0.9, 70, 300
# Of more, prices of a program do not come to their first bound.
_MOST_PRICED_NODES = 2_000
# Time to build a model, for each block and each of its rows [s].
_ROW_SECONDS = 6e-5
# Some times what matrices of all pairs of nodes take, for each of them [s].
_PAIR_SECONDS = 5e-7
# Of more nodes, it takes longer than the first short turns.
_MOST_SHORT_PAIRS = 1_000
# Moves of a search in a hundredth of a second or few, and the most nodes of which it takes no longer.
_MOVES, _MOST_MOVED = 200_000, 10_000
# Where no more nodes stand side by side there may be few enough ideals.
_NARROW = 14

PartitionMethod = Method[Instance, Partition]


@dataclass(frozen=True)
class Methods:
    """Methods of one question, by how they take turns; what goes on where it stopped is shared by its turns."""

    steps: list[PartitionMethod]  # those that answer at once
    opening: list[PartitionMethod]  # the steps behind them
    short: list[PartitionMethod]  # a search, and proofs that may settle a question in less than a second
    turns: list[PartitionMethod]  # in the order of their first turns


def methods_for(
    instance: Instance, seed: int = 0, deadline: Deadline | None = None, others: Sequence[PartitionMethod] = ()
) -> Methods:
    """Methods that take turns at a question until a deadline.

    If all take their parts in full, the last ones have most of the time; most end much earlier, or have their end.
    Those of others come first, so that each runs once at least, and have turns like all.
    """
    methods = _methods_of_ours(instance, seed, deadline)
    return replace(methods, steps=[*others, *methods.steps], turns=[*others, *methods.turns])


def _methods_of_ours(instance: Instance, seed: int, deadline: Deadline | None) -> Methods:
    rng = np.random.default_rng(seed)

    def search_by(name: str, share: float = 1.0, moves: int | None = None) -> PartitionMethod:
        return _search(instance, name, rng, share, moves)

    def proof(name: str, share: float = 1.0, model: Model | None = None, least: float = 0.0) -> PartitionMethod:
        return _proof(instance, model or find_model(name), name, share, least)

    prices, n = _with(PRICED, Prices()), instance.graph.n
    if not instance.is_alike:
        tried = n * instance.k * instance.kinds <= _FEW
        return Methods(
            # Without time the search slices two orders.
            steps=[_timeless(proof("simple")), _timeless(search_by("portfolio", 0.05))],
            opening=[proof(IDEALS, 0.4), proof("pinned", 0.1)],
            short=[],
            turns=[
                search_by("portfolio", 0.1),
                *([proof("exact", 0.3)] if tried else []),
                proof(PRICED, 0.8, prices),
            ],
        )
    # Short turns of ideals and long ones go on where the last one stopped.
    work = Ideals(deadline or Deadline())
    listing = _with(IDEALS, lambda start, controls: work(start, controls.deadline))
    pinned, pigeonhole = proof("pinned", 0.1), proof("pigeonhole", 0.1, least=n**2 * _PAIR_SECONDS)
    ideals = proof(IDEALS, 0.3, listing)
    return Methods(
        steps=[_timeless(proof("simple")), _timeless(search_by("kahn"))],
        # What can be settled in a moment has the same answer each time: moves end this search, not the clock.
        opening=[pinned, *([search_by("local-search", moves=_MOVES)] if n <= _MOST_MOVED else [])],
        short=[
            pinned,
            *([ideals] if n <= MOST_LISTED else []),
            *([pigeonhole] if n <= _MOST_SHORT_PAIRS else []),
            search_by("local-search"),
        ],
        turns=_turns(instance, ideals, pigeonhole, prices, proof, search_by),
    )


def _turns(
    instance: Instance,
    ideals: PartitionMethod,
    pigeonhole: PartitionMethod,
    prices: Model,
    proof: Callable[..., PartitionMethod],
    search_by: Callable[[str, float], PartitionMethod],
) -> list[PartitionMethod]:
    """Methods with several turns; `proof` and `search_by` make one of a name and a share."""
    n, k = instance.graph.n, instance.k
    listed = n <= MOST_LISTED
    narrow, large = listed and antichain(instance.graph) <= _NARROW, n > _MANY_NODES
    # Of equal branches that stand side by side there may be few up to exchange.
    promising = narrow or (listed and bool(families(instance)))
    priced = k > _TWO and n <= _MOST_PRICED_NODES
    few = k > _TWO and n * k <= _FEW_PLACES
    # Of wide graphs prices prove more, where they say anything.
    small = k <= (_FEW_BLOCKS if narrow else _TWO) and n * k <= _SMALL
    tried = large and n * k <= _TRIED
    row = (n + 2 * instance.graph.m) * _ROW_SECONDS
    guessed = _MOST_GUESSED * min(1.0, max(n, _FEW_NODES) / _MANY_GUESSED) ** 3
    possible = [
        (promising, ideals),
        (n <= MOST_PAIRED and k == _TWO, proof(BISECTION, 0.8)),
        (small and not few, proof("exact", 0.4, least=k * row)),
        (True, search_by("portfolio", _SHORT_SEARCH if few else 0.1)),
        (n <= MOST_PAIRED and k > _TWO, proof(BISECTION, 0.05)),
        (promising, replace(ideals, behind=ideals)),
        (n <= MOST_PAIRED, pigeonhole),
        (listed and not promising, replace(ideals, share=0.1)),
        (tried, proof("exact+all", 0.05 if k > _TWO else 1.0, least=k * row)),
        (k > _TWO and n <= MOST_PAIRED, proof(PRICED_QUICK, guessed, _with(PRICED_QUICK, QuickPrices()))),
        (few, replace(proof("exact+all", _TO_ITS_END, least=k * row), once=True)),
        (large and k > _TWO, proof("coarse-2+all", 0.6, least=_TWO * row)),
        (priced, proof(PRICED, 0.7 if k <= _MOST_BLOCKS else 1.0, prices)),
        (not large and k > _TWO, proof("coarse-2+all", 1.0, least=_TWO * row)),
        (not (tried or few) and k <= _MOST_BLOCKS, proof("exact+all", 1.0, least=k * row)),
    ]
    return [method for suits, method in possible if suits]


def _search(
    instance: Instance, name: str, rng: np.random.Generator, share: float, moves: int | None
) -> PartitionMethod:
    """A search that begins with the best partition and ends at the best bound, or after so many moves."""

    def run(best: Result, controls: Controls) -> Result:
        target = None if best.bound is None else best.bound.value
        deadline = controls.deadline if moves is None else replace(controls.deadline, end=math.inf)
        return search(instance, name, rng, Limits(deadline, moves, target), start=best.partition)

    return Method(name, run, share, counted=moves is not None or name == "kahn")


def _proof(instance: Instance, model: Model, name: str, share: float, least: float) -> PartitionMethod:
    """A model that begins with the best partition; what is strengthened needs one, and is as published without it."""
    by_solver, published = isinstance(model, Formulation), name.partition("+")[0]

    def run(best: Result, controls: Controls) -> Result:
        able = published if best.partition is None and by_solver else model
        return solve(
            instance, able, controls.options, start=best.partition, known=controls.known, on_progress=controls.report
        )

    counted = name in ("simple", "pinned", "pigeonhole", IDEALS)
    return Method(name, run, share, counted=counted, exact=tells_of_question(model), solver=by_solver, least=least)


def _with(name: str, run: Callable[[Partition, Controls], Result]) -> Model:
    """The algorithm of this name, run by `run`, which in a later turn goes on where it stopped."""
    model = find_model(name)
    assert isinstance(model, Algorithm)
    return replace(model, run=run)


def _timeless(method: PartitionMethod) -> PartitionMethod:
    return replace(method, timeless=True)
