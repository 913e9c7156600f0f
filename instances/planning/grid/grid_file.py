"""Plans in a grid as JSON, ``mtpp-plan/5``, with their question and times."""

from __future__ import annotations

from typing import Any

from instances.errors import InputError
from instances.planning.grid.plan import PLACINGS, GridPlan
from instances.planning.grid.stated import GRID_FORMAT, RANK, StatedGrid

__all__ = ["grid_document", "plan_of", "ranks"]


def grid_document(plan: GridPlan) -> dict[str, Any]:
    """The plan with its question and times as JSON, without bounds."""
    question, (start, _, time) = plan.instance, plan.timeline
    return {
        "format": GRID_FORMAT,
        "key": question.key,
        "instance": question.document(),
        "grid": {
            "pp": plan.groups,
            "tp": list(plan.tensor),
            "cp": plan.context,
            "ep": plan.expert,
            "dp": plan.pipelines,
            "v": plan.turns,
        },
        "micro_batch": plan.micro_batch,
        "global_batch": question.global_batch,
        "zero": plan.zero,
        "cuts": list(plan.cuts),
        "modes": list(plan.modes),
        "ranks": ranks(plan),
        "memory": [list(row) for row in zip(*(part.tolist() for part in plan.memory), strict=True)],
        "starts": [row for pair in zip(start.forward.tolist(), start.backward.tolist(), strict=True) for row in pair],
        "sent": [*start.send.tolist(), *start.receive.tolist()],
        "time": time,
    }


def ranks(plan: GridPlan) -> list[dict[str, int]]:
    """Server, device there, first stage and place in each degree of every device that works."""
    assert plan.first_device is not None
    size, found = plan.instance.servers.size, list[dict[str, int]]()
    for g, d in ((g, d) for g in range(plan.groups) for d in range(plan.pipelines)):
        for place in range(plan.context * plan.tensor[g]):
            device, (cp, tp) = int(plan.first_device[g, d]) + place, divmod(place, plan.tensor[g])
            numbers = (len(found), *divmod(device, size), g, tp, cp, d)
            found.append(dict(zip(RANK, numbers, strict=True)))
    return found


def plan_of(stated: StatedGrid) -> GridPlan:
    """The plan of a file, all its costs computed anew.

    Raises
    ------
    InputError
        If it is no plan of its question.
    """
    for placing in PLACINGS:
        plan = GridPlan(
            stated.instance,
            stated.micro_batch,
            stated.pipelines,
            stated.cuts,
            stated.tensor,
            stated.modes,
            stated.context,
            stated.expert,
            stated.zero,
            placing,
        )
        if [tuple(one.values()) for one in ranks(plan)] == list(stated.ranks):
            return plan
    raise InputError(f"{stated.file}: its devices lie otherwise than any plan puts them.")
