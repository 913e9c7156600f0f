"""``mtpp`` and ``python -m mtpp``: few imports, so that Ctrl-C works while everything else is still loading."""

import gc
import io
import os
import signal
import sys
from types import FrameType

from mtpp.cli.exit_codes import INTERRUPTED


def main() -> int:
    """Run the command line; until it starts, Ctrl-C and SIGTERM end the process at once."""
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, _leave)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a console or file whose encoding has no µ shows a question mark
        sys.stdout.reconfigure(errors="replace")
    # All processors of an architecture share machine code and answers, and `mtpp warm-up --export` says so.
    os.environ.setdefault("NUMBA_CPU_NAME", "generic")
    # Of what is imported nothing is garbage: looking for some takes a tenth of the time.
    gc.set_threshold(20_000)
    from mtpp.cli.main import main

    if signal.SIGINT in heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = main()
    for number in heard:  # all is said: Python, as it ends, would have the process ended by the next one
        signal.signal(number, signal.SIG_IGN)
    exec("")  # Python ends itself by SIGINT, whatever is returned, if the last text that it executed was interrupted
    return code


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
