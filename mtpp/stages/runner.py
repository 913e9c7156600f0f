"""Pipelines of stages: a process each, pinned to a core; tensors pass through bounded queues in shared memory."""

from __future__ import annotations

import errno
import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from instances.deadline import Deadline
from instances.errors import InputError
from instances.system.fresh_python import module_command
from instances.system.programs import signal_name
from mtpp.stages import stage_process
from mtpp.stages.records import Received, Sent
from mtpp.stages.shared_memory import Layout, new_memory
from mtpp.stages.stage_process import GONE

__all__ = ["Pipeline", "StageError", "StageJob"]

# Seconds in which a stage says what was wrong, after a neighbour of it has ended.
_GRACE = 1.0
# Seconds between looks whether stages go on.
_LOOK = 0.5
# Seconds that a process may take to start and to load its model, beside the timeout.
_LOADING = 30.0


class StageError(Exception):
    """A stage cannot go on; the message is one line that names it."""


@dataclass(frozen=True)
class StageJob:
    """Task of the process of one stage."""

    label: str  # name in messages
    inputs: tuple[Received, ...]
    outputs: tuple[Sent, ...]
    model: Path | None = None  # the ONNX file to run; None copies tensors, to measure links
    folder: Path | None = None  # where its weights lie, if not beside it
    memory_limit: int | None = None  # bytes that it may take
    threads: int = 1  # of onnxruntime; with several it is pinned to no core

    def document(self) -> dict[str, Any]:
        """Message about the job to its process."""
        return {
            "kind": "copy" if self.model is None else "session",
            "model": str(self.model),
            "folder": str(self.folder or (self.model and self.model.parent)),
            "memory_limit": self.memory_limit,
            "threads": self.threads,
        }


class Pipeline:
    """Processes of stages, from the first to the last request.

    Use it as a context: at the end no process is left, and no shared memory. It is an `InputError` on Windows.

    Parameters
    ----------
    stages : sequence of StageJob
    queue : int
        Requests that wait between two neighbours, at least 1.
    samples : int
        Inputs to be had; requests take them in turns.
    requests : int
        The most that run at once.
    timeout : float
        Seconds without any progress after which a stage is said to hang.
    fusion : bool
        Whether onnxruntime may fuse operators.
    """

    def __init__(
        self,
        stages: Sequence[StageJob],
        *,
        queue: int = 2,
        samples: int = 1,
        requests: int = 200,
        timeout: float = 60.0,
        fusion: bool = False,
    ) -> None:
        hops = [i - r.sender for i, stage in enumerate(stages) for r in stage.inputs if r.sender is not None]
        self.stages, self.requests = stages, requests
        self.slots = queue + max(hops, default=1) - 1  # a tensor that skips stages waits for those in between
        tensors = [(stage.inputs, stage.outputs) for stage in stages]
        self.layout = Layout(tensors, slots=self.slots, samples=samples, requests=requests)
        self.timeout, self.fusion = timeout, fusion
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self.cores = [cores[i % len(cores)] if cores and job.threads == 1 else None for i, job in enumerate(stages)]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._complaints: list[IO[bytes]] = []

    def __enter__(self) -> Pipeline:
        if sys.platform == "win32":
            raise InputError(
                "Stages cannot run on Windows: its processes do not inherit pipes and memory; run them on Linux, macOS "
                "or WSL."
            )
        self.memory = new_memory(self.layout.bytes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(BrokenPipeError):  # what was not heard
                        stream.close()
        for file in self._complaints:
            file.close()
        self.memory.close()

    @property
    def processes(self) -> list[int]:
        """Ids of the processes, one a stage, once they are started."""
        return [process.pid for process in self._processes]

    def start(self) -> None:
        """Start the processes, and wait until all are ready.

        Raises
        ------
        StageError
            If one is not.
        """
        waits: list[list[int]] = [[] for _ in self.stages]
        tells: list[list[int]] = [[] for _ in self.stages]
        pairs = sorted({(r.sender, i) for i, s in enumerate(self.stages) for r in s.inputs if r.sender is not None})
        try:
            for sender, reader in pairs:
                for waiting, telling in ((reader, sender), (sender, reader)):  # that a tensor is there, that it is read
                    wait, tell = os.pipe()
                    waits[waiting].append(wait)
                    tells[telling].append(tell)
                os.write(tell, b"+" * self.slots)
            for number in range(len(self.stages)):
                self._start(number, waits[number], tells[number])
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            raise StageError(
                f"{len(self.stages)} stages with {len(pairs)} links need more open files than are allowed here; allow "
                "more (ulimit -n), or split into fewer stages."
            ) from None
        finally:
            for pipe in (pipe for pipes in (*waits, *tells) for pipe in pipes):
                os.close(pipe)
        self._await("ready", self.timeout + _LOADING)

    def run(self, requests: int) -> NDArray[np.float64]:
        """Let all stages work on so many requests, as fast as they can.

        Returns
        -------
        (stages, requests, 3) floats
            When each began and ended with each request by `CLOCK`, and the processor's seconds in between.

        Raises
        ------
        StageError
            If one dies, hangs or fails.
        """
        events = [self.memory.events(offset, requests) for offset in self.layout.events]
        for rows in events:
            rows[:] = 0
        for process in self._processes:
            self._send(process, {"run": requests})
        self._await("done", self.timeout, events)
        return np.array(events)

    def _start(self, number: int, waits: list[int], tells: list[int]) -> None:
        stage = self.stages[number]
        job = {
            **stage.document(),
            "inputs": [self.layout.source(received).document() for received in stage.inputs],
            "outputs": [self.layout.made[number, sent.tensor.name].document() for sent in stage.outputs],
            "fusion": self.fusion,
            "core": self.cores[number],
            "descriptor": self.memory.descriptor,
            "bytes": self.layout.bytes,
            "events": self.layout.events[number],
            "requests": self.requests,
            "waits": waits,
            "tells": tells,
        }
        environment = module_command("")[1]
        self._complaints.append(tempfile.TemporaryFile())  # noqa: SIM115  closed with the pipeline
        process = subprocess.Popen(
            [sys.executable, "-P", stage_process.__file__],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints[-1],
            pass_fds=(self.memory.descriptor, *waits, *tells),
        )
        self._processes.append(process)
        self._send(process, job)

    @staticmethod
    def _send(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has died; its last message is read later
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()

    def _await(self, word: str, timeout: float, events: Sequence[NDArray[np.float64]] = ()) -> None:
        """Wait until every stage has sent `word`; `timeout` [s] starts again whenever a stage makes progress."""
        with selectors.DefaultSelector() as selector:
            for number, process in enumerate(self._processes):
                assert process.stdout is not None
                selector.register(process.stdout, selectors.EVENT_READ, number)
            deadline, progress = Deadline.after(timeout), -1
            while selector.get_map():
                for key, _ in selector.select(min(_LOOK, deadline.left)):
                    message = self._next_message(key.data)
                    if word not in message:
                        self._fail(key.data, message)
                    selector.unregister(key.fileobj)
                    deadline = Deadline.after(timeout)
                done = sum(int(np.count_nonzero(rows[:, 1])) for rows in events)
                if done > progress:
                    progress, deadline = done, Deadline.after(timeout)
                if deadline.passed:
                    raise StageError(self._hanging([key.data for key in selector.get_map().values()], events))

    def _next_message(self, number: int) -> dict[str, Any]:
        """The next message of a stage; empty if the stage has ended."""
        stream = self._processes[number].stdout
        assert stream is not None
        line = stream.readline()
        return json.loads(line) if line else {}

    def _last_message(self, number: int) -> dict[str, Any]:
        """The last message of a stage that has ended; empty if it left none."""
        last: dict[str, Any] = {}
        while message := self._next_message(number):
            last = message
        return last

    def _fail(self, number: int, message: dict[str, Any]) -> None:
        """Raise the error of the stage that failed first; stages that lost their neighbour fail later."""
        deadline = Deadline.after(_GRACE)
        if "error" not in message and self._code(number, deadline) == GONE:
            codes = {i: self._code(i, deadline) for i in range(len(self._processes))}
            number = next((i for i, code in codes.items() if code not in (GONE, None)), number)
            message = self._last_message(number)
        raise StageError(f"{self.stages[number].label}: {message.get('error') or self._death(number)}.")

    def _code(self, number: int, deadline: Deadline) -> int | None:
        try:
            return self._processes[number].wait(deadline.left)
        except subprocess.TimeoutExpired:
            return None

    def _death(self, number: int) -> str:
        code = self._processes[number].poll()
        if code is not None and code < 0:
            name = signal_name(-code)
            return f"its process was ended by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")
        self._complaints[number].seek(0)
        lines = self._complaints[number].read().decode(errors="replace").strip().splitlines()
        return f"its process died{f' ({lines[-1][:200]})' if lines else ''}"

    def _hanging(self, open_stages: Sequence[int], events: Sequence[NDArray[np.float64]]) -> str:
        """Message about the stage that computes for the longest time, as the others wait for it."""
        begun = {i: events[i][:, 0].max() for i in open_stages if events and (events[i][:, 0] > events[i][:, 1]).any()}
        number = min(begun, key=lambda i: begun[i]) if begun else min(open_stages)
        what = "did nothing" if events else "did not get ready"
        return f"{self.stages[number].label}: it {what} within {self.timeout:g} s and was stopped."
