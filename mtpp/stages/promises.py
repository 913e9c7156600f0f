"""A manifest against the certificate of its folder: what the stages are said to cost, hold and send."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from instances.errors import InputError
from instances.json_files import finite_or_none
from instances.partitioning.answer_file import AnswerFile
from instances.partitioning.partition import Partition
from instances.partitioning.stages import crossings
from mtpp.stages.records import Manifest

__all__ = ["broken_promises", "check_promises"]

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
    """Yield what a manifest says otherwise than the certificate of its folder, whose partition is computed anew.

    Raises
    ------
    InputError
        If the certificate is refused, or holds no partition that is one.
    """
    partition, _ = AnswerFile.read(folder / manifest.certificate.file).certified()
    instance = partition.instance
    said = {
        "k": (manifest.k, instance.k),
        "bandwidth": (manifest.bandwidth, finite_or_none(instance.platform.bandwidth)),
        "graph_hash": (manifest.graph_hash, instance.graph.content_hash),
        "question_hash": (manifest.question_hash, instance.question_hash),
    }
    for name, (stated, certified) in said.items():
        if stated != certified and (name != "question_hash" or stated is not None):
            yield f"manifest.json: {name} is {stated!r}, in the certificate {certified!r}"
    yield from _unlike("bottleneck", manifest.bottleneck, partition.bottleneck)
    blocks = [stage.block for stage in manifest.stages]
    if blocks != sorted(set(partition.block.tolist())):
        yield f"manifest.json: its stages are the blocks {blocks}, which are not those of the certificate"
        return
    yield from _unlike_nodes(manifest, folder)
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
            yield from _unlike(f"stages[{number}].{name}", claimed, float(true))
    yield from _unlike_tensors(manifest, partition)


def _unlike(name: str, claimed: float, true: float) -> Iterator[str]:
    if not math.isclose(claimed, true, rel_tol=_ROUNDING):
        yield f"manifest.json: {name} is {claimed!r}, by the certificate {true!r}"


def _unlike_nodes(manifest: Manifest, folder: Path) -> Iterator[str]:
    """Yield stages whose models have other numbers of nodes than the manifest says; none where onnx is missing."""
    if find_spec("onnx") is None:
        return
    from instances.readers.onnx.model_file import load_model

    for number, stage in enumerate(manifest.stages):
        nodes = len(load_model(folder / stage.file.file).graph.node)
        if nodes != stage.nodes:
            yield f"manifest.json: stages[{number}].nodes is {stage.nodes}, its model has {nodes}"


def _unlike_tensors(manifest: Manifest, partition: Partition) -> Iterator[str]:
    """Yield differences between the bytes that stages send to groups of stages and those of the certificate."""
    blocks = [stage.block for stage in manifest.stages]
    sent: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for stage in manifest.stages:
        for output in stage.outputs:
            if output.readers:
                sent[stage.block, tuple(blocks[reader] for reader in output.readers)] += output.tensor.bytes
    promised: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for tensor in crossings(partition):
        promised[tensor.source, tensor.readers] += int(tensor.bytes)
    for source, readers in sorted(sent.keys() | promised.keys()):
        stated, certified = sent[source, readers], promised[source, readers]
        if stated != certified:
            where = f"from block {source} to {', '.join(map(str, readers))}"
            yield f"manifest.json: {stated} bytes go {where}, by the certificate {certified}"
