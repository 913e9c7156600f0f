"""The verb ``mtpp plan``: from words to a training instance, a plan, a bound and what is printed of them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli import options
from experiments.cli.exit_codes import DONE
from experiments.cli.inputs import NO_ROOFS, Roofs
from experiments.cli.outputs import Files
from experiments.cli.printing import Printing
from experiments.cli.units import parse_bandwidth, parse_bytes, parse_dims
from experiments.cli.words import takes_words
from instances.errors import InputError

if TYPE_CHECKING:
    from experiments.certificates.plan_certificate import PlanResult
    from instances.planning import Cluster, Iteration, LayerChain, Schedule, TrainingInstance

__all__ = ["PlanFiles", "PlanningQuestion", "load_cluster", "plan", "plan_rows"]

_SIMULATION = "simulation"
_MOST_DEVICES = 256


@dataclass(frozen=True, kw_only=True)
class PlanningQuestion:
    """What is to be planned; the fields are the words of the command line."""

    chain: Annotated[
        str,
        typer.Argument(
            metavar="CHAIN", help="A chain file, a PipeDream profile, an architecture, a graph, or simulation."
        ),
    ]
    cluster: Annotated[
        str,
        options.of_question(
            metavar="CLUSTER",
            help="A JSON or CSV file, servers as 8x4 or 6x2+3x4, 1080ti-8, v100-4, or simulation-SEED.",
        ),
    ]
    microbatches: Annotated[int, options.of_question(metavar="M", help="Microbatches of an iteration.")]
    bandwidth: Annotated[
        str | None,
        options.of_question(
            metavar="RATE[,RATE]",
            help="Of servers as 8x4: within them, and between them if that differs, such as 128Gbps,32Gbps or 16GB/s; "
            "a bare number is in bytes per second.",
        ),
    ] = None
    memory: Annotated[
        str | None,
        options.of_question(
            metavar="BYTES", help="Of a device: 16GB, 16GiB, or a bare number of bytes.  [default: no limit]"
        ),
    ] = None
    parameter_copies: Annotated[float, options.of_question(metavar="X", help="Bytes kept per byte of parameters.")] = (
        4.0
    )
    full_duplex: Annotated[bool, options.of_question("--full-duplex", help="Links carry both directions at once.")] = (
        False
    )
    dim: options.Dim = None
    input_work: options.InputWork = None
    time_unit: options.TimeUnit = None
    roofs: Roofs = NO_ROOFS

    def instance(self, chain: LayerChain | None = None, cluster: Cluster | None = None) -> TrainingInstance:
        """The chain on its cluster; what is there already stands in for its word.

        Raises
        ------
        InputError
            If an option, the chain or the cluster is refused.
        """
        from instances.planning import TrainingInstance

        return TrainingInstance(
            chain=chain or self._chain(),
            cluster=cluster or load_cluster(self.cluster, self.bandwidth),
            microbatches=self.microbatches,
            full_duplex=self.full_duplex,
            memory=math.inf if self.memory is None else parse_bytes(self.memory, "--memory"),
            parameter_copies=self.parameter_copies,
        )

    def _chain(self) -> LayerChain:
        from instances.planning.bert import bert_chain
        from instances.planning.plan_files import load_chain

        simulated = self.chain == _SIMULATION
        if self.dim and (simulated or (Path(self.chain).is_file() and Path(self.chain).suffix != ".onnx")):
            raise InputError(
                f"--dim {self.dim[0]}: only architectures and ONNX models have dimensions; leave this option out."
            )
        reading = {"input_work": self.input_work, "time_unit": self.time_unit, "device": self.roofs.device()}
        if not simulated:
            return load_chain(self.chain, dims=parse_dims(self.dim or ()), **reading)
        if any(value is not None for value in reading.values()):
            raise InputError(
                f"{self.chain}: this chain has no options; leave out --input-work, --time-unit, --peak-flops and "
                "--memory-bandwidth."
            )
        return bert_chain()


@dataclass(frozen=True)
class PlanFiles(Files):
    """Where a plan is written and drawn; the fields are the words of the command line."""

    out: Annotated[
        Path | None, options.of_files(metavar="FILE", help="Write the plan as JSON, with its question, time and bound.")
    ] = None
    plot: Annotated[
        Path | None, options.of_files(metavar="FILE", help="Draw stages and schedule (.png, .svg or .pdf).")
    ] = None


@takes_words
def plan(
    *,
    question: PlanningQuestion,
    planner: Annotated[str, options.of_search(metavar="NAME", help="See mtpp list planners.")] = "improved",
    seed: options.Seed = 0,
    files: PlanFiles,
    printing: Printing,
) -> int:
    """Plan pipelined training: stages, replicas, devices and a schedule, and how much faster a plan could be.

    The bound holds for any plan with one stage a device, backward unsplit and links that share nothing.

    Example: mtpp plan simulation --cluster 8x4 --bandwidth 128Gbps,32Gbps --microbatches 32 --out plan.json
    """
    files.check()
    instance = question.instance()

    import numpy as np

    from experiments.certificates.plan_certificate import certify_plan, guarantees
    from experiments.certificates.writing import plan_certificate
    from experiments.text_tables import fitted, left_aligned, terminal_width

    with printing.working(f"{instance.chain.name} on {instance.cluster.name}, {planner}"):
        answer = certify_plan(instance, np.random.default_rng(seed), planner)
    iteration = answer.answer
    assert iteration is not None
    printing.say(left_aligned(_headlines(answer, iteration)))
    for schedule in iteration.schedules:
        printing.detail(fitted(*plan_rows(schedule), terminal_width(), words={0, 1, 3}))
    if planner == "spp" and not (printing.json or printing.quiet):
        printing.detail("\n".join(guarantees(iteration)))
    if files.plot is not None:
        from experiments.plots.plans import plan_figure
        from experiments.plots.style import save_figure

        save_figure(plan_figure(iteration, answer.bound), files.plot)
    if iteration.plan is None and (printing.json or files.out is not None):
        option = "--json" if files.out is None else f"--out {files.out}"
        raise InputError(f"{option}: {planner} runs several pipelines side by side, which no plan file holds.")
    document = partial(plan_certificate, [answer])
    printing.document(document)
    files.write(document)
    return DONE


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

    from instances.planning import Cluster
    from instances.planning.paper_settings import TESTBEDS, random_cluster
    from instances.planning.plan_files import read_cluster

    if not re.fullmatch(r"\d{1,18}x\d{1,18}(\+\d{1,18}x\d{1,18})*", text):
        if bandwidth is not None:
            raise InputError(f"--bandwidth {bandwidth}: the cluster {text} has its own; leave this option out.")
        if text in TESTBEDS:
            return TESTBEDS[text]()
        if match := re.fullmatch(rf"{_SIMULATION}-(\d+)", text):
            return random_cluster(np.random.default_rng(int(match[1])))
        if not Path(text).is_file():
            raise InputError(
                f"--cluster {text}: there is no such file; give one, servers such as 8x4, {', '.join(TESTBEDS)} or "
                f"{_SIMULATION}-0."
            )
        return read_cluster(text)
    if bandwidth is None:
        raise InputError(f"--cluster {text}: give --bandwidth within and between servers, such as 128Gbps,32Gbps.")
    rates = bandwidth.split(",")
    if len(rates) > 2:
        raise InputError(f"--bandwidth {bandwidth}: give one rate, or one within and one between servers.")
    parts = [(int(count), int(size)) for part in text.split("+") for count, size in [part.split("x")]]
    devices = sum(count * size for count, size in parts)
    if not 0 < devices <= _MOST_DEVICES or any(size == 0 for _, size in parts):
        raise InputError(f"--cluster {text}: these are {devices} devices; give from 1 to {_MOST_DEVICES}.")
    servers = [size for count, size in parts for _ in range(count)]
    within, between = parse_bandwidth(rates[0]), parse_bandwidth(rates[-1])
    return Cluster.of_servers(servers, within, between, name=text)


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
    return [*rows, ("bound", f"{answer.bound.value:.6g} s for {COVERED}"), ("gap", f"{answer.gap:.2%}")]
