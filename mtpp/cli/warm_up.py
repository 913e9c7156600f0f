"""The verb ``mtpp warm-up``: compile all kernels before their first use, or copy them from another machine.

Run as a program, it compiles the bounds of partitions while a first `mtpp certify` searches, which ends the program.
"""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from instances import ComputationGraph, Instance, Partition, Platform
from instances.deadline import CLOCK, Deadline, Stopwatch
from instances.devices import NetworkCards
from instances.errors import InputError, InputWarning
from instances.flow.problem import FlowInstance
from instances.json_files import Value, check_readable, json_text
from instances.machines import Kind, Machines
from instances.partitioning.constraints import Constraints
from instances.placement.problem import PlacementInstance
from instances.planning import Cluster, LayerChain, TrainingInstance
from instances.system.processes import keeping_answers, processors, run_beside
from mtpp.cli import options
from mtpp.cli.command import Files, command, complain
from mtpp.cli.exit_codes import DONE, NOTHING
from mtpp.cli.printing import Printing
from mtpp.problems.checking import certificate_document, result_document, verify
from mtpp.questions.grid import grid_question
from mtpp.questions.planning import TrainWords
from mtpp.questions.serving import ServeWords, deployment_instance
from mtpp.questions.words import checked
from mtpp.verification.verdict import Clock

# Nodes of the graphs, evaluations of the searches, and seconds of the bounds.
_NODES, _FEW, _SECONDS = 12, 100, 2.0
# Seconds between two looks at the other processes.
_HEARTBEAT = 0.2
# Placers that need what may be missing.
_PROGRAMS = ("metis", "scotch", "placeto")
# A plan in a grid.
_GRID = {"global_batch": 4, "bandwidth": "1GB/s", "micro_batch": "1", "sequence": 8}
# Of what is needed later, beside what is waited for.
_NICENESS = 5
# What archives of machine code begin with.
_ARCHIVE = "mtpp-kernels/1"


@command
def warm_up(
    *,
    export: Annotated[
        Path | None, options.of_files(metavar="FILE", help="Write the machine code, for machines of this kind.")
    ] = None,
    import_file: Annotated[
        Path | None,
        options.of_files("--import", metavar="FILE", help="Take the machine code of such a file, which you trust."),
    ] = None,
    printing: Printing,
) -> int:
    """Compile all inner loops now, so that no later run has to.

    It takes two to three minutes of two processors after an update, and no time where all is compiled already.
    Machines with the same Python, numba and mtpp can share what one of them has compiled.
    Example: mtpp warm-up --export kernels.mtpp
    """
    from instances.compiled import is_warm, made_for, mark_warm, stored_code
    from instances.system.files import write_archive

    if import_file is not None:
        check_readable(import_file)
    Files(export).check()
    folder, done = is_warm(), "All is compiled"
    if folder is None and import_file is not None:
        folder, done = _imported(import_file), f"Taken from {import_file}"
    if folder is None:
        seconds = _compile(printing)
        folder, done = mark_warm(made_for()), f"Compiled in {seconds:.0f} s"
        if folder is None:
            return complain(
                "what was compiled is not kept: no folder for it can be written (NUMBA_CACHE_DIR names another), "
                "a source changed meanwhile, or numba is switched off.",
                NOTHING,
            )
    printing.say(f"{done}; the code is in {folder}")
    if export is not None:
        write_archive(export, _ARCHIVE, *stored_code(folder))
        printing.say(f"Written to {export}")
    printing.document(lambda: {"folder": str(folder)})
    return DONE


def _imported(path: Path) -> Path | None:
    """Folder with the machine code of a file; None, with a warning, if it does not fit this machine."""
    from instances.compiled import made_for, made_for_all, mark_warm, place_for
    from instances.system.files import read_archive, write_whole

    native, shared = made_for(), made_for_all()
    try:
        conditions, files = read_archive(path, _ARCHIVE, {name: {native[name], shared[name]} for name in native})
    except InputError as error:
        warnings.warn(f"{error} All is compiled here instead.", InputWarning, stacklevel=2)
        return None
    place = place_for(conditions)
    if place is None:
        return None
    for name, code in files.items():
        write_whole(place / name, code)
    return mark_warm(conditions)


def _compile(printing: Printing) -> float:
    """Run every method on tiny questions, in a process for each processor; return the seconds."""
    from mtpp_models import Progress

    logging.getLogger("instances.compiled").setLevel(logging.WARNING)  # who asks for it need not be told
    watch, still = Stopwatch(), CLOCK.still
    with (
        keeping_answers() as stop,
        run_beside(_GROUPS, processors() - 1) as (names, processes),
        printing.working("compiling") as live,
    ):
        for name in names:
            if stop.heard:  # by a method, which ended itself alone
                raise KeyboardInterrupt
            live.show(Progress(name, 0.0, None, None, None))
        for process in processes:
            while process.is_alive():
                process.join(_HEARTBEAT)
                live.show(Progress("in other processes", 0.0, None, None, None))
        if any(process.exitcode for process in processes):  # their fault shows here
            for name in (name for group in _GROUPS for name in group()):
                live.show(Progress(name, 0.0, None, None, None))
    return watch.passed + CLOCK.still - still


# Groups of methods: each yields the name of a method, and runs it next.


def _question() -> tuple[Instance, Partition]:
    """A small question with a partition."""
    from heuristics.orders.bisection import slice_by_bisection
    from instances.random_graphs import regal_style

    instance = Instance(regal_style("erdos-renyi", _NODES, seed=1), Platform(k=3, bandwidth=1.0))
    return instance, slice_by_bisection(instance, instance.graph.topological_order)


def _searches() -> Iterator[str]:
    import numpy as np

    from heuristics import HEURISTICS, Limits
    from heuristics.local_search.multilevel import clusters
    from heuristics.orders.slicing import segment_costs

    yield "slicing"
    instance, _ = _question()
    segment_costs(instance, instance.graph.topological_order)
    for name, method in HEURISTICS.items():
        yield name
        method.run(instance, np.random.default_rng(0), Limits(evaluations=_FEW))
    yield "coarsening"
    for reach_nodes in (0, _NODES):
        limits, kind = np.ones(2), np.zeros(_NODES, dtype=np.int64)
        clusters(instance, np.random.default_rng(0), limits, True, kind, 1, reach_nodes)


def _prices() -> Iterator[str]:
    yield from _bounds(("bisection", "priced", "priced-quick"))


def _ideals() -> Iterator[str]:
    import numpy as np

    from mtpp_models.bounds.ideals.dynamic_program import passing_tensors

    yield from _bounds(("ideals",))
    yield "passing tensors"
    graph = _question()[0].graph
    passing_tensors(Instance(graph, Platform(k=3, bandwidth=1.0, memory=1.0)), np.arange(_NODES))


def _cuts() -> Iterator[str]:
    import numpy as np

    from mtpp_models.cuts.conflicts import find_clique
    from mtpp_models.formulations.strengthening import Strengthening
    from mtpp_models.formulations.superblocks import EXACT

    yield from _bounds(("simple", "pinned", "levels", "pigeonhole"))
    yield "exact+all"
    find_clique(np.ones((_NODES, _NODES), dtype=np.bool_), 3)
    EXACT.strengthened(Strengthening.of("all")).prepare(*_question(), 0.0, Deadline())


def _bounds(names: Sequence[str]) -> Iterator[str]:
    from mtpp_models.registry import find_model
    from mtpp_models.solvers.interface import Controls

    results = []
    for name in names:
        yield name
        results.append(find_model(name).prove(*_question(), Controls(deadline=Deadline.after(_SECONDS))))
    yield "verification"
    _verify(certificate_document(results), "certificate")


def _verify(document: Any, what: str) -> None:
    verify(Value(json.loads(json_text(document)), what))


def _kinds() -> Iterator[str]:
    import numpy as np

    from heuristics import Limits, search
    from mtpp_models import MODELS, Algorithm, SolveOptions, solve

    yield "kinds of devices"
    graph = _question()[0].graph
    kinds = [Kind("fast", 1, speed=2.0, bandwidth=1.0), Kind("slow", 2, bandwidth=0.5)]
    for order in ("free", "fixed"):
        instance = Instance(graph, Machines(kinds, order))
        start = search(instance, "portfolio", np.random.default_rng(0), Limits(evaluations=_FEW)).partition
        for name in (name for name, model in MODELS.items() if isinstance(model, Algorithm) and model.kinds == "any"):
            solve(instance, name, SolveOptions(time_limit=_SECONDS), start=start)
    row = ComputationGraph.from_edges([(0, 1), (1, 2)], [1.0, 2.0, 1.0])
    rated = Instance(row, Machines(kinds, rates=[[1.0, 0.5], [0.5, 1.0]]))
    rules = Constraints(windows=((0, 0, 0),))
    within = Instance(row, Machines(kinds), constraints=rules)
    for machines in (rated, within):
        solve(machines, "ideals", start=search(machines, "portfolio", np.random.default_rng(0)).partition)


def _flows() -> Iterator[str]:
    import numpy as np

    from heuristics import Limits
    from heuristics.flow.search import search_flow
    from mtpp.api.planning import deployment
    from mtpp_models.flow.bounds import bound_flow
    from mtpp_models.flow.enumeration import enumerate_flows
    from mtpp_models.flow.weights import Hubs, exclude

    yield "deployments"
    words = checked(ServeWords, {"servers": "1x2xL4", "batch": 4, "ttft": "1s"})
    answer = deployment(deployment_instance("gpt2", None, None, words), None)
    _verify(result_document(answer), "deployment")
    yield "flows"
    capacity, rates = np.array([[0.0, 8.0, 4.0, 2.0]]), np.full((6, 6), 3.0)
    question = FlowInstance("flow", 3, ("0", "1", "2", "3"), np.zeros(4, dtype=np.int64), capacity, rates)
    result = search_flow(question, np.random.default_rng(0), Limits(evaluations=_FEW))
    bound_flow(question, result.answer)
    enumerated = enumerate_flows(question, _FEW * _FEW, result.answer)
    if enumerated is not None:
        _verify(certificate_document([enumerated]), "certificate")
    exclude(question, 5.0, Deadline())
    Hubs(question).exclude(5.0, Deadline())


def _plans() -> Iterator[str]:
    import numpy as np

    from heuristics.planning import PLANNERS
    from mtpp.certifying.methods import certify_plan

    layers, between = np.ones(4), np.ones(3)
    network = LayerChain(layers, 2 * layers, between, between, layers)
    instance = TrainingInstance(network, Cluster.of_servers([2, 2], within=2.0, between=1.0), 4)
    yield "shared network cards"
    covered = certify_plan(replace(instance, network=NetworkCards()), np.random.default_rng(0))
    _verify(certificate_document([covered]), "plan")
    for name in PLANNERS:
        yield name
        certify_plan(instance, np.random.default_rng(0), name)


def _grids() -> Iterator[str]:
    from mtpp.certifying.methods import certify_grid

    yield "plans in a grid"
    for fix in (None, "pp=2,v=2"):
        certify_grid(grid_question("gpt2", "1x2", checked(TrainWords, {**_GRID, "fix": fix})).instance)


def _placement() -> Iterator[str]:
    import numpy as np

    from heuristics import Limits
    from heuristics.placement import PLACERS
    from heuristics.placement.placeto import play_episodes
    from heuristics.placement.simulator import step_times
    from instances.placement.placement import Placement
    from instances.random_graphs import regal_style
    from mtpp.verification.placement.step_time import Step, TimeBounds
    from mtpp_models.placement.bounds import heads_of, share_devices
    from mtpp_models.placement.cp import probe_sharing
    from mtpp_models.placement.registry import bound_placement

    instance = PlacementInstance(regal_style("erdos-renyi", _NODES, seed=1), Machines.alike(2, 1.0))
    yield "step times"
    step_times(instance, np.zeros((1, _NODES), dtype=np.int64))
    for name, method in PLACERS.items():
        if name not in _PROGRAMS:
            yield name
            method.run(instance, np.random.default_rng(0), Limits(evaluations=_FEW))
    yield "placeto"
    play_episodes(instance, lambda active: [np.zeros((1, 2)) for _ in active], np.random.default_rng(0), ["empty"])
    yield "colocation"
    bound_placement(Placement(instance, np.arange(_NODES) % 2), "colocation")
    yield "second opinion on placements"
    bounds = TimeBounds.of(Step.exact(instance), instance, Fraction(instance.total_work))
    bounds.raise_both(Clock(_SECONDS))
    bounds.longest_group(Clock(_SECONDS))
    bounds.longest_window()
    yield "probing"
    probe_sharing(share_devices(heads_of(instance), instance.total_work, Deadline()), Deadline())


# What a first `mtpp certify` needs behind its search.
_BOUNDS = (_ideals, _cuts, _prices)
# The longest come first, so that all processors are at work to the end.
_GROUPS = (_placement, _plans, _prices, _searches, _ideals, _flows, _grids, _kinds, _cuts)


def _main() -> None:
    """Compile bounds in all processors but that of the command."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    with run_beside(_BOUNDS, processors() - 2) as (names, processes):
        for _ in names:
            pass
        for process in processes:
            process.join()


if __name__ == "__main__":
    _main()
