"""Stages that run: `split` and `run`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from instances import InputError, Instance, Partition, Result, combine
from instances.errors import InputWarning
from mtpp.api.partitioning import as_partition
from mtpp.questions.reading import Quantity, Reading, Rules, instances_of, load
from mtpp.stages.manifest import check_new_folder
from mtpp_models import SolveOptions

if TYPE_CHECKING:
    from mtpp.stages.trial import Trial

__all__ = ["run", "split"]


def split(
    model: str | Path,
    k: int | None = None,
    *,
    out: str | Path,
    partition: Partition | Result | str | Path | None = None,
    bandwidth: Quantity = None,
    memory: Quantity = None,
    activation_buffer: Quantity = None,
    fit: bool = False,
    constraints: Rules = None,
    samples: bool = True,
    method: str | None = None,
    solver: str = "highs",
    time_limit: float | None = 60.0,
    gap: float = 0.0,
    threads: int = 1,
    seed: int = 0,
    **reading: Unpack[Reading],
) -> Result:
    """Cut an ONNX model into stages that run, and write them with a certificate, as ``mtpp split``.

    Parameters
    ----------
    model : path of an ONNX file
    k : int, optional
        Number of stages; that of the partition if one is given.
    out : path
        Folder to write; new or empty.
    partition : Partition, Result or file, optional
        What to split by; the time is for a bound on it then, and a `Result` that is proved needs none. A file needs k
        and the words of its question; the others have theirs, also the dimensions of the model.
    bandwidth : float or str, optional
        As for `partition`, or "measured": between processes of this machine.
    memory, activation_buffer, fit, constraints, **reading
        As for `partition`. With ``cost="measured"`` times are those of onnxruntime on this machine.
    samples : bool
        Whether the whole model is run once, to compare outputs with.
    method : str, optional
        A name of `mtpp.HEURISTICS`, to search by it alone and prove next to nothing.
    solver, time_limit, gap, threads, seed
        As for `certify`.

    Returns
    -------
    Result
        What is split by, and what is proved of it.

    Raises
    ------
    InputError
        If a word, the model, the partition or the folder is refused, or there is no partition.
    SolverNotAvailableError
        If the solver cannot run here; one that fails at work is a warning.

    Examples
    --------
    >>> import mtpp, onnx, os, tempfile
    >>> slow = {"peak_flops": 1e9, "memory_bandwidth": 1e9}
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "net.onnx")
    >>> text = "g (float[8] x) => (float[8] y) { a = Tanh(x) b = Exp(a) y = Tanh(b) }"
    >>> onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}'), path)
    >>> stages = os.path.join(folder.name, "stages")
    >>> mtpp.split(path, 2, out=stages, **slow).proved
    True
    >>> sorted(os.listdir(stages))
    ['certificate.json', 'manifest.json', 'samples.bin', 'stage-0.onnx', 'stage-1.onnx']
    >>> mtpp.run(stages, requests=20).agreement.exact
    4
    >>> folder.cleanup()
    """
    from mtpp.stages.splitting import MEASURED, check_model, find_answers, measured_bandwidth

    path, options = Path(model), SolveOptions(solver, time_limit, gap, threads, seed)
    check_new_folder(Path(out))
    check_model(path)
    if isinstance(partition, Partition | Result):
        words = {"k": k, "bandwidth": bandwidth, "memory": memory, "activation_buffer": activation_buffer}
        instance = _instance_of(path, partition, words | {"constraints": constraints, "fit": fit or None, **reading})
    else:
        rate = measured_bandwidth() if bandwidth == MEASURED else bandwidth
        [instance, *more] = instances_of(path, k, rate, memory, activation_buffer, fit, constraints, **reading)
        if more:
            raise InputError(f"k is {k!r}; give one number of stages.")
    if isinstance(partition, Result) and partition.proved:
        answers = [partition]
    else:
        answers = find_answers(instance, options, given=as_partition(partition, instance), method=method)
    best = combine(*answers)
    if best.partition is None:
        raise InputError(f"{instance.label}: {best.impossible or 'no partition was found; give more time.'}")

    from mtpp.stages.folder import write_stages  # needs onnx, and above it is said what to install

    dims = instance.graph.attributes["dims"]
    write_stages(path, answers, out, dims=dims, samples=samples, on_fault=_warn)
    return best


def run(
    stages: str | Path, *, requests: int = 200, queue: int = 2, timeout: float = 60.0, fusion: bool = False
) -> Trial:
    """Run stages on this machine, a process each, and compare period and outputs with what was promised.

    This is ``mtpp run``; it works in a notebook, too.

    Parameters
    ----------
    stages : path
        Folder that `split` has written; its docstring has an example.
    requests : int
        That are measured, after some to warm up.
    queue : int
        Requests that wait between two stages.
    timeout : float
        Seconds without progress, after which a stage is stopped.
    fusion : bool
        Whether onnxruntime may fuse operators: faster, but not what was priced.

    Returns
    -------
    Trial
        Its `period`, `latency` and `over_predicted`, and as `agreement` how outputs compare with the whole model's: the
        `name` of that is an output that differs, or None. `mtpp.plots.pipelines.trial_figure` draws a trial.

    Raises
    ------
    InputError
        If the folder is refused, or there is not the memory for it.
    mtpp.stages.runner.StageError
        If a stage dies, hangs or fails.
    """
    from mtpp.stages.trial import try_stages

    return try_stages(stages, requests=requests, queue=queue, timeout=timeout, fusion=fusion)


def _instance_of(path: Path, given: Partition | Result, words: dict[str, object]) -> Instance:
    """The question of a partition, which has to be one of the model."""
    from mtpp.stages.splitting import check_same

    for name, value in words.items():
        if value is not None:
            raise InputError(f"{name}: the partition has its own; leave it out.")
    graph = given.instance.graph
    check_same(load(path, dims=graph.attributes.get("dims")), graph, "partition")
    return given.instance


def _warn(fault: str) -> None:
    warnings.warn(f"{fault} The outputs of the stages will not be compared.", InputWarning, stacklevel=3)
