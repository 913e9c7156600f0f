"""Every model under the name that the command line and the tables use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from instances import Bound, InputError, Partition, Result
from instances.deadline import Deadline
from instances.registry import find
from mtpp_models.bounds.cuts import Algorithm, pigeonhole, pinned
from mtpp_models.bounds.ideals.ideals import ideals
from mtpp_models.bounds.kinds.ideals import ideals_of_kinds, pinned_kinds
from mtpp_models.bounds.kinds.priced import PricesOfKinds
from mtpp_models.bounds.priced.bisection import BISECTION, bisection
from mtpp_models.bounds.priced.priced import priced
from mtpp_models.bounds.priced.prices import priced_quick
from mtpp_models.cuts.max_flow import MOST_PAIRED
from mtpp_models.formulations.formulation import Formulation
from mtpp_models.formulations.guess_bottleneck import GUESS_THE_BOTTLENECK, GUESS_THE_BOTTLENECK_TIGHT
from mtpp_models.formulations.kinds import FORMULATIONS_OF_KINDS, KindFormulation
from mtpp_models.formulations.strengthening import Strengthening
from mtpp_models.formulations.superblocks import EXACT, SuperblockFormulation, coarse
from mtpp_models.formulations.three_superblock import BOTTLENECK, BOTTLENECK_NO_CUT_IO, BOTTLENECK_NO_DAG
from mtpp_models.simple import simple, simple_by_kinds
from mtpp_models.solvers.interface import Controls

Model = Algorithm | Formulation


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
    Algorithm("pinned", "minimum cut around each node", "this project, mtpp_models/bounds/cuts.py", _timed(pinned)),
    Algorithm(
        "pigeonhole",
        "minimum cuts around pairs of nodes, two of which share a block",
        "this project, mtpp_models/bounds/cuts.py",
        _timed(pigeonhole),
        MOST_PAIRED,
    ),
    Algorithm(
        "ideals",
        "dynamic program over ideals, for narrow graphs",
        "this project, mtpp_models/bounds/ideals/ideals.py",
        _timed(ideals),
        exact=True,
    ),
)

_BISECTION = Algorithm(
    BISECTION,
    "cheapest cut into two halves; for two blocks, if nothing overflows, the optimum",
    "this project, mtpp_models/bounds/priced/bisection.py",
    bisection,
    MOST_PAIRED,
)

_PRICED_QUICK = Algorithm(
    "priced-quick",
    "cheapest block that is worth its share of prices that are guessed",
    "this project, mtpp_models/bounds/priced/prices.py",
    priced_quick,
    MOST_PAIRED,
)

_PRICED = Algorithm(
    "priced",
    "cheapest block that is worth its share of the best prices of nodes",
    "this project, mtpp_models/bounds/priced/priced.py",
    priced,
    MOST_PAIRED,
)

#: Name to model, in order of effort.
MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        *_ALGORITHMS,
        _BISECTION,
        _PRICED_QUICK,
        BOTTLENECK_NO_DAG,
        BOTTLENECK_NO_CUT_IO,
        BOTTLENECK,
        GUESS_THE_BOTTLENECK,
        GUESS_THE_BOTTLENECK_TIGHT,
        coarse(2),
        _PRICED,
        coarse(4),
        EXACT,
    )
}


class KindModel(Algorithm):
    """Bound for kinds of devices, whose start is a partition over them."""


_OF_KINDS = (
    KindModel(
        "simple",
        "devices of several kinds: the speed of all of them together, and the heaviest node",
        "this project, mtpp_models/simple.py",
        _timed(simple_by_kinds),
    ),
    KindModel(
        "pinned",
        "minimum cut around each node",
        "this project, mtpp_models/bounds/kinds/ideals.py",
        _timed(pinned_kinds),
    ),
    KindModel(
        "ideals",
        "dynamic program over ideals, for narrow graphs",
        "this project, mtpp_models/bounds/kinds/ideals.py",
        _timed(lambda start, deadline: ideals_of_kinds(start.instance, start, deadline)),
        exact=True,
    ),
)
_PRICED_KINDS = KindModel(
    "priced",
    "best prices of nodes and kinds",
    "this project, mtpp_models/bounds/kinds/priced.py",
    lambda start, controls: PricesOfKinds()(start, controls),
    MOST_PAIRED,
)

#: Name to model for several kinds of devices, in order of effort.
KIND_MODELS: dict[str, KindModel | KindFormulation] = {
    model.name: model for model in (*_OF_KINDS, *FORMULATIONS_OF_KINDS[:-1], _PRICED_KINDS, FORMULATIONS_OF_KINDS[-1])
}


def prices_that_go_on() -> KindModel:
    """The model `priced`, which continues when it is called again."""
    return replace(_PRICED_KINDS, run=PricesOfKinds())


def find_model(model: str | Model, parts: Strengthening | None = None) -> Model:
    """The model of a name, as "exact" or, strengthened, "exact+all"; models pass through.

    Parameters
    ----------
    parts : Strengthening, optional
        What to add to it besides.

    Raises
    ------
    InputError
        If the name is unknown, or the model cannot be strengthened.
    """
    if not isinstance(model, str) and not hasattr(model, "prove"):
        raise InputError(f"The model is given by its name, not by {type(model).__name__}.")
    if isinstance(model, str):
        name, plus, text = model.partition("+")
        model = find(MODELS, name, "model")
        if plus:
            model = _strengthened(model, Strengthening.of(text))
    return model if parts is None else _strengthened(model, parts)


def _strengthened(model: Model, parts: Strengthening) -> Model:
    """The model with these parts; without any part it is as published."""
    if not any(vars(parts).values()):
        return model
    if not isinstance(model, SuperblockFormulation) or not model.is_bound:
        raise InputError(f"The model {model.name} cannot be strengthened; exact and coarse-J can.")
    return model.strengthened(parts)
