"""Linear and integer optimum of every formulation on a few instances, in golden.json.

The linear values document which formulation is tighter. ``make golden`` writes them anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instances import Instance, Platform
from instances.random_graphs import TOYS, regal_style
from mtpp_models import MODELS, SolveOptions, solve
from mtpp_models.registry import Algorithm

FILE = Path(__file__).with_name("golden.json")

# What is frozen must not depend on the speed of a machine.
_TO_THE_END = SolveOptions()

INSTANCES = {
    "four-blocks": TOYS["four-blocks"]()[0],
    "independent-jobs": TOYS["independent-jobs"]()[0],
    "misleading-edge": TOYS["misleading-edge"]()[0],
    "barabasi-albert-14, k = 3": Instance(regal_style("barabasi-albert", 14, seed=0), Platform(3, 1.0)),
    "watts-strogatz-12, k = 4": Instance(regal_style("watts-strogatz", 12, seed=0), Platform(4, 1.0)),
    "watts-strogatz-12, k = 3, memory 100 and buffer 60": Instance(
        regal_style("watts-strogatz", 12, seed=0), Platform(3, 1.0, memory=100.0, activation_buffer=160.0)
    ),
}


def values(name: str, model: str) -> dict[str, float]:
    """Bound of the linear relaxation and of the model itself; algorithms have no relaxation, and run once."""

    def bound(relaxation: bool) -> float:
        found = solve(INSTANCES[name], model, _TO_THE_END, relaxation=relaxation).bound
        assert found is not None
        assert found.optimal
        return found.value

    whole = bound(relaxation=False)
    return {"lp": whole if isinstance(MODELS[model], Algorithm) else bound(relaxation=True), "mip": whole}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", INSTANCES)
def test_golden_values(name: str, model: str) -> None:
    golden = json.loads(FILE.read_text())
    assert values(name, model) == pytest.approx(golden[name][model], rel=1e-6)


def renewed(name: str, model: str) -> dict[str, float]:
    """The values of before where they still hold, so that a difference means something."""
    new, old = values(name, model), json.loads(FILE.read_text()).get(name, {}).get(model)
    return old if old == pytest.approx(new, rel=1e-6) else new


if __name__ == "__main__":
    golden = {name: {model: renewed(name, model) for model in MODELS} for name in INSTANCES}
    FILE.write_text(json.dumps(golden, indent=1) + "\n")
