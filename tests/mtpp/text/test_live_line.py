"""The live line on stderr."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from pathlib import Path

import pytest

from mtpp.text.tables import LiveLine


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are listed nowhere else")
def test_its_file_is_closed_without_a_complaint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Console and line refer to each other, so the collector may find the file below before the file itself."""
    with (tmp_path / "log").open("w") as stream, warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always", ResourceWarning)
        monkeypatch.setattr(sys, "stderr", stream)
        gc.collect()
        before = os.listdir("/proc/self/fd")
        with LiveLine("path"):
            assert len(os.listdir("/proc/self/fd")) == len(before) + 1
        gc.collect()
        assert os.listdir("/proc/self/fd") == before
    assert not [complaint for complaint in complaints if "unclosed" in str(complaint.message)]
