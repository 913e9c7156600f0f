"""The list of models: its formulas are the sizes of the models."""

from __future__ import annotations

import re

import numpy as np
import pytest

from heuristics import HEURISTICS
from instances import InputError, Instance, Platform
from instances.random_graphs import regal_style
from mtpp_models import MODELS, SolveOptions, catalogue


@pytest.mark.parametrize(("nodes", "k"), [(12, 5), (20, 6)])
def test_formulas_are_the_sizes(nodes: int, k: int) -> None:
    """Of the largest case, as Theorem 4.1 and Corollary 4.3 have them, of all models that need a solver."""
    instance = Instance(regal_style("watts-strogatz", nodes, seed=0), Platform(k, 1.0))
    graph = instance.graph
    numbers = {"n": graph.n, "m": graph.m, "t": len({*graph.edge_tensor.tolist()}), "k": k}
    frame = catalogue(instance).set_index("name")
    assert list(frame.index[~frame["needs_start"]]) == list(MODELS)
    for name, row in frame[frame["variables"].notna()].iterrows():
        for formula, number in ((row["variables"], row["n_variables"]), (row["rows"], row["n_rows"])):
            product = re.sub(r"(?<=[\w)]) (?=[\w(])", "*", formula)
            assert eval(product, {}, numbers) == number, name
    assert frame.loc["guess-the-bottleneck", "cases"] == k
    assert frame.loc[["simple", "exact+all"], "n_rows"].isna().all()


def test_strengthened_models_are_counted_with_a_start() -> None:
    instance = Instance(regal_style("watts-strogatz", 12, seed=0), Platform(3, 1.0))
    start = HEURISTICS["kahn"].run(instance, np.random.default_rng(0))
    frame = catalogue(instance, start=start).set_index("name")
    assert frame.loc["exact+all", "needs_start"]
    assert frame.loc["exact+all", "n_rows"] > 0


def test_relaxation_root_and_bound_are_in_order() -> None:
    """Of each model within its margins, and none is above the optimum."""
    instance = Instance(regal_style("watts-strogatz", 10, seed=1), Platform(3, 1.0))
    start = HEURISTICS["local-search"].run(instance, np.random.default_rng(0))
    frame = catalogue(instance, start=start, options=SolveOptions()).set_index("name")
    optimum = frame.loc["exact", "best_bound"]
    solved = frame.dropna(subset="lp")
    assert len(solved) >= 11
    assert (solved["lp"] <= solved["best_bound"] * (1 + 1e-6)).all()
    assert (solved["root_bound"] <= solved["best_bound"] * (1 + 1e-6)).all()
    assert (frame["best_bound"] <= optimum * (1 + 1e-5)).all()


def test_options_need_an_instance() -> None:
    with pytest.raises(InputError, match="give one, or leave options out"):
        catalogue(options=SolveOptions())
