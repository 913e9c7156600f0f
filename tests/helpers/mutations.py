"""Small changes of a source that a test should notice, found in its syntax tree."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Site", "excused", "mutations", "packages", "sources"]

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
_PAIRS = [("min", "max"), ("minimum", "maximum"), ("argmin", "argmax")]
_NAMES = dict(_PAIRS) | {second: first for first, second in _PAIRS}
# Larger numbers are limits and smaller ones tolerances, which few tests can tell from their neighbours.
_LEAST, _MOST = 0.01, 16

# What people read, what types say, and what holds on this system at this moment.
_SPOKEN = {"debug", "info", "warning", "warn", "error", "exception"}
# Seeds, of which one is as good as another, and what changes no more of a picture than its looks.
_ARBITRARY = {"default_rng", "manual_seed", "axes_of"}
_LOOKS = {"alpha", "fontsize", "height_ratios", "linewidth", "linewidths", "markersize", "pad", "rotation", "zorder"}
# A line that sets constants of a module.
_CONSTANTS = re.compile(r"_[A-Z][A-Z_0-9, ]* = ")
_SKIPPED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
_TYPES = ("annotation", "returns", "decorator_list")
_CIRCUMSTANCES = ("TYPE_CHECKING", "__name__", "sys.platform", "sys.version_info")


@dataclass(frozen=True)
class Site:
    """A place of a source, in bytes of the file, and what may be written there instead."""

    file: str  # from the root of the project
    line: int
    text: str  # of the line, without blanks around it
    begin: int
    end: int
    before: str
    after: str
    written: str  # `after` with as many lines as stand there now

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.before} -> {self.after}  in: {self.text}"

    def planted(self, source: bytes) -> bytes:
        """The source with the change."""
        return source[: self.begin] + self.written.encode() + source[self.end :]


def packages(root: Path) -> list[str]:
    """The folders that go into the wheel."""
    tool = tomllib.loads((root / "pyproject.toml").read_text())["tool"]
    return list(tool["hatch"]["build"]["targets"]["wheel"]["packages"])


def sources(root: Path) -> list[Path]:
    """All files of the packages."""
    return sorted(path for package in packages(root) for path in (root / package).rglob("*.py"))


def excused(root: Path) -> Callable[[Site], bool]:
    """Whether `tests/mutants.toml` says of a change that no test should notice it."""
    path = root / "tests" / "mutants.toml"
    said = tomllib.loads(path.read_text()) if path.exists() else {}
    entries, efforts, taste = said.get("equivalent", []), said.get("effort", []), set(said.get("taste", []))
    if silent := [entry["file"] for entry in (*entries, *efforts) if not entry["reason"].strip()]:
        raise ValueError(f"{path}: a change of {silent[0]} has no reason; give one.")
    tuned = {entry["file"] for entry in efforts}
    same = {tuple(entry[name] for name in ("file", "text", "before", "after")) for entry in entries}

    def is_excused(site: Site) -> bool:
        arbitrary = not taste.isdisjoint(Path(site.file).parts) or (site.file in tuned and _CONSTANTS.match(site.text))
        return (bool(arbitrary) and site.before[0].isdigit()) or (site.file, site.text, site.before, site.after) in same

    return is_excused


def mutations(root: Path, path: Path) -> list[Site]:
    """All sites of a file."""
    text = path.read_text()
    rows, start = text.split("\n"), [0]
    for row in rows:
        start.append(start[-1] + len(row.encode()) + 1)
    sites = []
    for old, new in _changes(ast.parse(text)):
        assert old.end_lineno is not None
        assert old.end_col_offset is not None
        begin, end = start[old.lineno - 1] + old.col_offset, start[old.end_lineno - 1] + old.end_col_offset
        before, after = ast.unparse(old), ast.unparse(new)
        more = "\n" * (old.end_lineno - old.lineno)
        written = f"({after}{more})" if isinstance(old, ast.expr) else after + more
        file, row = path.relative_to(root).as_posix(), rows[old.lineno - 1].strip()
        sites.append(Site(file, old.lineno, row, begin, end, before, after, written))
    return sites


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    """An expression or statement and what may stand for it, of all that is computed within a node."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in _TYPES and not _is_skipped(child):
                if isinstance(child, ast.expr | ast.stmt):
                    yield from ((child, new) for new in _instead(child))
                yield from _changes(child)


def _is_skipped(node: ast.AST) -> bool:
    if isinstance(node, ast.If | ast.IfExp):
        return any(word in ast.unparse(node.test) for word in _CIRCUMSTANCES)
    if isinstance(node, ast.keyword):
        return node.arg in _LOOKS
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return name in _ARBITRARY or (isinstance(node.func, ast.Attribute) and name in _SPOKEN)
    return isinstance(node, _SKIPPED) or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")


def _instead(node: ast.expr | ast.stmt) -> Iterator[ast.AST]:
    match node:
        case ast.AugAssign(target, operator, value) if type(operator) in _COMPUTED and not _is_text(value):
            yield ast.AugAssign(target, _COMPUTED[type(operator)](), value)
        case ast.Compare(left, [operator], right) if type(operator) in _COMPARED:
            yield ast.Compare(left, [_COMPARED[type(operator)]()], right)
        case ast.BinOp(left, operator, right) if type(operator) in _COMPUTED and not _is_text(left, right):
            yield ast.BinOp(left, _COMPUTED[type(operator)](), right)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.Constant(int() | float() as value) if not isinstance(value, bool):
            if value == 0 or _LEAST <= value <= _MOST:
                yield ast.Constant(value + 1)
        case ast.Call(ast.Attribute(_, "where"), [condition, first, second]):
            yield ast.Call(node.func, [condition, second, first], node.keywords)
        case ast.Attribute(value, name, context) if name in _NAMES:
            yield ast.Attribute(value, _NAMES[name], context)
        case ast.Name(name, context) if name in _NAMES:
            yield ast.Name(_NAMES[name], context)
        case ast.Subscript(value, ast.Slice(lower, upper, step), context):
            if lower is None or upper is None:
                changed = ast.Slice(upper, lower, step)
            else:
                changed = ast.Slice(lower, ast.BinOp(upper, ast.Add(), ast.Constant(1)), step)
            if lower is not None or upper is not None:
                yield ast.Subscript(value, changed, context)


def _is_text(*nodes: ast.expr) -> bool:
    return any(
        isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        for node in nodes
    )
