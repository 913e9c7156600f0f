"""Tests of methods: small random questions, held against brute force, and the smallest one that a method fails.

A question has up to six nodes, so that all its partitions can be enumerated. A bound must not exceed the least cost of
them, the result of a search must be one of them at its cost, and a repetition must give the same answer.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from heuristics import HEURISTICS
from instances import ComputationGraph, InputError, Instance, Partition, Platform, Result
from instances.deadline import refuse_no_time
from instances.errors import MethodError, NothingFoundError, OneKindError, word
from instances.graph.display import how_many
from instances.graph.graph import save_graph
from instances.graph.tensors import SharedParameter, Tensors
from instances.json_files import check_writable, write_json
from instances.machines import Kind, Machines
from instances.partitioning.constraints import NO_CONSTRAINTS, Constraints
from instances.partitioning.peaks import with_least_peaks
from instances.results import exceeds
from mtpp.certifying.loop import ignore
from mtpp.problems.checking import certificate_document
from mtpp.runs.job import MEASURED, Run
from mtpp.runs.method_process import end_processes
from mtpp.runs.partition_job import RunMethod, run_methods
from mtpp_models import MODELS, Progress, SolveOptions
from mtpp_models.simple import as_answer
from mtpp_models.solvers.registry import find_solver

T = TypeVar("T")

# Questions as plain numbers: drawn, built, and made smaller.


#: Nodes at the most, without and with several kinds of devices; sizes span twice so many powers of ten.
_MOST_NODES, _MOST_OF_KINDS = 6, 4
_POWERS = 4.0
#: Classes of questions, in the order in which counts of them are printed.
PLAIN, MEMORY, RULES, KINDS = "plain", "memory", "constraints", "kinds"


@dataclass(frozen=True)
class Case:
    """A question as plain numbers; nodes are in a topological order."""

    work: tuple[float, ...]  # of each node
    params: tuple[float, ...]  # bytes of each node
    tensors: tuple[tuple[int, float, tuple[int, ...]], ...]  # producer, bytes, readers
    k: int
    shared: tuple[tuple[float, tuple[int, ...]], ...] = ()  # bytes and users of a parameter
    kinds: tuple[Kind, ...] = (Kind("device", 1, speed=1.0),)  # with a single kind there are k devices
    order: str = "free"  # order of the devices; if fixed, block i is on device i
    rates: tuple[tuple[float, ...], ...] | None = None  # between the kinds
    bandwidth: float = 1.0
    buffer: float | None = None
    fit: bool = False
    rules: Constraints = NO_CONSTRAINTS

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.work)

    @property
    def feature(self) -> str:
        """The class of the case: plain, memory, constraints or kinds."""
        if len(self.kinds) > 1:
            return KINDS
        if self.rules:
            return RULES
        return MEMORY if self.kinds[0].memory < math.inf else PLAIN

    def instance(self) -> Instance:
        """The question of the case; an `InputError` if its numbers are invalid."""
        starts = np.cumsum([0, *(len(readers) for _, _, readers in self.tensors)])
        tensors = Tensors(
            np.array([u for u, _, _ in self.tensors], dtype=np.int64),
            np.array([size for _, size, _ in self.tensors], dtype=np.float64),
            starts,
            np.array([v for _, _, readers in self.tensors for v in readers], dtype=np.int64),
        )
        shared = tuple(SharedParameter(f"p{i}", size, users) for i, (size, users) in enumerate(self.shared))
        graph = ComputationGraph(np.array(self.work), np.array(self.params), tensors, parameters=shared)
        if len(self.kinds) == 1:
            platform = Platform(self.k, self.bandwidth, self.kinds[0].memory, self.buffer, self.fit)
            return Instance(graph, platform, "hunted", self.rules)
        machines = Machines(self.kinds, self.order, self.rates, self.bandwidth)
        k, buffer = machines.total if machines.is_fixed else min(self.k, machines.total), self.buffer
        return Instance(graph, machines, "hunted", self.rules, k=k, activation_buffer=buffer, fit=self.fit)

    def smaller(self) -> Iterator[Case]:
        """Simpler cases: each without one part, or with simpler numbers."""
        if self.n > 1:
            yield from (self._without(v) for v in range(self.n))
        for name in ("tensors", "shared"):
            yield from (self._with(name, fewer) for fewer in _fewer(getattr(self, name)))
        for name in ("together", "windows", "uncut", "at_least", "on"):
            for rules in _fewer(getattr(self.rules, name)):
                yield self._with("rules", replace(self.rules, **{name: rules}))
        if len(self.kinds) > 1:
            yield from (self._with("kinds", (kind,)) for kind in self.kinds)
        plain = {
            "fit": False,
            "buffer": None,
            "bandwidth": 1.0,
            "k": max(1, self.k - 1),
            "order": "free",
            "rates": None,
        }
        for name, value in plain.items():
            if getattr(self, name) != value:
                yield self._with(name, value)
        for trait, value in (("memory", math.inf), ("bandwidth", None), ("count", 1), ("speed", 1.0)):
            traits: dict[str, Any] = {trait: value}
            if (kinds := tuple(replace(kind, **traits) for kind in self.kinds)) != self.kinds:
                yield self._with("kinds", kinds)
        for name in ("work", "params"):
            for v, value in enumerate(values := getattr(self, name)):
                yield from (self._with(name, (*values[:v], less, *values[v + 1 :])) for less in _plainer(value))
        for i, (u, size, readers) in enumerate(self.tensors):
            plainer = [(u, less, readers) for less in _plainer(size)]
            plainer += [(u, size, fewer) for fewer in _fewer(readers)]
            yield from (self._with("tensors", (*self.tensors[:i], less, *self.tensors[i + 1 :])) for less in plainer)

    def _with(self, name: str, value: Any) -> Case:
        changes: dict[str, Any] = {name: value}
        return replace(self, **changes)

    def _without(self, v: int) -> Case:
        """The case without a node; later nodes are renumbered."""

        def moved(nodes: Sequence[int]) -> tuple[int, ...]:
            return tuple(w - (w > v) for w in nodes if w != v)

        rules = self.rules
        return replace(
            self,
            work=self.work[:v] + self.work[v + 1 :],
            params=self.params[:v] + self.params[v + 1 :],
            tensors=tuple((u - (u > v), size, moved(readers)) for u, size, readers in self.tensors if u != v),
            shared=tuple((size, moved(users)) for size, users in self.shared if moved(users)),
            rules=Constraints(
                together=tuple(moved(group) for group in rules.together if len(moved(group)) > 1),
                windows=tuple((w - (w > v), first, last) for w, first, last in rules.windows if w != v),
                uncut=moved(rules.uncut),
                at_least=tuple((count, moved(nodes)) for count, nodes in rules.at_least if moved(nodes)),
                on=tuple((w - (w > v), kinds) for w, kinds in rules.on if w != v),
            ),
        )


def _fewer(parts: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """The tuple without each of its parts in turn."""
    return (parts[:i] + parts[i + 1 :] for i in range(len(parts)))


def _plainer(value: float) -> Iterator[float]:
    """Numbers with fewer digits near a value."""
    for plain in (0.0, 1.0, float(f"{value:.0e}")):
        if len(repr(plain)) < len(repr(value)) or (plain == 0.0 and value in (1.0, 2.0)):
            yield plain


def drawn(rng: random.Random, number: int, *, kinds: bool) -> Case:
    """A random case; every second one is plain, the others have memory, rules or kinds."""
    feature = (PLAIN, MEMORY, PLAIN, RULES, MEMORY, KINDS if kinds else RULES)[number % 6]
    n = rng.randint(1, _MOST_OF_KINDS if feature == KINDS else _MOST_NODES)
    k = rng.randint(1, 3 if n <= 5 else 2)
    wild = rng.random() < 0.3

    def size() -> float:
        return 10.0 ** rng.uniform(-_POWERS, _POWERS) if wild else float(rng.randint(0, 6))

    def nodes(least: int, limit: int) -> tuple[int, ...]:
        return tuple(sorted(rng.sample(range(n), min(n, rng.randint(least, max(least, limit))))))

    chain, density = rng.random() < 0.4, rng.random()
    tensors = tuple(
        (u, size(), tuple(v for v in range(u + 1, n) if (v == u + 1 if chain else rng.random() < density)))
        for u in range(n)
        if rng.random() < 0.9
    )
    case = Case(tuple(size() for _ in range(n)), tuple(size() for _ in range(n)), tensors, k)
    case = replace(case, bandwidth=rng.choice((1.0, 1.0, 0.5, 3.0, math.inf)))
    if rng.random() < 0.2:
        case = replace(case, shared=((size(), nodes(2, 3)),))
    if feature in (MEMORY, KINDS):
        case = replace(case, buffer=rng.choice((None, None, 0.0, 2.0)), fit=rng.random() < 0.4)
    speeds = rng.sample((1.0, 0.5, 2.0, 4.0), 2 if feature == KINDS else 1)
    limit = sum(case.params) * rng.uniform(0.2, 1.2) + max(bytes_ for _, bytes_, _ in (*tensors, (0, 0.0, ())))
    memory = limit if feature == MEMORY or (feature == KINDS and rng.random() < 0.5) else math.inf
    if feature == KINDS:
        case = _over_kinds(rng, case, speeds, memory)
        if rng.random() < 0.4:
            case = replace(case, rules=_drawn_rules(rng, case, nodes))
        return case
    case = replace(case, kinds=(Kind("device", 1, speed=1.0, memory=memory),))
    return replace(case, rules=_drawn_rules(rng, case, nodes)) if feature == RULES else case


def _over_kinds(rng: random.Random, case: Case, speeds: Sequence[float], memory: float) -> Case:
    """The case with kinds of devices of these speeds, and random memories, bandwidths, rates or order."""
    counts, memories = [rng.randint(1, 2) for _ in speeds], [memory] * len(speeds)
    if rng.random() < 0.5:
        memories = [memory * rng.choice((0.5, 1.0, 3.0)) for _ in speeds]
    rates = [rng.choice((None, 0.5, 2.0, math.inf)) if rng.random() < 0.5 else None for _ in speeds]
    traits = enumerate(zip(counts, speeds, memories, rates, strict=True))
    kinds = tuple(Kind(f"kind {t}", count, speed, None, limit, rate) for t, (count, speed, limit, rate) in traits)
    case = replace(case, kinds=kinds, fit=case.fit and memory < math.inf)
    if rng.random() < 0.3:
        case = replace(case, rates=tuple(tuple(rng.choice((0.5, 1.0, 2.0, math.inf)) for _ in kinds) for _ in kinds))
    return replace(case, order="fixed", k=sum(counts)) if rng.random() < 0.2 else case


def _drawn_rules(rng: random.Random, case: Case, nodes: Callable[[int, int], tuple[int, ...]]) -> Constraints:
    """Random side constraints on a case."""
    n, k, several = case.n, case.k, len(case.kinds) > 1
    first = rng.randrange(k)
    return Constraints(
        together=(nodes(2, 3),) if n > 1 and rng.random() < 0.5 else (),
        windows=((rng.randrange(n), first, rng.randint(first, k - 1)),) if rng.random() < 0.5 else (),
        uncut=nodes(1, 1) if rng.random() < 0.3 else (),
        at_least=((1, nodes(k, n)),) if not several and rng.random() < 0.2 else (),
        on=((rng.randrange(n), (rng.choice(case.kinds).name,)),) if several and rng.random() < 0.5 else (),
    )


def partitions(instance: Instance) -> Iterator[Partition]:
    """All feasible partitions, each in an order of least peak."""
    edges = instance.graph.edges.tolist()
    sequences = {
        kinds
        for kinds in itertools.product(range(instance.kinds), repeat=instance.k)
        if all(kinds.count(t) <= count for t, count in enumerate(instance.machines.counts))
    }
    for block in itertools.product(range(instance.k), repeat=instance.graph.n):
        if any(block[u] > block[v] for u, v in edges):
            continue
        for kinds in [None] if instance.is_alike or instance.machines.is_fixed else sorted(sequences):
            try:
                partition = Partition(instance, block, kind=kinds)
            except InputError:  # a rule is broken
                continue
            if instance.needs_peaks:
                partition = with_least_peaks(partition)
            if partition.bottleneck < math.inf:
                yield partition


# Methods tried on questions.


# Relative: what rounding may add to a bound. Seconds for an answer; of a search that is given a limit.
_ROUNDING, _PATIENCE, _LIMIT = 1e-9, 10.0, 0.2
# A search is late if it takes more than this multiple of its limit, and so many seconds more.
_OVER, _GRACE = 1.5, 0.3
# Of so many questions one is asked twice, and one with a limit of time.
_TWICE, _LIMITED = 4, 10


@dataclass(frozen=True)
class Counterexample:
    """The smallest question found on which a method is wrong."""

    complaint: str  # in one line
    instance: Instance
    optimum: Partition  # by brute force
    number: int  # of the question that was drawn

    def save(self, folder: str | Path, name: str) -> list[Path]:
        """Write the graph, and the question with its optimum as an answer file (mtpp-answer/1).

        Raises
        ------
        OSError, InputError
            If a file cannot be written.
        """
        base = Path(folder)
        base.mkdir(parents=True, exist_ok=True)
        safe = "".join(c if c.isalnum() else "-" for c in name)
        graph, answer = base / f"{safe}-{self.number}.graph.json", base / f"{safe}-{self.number}.answer.json"
        for path in (graph, answer):
            check_writable(path)
        save_graph(self.instance.graph, graph)
        write_json(answer, certificate_document([Result("brute force", self.instance, self.optimum)]))
        return [graph, answer]


@dataclass
class Hunt:
    """Outcome of a hunt.

    Parameters
    ----------
    method : str
    asked : Counter of str
        Questions by class: plain, memory, constraints, kinds.
    refused : Counter of str
        Questions, among those, on which the method says that it has no answer.
    counterexample : Counterexample, optional
    seed : int
    interrupted : bool
        Whether Ctrl-C ended it.
    """

    method: str
    seed: int
    asked: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    counterexample: Counterexample | None = None
    interrupted: bool = False

    def document(self) -> dict[str, Any]:
        """The hunt as JSON members."""
        case = self.counterexample
        return {
            "method": self.method,
            "seed": self.seed,
            "asked": dict(self.asked),
            "refused": dict(self.refused),
            "counterexample": None
            if case is None
            else {
                "complaint": case.complaint,
                "number": case.number,
                "question": case.instance.question_words,
                "optimum": case.optimum.bottleneck,
                "block": case.optimum.block.tolist(),
            },
        }

    def __str__(self) -> str:
        counts = ", ".join(f"{self.asked[name]} {name}" for name in (PLAIN, MEMORY, RULES, KINDS) if self.asked[name])
        none = f"; no answer to {self.refused.total()}" if self.refused else ""
        if not self.asked:
            return f"{self.method}: no question was asked in this time; give more {word('seconds')}"
        lines = [f"{self.method}: {how_many(self.asked.total(), 'question')} ({counts}){none}, seed {self.seed}"]
        if self.counterexample is None:
            return f"{lines[0]}: nothing is wrong"
        case, best = self.counterexample, self.counterexample.optimum
        lines += [
            f"WRONG: {case.complaint}",
            f"question {case.number}, made small: {case.instance.question_words}",
            f"optimum {best.bottleneck:.6g} by brute force, blocks {best.block.tolist()}",
        ]
        return "\n".join(lines)


def hunt_by(
    method: RunMethod,
    seconds: float,
    seed: int,
    *,
    kinds: bool,
    solver: str = "highs",
    on_progress: Callable[[Progress], None] = ignore,
) -> Hunt:
    """Try a method on questions until it is wrong on one, which is then reduced, or time is up.

    Parameters
    ----------
    method : RunMethod
    seconds : float
        Wall time of the hunt; the current question is finished.
    seed : int
        The same seed draws the same questions.
    kinds : bool
        Whether questions over kinds of devices are drawn, too.
    solver : str
        For formulations.
    on_progress : callable
        Receives counts and the time that is left, before each question.
    """
    hunt, end = Hunt(method.name, seed), time.monotonic() + seconds
    trial = _Trial(method, solver)
    with suppress(KeyboardInterrupt):
        for number in itertools.count():
            remaining = end - time.monotonic()
            words = f"{hunt.method}: {hunt.asked.total()} questions, {max(0.0, remaining):.0f} s left"
            on_progress(Progress(words, 0.0, None, None, None))
            if remaining <= 0:
                return hunt
            case = drawn(random.Random(f"{seed} {number}"), number, kinds=kinds)
            verdict = trial.complaint(case, number)
            if verdict is None:
                continue
            hunt.asked[case.feature] += 1
            if verdict == "":
                hunt.refused[case.feature] += 1
            elif verdict != _TRUE:
                hunt.counterexample = trial.shrunk(case, number, verdict, end)
                return hunt
    hunt.interrupted = True
    return hunt


#: Verdict on an answer with nothing wrong; that on none is empty.
_TRUE = "true"
# Errors of methods in other processes that are no fault.
_NO_ANSWER = (NothingFoundError.__name__, OneKindError.__name__)


@dataclass
class _Trial:
    """A method with its solver, compared with brute force."""

    method: RunMethod
    solver: str

    def complaint(self, case: Case, number: int) -> str | None:
        """Fault of the answer to a case in one line; None if the case is no question."""
        try:
            instance = case.instance()
        except InputError:
            return None
        every = list(partitions(instance))
        if not every:
            return None
        start = random.Random(number).choice([None, *every])
        limit = _LIMIT if self.method.is_search and number % _LIMITED == _LIMITED - 1 else None
        options = SolveOptions(self.solver, limit, seed=number % 2**31)
        try:
            runs = [
                self.method.answer(instance, options, start, _PATIENCE, twice=False)
                for _ in range(2 if number % _TWICE == 0 else 1)
            ]
        except NothingFoundError:
            return ""
        except (MethodError, InputError) as error:
            return "" if isinstance(error, OneKindError) or str(error).startswith(_NO_ANSWER) else str(error)
        if all(run.get(name) is None for run in runs for name in ("bound", "bottleneck")):
            return ""
        optimum = min(every, key=lambda partition: partition.bottleneck)
        return _fault(runs[0], runs[-1], instance, optimum, limit) or _TRUE

    def shrunk(self, case: Case, number: int, complaint: str, end: float) -> Counterexample:
        """The smallest case derived from this one that has the same fault, found within the time."""
        until, kind, smaller = max(end, time.monotonic() + _PATIENCE), _kind(complaint), case.smaller()
        while time.monotonic() < until and (less := next(smaller, None)) is not None:
            verdict = self.complaint(less, number)
            if verdict is not None and _kind(verdict) == kind:
                case, complaint, smaller = less, verdict, less.smaller()
        instance = case.instance()
        optimum = min(partitions(instance), key=lambda partition: partition.bottleneck)
        return Counterexample(complaint, instance, optimum, number)


def _kind(complaint: str) -> str:
    """The complaint without its numbers, to compare faults of different cases."""
    return "".join(c for c in complaint if c.isalpha() or c == " ")[:40]


def _fault(run: Run, again: Run, instance: Instance, optimum: Partition, limit: float | None) -> str | None:
    """Fault of a run or of its repetition; None without one."""
    bound, cost = run.get("bound"), run.get("bottleneck")
    if bound is not None and exceeds(bound, optimum.bottleneck):
        return f"the bound {bound!r} is above the optimum {optimum.bottleneck!r}"
    if cost is not None:
        partition = as_answer(instance, Partition(instance, run["block"], run.get("order"), run.get("devices")))
        if partition is None or exceeds(cost, partition.bottleneck) or exceeds(partition.bottleneck, cost):
            return f"the bottleneck {cost!r} is not that of its partition"
        if exceeds(optimum.bottleneck, cost):
            return f"the bottleneck {cost!r} is below the optimum {optimum.bottleneck!r}"
    spent = min(run.get(MEASURED, (0.0,)))  # neither compiling nor other work on the machine makes a search late
    if limit is not None:
        late = f"it is late: {spent:.2g} s for a limit of {limit:g} s"
        return late if spent > _OVER * limit + _GRACE else None
    same = all(run.get(name) == again.get(name) for name in ("bottleneck", "bound", "block"))
    return None if same else "it is not repeatable: the same question and seed have two answers"


def hunt_methods(
    methods: Any,
    seconds: float,
    seed: int,
    solver: str = "highs",
    on_progress: Callable[[Progress], None] = ignore,
) -> list[Hunt]:
    """A hunt for each method, which share the time; "all" means all registered methods.

    Raises
    ------
    InputError
        As `mtpp.runs.partition_job.run_methods`, if one cannot be loaded, and if the time is not positive.
    """
    refuse_no_time("seconds", seconds)
    find_solver(solver)  # or each method would be blamed for it
    everything = len(methods) == 1 and isinstance(methods[0], str) and methods[0] == "all"
    chosen, hunts = run_methods([*HEURISTICS, *MODELS] if everything else methods), list[Hunt]()
    try:
        for user_method in (method.user_method for method in chosen if method.user_method is not None):
            user_method.load()
        for method in chosen:
            part, kinds = seconds / len(chosen), method.takes_kinds
            hunts.append(hunt_by(method, part, seed, kinds=kinds, solver=solver, on_progress=on_progress))
            if hunts[-1].interrupted:
                break
    finally:
        end_processes()
    return hunts
