"""The verb ``mtpp warm-up``: compile ahead what is otherwise compiled when it is first needed."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import chain

from mtpp.cli.command import command, complain
from mtpp.cli.exit_codes import DONE, NOTHING
from mtpp.cli.printing import Printing

# Nodes of the graphs, evaluations of the searches, and seconds of the bounds.
_NODES, _FEW, _SECONDS = 12, 100, 2.0
_MODELS = ("simple", "pinned", "pigeonhole", "ideals", "bisection", "priced", "priced-quick")
# Seconds between two looks at the second process.
_HEARTBEAT = 0.2
# Placers that need what may be missing.
_PROGRAMS = ("metis", "scotch", "placeto")
# A plan in a grid.
_GRID = {"global_batch": 4, "bandwidth": "1GB/s", "micro_batch": "1", "sequence": 8}


@command
def warm_up(*, printing: Printing) -> int:
    """Compile all inner loops now, so that no later run has to.

    It takes about two minutes of two processors after an update, and no time where all is compiled already.
    Example: mtpp warm-up
    """
    from instances.compiled import has_code, is_warm, mark_warm

    folder = is_warm()
    if folder is None:
        alone = not has_code()
        seconds = _compile(printing)
        folder = mark_warm(alone)
        if folder is None:
            return complain(
                "what was compiled is not kept: no folder for it can be written (NUMBA_CACHE_DIR names another), "
                "a source changed meanwhile, or numba is switched off.",
                NOTHING,
            )
        printing.say(f"Compiled in {seconds:.0f} s; the code is in {folder}")
    else:
        printing.say(f"All is compiled; the code is in {folder}")
    printing.document(lambda: {"folder": str(folder)})
    return DONE


def _compile(printing: Printing) -> float:
    """Run every method on tiny questions, half of them in a second process; return the seconds it took."""
    from instances.deadline import CLOCK, Stopwatch
    from instances.system.processes import run_beside
    from mtpp_models import Progress

    logging.getLogger("instances.compiled").setLevel(logging.WARNING)  # who asks for it need not be told
    watch, still = Stopwatch(), CLOCK.still
    # What the second process cannot compile is compiled here.
    with run_beside(_plans_and_placements) as second, printing.working("compiling") as live:
        for name in _partitioning():
            live.show(Progress(name, 0.0, None, None, None))
        while second is not None and second.is_alive():
            second.join(_HEARTBEAT)
            live.show(Progress("plans and placements", 0.0, None, None, None))
        if second is None or second.exitcode:  # a fault of it shows here
            for name in _plans_and_placements():
                live.show(Progress(name, 0.0, None, None, None))
    return watch.passed + CLOCK.still - still


def _partitioning() -> Iterator[str]:
    """Yield the name of each method, and run it next; so do those below."""
    import numpy as np

    from heuristics import HEURISTICS, Limits
    from heuristics.local_search.multilevel import clusters
    from heuristics.orders.bisection import slice_by_bisection
    from heuristics.orders.slicing import segment_costs
    from instances import Instance, Platform
    from instances.deadline import Deadline
    from instances.json_files import Value, json_text
    from instances.random_graphs import regal_style
    from mtpp.problems.checking import certificate_document, verify
    from mtpp_models.bounds.ideals.dynamic_program import passing_tensors
    from mtpp_models.cuts.conflicts import find_clique
    from mtpp_models.formulations.strengthening import Strengthening
    from mtpp_models.formulations.superblocks import EXACT
    from mtpp_models.registry import find_model
    from mtpp_models.solvers.interface import Controls

    graph = regal_style("erdos-renyi", _NODES, seed=1)
    instance = Instance(graph, Platform(k=3, bandwidth=1.0))
    for name, method in HEURISTICS.items():
        yield name
        method.run(instance, np.random.default_rng(0), Limits(evaluations=_FEW))
    yield "coarsening"
    for reach_nodes in (0, _NODES):
        limits, kind = np.ones(2), np.zeros(_NODES, dtype=np.int64)
        clusters(instance, np.random.default_rng(0), limits, True, kind, 1, reach_nodes)
    yield "slicing"
    start = slice_by_bisection(instance, graph.topological_order)
    segment_costs(instance, graph.topological_order)
    partitions = []
    for name in _MODELS:
        yield name
        partitions.append(find_model(name).prove(instance, start, Controls(deadline=Deadline.after(_SECONDS))))
    yield "passing tensors"
    passing_tensors(Instance(graph, Platform(k=3, bandwidth=1.0, memory=1.0)), np.arange(_NODES))
    yield "verification"
    verify(Value(json.loads(json_text(certificate_document(partitions))), "certificate"))
    yield from _kinds_and_flows()
    yield "exact+all"
    find_clique(np.ones((_NODES, _NODES), dtype=np.bool_), 3)
    EXACT.strengthened(Strengthening.of("all")).prepare(instance, start, 0.0, Deadline())


def _kinds_and_flows() -> Iterator[str]:
    import numpy as np

    from heuristics import Limits, search
    from heuristics.flow.search import search_flow
    from instances import ComputationGraph, Instance
    from instances.deadline import Deadline
    from instances.flow.problem import FlowInstance
    from instances.json_files import Value, json_text
    from instances.machines import Kind, Machines
    from instances.partitioning.constraints import Constraints
    from instances.random_graphs import regal_style
    from mtpp.api.deployments import deployment
    from mtpp.problems.checking import certificate_document, result_document, verify
    from mtpp.questions.serving import ServeWords, deployment_instance
    from mtpp.questions.words import checked
    from mtpp_models import MODELS, Algorithm, SolveOptions, solve
    from mtpp_models.flow.bounds import bound_flow
    from mtpp_models.flow.enumeration import enumerate_flows
    from mtpp_models.flow.weights import Hubs, exclude

    yield "kinds of devices"
    graph = regal_style("erdos-renyi", _NODES, seed=1)
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
    yield "deployments"
    asked = checked(ServeWords, {"servers": "1x2xL4", "batch": 4, "ttft": "1s"})
    answer = deployment(deployment_instance("gpt2", None, None, asked), None)
    verify(Value(json.loads(json_text(result_document(answer))), "deployment"))
    yield "flows"
    capacity, rates = np.array([[0.0, 8.0, 4.0, 2.0]]), np.full((6, 6), 3.0)
    question = FlowInstance("flow", 3, ("0", "1", "2", "3"), np.zeros(4, dtype=np.int64), capacity, rates)
    result = search_flow(question, np.random.default_rng(0), Limits(evaluations=_FEW))
    bound_flow(question, result.answer)
    enumerated = enumerate_flows(question, _FEW * _FEW, result.answer)
    if enumerated is not None:
        verify(Value(json.loads(json_text(certificate_document([enumerated]))), "certificate"))
    exclude(question, 5.0, Deadline())
    Hubs(question).exclude(5.0, Deadline())


def _plans_and_placements() -> Iterator[str]:
    return chain(_placement(), _planning())


def _planning() -> Iterator[str]:
    import numpy as np

    from heuristics.planning import PLANNERS
    from instances.devices import NetworkCards
    from instances.json_files import Value, json_text
    from instances.planning import Cluster, LayerChain, TrainingInstance
    from mtpp.certifying.methods import certify_grid
    from mtpp.certifying.planning import certify_plan
    from mtpp.problems.checking import certificate_document, verify
    from mtpp.questions.grid import grid_question
    from mtpp.questions.planning import TrainWords
    from mtpp.questions.words import checked

    layers, between = np.ones(4), np.ones(3)
    network = LayerChain(layers, 2 * layers, between, between, layers)
    instance = TrainingInstance(network, Cluster.of_servers([2, 2], within=2.0, between=1.0), 4)
    for name in PLANNERS:
        yield name
        certify_plan(instance, np.random.default_rng(0), name)
    yield "shared network cards"
    covered = certify_plan(replace(instance, network=NetworkCards()), np.random.default_rng(0))
    verify(Value(json.loads(json_text(certificate_document([covered]))), "plan"))
    yield "plans in a grid"
    for fix in (None, "pp=2,v=2"):
        certify_grid(grid_question("gpt2", "1x2", checked(TrainWords, {**_GRID, "fix": fix})).instance)


def _placement() -> Iterator[str]:
    import numpy as np

    from heuristics import Limits
    from heuristics.placement import PLACERS
    from heuristics.placement.placeto import play_episodes
    from heuristics.placement.simulator import step_times
    from instances.deadline import Deadline
    from instances.machines import Machines
    from instances.placement.placement import Placement
    from instances.placement.problem import PlacementInstance
    from instances.random_graphs import regal_style
    from mtpp.verification.placement.step_time import Step, TimeBounds
    from mtpp.verification.verdict import Clock
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
