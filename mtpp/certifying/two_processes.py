"""Search and proofs in two processes that exchange results through this one."""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from heuristics import HEURISTICS
from instances import Instance, Partition, Result
from instances.deadline import processor_seconds
from instances.errors import said
from instances.system.processes import GRACE, end_programs
from mtpp.certifying.candidates import Methods
from mtpp.certifying.loop import Loop, Turn
from mtpp_models import Progress, SolverNotAvailableError
from mtpp_models.solvers.highs import forget_threads

# Part of the time left for the first turn of the search; each one is twice as long.
_FIRST = 0.02
# Seconds between looks at Ctrl-C, and those that a process has to end by itself: its solver's program comes first.
_HEARTBEAT, _GRACE = 0.05, GRACE + 2.0
# Linux ends a process with the one that began it.
_PR_SET_PDEATHSIG = 1


def can_split() -> bool:
    """Whether this process can become several: elsewhere than on Linux, copies of it may hang."""
    return sys.platform == "linux" and not multiprocessing.current_process().daemon


def certify_in_two_processes(loop: Loop[Instance, Partition], methods: Methods) -> None:
    """Continue with one process that searches and one that proves, until the time is up or nothing is left to do.

    The search begins each turn from the best partition and stops at the best bound; each proof begins with both. The
    proofs have the other threads.

    Raises
    ------
    Exception
        What one of them raises.
    """
    if loop.is_over():
        return
    forget_threads()
    opening, short, turns = (
        [method for method in some if method.name not in HEURISTICS]
        for some in (methods.opening, methods.short, methods.turns)
    )
    search = next(method for method in methods.turns if method.name == "portfolio")
    loop.clocked = True
    _Listener(loop).run([Methods([], opening, short, turns), Methods([], [], [], [replace(search, share=_FIRST)])])


class _Question:
    """Request for the best results so far."""


@dataclass
class _Listener:
    """Collector of the results of both processes, which also answers their requests."""

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
                process: BaseProcess = context.Process(target=_work, args=arguments, daemon=True)
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
        """Report a process that died: one that ends by itself says so first, and has the exit code 0."""
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
    """Run one part of the certification in a forked process; send all results. Close the other processes' pipes."""
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
    """Add the results of the other process, if they are better."""
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
    """Rebind a received result to the local instance; it came with a copy of the whole graph."""
    return replace(result, instance=instance, answer=result.partition and result.partition.under(instance))


def _portable(error: Exception) -> Exception:
    """An error that can be sent, with the same words."""
    plain = SolverNotAvailableError(str(error)) if isinstance(error, SolverNotAvailableError) else error
    try:
        pickle.loads(pickle.dumps(plain))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return plain
