"""`mtpp verify` accepts what is true, and no number that can be checked can be forged."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from certificates import BUFFERED, FULL, PLAIN, Document, answers, check, settle
from hypothesis import HealthCheck, given, settings
from strategies import instances

import experiments
from instances import InputError, Instance
from instances.json_files import read_json, write_json
from mtpp.cli.main import main
from mtpp.problems.checking import certificate_document, verify


def numbers(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of all numbers in a document."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(item, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def is_free(document: Document, path: tuple[str | int, ...]) -> bool:
    """Origins, and what only a solver can check, a bound below the bottleneck and its parameters, are believed."""
    if path[0] != "bounds":
        return False
    bound = document["bounds"][path[1]]
    trusted = bound["method"] == "exact" and bound["value"] < document["cost"]
    return path[2] == "provenance" or (path[2] == "parameters" and bound["recheck"] == "trusted") or trusted


@pytest.mark.parametrize("document", [PLAIN, FULL, BUFFERED], ids=["no limit", "peaks", "buffer"])
def test_what_is_true_is_accepted(document: Document, tmp_path: Path) -> None:
    """Everything but a solver's word is proved again."""
    verdict = check(document, tmp_path)
    assert verdict.faults == ()
    assert verdict.cost == pytest.approx(document["cost"], rel=1e-12)
    trusted = {c.claim.method for c in verdict.checks if c.proved is None}
    assert trusted == {"exact"} & {bound["method"] for bound in document["bounds"]}
    proved = [c.claim.value for c in verdict.checks if c.proved is not None]
    assert verdict.proved_ratio == pytest.approx(document["cost"] / max(proved), rel=1e-8)
    assert verdict.stated_ratio == pytest.approx(document["ratio"], rel=1e-12)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=instances(max_nodes=5, max_k=3))
def test_no_true_certificate_is_refused(question: Instance, tmp_path: Path) -> None:
    """Zero weights, huge ratios, shared parameters, overflow with and without a buffer."""
    assert check(certificate_document(answers(question)), tmp_path).faults == ()


def larger(number: float) -> float:
    """A little more; of whole numbers and of zeros the next one. `mass_mutation` makes greater changes."""
    return number + 1 if isinstance(number, int) or number == 0 else number * (1 + 1e-6)


@pytest.mark.parametrize("original", [PLAIN, FULL, BUFFERED], ids=["no limit", "peaks", "buffer"])
def test_every_number_counts(original: Document, tmp_path: Path) -> None:
    """Each number in turn is made larger: a fault, or the file makes no sense any more."""
    accepted = []
    for path in numbers(original):
        forged = copy.deepcopy(original)
        *parents, last = path
        place: Any = forged
        for key in parents:
            place = place[key]
        place[last] = larger(place[last])
        write_json(tmp_path / "c.json", forged)
        with suppress(InputError):
            verdict = verify(read_json(tmp_path / "c.json"))
            if not verdict.faults and not is_free(forged, path):
                accepted.append(path)
            assert not verdict.ran_out
    assert accepted == []


Forgery = Callable[[Document], None]


def other_block(document: Document) -> None:
    document["answer"]["block"][1] = 1


def backward_block(document: Document) -> None:
    document["answer"]["block"] = document["answer"]["block"][::-1]


def short_block(document: Document) -> None:
    document["answer"]["block"].pop()


def bottleneck(document: Document) -> None:
    document["cost"] *= 0.999


def order(document: Document) -> None:
    document["answer"]["order"][:2] = [1, 0]


def work(document: Document) -> None:
    document["question"]["graph"]["nodes"][2]["work"] = 0.5


def output_bytes(document: Document) -> None:
    document["question"]["graph"]["nodes"][1]["output_bytes"] = [0.0, 0.0]


def lost_edge(document: Document) -> None:
    document["question"]["graph"]["edges"].remove([1, 2, 0])


def fewer_blocks(document: Document) -> None:
    document["question"]["k"] = 2


def more_blocks(document: Document) -> None:
    document["question"]["k"] = 4


def faster(document: Document) -> None:
    document["question"]["bandwidth"] *= 2


def little_memory(document: Document) -> None:
    document["question"]["memory"] = 5.0


@pytest.mark.parametrize(
    "forge",
    [other_block, backward_block, short_block, bottleneck, order, work, output_bytes, lost_edge, fewer_blocks,
     more_blocks, faster, little_memory],
)  # fmt: skip
def test_a_careful_forger_is_caught(forge: Forgery, tmp_path: Path) -> None:
    """Even if hash, copies and ratio are made to fit."""
    forged = copy.deepcopy(PLAIN)
    forge(forged)
    settle(forged)
    assert check(forged, tmp_path).faults != ()


def test_the_command_says_what_is_proved_and_what_is_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two ratios, apart; one row per bound."""
    true = copy.deepcopy(PLAIN)
    true["bounds"] = [bound for bound in true["bounds"] if bound["method"] not in ("ideals", "carried")]
    settle(true)
    write_json(tmp_path / "c.json", true)
    assert main(["verify", str(tmp_path / "c.json")]) == 4
    head, table = capsys.readouterr().out.split("\n\n")
    assert "re-proved here alone" in head
    assert "TRUSTED" in head
    assert "if exact holds: trusted from highs 1.0" in head
    assert "trusted from highs 1.0" in table
    assert [line.split()[0] for line in table.splitlines()[1:]] == [bound["method"] for bound in true["bounds"]]


def test_the_command_names_the_false_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, with what is claimed and what is true; nothing is headlined."""
    forged = copy.deepcopy(PLAIN)
    forged["ratio"] = 1.25
    write_json(tmp_path / "c.json", forged)
    assert main(["verify", str(tmp_path / "c.json")]) == 1
    streams = capsys.readouterr()
    assert "ratio: 1.25 is claimed, " in streams.err
    assert "re-proved here alone" not in streams.out


def test_the_command_refuses_what_is_no_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(tmp_path / "c.json", {"format": "mtpp-graph/1"})
    assert main(["verify", str(tmp_path / "c.json")]) == 2
    assert main(["verify", str(tmp_path / "none.json")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_certify_writes_what_verify_accepts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one verb to the other, several files at once."""
    monkeypatch.chdir(tmp_path)
    write_json("six.json", PLAIN["question"]["graph"])
    assert main(["certify", "six.json", "-k", "2,3", "--bandwidth", "2", "--time-limit", "10", "--out", "c.json"]) == 0
    assert main(["verify", "c-k2.json", "c-k3.json"]) == 0
    forged = json.loads(Path("c-k2.json").read_text())
    forged["cost"] *= 0.9
    write_json("c-k2.json", forged)
    assert main(["verify", "c-k2.json", "c-k3.json"]) == 1


def test_verify_is_independent(tmp_path: Path) -> None:
    """It imports neither the searches nor the models, nor their packages."""
    write_json(tmp_path / "c.json", PLAIN)
    script = (
        "import sys; from mtpp.cli.main import main\n"
        "assert main(['verify', sys.argv[1]]) in (0, 4)\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "sys.exit(', '.join({'heuristics', 'mtpp_models', 'pyomo', 'numba', 'highspy'} & loaded) or 0)"
    )
    root = str(Path(experiments.__file__).parent.parent)
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "c.json")],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
