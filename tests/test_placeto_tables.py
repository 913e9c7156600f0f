"""The runs and tables of learned placement: resumed, repeated, and honest about what does not hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

from experiments.placement_jobs import ABLATIONS, Budget, PlacementJob, plan_jobs
from experiments.placement_runs import execute, make_runs
from experiments.placement_tables import TABLES, Measured, claims, make_placement_tables, plot_distributions
from experiments.rendering import FORMATS
from experiments.runs import Run, RunLog
from instances import InputError

pytest.importorskip("torch", reason="PyTorch is not installed")

RIVALS = ("single", "random, mean", "random", "expert", "metis", "heft", "climb, 6n", "anneal, long")


def measured(*times: float, simulations: int | None = 10) -> dict[str, Any]:
    return {"times": list(times), "simulations": None if simulations is None else [simulations] * len(times)}


def run(what: str, answer: dict[str, Any] | None, seed: int = 0, **options: Any) -> Run:
    error = "it broke" if answer is None else None
    return {"instance": "nmt", "method": what, "seed": seed, "options": options, "answer": answer, "error": error}


def fast(zero_shot: float) -> dict[str, Any]:
    names = ["zero-shot", "sampled", "anneal, as zero-shot", "anneal, as sampled", "zero-shot + climb, 4n"]
    for other in ("large", "k = 2", "k = 8"):
        names += [other, f"{other}: anneal", f"{other}: metis", f"{other}: heft"]
    return {name: measured(0.6, 0.8) for name in names} | {"zero-shot": measured(zero_shot), "orders": [0.49, 0.5]}


def runs() -> list[Run]:
    alone = {name: measured(0.5) for name in ("likeliest", "best", "anneal, as best")}
    planner = {"zero-shot": measured(0.9), "best": measured(0.8)}
    return [
        run("rivals", {name: measured(0.7, simulations=None) for name in RIVALS}),
        *(run("fast", fast(value), seed) for seed, value in enumerate((0.5, 0.9, 0.6))),
        run("fast", None, 3),
        run("optimised", alone),
        run("planner", planner),
        *(run("ablation", {"zero-shot": measured(0.1 * i)}, name=name) for i, name in enumerate(ABLATIONS)),
    ]


def test_values_are_medians_of_seeds_of_means_of_graphs() -> None:
    found = Measured(runs())
    assert found.value("nmt", "fast", "zero-shot") == 0.6
    assert found.value("nmt", "fast", "sampled") == pytest.approx(0.7)
    assert found.value("nmt", "fast", "sampled", 1) == 0.6
    assert found.simulations("nmt", "fast", "zero-shot") == 10
    assert found.simulations("nmt", "rivals", "heft") is None


def test_what_was_not_measured_is_missing_and_holds_nothing() -> None:
    found = Measured([r for r in runs() if r["method"] != "rivals"])
    assert found.value("nmt", "rivals", "heft") is None
    beaten = {claim.text: claim for claim in claims(found)}["nmt: zero-shot beats heft"]
    assert beaten.holds is None
    assert beaten.measured == "0.600, –"


def test_claims_that_do_not_hold_say_no() -> None:
    found = {claim.text: claim.holds for claim in claims(Measured(runs()))}
    assert found["nmt: zero-shot beats heft"]
    assert not found["nmt: zero-shot is within 5 % of the best placement of optimising for the graph"]
    assert found["nmt: optimised Placeto beats the optimised planner"]
    assert found["nmt: any traversal order is within 3 % of their mean"]
    assert found["ablation: the full policy beats the partitioner"]
    header, rows = TABLES["claims"][1](Measured(runs()))
    assert header == ["claim", "of", "holds", "measured"]
    assert {row[2] for row in rows} == {"yes", "NO"}


@pytest.mark.parametrize("style", FORMATS)
def test_every_table_can_be_written(style: str) -> None:
    for _, rows in TABLES.values():
        header, body = rows(Measured(runs()))
        assert all(len(row) == len(header) for row in body)
        assert FORMATS[style](header, body)


def test_distributions_have_a_line_a_method() -> None:
    ax = plot_distributions(Measured(runs()), "nmt")
    labels = ax.get_legend_handles_labels()[1]
    plt.close(ax.figure)  # type: ignore[arg-type]
    assert {"random", "planner, zero-shot", "planner, optimised", "placeto, zero-shot"} <= set(labels)


def test_jobs_are_all_different_and_named_by_what_they_depend_on() -> None:
    jobs = plan_jobs(["ptb"], Budget(seeds=2))
    assert len({job.key for job in jobs}) == len(jobs) == 1 + 2 * (3 + len(ABLATIONS))
    more = plan_jobs(["ptb"], Budget(updates=151, seeds=2))
    assert sum(a.key != b.key for a, b in zip(jobs, more, strict=True)) == 2


def test_runs_repeat_and_resume(tmp_path: Path) -> None:
    job = PlacementJob("ptb", "ablation", 0, {"name": "fast", "updates": 1, **ABLATIONS["fast"]})
    with RunLog(tmp_path / "runs.jsonl") as log:
        (first,) = make_runs([job], log)
        size = (tmp_path / "runs.jsonl").stat().st_size
        (again,) = make_runs([job], log)
    assert first == again
    assert (tmp_path / "runs.jsonl").stat().st_size == size
    assert execute(job)["answer"] == first["answer"]
    assert len(first["answer"]["zero-shot"]["times"]) == 16


def test_an_unknown_format_is_refused_before_any_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="choose one of"):
        make_placement_tables(budget=Budget(), out=tmp_path / "runs.jsonl", folder=None, style="doc")
    assert not (tmp_path / "runs.jsonl").exists()
