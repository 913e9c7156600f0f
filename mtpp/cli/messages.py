"""Messages on stderr: one line each, whatever the names in it hold."""

from __future__ import annotations

import sys

from instances.errors import printable

__all__ = ["complain"]


def complain(message: str, code: int) -> int:
    """Print one line on stderr, and return the exit code that belongs to it."""
    print(f"mtpp: {printable(' '.join(message.split()))}", file=sys.stderr)
    return code
