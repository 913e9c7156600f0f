"""``mtpp`` and ``python -m experiments``: small, so that Ctrl-C is heard while all else is still loading."""

import signal
import sys

from experiments.exit_codes import INTERRUPTED

__all__ = ["main"]


def main() -> int:
    """Run the command line; from the first line to the last Ctrl-C prints no traceback."""
    try:
        from experiments.cli import main
    except KeyboardInterrupt:
        return INTERRUPTED
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what is left is Python's own leaving
    return code


if __name__ == "__main__":
    sys.exit(main())
