"""Questions of partitioning as a member of files."""

from __future__ import annotations

from typing import Any

from instances.graph.graph import ComputationGraph
from instances.graph.graph_file import graph_document
from instances.json_files import finite_or_none
from instances.partitioning.constraints_file import constraints_document
from instances.partitioning.problem import Instance

__all__ = ["graph_members", "platform_document", "question_document", "rules_document"]


def question_document(instance: Instance) -> dict[str, Any]:
    """The question as the member ``instance`` of a certificate; infinite numbers are null."""
    return {
        "name": instance.name,
        **platform_document(instance),
        **graph_members(instance.graph),
    }


def graph_members(graph: ComputationGraph) -> dict[str, Any]:
    """Members ``graph_hash`` and ``graph``."""
    return {"graph_hash": graph.content_hash, "graph": graph_document(graph)}


def platform_document(instance: Instance) -> dict[str, Any]:
    """Number of blocks, devices and rules."""
    platform = instance.platform
    return {
        "k": platform.k,
        "bandwidth": finite_or_none(platform.bandwidth),
        "memory": finite_or_none(platform.memory),
        "activation_buffer": platform.activation_buffer,
        **rules_document(instance),
    }


def rules_document(instance: Instance) -> dict[str, Any]:
    """Members ``fit`` and ``constraints`` of files; empty if neither is set."""
    rules: dict[str, Any] = {"fit": True} if instance.platform.fit else {}
    if instance.constraints:
        rules["constraints"] = constraints_document(instance.constraints)
    return rules
