"""Exit codes of the command line, the same for all verbs; a module of its own, which loads at once."""

DONE = 0
#: Also when runs of a table failed.
NOTHING = FALSE = 1
WRONG = 2
NO_SOLVER = 3
#: Of ``verify``: the numbers hold, but the ratio needs a bound that was not proved again.
TRUSTED = 4
IMPOSSIBLE = 5
#: Of ``verify`` and ``hunt``: something could not be checked within the limits.
UNCHECKED = 6
#: By Ctrl-C or SIGTERM, after printing what is known.
INTERRUPTED = 130

#: What each code says.
MEANINGS = {
    DONE: "done",
    NOTHING: "nothing found within the limits, or a number is false",
    WRONG: "wrong use or bad input",
    NO_SOLVER: "solver not available or faulty, or scheduler lost",
    TRUSTED: "rests on trusted bounds only",
    IMPOSSIBLE: "proved impossible",
    UNCHECKED: "not checked within the limits",
    INTERRUPTED: "stopped",
}
