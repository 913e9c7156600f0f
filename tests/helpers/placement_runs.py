"""Runs of the study of learned placement that are made up."""

from __future__ import annotations

from typing import Any

from experiments.studies.placeto.measured import ABLATIONS
from mtpp.runs.log import Run

__all__ = ["measured", "runs"]

RIVALS = ("single", "random, mean", "random", "expert", "metis", "heft", "greedy", "climb, 6n", "anneal, long")


def measured(*times: float, simulations: int | None = 10) -> dict[str, Any]:
    return {"times": list(times), "simulations": None if simulations is None else [simulations] * len(times)}


def run(what: str, answer: dict[str, Any] | None, seed: int = 0, **options: Any) -> Run:
    error = "it broke" if answer is None else None
    return {"instance": "nmt", "method": what, "seed": seed, "options": options, "answer": answer, "error": error}


def fast(zero_shot: float) -> dict[str, Any]:
    names = ["zero-shot", "sampled", "anneal, as zero-shot", "anneal, as sampled", "zero-shot + climb, 4n"]
    for other in ("large", "k = 2", "k = 8"):
        names += [other, f"{other}: anneal", f"{other}: metis", f"{other}: heft", f"{other}: greedy"]
    return {name: measured(0.6, 0.8) for name in names} | {
        "zero-shot": measured(zero_shot),
        "zero-shot, last": measured(0.9),
        "anneal, as zero-shot": measured(0.65),
        "orders": [0.49, 0.5],
        "training": 20.0,
        "placing": 0.002,
    }


def runs() -> list[Run]:
    alone = {name: measured(0.5) for name in ("likeliest", "best", "anneal, as best")}
    planner = {"zero-shot": measured(0.9), "best": measured(0.8)}
    return [
        run("rivals", {name: measured(0.7, simulations=None) for name in RIVALS}),
        *(run("fast", fast(value), seed) for seed, value in enumerate((0.5, 0.9, 0.6))),
        run("fast", None, 3),
        run("optimised", alone),
        run("planner", planner),
        *(
            run("ablation", dict.fromkeys(("zero-shot", "last", "anneal"), measured(0.1 * i)), name=name)
            for i, name in enumerate(ABLATIONS)
        ),
    ]
