"""Run of one module in a fresh Python process; other packages may crash, hang or take memory on untrusted files.

What comes back is a file or bytes, and nothing of this process goes along. Where our own code works on such a file and
its answer is an object, `instances.system.bounded_call` calls the function in a copy of this process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import SubprocessError

from instances.system.limits import warn_if_unlimited

__all__ = ["SubprocessError", "ask_module", "module_command", "run_module"]

# Seconds between looks at a process that is asked.
_LOOK = 0.2


def run_module(
    module: str, *arguments: str | Path, folder: str | None = None, seconds: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a module of this project with the packages that this process has, and none of the working folder.

    The module limits its memory; an `InputWarning` says where it cannot.

    Parameters
    ----------
    module : str
        Its full name.
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
    warn_if_unlimited()
    command, environment = module_command(module, *arguments)
    return subprocess.run(command, cwd=folder, env=environment, timeout=seconds, capture_output=True, check=False)


def ask_module(
    module: str, question: str, *, interrupted: threading.Event, is_late: Callable[[], bool], patience: float
) -> subprocess.CompletedProcess[str]:
    """Run a module that reads a question from stdin and answers on stdout.

    Parameters
    ----------
    module : str
        Its full name; it takes Ctrl-C as a wish to answer with what it has.
    question : object
        Pickled for the process.
    interrupted : threading.Event
        Is handed on as Ctrl-C.
    is_late : callable
        Whether the answer is overdue.
    patience : float
        Seconds from then until the process is killed.

    Raises
    ------
    OSError
        If it cannot be started.
    """
    command, environment = module_command(module)
    pipe, end = subprocess.PIPE, None
    with tempfile.TemporaryFile("w+", encoding="utf-8") as asked:
        asked.write(question)
        asked.seek(0)
        process = subprocess.Popen(command, env=environment, text=True, stdin=asked, stdout=pipe, stderr=pipe)
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    out, err = process.communicate(timeout=_LOOK)
                    return subprocess.CompletedProcess(command, process.returncode, out, err)
                if interrupted.is_set():
                    with contextlib.suppress(ValueError):  # Windows, whose Ctrl-C all programs of a console hear
                        process.send_signal(signal.SIGINT)
                if end is None and is_late():
                    end = time.monotonic() + patience
                if end is not None and time.monotonic() >= end:
                    process.kill()
        finally:
            process.kill()
            process.wait()


def module_command(module: str, *arguments: str | Path) -> tuple[list[str], dict[str, str]]:
    """Command and environment that run a module as `run_module` does, for callers that start the process themselves."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # each takes memory
    environment = os.environ | one_thread | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return [sys.executable, "-P", "-m", module, *map(str, arguments)], environment
