"""Write a folder of stages: a model a stage, the certificate, sample outputs of the whole model, and the manifest."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx

from instances import InputError, Partition, Result, combine
from instances.errors import one_line
from instances.json_files import finite_or_none, write_json
from instances.readers.onnx.external_weights import copy_weights
from instances.readers.onnx.stages import Cut, OnnxStage, TensorSpec, cut_model
from mtpp.certificates.writing import certificate_document
from mtpp.stages.manifest import MANIFEST, check_new_folder, file_record
from mtpp.stages.records import ELEMENTS, Manifest, Received, Sent, StageRecord, TensorRecord
from mtpp.stages.runner import StageError
from mtpp.stages.samples import record_samples

__all__ = ["write_stages"]

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
    """Cut an ONNX model by the best of some answers, and write all stages into a folder.

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
    """The files that are written into a new folder."""

    def __init__(self, folder: Path) -> None:
        check_new_folder(folder)
        self._folder, self._there = folder, folder.exists()
        self._files: list[Path] = []
        os.makedirs(folder, exist_ok=True)

    def file(self, name: str) -> Path:
        """A file to write."""
        self._files.append(self._folder / name)
        return self._files[-1]

    def remove(self) -> None:
        """Take away all that was written."""
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
        outputs = [Sent(_record(spec), tuple(readers.get((number, spec.name), ()))) for spec in stage.sent]
        inputs = [
            Received(_record(spec), None if sender is None else numbers[sender]) for spec, sender in stage.received
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
        file=file_record(file),
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
