"""Directive for the claims of a paper: its tables in their shape, with numbers from here and what becomes of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

_FORMAT = "mtpp-verdicts/1"
_HEAD = ("Row", "Column", "Paper", "Here", "95 % interval", "Graphs", "Clusters", "Verdict", "Why")
_WORDS = """*Paper* is the number as printed, *here* what was measured, with an interval over clusters of graphs
(a network with all its variants is one cluster). A claim *holds* or *fails* if its whole interval says so, an order
of methods that are equal on most networks is a *tie*, and all else is *undecided*; *not comparable* are settings,
numbers that hang on data or machines nobody else has, and what is stated elsewhere, too. Tables have the rows and
columns of the paper: in a cell its number, and below it ours with the verdict as a mark and a colour
(✓ holds, ✗ fails, = tie, ? undecided, nothing: not comparable)."""
_VERDICTS = {"holds": "✓", "fails": "✗", "tie": "=", "undecided": "?", "not comparable": ""}


class Verdicts(SphinxDirective):
    """All claims of the paper that is named, a section an item, from the file of verdicts."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Read the file; without one say how it is made."""
        path = Path(self.env.srcdir, self.config.verdicts_file)
        if not path.is_file():
            text = (
                f"There are no verdicts yet ({self.config.verdicts_file}); make paper makes the runs and judges them."
            )
            return [nodes.paragraph("", text)]
        self.env.note_dependency(path)
        document = read_verdicts(path)
        claims = [claim for claim in document["claims"] if claim["paper"] == self.arguments[0]]
        about = [f"{word} {text}" for word, text in document.items() if isinstance(text, str) and word != "format"]
        counts = Counter(claim["verdict"] for claim in claims)
        judged = ", ".join(f"{counts[verdict]} {verdict}" for verdict in dict.fromkeys((*_VERDICTS, *counts)))
        shown = self.parse_text_to_nodes(_WORDS)
        shown.append(nodes.paragraph("", f"{len(claims)} claims: {judged}. Runs: {', '.join(about)}."))
        for item in dict.fromkeys(claim["item"] for claim in claims):
            shown.append(_section(self, item, [claim for claim in claims if claim["item"] == item]))
        files = [(one["file"], str(one["lines"]), one["sha256"]) for one in document.get("runs", ())]
        if files:
            title, runs = nodes.title("", "Files of runs"), table(("File", "Runs", "SHA-256"), files)
            shown.append(nodes.section("", title, runs, ids=[f"{self.arguments[0]}-runs"]))
        return shown


def read_verdicts(path: Path) -> Any:
    """Return the document of a file of verdicts.

    Raises
    ------
    ExtensionError
        If it is no JSON, or of another format.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] == _FORMAT:
            return document
    except (ValueError, TypeError, KeyError):
        pass
    raise ExtensionError(f"{path}: this is no file of verdicts ({_FORMAT}); write it anew with make paper.")


def _section(directive: SphinxDirective, item: str, claims: Sequence[dict[str, Any]]) -> nodes.section:
    """Heading, reason if all claims have the same, the table of the paper if they make one, and the list of claims."""
    section = nodes.section("", nodes.title("", item), ids=[nodes.make_id(f"{directive.arguments[0]}-{item}")])
    cells = {(claim["row"], claim["column"]): claim for claim in claims}
    rows, columns = (list(dict.fromkeys(claim[word] for claim in claims)) for word in ("row", "column"))
    if is_table := min(len(rows), len(columns)) > 1 and len(rows) * len(columns) <= 2 * len(cells):
        notes = dict.fromkeys(claim["note"] for claim in claims if claim.get("note"))
        section += [nodes.paragraph("", f"In the paper: {note}.") for note in notes] if len(notes) == 1 else []
        section += _table_of_the_paper(rows, columns, cells)
        section += nodes.raw("", "<details><summary>Intervals and reasons</summary>", format="html")
    reasons = {claim["why"] for claim in claims}
    head: Sequence[str] = _HEAD
    if len(reasons) == 1:
        head = _HEAD[:-1]
        section += nodes.paragraph("", f"All: {claims[0]['why']}.")
    section += table(head, [_row(claim)[: len(head)] for claim in claims])
    if is_table:
        section += nodes.raw("", "</details>", format="html")
    return section


def _table_of_the_paper(
    rows: Sequence[str], columns: Sequence[str], cells: Mapping[tuple[str, str], dict[str, Any]]
) -> nodes.table:
    """Make a table whose cells have the number of the paper, and below it ours in the colour of its verdict."""
    made = table(("", *columns), [(row, *(_cell(cells.get((row, column))) for column in columns)) for row in rows])
    made["classes"] += ["verdicts"]
    return made


def _cell(claim: dict[str, Any] | None) -> list[nodes.paragraph] | str:
    if claim is None:
        return ""
    theirs = nodes.paragraph("", _number(claim["value"]))
    if claim.get("here") is None:
        return [theirs]
    verdict = claim["verdict"]
    ours = f"{_number(claim['here'])} {_VERDICTS.get(verdict, '')}".rstrip()
    return [theirs, nodes.paragraph("", ours, classes=[nodes.make_id(verdict)])]


def _row(claim: dict[str, Any]) -> list[str]:
    unit = f" {claim['unit']}" if claim.get("unit") not in (None, "", "ratio") else ""
    interval = f"{_number(claim['low'])} to {_number(claim['high'])}" if claim.get("low") is not None else ""
    here = _number(claim.get("here"))
    counts = [_number(claim.get(word)) for word in ("graphs", "clusters")]
    numbers = [_number(claim["value"]) + unit, here + unit if here else "", interval, *counts]
    return [claim["row"], claim["column"], *numbers, claim["verdict"], claim["why"]]


def _number(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def table(head: Sequence[str], rows: Iterable[Sequence[str | list[nodes.paragraph]]]) -> nodes.table:
    """Make a table; one of verdicts has a class, as each verdict has."""
    group = nodes.tgroup("", cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    group += nodes.thead("", _cells(head))
    group += nodes.tbody("", *map(_cells, rows))
    return nodes.table("", group, classes=["verdicts"] if "Verdict" in head else [])


def _cells(cells: Sequence[str | list[nodes.paragraph]]) -> nodes.row:
    row = nodes.row()
    for cell in cells:
        if isinstance(cell, str):
            classes = [nodes.make_id(cell)] if cell in _VERDICTS else []
            cell = [nodes.paragraph("", cell, classes=classes)]
        row += nodes.entry("", *cell)
    return row


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer the directive and the place of its file to Sphinx."""
    app.add_config_value("verdicts_file", "", "env", str)
    app.add_directive("verdicts", Verdicts)
    return {"parallel_read_safe": True}
