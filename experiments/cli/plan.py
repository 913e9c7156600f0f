"""The verb ``plan``: from words to a training instance, a plan, a bound and what is printed of them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli import options
from experiments.cli.exit_codes import DONE
from instances.errors import InputError

if TYPE_CHECKING:
    from experiments.certificates.plan_certificate import PlanResult
    from instances.planning import Cluster, Iteration, Schedule

__all__ = ["load_cluster", "plan", "plan_rows"]


def plan(
    chain: Annotated[
        str,
        typer.Argument(
            metavar="CHAIN", help="A chain file, a PipeDream profile, an architecture, a graph, or simulation."
        ),
    ],
    cluster: Annotated[
        str,
        typer.Option(
            metavar="CLUSTER",
            help="A JSON or CSV file, servers as 8x4 or 6x2+3x4, 1080ti-8, v100-4, or simulation-SEED.",
            rich_help_panel=options.QUESTION,
        ),
    ],
    microbatches: Annotated[
        int, typer.Option(metavar="M", help="Microbatches of an iteration.", rich_help_panel=options.QUESTION)
    ],
    bandwidth: Annotated[
        str | None,
        typer.Option(
            metavar="RATE[,RATE]",
            help="Of servers as 8x4: within them, and between them if that differs, such as 128Gbps,32Gbps.",
            rich_help_panel=options.QUESTION,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES", help="Of a device, such as 16GiB.  [default: no limit]", rich_help_panel=options.QUESTION
        ),
    ] = None,
    parameter_copies: Annotated[
        float,
        typer.Option(metavar="X", help="Bytes kept per byte of parameters.", rich_help_panel=options.QUESTION),
    ] = 4.0,
    full_duplex: Annotated[
        bool,
        typer.Option("--full-duplex", help="Links carry both directions at once.", rich_help_panel=options.QUESTION),
    ] = False,
    dim: options.Dim = None,
    input_work: options.InputWork = None,
    time_unit: options.TimeUnit = None,
    planner: Annotated[
        str, typer.Option(metavar="NAME", help="See mtpp list planners.", rich_help_panel=options.SEARCH)
    ] = "improved",
    seed: options.Seed = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan as JSON.", rich_help_panel=options.FILES)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw stages and schedule (.png, .svg or .pdf).", rich_help_panel=options.FILES
        ),
    ] = None,
) -> int:
    """Plan pipelined training: stages, replicas, devices and a schedule, and how much faster a plan could be.

    The bound holds for any plan with one stage a device, backward unsplit and links that share nothing.

    Example: mtpp plan simulation --cluster 8x4 --bandwidth 128Gbps,32Gbps --microbatches 32 --out plan.json
    """
    from experiments.cli.outputs import check_files
    from experiments.cli.units import parse_bytes, parse_dims
    from instances.planning import TrainingInstance
    from instances.planning.bert import bert_chain
    from instances.planning.plan_files import load_chain, save_plan

    check_files(out, plot)
    if dim and (chain == SIMULATION or (Path(chain).is_file() and Path(chain).suffix != ".onnx")):
        raise InputError(f"--dim {dim[0]}: only architectures and ONNX models have dimensions; leave this option out.")
    reading = {"input_work": input_work, "time_unit": time_unit}
    if chain == SIMULATION and any(value is not None for value in reading.values()):
        raise InputError(f"{SIMULATION}: this chain has no options; leave out --input-work and --time-unit.")
    instance = TrainingInstance(
        bert_chain() if chain == SIMULATION else load_chain(chain, dims=parse_dims(dim or ()), **reading),
        load_cluster(cluster, bandwidth),
        microbatches,
        full_duplex,
        math.inf if memory is None else parse_bytes(memory, "--memory"),
        parameter_copies,
    )

    import numpy as np

    from experiments.certificates.plan_certificate import certify_plan, guarantees
    from experiments.progress import LiveLine
    from experiments.text_tables import aligned, left_aligned

    with LiveLine(f"{instance.chain.name} on {instance.cluster.name}, {planner}"):
        answer = certify_plan(instance, np.random.default_rng(seed), planner)
    iteration = answer.answer
    assert iteration is not None
    print(left_aligned(_headlines(answer, iteration)))
    for schedule in iteration.schedules:
        print(f"\n{aligned(*plan_rows(schedule))}")
    if planner == "spp":
        print("\n", "\n".join(guarantees(iteration)), sep="")
    if plot is not None:
        from experiments.plots.partitions import save_figure
        from experiments.plots.plans import plan_figure

        save_figure(plan_figure(iteration, answer.bound), plot)
    if out is not None:
        if iteration.plan is None:
            raise InputError(f"--out {out}: {planner} runs several pipelines side by side, which no plan file holds.")
        save_plan(iteration.plan, out)
    return DONE


SIMULATION = "simulation"


def load_cluster(text: str, bandwidth: str | None = None) -> Cluster:
    """A cluster from what ``--cluster`` takes.

    Parameters
    ----------
    text : str
        A file; servers such as ``8x4`` or ``6x2+3x4+1x8``; a testbed of the paper; ``simulation-SEED``, one of its
        random clusters.
    bandwidth : str, optional
        For servers: one rate, or one within and one between them.

    Raises
    ------
    InputError
        If there is no such cluster, or the bandwidth is missing or in vain.

    Examples
    --------
    >>> load_cluster("2x1+1x2", "16GB/s,4GB/s").servers
    (1, 1, 2)
    """
    import numpy as np

    from experiments.cli.units import parse_bandwidth
    from instances.planning import Cluster
    from instances.planning.paper_settings import TESTBEDS, random_cluster
    from instances.planning.plan_files import read_cluster

    if not re.fullmatch(r"\d{1,18}x\d{1,18}(\+\d{1,18}x\d{1,18})*", text):
        if bandwidth is not None:
            raise InputError(f"--bandwidth {bandwidth}: the cluster {text} has its own; leave this option out.")
        if text in TESTBEDS:
            return TESTBEDS[text]()
        if match := re.fullmatch(rf"{SIMULATION}-(\d+)", text):
            return random_cluster(np.random.default_rng(int(match[1])))
        if not Path(text).is_file():
            raise InputError(
                f"--cluster {text}: there is no such file; give one, servers such as 8x4, {', '.join(TESTBEDS)} or "
                f"{SIMULATION}-0."
            )
        return read_cluster(text)
    if bandwidth is None:
        raise InputError(f"--cluster {text}: give --bandwidth within and between servers, such as 128Gbps,32Gbps.")
    rates = [parse_bandwidth(rate) for rate in bandwidth.split(",")]
    if len(rates) > 2:
        raise InputError(f"--bandwidth {bandwidth}: give one rate, or one within and one between servers.")
    parts = [(int(count), int(size)) for part in text.split("+") for count, size in [part.split("x")]]
    devices = sum(count * size for count, size in parts)
    if not 0 < devices <= _MOST_DEVICES or any(size == 0 for _, size in parts):
        raise InputError(f"--cluster {text}: these are {devices} devices; give from 1 to {_MOST_DEVICES}.")
    servers = [size for count, size in parts for _ in range(count)]
    return Cluster.of_servers(servers, rates[0], rates[-1], name=text)


_MOST_DEVICES = 256


def plan_rows(schedule: Schedule) -> tuple[list[str], list[list[str]]]:
    """Header and rows of text: the stages of a plan, with the times of a microbatch and of the AllReduce."""
    plan = schedule.plan
    names, cluster = plan.instance.chain.names, plan.instance.cluster
    times = (plan.forward_time, plan.backward_time, plan.allreduce_time)
    rows = []
    for n in range(plan.n_stages):
        first, last = plan.cuts[n], plan.cuts[n + 1] - 1
        rows.append(
            [
                str(n),
                names[first] if first == last else f"{names[first]} … {names[last]}",
                str(last - first + 1),
                ",".join(cluster.names[v] for v in plan.devices[n]),
                str(plan.replicas[n]),
                *(f"{time[n]:.4g}" for time in times),
                f"{schedule.memory_needed[n] / 2**30:.3g}",
            ]
        )
    header = ["stage", "layers", "number", "devices", "replicas"]
    return [*header, "forward [s]", "backward [s]", "AllReduce [s]", "memory [GiB]"], rows


def _headlines(answer: PlanResult, iteration: Iteration) -> list[tuple[str, str]]:
    from mtpp_models.planning.guarantees import COVERED

    instance = answer.instance
    duplex = "full duplex" if instance.full_duplex else "half duplex"
    rows = [
        ("chain", f"{instance.chain.name}, {instance.chain.n} layers, {instance.microbatches} microbatches"),
        ("cluster", f"{instance.cluster.name}, {instance.cluster.n} devices, {duplex}"),
        ("planner", answer.method),
        ("iteration", f"{iteration.time:.6g} s, devices compute {iteration.utilisation:.1%} of it"),
    ]
    if answer.bound is None:
        return [*rows, ("bound", "–, pipelines side by side are not covered")]
    return [
        *rows,
        ("bound", f"{answer.bound.value:.6g} s for {COVERED}"),
        ("gap", f"{answer.gap:.2%}"),
    ]
