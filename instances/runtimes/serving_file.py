"""Serving questions with their fronts, ``mtpp-serving/1``, JSON: all data needed to prove them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from instances.json_files import finite_or_none
from instances.partitioning.serving import ServedPartition, ServingInstance
from instances.partitioning.serving_lines import serving_document as question_document
from instances.partitioning.stated_serving import SERVING_FORMAT

__all__ = ["serving_document"]


def serving_document(question: ServingInstance, points: Sequence[ServedPartition]) -> dict[str, Any]:
    """The question, and the cuts that no other beats in bottleneck and context; infinite numbers are null."""
    return {
        "format": SERVING_FORMAT,
        "instance": question_document(question),
        "front": [_point(point) for point in points],
    }


def _point(point: ServedPartition) -> dict[str, Any]:
    partition = point.partition
    stages = zip(
        partition.param_bytes.tolist(),
        point.cache_bytes(1).tolist(),
        partition.peaks.tolist(),
        point.stage_capacity,
        strict=True,
    )
    return {
        "block": partition.block.tolist(),
        **({"kind": partition.kinds_by_name} if not partition.instance.is_alike else {}),
        "bottleneck": point.bottleneck,
        "context": finite_or_none(point.capacity),
        "stages": [
            {"weights": weights, "first_token": token, "activations": peak, "context": finite_or_none(context)}
            for weights, token, peak, context in stages
        ],
    }
