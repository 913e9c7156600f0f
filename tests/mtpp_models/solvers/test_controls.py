"""What solvers are told: options that make sense, the time that is left, and every control."""

from __future__ import annotations

from typing import Any

import highspy
import pytest

from instances import InputError, Instance, Platform
from instances.deadline import Deadline
from instances.random_graphs import TOYS, regal_style
from mtpp_models import MODELS, ScaledInstance, SolveOptions, solve
from mtpp_models.simple import one_block
from mtpp_models.solvers.highs import run_highs
from mtpp_models.solvers.interface import Controls
from mtpp_models.solvers.modeling import pyo


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_limit": 0}, "time_limit=0: "),
        ({"time_limit": float("nan")}, "time_limit=nan: "),
        ({"gap": 1.5}, "gap=1.5: "),
        ({"threads": 0}, "threads=0: "),
        ({"seed": -1}, "seed=-1: "),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SolveOptions(**options)


def test_controls_default_to_an_exact_run() -> None:
    assert (Controls().options.gap, Controls().options.threads, Controls().time_limit) == (0.0, 1, None)


def test_a_little_time_is_always_left() -> None:
    assert Controls(deadline=Deadline.after(1000.0)).time_limit == pytest.approx(1000, abs=50)
    left = Controls(deadline=Deadline.after(0)).time_limit
    assert left is not None
    assert left > 0
    assert Controls().time_limit is None


def test_highs_is_told_every_control(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, _ = TOYS["four-blocks"]()
    names = ("mip_rel_gap", "mip_abs_gap", "random_seed", "threads", "time_limit", "mip_feasibility_tolerance")
    told: list[dict[str, float]] = []

    class Recorded(highspy.Highs):
        def run(self) -> highspy.HighsStatus:
            told.append({name: self.getOptionValue(name)[1] for name in names})
            return super().run()

    monkeypatch.setattr(highspy, "Highs", Recorded)
    (case,) = MODELS["bottleneck"].cases(ScaledInstance.near(instance, None))
    run_highs(case.model(), Controls(SolveOptions(gap=0.25, threads=2, seed=7), Deadline.after(50.0), tolerance=1e-8))
    [options] = told
    assert 0 < options.pop("time_limit") < 50.0  # handing the model over took some of it
    assert options == {
        "mip_rel_gap": 0.25,
        "mip_abs_gap": 0.0,
        "random_seed": 7,
        "threads": 2,
        "mip_feasibility_tolerance": 1e-8,
    }


@pytest.mark.parametrize(("model", "searches"), [("exact", True), ("exact+all", False)])
def test_below_a_cutoff_highs_solves_no_programs_beside_its_proof(
    model: str, searches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They took a third to half of the time to a proof that nothing is better than what a search had found."""
    instance = Instance(regal_style("erdos-renyi", 12, seed=1), Platform(3, bandwidth=1.0))
    told: list[bool] = []

    class Recorded(highspy.Highs):
        def run(self) -> highspy.HighsStatus:
            told.append(self.getOptionValue("mip_heuristic_run_root_reduced_cost")[1])
            return super().run()

    monkeypatch.setattr(highspy, "Highs", Recorded)
    solve(instance, model, start=one_block(instance))
    assert set(told) == {searches}


def test_highs_keeps_small_coefficients() -> None:
    """It drops those below 1e-9 by default, and x would have to be 1."""
    model = pyo.ConcreteModel()
    model.x, model.y = pyo.Var(bounds=(0, 2)), pyo.Var(bounds=(0, 1e9))
    model.row = pyo.Constraint(expr=model.x + 5e-10 * model.y >= 1)
    model.objective = pyo.Objective(expr=model.x)
    assert run_highs(model, Controls()).bound == pytest.approx(0.5)
