"""The models of partitions as a frame: what they are, and how large."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instances import Instance, Partition
from mtpp_models.exchange.files import builders
from mtpp_models.formulations.formulation import Formulation
from mtpp_models.formulations.relaxation import size_of
from mtpp_models.formulations.strengthening import Strengthening
from mtpp_models.formulations.superblocks import SuperblockFormulation
from mtpp_models.registry import MODELS, Model

if TYPE_CHECKING:
    import pandas as pd


def catalogue(instance: Instance | None = None, *, start: Partition | None = None) -> pd.DataFrame:
    """List all models of partitions, with their sizes.

    Parameters
    ----------
    instance : Instance, optional
        Of devices that are alike: its models are built and counted.
    start : Partition, optional
        For strengthened models, which are not counted without.

    Returns
    -------
    DataFrame
        A row a model in order of effort, strengthened ones after those that they are of: name, summary, reference,
        exact (whether its optimum is that of the question), bound (whether it bounds every partition), needs_start,
        variables and rows (by formula, as of `Formulation`; missing where no solver is needed). With an instance also
        cases, and of the largest case n_variables, n_rows and nonzeros as a solver gets them.

    Raises
    ------
    InputError
        If the devices of the instance are of several kinds, or the start belongs to another question.

    Examples
    --------
    >>> frame = catalogue().set_index("name")
    >>> frame.loc["exact", ["variables", "rows"]].tolist()
    ['n (k - 1) + t k + 1', 'n (k - 2) + 3 m (k - 1) + k']
    """
    import pandas as pd

    models: list[tuple[Model, bool]] = []
    for model in MODELS.values():
        models.append((model, False))
        if isinstance(model, SuperblockFormulation):
            models.append((model.strengthened(Strengthening()), True))
    return pd.DataFrame([_row(model, instance, start, needs_start=needs) for model, needs in models])


def _row(model: Model, instance: Instance | None, start: Partition | None, *, needs_start: bool) -> dict[str, Any]:
    formulation = model if isinstance(model, Formulation) else None
    sized = None if needs_start else formulation
    row = {
        "name": model.name,
        "summary": model.summary,
        "reference": model.reference,
        "exact": model.exact,
        "bound": model.is_bound,
        "needs_start": needs_start,
        "variables": (sized and sized.variables) or None,
        "rows": (sized and sized.rows) or None,
    }
    if instance is None:
        return row
    counted = dict.fromkeys(("cases", "n_variables", "n_rows", "nonzeros"))
    if formulation is not None and (start is not None or not needs_start):
        sizes = [size_of(build().model) for build in builders(instance, formulation, start).values()]
        largest = max(sizes)
        counted = {
            "cases": len(sizes),
            "n_variables": largest.columns,
            "n_rows": largest.rows,
            "nonzeros": largest.nonzeros,
        }
    return row | counted
