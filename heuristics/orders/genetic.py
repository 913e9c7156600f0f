"""Biased random-key genetic algorithm (MTPP, Section 3.3 and Algorithm 2): vectors of keys that evolve.

References
----------
Gonçalves, Resende: Biased random-key genetic algorithms for combinatorial optimization. Journal of Heuristics 17
(2011).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heuristics.method import Limits
from instances import InputError
from instances.graph.tensors import FloatArray


@dataclass(frozen=True)
class BRKGAParameters:
    """Size and mix of the population.

    Parameters
    ----------
    population, generations : int
        Chromosomes a generation, and number of generations, the random first one included.
    elite, mutants : float
        Fractions of the population that survive, and that are new random draws.
    inheritance : float
        Probability that a child takes a key from its elite parent.

    Raises
    ------
    InputError
        If no room is left for children.

    Notes
    -----
    The paper publishes population and generations; 0.2, 0.15 and 0.7 are this project's defaults.
    """

    population: int = 100
    generations: int = 100
    elite: float = 0.2
    mutants: float = 0.15
    inheritance: float = 0.7

    def __post_init__(self) -> None:
        if not (0 <= self.elite <= 1 and 0 <= self.mutants <= 1 and 0 <= self.inheritance <= 1):
            raise InputError(f"{self} has a fraction outside 0 to 1; choose it between.")
        if self.num_elite < 1 or self.num_elite + self.num_mutants >= self.population or self.generations < 1:
            raise InputError(f"{self} leaves no elite or no children; enlarge the population.")

    @property
    def num_elite(self) -> int:
        """Number of survivors."""
        return round(self.elite * self.population)

    @property
    def num_mutants(self) -> int:
        """Number of new random chromosomes."""
        return round(self.mutants * self.population)


def evolve(
    fitness: Callable[[FloatArray], FloatArray],
    n: int,
    rng: np.random.Generator,
    limits: Limits,
    parameters: BRKGAParameters,
) -> FloatArray:
    """Minimise `fitness` over vectors of n keys in [0, 1).

    Parameters
    ----------
    fitness : callable
        Maps (p, n) keys to (p,) values.
    n : int
        Keys of a vector.
    rng : numpy.random.Generator
        Source of randomness of populations, crossovers and mutants.
    limits : Limits
        An evaluation is a vector; the limits are checked before each generation.
    parameters : BRKGAParameters
        Sizes of the population and of its parts.

    Returns
    -------
    (n,) floats
        The best keys seen.
    """
    size = parameters.population
    population = Population(fitness, n, rng, parameters, limits.allow(size))
    remaining = limits.allow(size * parameters.generations) - len(population.values)
    for _ in range(1, parameters.generations):
        if remaining <= 0 or limits.reached(float(population.values.min())):
            break
        population.advance(remaining)
        remaining -= size
    return population.best


class Population:
    """Keys that evolve generation by generation.

    Parameters
    ----------
    fitness : callable
        Maps (p, n) keys to (p,) values, the smaller the better.
    n : int
    rng : numpy.random.Generator
    parameters : BRKGAParameters
    count : int
        Size of the first generation.
    """

    def __init__(
        self,
        fitness: Callable[[FloatArray], FloatArray],
        n: int,
        rng: np.random.Generator,
        parameters: BRKGAParameters,
        count: int,
    ) -> None:
        self._fitness, self._rng, self._parameters = fitness, rng, parameters
        self._keys = rng.random((count, n))
        self.values = fitness(self._keys)

    @property
    def best(self) -> FloatArray:
        """Best keys so far, (n,)."""
        return np.asarray(self._keys[self.values.argmin()])

    def advance(self, limit: int) -> int:
        """Make the next generation with at most `limit` new chromosomes; return their number."""
        by_value, elite = np.argsort(self.values, kind="stable"), self._parameters.num_elite
        keys, values = self._keys[by_value], self.values[by_value]
        new = _next_generation(keys, self._rng, self._parameters)[:limit]
        self._keys = np.concatenate((keys[:elite], new))
        self.values = np.concatenate((values[:elite], self._fitness(new)))
        return len(new)


def _next_generation(keys: FloatArray, rng: np.random.Generator, parameters: BRKGAParameters) -> FloatArray:
    """Children of one elite and one other parent each, then mutants; `keys` are sorted best first."""
    size, elite, n = len(keys), parameters.num_elite, keys.shape[1]
    children = parameters.population - elite - parameters.num_mutants
    elite_parent = keys[rng.integers(elite, size=children)]
    other_parent = keys[rng.integers(elite, size, size=children)]
    inherits = rng.random((children, n)) < parameters.inheritance
    return np.concatenate((np.where(inherits, elite_parent, other_parent), rng.random((parameters.num_mutants, n))))
