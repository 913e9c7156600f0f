"""Proofs that no partition over kinds of devices fits into their memories."""

from __future__ import annotations

import numpy as np

from instances.errors import printable
from instances.graph.display import figures
from instances.graph.memory import held_alone
from instances.partitioning import no_fit
from instances.partitioning.no_fit import needs_of, room, surely_above, total_held
from instances.partitioning.problem import Instance

__all__ = ["proof_of_no_fit"]


def proof_of_no_fit(instance: Instance) -> str | None:
    """Say why no partition fits into the hard memory limits; None if that is not proved."""
    if instance.is_alike:
        return no_fit.proof_of_no_fit(instance)
    return _no_kind_runs(instance) or _no_kind_fits(instance)


def _no_kind_fits(instance: Instance) -> str | None:
    """Say in one line why nothing fits: all parameters together, or one node on each kind; None if that is not proved.

    Where some kind has no limit on its memory, everything fits there.
    """
    machines, questions = instance.machines, [instance.of_kind(t) for t in range(instance.kinds)]
    if not all(question.platform.fit for question in questions):
        return None
    rooms = sorted((max(0.0, room(questions[t])) for t in machines.sequence), reverse=True)[: instance.k]
    total = total_held(questions[0])
    if surely_above(questions[0], total, sum(rooms)) > 0:
        there = figures(sum(rooms), "bytes")
        return f"does not fit: {figures(total, 'bytes')} of parameters, {there} on {instance.k} devices"
    loads = held_alone(instance.graph)
    over = [surely_above(question, loads + needs_of(question), room(question)) > 0 for question in questions]
    nowhere = over[0]
    for row in over[1:]:
        nowhere = nowhere & row
    for v in nowhere.nonzero()[0][:1].tolist():
        name, taken = printable(instance.graph.names[v]), float((loads + needs_of(questions[0]))[v])
        return f"does not fit: node {v} ({name}) takes {figures(taken, 'bytes')}, more than a device of any kind has"
    return None


def _no_kind_runs(instance: Instance) -> str | None:
    """Say in one line which nodes that share a block no kind can run together; None if there are none."""
    rules = instance.rules
    group = rules.group if rules.has_groups else np.arange(instance.graph.n)
    nowhere = np.all([np.bincount(group, ~able) > 0 for able in instance.able], axis=0)
    for v in np.flatnonzero(nowhere[group])[:1].tolist():
        name = printable(instance.graph.names[v])
        return f"does not fit: no kind of devices can run all nodes that share a block with node {name}"
    return None
