"""``mtpp split`` and ``mtpp run``: models in stages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from instances import InputError
from instances.errors import assumptions
from instances.json_files import write_json
from mtpp.cli import options
from mtpp.cli.command import Files, command, complain
from mtpp.cli.exit_codes import DONE, FALSE, IMPOSSIBLE, INTERRUPTED, NO_SOLVER, NOTHING
from mtpp.cli.printing import Printing
from mtpp.questions.stages import RunWords, SplitWords
from mtpp.text.numbers import Scale, time_in_words

if TYPE_CHECKING:
    from mtpp.stages.runner import LinkSpeed
    from mtpp.stages.trial import Trial
    from mtpp_models import SolverNotAvailableError

# The verb ``mtpp split``: a model in stages, as files that run, with the certificate beside them.


@command
def split(
    *,
    model: Annotated[Path, options.argument(metavar="MODEL.onnx", help="An ONNX model, with its weights beside it.")],
    k: Annotated[int | None, options.of_question("-k", metavar="K", help="Number of stages.")] = None,
    partition: Annotated[
        Path | None,
        options.of_question(metavar="FILE", help="Split as this says: a certificate or a partition of the model."),
    ] = None,
    words: SplitWords,
    out: Annotated[Path, options.of_files(metavar="FOLDER", help="Where the stages are written; new or empty.")],
    printing: Printing,
) -> int:
    """Cut an ONNX model into stages that run, and write them with a certificate of how good the cut is.

    The folder holds a model a stage, its weights, the certificate and manifest.json (mtpp-stages/2). Nothing outside of
    it is written. With --partition, that partition is kept, and the time is for a bound on it.

    Example: mtpp split model.onnx -k 4 --bandwidth 10GB/s --out stages
    """
    from mtpp.api.stages import Splitting
    from mtpp.stages.splitting import find_answer

    splitting = Splitting.of(model, k, out, partition, words)
    label = splitting.instance.label
    faults: list[SolverNotAvailableError] = []
    with printing.working(label) as live:
        best = find_answer(splitting.instance, splitting.given, words, live.show, faults.append)
        best = best.noted(*assumptions())
    if best.partition is None:
        if best.impossible is not None:
            return complain(f"{label}: {best.impossible}", IMPOSSIBLE)
        return complain(f"{label}: none found", NOTHING)

    from mtpp.cli.printing import certificate_row

    manifest = splitting.write(best)
    printing.rows([certificate_row(best)])
    printing.notes(best)
    count = len(manifest.stages)
    said = f"{count} stages in {out}; run them" if count > 1 else f"1 stage in {out}; run it"
    printing.say(f"{said}: mtpp run {out}")
    printing.document(manifest.document)
    for fault in dict.fromkeys(map(str, faults)):
        complain(fault, NO_SOLVER)
    return INTERRUPTED if best.interrupted else NO_SOLVER if faults else DONE


# The verb ``mtpp run``: stages at work on this machine, measured and compared with what was predicted.


# Below this part of the time that a stage computes it has a core for itself no more.
_ALONE = 0.8
# From this factor on, what was predicted is another machine.
_FAR = 3.0


@command
def run(
    *,
    stages: Annotated[Path | None, options.argument(metavar="[FOLDER]", help="What mtpp split has written.")] = None,
    words: RunWords,
    calibrate: Annotated[
        bool, options.of_machines("--calibrate", help="Measure links between processes, for --bandwidth measured.")
    ] = False,
    out: Annotated[Path | None, options.of_files(metavar="FILE", help="Write the measures as JSON.")] = None,
    trace: Annotated[
        Path | None, options.of_files(basic=False, metavar="FILE", help="Write a trace for Perfetto (.json).")
    ] = None,
    plot: Annotated[
        Path | None, options.of_files(metavar="FILE", help="Draw stages at work (.png, .svg or .pdf).")
    ] = None,
    printing: Printing,
) -> int:
    """Run stages on this machine, a process each, and compare period and outputs with what was promised.

    Processes are pinned to cores, and tensors pass through shared memory. Exit code 1 if a stage dies, hangs or fails,
    or outputs are not those of the whole model.

    Example: mtpp run stages --requests 200 --plot timeline.png --trace trace.json
    """
    Files(out, plot).check(trace)
    if stages is None and not calibrate:
        raise InputError("give the folder of stages that mtpp split has written, or --calibrate.")

    from mtpp.stages.runner import StageError

    document: dict[str, object] = {}
    trial = None
    try:
        if calibrate:
            from mtpp.stages.runner import measure_link

            link = measure_link(words["timeout"])
            document["link"] = link.document()
            printing.say(_link_line(link))
        if stages is not None:
            from mtpp.stages.trial import try_stages

            trial = try_stages(stages, **words)
            document |= trial.document()
            _print(trial, printing)
    except StageError as error:
        return complain(str(error), NOTHING)
    if out is not None:
        write_json(out, document)
    if trial is not None and trace is not None:
        from mtpp.stages.trial import chrome_trace

        write_json(trace, chrome_trace(trial))
    if trial is not None and plot is not None:
        from mtpp.plots.plans import trial_figure
        from mtpp.plots.style import save_figure

        save_figure(trial_figure(trial), plot)
    printing.document(lambda: document)
    if trial is not None and trial.agreement is not None and trial.agreement.name is not None:
        return complain(f"{stages}: output '{trial.agreement.name}' is not the whole model's.", FALSE)
    return DONE


def _print(trial: Trial, printing: Printing) -> None:
    period = trial.period
    over = "–" if trial.over_predicted is None else f"{trial.over_predicted:.3f}"
    row = {
        "model": trial.manifest.model,
        "stages": str(len(trial.manifest.stages)),
        "requests": str(trial.events.shape[1]),
        "period": "–" if period is None else time_in_words(period, "s"),
        "throughput [1/s]": "–" if not period else f"{1 / period:.4g}",
        "latency": time_in_words(trial.latency, "s"),
        "predicted": time_in_words(trial.manifest.bottleneck, "s"),
        "measured/predicted": over,
        "outputs": _outputs(trial),
    }
    printing.rows([row])
    stages = trial.document()["stages"]
    scale = Scale.of_times([stage[name] for stage in stages for name in ("predicted", "computing")], "s")
    kinds = ["device"] if all("device" in stage for stage in stages) else []
    times = [f"{name} [{scale.unit}]" for name in ("predicted", "computing", "processor")]
    header = ["stage", "block", *kinds, "core", *times]
    rows = [
        [str(number), str(stage["block"]), *(stage[name] for name in kinds)]
        + ["–" if stage["core"] is None else str(stage["core"])]
        + [scale.cell(stage[name]) for name in ("predicted", "computing", "processor")]
        + [f"{stage['busy']:.1%}"]
        for number, stage in enumerate(stages)
    ]
    printing.table([*header, "busy"], rows)
    printing.detail(*_remarks(trial))


def _outputs(trial: Trial) -> str:
    agreement = trial.agreement
    if agreement is None:
        return "not compared"
    if agreement.exact == agreement.requests:
        return f"equal ({agreement.requests} compared)"
    apart = f"{agreement.worst:.1g} where {agreement.allowed:.1g} is allowed"
    return f"differ by {apart}" if agreement.name is not None else f"within {apart} ({agreement.requests} compared)"


def _remarks(trial: Trial) -> list[str]:
    """Sentences on the comparison, the prediction, and the cores."""
    sentences = []
    if trial.others is not None:
        rows = [
            ("the stages", trial.period),
            ("one process", trial.others.one_process),
            ("copies", trial.others.copies),
        ]
        periods = ", ".join(f"{name} {time_in_words(period, 's')}" for name, period in rows if period is not None)
        sentences.append(
            f"Time a request on {trial.others.cores} cores: {periods}.\n{trial.others.sentence(trial.period)}"
        )
    kinds = {stage.device for stage in trial.manifest.stages} - {None}
    if kinds:
        sentences.append("All stages ran on this machine; their times were predicted for devices of other kinds.")
    elif trial.over_predicted is not None and not 1 / _FAR < trial.over_predicted < _FAR:
        sentences.append(
            "The prediction is far off: stages of some microseconds take less than a request costs beside them, or the "
            "times are of another machine. For this one split with --cost measured --bandwidth measured."
        )
    return sentences + _core_remarks(trial)


def _core_remarks(trial: Trial) -> list[str]:
    cores = [core for core in trial.cores if core is not None]
    if len(set(cores)) < len(cores):
        return [f"{len(cores)} stages share {len(set(cores))} cores: the period is not that of a core a stage."]
    if any(p < _ALONE * c for p, c in zip(trial.processor, trial.computing, strict=True)):
        return ["Other programs had the cores as well: the processor's time is what stages take on idle ones."]
    return []


def _link_line(link: LinkSpeed) -> str:
    rate = f"{link.bandwidth / 1e9:.3g} GB/s"
    return (
        f"between processes: {rate} (--bandwidth {rate.replace(' ', '')}), latency {time_in_words(link.latency, 's')}"
    )
