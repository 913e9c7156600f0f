"""Faults that are planted into a copy of the sources, one at a time, are caught by `mtpp verify` or by a pillar."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from planted_faults import FAULTS, USE_RULE

from instances.system.import_guard import SIBLINGS

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python on a copy. Nothing is compiled: each copy would compile its kernels anew, for questions this small."""
    environment = os.environ | {"PYTHONPATH": str(folder), "NUMBA_DISABLE_JIT": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name: str, tmp_path: Path) -> None:
    """With the fault, a certificate is false or a pillar falls; without it, neither (as the other tests show)."""
    fault = FAULTS[name]
    for package in (*SIBLINGS, "tests"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("kernels-*"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    file = tmp_path / fault.file
    assert file.read_text().count(fault.line) == 1
    file.write_text(file.read_text().replace(fault.line, fault.planted))
    if fault.pillar:
        profile = "--hypothesis-profile=first failure"
        caught = run(tmp_path, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", profile, f"tests/{fault.pillar}")
        assert caught.returncode == 1, caught.stdout + caught.stderr
        assert " failed" in caught.stdout
        # What it says is wrong, not that it does not run uncompiled.
        assert "AssertionError" in caught.stdout or "FalseCertificateError" in caught.stdout
        return
    if fault.rule is not None:
        rule, block = fault.rule
        used = run(tmp_path, "-c", USE_RULE, rule, "c.json", block)
        assert used.returncode == 0, used.stderr
    else:
        model, *carry = fault.use
        used = run(tmp_path, "-c", fault.script, model, "c.json", *carry)
    if used.returncode != 0:  # bound and partition of the faulty copy contradict each other
        assert "FalseCertificateError" in used.stderr or "SolverFaultError" in used.stderr
        return
    checked = run(tmp_path, "-m", "mtpp", "verify", "c.json")
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert fault.words in checked.stderr
