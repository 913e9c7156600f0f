"""Print the files, code lines and lines of imports of each package and of all together: ``make size``.

A code line has a token that is neither a comment nor part of a docstring.
"""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from instances.system.import_guard import SIBLINGS

__all__ = ["Size", "size", "size_of_package"]

ROOT = Path(__file__).resolve().parents[2]

_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Size(NamedTuple):
    """Counts of one file, or sums over several."""

    files: int
    code: int  # lines
    imports: int  # code lines of import statements, those within functions too


def size(path: Path) -> Size:
    """The counts of one file."""
    with tokenize.open(path) as file:
        tokens = [token for token in tokenize.generate_tokens(file.readline) if token.type not in _NO_CODE]
    code = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    imports = set[int]()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            code -= _lines(node.body[0])
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= _lines(node)
    return Size(1, len(code), len(imports & code))


def _lines(statement: ast.stmt) -> set[int]:
    """The numbers of the lines on which a statement stands."""
    return set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))


def size_of_package(package: str, root: Path = ROOT) -> Size:
    """The sums over all files of a package."""
    return _sum(size(path) for path in (root / package).rglob("*.py"))


def _sum(sizes: Iterable[Size]) -> Size:
    return Size(*map(sum, zip(*sizes, strict=True)))


def main() -> None:
    """Print a row for each package and one for all of them."""
    sizes = {package: size_of_package(package) for package in SIBLINGS}
    print(f"{'':12}{'files':>8}{'code':>8}{'imports':>8}")
    for name, counts in {**sizes, "in all": _sum(sizes.values())}.items():
        print(f"{name:12}{counts.files:8,}{counts.code:8,}{counts.imports:8,}")


if __name__ == "__main__":
    main()
