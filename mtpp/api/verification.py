"""Functions that check graphs and certificates."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Protocol, Unpack

from instances.deadline import refuse_no_time
from instances.errors import InputError, WordError, find, printable
from instances.json_files import missing, read_json, read_text
from instances.runtimes import RUNTIMES
from instances.runtimes.parser_process import PACKAGES
from instances.system.processes import NotBoundedError, run_bounded, run_module
from instances.system.processes import SubprocessError as SubprocessError
from mtpp.problems.checking import differences
from mtpp.problems.checking import rerun as run_again
from mtpp.questions.files import refuse_model
from mtpp.questions.verifying import UserGraph, VerifyWords
from mtpp.questions.words import GraphLike, path_of, takes_words
from mtpp.verification.verdict import OutOfTimeError, Verdict

# Settings of runtimes, judged by the installed programs: `check`.


_SECONDS = 120.0
#: Runtimes whose parser holds the words against a model, and what that is.
_NEEDS_MODEL = {"accelerate": "the folder of its config.json", "openvino": "its ONNX file"}


def check(words: str | PathLike[str], runtime: str, *, model: str | PathLike[str] | None = None) -> str:
    """Ask the installed runtime whether it accepts a file of settings, as ``mtpp check``.

    Parameters
    ----------
    words : path
        File of settings, as `export` writes it; for onnxruntime-genai in the folder of the stages. It is read, and
        never run.
    runtime : str
        A name of ``mtpp list runtimes`` whose program has a parser that can be called.
    model : path, optional
        Model against which the settings are checked: the folder of a configuration of transformers for accelerate, the
        ONNX file for openvino.

    Returns
    -------
    str
        The program with its release, and what it has read.

    Raises
    ------
    InputError
        If the program refuses the settings, is not installed, or no parser of it can be called.
    """
    file, target = path_of("words", words), find(RUNTIMES, runtime, "runtime")
    if target.name not in PACKAGES:
        why = f"no parser of it can be called; those of {', '.join(PACKAGES)} can."
        raise WordError("runtime", runtime, why)
    if (model is None) == (target.name in _NEEDS_MODEL):
        if model is not None:
            raise WordError("model", str(model), f"the parser of {target.name} takes none; leave it out.")
        raise WordError("model", None, f"{target.name} holds words against a model; give {_NEEDS_MODEL[target.name]}.")
    read_text(file)
    models = [] if model is None else [_existing(model)]
    try:
        done = run_module("instances.runtimes.parser_process", target.name, file.absolute(), *models, seconds=_SECONDS)
    except SubprocessError:
        raise InputError(f"{file}: {target.name} has said nothing within {_SECONDS:g} s.") from None
    verdict, _, reason = done.stdout.decode(errors="replace").strip().partition("\n")
    if verdict == "missing":
        raise InputError(f"{reason}; install it beside mtpp, as make runtimes does.")
    if verdict != "ok":
        fault = reason or f"its program ended with {done.returncode}"
        raise InputError(f"{file}: refused by {printable(fault)}")
    return printable(reason)


def _existing(model: str | PathLike[str]) -> Path:
    path = path_of("model", model).absolute()
    if not path.exists():
        raise missing(path, "file or folder")
    return path


# Certificates checked without the programs that made them: `verify`; it loads neither searches nor models.


# Seconds to read a file, besides its limits, and to compile kernels, for which the clock of these stands still.
_PATIENCE = 140.0


class Saved(Protocol):
    """Protocol of results that can be saved."""

    def save(self, path: str | PathLike[str], /) -> Path:
        """Write it to a file, and return its path."""


@takes_words(VerifyWords)
def verify(
    answer: Saved | str | PathLike[str], *, graph: GraphLike | None = None, **words: Unpack[VerifyWords]
) -> Verdict:
    """Check a certificate without the programs that made it, as ``mtpp verify``.

    Parameters
    ----------
    answer : Result or file
        As `Result.save` and ``--out`` write it, or a folder of stages.
    graph : GraphLike, optional
        The graph that the certificate has to be about; the chain of a plan, the decoder of a front, a flow or a
        deployment, the model of a plan for a global batch.
    question : Instance, Result or str, optional
        The question that it has to answer, or the first 16 digits or more of its hash (`Instance.question_hash`).
    k, bandwidth, memory, activation_buffer, fit, constraints, runtime
        What the question has to say, read as by the function that made the file.
    devices
        Devices of several kinds, as the function that made the file takes them. With `graph` the works on each kind are
        compared as well.
    cluster, microbatches, global_batch, dtype, sequence
        What the question of a plan has to say.
    nic, optimizer_bytes, full_duplex, network, parameter_copies, samples, recompute
        The same of a plan, as for `plan`, or (the first three) for a global batch; with `graph` all of it is compared.
    micro_batch, tp, cp, ep, etp, imbalance, dispatch, overlap, zero, checkpoint, attention, fix, device, calibration
        The same of a plan for a global batch, as for `train`; with `graph` all of it is compared.
    in_flight
        The same of a serving front, or of a flow.
    servers, between, input, output, kv, reserve, degrees, batch, tpot, ttft, objective, topology, prefill, price
        The same of a deployment, as for `serve`.
    rerun : bool
        Also let the solvers and programs of this machine prove again what is trusted.
    time_limit : float
        Seconds, 60 by default, and as many again of `rerun`.
    dims, level, training
        How `graph` is read, as for `mtpp.load`.

    Returns
    -------
    Verdict
        Its `faults` are empty if no number is false; `proved_ratio` rests on proved bounds alone, and
        `rests_on_trust` says whether a better one is only trusted, and `ran_out` whether for lack of time. A question
        other than the stated one is a fault; `compared` names the arguments that were compared.

    Raises
    ------
    InputError
        If the file is no certificate, lacks its question, or cannot be checked within the limits.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
    >>> mtpp.verify(mtpp.certify(graph, k=2, bandwidth=1)).faults
    ()
    """
    user_graph = None if graph is None else UserGraph(graph, words)
    try:
        if isinstance(answer, str | PathLike):
            return verified(Path(fspath(answer)), user_graph, words)
        if not callable(getattr(answer, "save", None)):
            raise InputError(f"A result or the file of one is verified, no {type(answer).__name__}.")
        with tempfile.TemporaryDirectory() as folder:
            return verified(answer.save(Path(folder) / "result.json"), user_graph, words)
    except NotBoundedError as error:
        raise InputError(f"Not checked: {error}; give more time, or do not trust it.") from None


def verified(file: Path, graph: UserGraph | None, words: VerifyWords) -> Verdict:
    """Check a file in a process with limited time and memory, and compare its question with the caller's.

    Parameters
    ----------
    graph : UserGraph, optional
        The graph that the file has to be about.
    words : VerifyWords
        All keyword arguments of `verify`, with their defaults.

    Raises
    ------
    InputError
        If the file is no certificate, or an argument is refused.
    NotBoundedError
        If it was not checked within the limits.
    """
    refuse_model(file)
    limit = words["time_limit"]
    refuse_no_time("time_limit", limit)
    options = {"rerun": words["rerun"], "time_limit": limit}
    verdict = run_bounded(_verdict, file, seconds=2 * limit + _PATIENCE, **options)
    compared, faults = differences(verdict.certificate, graph, words)
    return replace(verdict, compared=compared, faults=(*faults, *verdict.faults))


def _verdict(file: Path, *, rerun: bool, time_limit: float) -> Verdict:
    from mtpp.problems.checking import verify as check

    promises: tuple[str, ...] = ()
    if file.is_dir():  # of stages
        from mtpp.stages.manifest import read_manifest
        from mtpp.stages.trial import broken_promises

        manifest, folder = read_manifest(file), file
        promises, file = tuple(broken_promises(manifest, folder)), folder / manifest.certificate.file
    try:
        verdict = check(read_json(file), time_limit=time_limit)
    except OutOfTimeError:
        raise NotBoundedError(f"its cost was not known within {time_limit:g} s") from None
    verdict = replace(verdict, faults=(*promises, *verdict.faults))
    if rerun and not verdict.faults:
        verdict = run_again(verdict, time_limit=time_limit)
    return verdict
