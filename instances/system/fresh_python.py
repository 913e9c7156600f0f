"""Run of one module in a fresh Python process; other packages may crash, hang or take memory on untrusted files.

What comes back is a file or bytes, and nothing of this process goes along. Where our own code works on such a file and
its answer is an object, `instances.system.bounded_call` calls the function in a copy of this process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["module_command", "run_module"]


def run_module(
    module: str, *arguments: str | Path, folder: str | None = None, seconds: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a module of this project with the packages that this process has, and none of the working folder.

    Parameters
    ----------
    module : str
        Its full name.
    arguments : str or Path
    folder : str, optional
        Working folder; by default that of this process.
    seconds : float, optional
        After how long the process is killed.

    Raises
    ------
    subprocess.TimeoutExpired
        If it was killed.
    OSError
        If it cannot be started.
    """
    command, environment = module_command(module, *arguments)
    return subprocess.run(command, cwd=folder, env=environment, timeout=seconds, capture_output=True, check=False)


def module_command(module: str, *arguments: str | Path) -> tuple[list[str], dict[str, str]]:
    """Command and environment that run a module as `run_module` does, for callers that start the process themselves."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # each takes memory
    environment = os.environ | one_thread | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return [sys.executable, "-P", "-m", module, *map(str, arguments)], environment
