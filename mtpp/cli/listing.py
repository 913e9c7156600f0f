"""The verbs ``mtpp list`` and ``mtpp versions``: what there is to choose from, from the registries, and on what."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Annotated

import typer

from instances.registry import find
from mtpp.cli.command import command
from mtpp.cli.exit_codes import DONE
from mtpp.cli.printing import Printing
from mtpp.text.tables import left_aligned

Rows = list[tuple[str, ...]]


def _methods(module: str, registry: str) -> Rows:
    """Methods of this project and of installed packages, by the module and the name of their registry."""
    methods = getattr(import_module(module), registry)
    methods.load()
    return [(name, method.summary, f"[{method.reference}]") for name, method in methods.items()]


def _models() -> Rows:
    from mtpp.certifying.planning import MILPS
    from mtpp_models import MODELS
    from mtpp_models.placement.registry import PLACEMENT_MODELS
    from mtpp_models.planning.models import FORMS

    both = (*MODELS.items(), *PLACEMENT_MODELS.items())
    models = [(name, model.summary, f"[{model.reference}]") for name, model in both]
    plans = [(name, f"mtpp plan --planner {name}: {FORMS[form].summary}") for name, form in MILPS.items()]
    return [*models, *((name, summary, "[mtpp_models/planning]") for name, summary in plans)]


def _solvers() -> Rows:
    from mtpp_models import SOLVERS, available_solvers

    here = available_solvers()
    return [(name, here.get(name, f"not available: install {spec.package}")) for name, spec in SOLVERS.items()]


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
    from instances.architectures import ARCHITECTURES

    return [
        (name, architecture.summary, " ".join(f"{dim}={value}" for dim, value in architecture.dims.items()))
        for name, architecture in ARCHITECTURES.items()
    ]


def _readers() -> Rows:
    from instances.readers import READERS

    return [(name, reader.summary) for name, reader in READERS.items()]


def _devices() -> Rows:
    from instances.graph.display import figures
    from instances.machines import SHIPPED

    rows: Rows = []
    for name, kind in SHIPPED.items():
        assert kind.roofline is not None
        assert kind.bandwidth is not None
        peak, own = kind.roofline.peak_flops / 1e12, figures(kind.roofline.memory_bandwidth, "bytes/s")
        sizes = figures(kind.memory, "bytes"), figures(kind.bandwidth, "bytes/s")
        rows.append((name, f"{peak:g} TFLOP/s", f"{own} to {sizes[0]}", f"{sizes[1]} to others"))
    return rows


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


@command
def list_names(*, what: Annotated[str, typer.Argument(metavar="|".join(LISTINGS))], printing: Printing) -> int:
    """List what there is to choose from, with one line about each."""
    rows = find(LISTINGS, what, "list")()
    printing.say(left_aligned([row[:1] for row in rows] if printing.quiet else rows))
    printing.document(lambda: [{"name": name, "about": about} for name, *about in rows])
    return DONE


@command
def show_versions(*, printing: Printing) -> int:
    """Print the versions of everything that can change an answer."""
    from mtpp.versions import versions

    found = versions()
    printing.say(left_aligned(list(found.items())[: 1 if printing.quiet else None]))
    printing.document(lambda: found)
    return DONE
