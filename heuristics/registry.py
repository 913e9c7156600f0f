"""Every heuristic under the name that the command line and the tables use."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Literal

import numpy as np

from heuristics.local_search.searches import local_search, multilevel, portfolio
from heuristics.method import Limits, Method
from heuristics.orders.genetic import BRKGAParameters
from heuristics.orders.orders import kahn
from heuristics.orders.searches import brkga, linear_arrangement, random_search
from heuristics.orders.slicing import slice_order
from instances import InputError, Instance, Partition
from instances.errors import Registry, find
from instances.partitioning.symmetry import reduce_instance

_SECTION = "MTPP, Section 5.3"
_SMALL, _LARGE = BRKGAParameters(10, 10), BRKGAParameters(100, 100)


def _heuristic(
    name: str,
    summary: str,
    reference: str,
    search: Callable[[Instance, np.random.Generator, Limits], Partition],
    kinds: Literal["one", "any"] = "one",
) -> Method[Instance, Partition]:
    """A method that first applies the lossless reductions and lowers k to the number of nodes."""

    def run(instance: Instance, rng: np.random.Generator, limits: Limits | None = None) -> Partition:
        reduction = reduce_instance(_capped(instance))
        answer = search(reduction.instance, rng, limits or Limits())
        if not isinstance(answer, Partition):
            raise InputError(f"{name} returned {type(answer).__name__}, not a Partition of its instance.")
        return reduction.expand(answer).under(instance)

    return Method(name, summary, reference, run, kinds)


def _capped(instance: Instance) -> Instance:
    """The question with at most as many blocks as nodes, if blocks are interchangeable.

    The blocks left out would stay empty.
    """
    if instance.constraints or not instance.is_alike:
        return instance
    return instance.with_k(min(instance.k, instance.graph.n))


def _random(samples: int) -> Method[Instance, Partition]:
    summary = f"best slicing of {samples} random order{'s' * (samples > 1)}"
    return _heuristic(
        f"random-{samples}",
        summary,
        _SECTION,
        lambda instance, rng, limits: random_search(instance, rng, limits, samples),
    )


def _brkga(parameters: BRKGAParameters) -> Method[Instance, Partition]:
    size = f"{parameters.generations} generations of {parameters.population}"
    return _heuristic(
        f"brkga-{parameters.population * parameters.generations}",
        f"genetic search over node priorities, {size}",
        f"{_SECTION} and Algorithm 2",
        lambda instance, rng, limits: brkga(instance, rng, limits, parameters),
    )


def _arrangement(name: str, summary: str, weighted: bool) -> Method[Instance, Partition]:
    return _heuristic(
        name,
        summary,
        _SECTION,
        lambda instance, rng, limits: linear_arrangement(instance, rng, limits, weighted=weighted, parameters=_LARGE),
    )


_ALL = (
    _heuristic(
        "kahn",
        "best slicing of the Kahn order of equal priorities",
        "MTPP, Algorithms 1 and 3",
        lambda instance, _rng, limits: slice_order(
            instance, kahn(instance.graph, np.zeros(instance.graph.n)), limits.deadline
        ),
    ),
    _arrangement("mla", "slicing of an order with short edges", weighted=False),
    _arrangement("mla-weighted", "slicing of an order with short edges, weighted by bytes", weighted=True),
    _random(1),
    _random(100),
    _random(10000),
    _brkga(_SMALL),
    _brkga(_LARGE),
    _heuristic(
        "local-search",
        "annealing of moves and swaps of nodes, up to 10 million, sliced anew in between",
        "this project, heuristics/local_search/annealing.py",
        local_search,
    ),
    _heuristic(
        "multilevel",
        "cut a coarse copy of the graph, and refine the cut by annealing while the nodes come back",
        "this project, heuristics/local_search/multilevel.py",
        multilevel,
    ),
    _heuristic(
        "portfolio",
        "what takes no time, then multilevel cycles, annealing and genetic search, as they gain",
        "this project, heuristics/local_search/searches.py",
        portfolio,
        kinds="any",
    ),
)

#: Name to heuristic, in the order of the paper's Table 1, then those beyond the paper.
HEURISTICS = Registry(_ALL, "mtpp.heuristics")


def heuristic_of(method: str | Method[Instance, Partition] | Callable[..., Partition]) -> Method[Instance, Partition]:
    """The heuristic of a name or a function of an instance, a generator and limits; a heuristic is returned unchanged.

    Raises
    ------
    InputError
        If there is no heuristic of this name, or `method` is of another type.
    """
    if isinstance(method, str):
        return find(HEURISTICS, method, "heuristic")
    if isinstance(method, Method):
        return method
    if not callable(method):
        raise InputError(f"A heuristic is a name or a function, no {type(method).__name__}.")
    name = getattr(method, "__name__", type(method).__name__)
    try:
        signature(method).bind(None, None, None)
    except ValueError:  # functions of compiled modules do not say what they take
        pass
    except TypeError as error:
        takes = "a heuristic takes an instance, a generator of random numbers and limits"
        raise InputError(f"{name}: {takes}, in this order ({error}).") from None
    return _heuristic(name, "a function of the caller", "", method, kinds="any")


#: Those that can begin from a partition.
_GOING_ON: dict[str, Callable[[Partition, np.random.Generator, Limits], Partition]] = {
    "local-search": lambda start, rng, limits: local_search(start.instance, rng, limits, start=start),
    "portfolio": lambda start, rng, limits: portfolio(start.instance, rng, limits, starts=[start]),
}


def go_on(method: str, start: Partition, rng: np.random.Generator, limits: Limits) -> Partition | None:
    """Improve a partition by a heuristic, never making it worse; None if the method cannot take a start."""
    instance = start.instance
    if method not in _GOING_ON or _capped(instance) is not instance:
        return None
    reduction = reduce_instance(instance)
    return reduction.expand(_GOING_ON[method](reduction.restrict(start), rng, limits))
