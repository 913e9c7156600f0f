"""Call of a function in a process of its own, with limits on time and memory; for untrusted files.

Arguments and answer are objects. Where another package is at work, which may bring the process down or must not be
loaded here, `instances.system.fresh_python` runs a module in a fresh Python.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from instances.system.limits import limit_process, warn_if_unlimited

__all__ = ["NotBoundedError", "run_bounded"]

T = TypeVar("T")

# Of the process, beside its code.
_MEMORY = 4 * 2**30
# Seconds to end by itself.
_GRACE = 3.0


class NotBoundedError(Exception):
    """Call that was ended because it took too much time or memory."""


def run_bounded(function: Callable[..., T], *arguments: Any, seconds: float, **options: Any) -> T:
    """Call a function in a process that is ended when its time is up, after so many seconds of wall time.

    The function, its arguments and its result are such that they can be pickled. Where the system cannot limit its
    memory, an `InputWarning` says so.

    Raises
    ------
    NotBoundedError
        If it did not end by itself.
    Exception
        What the function raises.
    """
    warn_if_unlimited()
    # Elsewhere a copy of a process with threads may hang; on Linux it starts at once.
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(sender, function, arguments, options))
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise NotBoundedError(f"it did not end within {seconds:g} s and was stopped")
        succeeded, result = receiver.recv()
        process.join(_GRACE)
    except EOFError:
        raise NotBoundedError("it took too much memory, or was ended from outside") from None
    finally:
        process.terminate()
        process.join(_GRACE)
        process.kill()
        process.join()
    if not succeeded:
        raise result
    answer: T = result
    return answer


def _call(sender: Connection, function: Callable[..., T], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    limit_process(memory=_MEMORY)
    try:
        sender.send(_outcome(function, arguments, options))
    except KeyboardInterrupt:  # the one who asked has heard it too, or has told it
        os._exit(1)


def _outcome(function: Callable[..., T], arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[bool, Any]:
    try:
        return True, function(*arguments, **options)
    except MemoryError:
        return False, NotBoundedError(f"it needs more than {_MEMORY >> 30} GiB of memory")
    except Exception as error:
        return False, error
