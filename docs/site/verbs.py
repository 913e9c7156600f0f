"""Directives for the verbs of the command line with all their options, and for exit codes: what ``--help-all`` says."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command
from verdicts import table

from mtpp.cli.exit_codes import MEANINGS
from mtpp.cli.main import app as command_line


class Verbs(SphinxDirective):
    """A section for each panel of verbs, in it one for each verb, with a table for each panel of options."""

    def run(self) -> list[nodes.Node]:
        """Read the verbs from the program."""
        group: Any = get_command(command_line)
        panels: dict[str, nodes.section] = {}
        for name in group.list_commands(None):
            verb = group.get_command(None, name)
            panel = verb.rich_help_panel or "Tools"
            if panel not in panels:
                title = nodes.title("", panel)
                panels[panel] = nodes.section("", title, ids=[nodes.make_id(f"verbs-{panel}")])
            panels[panel] += self._verb(name, verb)
        return list(panels.values())

    def _verb(self, name: str, verb: Any) -> nodes.section:
        section = nodes.section("", nodes.title("", f"mtpp {name}"), ids=[f"mtpp-{name}"])
        section += self.parse_text_to_nodes(verb.help or "")
        panels: dict[str, list[Any]] = {}
        for parameter in verb.params:
            if not parameter.hidden and "--help" not in parameter.opts and "--help-all" not in parameter.opts:
                panel = parameter.rich_help_panel or (
                    "Arguments" if parameter.param_type_name == "argument" else "Options"
                )
                panels.setdefault(panel, []).append(parameter)
        for panel, parameters in panels.items():
            section += table((panel, "Value", "Meaning"), [_row(parameter) for parameter in parameters])
        return section


def _row(parameter: Any) -> tuple[list[nodes.paragraph] | str, list[nodes.paragraph] | str, str]:
    """Return the option, its value and what it means; an argument has its value alone."""
    is_argument = parameter.param_type_name == "argument"
    value = parameter.metavar or ""
    if getattr(parameter, "is_flag", False):
        value = ""
    option = value if is_argument else ", ".join((*parameter.opts, *parameter.secondary_opts))
    return _code(option), _code("" if is_argument else value), parameter.help or ""


def _code(text: str) -> list[nodes.paragraph] | str:
    return [nodes.paragraph("", "", nodes.literal("", text))] if text else ""


class ExitCodes(SphinxDirective):
    """Table of the exit codes, the same for all verbs."""

    def run(self) -> list[nodes.Node]:
        """Read them from the program."""
        return [table(("Exit code", "Meaning"), [(str(code), meaning) for code, meaning in MEANINGS.items()])]


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer the directives to Sphinx."""
    app.add_directive("verbs", Verbs)
    app.add_directive("exit-codes", ExitCodes)
    return {"parallel_read_safe": True}
