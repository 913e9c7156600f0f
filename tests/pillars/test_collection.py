"""Tests that exist are found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_test_file_that_cannot_be_imported_is_an_error(tmp_path: Path) -> None:
    """Five files had lost their tests in silence, when names that they import had moved."""
    (tmp_path / "test_broken.py").write_text("import a_module_that_has_moved\n\n\ndef test_nothing() -> None: ...\n")
    words = ["-q", "-n", "0", "-p", "conftest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-p", "no:cacheprovider", "test_broken.py"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT / "tests")}, capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 2, found.stdout
    assert "a_module_that_has_moved" in found.stdout
