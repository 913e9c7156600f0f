"""What `mtpp run` costs itself: its processes against a loop written by hand, side by side with the same sessions.

Processor time counts, so that other work on the machine does not: that of both processes for a request, with all that
they do beside the operators. Below 1.05 is the bar.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

onnx = pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")

from onnx_models import model, save  # noqa: E402
from stage_folders import cut_by, split_into  # noqa: E402

from mtpp.stages.manifest import read_manifest  # noqa: E402
from mtpp.stages.runner import Pipeline  # noqa: E402
from mtpp.stages.stage_process import open_session  # noqa: E402
from mtpp.stages.trial import stage_jobs  # noqa: E402

REQUESTS, ROUNDS, LAYERS = 200, 5, 6
SHAPE = (1, 32, 28, 28)


def stages_of_a_network(folder: Path) -> Path:
    """A CNN in two stages of about 1 ms."""
    nodes = "".join(f"c{i} = Conv<pads = [1,1,1,1]>(r{i - 1}, w) r{i} = Relu(c{i}) " for i in range(1, LAYERS + 1))
    text = f"g (float[1,32,28,28] r0) => (float[1,32,28,28] r{LAYERS}) {{ {nodes} }}"
    path = save(folder, model(text, w=(32, 32, 3, 3)))
    split_into(folder / "stages", path, cut_by(path, [int(i >= LAYERS) for i in range(2 * LAYERS)]), samples=False)
    return folder / "stages"


def by_hand(number: int, file: str, core: int, shared: Any, free: Any, full: Any, orders: Any, answers: Any) -> None:
    """A stage as one writes it: a session, two buffers, two semaphores."""
    os.sched_setaffinity(0, {core})
    session = open_session(Path(file), Path(file).parent, fusion=False)
    slots = np.frombuffer(shared, np.float32).reshape(2, *SHAPE)
    (given,), (made,) = session.get_inputs(), session.get_outputs()
    x = np.ones(SHAPE, np.float32)
    while requests := orders.get():
        used, begin = time.process_time(), time.monotonic()
        for i in range(requests):
            if number == 0:
                free.acquire()
                np.copyto(slots[i % 2], session.run([made.name], {given.name: x})[0])
                full.release()
            else:
                full.acquire()
                session.run([made.name], {given.name: slots[i % 2]})
                free.release()
        answers.put((time.process_time() - used, time.monotonic() - begin))


def processor_seconds(processes: list[int]) -> float:
    """What processes have used so far."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in processes) * 1e-9


def test_the_runner_against_a_loop_by_hand(benchmark: BenchmarkFixture) -> None:
    cores = sorted(os.sched_getaffinity(0))
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as place:
        folder = stages_of_a_network(Path(place))
        jobs = stage_jobs(read_manifest(folder), folder)
        shared, answers = context.RawArray("f", 2 * int(np.prod(SHAPE))), context.Queue()
        free, full, orders = context.Semaphore(2), context.Semaphore(0), [context.Queue() for _ in jobs]
        loops = [
            context.Process(
                target=by_hand,
                args=(i, str(job.model), cores[i % len(cores)], shared, free, full, orders[i], answers),
            )
            for i, job in enumerate(jobs)
        ]
        for loop in loops:
            loop.start()
        ours, theirs, walls = [], [], []

        def round_of_both() -> None:
            for order in orders:
                order.put(REQUESTS)
            found = [answers.get(timeout=120) for _ in loops]
            theirs.append(sum(used for used, _ in found) / REQUESTS)
            before = processor_seconds(pipeline.processes)
            events = pipeline.run(REQUESTS)
            ours.append((processor_seconds(pipeline.processes) - before) / REQUESTS)
            walls.append((events[:, :, 1].max() - events[:, :, 0].min()) / max(wall for _, wall in found))

        with Pipeline(jobs, requests=REQUESTS) as pipeline:
            pipeline.start()
            round_of_both()
            ours.clear(), theirs.clear(), walls.clear()
            benchmark.pedantic(round_of_both, rounds=ROUNDS, warmup_rounds=0)
        for order, loop in zip(orders, loops, strict=True):
            order.put(0)
            loop.join()
    benchmark.extra_info["processor time over the loop's"] = round(float(np.median(ours) / np.median(theirs)), 4)
    benchmark.extra_info["wall time over the loop's, median"] = round(float(np.median(walls)), 4)
    benchmark.extra_info["processor ms a request"] = round(float(np.median(ours)) * 1e3, 3)
