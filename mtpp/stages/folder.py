"""Folders of stages, and samples of the whole model in them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from instances.errors import InputError, extra, one_line

try:
    import onnx
except ImportError:
    raise InputError(f"stages need onnx and onnxruntime; install the extra: {extra('onnx')}") from None

from instances import Partition, Result, combine
from instances.json_files import finite_or_none, write_json
from instances.readers.onnx.graph import copy_weights, weight_files
from instances.readers.onnx.stages import Cut, OnnxStage, TensorSpec, cut_model
from mtpp.problems.checking import certificate_document
from mtpp.stages.manifest import (
    ELEMENTS,
    MANIFEST,
    Manifest,
    Received,
    Samples,
    Sent,
    StageRecord,
    TensorRecord,
    check_new_folder,
    file_record,
)
from mtpp.stages.runner import Pipeline, StageError, StageJob

# Sample inputs for stages, and the outputs of the whole model for them.


_COUNT, _SEED = 3, 0
# Seconds for each run of the whole model.
_TIMEOUT = 120.0
# Memory limit of the process of the whole model: this [bytes], and some copies of the model.
_PROCESS = 2**32
_COPIES = 4
# Bytes of outputs that are kept.
_MOST_BYTES = 2**28
# How far outputs may be apart where operators are fused, as a part of the largest number: by bytes of an element.
_NEAR_ZERO = 0.01
_TOLERANCES = {2: 2e-2, 4: 1e-3, 8: 1e-9}
# How many of the whole numbers of an output may differ then.
_WHOLE_FUSED = 1e-3


def example(tensor: TensorRecord, seed: int, sample: int, number: int) -> NDArray[np.uint8]:
    """The bytes of a sample input: normal numbers, or zeros and ones for integers.

    Parameters
    ----------
    tensor : TensorRecord
        Type and shape of the input.
    seed, sample, number : int
        Seed of all samples, number of the sample, and number of the model's input.
    """
    rng = np.random.default_rng([seed, sample, number])
    kind = ELEMENTS[tensor.type][2]
    if kind is not None and np.dtype(kind).kind != "f":
        return rng.integers(0, 2, tensor.shape).astype(kind).reshape(-1).view(np.uint8)
    values = rng.standard_normal(tensor.shape, np.float32)
    if kind is None:  # bfloat16 is the upper half of a float
        return (values.view(np.uint32) >> 16).astype(np.uint16).reshape(-1).view(np.uint8)
    return values.astype(kind).reshape(-1).view(np.uint8)


def record_samples(
    model: onnx.ModelProto,
    folder: Path,
    inputs: Sequence[TensorRecord],
    outputs: Sequence[TensorRecord],
    target: Path,
) -> Samples | None:
    """Run a whole model in a process of its own, and write its outputs.

    Parameters
    ----------
    model : ModelProto
        With fixed shapes; its weights may lie in other files.
    folder : Path
        Folder of these files.
    inputs, outputs : sequences of TensorRecord
        Inputs and outputs of the model.
    target : Path
        The file to write: of each sample all outputs, byte by byte.

    Returns
    -------
    Samples or None
        None if the outputs are too large to be kept.

    Raises
    ------
    StageError
        If onnxruntime does not run the model, or it gives something else for the same inputs.
    """
    size = sum(tensor.bytes for tensor in outputs)
    count = _COUNT if _COUNT * size <= _MOST_BYTES else int(size <= _MOST_BYTES)
    if not count:
        return None
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "model.onnx")
        file.write_bytes(model.SerializeToString())
        model_bytes = file.stat().st_size + sum((folder / name).stat().st_size for name in weight_files(model))
        job = StageJob(
            label="the whole model",
            inputs=tuple(tensor.received(None) for tensor in inputs),
            outputs=tuple(tensor.sent(()) for tensor in outputs),
            model=file,
            folder=Path(os.path.realpath(folder)),
            memory_limit=_PROCESS + _COPIES * model_bytes,
        )
        with Pipeline([job], queue=count, samples=count, requests=count, timeout=_TIMEOUT) as pipeline:
            fill(pipeline, inputs, _SEED, count)
            pipeline.start()
            pipeline.run(count)
            rings = [pipeline.layout.made[0, tensor.name] for tensor in outputs]
            outputs_of = [[pipeline.memory.slot(ring, sample).tobytes() for ring in rings] for sample in range(count)]
            pipeline.run(1)
            if [pipeline.memory.slot(ring, 0).tobytes() for ring in rings] != outputs_of[0]:
                raise StageError(f"{job.label}: it gives something else each time.")
        target.write_bytes(b"".join(chain.from_iterable(outputs_of)))
    return Samples(**vars(file_record(target)), count=count, seed=_SEED)


def fill(pipeline: Pipeline, inputs: Sequence[TensorRecord], seed: int, count: int) -> None:
    """Write `count` samples of all inputs into the shared memory from which stages read them."""
    for number, tensor in enumerate(inputs):
        if tensor.name in pipeline.layout.inputs:
            for sample in range(count):
                slot = pipeline.memory.slot(pipeline.layout.inputs[tensor.name], sample)
                slot[:] = example(tensor, seed, sample, number)


def difference(
    tensor: TensorRecord, actual: NDArray[np.uint8], expected: NDArray[np.uint8], fusion: bool = False
) -> tuple[float, float]:
    """The largest difference between two values of a tensor, and the tolerance.

    The tolerance is a fraction of the largest absolute value, which counts as at least 0.01: values that are all near
    zero, as of a detector that finds nothing, are compared absolutely. The difference is 0 if all bytes are equal, and
    infinite where whole numbers differ, or only one value is finite. With `fusion` it is the share of whole numbers
    that differ: rounding decides which class is the largest where two are nearly equal.
    """
    kind = ELEMENTS[tensor.type][2]
    if kind is not None and np.dtype(kind).kind != "f":
        if np.array_equal(actual, expected):
            return 0.0, 0.0
        if not fusion:
            return np.inf, 0.0
        return float(np.mean(actual.view(kind) != expected.view(kind))), _WHOLE_FUSED
    a, b = (_numbers(tensor, value) for value in (actual, expected))
    finite = np.isfinite(b)
    allowed = tolerance(tensor) * float(max(np.abs(b[finite]).max(initial=0.0), _NEAR_ZERO))
    if np.array_equal(actual, expected):
        return 0.0, allowed
    if not np.array_equal(np.isfinite(a), finite) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf, allowed
    return float(np.abs(a - b)[finite].max(initial=0.0)), allowed


def tolerance(tensor: TensorRecord) -> float:
    """Relative tolerance for outputs, as a fraction of the largest number."""
    return _TOLERANCES.get(ELEMENTS[tensor.type][1], 0.0)


def _numbers(tensor: TensorRecord, value: NDArray[np.uint8]) -> NDArray[np.float64]:
    kind = ELEMENTS[tensor.type][2]
    if kind is None:
        return (value.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return value.view(kind).astype(np.float64)


# Write a folder of stages: a model a stage, the certificate, sample outputs of the whole model, and the manifest.


_CERTIFICATE = "certificate.json"
_SAMPLES = "samples.bin"
_NAMES = {number: name for name, (number, _, _) in ELEMENTS.items()}


def write_stages(
    path: str | Path,
    answers: Sequence[Result],
    folder: str | Path,
    *,
    dims: Mapping[str, int] | None = None,
    samples: bool = True,
    on_fault: Callable[[str], None] | None = None,
) -> Manifest:
    """Cut an ONNX model by the best answer, and write all stages into a folder.

    Nothing is read outside of the model's folder, and nothing written outside of the new one.

    Parameters
    ----------
    path : path of an ONNX file
    answers : sequence of Result
        To one question about the graph that `read_onnx` makes of the file, at least one with a partition.
    folder : path
        Made, if it is not there; it must be empty.
    dims : mapping of str to int, optional
        As for `read_onnx`.
    samples : bool
        Whether the whole model is run once, so that the outputs of the stages can be compared.
    on_fault : callable, optional
        Called with the reason why there are no samples, if the model does not run.

    Returns
    -------
    Manifest
        As it is written.

    Raises
    ------
    InputError
        If the model, the answers or the folder are refused.
    """
    best = combine(*answers)
    if best.partition is None:
        raise InputError(f"{best.instance.label}: there is no partition to split by.")
    unit = best.instance.graph.time_unit
    if unit != "s":
        raise InputError(f"{best.instance.label}: the work is in units of {unit!r}; stages are measured in seconds.")
    folder = Path(folder)
    written = _Folder(folder)
    try:
        cut = cut_model(path, dims or {}, best.partition)
        certificate = written.file(_CERTIFICATE)
        write_json(certificate, certificate_document(answers))
        inputs, outputs = (tuple(map(_record, specs)) for specs in (cut.inputs, cut.outputs))
        stages = _stages(cut, best.partition, Path(path), written)
        recorded = None
        if samples:
            try:
                recorded = record_samples(cut.model, Path(path).parent, inputs, outputs, written.file(_SAMPLES))
            except StageError as error:
                (on_fault or (lambda fault: None))(str(error))
        manifest = Manifest(
            model=Path(path).name,
            model_sha256=file_record(Path(path)).sha256,
            graph_hash=best.instance.graph.content_hash,
            question_hash=best.instance.question_hash,
            k=best.instance.k,
            bandwidth=finite_or_none(best.instance.platform.bandwidth),
            bottleneck=best.partition.bottleneck,
            certificate=file_record(certificate),
            inputs=inputs,
            outputs=outputs,
            samples=recorded,
            stages=stages,
        )
        write_json(written.file(MANIFEST), manifest.document())
    except BaseException:
        written.remove()
        raise
    return manifest


class _Folder:
    """Files written into a new folder."""

    def __init__(self, folder: Path) -> None:
        check_new_folder(folder)
        self._folder, self._there = folder, folder.exists()
        self._files: list[Path] = []
        os.makedirs(folder, exist_ok=True)

    def file(self, name: str) -> Path:
        """Path of a file to write, which is remembered."""
        self._files.append(self._folder / name)
        return self._files[-1]

    def remove(self) -> None:
        """Remove all files written."""
        for path in self._files:
            path.unlink(missing_ok=True)
        if not self._there:
            os.rmdir(self._folder)


def _stages(cut: Cut, partition: Partition, path: Path, written: _Folder) -> tuple[StageRecord, ...]:
    numbers = {stage.block: number for number, stage in enumerate(cut.stages)}
    readers: dict[tuple[int, str], list[int]] = {}
    for number, stage in enumerate(cut.stages):
        for spec, sender in stage.received:
            if sender is not None:
                readers.setdefault((numbers[sender], spec.name), []).append(number)
    records = []
    for number, stage in enumerate(cut.stages):
        outputs = [_record(spec).sent(tuple(readers.get((number, spec.name), ()))) for spec in stage.sent]
        inputs = [
            _record(spec).received(None if sender is None else numbers[sender]) for spec, sender in stage.received
        ]
        records.append(_stage(number, stage, (inputs, outputs), partition, path, written))
    return tuple(records)


def _stage(
    number: int,
    stage: OnnxStage,
    tensors: tuple[list[Received], list[Sent]],
    partition: Partition,
    path: Path,
    written: _Folder,
) -> StageRecord:
    file, weights = written.file(f"stage-{number}.onnx"), written.file(f"stage-{number}.weights")
    try:
        copied = copy_weights(stage.model, path.parent, weights)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    try:
        onnx.save_model(stage.model, str(file))
    except Exception as error:  # protobuf has several
        raise InputError(f"{file}: cannot be written ({one_line(error, 100)}).") from None
    block = stage.block
    return StageRecord(
        block=block,
        **vars(file_record(file)),
        weights=file_record(weights) if copied else None,
        nodes=len(stage.model.graph.node),
        inputs=tuple(tensors[0]),
        outputs=tuple(tensors[1]),
        time=float(partition.block_costs[block]),
        work=float(partition.costs.work[block]),
        parameter_bytes=float(partition.param_bytes[block]),
        peak_bytes=float(partition.peaks[block]),
        device=partition.kind_names[block] if partition.kind_names else None,
    )


def _record(spec: TensorSpec) -> TensorRecord:
    if spec.element not in _NAMES:
        name = onnx.TensorProto.DataType.Name(spec.element)
        raise InputError(f"tensor '{spec.name}' is of type {name}, which stages cannot pass on; cut elsewhere.")
    return TensorRecord(spec.name, _NAMES[spec.element], spec.shape)
