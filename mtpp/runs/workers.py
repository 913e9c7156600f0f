"""Workers for jobs: processes of this machine, or a cluster.

A worker uses one thread for matrices, however many workers there are: sums of several threads may round in another way.
"""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from instances import InputError
from instances.errors import WordError, extra, said, word
from instances.system.processes import end_programs

#: Environment variable of processes in which heuristics of callers run.
METHOD_PROCESS = "MTPP_METHOD_PROCESS"

#: Jobs that a worker is given at a time, so that it need not wait for the next.
AHEAD = 2

_MOST_JOBS = 256
#: Seconds between two looks at a cluster.
_BEAT = 0.2
#: Seconds to take leave of a cluster.
_CLOSING = 3.0
#: Loggers that tell of lost connections, the last one with a traceback of an answer that was on its way.
_OF_CONNECTIONS = ("distributed", "distributed.client", "tornado.application")
#: Variables that NumPy and PyTorch read when they start; a worker of dask has them already.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class WorkersLostError(Exception):
    """The cluster ended during work; finished runs are saved, and the same call makes the rest."""


@dataclass(frozen=True)
class Workers:
    """Executor of jobs."""

    executor: Callable[[], Executor]  # called again when a dying process has broken one
    width: int = AHEAD  # how many jobs to hand over at a time
    # Looks how many jobs the workers can be given at this moment, instead; raises `WorkersLostError`.
    look: Callable[[], int] | None = None
    in_this_process: bool = False  # so that jobs need not be sent

    def room(self) -> int:
        """Number of jobs to submit ahead so that no worker waits."""
        return self.width if self.look is None else self.look()


def workers_at(scheduler: str | None, jobs: int) -> AbstractContextManager[Workers]:
    """The workers of a scheduler's cluster or, without a scheduler, `jobs` local processes."""
    return local_workers(jobs) if scheduler is None else cluster_workers(scheduler)


def is_worker() -> bool:
    """Whether this process is a worker of another one."""
    return multiprocessing.parent_process() is not None or METHOD_PROCESS in os.environ


class _SerialExecutor(Executor):
    """An executor that runs each function at once; Ctrl-C passes through."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextmanager
def this_process() -> Iterator[Workers]:
    """Workers that run jobs one by one in this process, so that scripts need no main guard."""
    yield Workers(_SerialExecutor, 1, in_this_process=True)


@contextmanager
def local_workers(jobs: int) -> Iterator[Workers]:
    """`jobs` spawned processes, so that a crashing solver ends no other run.

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
            yield Workers(executor, AHEAD * jobs)
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
        raise InputError(f"{word('scheduler')} needs dask.distributed; install the extra: {extra('cluster')}") from None
    try:
        client = Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise WordError(
            "scheduler", address, f"no scheduler answers there ({type(error).__name__}); check the address."
        ) from None
    quiet = [logging.getLogger(name) for name in _OF_CONNECTIONS]
    levels = [logger.level for logger in quiet]
    try:
        for logger in quiet:
            logger.setLevel(logging.CRITICAL)  # what they say of lost connections is said below
        cluster = _Cluster(client, address)
        cluster.room()
        yield Workers(client.get_executor, look=cluster.room)
    finally:
        with suppress(Exception):
            client.close(timeout=_CLOSING)
        for logger, level in zip(quiet, levels, strict=True):
            logger.setLevel(level)


class _Cluster:
    """A scheduler with its present workers, which may change."""

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address = client, address
        self._looked, self._room = -math.inf, 0
        self._warned = False

    def room(self) -> int:
        """Number of jobs to submit ahead; 0 while the scheduler is unreachable.

        Raises
        ------
        WordError
            If a worker has several threads.
        WorkersLostError
            If the scheduler is gone.
        """
        status = self._client.status
        if status in ("closing", "closed"):
            raise WorkersLostError(
                f"{said('scheduler', self._address)}: lost; start the scheduler again and repeat the call, which goes "
                "on where this one stopped."
            )
        if status != "running":
            return 0
        if time.monotonic() - self._looked > _BEAT:
            self._room = AHEAD * self._threads()
            self._looked = time.monotonic()
        return self._room

    def _threads(self) -> int:
        try:
            threads = self._client.nthreads()
        except Exception:  # the connection is being lost, which its status will say
            return 0
        if any(count > 1 for count in threads.values()):
            why = "a worker has several threads; start workers with --nthreads 1."
            raise WordError("scheduler", self._address, why)
        if not threads and not self._warned:
            print(f"{said('scheduler', self._address)}: no worker is there yet; waiting for one.", file=sys.stderr)
        self._warned = not threads
        return len(threads)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Make processes that start meanwhile use a single thread."""
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
    """Make a worker end at once on Ctrl-C, and when its parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Pyomo makes a lock as it is imported, which with spawn has a name that a worker leaves behind when it is ended.
    if "fork" in multiprocessing.get_all_start_methods():
        multiprocessing.set_start_method("fork", force=True)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        end_programs()
        os._exit(1)
