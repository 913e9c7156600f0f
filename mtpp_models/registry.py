"""Every formulation under the name that the command line and the tables use."""

from __future__ import annotations

from instances import InputError
from mtpp_models.coarse import coarse
from mtpp_models.exact import EXACT
from mtpp_models.formulation import Formulation
from mtpp_models.guess_bottleneck import GUESS_THE_BOTTLENECK
from mtpp_models.three_superblock import BOTTLENECK, BOTTLENECK_NO_CUT_IO, BOTTLENECK_NO_DAG

__all__ = ["MODELS", "find_model"]

SIMPLE = Formulation(
    "simple", "the larger of the heaviest node and the work per block", "MTPP, Lemma 4.2, eq. (13)", lambda _: ()
)

#: Name to formulation, in order of effort.
MODELS = {
    model.name: model
    for model in (
        SIMPLE,
        BOTTLENECK_NO_DAG,
        BOTTLENECK_NO_CUT_IO,
        BOTTLENECK,
        GUESS_THE_BOTTLENECK,
        coarse(2),
        coarse(3),
        coarse(4),
        coarse(8),
        EXACT,
    )
}


def find_model(model: str | Formulation) -> Formulation:
    """The formulation of a name; formulations pass through.

    Raises
    ------
    InputError
        If the name is unknown.
    """
    if isinstance(model, Formulation):
        return model
    if model not in MODELS:
        raise InputError(f"There is no model called {model!r}; choose one of {', '.join(MODELS)}.")
    return MODELS[model]
