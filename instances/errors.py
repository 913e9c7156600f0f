"""The two errors that this project raises on purpose, its warning, and text from files as it may be shown."""

__all__ = ["FalseCertificateError", "InputError", "InputWarning", "printable"]


def printable(text: str) -> str:
    r"""The text with control characters, line breaks and invisible marks as escapes, so that it forges no output.

    Examples
    --------
    >>> print(printable("conv\n\x1b[2Jratio 1.0"))
    conv\n\x1b[2Jratio 1.0
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class InputError(ValueError):
    """What the caller gave cannot be used.

    The message is one line that says what is wrong, where, and what to do. The command line prints it
    as it is and exits with code 2.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))  # a name from a file may hold anything


class InputWarning(UserWarning):
    """What the caller gave can be used, but may not say what is meant.

    The message is one line as that of `InputError`. The command line prints it once and goes on.
    """


class FalseCertificateError(AssertionError):
    """A lower bound exceeds the cost of a feasible partition: a fault of this project, never of its user."""
