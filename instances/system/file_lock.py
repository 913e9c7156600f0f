"""Locks of files among processes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["file_lock"]

# Windows deletes such a file when its process ends, however it ends.
_TEMPORARY: int = getattr(os, "O_TEMPORARY", 0)
# Windows denies a file that is about to be deleted.
_TAKEN = (FileExistsError, PermissionError) if sys.platform == "win32" else FileExistsError
# Seconds between two tries.
_LOOK = 0.02


@contextmanager
def file_lock(path: str | Path, *, wait: bool) -> Iterator[None]:
    """Hold a file alone until the end of the context; it is made if missing.

    The lock ends with its process. Where the system has no `fcntl`, as on Windows, a file beside it, ``PATH.lock``,
    stands for the lock.

    Parameters
    ----------
    path : str or Path
        In a folder that can be written.
    wait : bool
        Wait while another process holds the file, instead of failing.

    Raises
    ------
    BlockingIOError
        If another process holds the file and `wait` is False.
    OSError
        If the file cannot be opened or made.
    """
    descriptor = _exclusive(f"{path}.lock", wait) if fcntl is None else os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        if fcntl is None and not _TEMPORARY:
            os.unlink(f"{path}.lock")
        os.close(descriptor)


def _exclusive(lock: str, wait: bool) -> int:
    """Descriptor of a lock file that this call has made; it waits until no other process has one, or raises."""
    while True:
        try:
            return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | _TEMPORARY, 0o666)
        except _TAKEN:
            if not wait:
                raise BlockingIOError(f"{lock} is there") from None
            time.sleep(_LOOK)
