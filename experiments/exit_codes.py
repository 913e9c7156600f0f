"""Exit codes of the command line."""

__all__ = ["DONE", "FALSE", "INTERRUPTED", "NOTHING", "NO_SOLVER", "TRUSTED", "WRONG"]

DONE = 0
#: Nothing was found within the limits, or runs of a table failed.
NOTHING = 1
#: A certificate does not hold.
FALSE = 1
#: Wrong use or bad input.
WRONG = 2
NO_SOLVER = 3
#: A certificate whose ratio rests on bounds that only a solver can check.
TRUSTED = 4
#: Stopped by Ctrl-C.
INTERRUPTED = 130
