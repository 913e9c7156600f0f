"""Numbers of the three papers as they print them, and what each may be held against."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["PAPERS", "Comparison", "PaperNumber", "comparison", "numbers", "table_iii", "value_of"]

#: The papers, in the order of tables.
PAPERS = ("mtpp", "spp", "placeto")

_FOLDER = Path(__file__).parent
_OUT_OF_MEMORY = "OOM"


class PaperNumber(NamedTuple):
    """One number of a paper."""

    paper: str
    item: str  # table, figure or section
    row: str
    column: str
    value: str  # as printed, whose digits count; OOM for out of memory
    unit: str
    note: str  # what it is, and what is inferred

    @property
    def number(self) -> float | None:
        """The value; None where a method ran out of memory."""
        return None if self.value == _OUT_OF_MEMORY else float(self.value)


@dataclass(frozen=True)
class Comparison:
    """Rule for holding a number against one from here."""

    comparable: str  # same (question and data), shape (on our graphs), setting (shown only), no
    kind: str  # equal, at most, at least, order; empty where nothing is compared
    tolerance: Decimal  # in the unit of the number, or a part of it
    relative: bool
    why: str  # what limits the comparison


def numbers() -> list[PaperNumber]:
    """All 459 numbers: those of ``claims.csv``, and the 63 cells of SPP's Table III."""
    return [*_claims(), *table_iii()]


def table_iii() -> list[PaperNumber]:
    """Seconds of an iteration by model, testbed and planner, from ``table3.csv``."""
    rows = []
    for cell in _read("table3.csv"):
        gain, row = cell["speedup_percent"], f"{cell['model']}, {cell['testbed']}"
        note = f"SPP is {gain} % faster" if gain else "out of memory" if cell["oom"] == "1" else ""
        value = cell["seconds"] or _OUT_OF_MEMORY
        rows.append(PaperNumber("spp", "Table III", row, cell["planner"], value, "s", note))
    return rows


def value_of(paper: str, item: str, row: str, column: str) -> float | None:
    """One number of a paper; None where a method ran out of memory.

    Raises
    ------
    KeyError
        If there is none in that place.

    Examples
    --------
    >>> value_of("placeto", "Table 1", "NASNet 2 GPUs", "expert")
    0.86
    """
    return _by_place()[paper, item, row, column].number


def comparison(number: PaperNumber) -> Comparison:
    """The first row of ``comparable.csv`` whose patterns fit.

    Raises
    ------
    KeyError
        If none fits.
    """
    for paper, item, row, column, stated in _comparisons():
        patterns = ((number.item, item), (number.row, row), (number.column, column))
        if paper == number.paper and all(fnmatchcase(*pair) for pair in patterns):
            return stated
    raise KeyError(number)


@cache
def _claims() -> tuple[PaperNumber, ...]:
    return tuple(PaperNumber(**row) for row in _read("claims.csv"))


@cache
def _by_place() -> dict[tuple[str, str, str, str], PaperNumber]:
    return {number[:4]: number for number in numbers()}


@cache
def _comparisons() -> tuple[tuple[str, str, str, str, Comparison], ...]:
    rows = []
    for row in _read("comparable.csv"):
        text = row["tolerance"] or "0"
        tolerance = Decimal(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        made = Comparison(row["comparable"], row["kind"], tolerance, text.endswith("%"), row["why"])
        rows.append((row["paper"], row["item"], row["row"], row["column"], made))
    return tuple(rows)


def _read(name: str) -> list[dict[str, str]]:
    with open(_FOLDER / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
