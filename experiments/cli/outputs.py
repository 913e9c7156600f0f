"""Files that the verbs read and write; what cannot be written is refused before long work begins."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from instances import InputError, Instance, Partition, Result
from instances.json_files import check_writable, write_json
from instances.partitioning.partition_file import read_partition

__all__ = ["check_files", "draw", "for_k", "read_starts", "write_certificate"]

_PICTURES = (".png", ".svg", ".pdf")


def check_files(out: Path | None, plot: Path | None, export: Path | None = None) -> None:
    """Refuse files that cannot be written; nothing is changed.

    Raises
    ------
    InputError
        If the picture has another suffix than .png, .svg and .pdf, or something that is no regular file is there.
    OSError
        If a file cannot be written.
    """
    if plot is not None and plot.suffix not in _PICTURES:
        raise InputError(f"--plot {plot}: a picture is written as one of {', '.join(_PICTURES)}.")
    for path in (out, plot, export):
        if path is not None:
            check_writable(path)
            existed = path.exists()
            with path.open("ab"):
                pass
            if not existed:
                os.unlink(os.path.realpath(path))  # a symbolic link stays


def for_k(path: Path, instance: Instance, instances: Sequence[Instance]) -> Path:
    """The file of one of several instances: with more than one, ``-kK`` is put into the name."""
    return path.with_name(f"{path.stem}-k{instance.k}{path.suffix}") if len(instances) > 1 else path


def read_starts(path: Path | None, instances: Sequence[Instance]) -> list[Partition | None]:
    """The partition of a file as a start for each instance.

    Raises
    ------
    InputError
        If it does not answer one of them.
    """
    return [None if path is None else read_partition(path, instance) for instance in instances]


def write_certificate(answers: list[Result], out: Path | None, instances: Sequence[Instance]) -> None:
    """Write the answers to one of the instances, if there is a file to write to."""
    from experiments.certificates.writing import certificate_document

    if out is not None:
        write_json(for_k(out, answers[0].instance, instances), certificate_document(answers))


def draw(answer: Result, plot: Path | None, instances: Sequence[Instance]) -> None:
    """Draw the partition of an answer, if there is a file to draw to."""
    if plot is None:
        return
    if answer.partition is None:
        label = f"{answer.instance.name}, k = {answer.instance.k}"
        print(f"{label}: there is no partition to draw; give one with --start.", file=sys.stderr)
        return
    from experiments.plots.partitions import partition_figure, save_figure

    save_figure(partition_figure(answer.partition, answer.bound), for_k(plot, answer.instance, instances))
