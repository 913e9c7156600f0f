"""A folder of this user alone among temporary ones, for code that no other user may have put there."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["make_private", "private_folder"]


def private_folder(name: str) -> Path | None:
    """Where the folder of this user is, or would be; None if the system has no owners, or another one has taken it.

    It is in ``$XDG_RUNTIME_DIR`` if that is the user's, else among temporary files.
    """
    if not hasattr(os, "getuid"):  # Windows
        return None
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.path.isabs(runtime) and _is_private(Path(runtime)) and os.access(runtime, os.W_OK):
        return Path(runtime, name)
    folder = Path(tempfile.gettempdir(), f"{name}-{os.getuid()}")
    return folder if _is_private(folder) or not os.path.lexists(folder) else None


def make_private(folder: Path) -> None:
    """Make the folder, for this user alone.

    Raises
    ------
    OSError
        If it cannot be made, or is not this user's.
    """
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    if not _is_private(folder):
        raise PermissionError(f"{folder} is not a folder of this user alone")


def _is_private(folder: Path) -> bool:
    """Whether this is a folder, no link to one, that belongs to this user, and that no other one may enter."""
    try:
        state = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o077
