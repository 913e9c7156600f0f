"""Chains, clusters and plans in files: ``mtpp-chain/1``, ``mtpp-cluster/1``, ``mtpp-plan/1``, and clusters as CSV."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from instances.devices.cluster import Cluster
from instances.errors import InputError
from instances.graph.tensors import FloatArray
from instances.json_files import CHAIN_FORMAT, PLAN_FORMAT, finite_or_none, parse_json, read_json, read_text
from instances.planning.chains import collapse
from instances.planning.plan import Plan
from instances.planning.problem import LayerChain
from instances.planning.question_file import chain_from_document, cluster_from_document
from instances.planning.timeline import Timeline
from instances.readers import load_graph
from instances.readers.pipedream import input_nodes, recognises_pipedream

__all__ = [
    "is_chain_file",
    "load_chain",
    "operations_document",
    "plan_document",
    "read_chain",
    "read_cluster",
    "read_profile",
]

_BACKWARD = re.compile(r"^\S+ -- .*backward_compute_time=([^,\s]+)", re.MULTILINE)


def load_chain(path: str | Path, **options: Any) -> LayerChain:
    """A chain from a file of which `is_chain_file` holds.

    Parameters
    ----------
    **options
        Of `load_graph`, for PipeDream profiles.

    Raises
    ------
    InputError
        If an option is not for such a file, or its content is refused.
    """
    if f'"{CHAIN_FORMAT}"' not in read_text(path):
        return read_profile(path, **options)
    for name, value in options.items():
        if value or value == "":
            shown = f"{name} (peak_flops, memory_bandwidth)" if name == "device" else name
            raise InputError(f"{path}: a chain file takes no {shown}; leave it out.")
    return read_chain(path)


def is_chain_file(spec: str | Path) -> bool:
    """Whether there is a file of this name with a chain, of this project or of PipeDream."""
    path = Path(spec)
    if not path.is_file() or path.suffix in (".onnx", ".pt2"):
        return False
    text = read_text(path)
    return f'"{CHAIN_FORMAT}"' in text or recognises_pipedream(text)


def read_profile(path: str | Path, **options: Any) -> LayerChain:
    """A PipeDream profile, ``graph.txt``, as a chain with its own backward times.

    Parameters
    ----------
    **options
        Of `load_graph`; with ``input_work="drop"`` the backward pass of Input nodes takes no time either.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    graph = load_graph(path, reader="pipedream", **options)
    try:
        backward = np.array([float(number) for number in _BACKWARD.findall(read_text(path))]) / 1000
        if options.get("input_work") == "drop":
            backward[input_nodes(graph)] = 0.0
        return collapse(graph, backward)
    except (ValueError, InputError) as error:
        raise InputError(f"{path}: a backward_compute_time is not a number of ms, 0 or more ({error}).") from None


def read_chain(path: str | Path) -> LayerChain:
    """Read a chain file.

    Raises
    ------
    InputError
        If the file cannot be read; the message names the place.
    """
    return chain_from_document(read_json(path), Path(path).stem)


def read_cluster(path: str | Path) -> Cluster:
    """Read a cluster from JSON, or from a CSV table of V lines with V bandwidths each, in bytes/s.

    Raises
    ------
    InputError
        If the file cannot be read; the message names the place.
    """
    text = read_text(path)
    if not text.lstrip().startswith("{"):
        return _cluster_from_table(text, path)
    return cluster_from_document(parse_json(text, str(path)), Path(path).stem)


def plan_document(plan: Plan) -> dict[str, Any]:
    """Convert the plan to the JSON document of its file; stages and times in it are for readers only."""
    instance = plan.instance
    stages = [
        {
            "layers": [instance.chain.names[plan.cuts[n]], instance.chain.names[plan.cuts[n + 1] - 1]],
            "devices": [instance.cluster.names[v] for v in plan.devices[n]],
            "forward": float(plan.forward_time[n]),
            "backward": float(plan.backward_time[n]),
            "allreduce": float(plan.allreduce_time[n]),
        }
        for n in range(plan.n_stages)
    ]
    return {
        "format": PLAN_FORMAT,
        "chain": instance.chain.name,
        "cluster": instance.cluster.name,
        "key": instance.key,
        "microbatches": instance.microbatches,
        "full_duplex": instance.full_duplex,
        "memory": finite_or_none(instance.memory),
        "cuts": list(plan.cuts),
        "devices": [list(stage) for stage in plan.devices],
        "stages": stages,
    }


def operations_document(timeline: Timeline) -> dict[str, list[str]]:
    """Orders in which stages and channels work: "f" for a forward pass or transfer, "b" for a backward one.

    Raises
    ------
    InputError
        If a stage or channel does not take the microbatches in their order.
    """
    plan, start = timeline.plan, timeline.start
    passes = (start.forward, plan.forward_time, start.backward, plan.backward_time)
    transfers = (start.send, plan.forward_transfer_time, start.receive, plan.backward_transfer_time)
    return {"stages": _orders(*passes), "channels": _orders(*transfers)}


def _orders(forward: FloatArray, there: FloatArray, backward: FloatArray, back: FloatArray) -> list[str]:
    """Order of the operations of each machine; starts are (machines, M), durations (machines,), in both directions."""
    if (np.diff(forward) < 0).any() or (np.diff(backward) < 0).any():
        raise InputError("A plan file holds schedules that take the microbatches in their order; this one does not.")
    M, orders = forward.shape[1], []
    for n in range(len(forward)):
        starts = np.concatenate((forward[n], backward[n]))
        ends = starts + np.repeat((there[n], back[n]), M)
        kind, microbatch = np.divmod(np.arange(2 * M), M)
        # What takes no time comes first, and of one instant a microbatch after the other, forward before backward.
        orders.append("".join("fb"[kind[i]] for i in np.lexsort((kind, microbatch, ends, starts))))
    return orders


def _cluster_from_table(text: str, path: str | Path) -> Cluster:
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                rows.append([float(cell) for cell in line.split(",")])
            except ValueError:
                raise InputError(f"{path}, line {number}: expected numbers between commas, bytes/s.") from None
            if len(rows[-1]) != len(rows[0]):
                raise InputError(f"{path}, line {number}: {len(rows[-1])} numbers, but {len(rows[0])} before.")
    try:
        return Cluster(np.array(rows), name=Path(path).stem)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
