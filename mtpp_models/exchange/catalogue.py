"""Table of the models of partitions, with their sizes and bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from instances import InputError, Instance, Partition
from mtpp_models.exchange.files import builders
from mtpp_models.formulations.formulation import Formulation, size_of
from mtpp_models.formulations.strengthening import Strengthening
from mtpp_models.formulations.superblocks import SuperblockFormulation
from mtpp_models.registry import MODELS, Model
from mtpp_models.solve_model import relaxation, solve
from mtpp_models.solvers.interface import Progress, SolveOptions

if TYPE_CHECKING:
    import pandas as pd

# HiGHS stops behind the root node.
_ROOT = {"mip_max_nodes": 1}


def catalogue(
    instance: Instance | None = None, *, start: Partition | None = None, options: SolveOptions | None = None
) -> pd.DataFrame:
    """List all models of partitions with their sizes and the bounds that they prove.

    Parameters
    ----------
    instance : Instance, optional
        Question with alike devices, whose models are built and counted.
    start : Partition, optional
        For strengthened models, which are not counted without.
    options : SolveOptions, optional
        Solve each model, too; the time is for each. An instance is needed.

    Returns
    -------
    DataFrame
        A row a model in order of effort, strengthened ones after those that they are of: name, summary, reference,
        exact (whether its optimum is that of the question), bound (whether it bounds every partition), needs_start,
        variables and rows (by formula, as in `Formulation`; missing where no solver is needed). With an instance also
        cases, and of the largest case n_variables, n_rows and nonzeros as a solver gets them. With options also lp (the
        value of the linear relaxation), root_bound (that of HiGHS behind the root nodes), best_bound, nodes and seconds
        of the model itself, bounds in the time unit of the instance; missing where there is none.

    Raises
    ------
    InputError
        If the devices of the instance are of several kinds, the start belongs to another question, or there are options
        without an instance.
    SolverNotAvailableError
        If the solver cannot run here.

    Examples
    --------
    >>> frame = catalogue().set_index("name")
    >>> frame.loc["exact", ["variables", "rows"]].tolist()
    ['n (k - 1) + t k + 1', 'n (k - 2) + 3 m (k - 1) + k']
    """
    import pandas as pd

    if options is not None and instance is None:
        raise InputError("The catalogue solves models of an instance; give one, or leave options out.")
    models: list[tuple[Model, bool]] = []
    for model in MODELS.values():
        models.append((model, False))
        if isinstance(model, SuperblockFormulation):
            models.append((model.strengthened(Strengthening()), True))
    rows = []
    for model, needs_start in models:
        rows.append(_row(model, instance, start, needs_start=needs_start))
        if instance is not None and options is not None and (start is not None or not needs_start):
            rows[-1] |= _proofs(model, instance, start, options)
    return pd.DataFrame(rows)


def _proofs(model: Model, instance: Instance, start: Partition | None, options: SolveOptions) -> dict[str, Any]:
    """Columns of a row: bounds of a model by its linear relaxation, at the root and at the end, nodes and seconds."""
    nodes: dict[str, int] = {}

    def count(moment: Progress) -> None:
        if moment.nodes is not None:
            nodes[moment.case] = moment.nodes

    result = solve(instance, model, options, start=start, on_progress=count)
    proofs: dict[str, Any] = {"best_bound": result.bound and result.bound.value, "seconds": result.spent}
    if isinstance(model, Formulation):
        root = None
        if options.solver == "highs":
            root = solve(instance, model, replace(options, solver_options=_ROOT), start=start).bound
        lp = relaxation(instance, model, options, start=start).value
        proofs |= {"lp": lp, "root_bound": root and root.value, "nodes": sum(nodes.values()) or None}
    return proofs


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
