"""Spread jobs over processes or a cluster, and write down each answer once.

The bounds of an instance wait for its heuristics and start from the best of their partitions, so an answer
does not depend on how many jobs run at the same time. This process alone writes.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field

from experiments.runs.jobs import Job, Start, execute
from experiments.runs.log import Run, RunLog
from instances import InputError
from instances.interrupts import catch_interrupt
from mtpp_models.solvers.programs import end_programs

__all__ = ["Workers", "cluster_workers", "is_done", "local_workers", "run_jobs"]


_HEARTBEAT, _MOST_JOBS = 0.2, 256


@dataclass(frozen=True)
class Workers:
    """Where jobs run.

    Parameters
    ----------
    executor : callable
        Makes an executor; called again when a dying process has broken one.
    width : int, optional
        How many jobs to hand over at a time; all by default.
    """

    executor: Callable[[], Executor]
    width: int | None = None


@contextmanager
def local_workers(jobs: int) -> Iterator[Workers]:
    """`jobs` spawned processes, so that a crashing solver takes no other run with it."""
    if not 1 <= jobs <= _MOST_JOBS:
        raise InputError(f"--jobs {jobs}: use from 1 to {_MOST_JOBS} processes.")
    before = set(multiprocessing.active_children())

    def executor() -> Executor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(jobs, mp_context=context, initializer=_prepare_worker)

    try:
        yield Workers(executor, jobs)
    finally:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()  # which also ends the solver that it runs


@contextmanager
def cluster_workers(address: str) -> Iterator[Workers]:
    """The workers of a dask.distributed cluster.

    Raises
    ------
    InputError
        If dask is not installed, nobody answers at `address`, or a worker runs several jobs in one process,
        which solvers do not survive.
    """
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            "--scheduler needs dask.distributed; install mtpp with its extra: pip install mtpp[cluster]."
        ) from None
    try:
        client = Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise InputError(
            f"--scheduler {address}: no scheduler answers there ({type(error).__name__}); check the address."
        ) from None
    with client:
        if any(threads > 1 for threads in client.nthreads().values()):
            raise InputError(f"--scheduler {address}: a worker has several threads; start workers with --nthreads 1.")
        yield Workers(client.get_executor)


def run_jobs(
    jobs: Iterable[Job], log: RunLog, workers: Workers, on_run: Callable[[Run], None] = lambda run: None
) -> list[Run]:
    """Make the runs that `log` does not hold yet.

    Parameters
    ----------
    jobs : iterable of Job
    log : RunLog
        Receives each run when it is done. Runs that failed earlier are tried again.
    workers : Workers
    on_run : callable
        Called with each run that was made.

    Returns
    -------
    list of dict
        One run per different job, old and new, in the order of `jobs`; a failed one carries an error text.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C; the runs that are done are in `log`.
    """
    wanted = {job.key: job for job in jobs}
    state = _State(log, wanted)
    pool = workers.executor()
    running: dict[Future[Run], Job] = {}
    # An exception from the signal itself could be raised, and lost, in whatever runs at that moment.
    with catch_interrupt() as interrupted:
        try:
            while state.ready or state.suspects or running:
                if interrupted.is_set():
                    raise KeyboardInterrupt
                broken = False
                alone = bool(state.suspects)
                width = 1 if alone else workers.width
                while not broken and (job := state.next(len(running), width)):
                    try:
                        running[pool.submit(execute, job, state.start(job))] = job
                    except BrokenExecutor:
                        state.suspects.append(job)
                        broken = True
                finished = wait(running, _HEARTBEAT, FIRST_COMPLETED).done if running else set()
                for future in finished:
                    job = running.pop(future)
                    try:
                        run = future.result()
                    except BrokenExecutor as error:
                        broken = True
                        if not alone:
                            state.suspects.append(job)
                            continue
                        run = job.record(error=f"The process died while it worked on this run ({error})")
                    except Exception as error:
                        run = job.record(error=f"{type(error).__name__}: {error}")
                    log.append(run)
                    state.finish(job)
                    on_run(run)
                if broken:
                    state.suspects += running.values()
                    running.clear()
                    pool.shutdown(wait=False)
                    pool = workers.executor()
        finally:
            for future in running:
                future.cancel()
            pool.shutdown(wait=False)
    return [log.runs[key] for key in wanted]


def is_done(run: Run | None, job: Job) -> bool:
    """Whether a run of the file answers the job; one that failed, or lacks a field, is made again."""
    return run is not None and run.keys() >= job.record().keys() and run["error"] is None and _answers(run)


def _answers(run: Run) -> bool:
    return run["seconds"] is not None and (run["kind"] != "heuristic" or None not in (run["bottleneck"], run["block"]))


@dataclass
class _State:
    """Which jobs may start, and from which partition."""

    log: RunLog
    wanted: dict[str, Job]
    ready: list[Job] = field(default_factory=list)
    #: Jobs that were running when a process died; they run one at a time until the guilty one is found.
    suspects: list[Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        todo = [job for key, job in self.wanted.items() if not is_done(self.log.runs.get(key), job)]
        self.searches: dict[str, list[Job]] = {}
        for job in self.wanted.values():
            if job.is_search:
                self.searches.setdefault(job.instance.key, []).append(job)
        self.open = {job.key for job in todo}
        self.ready = [job for job in todo if self._may_start(job)]
        self.waiting = [job for job in todo if not self._may_start(job)]

    def next(self, running: int, width: int | None) -> Job | None:
        """A job to start now, if there is one."""
        queue = self.suspects or self.ready
        return queue.pop(0) if queue and (width is None or running < width) else None

    def start(self, job: Job) -> Start | None:
        """Best partition of the heuristics on the instance of a bound; the first one in a tie."""
        if job.is_search:
            return None
        found = [self.log.runs[search.key] for search in self.searches.get(job.instance.key, ())]
        best = min((run for run in found if run["error"] is None), key=lambda run: run["bottleneck"], default=None)
        return None if best is None else (best["block"], best["order"])

    def finish(self, job: Job) -> None:
        """Note that a job is done; bounds that waited for it may start."""
        self.open.discard(job.key)
        if job.is_search:
            self.ready += [other for other in self.waiting if self._may_start(other)]
            self.waiting = [other for other in self.waiting if not self._may_start(other)]

    def _may_start(self, job: Job) -> bool:
        searches = self.searches.get(job.instance.key, [])
        return job.is_search or not any(search.key in self.open for search in searches)


def _prepare_worker() -> None:
    """Leave at once at Ctrl-C, and when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        end_programs()
        os._exit(1)
