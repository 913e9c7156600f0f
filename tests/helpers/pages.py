"""Pages that people read: their fenced blocks, and the commands in these and in the prose."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from typer.main import get_command

import mtpp
from instances.architectures import ARCHITECTURES
from instances.suites import is_suite
from mtpp.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
#: What a user reads: README and manual; and what was measured, for those who change the methods.
FOLDERS = ("", "howto", "concepts")
MANUAL = (ROOT / "README.md", *(page for name in FOLDERS for page in sorted((ROOT / "docs" / name).glob("*.md"))))
JOURNAL = tuple(sorted((ROOT / "docs" / "journal").glob("*.md")))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
#: Studies of `mtpp table`, the chain of `mtpp plan`, and families of `mtpp place`.
_OTHER_GRAPHS = re.compile(r"training|train|calibrate|placeto|serving|unlike|peers|simulation|(nmt|cifar10|ptb)-\d+")
_GRAPHS = ("graph", "chain", "targets")


class Block(NamedTuple):
    """A fenced block of a page, and the file that the line before it says to save it as."""

    file: str
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """Fenced blocks of a page, in order."""
    fence = r"(?:Save as `([\w.]+)`:\n\n)?^```(\w+)\n(.*?)^```"
    return [Block(*groups) for groups in re.findall(fence, page.read_text(), flags=re.DOTALL | re.MULTILINE)]


def shell_lines(block: Block) -> list[tuple[str, list[str]]]:
    """Commands of a block, without their comments, each with the lines that are shown below it."""
    lines = block.text.splitlines()
    if block.language == "sh":
        return [(line.split(" #")[0].strip(), []) for line in lines if line.strip()]
    commands: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("$ "):
            commands.append((line[2:].strip(), []))
        elif commands:
            commands[-1][1].append(line)
    return commands


def commands(page: Path) -> Iterator[str]:
    """All commands of `mtpp` in the blocks of a page."""
    for block in blocks(page):
        if block.language in ("sh", "text"):
            yield from (line for line, _ in shell_lines(block) if line.startswith("mtpp "))


def sentences(page: Path) -> list[str]:
    """Sentences of the prose of a page, without blocks, tables and headings; an item of a list ends one."""
    text = re.sub(r"^```.*?^```", "\n", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^[|#].*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:-|\d+\.) )", text)
    parts = [part for text in paragraphs for part in re.split(r"(?<=[.!?])[)*`\"]*\s+", " ".join(text.split()))]
    return [sentence for sentence in parts if re.search(r"\w", sentence)]


def inline_code(page: Path) -> list[str]:
    """Code in the prose of a page, or of the Markdown cells of a notebook."""
    if page.suffix == ".md":
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    else:
        cells = json.loads(page.read_text())["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return [" ".join(code.split()) for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", text)]


def check_command(command: str) -> None:
    """Assert that a whole command line of `mtpp` has a verb, options, values and a graph that are accepted."""
    _, verb, *arguments = shlex.split(command)
    context = _verbs()[verb].make_context(verb, arguments)
    given = [context.params.get(name) or [] for name in _GRAPHS]
    for graph in [graph for value in given for graph in ([value] if isinstance(value, str) else value)]:
        assert is_known(graph), f"{command}: no graph is called {graph}"


def check_words(command: str) -> None:
    """Assert that the verb and the options of a command exist; in prose the rest may be missing."""
    _, *words = shlex.split(command)
    if words and not words[0].startswith("-") and words[0] != "VERB":
        verb = _verbs()[words[0]]
        options = {name for option in verb.params for name in (*option.opts, *option.secondary_opts)}
        given = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert given <= options, f"{command}: {given - options}"
        if verb.params[0].name in _GRAPHS and words[1:] and not words[1].startswith("-"):
            assert is_known(words[1]), f"{command}: no graph is called {words[1]}"


def check_call(code: str) -> None:
    """Assert that the names of `mtpp` in an expression exist, and that calls have its parameters and known graphs."""
    try:
        tree = ast.parse(code, mode="eval")
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _dotted(node).startswith("mtpp."):
            _value(node)
        if not isinstance(node, ast.Call) or not _dotted(node.func).startswith("mtpp."):
            continue
        names = [keyword.arg for keyword in node.keywords if keyword.arg]
        inspect.signature(_value(node.func)).bind_partial(*node.args, **dict.fromkeys(names))
        for text in ast.walk(node.args[0]) if node.args else ():
            if isinstance(text, ast.Constant) and isinstance(text.value, str) and _dotted(node.func) != "mtpp.run":
                assert is_known(text.value), f"{code}: no graph is called {text.value}"


def is_known(graph: str) -> bool:
    """Whether a word names a graph: an architecture, a suite, a file with a suffix, or a placeholder in capitals."""
    if graph in ARCHITECTURES or is_suite(graph) or "." in graph or graph.isupper():
        return True
    return _OTHER_GRAPHS.fullmatch(graph) is not None


def outline(line: str) -> str:
    """A printed line without its numbers, units of time and widths of columns, which differ from run to run."""
    line = re.sub(r"\b\d[\d.,]*(e[+-]?\d+)?", "#", line)
    line = re.sub(r"# (s|ms|µs|ns)\b", "# s", line)
    return re.sub(r"\[(ms|µs|ns)\]", "[s]", " ".join(line.split()))


@cache
def _verbs() -> dict[str, Any]:
    group: Any = get_command(app)
    return {name: group.get_command(None, name) for name in group.list_commands(None)}


def _dotted(node: ast.AST) -> str:
    """``a.b.c`` of an attribute, or an empty text."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _value(node: ast.AST) -> Any:
    """Return what a dotted name of `mtpp` stands for."""
    _, *names = _dotted(node).split(".")
    value: Any = mtpp
    for name in names:
        if not hasattr(value, name) and isinstance(value, ModuleType) and find_spec(f"{value.__name__}.{name}"):
            import_module(f"{value.__name__}.{name}")
        assert hasattr(value, name), f"{_dotted(node)} does not exist"
        value = getattr(value, name)
    return value
