"""Trials of stages on samples, and what their certificate promises."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instances.errors import InputError, WordError, extra
from instances.json_files import finite_or_none
from instances.partitioning.partition import Partition, crossings
from instances.partitioning.partition_file import AnswerFile
from mtpp.stages.folder import difference, fill
from mtpp.stages.manifest import FileRecord, Manifest, TensorRecord, read_manifest
from mtpp.stages.runner import Pipeline, StageJob, available_memory
from mtpp.stages.splitting import Alternatives, measure_alternatives
from mtpp.stages.stage_process import CARDS

# A manifest against the certificate of its folder: what the stages are said to cost, hold and send.


_ROUNDING = 1e-9


def check_promises(manifest: Manifest, folder: Path) -> None:
    """Refuse a folder whose manifest contradicts its certificate.

    Raises
    ------
    InputError
    """
    for fault in broken_promises(manifest, folder):
        raise InputError(f"{folder}: {fault}; split again.")


def broken_promises(manifest: Manifest, folder: Path) -> Iterator[str]:
    """Yield contradictions between a manifest and the certificate of its folder.

    Raises
    ------
    InputError
        If the certificate is refused, or holds no partition that is one.
    """
    partition, _ = AnswerFile.read(folder / manifest.certificate.file).certified()
    instance = partition.instance
    statements = {
        "k": (manifest.k, instance.k),
        "bandwidth": (manifest.bandwidth, finite_or_none(instance.platform.bandwidth)),
        "graph_hash": (manifest.graph_hash, instance.graph.content_hash),
        "question_hash": (manifest.question_hash, instance.question_hash),
    }
    for name, (stated, certified) in statements.items():
        if stated != certified:
            yield f"manifest.json: {name} is {stated!r}, in the certificate {certified!r}"
    yield from _mismatch("bottleneck", manifest.bottleneck, partition.bottleneck)
    blocks = [stage.block for stage in manifest.stages]
    if blocks != sorted(set(partition.block.tolist())):
        yield f"manifest.json: its stages are the blocks {blocks}, which are not those of the certificate"
        return
    yield from _mismatched_nodes(manifest, folder)
    kinds = partition.kind_names or None
    for number, stage in enumerate(manifest.stages):
        true_kind = None if kinds is None else kinds[stage.block]
        if stage.device != true_kind:
            yield f"manifest.json: stages[{number}].device is {stage.device!r}, by the certificate {true_kind!r}"
        costs = {
            "time": (stage.time, partition.block_costs[stage.block]),
            "work": (stage.work, partition.costs.work[stage.block]),
            "parameter_bytes": (stage.parameter_bytes, partition.param_bytes[stage.block]),
            "peak_bytes": (stage.peak_bytes, partition.peaks[stage.block]),
        }
        for name, (claimed, true) in costs.items():
            yield from _mismatch(f"stages[{number}].{name}", claimed, float(true))
    yield from _mismatched_tensors(manifest, partition)


def _mismatch(name: str, claimed: float, true: float) -> Iterator[str]:
    if not math.isclose(claimed, true, rel_tol=_ROUNDING):
        yield f"manifest.json: {name} is {claimed!r}, by the certificate {true!r}"


def _mismatched_nodes(manifest: Manifest, folder: Path) -> Iterator[str]:
    """Yield stages whose model has another number of nodes than the manifest states."""
    if find_spec("onnx") is None:
        return
    from instances.readers.onnx.model import load_model

    for number, stage in enumerate(manifest.stages):
        nodes = len(load_model(folder / stage.file).graph.node)
        if nodes != stage.nodes:
            yield f"manifest.json: stages[{number}].nodes is {stage.nodes}, its model has {nodes}"


def _mismatched_tensors(manifest: Manifest, partition: Partition) -> Iterator[str]:
    """Yield differences between the bytes that stages send and those of the certificate."""
    blocks = [stage.block for stage in manifest.stages]
    sent: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for stage in manifest.stages:
        for output in stage.outputs:
            if output.readers:
                sent[stage.block, tuple(blocks[reader] for reader in output.readers)] += output.bytes
    promised: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for tensor in crossings(partition):
        promised[tensor.source, tensor.readers] += int(tensor.bytes)
    for source, readers in sorted(sent.keys() | promised.keys()):
        stated, certified = sent[source, readers], promised[source, readers]
        if stated != certified:
            where = f"from block {source} to {', '.join(map(str, readers))}"
            yield f"manifest.json: {stated} bytes go {where}, by the certificate {certified}"


# Trial of a folder of stages: run them, measure them, and compare their outputs with the whole model's.


# A process takes so much besides its model [bytes], and so many copies of that while it is made ready.
_PROCESS = 2**31
_COPIES = 3
_WARM_UP = 10
_DEVICE = re.compile(r"cpu|cuda:[0-9]{1,3}")


@dataclass(frozen=True)
class Agreement:
    """Comparison of outputs with those of the whole model."""

    requests: int  # that were compared
    exact: int  # of which every byte was equal
    worst: float  # difference of the tensor that differs most, relative to what is allowed for it
    allowed: float  # difference of that tensor up to which it counts as equal
    name: str | None  # an output that differs by more than it may


@dataclass(frozen=True)
class Trial:
    """A measured run of a pipeline.

    Parameters
    ----------
    manifest : Manifest
    events : (stages, requests, 3) floats
        When each stage began and ended with each request, and the processor's time in between [s].
    cores : sequence of int or None
        The core of each stage.
    agreement : Agreement or None
        Comparison of the outputs with those of the whole model; None if there are no samples.
    others : Alternatives or None
        The whole model on the same cores, if that was measured.
    devices : sequence of str
        Where each stage ran, "cpu" or a graphics card such as "cuda:0".
    """

    manifest: Manifest
    events: NDArray[np.float64]
    cores: Sequence[int | None]
    agreement: Agreement | None
    others: Alternatives | None = None
    devices: Sequence[str] = ()  # of each stage, such as "cuda:0"

    @property
    def finished(self) -> NDArray[np.float64]:
        """(requests,) time at which all outputs of each request were complete [s]."""
        names = {tensor.name for tensor in self.manifest.outputs}
        last = [
            number
            for number, stage in enumerate(self.manifest.stages)
            if any(sent.name in names for sent in stage.outputs)
        ]
        return self.events[last or slice(None), :, 1].max(axis=0)

    @property
    def period(self) -> float | None:
        """Median time between consecutive requests, without the filling of the pipeline [s]."""
        gaps = np.diff(self.finished)[len(self.manifest.stages) :]
        return float(np.median(gaps)) if len(gaps) else None

    @property
    def latency(self) -> float:
        """Median time from a request's start to its end, while the pipeline is full [s]."""
        return float(np.median(self.finished - self.events[:, :, 0].min(axis=0)))

    @property
    def computing(self) -> list[float]:
        """Median time that each stage computes for a request [s]."""
        return np.median(self.events[:, :, 1] - self.events[:, :, 0], axis=1).tolist()

    @property
    def processor(self) -> list[float]:
        """Median processor time of each stage for a request [s]."""
        return np.median(self.events[:, :, 2], axis=1).tolist()

    @property
    def busy(self) -> list[float]:
        """Fraction of time that each stage computes, from its first request to its last."""
        span = self.events[:, -1, 1] - self.events[:, 0, 0]
        return ((self.events[:, :, 1] - self.events[:, :, 0]).sum(axis=1) / np.maximum(span, 1e-12)).tolist()

    @property
    def over_predicted(self) -> float | None:
        """Measured period over the predicted bottleneck."""
        predicted = self.manifest.bottleneck
        return None if self.period is None or predicted <= 0 else self.period / predicted

    def document(self) -> dict[str, Any]:
        """All measurements as a JSON document."""
        agreement = None if self.agreement is None else dict(vars(self.agreement))
        if agreement is not None and not np.isfinite(agreement["worst"]):
            agreement["worst"] = None
        names = ("block", "core", "predicted", "computing", "processor", "busy")
        predicted = [stage.time for stage in self.manifest.stages]
        blocks = [stage.block for stage in self.manifest.stages]
        rows = zip(blocks, self.cores, predicted, self.computing, self.processor, self.busy, strict=True)
        return {
            "model": self.manifest.model,
            "requests": self.events.shape[1],
            "period": self.period,
            "latency": self.latency,
            "predicted": self.manifest.bottleneck,
            "over_predicted": self.over_predicted,
            "devices": list(self.devices),
            "outputs": agreement,
            "others": None if self.others is None else self.others.document(),
            "stages": [
                dict(zip(names, row, strict=True)) | ({} if stage.device is None else {"device": stage.device})
                for row, stage in zip(rows, self.manifest.stages, strict=True)
            ],
        }


def try_stages(
    folder: str | Path,
    *,
    requests: int = 200,
    queue: int = 2,
    timeout: float = 60.0,
    device: str = "cpu",
    fusion: bool = False,
    compare: str | os.PathLike[str] | None = None,
) -> Trial:
    """Run stages on sample inputs: a warm-up, then the measured requests.

    Parameters
    ----------
    folder : str or path
        As `mtpp split` writes it.
    requests, queue, timeout, fusion
        As for `Pipeline`.
    device : str
        "cpu", "cuda" for one graphics card for each stage, or a list with a device for each stage.
    compare : path, optional
        The whole model, to be measured on the same cores, too.

    Raises
    ------
    StageError
        If a stage dies, hangs or fails.
    InputError
        If onnxruntime is not installed or has no such device, a file is not as the manifest says, or there is not the
        memory for it.
    """
    if find_spec("onnxruntime") is None:
        raise InputError(f"running stages needs onnxruntime; install the extra: {extra('onnx')}")
    manifest, folder = read_manifest(folder), Path(os.path.realpath(folder))
    check_promises(manifest, Path(folder))
    _check_memory(manifest, folder, queue + len(manifest.stages))
    for stage in manifest.stages:
        _check_weight_files(folder / stage.file, stage.weights)
    devices = _devices(device, len(manifest.stages))
    jobs = [
        job if card is None else replace(job, card=card, memory_limit=None)
        for job, card in zip(stage_jobs(manifest, folder), map(_card, devices), strict=True)
    ]
    samples = manifest.samples
    count, seed = (1, 0) if samples is None else (samples.count, samples.seed)
    capacity = max(requests, _WARM_UP)
    with Pipeline(jobs, queue=queue, samples=count, requests=capacity, timeout=timeout, fusion=fusion) as pipeline:
        pipeline.start()
        fill(pipeline, manifest.inputs, seed, count)
        agreements = []
        for number in (min(capacity, max(_WARM_UP, pipeline.slots)), requests):
            _blank(pipeline)
            events = pipeline.run(number)
            if samples is not None:
                agreements += _compare(pipeline, manifest, folder / samples.file, number, count, fusion)
    others = None
    if compare is not None:
        model = Path(os.path.realpath(compare))
        others = measure_alternatives(manifest, model, requests=requests, queue=queue, timeout=timeout, fusion=fusion)
    agreement = _agreement(agreements) if samples is not None else None
    return Trial(manifest, events, pipeline.cores, agreement, others, devices)


def _devices(text: str, stages: int) -> list[str]:
    """Device of each stage: "cpu", or "cuda:" with the number of a GPU."""
    devices = [f"cuda:{n}" for n in range(stages)] if text == "cuda" else text.split(",")
    devices = devices * stages if devices == ["cpu"] else devices
    if len(devices) != stages or not all(_DEVICE.fullmatch(device) for device in devices):
        cards = ",".join(f"cuda:{n}" for n in range(stages))
        raise WordError("device", text, f"give cpu, cuda, or one of them for each stage, as {cards}.")
    if any(device != "cpu" for device in devices):
        from onnxruntime import get_available_providers

        if CARDS not in get_available_providers():
            why = "onnxruntime knows no graphics cards here; install onnxruntime-gpu in its place, or give cpu."
            raise WordError("device", text, why)
    return devices


def _card(device: str) -> int | None:
    """Number of a GPU; None for the CPU."""
    return None if device == "cpu" else int(device.partition(":")[2])


def stage_jobs(manifest: Manifest, folder: Path) -> list[StageJob]:
    """Make the job of each stage's process."""
    return [_job(manifest, number, folder) for number in range(len(manifest.stages))]


def _check_memory(manifest: Manifest, folder: Path, slots: int) -> None:
    """Refuse stages and tensors that do not fit into this machine's memory."""
    free = available_memory()
    sizes = [_model_bytes(manifest, number, folder) for number in range(len(manifest.stages))]
    queues = slots * sum(sent.bytes for stage in manifest.stages for sent in stage.outputs)
    samples = (1 if manifest.samples is None else manifest.samples.count) * sum(t.bytes for t in manifest.inputs)
    need = samples + queues + sum(sizes) + sum(stage.peak_bytes for stage in manifest.stages)
    if free is not None and need > free:
        raise InputError(
            f"{folder}: the stages need {need / 1e9:.3g} GB of memory, and {free / 1e9:.3g} GB are free; run them on "
            "a larger machine."
        )


def _check_weight_files(path: Path, weights: FileRecord | None) -> None:
    """Refuse a stage that names another weight file than the manifest."""
    from instances.readers.onnx.graph import weight_files
    from instances.readers.onnx.model import load_model

    for name in weight_files(load_model(path)):
        if weights is None or name != weights.file:
            raise InputError(f"{path}: its weights are said to lie in '{name}', which the manifest does not name.")


def _model_bytes(manifest: Manifest, number: int, folder: Path) -> int:
    stage = manifest.stages[number]
    files: list[FileRecord] = [stage, *([] if stage.weights is None else [stage.weights])]
    return sum((folder / record.file).stat().st_size for record in files)


def _job(manifest: Manifest, number: int, folder: Path) -> StageJob:
    stage = manifest.stages[number]
    tensors = sum(tensor.bytes for tensor in (*stage.inputs, *stage.outputs))
    stage_bytes = _COPIES * (_model_bytes(manifest, number, folder) + tensors + int(min(stage.peak_bytes, 2**40)))
    return StageJob(
        label=f"stage {number} ({stage.file})",
        inputs=stage.inputs,
        outputs=stage.outputs,
        model=folder / stage.file,
        memory_limit=_PROCESS + stage_bytes,
    )


def _results(manifest: Manifest) -> list[tuple[int | None, TensorRecord]]:
    """The outputs of the whole model with the stage that produces each; None for an input."""
    home = {sent.name: b for b, stage in enumerate(manifest.stages) for sent in stage.outputs}
    return [(home.get(tensor.name), tensor) for tensor in manifest.outputs]


def _blank(pipeline: Pipeline) -> None:
    """Overwrite old tensor values, so that reading a stale one gives a wrong output."""
    for ring in pipeline.layout.made.values():
        for slot in range(ring.slots):
            pipeline.memory.slot(ring, slot)[:] = 0xFF


def _compare(
    pipeline: Pipeline, manifest: Manifest, file: Path, requests: int, count: int, fusion: bool
) -> list[Agreement]:
    """Compare the outputs of the last requests, still in memory, with the whole model's."""
    agreements = []
    results = _results(manifest)
    size = sum(tensor.bytes for tensor in manifest.outputs)
    if file.stat().st_size != size * count:
        raise InputError(f"{file}: it has not the size of {count} samples; split again.")
    expected = np.fromfile(file, np.uint8).reshape(count, size)
    for request in range(max(0, requests - pipeline.slots), requests):
        begin, outputs = 0, []
        for stage, tensor in results:
            wanted = expected[request % count, begin : begin + tensor.bytes]
            begin += tensor.bytes
            if stage is not None:
                actual = pipeline.memory.slot(pipeline.layout.made[stage, tensor.name], request)
                apart, allowed = difference(tensor, actual, wanted, fusion)
                outputs.append(Agreement(1, int(apart == 0), apart, allowed, tensor.name if apart > allowed else None))
        agreements.append(replace(_agreement(outputs), requests=1, exact=int(all(output.exact for output in outputs))))
    return agreements


def _agreement(agreements: Sequence[Agreement]) -> Agreement:
    """All comparisons as one, with the largest difference relative to its tolerance."""
    worst = max(
        agreements,
        key=lambda agreement: (
            agreement.name is not None,
            agreement.worst / agreement.allowed if agreement.allowed else agreement.worst,
        ),
        default=Agreement(0, 0, 0.0, 0.0, None),
    )
    return replace(worst, requests=len(agreements), exact=sum(agreement.exact for agreement in agreements))


# A measured run as a trace that Perfetto and ``chrome://tracing`` show.


_MICRO = 1e6


def chrome_trace(trial: Trial) -> dict[str, Any]:
    """Trace of all computations in microseconds, a process for each stage."""
    begin = float(trial.events[:, :, 0].min())
    events: list[dict[str, Any]] = []
    for number, (stage, rows) in enumerate(zip(trial.manifest.stages, trial.events.tolist(), strict=True)):
        name = f"stage {number}, block {stage.block}"
        events.append({"name": "process_name", "ph": "M", "pid": number, "tid": 0, "args": {"name": name}})
        for request, (start, end, processor) in enumerate(rows):
            events.append(
                {
                    "name": f"request {request}",
                    "cat": "computing",
                    "ph": "X",
                    "pid": number,
                    "tid": 0,
                    "ts": (start - begin) * _MICRO,
                    "dur": (end - start) * _MICRO,
                    "args": {"request": request, "processor_us": processor * _MICRO, "predicted_s": stage.time},
                }
            )
    return {"traceEvents": events, "displayTimeUnit": "ms"}
