"""Every formulation under the name that the command line and the tables use."""

from __future__ import annotations

from collections.abc import Callable

from instances import Bound, Partition, Result
from instances.deadline import Deadline
from instances.lookup import find
from mtpp_models.bounds.ideals.ideals import ideals
from mtpp_models.bounds.pigeonhole import pigeonhole
from mtpp_models.bounds.pinned import pinned
from mtpp_models.bounds.priced.priced import priced
from mtpp_models.formulations.exact import EXACT
from mtpp_models.formulations.formulation import Algorithm, Formulation
from mtpp_models.formulations.guess_bottleneck import GUESS_THE_BOTTLENECK
from mtpp_models.formulations.parts import Strengthening
from mtpp_models.formulations.strengthened import strengthened
from mtpp_models.formulations.superblocks import coarse
from mtpp_models.formulations.three_superblock import BOTTLENECK, BOTTLENECK_NO_CUT_IO, BOTTLENECK_NO_DAG
from mtpp_models.simple import simple
from mtpp_models.solvers.interface import Controls

__all__ = ["MODELS", "find_model"]


def _timed(
    prove: Callable[[Partition, Deadline | None], Result],
) -> Callable[[Partition, Controls], Result]:
    """An algorithm that needs, of all controls, the deadline alone."""
    return lambda start, controls: prove(start, controls.deadline)


_ALGORITHMS = (
    Algorithm(
        "simple",
        "the larger of the heaviest node and the work per block",
        "MTPP, Lemma 4.2, eq. (13)",
        lambda start, _: Result("simple", start.instance, start, Bound(simple(start.instance), "simple")),
    ),
    Algorithm("pinned", "minimum cut around each node", "this project, mtpp_models/bounds/pinned.py", _timed(pinned)),
    Algorithm(
        "pigeonhole",
        "minimum cuts around pairs of nodes, two of which share a block",
        "this project, mtpp_models/bounds/pigeonhole.py",
        _timed(pigeonhole),
    ),
    Algorithm(
        "ideals",
        "dynamic program over ideals, for narrow graphs",
        "this project, mtpp_models/bounds/ideals/ideals.py",
        _timed(ideals),
        exact=True,
    ),
)

_PRICED = Algorithm(
    "priced",
    "cheapest block that is worth its share of the best prices of nodes",
    "this project, mtpp_models/bounds/priced/priced.py",
    priced,
)

#: Name to model, in order of effort.
MODELS: dict[str, Algorithm | Formulation] = {
    model.name: model
    for model in (
        *_ALGORITHMS,
        BOTTLENECK_NO_DAG,
        BOTTLENECK_NO_CUT_IO,
        BOTTLENECK,
        GUESS_THE_BOTTLENECK,
        coarse(2),
        _PRICED,
        coarse(4),
        EXACT,
    )
}


def find_model(model: str | Algorithm | Formulation) -> Algorithm | Formulation:
    """The model of a name, as "exact" or, strengthened, "exact+all"; models pass through.

    Raises
    ------
    InputError
        If the name is unknown.
    """
    if isinstance(model, (Algorithm, Formulation)):
        return model
    name, plus, parts = model.partition("+")
    found = find(MODELS, name, "model")
    return strengthened(found, Strengthening.of(parts)) if plus else found
