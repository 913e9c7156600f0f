"""Models as files, for other solvers and for reading."""

from __future__ import annotations

from pathlib import Path

from instances import InputError, Instance, Partition
from instances.deadline import Deadline
from instances.json_files import check_writable
from instances.partitioning.reductions import contract_groups
from mtpp_models.formulations.formulation import Formulation
from mtpp_models.registry import find_model

__all__ = ["write_model"]


def write_model(
    instance: Instance, model: str | Formulation, path: str | Path, start: Partition | None = None
) -> list[Path]:
    """Write the cases of a model as LP or MPS files.

    Parameters
    ----------
    instance : Instance
    model : str or Formulation
    path : path
        Ends in ``.lp`` or ``.mps``; with several cases their numbers are put before the suffix.
    start : Partition, optional
        Its bottleneck is the unit of the coefficients, as in `solve`; needed by a strengthened model, which is then
        written for the instance with its joins. Nodes that have to share a block are one node in the model.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    InputError
        If the suffix is another one, the model has no case, or a strengthened one has no start.
    """
    formulation, path = find_model(model), Path(path)
    if path.suffix not in (".lp", ".mps"):
        raise InputError(f"{path}: a model is written as .lp or .mps; choose one of these suffixes.")
    if not isinstance(formulation, Formulation):
        raise InputError(f"The model {formulation.name} needs no solver; there is nothing to write.")
    contraction = contract_groups(instance)
    question, known = contraction.instance.modelled(), None if start is None else contraction.restrict(start)
    known = None if known is None else Partition(question, known.block, known.order)
    cases = formulation.prepare(question, known, 0.0, Deadline()).cases
    if not cases:
        raise InputError(f"The start is optimal, so that of {formulation.name} nothing is left to write.")
    files = []
    for number, case in enumerate(cases, 1):
        file = path if len(cases) == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        check_writable(file)
        case.build().write(str(file), io_options={"symbolic_solver_labels": True})
        files.append(file)
    return files
