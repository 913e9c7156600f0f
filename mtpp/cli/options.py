"""Options of the command line: panels of the help, lists of values, spelling, and options that several verbs share."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from instances.architectures import ARCHITECTURES
from instances.errors import extra
from instances.machines import SHIPPED
from instances.readers import READERS
from mtpp.questions import words

# Names that there are to choose from, from the registries; a registry is loaded when it is asked.


Rows = list[tuple[str, ...]]


def _methods(module: str, registry: str) -> Rows:
    """Methods of this project and of installed packages, from a registry by module and name."""
    methods = getattr(import_module(module), registry)
    methods.load()
    return [(name, method.summary, f"[{method.reference}]") for name, method in methods.items()]


def _models() -> Rows:
    from mtpp.certifying.methods import MILPS
    from mtpp_models import MODELS
    from mtpp_models.placement.registry import PLACEMENT_MODELS
    from mtpp_models.planning.models import FORMS

    MODELS.load()
    registered = (*MODELS.items(), *PLACEMENT_MODELS.items())
    models = [(name, model.summary, f"[{model.reference}]") for name, model in registered]
    plans = [(name, f"mtpp plan --planner {name}: {FORMS[form].summary}") for name, form in MILPS.items()]
    return [*models, *((name, summary, "[mtpp_models/planning]") for name, summary in plans)]


def _solvers() -> Rows:
    from mtpp_models import SOLVERS, SolverNotAvailableError, available_solvers
    from mtpp_models.placement.cp import CP_SOLVER, cp_version

    available, packages = available_solvers(), {name: spec.remedy for name, spec in SOLVERS.items()}
    with suppress(SolverNotAvailableError):
        available[CP_SOLVER] = cp_version()
    packages[CP_SOLVER] = f"for mtpp place, {extra('place-cp')}"
    return [(name, available.get(name, f"not available: {package}")) for name, package in packages.items()]


def _suites() -> Rows:
    from instances.suites import SUITES

    return [(name, f"{len(suite.entries)} graphs", suite.summary) for name, suite in SUITES.items()]


def _networks() -> Rows:
    from instances.suites.suite import NETWORKS

    return [
        (it.network, f"{it.package} {it.version}", it.licence, f"{it.nodes} nodes", f"{it.edges} edges", it.cluster)
        for it in NETWORKS
    ]


def _architectures() -> Rows:
    return [
        (name, architecture.summary, " ".join(f"{dim}={value}" for dim, value in architecture.dims.items()))
        for name, architecture in ARCHITECTURES.items()
    ]


def _readers() -> Rows:
    return [(name, reader.summary) for name, reader in READERS.items()]


def _devices() -> Rows:
    return [(name, *kind.rates) for name, kind in SHIPPED.items()]


#: What can be listed, and its rows.
LISTINGS: dict[str, Callable[[], Rows]] = {
    "heuristics": partial(_methods, "heuristics", "HEURISTICS"),
    "models": _models,
    "solvers": _solvers,
    "devices": _devices,
    "suites": _suites,
    "networks": _networks,
    "architectures": _architectures,
    "readers": _readers,
    "planners": partial(_methods, "heuristics.planning", "PLANNERS"),
    "placers": partial(_methods, "heuristics.placement", "PLACERS"),
    "runtimes": partial(_methods, "instances.runtimes", "RUNTIMES"),
}


# Options and arguments; the shell completes their values.


def argument(**settings: Any) -> Any:
    """A `typer.Argument` whose values the shell completes."""
    return typer.Argument(autocompletion=_choices(settings), **settings)


def of_panel(panel: str, *flags: str, basic: bool = True, **settings: Any) -> Any:
    """A `typer.Option` in a panel of the help; an option that is not basic is left out of the short help."""
    option = typer.Option(*flags, rich_help_panel=panel, autocompletion=_choices(settings), **settings)
    option.basic = basic  # for `mtpp.cli.command`
    return option


def _choices(settings: dict[str, Any]) -> Callable[[], list[tuple[str, str]]] | None:
    """Function that returns completions with a line about each, from metavar and help; None if they list no values."""
    values = [
        value for value in re.split(r"[][|]", settings.get("metavar") or "") if value.isalnum() and value.islower()
    ]
    lists = re.findall(r"mtpp list (\w+)", settings.get("help") or "")

    def choices() -> list[tuple[str, str]]:
        rows = (row for name in lists for row in LISTINGS[name]())
        return [*((value, "") for value in values), *((name, about) for name, about, *_ in rows)]

    return choices if values or lists else None


of_question, of_machines, of_limits, of_search, of_files, of_output = (
    partial(of_panel, panel) for panel in words.PANELS
)
# Words whose options are called otherwise.
_OPTIONS = {"k": "-k", "dims": "--dim", "runtime": "--for", "solver_options": "--solver-option", "style": "--format"}


def option_of(name: str) -> str:
    """The option of a keyword argument, such as --time-limit for time_limit."""
    return _OPTIONS.get(name, f"--{name.replace('_', '-')}")


def spelled(name: str, value: Any) -> str:
    """A keyword argument with its value as an option in a shell."""
    if value is None or value is True:
        return option_of(name)
    return f"{option_of(name)} {shlex.quote(str(value).removesuffix('.0') if isinstance(value, float) else str(value))}"


Graph = Annotated[str, argument(metavar="GRAPH", help="An architecture (mtpp list architectures) or a file.")]
Answers = Annotated[
    list[Path],
    argument(metavar="FILE…", help="Files that certify, bound, plan, place, flow or serve wrote, or folders of split."),
]
GraphOfFile = Annotated[
    str | None, argument(metavar="[GRAPH]", help="That of a partition; the other files hold their graphs.")
]
GraphOfFiles = Annotated[
    str | None,
    of_question("--graph", basic=False, metavar="GRAPH", help="That of partitions; the other files hold their graphs."),
]
Blocks = Annotated[str, of_question("-k", metavar="K[,K…]", help="Number of blocks, or several.")]
BlocksOrAuto = Annotated[
    str | None,
    of_question(
        "-k",
        metavar="K[,K…]|auto",
        help="Number of blocks, or several; auto: the least with which it fits, or that reaches --throughput.",
    ),
]
Throughput = Annotated[
    str | None,
    of_question(basic=False, metavar="RATE", help="With -k auto: runs per unit of time to reach, such as 250/s."),
]
ExportFor = Annotated[str, of_question("--for", metavar="NAME", help="The runtime (mtpp list runtimes).")]
Out = Annotated[
    Path | None,
    of_files(metavar="FILE", help="Write the answer as JSON; of several k, '-kK' is put into the names."),
]
Json = Annotated[
    bool, of_output("--json", help="One JSON document on stdout, that of --out, and nothing else; of several k a list.")
]
Quiet = Annotated[bool, of_output("--quiet", basic=False, help="No progress, and of the answer the result line only.")]
Plot = Annotated[Path | None, of_files(metavar="FILE", help="Draw the answer (.png, .svg or .pdf).")]
