"""Workers for jobs: processes of this machine, or a cluster.

A worker uses one thread for matrices, however many workers there are: sums of several threads may round in another way.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from instances import InputError
from instances.errors import WordError, extra, word
from instances.system.programs import end_programs

__all__ = ["Workers", "cluster_workers", "is_worker", "local_workers", "this_process", "workers_at"]

_MOST_JOBS = 256
#: Variables that NumPy and PyTorch read when they start; a worker of dask has them already.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Workers:
    """Executor of jobs."""

    executor: Callable[[], Executor]  # called again when a dying process has broken one
    width: int | None = None  # how many jobs to hand over at a time; all by default


def workers_at(scheduler: str | None, jobs: int) -> AbstractContextManager[Workers]:
    """The workers of a cluster if its scheduler is named, otherwise `jobs` local ones."""
    return local_workers(jobs) if scheduler is None else cluster_workers(scheduler)


def is_worker() -> bool:
    """Whether this process was started by another one for its jobs."""
    return multiprocessing.parent_process() is not None


class _HereAndNow(Executor):
    """Runs what it is given before it returns; Ctrl-C passes through."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextmanager
def this_process() -> Iterator[Workers]:
    """One job after the other in the process that calls: a script needs no guard around that."""
    yield Workers(_HereAndNow, 1)


@contextmanager
def local_workers(jobs: int) -> Iterator[Workers]:
    """`jobs` spawned processes, so that a crashing solver takes no other run with it.

    Raises
    ------
    InputError
        If there are too few or too many.
    """
    if not 1 <= jobs <= _MOST_JOBS:
        raise WordError("jobs", jobs, f"use from 1 to {_MOST_JOBS} processes.")
    before = set(multiprocessing.active_children())

    def executor() -> Executor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(jobs, mp_context=context, initializer=_prepare_worker)

    try:
        with _one_thread():
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
        If dask is not installed, there is no scheduler at `address`, or a worker runs several jobs in one process,
        which solvers do not survive.
    """
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            f"{word('scheduler')} needs dask.distributed; install the extra: {extra('cluster')}."
        ) from None
    try:
        client = Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise WordError(
            "scheduler", address, f"no scheduler answers there ({type(error).__name__}); check the address."
        ) from None
    with client:
        if any(threads > 1 for threads in client.nthreads().values()):
            raise WordError("scheduler", address, "a worker has several threads; start workers with --nthreads 1.")
        yield Workers(client.get_executor)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let processes that start meanwhile use one thread."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _prepare_worker() -> None:
    """End a worker at once at Ctrl-C, and when its parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        end_programs()
        os._exit(1)
