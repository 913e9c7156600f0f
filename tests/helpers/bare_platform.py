"""A system without what Windows lacks, as the packages of this project see it; all other packages see this one."""

from __future__ import annotations

import builtins
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["MODULES", "install", "run_bare"]

# Nothing of the project is imported here: it would see the system as it is.
_ROOT = Path(__file__).resolve().parents[2]
_OURS = {path.parent.name for path in _ROOT.glob("*/__init__.py")}

#: Modules that Windows lacks.
MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")

_OS = (
    "fork forkpty getegid geteuid getgid getpgid getpgrp getpriority getsid getuid initgroups killpg memfd_create "
    "mkfifo nice openpty pidfd_open posix_fallocate posix_spawn pread preadv pwrite pwritev register_at_fork "
    "sched_getaffinity sched_setaffinity sched_yield sendfile setgid setpgid setpriority setsid setuid statvfs sysconf "
    "uname wait wait3 wait4 waitid WNOHANG O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_SYNC"
)
_SIGNAL = (
    "SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGIO SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSTOP SIGSYS SIGTRAP SIGTSTP "
    "SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU SIGXFSZ alarm getitimer pause pthread_kill "
    "pthread_sigmask setitimer sigpending sigtimedwait sigwait siginterrupt"
)


class _Seen:
    """A module without some of its names, and with another value of others."""

    def __init__(self, module: ModuleType, lacks: Sequence[str], other: Mapping[str, Any]) -> None:
        vars(self).update(_module=module, _lacks=lacks, _other=other)

    def __getattr__(self, name: str) -> Any:
        if name in self._lacks:
            raise AttributeError(f"module {self._module.__name__!r} has no attribute {name!r}")
        return self._other[name] if name in self._other else getattr(self._module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._module, name, value)


def install() -> None:
    """Let the packages of this project see such a system from now on."""
    seen = {
        "os": _Seen(os, _OS.split(), {}),
        "signal": _Seen(signal, _SIGNAL.split(), {}),
        "sys": _Seen(sys, (), {"platform": "win32"}),
    }
    imported = builtins.__import__

    def import_(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if level == 0 and str((globals or {}).get("__package__")).split(".")[0] in _OURS:
            if name.split(".")[0] in MODULES:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            if name in seen:
                return seen[name]
        return imported(name, globals, locals, fromlist, level)

    builtins.__import__ = import_


def run_bare(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with some words on such a system, and all processes that it starts."""
    (folder / "sitecustomize.py").write_text("import bare_platform\nbare_platform.install()\n")
    path = os.pathsep.join(map(str, (folder, Path(__file__).parent, _ROOT)))
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
