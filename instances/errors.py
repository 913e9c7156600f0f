"""The two errors that this project raises on purpose."""

__all__ = ["FalseCertificateError", "InputError"]


class InputError(ValueError):
    """What the caller gave cannot be used.

    The message is one line that says what is wrong, where, and what to do. The command line prints it
    as it is and exits with code 2.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))  # a name from a file may hold anything


class FalseCertificateError(AssertionError):
    """A lower bound exceeds the cost of a feasible partition: a fault of this project, never of its user."""
