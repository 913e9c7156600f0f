"""Least memory of nodes and blocks, and proofs that no partition fits into the memory."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np

from instances.errors import printable
from instances.graph.memory import held_alone
from instances.graph.tensors import FloatArray
from instances.partitioning.problem import Instance
from instances.partitioning.reductions import contract_groups

__all__ = ["NoFit", "find_no_fit", "needs_of", "proof_of_no_fit", "room", "surely_above", "total_held"]

# Sums of bytes that are not exact may be off by this part of their largest term.
_ROUNDING = 1e-12
# First and last blocks of windows that are looked at, at the most.
_MOST_ENDS = 64
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")

T = TypeVar("T", float, FloatArray)


def room(instance: Instance) -> float:
    """Memory of a block for its parameters and, without a buffer, its peak [bytes]; may be negative."""
    return instance.platform.memory - (instance.platform.activation_buffer or 0.0)


def needs_of(instance: Instance) -> FloatArray:
    """Least peak of any block with each node, (n,) [bytes]; 0 if a buffer replaces it."""
    return instance.needs if instance.needs_peaks else np.zeros(instance.graph.n)


def total_held(instance: Instance) -> float:
    """Bytes of all parameters that have users, each once."""
    graph = instance.graph
    return float(graph.held_bytes.sum() + sum(parameter.bytes for parameter in graph.parameters if parameter.users))


def surely_above(instance: Instance, held: T, limit: float) -> T:
    """Certain excess of sums of bytes over a limit, rounding errors deducted; 0 if there is none."""
    if instance.has_exact_bytes:
        return np.maximum(0.0, held - limit)
    with np.errstate(over="ignore"):  # beyond an infinite limit is nothing
        return np.maximum(0.0, held - limit - _ROUNDING * (np.abs(held) + abs(limit) + instance.platform.memory))


class NoFit(NamedTuple):
    """Reason why no partition fits, in one line, and a proof as certificates name it."""

    reason: str
    proof: dict[str, Any]


def proof_of_no_fit(instance: Instance) -> str | None:
    """Say why no partition fits, as `find_no_fit`; None if that is not proved."""
    found = find_no_fit(instance)
    return None if found is None else found.reason


def find_no_fit(instance: Instance) -> NoFit | None:
    """Find why no partition fits into the hard memory limit; None if that is not proved.

    Returns
    -------
    NoFit or None
        All parameters together, the largest node or group, or what windows force into some blocks.
    """
    if not instance.platform.fit:
        return None
    merged = contract_groups(instance)
    instance = merged.instance
    k, m = instance.k, room(instance)
    held, needs = held_alone(instance.graph), needs_of(instance)
    what = "parameters" if instance.platform.activation_buffer is None else "parameters beside the buffers"
    total = total_held(instance)
    if surely_above(instance, total + needs.max(), max(m, k * m)) > 0:
        peak = f" and {_bytes(needs.max())} of activations" if total <= k * m else ""
        devices = "1 device" if k == 1 else f"{k} devices"
        reason = f"does not fit: {_bytes(total)} of {what}{peak}, {_bytes(k * m)} on {devices}"
        return NoFit(reason, {"kind": "sum"})
    over = surely_above(instance, held + needs, m)
    v = int(over.argmax())
    if over[v] > 0:
        anchor, others = int(merged.anchor[v]), int((merged.group == v).sum()) - 1
        group = f", with {others} that share its block," if others else ""
        name, taken = printable(merged.original.graph.names[anchor]), _bytes(held[v] + needs[v])
        reason = f"does not fit: node {anchor} ({name}){group} takes {taken}, {_bytes(m)} on a device"
        return NoFit(reason, {"kind": "node", "node": anchor})
    return _windows_too_small(instance, m) if instance.constraints else None


def _windows_too_small(instance: Instance, m: float) -> NoFit | None:
    """The blocks that have no room for the parameters of the nodes that may be in no other."""
    graph, rules = instance.graph, instance.rules
    for a in np.unique(rules.first)[:_MOST_ENDS].tolist():
        for b in np.unique(rules.last[rules.first >= a])[:_MOST_ENDS].tolist():
            inside = (rules.first >= a) & (rules.last <= b)
            shared = sum(p.bytes for p in graph.parameters if inside[list(p.users)].any())
            held = float(graph.held_bytes[inside].sum() + shared)
            if surely_above(instance, held + needs_of(instance)[inside].max(initial=0.0), (b - a + 1) * m) > 0:
                blocks = f"block {a}" if a == b else f"blocks {a} to {b}"
                room = _bytes((b - a + 1) * m)
                reason = f"does not fit: windows force {_bytes(held)} of parameters into {blocks}, {room}"
                return NoFit(reason, {"kind": "windows", "first": a, "last": b})
    return None


def _bytes(size: float) -> str:
    """Format a size in the unit that makes it a number between 1 and 1000."""
    power = 0
    while abs(size) >= 999.5 and power < len(_UNITS) - 1:
        size, power = size / 1000, power + 1
    return f"{size:.3g} {_UNITS[power]}"
