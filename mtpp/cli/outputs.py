"""Files that the verbs read and write; what cannot be written is refused before long work begins."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from instances import InputError, Instance, Partition, Result
from instances.errors import WordError, said
from instances.json_files import check_writable, write_json
from mtpp.cli import options
from mtpp.questions.answers import as_partition

__all__ = ["Files", "PlanFiles", "check_apart", "file_for", "read_starts"]

_PICTURES = (".png", ".svg", ".pdf")
# Options whose files are written.
_WRITTEN = ("out", "plot", "plot_progress", "export", "trace")


@dataclass(frozen=True)
class Files:
    """Where an answer is written and drawn; the fields are the words of the command line."""

    out: options.Out = None
    plot: options.Plot = None

    def check(self, *others: Path | None) -> None:
        """Refuse files that cannot be written, these and `others`; nothing is changed.

        Raises
        ------
        InputError
            If the picture has another suffix than .png, .svg and .pdf, or something that is no regular file is there.
        OSError
            If a file cannot be written.
        """
        if self.plot is not None and self.plot.suffix not in _PICTURES:
            raise InputError(f"--plot {self.plot}: a picture is written as one of {', '.join(_PICTURES)}.")
        for path in (self.out, self.plot, *others):
            if path is not None:
                check_writable(path)
                existed = path.exists()
                with path.open("ab"):
                    pass
                if not existed:
                    os.unlink(os.path.realpath(path))  # a symbolic link stays

    def of(self, instance: Instance, instances: Sequence[Instance]) -> Files:
        """The files of one of several instances."""
        out, plot = (None if path is None else file_for(path, instance, instances) for path in (self.out, self.plot))
        return Files(out, plot)

    def write(self, document: Callable[[], Mapping[str, Any]]) -> None:
        """Write a JSON document, if there is a file to write to."""
        if self.out is not None:
            write_json(self.out, document())

    def draw(self, answer: Result) -> None:
        """Draw the partition of an answer, if there is a file to draw to."""
        if self.plot is None:
            return
        if answer.partition is None:
            print(f"{answer.instance.label}: there is no partition to draw; give one with --start.", file=sys.stderr)
            return
        from mtpp.plots.style import save_figure

        save_figure(answer.plot(), self.plot)


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
            metavar="FILE",
            help="Order for torch.distributed.pipelining (.csv), Perfetto trace (.json), or settings of --for.",
        ),
    ] = None


def check_apart(given: Mapping[str, Any]) -> None:
    """Refuse to write one file twice, or over one that is read; `given` are all options of a verb.

    Raises
    ------
    WordError
        If two of them are the same file.
    """
    written = {name: given[name] for name in _WRITTEN if given.get(name) is not None}
    for (name, path), (other, there) in combinations(written.items(), 2):
        if _same(path, there):
            raise WordError(name, path, f"{said(other, there)} is the same file; give another name.")
    read = [value if isinstance(value, list) else [value] for name, value in given.items() if name not in _WRITTEN]
    for value in (value for values in read for value in values if isinstance(value, str | PathLike)):
        for name, path in written.items():
            if os.path.isfile(value) and _same(path, value):
                raise WordError(name, path, "this is a file to read; give another name.")


def _same(one: str | PathLike[str], other: str | PathLike[str]) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def file_for(path: Path, instance: Instance, instances: Sequence[Instance]) -> Path:
    """The file of one of several instances: with more than one, ``-kK`` is put into the name."""
    return path.with_name(f"{path.stem}-k{instance.k}{path.suffix}") if len(instances) > 1 else path


def read_starts(
    start: Partition | Result | str | PathLike[str] | None, instances: Sequence[Instance]
) -> list[Partition | None]:
    """The partition of the word *start* for each instance.

    Raises
    ------
    InputError
        If it does not answer one of them.
    """
    return [as_partition(start, instance) for instance in instances]
