"""Types of the façade: a strict type checker accepts what is right and refuses what is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
RIGHT = """
import mtpp
from mtpp.api.planning import ServingResult
one: mtpp.Result = mtpp.certify("bert-base", k=2, bandwidth="25GB/s", constraints={"windows": {"a": 0}})
several: list[mtpp.Result] = mtpp.certify("bert-base", k=[2, 4])
texts: list[mtpp.Result] = mtpp.partition("bert-base", "2,4", "kahn")
ratio: float | None = mtpp.bound("bert-base", 2, "pinned").ratio
front: ServingResult = mtpp.serve("gpt2", 2, "1GB")
time: float | None = mtpp.plan("gnmt", "2x2", 4, bandwidth=1e9).cost
version: str = mtpp.__version__
faults: tuple[str, ...] = mtpp.verify(one).faults
words: str = mtpp.export(one, "vllm")
"""
#: A wrong use, and the kind of error that is said of it.
WRONG = {
    "mtpp.certify('bert-base', k=2).sumary()": "attr-defined",
    "mtpp.certify('bert-base', k=[2, 4]).summary()": "attr-defined",
    "mtpp.certify('bert-base', k=2, bandwith=3)": "call-overload",
    "mtpp.partition('bert-base', 2, fit='yes')": "call-overload",
    "mtpp.plan('gnmt', '2x2', '4')": "arg-type",
    "mtpp.place('gnmt', 2, search_only=3)": "arg-type",
    "mtpp.certfy('bert-base', k=2)": "attr-defined",
    "mtpp.serve('gpt2', 2, '1GB').anser": "attr-defined",
}


@pytest.mark.slow
def test_right_and_wrong_uses(tmp_path: Path) -> None:
    """Each wrong line has its own error, and no right one has any."""
    uses = tmp_path / "uses.py"
    lines = [*RIGHT.strip().splitlines(), *WRONG]
    uses.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(uses)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = {}
    for line in run.stdout.splitlines():
        # The folder may be that of an older run, whose messages are in a cache.
        if match := re.search(r"uses\.py:(\d+): error: .* \[([\w-]+)\]$", line):
            found[lines[int(match[1]) - 1]] = match[2]
    assert found == WRONG, run.stdout + run.stderr
