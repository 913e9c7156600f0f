"""Directives for the names in ``__all__`` of the packages, and for the mathematics in the docstrings of modules."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

#: From the lowest layer up: a value is documented in the first package that exports it.
PACKAGES = ("instances", "heuristics", "mtpp_models", "mtpp")
_BASES = "object, tuple, dict, Mapping, BaseException, Exception, Enum"


@cache
def homes() -> dict[tuple[str, str], str]:
    """Full name under which each exported name is documented, by the package that exports it and the name.

    That is the package whose modules define it, and of this the outermost part that exports it.
    """
    exported = [(module.__name__, name, getattr(module, name)) for module in _modules() for name in _exports(module)]
    places: dict[int, list[str]] = {}
    for package, name, value in exported:
        places.setdefault(id(value), []).append(f"{package}.{name}")
    return {(package, name): _home(value, places[id(value)]) for package, name, value in exported}


def _exports(module: ModuleType) -> list[str]:
    return [name for name in getattr(module, "__all__", ()) if name != "__version__"]


def _home(value: object, places: list[str]) -> str:
    defined_in = str(getattr(value, "__module__", "")).partition(".")[0]
    return next((place for place in places if place.partition(".")[0] == defined_in), places[0])


def _modules(*packages: str) -> Iterator[ModuleType]:
    """All packages, or those that are named with their modules; what needs an extra that is missing is left out."""
    for package in packages or PACKAGES:
        outer = import_module(package)
        yield outer
        for found in pkgutil.walk_packages(getattr(outer, "__path__", ()), f"{package}."):
            if found.ispkg or packages:
                try:
                    yield import_module(found.name)
                except ModuleNotFoundError as error:
                    if str(error.name).partition(".")[0] in PACKAGES:
                        raise


class PublicNames(SphinxDirective):
    """All names that a package exports; those of other packages are links."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Expand to directives of autodoc."""
        package = self.arguments[0]
        parts = [(place, name, home) for (place, name), home in homes().items() if place.split(".")[0] == package]
        own = {home: _value(place, name) for place, name, home in parts if home == f"{place}.{name}"}
        functions = [name for name, value in own.items() if inspect.isroutine(value)]
        types = [name for name, value in own.items() if inspect.isclass(value)]
        others = [name for name in own if name not in functions and name not in types]
        text = [*_section("Functions", [_of_function(name) for name in functions])]
        text += _section("Types", [_of_type(name) for name in types])
        text += _section("Registries and other values", [_of_value(name, own[name]) for name in others])
        links = [f"- `{place}.{name}` is {{py:obj}}`{home}`" for place, name, home in parts if home not in own]
        text += _section("From other packages", ["\n".join(links)] if links else [])
        return self.parse_text_to_nodes("\n\n".join(text), allow_section_headings=True)


class Mathematics(SphinxDirective):
    """Docstrings with equations, of all modules of the packages that are named."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Expand to a heading for each of them, and its text."""
        found = [module for module in _modules(*self.arguments[0].split()) if _has_mathematics(module)]
        return self.parse_text_to_nodes("\n\n".join(map(_of_module, found)), allow_section_headings=True)


def _has_mathematics(module: ModuleType) -> bool:
    return any(mark in (module.__doc__ or "") for mark in (":math:", ".. math::"))


def _of_module(module: ModuleType) -> str:
    summary, _, text = inspect.cleandoc(module.__doc__ or "").partition("\n\n")
    return f"### {_unbroken(summary).rstrip('.')}\n\n`{module.__name__}`\n\n{_rst(text)}"


def _unbroken(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _value(package: str, name: str) -> Any:
    return getattr(import_module(package), name)


def _section(title: str, entries: list[str]) -> list[str]:
    return [f"## {title}", *entries] if entries else []


def _rst(text: str) -> str:
    return f"```{{eval-rst}}\n{text}\n```"


def _of_function(name: str) -> str:
    return _rst(f".. autofunction:: {name}")


def _of_type(name: str) -> str:
    return _rst(f".. autoclass:: {name}\n   :members:\n   :inherited-members: {_BASES}")


def _of_value(name: str, value: Any) -> str:
    """A registry with what its entries say of themselves, or a plain value."""
    if not isinstance(value, Mapping):
        shown = f"\n   :value: {value!r}" if isinstance(value, (str, float, tuple)) else ""
        return _rst(f".. py:data:: {name}{shown}")
    entries = [f"   - ``{key}``: {_plain(getattr(entry, 'summary', ''))}" for key, entry in value.items()]
    return _rst("\n".join([f".. py:data:: {name}", "", *entries]))


def _plain(text: str) -> str:
    """Text in which nothing is markup."""
    return "".join(f"\\{letter}" if letter in "\\*`|_" else letter for letter in text)


def _keep_colon(_app: Sphinx, what: str, _name: str, _value: object, _options: object, lines: list[str]) -> None:
    """Napoleon takes what stands before a colon in the first line of an attribute's docstring for its type."""
    if what in ("attribute", "property"):
        lines[:0] = ["..", ""]  # an empty comment


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer the directives to Sphinx."""
    app.connect("autodoc-process-docstring", _keep_colon, priority=100)
    app.add_directive("public-names", PublicNames)
    app.add_directive("mathematics", Mathematics)
    return {"parallel_read_safe": True}
