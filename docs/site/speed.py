"""Speed over commits: a directive, and what keeps the results of ``make bench`` (``python docs/site/speed.py FILE``).

A line of ``speed.csv`` is a benchmark of a commit on a processor: the least processor time of its rounds [ms].
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from verdicts import table

HISTORY = Path(__file__).with_name("speed.csv")
_RESULTS = Path(__file__).parents[2] / "results" / "bench"
_GROUP = "inner loops"


class Measurement(NamedTuple):
    """A line of the history."""

    processor: str
    date: str  # of the commit
    commit: str
    benchmark: str
    milliseconds: float


def read_history() -> list[Measurement]:
    """Return all lines, by processor, then by date of the commit."""
    if not HISTORY.exists():
        return []
    with HISTORY.open(newline="") as file:
        (_, *lines) = csv.reader(file)
    rows = [Measurement(*words, milliseconds=float(number)) for *words, number in lines]
    return sorted(rows)


def record(path: Path) -> Path:
    """File what pytest-benchmark wrote under processor and commit, and add its inner loops to the history.

    A checkout with changes stands for no commit: its file is kept, and the history remains as it is.
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    processor, commit = document["machine_info"]["cpu"]["brand_raw"], document["commit_info"]
    name = commit["id"][:7] + ("-dirty" if commit["dirty"] else "")
    kept = _RESULTS / re.sub(r"\W+", "-", processor) / f"{name}.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    path.replace(kept)
    if not commit["dirty"]:
        _add(
            Measurement(processor, commit["time"], name, _title(one["name"]), round(1e3 * one["stats"]["min"], 3))
            for one in document["benchmarks"]
            if one["group"] == _GROUP
        )
    return kept


def _add(new: Any) -> None:
    rows = {row[:4]: row for row in (*read_history(), *new)}
    with HISTORY.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([Measurement._fields, *sorted(rows.values())])


def _title(name: str) -> str:
    """``test_bound[pinned]`` as ``bound pinned``."""
    return re.sub(r"[_\[]", " ", name.removeprefix("test_")).rstrip("]")


class Speed(SphinxDirective):
    """A picture and a table for each processor."""

    def run(self) -> list[nodes.Node]:
        """Read the history; without one say how it is made."""
        self.env.note_dependency(HISTORY)
        shown: list[nodes.Node] = []
        for processor, group in groupby(read_history(), key=lambda row: row.processor):
            rows = list(group)
            section = nodes.section("", nodes.title("", processor), ids=[nodes.make_id(processor)])
            section += nodes.image(uri=_picture(rows), alt=f"Processor time of each inner loop by commit, {processor}")
            section += _table(rows)
            shown.append(section)
        return shown or self.parse_text_to_nodes("Nothing is measured yet: `make bench` does it.")


def _by_benchmark(rows: Sequence[Measurement]) -> dict[str, list[Measurement]]:
    names = dict.fromkeys(row.benchmark for row in rows)
    return {name: [row for row in rows if row.benchmark == name] for name in names}


def _table(rows: Sequence[Measurement]) -> nodes.table:
    """First and last commit of each benchmark."""
    lines = []
    for name, series in _by_benchmark(rows).items():
        first, last = series[0], series[-1]
        lines.append((name, *(f"{one.milliseconds:.4g} ms ({one.commit})" for one in (first, last))))
    return table(("Inner loop", "First commit", "Last commit"), lines)


def _picture(rows: Sequence[Measurement]) -> str:
    """A panel a benchmark, as an address that holds the picture itself."""
    from matplotlib.figure import Figure

    panels = _by_benchmark(rows)
    commits = list(dict.fromkeys(row.commit for row in rows))
    figure = Figure(figsize=(9, 2.3 * -(-len(panels) // 2)), layout="constrained")
    axes = figure.subplots(-(-len(panels) // 2), 2, sharex=True, squeeze=False).ravel()
    for axis, (name, series) in zip(axes, panels.items(), strict=False):
        axis.plot([commits.index(row.commit) for row in series], [row.milliseconds for row in series], "o-")
        axis.set(title=name, ylabel="time [ms]", ylim=(0, 1.1 * max(row.milliseconds for row in series)))
        axis.set_xticks(range(len(commits)), commits, rotation=45, ha="right", fontsize=8)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    figure.supxlabel("commit", fontsize="medium")
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode()


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer the directive to Sphinx."""
    app.add_directive("speed", Speed)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    print(record(Path(sys.argv[1])))
