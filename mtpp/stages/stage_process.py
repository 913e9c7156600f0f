"""Program of one stage, a process of its own: it waits for its inputs, computes, and notifies its readers.

It reads from stdin, a line of JSON each: first its job (`StageJob.document`), then numbers of requests to run. It
answers on stdout in the same way: that it is ready, that it is done, or what is wrong. When stdin ends, it ends.
Tensors lie in shared memory. A byte in a pipe says that one is there, or that its room is free again; a closed pipe
says that the process at its other end has gone. Of the files of a stage nothing runs but operators of onnxruntime.

It is run as a file and imports nothing of this project, so that it starts at once and holds little memory.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Name of the graphics cards in onnxruntime.
CARDS = "CUDAExecutionProvider"
#: Exit code when a neighbour has gone.
GONE = 3
#: Record of a request: when it began and ended, and the processor's seconds in between.
EVENT_BYTES = 24

Call = Callable[[], None]

# What makes other numbers of them than the operators of the model do, or other operators than were priced.
_FUSIONS = (
    "CommonSubexpressionElimination ConvActivationFusion ConvAddFusion ConvBNFusion ConvMulFusion DivMulFusion "
    "DoubleQDQPairsRemover EnsureUniqueDQForNodeUnit FuseReluClip GatherSliceToSplitFusion GatherToSliceFusion "
    "GemmSumFusion GemmTransposeFusion MatMulAddFusion MatmulBNFusion MatMul_BatchNormalization_Fusion NotWhereFusion "
    "Pad_Fusion PadFusion QDQPropagationTransformer ReshapeFusion TransposeOptimizer WeightBiasQuantization"
)


@dataclass(frozen=True)
class Ring:
    """Ring buffer for values of a tensor; request i uses slot i modulo `slots`."""

    name: str
    element: int  # number of its type in ONNX
    shape: tuple[int, ...]
    bytes: int  # of a value
    offset: int  # of the first slot
    stride: int  # from one slot to the next
    slots: int

    def document(self) -> dict[str, Any]:
        """The fields of the ring, as a message to the processes of its stages."""
        return asdict(self)


class SharedMemory:
    """Shared memory that several processes map by a file descriptor."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor, self.size = descriptor, size
        self._bytes = np.frombuffer(mmap.mmap(descriptor, max(size, 1)), np.uint8)

    def slot(self, ring: Ring, request: int) -> NDArray[np.uint8]:
        """The bytes of the slot of a request."""
        begin = ring.offset + request % ring.slots * ring.stride
        return self._bytes[begin : begin + ring.bytes]

    def address(self, ring: Ring, request: int) -> int:
        """Address of a request's slot in this process."""
        return int(self._bytes.ctypes.data) + ring.offset + request % ring.slots * ring.stride

    def events(self, offset: int, requests: int) -> NDArray[np.float64]:
        """(requests, 3) floats in memory: start and end of each request at a stage, and processor seconds between."""
        return self._bytes[offset : offset + requests * EVENT_BYTES].view(np.float64).reshape(requests, 3)

    def close(self) -> None:
        """Close the descriptor; the memory is freed when its last use ends."""
        os.close(self.descriptor)
        self._bytes = np.zeros(0, np.uint8)


class _NeighbourGoneError(Exception):
    """The neighbouring stage has ended: its pipe is closed."""


def main() -> None:
    """Run a stage until its stdin is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who started this has heard it too, and ends it
    orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else prints says nothing that counts

    def say(**words: Any) -> None:
        answers.write(json.dumps(words) + "\n")
        answers.flush()

    try:
        stage = _Stage(orders.get())
        say(ready=True)
        while True:
            stage.run(orders.get()["run"])
            say(done=True)
    except _NeighbourGoneError:
        os._exit(GONE)
    except MemoryError:
        say(error="it needs more memory than it may take")
    except Exception as error:  # onnxruntime has no base class of its errors
        say(error=" ".join(str(error).split())[:300] or type(error).__name__)
    os._exit(1)


def _listen(orders: queue.SimpleQueue[Any]) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(GONE)


class _Stage:
    """A stage that is loaded and ready to process requests."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        if job["core"] is not None:  # never where processes cannot be pinned to cores
            os.sched_setaffinity(0, {job["core"]})
        if job["memory_limit"] is not None:
            with contextlib.suppress(ImportError, ValueError, OSError):  # not on every system
                import resource

                resource.setrlimit(resource.RLIMIT_DATA, (job["memory_limit"], job["memory_limit"]))
        memory = SharedMemory(job["descriptor"], job["bytes"])
        self._events = memory.events(job["events"], job["requests"])
        # Pipes, of each neighbour one that says that work can begin, and one to say that it is done.
        self._waits: list[int] = job["waits"]
        self._tells: list[int] = job["tells"]
        inputs, outputs = ([Ring(**ring) for ring in job[side]] for side in ("inputs", "outputs"))
        make = {"session": _session_calls, "copy": _copy_calls}[job["kind"]]
        self._calls = make(job, memory, inputs, outputs)

    def run(self, requests: int) -> None:
        """Process requests in order, timed by a clock shared by all processes."""
        clock, events, calls, period = time.monotonic, self._events, self._calls, len(self._calls)
        for i in range(requests):
            for pipe in self._waits:
                if not os.read(pipe, 1):
                    raise _NeighbourGoneError
            used = time.thread_time()
            events[i, 0] = clock()
            calls[i % period]()
            events[i, 1] = clock()
            events[i, 2] = time.thread_time() - used
            try:
                for pipe in self._tells:
                    os.write(pipe, b"+")
            except BrokenPipeError:
                raise _NeighbourGoneError from None


def _period(rings: Sequence[Ring]) -> int:
    """Number of requests after which all rings return to their first slots."""
    return math.lcm(*(ring.slots for ring in rings))


def open_session(model: Path, folder: Path, *, fusion: bool, threads: int = 1, card: int | None = None) -> Any:
    """Open a session of onnxruntime, by default on the CPU with one thread; weights are in `folder`.

    Without `fusion`, constants are computed ahead and all other operators run as the model has them.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    if not fusion:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(
        model.read_bytes(),
        options,
        providers=["CPUExecutionProvider"] if card is None else [(CARDS, {"device_id": card})],
        disabled_optimizers=None if fusion else _FUSIONS.split(),
    )
    if card is not None and CARDS not in session.get_providers():  # else it would run elsewhere, in silence
        raise RuntimeError(f"onnxruntime cannot use graphics card {card}")
    return session


def _session_calls(
    job: Mapping[str, Any], memory: SharedMemory, inputs: Sequence[Ring], outputs: Sequence[Ring]
) -> list[Call]:
    """A call for each request of a period that runs the model in place."""
    words = {name: job[name] for name in ("fusion", "threads", "card")}
    session = open_session(Path(job["model"]), Path(job["folder"]), **words)
    calls: list[Call] = []
    for i in range(_period((*inputs, *outputs))):
        binding = session.io_binding()
        for bind, rings in ((binding.bind_input, inputs), (binding.bind_output, outputs)):
            for ring in rings:
                bind(ring.name, "cpu", 0, ring.element, ring.shape, memory.address(ring, i))
        calls.append(partial(session.run_with_iobinding, binding))
    return calls


def _copy_calls(
    job: Mapping[str, Any], memory: SharedMemory, inputs: Sequence[Ring], outputs: Sequence[Ring]
) -> list[Call]:
    """A call for each request of a period that only copies inputs and fills outputs."""
    buffers = {ring.name: np.ones(ring.bytes, np.uint8) for ring in (*inputs, *outputs)}

    def copy(request: int) -> None:
        for ring in inputs:
            np.copyto(buffers[ring.name], memory.slot(ring, request))
        for ring in outputs:
            np.copyto(memory.slot(ring, request), buffers[ring.name])

    return [partial(copy, i) for i in range(_period((*inputs, *outputs)))]


if __name__ == "__main__":
    main()
