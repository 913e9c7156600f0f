"""What all verbs ``table`` share: a file of runs that a second call goes on with, and sections of text and pictures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes

from experiments.plots.partitions import save_figure
from experiments.runs.log import RunLog
from experiments.text_tables import FORMATS
from instances.json_files import check_writable
from instances.lookup import find

__all__ = ["Section", "check_style", "exit_code", "open_log", "publish"]


class Section(NamedTuple):
    """A table as it is printed and written.

    Parameters
    ----------
    name : str
        Of its files, without suffix.
    title : str
    header : sequence of str
    rows : sequence of sequence of str
    note : str
        Printed below it.
    """

    name: str
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def check_style(style: str) -> None:
    """Raise `InputError` for an unknown format of printed tables."""
    find(FORMATS, style, "format")


@contextmanager
def open_log(out: Path, folder: Path | None) -> Iterator[RunLog]:
    """Open the file of runs, and make the folder of tables before any run is made; Ctrl-C says where the runs are."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with RunLog(out) as log:
            yield log
    except KeyboardInterrupt:
        print(f"Stopped; {out} holds the runs that are done, and the same call makes the rest.", file=sys.stderr)
        raise


def publish(
    sections: Sequence[Section], pictures: Callable[[], Mapping[str, Axes]], folder: Path | None, style: str
) -> None:
    """Print sections as `style`; into a folder, if there is one, write them and the pictures in all formats."""
    for _, title, header, rows, note in sections:
        print(f"{title}\n\n{FORMATS[style](header, rows)}\n" + (f"\n{note}\n" if note else ""))
    if folder is None:
        return
    for name, _, header, rows, _ in sections:
        for suffix in ("md", "csv", "tex"):
            file = folder / f"{name}.{suffix}"
            check_writable(file)
            file.write_text(FORMATS[suffix](header, rows) + "\n", encoding="utf-8")
    for name, ax in pictures().items():
        for suffix in ("png", "svg"):
            save_figure(ax, folder / f"{name}.{suffix}")


def exit_code(failed: int, total: int, out: Path) -> int:
    """0, or 1 after telling that runs failed."""
    if failed:
        reasons = f"{out} has the reasons. The same call tries them again."
        print(f"{failed} of {total} runs failed; {reasons}", file=sys.stderr)
    return int(failed > 0)
