"""Errors and warnings of this project, and escaping of text from files."""

__all__ = ["FalseCertificateError", "InputError", "InputWarning", "NothingFoundError", "printable"]
# Characters of a message.
_LONGEST = 1000


def printable(text: str) -> str:
    r"""Escape the characters of a text that a terminal cannot print; the result is one line.

    Examples
    --------
    >>> print(printable("a\nb, \x1b[2J, é"))
    a\nb, \x1b[2J, é
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class InputError(ValueError):
    """Input of the caller that cannot be used.

    The message is one line that says what is wrong, where, and what to do. The command line prints it
    as it is and exits with code 2.
    """

    def __init__(self, message: str) -> None:
        line = printable(" ".join(message.split()))  # a name from a file may hold anything
        super().__init__(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…")


class InputWarning(UserWarning):
    """Input of the caller that can be used, but may not be meant as it is.

    The message is one line as that of `InputError`. The command line prints it once and goes on.
    """


class FalseCertificateError(AssertionError):
    """Fault of this project, never of its user: a lower bound exceeds the cost of a feasible partition."""


class NothingFoundError(Exception):
    """End of a search without an answer; there may be one."""
