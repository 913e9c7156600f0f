"""Write ``docs/api.md`` from the docstrings of the public names of `mtpp`: ``python docs/make_api.py``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import mtpp

PAGE = Path(__file__).with_name("api.md")
_HEAD = """# Python

`import mtpp` gives the names below; the words and their defaults are those of the command line.
This page is made from the docstrings by `make api`; `help(mtpp.certify)` shows more, with examples.
"""
_SECTIONS = ("Parameters", "Returns", "Raises")
_PLACES = {"HEURISTICS": "heuristics", "MODELS": "models", "SOLVERS": "solvers", "PLACERS": "placers"}
_PLACES |= {"PLANNERS": "planners"}


def page() -> str:
    """Return the text of ``docs/api.md``."""
    public = {name: getattr(mtpp, name) for name in mtpp.__all__}
    functions = {name: value for name, value in public.items() if inspect.isfunction(value)}
    types = {name: value for name, value in public.items() if inspect.isclass(value)}
    others = {name: value for name, value in public.items() if name not in functions and name not in types}
    parts = [_HEAD, "## Functions", *(_entry(name, value) for name, value in functions.items())]
    parts += ["## Types", *(_entry(name, value) + _members(value) for name, value in types.items())]
    parts += ["## Registries and other values", *(_value(name, value) for name, value in others.items())]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _entry(name: str, value: Any) -> str:
    """Heading, signature, summary, and the sections of the docstring of a function or type."""
    text = inspect.getdoc(value) or ""
    lines = [f"### mtpp.{name}", "", "```text", f"mtpp.{name}{_signature(value)}", "```", ""]
    lines += [_plain(text.partition("\n\n")[0])]
    for section, entries in _sections(text):
        lines += ["", f"{section}:", "", *(_item(*entry) for entry in entries)]
    return "\n".join(lines)


def _signature(value: Any) -> str:
    """Parameters and defaults, without annotations; the parameters below say the types."""
    parameters = [one.replace(annotation=one.empty) for one in inspect.signature(value).parameters.values()]
    shown = [one if _is_plain(one.default) else one.replace(default=...) for one in parameters]
    return str(inspect.Signature(shown)).replace("Ellipsis", "...")


def _is_plain(default: Any) -> bool:
    """Whether a default looks the same in each run and version."""
    return default is inspect.Parameter.empty or isinstance(default, (str, int, float, tuple, type(None)))


def _sections(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Parameters, results and errors of a numpydoc docstring: each a term and what is said of it."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.MULTILINE)
    for section, body in zip(parts[1::2], parts[2::2], strict=True):
        if section in _SECTIONS:
            terms = re.split(r"^(?=\S)", body.strip("\n"), flags=re.MULTILINE)
            yield section, [(term.rstrip(), said) for term, _, said in (one.partition("\n") for one in terms) if term]


def _item(term: str, said: str) -> str:
    return f"- `{term}`" + (f": {_plain(said)}" if said.strip() else "")


def _plain(text: str) -> str:
    """Prose of a docstring on one line as Markdown."""
    return " ".join(text.replace("``", "`").split())


def _members(kind: type) -> str:
    """Public methods and properties of a type of this project, each with the first sentence of its docstring."""
    rows = []
    for name in sorted(vars(kind).keys() | {name for base in kind.__mro__ for name in vars(base)}):
        member = inspect.getattr_static(kind, name)
        code = getattr(member, "fget", None) or getattr(member, "func", None) or getattr(member, "__func__", member)
        ours = inspect.isfunction(code) and code.__module__.partition(".")[0] in _packages()
        if name.startswith("_") or not ours or not code.__doc__:
            continue
        call = "" if isinstance(member, (property, cached_property)) else "()"
        rows.append(f"- `.{name}{call}`: {_plain(inspect.cleandoc(code.__doc__).partition(chr(10) * 2)[0])}")
    return "\n".join(["", "", "Members:", "", *rows]) if rows else ""


def _packages() -> set[str]:
    """Names of the packages that lie beside `mtpp`."""
    return {path.parent.name for path in PAGE.parents[1].glob("*/__init__.py")}


def _value(name: str, value: Any) -> str:
    if not isinstance(value, Mapping):
        return f"### mtpp.{name}"
    listed = f"; `mtpp list {_PLACES[name]}` says what each is" if name in _PLACES else ""
    return f"### mtpp.{name}\n\nNames{listed}: {', '.join(f'`{key}`' for key in value)}."


if __name__ == "__main__":
    PAGE.write_text(page())
