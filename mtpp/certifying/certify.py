"""``certify``: searches and bounds together, also from bounds for other numbers of blocks."""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import os
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from heuristics import HEURISTICS, Limits, search
from instances import Bound, Instance, Partition, Result, combine
from instances.deadline import Deadline, processor_seconds
from instances.errors import said
from instances.partitioning.symmetry import families, reduce_instance
from instances.results import bound_document
from instances.system.processes import GRACE, catch_interrupt, end_programs
from mtpp.certifying.loop import Loop, Method, Turn, best_of_each_method, ignore
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError, solve
from mtpp_models.bounds.ideals.ideals import IDEALS, MOST_LISTED, Ideals
from mtpp_models.bounds.ideals.lattice import antichain
from mtpp_models.bounds.levels import LEVELS
from mtpp_models.bounds.priced.frontiers import is_forest
from mtpp_models.bounds.priced.priced import PRICED, Prices
from mtpp_models.bounds.priced.quick import BISECTION, PRICED_QUICK, QuickPrices
from mtpp_models.cuts.max_flow import MOST_PAIRED
from mtpp_models.formulations.formulation import Formulation
from mtpp_models.registry import Algorithm, Model, find_model
from mtpp_models.simple import as_answer, one_block
from mtpp_models.solve_model import tells_of_question
from mtpp_models.solvers.highs import forget_threads
from mtpp_models.solvers.interface import Controls
from mtpp_models.solvers.registry import find_solver

# Bounds and partitions for k that follow from other k.


#: Name of the method in results and files.
OTHER_K = "carried"


def from_other_k(results: Iterable[Result], instance: Instance) -> list[Result]:
    r"""Partitions and bounds for k blocks that follow from answers for other numbers of blocks.

    A partition into fewer blocks is also a partition into more, some of them empty. Merging each
    :math:`\lceil k / j \rceil` consecutive blocks of k leaves at most j, none of which costs more than its blocks
    together while the memory is infinite, so :math:`\lceil k / j \rceil \cdot \mathrm{OPT}_k \ge \mathrm{OPT}_j`. For
    j >= k this says that more blocks never hurt, and holds with any memory, also where it is a hard limit: what is
    impossible for j blocks is impossible for fewer.

    Groups of nodes that share a block change none of that. Windows and least numbers do: they name blocks, and forbid
    empty ones. Then no bound is carried over, and a partition only if it is feasible.

    There is a result for each known answer from which a partition or bound follows; answers to other questions are
    ignored.
    """
    carried = []
    for result in results:
        j, k = result.instance.k, instance.k
        if not instance.is_alike or not _same_question(result.instance, instance):
            continue
        partition = None
        if result.partition is not None and j <= k:
            partition = as_answer(instance, result.partition.under(instance.relaxed()))
        bound = impossible = None
        if not (instance.constraints.windows or instance.constraints.at_least):
            bound, impossible = _bound(result, k), result.impossible if j >= k else None
        if partition is not None or bound is not None or impossible is not None:
            carried.append(Result(OTHER_K, instance, partition, bound, solver=result.solver, impossible=impossible))
    return carried


def _same_question(instance: Instance, other: Instance) -> bool:
    """Whether two questions differ in the number of blocks alone."""
    free = instance.without_constraints().with_k(other.k)
    return instance.constraints == other.constraints and free.key == other.without_constraints().key


def _bound(result: Result, k: int) -> Bound | None:
    j = result.instance.k
    if result.bound is None or (j < k and result.instance.limits_memory):
        return None
    return Bound(result.bound.value / -(-k // j), OTHER_K, False, _witness(result))


def _witness(result: Result) -> dict[str, Any]:
    """Parameters of a bound that is carried over from another number of blocks: that number, its value and proof."""
    assert result.bound is not None
    return {"from_k": result.instance.k, "value": result.bound.value, "proof": bound_document(result)}


# Certification of an instance under one time budget: search, then prove, as long as a gap is left.


# Default time limit of `certify`.
_A_MINUTE = SolveOptions(time_limit=60.0)


def certify(
    instance: Instance,
    options: SolveOptions = _A_MINUTE,
    *,
    start: Partition | None = None,
    earlier: Sequence[Result] = (),
    methods: Sequence[Method[Instance, Partition]] = (),
    on_progress: Callable[[Progress], None] | None = None,
    on_fault: Callable[[SolverNotAvailableError], None] | None = None,
    on_step: Callable[[Turn], None] | None = None,
    good_enough: float | None = None,
    on_begin: Callable[[Callable[[], Result | None]], None] | None = None,
) -> Result:
    """Find a good partition and prove how good it is.

    Parameters
    ----------
    options : SolveOptions
        The time limit, a minute by default, is for everything together.
    start : Partition, optional
        A known partition to start from.
    earlier : sequence of Result
        Answers for other k, from which partitions or bounds may follow for this k.
    methods : sequence of Method
        Further methods that take turns, such as `mtpp.runs.user_methods.turns_of` makes.
    on_progress : callable, optional
        Receives the method at work with the best bottleneck and bound so far.
    on_fault : callable, optional
        Receives each `SolverNotAvailableError` of a solver that fails at work; the other methods go on without it. By
        default that is a warning.
    on_step : callable, optional
        Receives a `Turn` behind each turn of a method.
    good_enough : float, optional
        Bottleneck at which the work ends early: once a partition has at most this bottleneck, or a bound excludes it.
    on_begin : callable, optional
        Receives a function that returns the best result so far whenever it is called, None before the first result.

    Returns
    -------
    Result
        Always with a bound, or with the reason why nothing fits. Its `parts` are the results in the order in which they
        were found, of each method its best bound. Ctrl-C ends the work and returns what is known.

    Raises
    ------
    InputError
        If the solver is unknown.
    SolverNotAvailableError
        If the solver cannot run here.

    Examples
    --------
    >>> from instances import ComputationGraph, Platform
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[1, 1, 2], output_bytes=[1, 0, 0])
    >>> certify(Instance(graph, Platform(k=2, bandwidth=1))).ratio
    1.0
    """
    find_solver(options.solver)  # before the searches, which may take a while
    answers = [*from_other_k(earlier, instance), *([] if start is None else [Result("start", instance, start)])]
    on_fault = on_fault or (lambda fault: warnings.warn(str(fault), RuntimeWarning, stacklevel=3))
    if on_begin is not None:
        on_begin(lambda: combine(*best_of_each_method(answers)) if answers else None)
    with catch_interrupt() as interrupted:
        deadline = Deadline.after(options.time_limit, interrupted)
        loop = Loop(
            instance=instance,
            options=options,
            deadline=deadline,
            answers=answers,
            good_enough=good_enough,
            on_progress=on_progress or ignore,
            on_fault=on_fault,
            on_step=on_step or ignore,
        )
        plan = methods_for(instance, options.seed, deadline, methods)
        loop.steps(plan.steps)
        # Which of two processes is the first is a matter of the clock.
        if options.threads > 1 and options.time_limit is not None and plan.short and can_split():
            certify_in_two_processes(loop, plan)
        else:
            loop.steps(plan.opening)
            loop.short_turns(plan.short)
            loop.turns(plan.turns)
        return loop.result()


# Methods of a question of partitioning, in an order and with shares of the time that its measures suggest.


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
    """The methods for one question, grouped by how they take turns; stateful ones share their state."""

    steps: list[PartitionMethod]  # those that answer at once
    opening: list[PartitionMethod]  # the steps behind them
    short: list[PartitionMethod]  # a search, and proofs that may settle a question in less than a second
    turns: list[PartitionMethod]  # in the order of their first turns


def methods_for(
    instance: Instance, seed: int = 0, deadline: Deadline | None = None, others: Sequence[PartitionMethod] = ()
) -> Methods:
    """Methods that take turns at a question until a deadline.

    If all methods use their shares in full, the last ones have most of the time; most end much earlier. The caller's
    methods, `others`, come first, so that each runs at least once, and take turns with the rest.
    """
    methods = _methods_of_ours(instance, seed, deadline)
    return replace(methods, steps=[*others, *methods.steps], turns=[*others, *methods.turns])


def _methods_of_ours(instance: Instance, seed: int, deadline: Deadline | None) -> Methods:
    rng = np.random.default_rng(seed)

    def search_by(name: str, share: float = 1.0, moves: int | None = None) -> PartitionMethod:
        return _search(instance, name, rng, share, moves)

    def proof(name: str, share: float = 1.0, model: Model | None = None, least: float = 0.0) -> PartitionMethod:
        return _proof(instance, model or find_model(name), name, share, least)

    prices, n = Prices(), instance.graph.n
    if not instance.is_alike:
        tried = n * instance.k * instance.kinds <= _FEW
        return Methods(
            # Without time the search slices two orders.
            steps=[_timeless(proof("simple")), _timeless(search_by("portfolio", 0.05))],
            opening=[proof(IDEALS, 0.4), proof("pinned", 0.1)],
            short=[],
            turns=[
                search_by("portfolio", 0.1),
                *([proof(LEVELS, 0.2)] if _is_tight(instance) else []),
                *([proof("exact", 0.3)] if tried else []),
                proof(PRICED, 0.8, _with(PRICED, prices)),
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
    prices: Prices,
    proof: Callable[..., PartitionMethod],
    search_by: Callable[[str, float], PartitionMethod],
) -> list[PartitionMethod]:
    """Methods that may have several turns; `proof` and `search_by` make a method from a name and its share of time."""
    n, k, priced = instance.graph.n, instance.k, _with(PRICED, prices)
    listed = n <= MOST_LISTED
    narrow, large = listed and antichain(instance.graph) <= _NARROW, n > _MANY_NODES
    # Of equal branches that stand side by side there may be few up to exchange.
    promising = narrow or (listed and bool(families(instance)))
    # Where sweeps know the cheapest block, prices of a program prove more than guessed ones. To find out takes up to a
    # second, and what is narrow is often proved before.
    reduced = reduce_instance(instance).instance if k > _TWO and listed else instance
    swept = k > _TWO and listed and (is_forest(reduced) or not promising) and prices.sweeps(reduced)
    other = k > _TWO and not swept
    few = k > _TWO and n * k <= _FEW_PLACES
    # Of wide graphs prices prove more, where they say anything.
    small = k <= (_FEW_BLOCKS if narrow else _TWO) and n * k <= _SMALL
    tried = large and n * k <= _TRIED
    row = (n + 2 * instance.graph.m) * _ROW_SECONDS
    tight = _is_tight(instance)
    searching = search_by("portfolio", _SHORT_SEARCH if few else 0.2 if tight else 0.1)
    guessed = _MOST_GUESSED * min(1.0, max(n, _FEW_NODES) / _MANY_GUESSED) ** 3
    by_sweeps = proof(PRICED, 0.3, priced)

    def late(best: Result, controls: Controls) -> Result | None:
        return by_sweeps.run(best, controls) if prices.sweeps(reduced) else None

    possible = [
        # Moves find much there that slices of orders do not.
        (tight, searching),
        (tight, proof(LEVELS, 0.2)),
        (promising, ideals),
        (n <= MOST_PAIRED and k == _TWO, proof(BISECTION, 0.8)),
        (small and not few, proof("exact", 0.4, least=k * row)),
        (not tight, searching),
        (n <= MOST_PAIRED and k > _TWO, proof(BISECTION, 0.05)),
        (promising, replace(ideals, behind=ideals)),
        (n <= MOST_PAIRED, pigeonhole),
        (listed and not promising, replace(ideals, share=0.1)),
        (tried, proof("exact+all", 0.05 if k > _TWO else 1.0, least=k * row)),
        (swept, by_sweeps),
        (promising and other and n <= MOST_PAIRED, replace(by_sweeps, run=late)),
        (other and n <= MOST_PAIRED, proof(PRICED_QUICK, guessed, _with(PRICED_QUICK, QuickPrices()))),
        (few, replace(proof("exact+all", _TO_ITS_END, least=k * row), once=True)),
        (large and other, proof("coarse-2+all", 0.6, least=_TWO * row)),
        (other and n <= _MOST_PRICED_NODES, proof(PRICED, 0.7 if k <= _MOST_BLOCKS else 1.0, priced)),
        (not large and k > _TWO, proof("coarse-2+all", 1.0, least=_TWO * row)),
        (not (tried or few) and k <= _MOST_BLOCKS, proof("exact+all", 1.0, least=k * row)),
    ]
    return [method for suits, method in possible if suits]


def _is_tight(instance: Instance) -> bool:
    """Whether memory matters: one device would not hold all."""
    return instance.limits_memory and not one_block(instance).fits


def _search(
    instance: Instance, name: str, rng: np.random.Generator, share: float, moves: int | None
) -> PartitionMethod:
    """A search that starts from the best partition and ends at the best bound, or after `moves` moves."""

    def run(best: Result, controls: Controls) -> Result:
        target = None if best.bound is None else best.bound.value
        deadline = controls.deadline if moves is None else replace(controls.deadline, end=math.inf)
        return search(instance, name, rng, Limits(deadline, moves, target), start=best.partition)

    return Method(name, run, share, counted=moves is not None or name == "kahn")


def _proof(instance: Instance, model: Model, name: str, share: float, least: float) -> PartitionMethod:
    """A method that solves a model from the best partition; without a partition, the model as published."""
    by_solver, published = isinstance(model, Formulation), name.partition("+")[0]

    def run(best: Result, controls: Controls) -> Result:
        able = published if best.partition is None and by_solver else model
        return solve(
            instance, able, controls.options, start=best.partition, lower=controls.lower, on_progress=controls.report
        )

    counted = name in ("simple", "pinned", LEVELS, "pigeonhole", IDEALS)
    return Method(name, run, share, counted=counted, exact=tells_of_question(model), solver=by_solver, least=least)


def _with(name: str, run: Callable[[Partition, Controls], Result]) -> Model:
    """The algorithm of this name, with `run` as its function, which keeps state between its turns."""
    model = find_model(name)
    assert isinstance(model, Algorithm)
    return replace(model, run=run)


def _timeless(method: PartitionMethod) -> PartitionMethod:
    return replace(method, timeless=True)


# Search and proofs in two processes that exchange results through this one.


# Part of the time left for the first turn of the search; each one is twice as long.
_FIRST = 0.02
# Seconds between looks at Ctrl-C, and those that a process has to end by itself: its solver's program comes first.
_HEARTBEAT, _GRACE = 0.05, GRACE + 2.0
# Linux ends a process with the one that began it.
_PR_SET_PDEATHSIG = 1


def can_split() -> bool:
    """Whether this process can fork safely, which only holds on Linux."""
    return sys.platform == "linux" and not multiprocessing.current_process().daemon


def certify_in_two_processes(loop: Loop[Instance, Partition], methods: Methods) -> None:
    """Continue with a process for searches and a process for proofs, until time is up or the answer is proved.

    The search begins each turn from the best partition and stops at the best bound; each proof begins with both. The
    search has one thread, the proofs the others.

    Raises
    ------
    Exception
        The error of a process that fails.
    """
    if loop.is_over():
        return
    forget_threads()
    opening, short, turns = (
        [method for method in group if method.name not in HEURISTICS]
        for group in (methods.opening, methods.short, methods.turns)
    )
    search = next(method for method in methods.turns if method.name == "portfolio")
    loop.clocked = True
    _Listener(loop).run([Methods([], opening, short, turns), Methods([], [], [], [replace(search, share=_FIRST)])])


class _Question:
    """Request from the other process for the best results so far."""


@dataclass
class _Listener:
    """Receiver of the results of both processes, which also answers their requests."""

    loop: Loop[Instance, Partition]
    used: dict[Connection, float] = field(default_factory=dict)  # processor seconds of each process so far
    began: dict[str, float] = field(default_factory=dict)  # when the turn of each method at work began

    def run(self, plans: Sequence[Methods]) -> None:
        """Run the methods of each plan in a process of its own."""
        context, processes = multiprocessing.get_context("fork"), dict[Connection, BaseProcess]()
        try:
            for methods in plans:
                receiver, sender = context.Pipe()
                arguments = (self.loop, methods, sender, (*processes, receiver), os.getpid())
                process: BaseProcess = context.Process(target=_work, args=arguments)  # methods may fork
                process.start()
                processes[receiver] = process
                sender.close()
            self._listen(processes)
        finally:
            for line, process in processes.items():
                line.close()  # a process that waits for an answer gets an error
                process.terminate()
            until = time.monotonic() + _GRACE
            for process in processes.values():
                process.join(max(0.0, until - time.monotonic()))
                process.kill()
                process.join()
            self.loop.recorder.beside = 0.0  # they count as children now

    def _listen(self, processes: Mapping[Connection, BaseProcess]) -> None:
        interrupted, until, lines = self.loop.deadline.interrupted, math.inf, list(processes)
        while lines and time.monotonic() < until:
            if interrupted.is_set() and until == math.inf:
                until = time.monotonic() + _GRACE
                for process in processes.values():
                    process.terminate()
            for line in wait(lines, _HEARTBEAT):
                assert isinstance(line, Connection)
                try:
                    message = line.recv()
                except (EOFError, OSError):
                    lines.remove(line)
                    if until == math.inf:
                        self._tell_of_death(processes[line])
                    continue
                self._hear(message, line)
                if isinstance(message, Turn) and until == math.inf and self.loop.is_done:
                    return

    def _tell_of_death(self, process: BaseProcess) -> None:
        """Report a process that died without a message."""
        process.join(_GRACE)
        if process.exitcode:
            words = f"A process at work ended too early (exit code {process.exitcode}), and the other went on alone"
            self.loop.on_fault(SolverNotAvailableError(f"{words}; give more memory, or {said('threads', 1)}."))

    def _hear(self, message: Any, line: Connection) -> None:
        loop = self.loop
        if isinstance(message, _Question):
            with suppress(OSError):
                line.send(loop.best)
        elif isinstance(message, Result):
            loop.answers.append(_ours(message, loop.instance))
            loop.drop_refuted_bounds()
        elif isinstance(message, Turn):
            began = self.began.pop(message.method, max(0.0, loop.recorder.watch.passed - message.seconds))
            loop.end_turn(message.method, message.seconds, began)
        elif isinstance(message, float):
            self.used[line] = message
            loop.recorder.beside = sum(self.used.values())
        elif isinstance(message, Progress):
            began = self.began.setdefault(message.case, loop.recorder.watch.passed)
            loop.recorder.note(message.case, message.incumbent, message.bound, began, end=False)
            loop.on_progress(message)
        elif isinstance(message, SolverNotAvailableError):
            loop.on_fault(message)
        elif isinstance(message, str):
            loop.note(message)
        else:
            raise message


def _work(
    loop: Loop[Instance, Partition],
    methods: Methods,
    line: Connection,
    others: Sequence[Connection],
    parent: int,
) -> None:
    """Run one part of the certification in a forked process, and send all results."""
    for other in others:
        other.close()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    interrupted = loop.deadline.interrupted
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who listens has heard it too
    signal.signal(signal.SIGTERM, lambda number, frame: interrupted.set())
    begin = processor_seconds()

    def send(message: Progress | Turn) -> None:
        line.send(processor_seconds() - begin)
        line.send(message)

    local = replace(
        loop,
        options=replace(loop.options, threads=max(1, loop.options.threads - 1)),
        on_progress=send,
        on_fault=lambda fault: line.send(_portable(fault)),
        on_step=send,
        on_answer=line.send,
        on_note=line.send,
        before_step=lambda: _ask(line, local.instance, local.answers),
    )
    try:
        if os.getppid() == parent:
            local.steps(methods.opening)
            local.short_turns(methods.short)
            local.turns(methods.turns)
    except (BrokenPipeError, EOFError, KeyboardInterrupt):
        pass  # nobody listens any more
    except Exception as error:
        with suppress(OSError):
            line.send(_portable(error))
    finally:
        end_programs()
        line.close()
        os._exit(0)


def _ask(line: Connection, instance: Instance, answers: list[Result]) -> None:
    """Take over the results of the other process if they are better."""
    line.send(_Question())
    best: Result = line.recv()
    incumbent = min((answer.cost for answer in answers if answer.cost is not None), default=math.inf)
    bounds = [answer.bound for answer in answers if answer.bound is not None and answer.bound.proved]
    proved = max((bound.value for bound in bounds), default=0.0)
    better = best.partition is not None and best.partition.bottleneck < incumbent
    more = best.bound is not None and best.bound.value > proved
    if better or more:
        answers.append(replace(_ours(best, instance), interrupted=False))


def _ours(result: Result, instance: Instance) -> Result:
    """Attach a received result to the local instance, in place of a copy of it."""
    return replace(result, instance=instance, answer=result.partition and result.partition.under(instance))


def _portable(error: Exception) -> Exception:
    """An error with the same message that can be sent between processes."""
    plain = SolverNotAvailableError(str(error)) if isinstance(error, SolverNotAvailableError) else error
    try:
        pickle.loads(pickle.dumps(plain))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return plain
