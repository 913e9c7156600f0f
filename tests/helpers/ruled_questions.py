"""Random tiny questions with side constraints and hard memory, each with its answers by brute force."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from extremes import graph_of, random_case
from hunted_questions import Question, ViolationError
from ruled_oracle import RuledCase, fits, least_bottleneck, obedient
from subset_oracle import Case

from instances import InputError, Instance, Partition, Platform

__all__ = ["RuledQuestion", "random_ruled_case"]

_MOST_NODES, _MOST_BLOCKS = 5, 3


def random_ruled_case(r: random.Random) -> RuledCase:
    """A random graph, plain or extreme, with up to two rules of each kind, and memory that is a hard limit or not.

    Rules may contradict one another, name a node twice, or say nothing.
    """
    case = random_case(r, _MOST_NODES) if r.random() < 0.5 else _plain_case(r)
    k = r.randint(1, _MOST_BLOCKS)
    any_node = lambda: r.randrange(case.n)  # noqa: E731
    windows = [[any_node(), *sorted((r.randrange(k), r.randrange(k)))] for _ in range(r.choice((0, 0, 1, 2)))]
    together = [[any_node() for _ in range(r.randint(0, 3))] for _ in range(r.choice((0, 0, 1, 2)))]
    at_least = [(r.choice((0, 1, 1, 2)), _counted(r, case.n)) for _ in range(r.choice((0, 0, 0, 1, 2)))]
    uncut = [any_node() for _ in range(r.choice((0, 0, 0, 1, 2)))]
    memory, fit = case.memory, r.random() < 0.5
    if fit and (memory == math.inf or r.random() < 0.7):
        memory = _tight(r, case, k)
    rules = {"together": together, "windows": windows, "uncut": uncut, "at_least": at_least}
    return RuledCase(**vars(replace(case, k=k, memory=memory, fit=fit)), **rules)


def _counted(r: random.Random, n: int) -> list[int]:
    return list(range(n)) if r.random() < 0.5 else [r.randrange(n) for _ in range(r.randint(0, 5))]


def _plain_case(r: random.Random) -> Case:
    """Small whole numbers, on a platform that matters."""
    n = r.randint(1, _MOST_NODES)
    order = r.sample(range(n), n)
    tensors = []
    for i, u in enumerate(order):
        for _ in range(r.choice((1, 1, 1, 2))):
            tensors.append((u, float(r.randrange(6)), sorted(v for v in order[i + 1 :] if r.random() < 0.4)))
    work, held = ([float(r.randrange(9)) for _ in range(n)] for _ in range(2))
    shared = [(float(r.randrange(6)), sorted(r.sample(range(n), r.randint(0, n)))) for _ in range(r.choice((0, 0, 1)))]
    memory, buffer = r.choice((math.inf, 8.0, 15.0)), r.choice((None, None, 0.0, 2.0))
    return Case(work, held, sorted(tensors), shared, 1, r.choice((math.inf, 0.5, 1.0, 3.0)), memory, buffer)


def _tight(r: random.Random, case: Case, k: int) -> float:
    """About what the nodes hold over k blocks, and what one of them needs."""
    needs = [sum(size for u, size, readers in case.tensors if v == u or v in readers) for v in range(case.n)]
    held = sum(case.params) + sum(size for size, _ in case.shared)
    live = max(needs) if case.buffer is None else case.buffer
    memory = held / k * r.uniform(0.8, 2.0) + live * r.choice((0.5, 1.0, 1.0, 2.0))
    return float(round(memory)) if memory < 1e6 else memory


@dataclass(frozen=True, eq=False)
class RuledQuestion(Question):
    """A case with rules and its answers by brute force."""

    case: RuledCase

    @cached_property
    def instance(self) -> Instance:
        """The same for the project.

        Raises
        ------
        InputError
            If its costs are too large for floats, or its rules contradict one another.
        ViolationError
            If rules are refused that some assignment obeys.
        """
        case = self.case
        plain = Instance(graph_of(case), Platform(case.k, case.bandwidth, case.memory, case.buffer, case.fit))
        windows = [(v, (first, last)) for v, first, last in case.windows]
        rules = {"together": case.together, "windows": windows, "uncut": case.uncut, "at_least": case.at_least}
        try:
            return Instance(plain.graph, plain.platform, **rules)
        except InputError as error:
            if self.obedient:
                raise ViolationError(f"{str(error)!r} is said, but {self.obedient[0]} obeys") from None
            raise

    @cached_property
    def obedient(self) -> list[tuple[int, ...]]:
        """All assignments that obey the rules, whether they fit or not."""
        return obedient(self.case)

    @cached_property
    def allowed(self) -> list[tuple[int, ...]]:
        """Those that fit as well where they have to, as far as needs tell."""
        return [blocks for blocks in self.obedient if not self.case.fit or fits(self.case, blocks)]

    @cached_property
    def start(self) -> Partition | None:
        """Nothing, or a random answer."""
        r = random.Random(self.seed)
        return None if r.random() < 0.4 else self._some_answer(r)

    @property
    def some_partition(self) -> Partition:
        """The start, or else some answer.

        Raises
        ------
        InputError
            If there is none.
        """
        partition = self.start or self._some_answer(random.Random(self.seed))
        if partition is None:
            raise InputError("There is no answer to start from.")
        return partition

    def _some_answer(self, r: random.Random) -> Partition | None:
        order = self.instance.graph.topological_order.tolist()
        for blocks in r.sample(self.allowed, len(self.allowed)):
            if not self.case.fit or fits(self.case, blocks, order):
                return Partition(self.instance, blocks)
        return None

    @property
    def always_answered(self) -> bool:
        """Whether each search has to find a partition; least numbers and hard memory may be too much for one."""
        return not (self.case.fit or self.case.at_least)

    @cached_property
    def optimum(self) -> float:
        """In floats; infinite where there is no answer."""
        return float(least_bottleneck(self.case, self.allowed, exact=False))

    @cached_property
    def exact(self) -> Fraction:
        """In fractions; at least one answer must be there."""
        return Fraction(least_bottleneck(self.case, self.allowed, exact=True))

    @cached_property
    def exact_of_orders(self) -> Fraction | float:
        """In fractions, where a peak counts as the least one of all orders; infinite where nothing fits."""
        case = self.case
        allowed = [blocks for blocks in self.obedient if not case.fit or fits(case, blocks, orders=True)]
        least: Fraction | float = least_bottleneck(case, allowed, exact=True, orders=True)
        return least

    def check_allowed(self, partition: Partition) -> None:
        """Whether it obeys and fits.

        Raises
        ------
        ViolationError
            If it does not.
        """
        blocks, order = tuple(partition.block.tolist()), partition.order.tolist()
        if blocks not in self.obedient:
            raise ViolationError(f"{blocks} breaks a rule")
        if self.case.fit and not fits(self.case, blocks, order):
            raise ViolationError(f"{blocks} does not fit")
