"""``mtpp plan`` and ``mtpp train``: plans for pipelined training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from instances.errors import InputError, said
from instances.runtimes.training import grid_settings
from mtpp.cli import options
from mtpp.cli.command import PlanFiles, command
from mtpp.cli.exit_codes import DONE
from mtpp.cli.printing import OnFault, Printing
from mtpp.questions.grid import GridQuestion, grid_question
from mtpp.questions.planning import PlanningQuestion, PlanningWords, PlanSearchWords, TrainWords, plan_question
from mtpp.text.tables import LiveLine, left_aligned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mtpp.certifying.methods import GridResult, PlanResult

# The verb ``mtpp train``: the search of a plan in a grid, and what is shown of it.


def _show_grid(question: GridQuestion, files: PlanFiles, printing: Printing) -> int:
    """Plan, print, draw and write; return the exit code."""
    from mtpp.api.training import trained
    from mtpp.certifying.methods import plans_of_other_degrees, uniform_plan
    from mtpp.cli.plan_tables import comparison_rows, grid_headlines, stage_rows
    from mtpp.plots.plans import grid_figure

    runtime = question.runtime

    def answer(live: LiveLine, _: OnFault) -> GridResult:
        return trained(question, live.show)

    def show(result: GridResult) -> None:
        printing.say(left_aligned(grid_headlines(result, question.peak_flops, question.price, question.tokens)))

    def tables(result: GridResult) -> None:
        assert result.answer is not None
        printing.table(*stage_rows(result.answer), words={1, 4, 8})
        printing.table(*comparison_rows(result), words={0})
        if files.export is not None and runtime is not None:
            files.export.write_text(grid_settings(result.answer, runtime), encoding="utf-8")

    def draw(result: GridResult) -> Figure:
        assert result.answer is not None
        return grid_figure(result.answer, result.bound, uniform_plan(result), plans_of_other_degrees(result))

    return printing.answer((question.instance.label, "best"), answer, files, show, tables, draw)


#: In place of a model: constants are fitted to the steps of a file.
_CALIBRATE = "calibrate"


def _calibrate(steps: str, files: PlanFiles, printing: Printing) -> int:
    """Fit constants, print and write them; return the exit code."""
    from instances.planning.grid.estimates import calibration_document
    from mtpp.api.training import calibrate

    calibration = calibrate(steps)
    kind = f"{calibration.device}, {calibration.dtype}, {calibration.runtime}"
    constants = [(name, f"{value:.4g}") for name, value in vars(calibration.constants).items()]
    printing.say(left_aligned([("of", kind), *constants]))
    rows = [[step.question, f"{step.seconds:.5g}", f"{step.fitted:.5g}", step.source] for step in calibration.steps]
    printing.table(["step", "measured [s]", "fitted [s]", "source"], rows, words={0, 3})
    printing.document(lambda: calibration_document(calibration))
    if files.out is not None:
        files.write(lambda: calibration_document(calibration))
    return DONE


@command
def train(
    *,
    model: Annotated[
        str,
        options.argument(
            metavar="MODEL", help="A model by name, a config.json of Hugging Face, or a file of mtpp-chain/2 or Piper."
        ),
    ],
    steps: Annotated[
        str | None, options.argument(metavar="STEPS", help="Of calibrate: a file of measured steps (mtpp-steps/1).")
    ] = None,
    cluster: Annotated[
        str | None,
        options.of_machines(metavar="CLUSTER", help="Equal servers such as 8x8, or by name such as 16xDGX-H100."),
    ] = None,
    words: TrainWords,
    files: PlanFiles,
    printing: Printing,
) -> int:
    """Plan training for a global batch: equal pipelines of whole microbatches, with degrees, ZeRO and recomputation.

    Bounds are named by the plans that they hold for. In place of a model, calibrate fits constants to the measured
    steps of a file (mtpp-steps/1), for --calibration: mtpp train calibrate steps.json --out h100.json

    Example: mtpp train llama-2-7b --cluster 2x8 --bandwidth 300GB/s,200GB/s --global-batch 64 --device A100-40GB
    """
    files.check(files.export)
    if model == _CALIBRATE:
        if steps is None:
            raise InputError(f"{_CALIBRATE}: name the file of measured steps: mtpp train calibrate steps.json.")
        return _calibrate(steps, files, printing)
    if steps is not None:
        raise InputError(f"{steps}: a plan has one argument, the model; give servers as {said('cluster', steps)}.")
    if files.export is not None:
        _check_settings(files.export, words["runtime"])
    return _show_grid(grid_question(model, cluster, words, words["time_limit"]), files, printing)


def _check_settings(path: Path, runtime: str | None) -> None:
    if runtime is None:
        raise InputError(f"--export {path}: say with --for which runtime it is for, megatron or torchtitan.")
    if runtime == "fsdp":
        raise InputError(f"--export {path}: fsdp has no settings of a plan; export for megatron or torchtitan.")


# Suffixes of files of models.
_MODELS = (".lp", ".mps")

# The verb ``mtpp plan``: a plan, bounds by the plans that they cover, and what is printed and written of them.


@command
def plan(
    *,
    chain: Annotated[
        str,
        options.argument(
            metavar="CHAIN", help="A chain file, a PipeDream profile, an architecture, a graph, or simulation."
        ),
    ],
    cluster: Annotated[
        str,
        options.of_machines(
            metavar="CLUSTER",
            help="A JSON or CSV file, servers as 8x4 or 6x2+3x4, 1080ti-8, v100-4, or simulation-SEED.",
        ),
    ],
    microbatches: Annotated[int | None, options.of_question(metavar="M", help="Microbatches of an iteration.")] = None,
    planner: Annotated[
        str,
        options.of_search(
            basic=False, metavar="NAME", help="See mtpp list planners; or milp, milp-load, milp-compact."
        ),
    ] = "improved",
    question: PlanningWords,
    search: PlanSearchWords,
    files: PlanFiles,
    printing: Printing,
) -> int:
    """Plan pipelined training: stages, replicas, devices and a schedule, and how much faster a plan could be.

    Bounds are named by the plans that they hold for. For tensor, context and expert degrees see mtpp train.

    Example: mtpp plan simulation --cluster 8x4 --bandwidth 128Gbps,32Gbps --microbatches 32 --out plan.json
    """
    files.check(files.export)
    if files.export is not None:
        _check_export(files.export)
    return _show_plan(plan_question(chain, cluster, microbatches, question, planner, search), files, printing)


def _show_plan(question: PlanningQuestion, files: PlanFiles, printing: Printing) -> int:
    """Plan, print, draw and write; return the exit code."""
    from mtpp.api.planning import planned
    from mtpp.certifying.methods import guarantees, write_planner
    from mtpp.cli.plan_tables import exported, headlines, plan_rows, rank_lines

    instance, planner = question.instance, question.planner
    if files.export is not None and files.export.suffix in _MODELS:
        write_planner(instance, planner, files.export)
        printing.say(str(files.export))
        printing.document(lambda: [str(files.export)])
        return DONE

    def answer(live: LiveLine, _: OnFault) -> PlanResult:
        result = planned(question, live.show)
        wanted = {"--json": printing.json, "--out": files.out, "--export": files.export}
        if result.answer is not None and result.answer.plan is None and any(wanted.values()):
            option = next(name if value is True else f"{name} {value}" for name, value in wanted.items() if value)
            raise InputError(f"{option}: {planner} runs several pipelines side by side, which no plan file holds.")
        return result

    def show(result: PlanResult) -> None:
        printing.say(left_aligned(headlines(result)))

    def tables(result: PlanResult) -> None:
        iteration = result.answer
        assert iteration is not None
        for schedule in iteration.schedules:
            printing.table(*plan_rows(schedule), words={0, 1, 3})
        if planner == "spp" and instance.network is None and not (printing.json or printing.quiet):
            printing.detail("\n".join(guarantees(iteration)))
        if files.export is not None:
            files.export.write_text(exported(iteration, files.export), encoding="utf-8")
            printing.detail(*rank_lines(iteration, files.export))

    label = f"{instance.chain.name} on {instance.cluster.name}, {planner}"
    return printing.answer((label, "best"), answer, files, show, tables)


def _check_export(path: Path) -> None:
    if path.suffix not in (".csv", ".json", *_MODELS):
        raise InputError(f"--export {path}: a schedule is written as .csv, a trace as .json, a model as .lp or .mps.")
