"""``mtpp`` and ``python -m mtpp``: small, so that Ctrl-C is heard while all else is still loading."""

import os
import signal
import sys
from types import FrameType

from experiments.cli.exit_codes import INTERRUPTED

__all__ = ["main"]


def main() -> int:
    """Run the command line; before and after it, Ctrl-C and SIGTERM find nothing to keep and end the process."""
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, _leave)
    from experiments.cli.main import main

    if signal.SIGINT in heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = main()
    for number in heard:
        signal.signal(number, _leave)
    exec("")  # Python ends itself by SIGINT, whatever is returned, if the last text that it executed was interrupted
    return code


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
