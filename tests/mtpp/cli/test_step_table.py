"""`mtpp certify --explain` and `--plot-progress`: what each step cost, and what was known behind it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from command_line import assert_misuse, graph_file, mtpp

from instances import save_graph
from instances.random_graphs import regal_style
from mtpp.cli.exit_codes import INTERRUPTED
from mtpp.text.tables import LiveLine
from mtpp_models import Progress

CERTIFY = "certify graph.json -k 3 --bandwidth 1 --time-limit 5"


@pytest.fixture
def graph(folder: Path) -> Path:
    save_graph(regal_style("erdos-renyi", 12, seed=1), folder / "graph.json")
    return folder


@pytest.mark.parametrize("threads", [1, 2])
def test_the_table_of_steps(threads: int, graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row a step, below the answer; the first two always run, and the last row has the ratio of the answer."""
    assert mtpp(f"{CERTIFY} --explain --threads {threads} --out c.json") == 0
    out = capsys.readouterr().out
    _, _, table = out.partition("\nSteps, k = 3:\n")
    header, *rows = table.strip().splitlines()
    assert header.split()[:2] == ["step", "seconds"]
    assert [row.split()[0] for row in rows[:2]] == ["simple", "kahn"]
    assert rows[0].split()[-1] == "–"
    certificate = json.loads(Path("c.json").read_text())
    assert mtpp("verify c.json") == 0
    assert rows[-1].split()[-1] == f"{certificate['cost'] / certificate['bound']:.4f}"


def test_the_steps_in_json(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bottlenecks fall, bounds rise, and time goes on."""
    assert mtpp(f"{CERTIFY} --explain --json") == 0
    steps = json.loads(capsys.readouterr().out)["provenance"]["steps"]
    assert set(steps[0]) == {"method", "seconds", "end", "bottleneck", "bound", "by"}
    assert [step["end"] for step in steps] == sorted(step["end"] for step in steps)
    bottlenecks = [step["bottleneck"] for step in steps[1:]]
    assert bottlenecks == sorted(bottlenecks, reverse=True)
    bounds = [step["bound"] for step in steps]
    assert bounds == sorted(bounds)
    assert all(bound <= cost * (1 + 1e-9) for bound, cost in zip(bounds[1:], bottlenecks, strict=True))


def test_steps_are_told_only_on_request(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither in the text nor in the document."""
    assert mtpp(f"{CERTIFY} --json") == 0
    assert "steps" not in json.loads(capsys.readouterr().out)["provenance"]
    assert mtpp(CERTIFY) == 0
    assert "Steps" not in capsys.readouterr().out


def test_a_picture_for_each_k(graph: Path) -> None:
    """With several k the name has k in it."""
    assert mtpp("certify graph.json -k 1,2 --bandwidth 1 --time-limit 2 --plot-progress p.svg") == 0
    for k in (1, 2):
        assert "time since the begin [s]" in Path(f"p-k{k}.svg").read_text()


def test_refused_pictures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before any work is done."""
    graph_file(folder)
    assert_misuse(
        capsys,
        {
            "certify graph.json -k 2 --bandwidth 1 --plot-progress p.txt": "p.txt",
            "certify graph.json -k 2 --bandwidth 1 --plot-progress no/p.png": "no",
        },
    )


def test_an_interrupt_loses_no_step(
    graph: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was done before Ctrl-C is told and drawn; further k are left out."""
    show = LiveLine.show

    def interrupt(line: LiveLine, moment: Progress) -> None:
        show(line, moment)
        if moment.case == "kahn":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(LiveLine, "show", interrupt)
    words = "certify graph.json -k 3,4 --bandwidth 1 --time-limit 5 --explain --plot-progress p.svg"
    assert mtpp(words) == INTERRUPTED
    assert "\nSteps, k = 3:\n" in capsys.readouterr().out
    assert Path("p-k3.svg").exists()
    assert not Path("p-k4.svg").exists()
