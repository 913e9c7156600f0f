"""The verb ``place``: from words to a placement instance, a placement and what is printed of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli import options
from experiments.cli.exit_codes import DONE, INTERRUPTED, NOTHING
from instances.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instances import ComputationGraph
    from instances.placement.placement import Placement

__all__ = ["load_step", "place", "placement_row"]


def place(
    graph: Annotated[
        str,
        typer.Argument(
            metavar="GRAPH", help="An architecture, a file, or a graph of a family: nmt-SEED, cifar10-SEED, ptb-SEED."
        ),
    ],
    devices: Annotated[
        int, typer.Option("-k", metavar="K", min=1, help="Number of devices.", rich_help_panel=options.QUESTION)
    ],
    bandwidth: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="Out of each device: 7.6e9 (bytes per unit of work time), 25GB/s or 200Gbps.  [default: 7.6e9 for a "
            "family, else 25GB/s]",
            rich_help_panel=options.QUESTION,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="Memory of a device, such as 16GiB.  [default: no limit]",
            rich_help_panel=options.QUESTION,
        ),
    ] = None,
    dim: options.Dim = None,
    training: options.Training = False,
    reader: options.Reader = None,
    input_work: options.InputWork = None,
    time_unit: options.TimeUnit = None,
    groups: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Search with at most N groups of nodes.  [default: 150]",
            rich_help_panel=options.SEARCH,
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="See mtpp list placers.", rich_help_panel=options.SEARCH)
    ] = "anneal",
    seed: options.Seed = 0,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="[default: none]", rich_help_panel=options.SEARCH)
    ] = None,
    out: options.Out = None,
    plot: options.Plot = None,
) -> int:
    """Place the nodes of a step on devices, data going back and forth, so that the step is short.

    Exit code 1 if a device needs more than its memory.

    Example: mtpp place inception-v3 --training --dim batch=32 -k 4 --method anneal --plot placement.png
    """
    from experiments.cli.outputs import check_files
    from experiments.cli.units import parse_bytes

    check_files(out, plot)
    step, rate = load_step(
        graph, bandwidth, dims=dim or (), training=training, reader=reader, input_work=input_work, time_unit=time_unit
    )
    limit = math.inf if memory is None else parse_bytes(memory, "--memory")

    import numpy as np

    from experiments.progress import LiveLine
    from experiments.text_tables import aligned
    from heuristics.limits import Limits
    from heuristics.placement import PLACERS
    from instances.deadline import Deadline
    from instances.interrupts import catch_interrupt
    from instances.lookup import find
    from instances.placement.grouping import GROUPS, group_nodes
    from instances.placement.placement import Placement
    from instances.placement.placement_file import save_placement
    from instances.placement.problem import PlacementInstance

    placer = find(PLACERS, method, "placer")
    instance = PlacementInstance(step, devices, rate, limit)
    grouping = group_nodes(step, groups or GROUPS)
    grouped = PlacementInstance(grouping.graph, devices, rate, limit)
    with catch_interrupt() as interrupted, LiveLine(f"{step.name} on {devices} devices, {method}"):
        limits = Limits(Deadline.after(time_limit, interrupted))
        found = placer.run(grouped, np.random.default_rng(seed), limits)
    placement = Placement(instance, found.device[grouping.group])
    row = placement_row(placement, method, grouping.graph.n)
    print(aligned(list(row), [list(row.values())]))
    if out is not None:
        save_placement(placement, out)
    if plot is not None:
        from experiments.plots.partitions import save_figure
        from experiments.plots.placements import placement_figure

        save_figure(placement_figure(placement), plot)
    if interrupted.is_set():
        return INTERRUPTED
    return DONE if placement.fits else NOTHING


def load_step(
    spec: str,
    bandwidth: str | None = None,
    *,
    dims: Iterable[str] = (),
    training: bool = False,
    reader: str | None = None,
    input_work: str | None = None,
    time_unit: str | None = None,
) -> tuple[ComputationGraph, float]:
    """A graph and its bandwidth, from what ``mtpp place`` takes.

    Raises
    ------
    InputError
        If an option or the graph is refused.
    """
    from experiments.cli.inputs import DEFAULT_BANDWIDTH
    from experiments.cli.units import parse_bandwidth, parse_dims
    from instances.placement import families
    from instances.readers import load_graph

    sizes = parse_dims(dims)
    family, _, seed = spec.partition("-")
    if family in families.PLACEMENT_FAMILIES and seed.isascii() and seed.isdigit():
        if sizes or training or reader is not None or input_work is not None or time_unit is not None:
            raise InputError(f"{spec}: this graph has no options; leave out --dim, --training, --reader and the like.")
        graph, rate = families.PLACEMENT_FAMILIES[family].graph(int(seed)), families.BANDWIDTH
    else:
        graph, rate = (
            load_graph(spec, dims=sizes, training=training, reader=reader, input_work=input_work, time_unit=time_unit),
            DEFAULT_BANDWIDTH,
        )
    if bandwidth is not None:
        return graph, parse_bandwidth(bandwidth, graph.time_unit)
    if graph.time_unit != "s":
        raise InputError(f"{graph.name}: its work is in units of {graph.time_unit!r}; give --bandwidth per that unit.")
    return graph, rate


def placement_row(placement: Placement, method: str, groups: int) -> dict[str, str]:
    """Column to text; times are those of single nodes, not of the groups that were searched."""
    from instances import Bound, Result

    instance = placement.instance
    result = Result(method, instance, placement, Bound(instance.lower_bound, "simple", optimal=False))
    unit = instance.time_unit
    return {
        "instance": instance.graph.name,
        "n": str(instance.graph.n),
        "groups": str(groups),
        "k": str(instance.devices),
        "method": method,
        f"step time [{unit}]": f"{placement.step_time:.6g}",
        "of one device": f"{placement.relative_time:.4f}",
        f"bound [{unit}]": f"{instance.lower_bound:.6g}",
        "ratio": f"{result.ratio:.4f}",
        "peak [GiB]": f"{placement.peak_memory.max() / 2**30:.3g}",
        "fits": "yes" if placement.fits else "no",
    }
