"""Other uses of the cores of a pipeline: one process with as many threads, and a copy of the whole model a core."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from instances.errors import InputError
from mtpp.stages.manifest import file_record
from mtpp.stages.records import Manifest, Received, Sent
from mtpp.stages.runner import Pipeline, StageJob
from mtpp.stages.samples import fill

__all__ = ["Alternatives", "measure_alternatives"]

# Memory limit of a process of the whole model: this [bytes], and some copies of its files.
_PROCESS, _COPIES = 2**32, 4
_WARM_UP = 10
# A difference of throughput below this part is none.
_SAME = 0.05


@dataclass(frozen=True)
class Alternatives:
    """Periods of the whole model on as many cores as there are stages [s]; each a request."""

    cores: int
    one_process: float  # with a thread a core
    copies: float  # a process a core, each with one thread
    model_bytes: int  # that each copy holds

    def sentence(self, period: float | None) -> str:
        """Whether the pipeline is worth it on these cores, against the better of both."""
        best = min(self.one_process, self.copies)
        other = f"{self.cores} copies of the model" if self.copies <= self.one_process else "one process"
        if not period or self.cores == 1:
            return "One stage is no pipeline; there is nothing to compare."
        if period > best * (1 + _SAME):
            return (
                f"The pipeline is not worth it here: {other} on the same {self.cores} cores take {best / period:.0%} "
                "of its time a request. It pays where the model does not fit into one device."
            )
        if period > best * (1 - _SAME):
            return f"The pipeline is as fast as {other} on the same {self.cores} cores."
        return (
            f"The pipeline is worth it: {other} on the same {self.cores} cores take {best / period:.2f} times as long."
        )

    def document(self) -> dict[str, Any]:
        """Members of a JSON object."""
        return dict(vars(self))


def measure_alternatives(
    manifest: Manifest, model: Path, *, requests: int, queue: int, timeout: float, fusion: bool
) -> Alternatives:
    """Run the whole model on sample inputs in both ways.

    Parameters
    ----------
    manifest : Manifest
        Of the stages that it was split into.
    model : path
        The ONNX file, with its weights beside it.
    requests, queue, timeout, fusion
        As for `Pipeline`.

    Raises
    ------
    InputError
        If it is another model.
    StageError
        If onnxruntime does not run it.
    """
    from instances.readers.onnx.external_weights import weight_files
    from instances.readers.onnx.model_file import load_model

    if file_record(model).sha256 != manifest.model_sha256:
        raise InputError(f"{model}: this is not the model that was split ({manifest.model}); give that.")
    size = model.stat().st_size + sum((model.parent / name).stat().st_size for name in weight_files(load_model(model)))
    cores = len(manifest.stages)
    if hasattr(os, "sched_getaffinity"):
        cores = min(cores, len(os.sched_getaffinity(0)))

    def job(number: int, threads: int) -> StageJob:
        return StageJob(
            label=f"copy {number} of the whole model",
            inputs=tuple(Received(tensor, None) for tensor in manifest.inputs),
            outputs=tuple(Sent(tensor, ()) for tensor in manifest.outputs),
            model=model,
            memory_limit=_PROCESS + _COPIES * size,
            threads=threads,
        )

    def period(jobs: Sequence[StageJob]) -> float:
        with Pipeline(
            jobs, queue=queue, samples=1, requests=max(requests, _WARM_UP), timeout=timeout, fusion=fusion
        ) as pipeline:
            pipeline.start()
            fill(pipeline, manifest.inputs, 0 if manifest.samples is None else manifest.samples.seed, 1)
            pipeline.run(_WARM_UP)
            events = pipeline.run(requests)
        return 1 / sum(1 / max(float(np.median(np.diff(row[:, 1]))), 1e-12) for row in events)

    return Alternatives(
        cores=cores,
        one_process=period([job(0, cores)]),
        copies=period([job(number, 1) for number in range(cores)]),
        model_bytes=size,
    )
