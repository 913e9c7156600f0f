"""Engine of all studies: distributes jobs to processes or a cluster, and records each answer once.

A job starts when those that it waits for are done, and gets their runs, so an answer does not depend on how many jobs
run at the same time. This process alone writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from threading import Event

from instances.system.interrupts import catch_interrupt
from mtpp.runs.job import Job
from mtpp.runs.log import Run, RunLog
from mtpp.runs.workers import Workers

__all__ = ["run_jobs"]

#: Seconds between two looks at whether Ctrl-C was pressed.
_HEARTBEAT = 0.2


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
    # An exception from the signal itself could be raised, and lost, in whatever runs at that moment.
    with catch_interrupt() as interrupted:
        loop = _Loop(wanted.values(), log, workers, on_run, interrupted)
        try:
            while loop.open:
                if interrupted.is_set():
                    raise KeyboardInterrupt
                loop.hand_over()
                loop.collect()
        finally:
            loop.stop()
    return [log.runs[key] for key in wanted]


class _Loop:
    """Jobs on their way from waiting over ready and running to done.

    Jobs that run when a process dies are suspects. They then run one at a time. A job whose process dies again is
    recorded as failed.
    """

    def __init__(
        self, jobs: Iterable[Job], log: RunLog, workers: Workers, on_run: Callable[[Run], None], interrupted: Event
    ) -> None:
        self._log, self._workers, self._on_run, self._interrupted = log, workers, on_run, interrupted
        self._waiting = [job for job in jobs if not job.is_done(log.runs.get(job.key))]
        self._ready: deque[Job] = deque()
        self._suspects: deque[Job] = deque()
        #: The suspect that runs alone.
        self._tried: Job | None = None
        self._running: dict[Future[Run], Job] = {}
        self._pool = workers.executor()
        #: Keys of the jobs that are not done.
        self.open = {job.key for job in self._waiting}
        self._release()

    def hand_over(self) -> None:
        """Start jobs while there is room; a job that may have killed a worker runs alone."""
        try:
            if self._suspects and not self._running:
                self._tried = self._suspects[0]
                self._submit(self._suspects)
            while self._ready and not self._suspects and self._tried is None and self._has_room():
                self._submit(self._ready)
        except BrokenExecutor:
            self._renew()

    def collect(self) -> None:
        """Wait a moment, and write down what is done."""
        broken = False
        for future in wait(self._running, _HEARTBEAT, FIRST_COMPLETED).done:
            job = self._running.pop(future)
            try:
                run = future.result()
            except BrokenExecutor as error:
                broken = True
                if job is not self._tried or self._interrupted.is_set():
                    self._suspects.append(job)
                    continue
                run = job.record(error=f"The process died while it worked on this run ({error})")
            except Exception as error:
                run = job.record(error=f"{type(error).__name__}: {error}")
            self._finish(job, run)
        if broken:
            self._renew()

    def stop(self) -> None:
        """Start nothing more."""
        for future in self._running:
            future.cancel()
        self._pool.shutdown(wait=not self._running)  # an idle worker ends by itself, and tidies up

    def _has_room(self) -> bool:
        return self._workers.width is None or len(self._running) < self._workers.width

    def _submit(self, queue: deque[Job]) -> None:
        """Hand over the first job of a queue; it stays there if the pool is broken."""
        job = queue[0]
        start = [self._log.runs[key] for key in job.waits_for if key in self._log.runs]
        self._running[self._pool.submit(job.run, start)] = job
        queue.popleft()

    def _finish(self, job: Job, run: Run) -> None:
        self._log.append(run)
        self.open.discard(job.key)
        self._tried = None
        self._release()
        self._on_run(run)

    def _release(self) -> None:
        """Let the jobs start that wait for nothing any more."""
        still: list[Job] = []
        for job in self._waiting:
            (self._ready if self.open.isdisjoint(job.waits_for) else still).append(job)
        self._waiting = still

    def _renew(self) -> None:
        """Replace a broken process pool; its running jobs become suspects, which run one at a time."""
        self._suspects += self._running.values()
        self._running.clear()
        self._tried = None
        self._pool.shutdown(wait=False)
        self._pool = self._workers.executor()
