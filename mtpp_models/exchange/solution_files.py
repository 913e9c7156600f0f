"""Parsers of solution files of solvers; they check nothing and need no model.

HiGHS, CBC, GLPK (``--write`` and ``--output``), SCIP and Gurobi have formats of their own; others give plain lists of
names and values.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn

from instances import InputError
from instances.json_files import check_readable, read_text

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_CBC = re.compile(r"(.*\S) - objective value\s+(\S+)")
_OBJECTIVE = re.compile(r"(?:#\s*|=)?obj(?:ective(?: value)?)?\s*[:=]\s*(\S+)", re.IGNORECASE)
_BOUND = re.compile(r"#\s*(?:best |dual )?bound\s*[:=]\s*(\S+)", re.IGNORECASE)
# A row as Pyomo calls it.
_ROW = re.compile(r"[cr]_[elu]_.+_")
_GLPK_ROW = re.compile(r"\s*\d+\s+(\S+)\s+(?:\*\s+)?(\S+)")
# Bytes of the largest file, and characters of it in a message.
_LARGEST, _SHOWN = 2**26, 40


@dataclass
class SolutionFile:
    """Content of a solution file: values of variables, and statements on objective and bound.

    Parameters
    ----------
    path : str
    solver : str
        Solver whose format the file has.
    max_variables : int
        Number of variables of the model.
    """

    path: str
    solver: str
    max_variables: int
    values: dict[str, float] = field(default_factory=dict)  # of the variables that it names
    by_number: list[float] = field(default_factory=list)  # of all variables, where it numbers them instead
    objective: float | None = None  # in multiples of the model's unit, as the bound is
    bound: float | None = None  # stated lower bound
    optimal: bool = False  # whether it calls the solution optimal
    complete: bool = False  # whether it has to name all variables, those of value 0 too

    def fail(self, problem: str, line: int | None = None) -> NoReturn:
        """Raise an `InputError` that names the file and the line."""
        raise InputError(f"{self.path}{'' if line is None else f', line {line}'}: {problem}")

    def number(self, text: str, line: int) -> float:
        """The finite number that a text of the file states; an `InputError` if it is none."""
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not math.isfinite(value):
            self.fail(f"expected a finite number, found {text[:_SHOWN]!r}.", line)
        return value

    def put(self, name: str, text: str, line: int) -> None:
        """Record the value of a variable."""
        if len(self.values) == self.max_variables:
            self.fail(f"these are more variables than the model has, {self.max_variables}.", line)
        if name in self.values:
            self.fail(f"{name[:_SHOWN]} is given twice; keep one.", line)
        self.values[name] = self.number(text, line)


#: Lines with their numbers.
Lines = Iterator[tuple[int, str]]


def read_solution_file(path: str | Path, max_variables: int) -> SolutionFile:
    """Read a solution with at most `max_variables` values, in any of the known formats.

    Raises
    ------
    InputError
        If the file cannot be read, has another format, is cut short, gives a name twice or a value that is no finite
        number, or holds no solution.
    """
    check_readable(path, _LARGEST)
    text = read_text(path)
    first = text.lstrip()[:1000]
    file_format = next(file_format for file_format in _FORMATS if file_format.recognises(first))
    file = SolutionFile(str(path), file_format.solver, max_variables)
    file_format.read(file, ((i, line.rstrip()) for i, line in enumerate(io.StringIO(text), 1) if line.strip()))
    if not file.values and not file.by_number:
        file.fail("there is no solution in it.")
    return file


def _read_highs(file: SolutionFile, lines: Lines) -> None:
    """Read HiGHS's format: ``Model status``, and a line for each variable between ``# Columns N`` and ``# Rows M``."""
    file.complete = True
    remaining = -1
    for i, line in lines:
        words = line.split()
        if line.startswith("# Columns") and remaining < 0:
            remaining = int(file.number(words[-1], i))
        elif remaining < 0:
            file.optimal |= line.strip() == "Optimal"
            if words[0] == "Objective" and len(words) == 2:
                file.objective = file.number(words[1], i)
        elif remaining == 0:
            if line.startswith("# Rows"):
                return
            break
        else:
            _take(file, words, i)
            remaining -= 1
    if remaining < 0:
        file.fail("there is no solution in it.")
    file.fail("it is cut short, or variables are too many.")


def _read_cbc(file: SolutionFile, lines: Lines) -> None:
    """Read CBC's format: ``Optimal - objective value 1.2``, then number, name, value, reduced cost; zeros may lack."""
    i, line = next(lines)
    status = _CBC.fullmatch(line.strip())
    assert status is not None
    file.optimal = status[1].startswith("Optimal")
    file.objective = file.number(status[2], i)
    for i, line in lines:
        words = line.split()
        if words[0] == "**":
            file.fail("CBC marks the solution as infeasible.", i)
        if len(words) != 4 or not words[0].isdigit():
            file.fail("expected number, name, value and reduced cost; it may be cut short.", i)
        if not _ROW.fullmatch(words[1]):  # as CBC adds with printingOptions all
            file.put(words[1], words[2], i)


def _read_scip(file: SolutionFile, lines: Lines) -> None:
    """Read SCIP's format: ``objective value:``, then name, value and ``(obj:…)``; zeros may be missing."""
    for i, line in lines:
        words = line.split()
        if line.startswith("solution status:"):
            file.optimal = line.partition(":")[2].strip() == "optimal solution found"
        elif line.startswith("objective value:"):
            file.objective = file.number(words[-1], i)
        elif line.startswith("no solution"):
            return
        elif len(words) == 3 and re.fullmatch(r"\(obj:\S+\)", words[2]):
            file.put(words[0], words[1], i)
        else:
            file.fail("expected name, value and (obj:…); it may be cut short.", i)


def _read_glpk(file: SolutionFile, lines: Lines) -> None:
    """Read ``glpsol --write``, also as HiGHS writes it: ``s mip ROWS COLUMNS STATUS OBJECTIVE``, values by number."""
    columns = -1
    for i, line in lines:
        words = line.split()
        if words[0] == "s":
            if words[1:2] != ["mip"] or len(words) != 6:
                file.fail("this is the solution of a relaxation, not of whole numbers.", i)
            columns = int(file.number(words[3], i))
            if words[4] not in ("o", "f"):
                return
            file.optimal, file.objective = words[4] == "o", file.number(words[5], i)
        elif words[0] == "j":
            if len(words) != 3 or words[1] != str(len(file.by_number) + 1):
                file.fail(f"expected j {len(file.by_number) + 1} and its value.", i)
            file.by_number.append(file.number(words[2], i))
        elif words == ["e", "o", "f"]:
            if len(file.by_number) != columns:
                file.fail(f"{len(file.by_number)} variables of {columns} have values.", i)
            return
        elif words[0] not in ("c", "i"):
            file.fail("expected a line of c, s, i, j or e o f.", i)
    file.fail("it is cut short: it does not end with e o f.")


def _read_glpk_report(file: SolutionFile, lines: Lines) -> None:
    """Read a file of ``glpsol --output``: a table of rows, a table of columns; long names have lines of their own."""
    columns, table, begin = -1, "", 0
    for i, line in lines:
        words = line.split()
        if line.startswith("Columns:"):
            columns = int(file.number(words[1], i))
        elif line.startswith("Status:"):
            file.optimal = words[1:] == ["INTEGER", "OPTIMAL"]
            if words[1] != "INTEGER" or "UNDEFINED" in words or "EMPTY" in words:
                file.fail("this is no solution of whole numbers.", i)
        elif line.startswith("Objective:") and "=" in words:
            file.objective = file.number(words[words.index("=") + 1], i)
        elif words[:3] == ["No.", "Column", "name"]:
            begin = i
        elif words[:2] == ["Integer", "feasibility"]:
            break
        elif begin and words[0].strip("-"):
            table += f"{line}\n" if len(words) != 2 or not words[0].isdigit() else f"{line} "
    else:
        file.fail("it is cut short.")
    for row in table.splitlines():
        cells = _GLPK_ROW.match(row)
        if cells is None:
            file.fail(f"expected number, name and activity, found {row[:_SHOWN]!r}.")
        file.put(cells[1], cells[2], begin)
    if len(file.values) != columns:
        file.fail(f"{len(file.values)} variables of {columns} have values.")


def _read_list(file: SolutionFile, lines: Lines) -> None:
    """Read names and values, as Gurobi writes them or by hand; comments may state objective and bound."""
    for i, line in lines:
        if match := _OBJECTIVE.match(line):
            file.objective = file.number(match[1], i)
        elif match := _BOUND.match(line):
            file.bound = file.number(match[1], i)
        elif line.startswith("#"):
            file.complete |= line.startswith("# Solution for model")
        else:
            _take(file, line.split(), i)


def _take(file: SolutionFile, words: list[str], line: int) -> None:
    if len(words) != 2:
        file.fail("expected a name and a value; known are the files of HiGHS, CBC, GLPK, SCIP and Gurobi.", line)
    file.put(words[0], words[1], line)


class _Format(NamedTuple):
    solver: str
    recognises: Callable[[str], object]  # from its first characters
    read: Callable[[SolutionFile, Lines], None]


_FORMATS = (
    _Format("HiGHS", lambda text: text.startswith("Model status"), _read_highs),
    _Format("CBC", lambda text: _CBC.match(text.splitlines()[0]), _read_cbc),
    _Format("SCIP", lambda text: re.match(r"(solution status|objective value|no solution)\b", text), _read_scip),
    _Format("GLPK", lambda text: re.match(r"[cs] ", text), _read_glpk),
    _Format("GLPK", lambda text: re.match(r"Problem:.*\nRows:", text), _read_glpk_report),
    _Format("Gurobi", lambda text: text.startswith("# Solution for model"), _read_list),
    _Format("a list", lambda text: True, _read_list),
)
