"""Runs of stages as processes that share memory."""

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
from instances.system.processes import module_command, signal_name
from mtpp.stages import stage_process
from mtpp.stages.manifest import ELEMENTS, Received, Sent, TensorRecord
from mtpp.stages.stage_process import EVENT_BYTES, GONE, Ring, SharedMemory

# Shared memory of the processes of a pipeline: rings of tensors, and times of all computations.
#
# It has no name, so nothing is left of it when the last process ends, however it ends.


# Where tensors begin [bytes].
_ALIGNED = 64


class Layout:
    """Layout of the shared memory of a pipeline.

    Attributes
    ----------
    given : dict of str to Ring
        Inputs of the whole model, a slot for each sample.
    made : dict of (int, str) to Ring
        Outputs of stages, by the number of the stage and the tensor's name.
    events : list of int
        Offset of the (requests, 3) floats of each stage [bytes]: start and end of each request, and processor seconds
        in between.
    bytes : int
    """

    def __init__(
        self,
        stages: Sequence[tuple[Sequence[Received], Sequence[Sent]]],
        *,
        slots: int,
        samples: int,
        requests: int,
    ) -> None:
        self.bytes = 0
        self.inputs: dict[str, Ring] = {}
        self.made: dict[tuple[int, str], Ring] = {}
        for number, (inputs, outputs) in enumerate(stages):
            for received in inputs:
                if received.sender is None and received.name not in self.inputs:
                    self.inputs[received.name] = self._ring(received, samples)
            for sent in outputs:
                self.made[number, sent.name] = self._ring(sent, slots)
        self.events = [self._room(requests * EVENT_BYTES) for _ in stages]

    def source(self, received: Received) -> Ring:
        """Ring buffer from which a stage reads an input."""
        name = received.name
        return self.inputs[name] if received.sender is None else self.made[received.sender, name]

    def _ring(self, tensor: TensorRecord, slots: int) -> Ring:
        stride = -(-max(tensor.bytes, 1) // _ALIGNED) * _ALIGNED
        return Ring(
            name=tensor.name,
            element=ELEMENTS[tensor.type][0],
            shape=tensor.shape,
            bytes=tensor.bytes,
            offset=self._room(stride * slots),
            stride=stride,
            slots=slots,
        )

    def _room(self, size: int) -> int:
        offset = self.bytes
        self.bytes += -(-size // _ALIGNED) * _ALIGNED
        return offset


def new_memory(size: int) -> SharedMemory:
    """New zeroed shared memory, without a file on Linux, else in a deleted one."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("mtpp")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, max(size, 1))
    return SharedMemory(descriptor, size)


def available_memory() -> int | None:
    """Bytes that processes can still allocate; None if the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


# Pipelines of stages: a process each, pinned to a core; tensors pass through bounded queues in shared memory.


# Seconds in which a stage says what was wrong, after a neighbour of it has ended.
_GRACE = 1.0
# Seconds between looks whether stages go on.
_LOOK = 0.5
# Seconds that a process may take to start and to load its model, besides the timeout.
_LOADING = 30.0


class StageError(Exception):
    """A stage cannot go on; the message is one line that names it."""


@dataclass(frozen=True)
class StageJob:
    """Task for the process of one stage."""

    label: str  # name in messages
    inputs: tuple[Received, ...]
    outputs: tuple[Sent, ...]
    model: Path | None = None  # the ONNX file to run; None copies tensors, to measure links
    folder: Path | None = None  # where its weights lie, if not beside it
    memory_limit: int | None = None  # bytes that it may take
    threads: int = 1  # of onnxruntime; with several it is pinned to no core
    card: int | None = None  # number of the graphics card that it runs on; None for the processor

    def document(self) -> dict[str, Any]:
        """The job as a message to its process."""
        return {
            "kind": "copy" if self.model is None else "session",
            "model": str(self.model),
            "folder": str(self.folder or (self.model and self.model.parent)),
            "memory_limit": self.memory_limit,
            "threads": self.threads,
            "card": self.card,
        }


class Pipeline:
    """Processes of all stages; a context manager that ends them.

    Use it as a context: at the end no process is left, and no shared memory. It is an `InputError` on Windows.

    Parameters
    ----------
    stages : sequence of StageJob
    queue : int
        Requests that wait between two neighbours, at least 1.
    samples : int
        Number of sample inputs; requests take them in turns.
    requests : int
        Largest number of requests in one call of `run`.
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
        """Process ids of the stages, once started."""
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
        """Process this many requests in all stages, as fast as possible.

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
            "outputs": [self.layout.made[number, sent.name].document() for sent in stage.outputs],
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
        """The next message of a stage; empty if it has ended."""
        stream = self._processes[number].stdout
        assert stream is not None
        line = stream.readline()
        return json.loads(line) if line else {}

    def _last_message(self, number: int) -> dict[str, Any]:
        """The last message of an ended stage; empty if there is none."""
        last: dict[str, Any] = {}
        while message := self._next_message(number):
            last = message
        return last

    def _fail(self, number: int, message: dict[str, Any]) -> None:
        """Raise the error of the stage that failed first."""
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
        """Message about the stage that has been computing longest."""
        starts = {i: events[i][:, 0].max() for i in open_stages if events and (events[i][:, 0] > events[i][:, 1]).any()}
        number = min(starts, key=lambda i: starts[i]) if starts else min(open_stages)
        what = "did nothing" if events else "did not get ready"
        return f"{self.stages[number].label}: it {what} within {self.timeout:g} s and was stopped."


# Measurement of the time to pass bytes from one process to another on this machine.


# Bytes of the messages; from the second on they count for the rate.
_SIZES = (64, 2**18, 2**20, 2**22, 2**24)
_MESSAGES = 40


@dataclass(frozen=True)
class LinkSpeed:
    """Measured speed of a link between two processes.

    Parameters
    ----------
    sizes : sequence of int
        Sizes of the messages that were sent [bytes].
    send, receive : sequences of float
        Median processor time to write a message of each size, and to read it [s].
    latency : float
        Median time from the end of writing a small message to the beginning of reading it [s].
    """

    sizes: Sequence[int]
    send: Sequence[float]
    receive: Sequence[float]
    latency: float

    @property
    def bandwidth(self) -> float:
        """Bytes per second of the slower side, the median over the larger messages."""
        slower = [max(pair) for pair in zip(self.send, self.receive, strict=True)]
        rates = [size / max(time, 1e-9) for size, time in zip(self.sizes[1:], slower[1:], strict=True)]
        return float(np.median(rates))

    def document(self) -> dict[str, Any]:
        """The measurement as JSON members."""
        return {
            "bandwidth": self.bandwidth,
            "latency": self.latency,
            "messages": [
                {"bytes": size, "send": send, "receive": receive}
                for size, send, receive in zip(self.sizes, self.send, self.receive, strict=True)
            ],
        }


def measure_link(timeout: float = 60.0) -> LinkSpeed:
    """Send messages of several sizes from one process to another, each on a core of its own if there are two.

    Processor time counts, so that what else runs here does not; a message is written once and read once.

    Raises
    ------
    StageError
        If a process dies or hangs.
    """
    send, receive, latency = [], [], 0.0
    for size in _SIZES:
        message = TensorRecord("message", "uint8", (size,))
        jobs = [
            StageJob("the sender", (), (message.sent((1,)),)),
            StageJob("the receiver", (message.received(0),), ()),
        ]
        with Pipeline(jobs, requests=_MESSAGES, timeout=timeout) as pipeline:
            pipeline.start()
            pipeline.run(_MESSAGES)
            events = pipeline.run(_MESSAGES)
        if size == _SIZES[0]:
            latency = float(np.median(np.maximum(events[1, :, 0] - events[0, :, 1], 0.0)))
        send.append(float(np.median(events[0, :, 2])))
        receive.append(float(np.median(events[1, :, 2])))
    return LinkSpeed(_SIZES, send, receive, latency)
