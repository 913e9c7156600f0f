"""OpenVINO: the affinity of each operator by its name, for its device HETERO."""

from __future__ import annotations

import json
from collections import Counter

from instances.errors import InputError
from instances.partitioning.partition import Partition
from instances.runtimes.runtime import NodeRuntime

__all__ = ["OPENVINO"]


def _write(partition: Partition) -> str:
    graph = partition.instance.graph
    for name, count in Counter(graph.names).items():
        if count > 1:
            raise InputError(
                f"{graph.name}: {count} operators are called {name}, and openvino tells them apart by name."
            )
    devices = [f"GPU.{stage}" for stage in range(partition.instance.k)]
    affinity = dict(zip(graph.names, (devices[stage] for stage in partition.block.tolist()), strict=True))
    return json.dumps({"device": f"HETERO:{','.join(devices)}", "affinity": affinity}, indent=1) + "\n"


OPENVINO = NodeRuntime(
    "openvino",
    "affinity of each operator for HETERO, JSON: rt_info['affinity'] of Model.get_ops()",
    "docs.openvino.ai, heterogeneous execution",
    None,
    _write,
)
