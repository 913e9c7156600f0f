"""The verb ``mtpp place``: from words to a placement instance, a placement and what is printed of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from instances.errors import InputError
from mtpp.cli import options
from mtpp.cli.command import Without, takes_words
from mtpp.cli.exit_codes import DONE, IMPOSSIBLE, INTERRUPTED, NO_SOLVER, NOTHING
from mtpp.cli.outputs import Files
from mtpp.cli.printing import Printing
from mtpp.questions.partitioning import Reading, bandwidth_of
from mtpp.text.parsing import parse_bytes

if TYPE_CHECKING:
    from heuristics.placement import PlacementResult
    from instances.placement.grouping import Grouping
    from instances.placement.problem import PlacementInstance
    from mtpp_models import SolveOptions, SolverNotAvailableError

__all__ = ["PlacementQuestion", "place", "placement_row"]


@dataclass(frozen=True, kw_only=True)
class PlacementQuestion:
    """What is to be placed; the fields are the words of the command line."""

    graph: Annotated[
        str,
        typer.Argument(
            metavar="GRAPH", help="An architecture, a file, or a graph of a family: nmt-SEED, cifar10-SEED, ptb-SEED."
        ),
    ]
    devices: Annotated[
        int | None, options.of_question("-k", metavar="K", min=1, help="Number of devices.  [default: as in --devices]")
    ] = None
    bandwidth: Annotated[
        str | None,
        options.of_question(
            metavar="RATE",
            help="Out of each device: 25GB/s, 200Gbps, or a bare number, the bytes per unit of work time.  [default: "
            "7.6e9 for a family, else 25GB/s]",
        ),
    ] = None
    memory: options.DeviceMemory = None
    unequal: Annotated[
        Path | None,
        options.of_question(
            "--devices",
            metavar="FILE",
            help="Speeds of unequal devices, and their memories and rates if they differ (mtpp-devices/1).",
        ),
    ] = None
    reading: Annotated[Reading, Without({"level", "communication"})]

    def instance(self) -> PlacementInstance:
        """The nodes of one step, and the devices.

        Raises
        ------
        InputError
            If an option or the graph is refused.
        """
        from instances.devices.unequal import read_devices
        from instances.placement.families import BANDWIDTH, family_graph
        from instances.placement.problem import PlacementInstance

        graph = family_graph(self.graph)
        if graph is None:
            graph = self.reading.load(self.graph)
            bandwidth = bandwidth_of(graph, self.bandwidth)
        elif self.reading != Reading():
            raise InputError(
                f"{self.graph}: this graph has no options; leave out --dim, --training, --reader and the like."
            )
        else:
            bandwidth = bandwidth_of(graph, self.bandwidth, BANDWIDTH)
        memory = math.inf if self.memory is None else parse_bytes(self.memory, "--memory")
        if self.unequal is not None:
            unequal = read_devices(self.unequal, bandwidth, memory)
            devices = len(unequal.speeds) if self.devices is None else self.devices
            return PlacementInstance(graph, devices, bandwidth, unequal=unequal)
        if self.devices is None:
            raise InputError("The number of devices is missing; give -k, or --devices with a file.")
        return PlacementInstance(graph, self.devices, bandwidth, memory)


@takes_words
def place(
    *,
    question: PlacementQuestion,
    groups: Annotated[
        int | None,
        options.of_search(metavar="N", min=1, help="Search with at most N groups of nodes.  [default: single nodes]"),
    ] = None,
    method: Annotated[str, options.of_search(metavar="NAME", help="See mtpp list placers.")] = "ordered",
    policy: Annotated[
        Path | None,
        options.of_search(
            metavar="FILE", help="A checkpoint for --method placeto.  [default: fast, which comes along]"
        ),
    ] = None,
    seed: options.Seed = 0,
    time_limit: Annotated[
        float, options.of_search(metavar="SECONDS", help="Of the search, and as much again of --certify.")
    ] = 5.0,
    certify: Annotated[
        bool, options.of_search("--certify", help="Prove how good the placement is, also with solvers if it is small.")
    ] = False,
    solver: options.Solver = "highs",
    threads: options.Threads = 1,
    files: Files,
    printing: Printing,
) -> int:
    """Place the nodes of a step on devices, data going back and forth, so that the step is short.

    Exit code 1 if a device needs more than its memory, 5 if it is proved that every placement does. With --certify a
    solver that fails makes it 3; what only a solver claims is marked in the file, and mtpp verify says so.

    Example: mtpp place inception-v3 --training --dim batch=32 -k 4 --plot placement.png
    """
    files.check()
    instance = question.instance()

    import numpy as np

    from heuristics.limits import Limits
    from heuristics.placement import search_placement
    from heuristics.placement.placeto import Checkpoint
    from instances import combine
    from instances.deadline import Deadline, Stopwatch
    from instances.placement.grouping import group_nodes
    from instances.system.interrupts import catch_interrupt
    from mtpp.certificates.writing import placement_certificate
    from mtpp.cli.messages import complain
    from mtpp_models import Progress, SolveOptions, SolverFaultError, SolverNotAvailableError

    if certify:
        _check_solver(solver)
    checkpoint = None if policy is None else Checkpoint.load(policy)
    grouping = None if groups is None else group_nodes(instance.graph, groups)
    label, watch = f"{instance.graph.name} on {instance.devices} devices, {method}", Stopwatch()
    faults = list[SolverNotAvailableError]()
    with catch_interrupt() as interrupted:  # also between search and proof: no answer is lost
        with printing.working(label, "step time") as live:

            def tell(what: str, time: float) -> None:
                known = time if math.isfinite(time) else None
                live.show(Progress(what, watch.passed, known, instance.lower_bound, None))

            limits = Limits(Deadline.after(time_limit, interrupted))
            answer = search_placement(instance, method, np.random.default_rng(seed), limits, grouping, tell, checkpoint)
        placement = answer.answer
        if placement is None:
            return complain(f"{instance.label}: {answer.impossible}; no placement fits.", IMPOSSIBLE)
        answers = [answer]
        if certify and not interrupted.is_set():
            answers = _prove(answer, SolveOptions(solver, time_limit, threads=threads, seed=seed), printing, faults)
            best = combine(*answers)
            answer, placement = replace(best, method=method), best.answer or placement
    printing.rows([placement_row(answer, grouping)])
    document = partial(placement_certificate, answers)
    printing.document(document)
    files.write(document)
    if files.plot is not None:
        from mtpp.plots.placements import placement_figure
        from mtpp.plots.style import save_figure

        save_figure(placement_figure(placement), files.plot)
    for fault in faults:
        complain(str(fault), NO_SOLVER)
    if interrupted.is_set() or answer.interrupted:
        return INTERRUPTED
    if any(isinstance(fault, SolverFaultError) for fault in faults):
        return NO_SOLVER
    return DONE if placement.fits else NOTHING


def _check_solver(name: str) -> None:
    """Before the search, which may take a while; only here, as solvers take time to load."""
    from mtpp_models.solvers.registry import find_solver

    find_solver(name)


def _prove(
    answer: PlacementResult, settings: SolveOptions, printing: Printing, faults: list[SolverNotAvailableError]
) -> list[PlacementResult]:
    """The answer and all bounds, with the faults of solvers that are missing or fail."""
    from instances.deadline import Stopwatch
    from mtpp.certifying.placement import prove_placement
    from mtpp_models import Progress

    watch = Stopwatch()
    with printing.working(answer.instance.label, "step time") as live:

        def step(model: str, known: PlacementResult) -> None:
            bound = None if known.bound is None else known.bound.value
            live.show(Progress(model, watch.passed, known.cost, bound, None))

        return prove_placement(answer, settings, step, faults.append)


def placement_row(answer: PlacementResult, grouping: Grouping | None) -> dict[str, str]:
    """Column to text; times are those of single nodes, also where groups were searched."""
    placement, instance, unit = answer.answer, answer.instance, answer.instance.time_unit
    assert placement is not None
    assert answer.bound is not None
    return {
        "instance": instance.graph.name,
        "n": str(instance.graph.n),
        **({} if grouping is None else {"groups": str(grouping.graph.n)}),
        "k": str(instance.devices),
        "method": answer.method,
        f"step time [{unit}]": f"{placement.step_time:.6g}",
        "of one device": f"{placement.relative_time:.4f}",
        f"bound [{unit}]": f"{answer.bound.value:.6g}",
        **({} if answer.bound.method == "simple" else {"by": answer.bound.method}),
        "ratio": f"{answer.ratio:.4f}",
        "peak [GiB]": f"{placement.peak_memory.max() / 2**30:.3g}",
        "fits": "yes" if placement.fits else "no",
    }
