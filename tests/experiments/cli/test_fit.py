"""What cannot fit is said in one line, with an exit code of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import columns, graph_file, mtpp

from experiments.cli.exit_codes import DONE, IMPOSSIBLE, NOTHING


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three nodes with parameters of 4 GB each."""
    monkeypatch.chdir(tmp_path)
    nodes = [{"work": w, "output_bytes": 1, "param_bytes": 4e9} for w in (3, 1, 2)]
    graph_file(tmp_path, nodes=nodes)


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("verb", ["partition", "bound --model simple", "certify", "bound"])
def test_too_little_memory_on_all_devices(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = mtpp(f"{verb} graph.json -k 2 --bandwidth 1 --memory 5GB --activation-buffer 0B --fit --out c.json")
    out, err = capsys.readouterr()
    assert code == IMPOSSIBLE
    assert "does not fit: 12 GB of parameters beside the buffers, 10 GB on 2 devices" in err
    assert "proved impossible" in out or not verb.startswith("certify")
    assert not Path("c.json").exists()


@pytest.mark.usefixtures("graph")
def test_what_no_formula_sees_is_proved_by_the_program_over_ideals(capsys: pytest.CaptureFixture[str]) -> None:
    """Together the parameters fit, but two blocks hold one node each."""
    assert mtpp("certify graph.json -k 2 --bandwidth 1 --memory 7GB --fit --time-limit 300") == IMPOSSIBLE
    assert "does not fit" in capsys.readouterr().err
    assert mtpp("partition graph.json -k 2 --bandwidth 1 --memory 7GB --fit --time-limit 1") == NOTHING
    assert "none found" in capsys.readouterr().err


@pytest.mark.usefixtures("graph")
def test_what_fits_is_certified(capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("certify graph.json -k 2 --bandwidth 1 --memory 9GB --fit --time-limit 300") == DONE
    assert columns(capsys.readouterr().out)["status"] == "optimal"
