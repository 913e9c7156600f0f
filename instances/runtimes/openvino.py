"""OpenVINO: the affinity of each operator by its name, for its device HETERO."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from instances.partitioning.partition import Partition
from instances.runtimes.runtime import NodeRuntime

__all__ = ["OPENVINO", "program"]


#: Operator in the name of a node of ONNX that has none of its own, before that of its output, as OpenVINO calls it.
_UNNAMED = re.compile(r"^[A-Z]\w* (?=\S+$)")

#: OpenVINO wants an affinity for each operator, and has more of them than the graph: constants, views, results.
_PROGRAM = '''import openvino as ov

DEVICES = {devices}
STAGE = {stage}


def assign(model: ov.Model) -> str:
    """Give each operator of a model its stage, and return the device to compile it for.

    What has no stage gets the latest of those that it reads from, or else the earliest of those that read from it.
    """
    operators = model.get_ordered_ops()
    names = {{operator.get_friendly_name() for operator in operators}}
    found = {{name: stage for name, stage in STAGE.items() if name in names}}
    if 2 * len(found) < len(STAGE):
        raise ValueError(f"this is another model: it has {{len(found)}} of {{len(STAGE)}} operators")
    for operator in operators:
        before = [value.get_source_output().get_node().get_friendly_name() for value in operator.inputs()]
        known = [found[name] for name in before if name in found]
        if known:
            found.setdefault(operator.get_friendly_name(), max(known))
    for operator in reversed(operators):
        readers = [reader for value in operator.outputs() for reader in value.get_target_inputs()]
        after = [found[reader.get_node().get_friendly_name()] for reader in readers]
        found.setdefault(operator.get_friendly_name(), min(after, default=0))
    for operator in operators:
        operator.get_rt_info()["affinity"] = DEVICES[found[operator.get_friendly_name()]]
    return "HETERO:" + ",".join(DEVICES)
'''


def _write(partition: Partition) -> str:
    used = sorted(set(partition.block.tolist()))
    numbers = partition.device[used].tolist() if not partition.instance.is_alike else range(len(used))
    devices = [f"GPU.{number}" for number in numbers]
    names = (_UNNAMED.sub("", name) for name in partition.instance.graph.names)
    stage = dict(zip(names, map(used.index, partition.block.tolist()), strict=True))
    return program(devices, stage)


def program(devices: Sequence[str], stage: Mapping[str, int]) -> str:
    """The program that assigns stages, from device names and the stage of each operator by its name."""
    return _PROGRAM.format(devices=json.dumps(list(devices)), stage=json.dumps(dict(stage), indent=1))


OPENVINO = NodeRuntime(
    "openvino",
    "affinity of each operator for HETERO, Python",
    "docs.openvino.ai, heterogeneous execution",
    "#",
    _write,
    version="2026.4",
)
