"""The verb ``mtpp plan``: a plan, bounds by the plans that they cover, and what is printed and written of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from instances.errors import InputError
from mtpp.cli import options
from mtpp.cli.command import takes_words
from mtpp.cli.exit_codes import DONE
from mtpp.cli.outputs import Files
from mtpp.cli.printing import Printing
from mtpp.questions.planning import PlanningQuestion

__all__ = ["PlanFiles", "Searching", "plan"]


@dataclass(frozen=True)
class PlanFiles(Files):
    """Where a plan is written and drawn; the fields are the words of the command line."""

    out: Annotated[
        Path | None, options.of_files(metavar="FILE", help="Write the plan as JSON, with its question, time and bound.")
    ] = None
    plot: Annotated[
        Path | None, options.of_files(metavar="FILE", help="Draw stages and schedule (.png, .svg or .pdf).")
    ] = None
    export: Annotated[
        Path | None,
        options.of_files(
            metavar="FILE", help="Order of passes for torch.distributed.pipelining (.csv), or a Perfetto trace (.json)."
        ),
    ] = None


@dataclass(frozen=True)
class Searching:
    """How a plan is looked for; the fields are the words of the command line."""

    planner: Annotated[
        str, options.of_search(metavar="NAME", help="See mtpp list planners; or milp, milp-load, milp-compact.")
    ] = "improved"
    effort: Annotated[
        int, options.of_search(metavar="0…3", help="Of improved: 3 searches until --time-limit, 2 as long as it pays.")
    ] = 2
    orders: Annotated[
        str,
        options.of_search(
            metavar="NAME|FILE",
            help="Of passes: auto, unsplit, 1f1b, pe, gpipe, zb-h1, zb, interleaved; or a CSV file for the plan found.",
        ),
    ] = "auto"
    time_limit: Annotated[
        float | None, options.of_search(metavar="SECONDS", help="For the search.  [default: none]")
    ] = None
    seed: options.Seed = 0


@takes_words
def plan(
    *,
    question: PlanningQuestion,
    searching: Searching,
    files: PlanFiles,
    printing: Printing,
) -> int:
    """Plan pipelined training: stages, replicas, devices and a schedule, and how much faster a plan could be.

    Bounds are named by the plans that they hold for.

    Example: mtpp plan simulation --cluster 8x4 --bandwidth 128Gbps,32Gbps --microbatches 32 --out plan.json
    """
    files.check(files.export)
    if files.export is not None and files.export.suffix not in (".csv", ".json"):
        raise InputError(f"--export {files.export}: a schedule is written as .csv, a trace as .json.")
    instance = question.instance()

    import numpy as np

    from mtpp.certificates.writing import plan_certificate
    from mtpp.certifying.planning import PlanSearch, covered_plan, guarantees
    from mtpp.cli.plan_tables import exported, headlines, in_listed_order, plan_rows
    from mtpp.text.tables import fitted, left_aligned, terminal_width
    from mtpp_models import Progress

    from_file = searching.orders.endswith(".csv")
    planner, limit = searching.planner, searching.time_limit
    with printing.working(f"{instance.chain.name} on {instance.cluster.name}, {planner}") as line:
        search = PlanSearch(
            planner=planner,
            effort=searching.effort,
            orders="unsplit" if from_file else searching.orders,
            time_limit=limit,
            tell=lambda phase, time: line.show(Progress(f"{phase}, best {time:.6g} s", 0.0, None, None, None)),
        )
        covered = covered_plan(instance, np.random.default_rng(searching.seed), search)
        if from_file:
            covered = in_listed_order(covered, Path(searching.orders))
    answer = covered.result
    iteration = answer.answer
    assert iteration is not None
    printing.say(left_aligned(headlines(covered, iteration)))
    for schedule in iteration.schedules:
        printing.detail(fitted(*plan_rows(schedule), terminal_width(), words={0, 1, 3}))
    if planner == "spp" and instance.network is None and not (printing.json or printing.quiet):
        printing.detail("\n".join(guarantees(iteration)))
    if files.plot is not None:
        from mtpp.plots.plans import plan_figure
        from mtpp.plots.style import save_figure

        save_figure(plan_figure(iteration, answer.bound), files.plot)
    if iteration.plan is None and (printing.json or files.out is not None or files.export is not None):
        option = "--json" if printing.json else f"--out {files.out}" if files.out else f"--export {files.export}"
        raise InputError(f"{option}: {planner} runs several pipelines side by side, which no plan file holds.")
    document = partial(plan_certificate, [answer, *covered.wider], seed=searching.seed, time_limit=limit)
    printing.document(document)
    files.write(document)
    if files.export is not None:
        files.export.write_text(exported(iteration, files.export))
    return DONE
