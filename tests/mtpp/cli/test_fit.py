"""What cannot fit is said in one line, with an exit code of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import columns, graph_file, mtpp

from mtpp.cli.exit_codes import DONE, IMPOSSIBLE, NOTHING, WRONG


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
    assert mtpp("verify c.json") == DONE
    assert "re-proved by its formula (sum)" in capsys.readouterr().out


@pytest.mark.usefixtures("graph")
def test_what_no_formula_sees_is_proved_by_the_program_over_ideals(capsys: pytest.CaptureFixture[str]) -> None:
    """Together the parameters fit, but two blocks hold one node each."""
    assert mtpp("certify graph.json -k 2 --bandwidth 1 --memory 7GB --fit --time-limit 20 --out c.json") == IMPOSSIBLE
    assert "does not fit" in capsys.readouterr().err
    assert mtpp("verify c.json") == DONE
    assert "re-proved by all ideals" in capsys.readouterr().out
    assert mtpp("partition graph.json -k 2 --bandwidth 1 --memory 7GB --fit --time-limit 1") == NOTHING
    assert "none found" in capsys.readouterr().err


@pytest.mark.usefixtures("graph")
def test_what_fits_is_certified(capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("certify graph.json -k 2 --bandwidth 1 --memory 9GB --fit --time-limit 300") == DONE
    assert columns(capsys.readouterr().out)["status"] == "optimal"


@pytest.mark.usefixtures("graph")
def test_explain_says_what_does_not_fit_and_that_another_one_does(capsys: pytest.CaptureFixture[str]) -> None:
    Path("hand.json").write_text(json.dumps({"block": [0, 0, 0], "k": 2}))
    words = "explain hand.json graph.json --bandwidth 1 --activation-buffer 0B --fit --time-limit 20"
    assert mtpp(f"{words} --memory 9GB") == DONE
    out = capsys.readouterr().out
    assert "It does not fit: stage 0 needs 12.00 GB of 9.000 GB." in out
    assert "A partition that fits is known now" in out
    assert mtpp(f"{words} --memory 5GB --json") == DONE
    document = json.loads(capsys.readouterr().out)
    assert (document["ratio"], document["better"], document["cost"]) == (None, None, None)
    assert "No other fits either" in document["sentences"][1]


@pytest.mark.usefixtures("graph")
def test_the_least_number_of_devices_that_fit(capsys: pytest.CaptureFixture[str]) -> None:
    words = "graph.json -k auto --bandwidth 1 --activation-buffer 0B --fit"
    assert mtpp(f"certify {words} --time-limit 20 --memory 9GB --out c.json") == DONE
    assert "k = 2 is the least that fits: 1 will not do." in capsys.readouterr().out
    assert mtpp("verify c.json") == DONE
    assert mtpp("report c.json --out c.html") == DONE
    assert "k = 2 is the least that fits: 1 will not do." in Path("c.html").read_text()
    capsys.readouterr()
    assert mtpp(f"certify {words} --time-limit 20 --memory 3GB --out none.json") == IMPOSSIBLE
    assert "there is none that fits" in capsys.readouterr().err
    assert mtpp("verify none.json") == DONE
    capsys.readouterr()
    assert mtpp(f"certify {words} --time-limit 20 --memory 3GB --json") == IMPOSSIBLE
    document = json.loads(capsys.readouterr().out)
    assert (document["k"], document["partition"]) == (None, None)
    assert "there is none that fits" in document["impossible"]
    assert mtpp(f"partition {words} --time-limit 1 --memory 9GB --json") == DONE
    document = json.loads(capsys.readouterr().out)
    assert document["question"]["k"] == 2
    assert any(note.startswith("k = 2 is the least that fits") for note in document["provenance"]["notes"])


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-k auto", "say what the least k has to reach"),
        ("-k auto --throughput fast", "give a positive number"),
        ("-k auto --throughput 3/h", "'h' is no unit here"),
        ("-k 2 --throughput 3", "it is for -k auto"),
        ("-k 2 --fit", "needs a memory"),
        ("-k 2 --colour-classes", "has none"),
    ],
)
def test_words_that_ask_nothing(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(f"certify graph.json {words} --bandwidth 1") == WRONG
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("graph")
def test_a_group_that_does_not_fit_is_named_by_a_node_of_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rules.json").write_text(json.dumps({"format": "mtpp-constraints/1", "together": [[1, 2]]}))
    words = "partition graph.json -k 3 --bandwidth 1 --memory 7GB --activation-buffer 0B --fit"
    assert mtpp(f"{words} --constraints rules.json") == IMPOSSIBLE
    assert "with 1 that share its block, takes 8 GB, 7 GB on a device" in capsys.readouterr().err


@pytest.mark.parametrize("fit", ["", " --fit"])
def test_bug_states_are_no_parameters(fit: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A proof that nothing fits called caches of keys and values parameters."""
    question = "gpt2 -k 2 --dim phase=decode --dim batch=64 --dim context=1024 --bandwidth 25GB/s --memory 2GB"
    assert mtpp(f"partition {question}{fit}") == (IMPOSSIBLE if fit else DONE)
    said = " ".join("".join(capsys.readouterr()).split())
    assert re.search(r"does not fit: 5\.330? GB of parameters and states, 4(\.000)? GB on 2 devices", said)
