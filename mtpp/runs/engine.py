"""Engine: open jobs, their order, their packing and their progress."""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, fields
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from instances import ComputationGraph, Instance
from instances.errors import printable
from instances.system.processes import catch_interrupt
from mtpp.runs.job import OLD_SCHEMA, Job, Run, RunLog, remarks
from mtpp.runs.user_methods import UserMethod
from mtpp.runs.workers import AHEAD, Workers
from mtpp.text.tables import CountingBar

# Progress of a table on stderr: a bar on a terminal, now and then a plain line elsewhere; in a notebook one line.


#: Seconds between two changes of the line in a notebook, which comes when the first have passed.
_NOTEBOOK_SECONDS = 2.0


class Bar(Protocol):
    """Interface of progress bars, which are told of each finished run."""

    def advance(self, run: Run) -> None:
        """Count a run."""


def progress_bar(total: int) -> AbstractContextManager[Bar]:
    """Listener that shows the progress of a call from Python: a bar on a terminal, a line in a notebook, or nothing."""
    if "IPython" in sys.modules and hasattr(sys.modules["IPython"].get_ipython(), "kernel"):
        return NotebookLine(total)
    return RunBar(total) if sys.stderr.isatty() else _Silence()


class _Silence:
    def advance(self, run: Run) -> None:
        """Ignore the run."""

    def __enter__(self) -> _Silence:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class NotebookLine(_Silence):
    """A progress line below a notebook cell; none for short calls."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._failed = total, 0, 0
        self._begin = self._shown = time.monotonic()
        self._handle: Any = None

    def advance(self, run: Run) -> None:
        """Count a run."""
        self._done += 1
        self._failed += run["error"] is not None
        now = time.monotonic()
        if now - self._shown < _NOTEBOOK_SECONDS and (self._handle is None or self._done < self._total):
            return
        self._shown = now
        remaining = (now - self._begin) / self._done * (self._total - self._done)
        failed = f", {self._failed} failed" if self._failed else ""
        text = {"text/plain": f"{self._done} of {self._total} runs, about {remaining:.0f} s left{failed}"}
        if self._handle is None:
            self._handle = sys.modules["IPython"].display.display(text, raw=True, display_id=True)
        else:
            self._handle.update(text, raw=True)


class RunBar(CountingBar):
    """Progress bar over `total` runs."""

    ends_with_line = True

    def __init__(self, total: int, *, silent: bool = False) -> None:
        super().__init__(total, "runs", silent=silent)

    def advance(self, run: Run) -> None:
        """Count a run; print a failed or doubtful one at once."""
        label = printable(f"{run['instance']}, k = {run['k']}, {run['method']}")
        if run["error"] is not None:
            reason = printable(run["error"].splitlines()[0])
            self.console.print(f"failed: {label}: {reason}", markup=False, soft_wrap=True)
        for remark in remarks(run):
            self.console.print(f"{remark}: {label}", markup=False, soft_wrap=True)
        self.count(label)


# Jobs as bytes for other processes: graphs and files of callers stay out of them, and each process gets one once.
#
# In their place a job holds their hashes. A process that does not have one says so, and the job comes again with it; so
# nothing has to be known of who has what, nor does it get lost with a worker.


#: What many jobs share.
Heavy = ComputationGraph | UserMethod

#: Graphs and files that a process keeps.
_MOST = 64
#: Arguments of an instance; what it has computed stays at home.
_ASKED = tuple(field.name for field in fields(Instance))


@dataclass(frozen=True)
class Parcel:
    """A pickled job with the runs that it starts from."""

    job: bytes
    heavy: dict[str, Heavy]  # graphs and methods that the job names by their hashes

    def luggage(self, hashes: Sequence[str]) -> dict[str, bytes]:
        """Pickled graphs and methods by hash, to send with a job to a worker that lacks them."""
        return {name: pickle.dumps(self.heavy[name]) for name in hashes}


@dataclass(frozen=True)
class Missing:
    """Outcome of a job that refers to an object that the process does not have."""


@dataclass(frozen=True)
class Fault:
    """Outcome of a job that could not start."""

    reason: str


def pack(job: Job, start: Sequence[Run]) -> Parcel:
    """Pickle a job and the runs that it starts from; graphs and methods are pickled separately.

    Raises
    ------
    Exception
        If the job or a run cannot be pickled.
    """
    stream = io.BytesIO()
    pickler = _Pickler(stream)
    pickler.dump((job, start))
    return Parcel(stream.getvalue(), pickler.heavy)


def work(parcel: bytes, luggage: dict[str, bytes]) -> Run | Missing | Fault:
    """Do a pickled job in a worker process; `luggage` holds pickled graphs and methods that the process may lack."""
    try:
        for name, data in luggage.items():
            _KEPT[name] = pickle.loads(data)
        try:
            job, start = _Unpickler(io.BytesIO(parcel)).load()
        except _MissingError:
            return Missing()
        finally:
            while len(_KEPT) > _MOST:
                _KEPT.popitem(last=False)
        refusal = job.refusal()
    except Exception as error:
        return Fault(f"{type(error).__name__}: {error}")
    if refusal is not None:
        return Fault(refusal)
    run: Run = job.run(start)
    return run


_KEPT: OrderedDict[str, Heavy] = OrderedDict()
_HASHES: WeakKeyDictionary[Heavy, str] = WeakKeyDictionary()


class _MissingError(Exception):
    """An object with this hash is not in this process."""


class _Pickler(pickle.Pickler):
    """Pickler that replaces graphs and methods by their hashes."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, pickle.HIGHEST_PROTOCOL)
        self.heavy: dict[str, Heavy] = {}

    def persistent_id(self, thing: Any) -> str | None:
        if type(thing) not in (ComputationGraph, UserMethod):
            return None
        name = _hash(thing)
        self.heavy[name] = thing
        return name

    def reducer_override(self, thing: Any) -> Any:
        if type(thing) is not Instance:
            return NotImplemented
        return _instance, tuple(getattr(thing, name) for name in _ASKED)


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, name: Any) -> Heavy:
        if name not in _KEPT:
            raise _MissingError(name)
        _KEPT.move_to_end(name)
        return _KEPT[name]


def _instance(*values: Any) -> Instance:
    return Instance(**dict(zip(_ASKED, values, strict=True)))


def _hash(thing: Heavy) -> str:
    """Hash of all fields of a graph, names included, or of the code of a method."""
    if thing not in _HASHES:
        content = {field.name: getattr(thing, field.name) for field in fields(thing) if field.name != "call"}
        _HASHES[thing] = hashlib.sha256(pickle.dumps(content)).hexdigest()
    return _HASHES[thing]


# Engine of all studies: distributes jobs to processes or a cluster, and records each answer once.
#
# A job starts when those that it waits for are done, and gets their runs, so an answer does not depend on how many jobs
# run at the same time. This process alone writes. It hands over as many jobs as keep the workers busy, and holds the
# rest; a job that is lost on its way, with a worker or a scheduler, is handed over again.


#: Seconds between two looks at whether Ctrl-C was pressed.
_HEARTBEAT = 0.2
#: How often workers may be lost with a job before that is its own fault.
_MOST_TRIES = 3


def unfinished(jobs: Iterable[Job], log: RunLog) -> list[Job]:
    """Distinct jobs without a run in `log`."""
    open_jobs = []
    for job in {job.key: job for job in jobs}.values():
        run = log.runs.get(job.key)
        if not job.is_done(run) and log.accept_old:
            old = log.runs.get(job.old_key or "")
            if old is not None and old.get("schema") == OLD_SCHEMA and (run := job.adopted(old)) is not None:
                log.runs[job.key] = run
        if not job.is_done(run):
            open_jobs.append(job)
    return open_jobs


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
    WorkersLostError
        If the workers are gone for good; the same holds.
    """
    wanted = {job.key: job for job in jobs}
    # An exception from the signal itself could be raised, and lost, in whatever runs at that moment.
    with catch_interrupt() as interrupted:
        loop = _Loop(unfinished(wanted.values(), log), log, workers, on_run, interrupted)
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
    """State of all jobs: waiting, ready, running, done.

    Jobs that run when a process of a pool dies are suspects. They then run one at a time. A job whose process dies
    again is recorded as failed.
    """

    def __init__(
        self, jobs: Iterable[Job], log: RunLog, workers: Workers, on_run: Callable[[Run], None], interrupted: Event
    ) -> None:
        self._log, self._workers, self._on_run, self._interrupted = log, workers, on_run, interrupted
        #: The jobs that are not done, by key.
        self.open = {job.key: job for job in jobs}
        # Of each job how many of those that it waits for are open, and of each of those who waits for it.
        self._before = {key: len(self.open.keys() & set(job.waits_for)) for key, job in self.open.items()}
        self._after: dict[str, list[str]] = {}
        for key, job in self.open.items():
            for first in self.open.keys() & set(job.waits_for):
                self._after.setdefault(first, []).append(key)
        self._ready = deque(job for key, job in self.open.items() if not self._before[key])
        self._suspects: deque[Job] = deque()
        #: The suspect that runs alone.
        self._tried: Job | None = None
        self._running: dict[Future[Any], Job] = {}
        self._ended: SimpleQueue[Future[Any]] = SimpleQueue()
        self._tries: Counter[str] = Counter()
        # How often a graph was sent, by its hash, and jobs that met a worker without theirs.
        self._sent: Counter[str] = Counter()
        self._missed: set[str] = set()
        self._workers_now = 1
        self._pool = workers.executor()

    def hand_over(self) -> None:
        """Start jobs while there is room; suspects run alone."""
        try:
            if self._suspects and not self._running:
                self._tried = self._suspects[0]
                self._submit(self._suspects)
            width = self._workers.room()
            self._workers_now = max(1, width // AHEAD)
            room = width - len(self._running)
            while self._ready and room > 0 and not self._suspects and self._tried is None:
                self._submit(self._ready)
                room -= 1
        except BrokenExecutor:
            self._renew()

    def collect(self) -> None:
        """Wait a moment, then record finished jobs."""
        broken, patience = False, _HEARTBEAT
        while True:
            try:
                future = self._ended.get(timeout=patience) if patience else self._ended.get_nowait()
            except Empty:
                break
            patience = 0.0
            job = self._running.pop(future, None)
            if job is not None:  # else it belonged to a pool that broke
                broken |= self._take(job, future)
        if broken:
            self._renew()

    def stop(self) -> None:
        """Start no further jobs."""
        with suppress(Exception):  # a cluster may be gone
            for future in self._running:
                future.cancel()
            self._pool.shutdown(wait=not self._running)  # an idle worker ends by itself, and tidies up

    def _take(self, job: Job, future: Future[Any]) -> bool:
        """Record the outcome of a job; return whether the pool is broken."""
        try:
            outcome = future.result()
        except CancelledError:  # not by us: the scheduler was lost
            self._ready.append(job)
        except BrokenExecutor as error:
            if job is not self._tried or self._interrupted.is_set():
                self._suspects.append(job)
            else:
                self._fail(job, f"The process died while it worked on this run ({error})")
            return True
        except Exception as error:  # of the cluster; those of the job are in its run
            self._tries[job.key] += 1
            if self._tries[job.key] < _MOST_TRIES:
                self._ready.append(job)
            else:
                self._fail(job, f"Its workers were lost {_MOST_TRIES} times ({type(error).__name__}: {error})")
        else:
            if isinstance(outcome, Missing):
                self._missed.add(job.key)
                self._suspects.appendleft(job) if job is self._tried else self._ready.appendleft(job)
                self._tried = None
            elif isinstance(outcome, Fault):
                self._fail(job, outcome.reason)
            else:
                self._finish(job, outcome)
        return False

    def _submit(self, queue: deque[Job]) -> None:
        """Submit the first job of a queue; it stays in the queue if the pool is broken."""
        job = queue[0]
        start = job.chosen([self._log.runs[key] for key in job.waits_for if key in self._log.runs])
        future: Future[Any]
        if self._workers.in_this_process:
            future = self._pool.submit(job.run, start)
        else:
            try:
                parcel = pack(job, start)
                few = self._workers_now
                along = [name for name in parcel.heavy if self._sent[name] < few or job.key in self._missed]
                luggage = parcel.luggage(along)
            except Exception as error:
                queue.popleft()
                self._fail(job, f"It cannot be sent to another process ({type(error).__name__}: {error})")
                return
            future = self._pool.submit(work, parcel.job, luggage)
            self._sent.update(along)
        self._running[future] = job
        queue.popleft()
        future.add_done_callback(self._ended.put)

    def _fail(self, job: Job, reason: str) -> None:
        self._finish(job, job.failure(reason))

    def _finish(self, job: Job, run: Run) -> None:
        try:
            self._log.append(run)
        except (TypeError, ValueError) as error:
            run = job.failure(f"Its answer cannot be written ({type(error).__name__}: {error})")
            self._log.append(run)
        self._tried = None
        del self.open[job.key]
        for key in self._after.pop(job.key, ()):
            self._before[key] -= 1
            if not self._before[key]:
                self._ready.append(self.open[key])
        self._on_run(run)

    def _renew(self) -> None:
        """Replace a broken process pool; its running jobs become suspects."""
        self._suspects += self._running.values()
        self._running.clear()
        self._sent.clear()
        self._tried = None
        self._pool.shutdown(wait=False)
        self._pool = self._workers.executor()
