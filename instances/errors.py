"""Errors and warnings of this project, defaults that it assumes, and names of parameters in messages.

Messages show a parameter, such as *memory*, as the caller writes it: by its name in Python, as ``--memory`` on the
command line, which sets `spelling`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from importlib.metadata import entry_points
from itertools import accumulate
from typing import Any, Protocol, TypeVar

# Characters of a message.
_LONGEST = 1000
# Largest number of names that are compared with a misspelled name: both may come from a file.
_MOST_LETTERS = 10_000_000


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


class MethodError(Exception):
    """A method that failed or was ended; the message is one line in the words of the method."""

    def __str__(self) -> str:
        return printable(" ".join(super().__str__().split()))[:_LONGEST]


def is_refused(check: Callable[..., object], *args: Any) -> bool:
    """Whether a call raises an `InputError`."""
    try:
        check(*args)
    except InputError:
        return True
    return False


def _as_parameter(name: str, value: object) -> str:
    return name if value is None else f"{name}={value!r}"


#: Writes a parameter as the caller does: takes its name and its value, None for the name alone.
spelling: ContextVar[Callable[[str, Any], str]] = ContextVar("spelling", default=_as_parameter)


def word(name: str) -> str:
    """Name of a parameter as the caller writes it, such as "memory" or "--memory"."""
    return spelling.get()(name, None)


def said(name: str, value: object) -> str:
    """Parameter and value as the caller writes them, such as "bandwidth='abc'" or "--bandwidth abc"."""
    return spelling.get()(name, value)


def one_line(error: Exception, longest: int) -> str:
    """The message of another program's error in one line of at most `longest` characters; else the kind of error."""
    return " ".join(str(error).split())[:longest] or type(error).__name__


def extra(name: str) -> str:
    """The command that installs the packages of an extra of this project, in any folder.

    Nothing follows it in a message, not even a full stop, so that it can be copied.
    """
    import shlex
    from importlib.metadata import PackageNotFoundError, requires

    try:
        stated = [line.partition(";")[::2] for line in requires("mtpp") or ()]
    except PackageNotFoundError:
        stated = []
    packages = [package.strip() for package, marker in stated if re.search(rf"""extra == ["']{name}["']""", marker)]
    return f"pip install {shlex.join(packages)}" if packages else f"pip install -e '.[{name}]' in the folder of mtpp"


class WordError(InputError):
    """A parameter cannot have this value.

    Parameters
    ----------
    name : str
        The parameter, as functions of `mtpp` call it.
    value : object
        Its value; None if the parameter itself is out of place.
    why : str
        What is wrong, and what to do, as one sentence.
    """

    def __init__(self, name: str, value: object, why: str) -> None:
        super().__init__(f"{said(name, value)}: {why}")
        self.word, self.value, self.why = name, value, why

    def __reduce__(self) -> tuple[type[WordError], tuple[str, object, str]]:
        return WordError, (self.word, self.value, self.why)


class InputWarning(UserWarning):
    """Input of the caller that can be used, but may not be meant as it is.

    The message is one line as that of `InputError`. The command line prints it once and goes on.
    """


class OneKindError(InputError):
    """A method for a single kind of devices was called on a question with several kinds."""


class NothingFitsError(InputError):
    """No answer fits into the memory.

    The command line exits with code 5 if that was `proved`, else with 1.
    """

    def __init__(self, message: str, *, proved: bool) -> None:
        super().__init__(message)
        self.proved = proved


class UnknownLayersError(InputError):
    """A model has layers whose costs this project does not know."""


class FalseCertificateError(AssertionError):
    """Fault of this project, never of its user: a lower bound exceeds the cost of a feasible partition."""


class NothingFoundError(Exception):
    """A search ended without an answer, although one may exist."""


# Names and values that are misspelled get the nearest one.


def check_one_of(what: str, value: object, choices: Collection[object]) -> None:
    """Refuse a value that is not one of the choices; the message proposes the nearest.

    Examples
    --------
    >>> check_one_of("level", "layers", ("operator", "layer"))
    Traceback (most recent call last):
        ...
    instances.errors.InputError: level is 'layers'; did you mean layer? Give one of operator, layer.
    """
    if value not in choices:
        raise InputError(f"{what} is {value!r}{one_of(choices, value)}")


def one_of(choices: Iterable[object], value: object) -> str:
    """End of a message about a value that is not one of the choices: the nearest, if any, and all of them."""
    names = list(map(str, choices))
    return nearest(names, str(value), f"give one of {', '.join(names)}" if names else "there is none")


def nearest(names: Iterable[str], name: str, rest: str = "") -> str:
    """End of a message about an unknown name: the nearest of `names`, if any is near, and then `rest`.

    A name is near if its spelling or its beginning is similar, if one of the two abbreviates the other, or if both have
    two letters, of which the first is the same.

    Examples
    --------
    >>> nearest(["kahn", "dfs"], "Khan", "there are two"), nearest(["txt", "md"], "markdown"), nearest(["txt"], "pdf")
    ('; did you mean kahn? There are two.', '; did you mean md?', '.')
    """
    letters = _MOST_LETTERS // (len(name) + 1)
    candidates = [other for other, end in zip(names, accumulate(map(len, names)), strict=True) if end <= letters]
    lowered, word = {other.lower().lstrip("-"): other for other in reversed(candidates)}, name.lower().lstrip("-")
    stem = word.split(".")[0]  # that of another file is not near, however alike their suffixes are
    near = (
        [other for other in get_close_matches(word, lowered) if get_close_matches(stem, [other.split(".")[0]])]
        or [other for other in lowered if len(word) > 3 and get_close_matches(word, [other[: len(word)]], cutoff=0.75)]
        or [other for other in lowered if other[:1] == word[:1] and (_shortens(word, other) or _shortens(other, word))]
        or [other for other in lowered if other[:1] == word[:1] and len(other) == len(word) == 2]
    )
    if near:
        return f"; did you mean {lowered[near[0]]}?" + (rest and f" {rest[0].upper()}{rest[1:]}.")
    return f"; {rest}." if rest else "."


def _shortens(short: str, long: str) -> bool:
    """Whether `long` contains the letters of `short`, two at least, in the same order."""
    letters = iter(long)
    return len(short) > 1 and all(letter in letters for letter in short)


# Defaults that a question rests on because nobody has given them: each is named where it is taken.


# Parameters that the caller left out, and defaults so far, parameter to text; None outside of `assuming`.
_listener: ContextVar[tuple[Container[str], dict[str, str]] | None] = ContextVar("listener", default=None)
_OF_DIMS = "dims."
#: Beginning of the sentence about all of them.
ASSUMED = "Assumed: "


def assume(name: str, text: str) -> None:
    """Record the default of a parameter that the caller left out, or a part of one as in "dims.batch".

    Parameters
    ----------
    name : str
    text : str
        The default with its unit.
    """
    listener = _listener.get()
    if listener is not None and (name in listener[0] or "." in name):
        listener[1].setdefault(name, text)


def is_given(name: str) -> bool:
    """Whether the caller has given a parameter; False where nobody collects defaults."""
    listener = _listener.get()
    return listener is not None and name not in listener[0]


def warn_if_given(name: str, why: str) -> None:
    """Warn a caller who has given a parameter on which the question does not depend; `why` is the reason."""
    if is_given(name):
        warnings.warn(f"{word(name)} changes nothing: {why}.", InputWarning, stacklevel=2)


def disregard(*names: str) -> None:
    """Remove parameters on which the question does not depend from the defaults that messages name."""
    listener = _listener.get()
    if listener is not None:
        for name in names:
            listener[1].pop(name, None)


@contextmanager
def assuming(left_out: Container[str]) -> Iterator[dict[str, str]]:
    """Context that collects the defaults assumed inside it, as a mapping from parameter to text."""
    assumed = dict[str, str]()
    token = _listener.set((left_out, assumed))
    try:
        yield assumed
    finally:
        _listener.reset(token)


def assumptions() -> tuple[str, ...]:
    """The sentence about all defaults taken so far; none if there are none."""
    listener = _listener.get()
    return (sentence(listener[1]),) if listener is not None and listener[1] else ()


def sentence(assumed: Mapping[str, str]) -> str:
    """Defaults in one sentence without its full stop, with the parameters that change them.

    Examples
    --------
    >>> sentence({"dims.batch": "batch 1", "bandwidth": "25 GB/s between devices"})
    'Assumed: batch 1, 25 GB/s between devices; dims batch=…, bandwidth change it'
    """
    dims = [f"{name.removeprefix(_OF_DIMS)}=…" for name in assumed if name.startswith(_OF_DIMS)]
    words = [word(name.partition(".")[0]) for name in assumed if not name.startswith(_OF_DIMS)]
    if dims:
        words.insert(0, f"{word('dims')} {', '.join(dims)}")
    return (
        f"{ASSUMED}{', '.join(assumed.values())}; {', '.join(words)} {'change' if len(assumed) > 1 else 'changes'} it"
    )


# Look-up by name, with a suggestion if the name is misspelled.


T = TypeVar("T")


class Named(Protocol):
    """Interface of the entries of a registry."""

    @property
    def name(self) -> str:
        """Name of the entry, unique in its registry."""


N = TypeVar("N", bound=Named)


class Registry(Mapping[str, N]):
    """Entries by name: those of this project, those that a program registers, and those of installed packages.

    Entry points of a group are loaded when a name is looked up that is not known, and by `load`. One that fails, or
    has a name that is taken, is an `InputWarning` and left out.

    Parameters
    ----------
    entries : iterable
        Entries of this project, in their order.
    group : str
        The group of entry points, such as "mtpp.heuristics".
    member : str
        Name of a member that each entry has, such as "run".

    Attributes
    ----------
    shipped : frozenset of str
        Names of the entries of this project.
    """

    def __init__(self, entries: Iterable[N], group: str, member: str = "name") -> None:
        self._entries = {entry.name: entry for entry in entries}
        self.shipped = frozenset(self._entries)
        self._group, self._member, self._loaded = group, member, False

    def register(self, entry: N) -> N:
        """Add an entry, and return it.

        Raises
        ------
        InputError
            If its name is taken, or it lacks a member.
        """
        for member in ("name", self._member):
            if not hasattr(entry, member):
                raise InputError(f"{type(entry).__name__} has no {member}, which each entry of {self._group} has.")
        if entry.name in self._entries:
            raise InputError(f"{entry.name!r} is taken in {self._group}; give another name.")
        self._entries[entry.name] = entry
        return entry

    def load(self) -> None:
        """Load the entry points of the group, once."""
        if self._loaded:
            return
        self._loaded = True
        for point in entry_points(group=self._group):
            try:
                self.register(point.load())
            except Exception as error:
                fault = f"{point.value} of {self._group} is left out: {type(error).__name__}: {error}"
                warnings.warn(fault, InputWarning, stacklevel=3)

    def __getitem__(self, name: str) -> N:
        if name not in self._entries:
            self.load()
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def find(registry: Mapping[str, T], name: str, what: str) -> T:
    """The entry of this name; if there is none, an `InputError` that says `what` it is, such as "heuristic".

    Examples
    --------
    >>> find({"kahn": 1, "brkga-100": 2}, "khan", "heuristic")
    Traceback (most recent call last):
        ...
    instances.errors.InputError: There is no heuristic 'khan'; did you mean kahn? There are kahn, brkga-100.
    """
    if not isinstance(name, str):
        raise InputError(f"The {what} is given by its name, not by {type(name).__name__}.")
    if name not in registry:
        raise InputError(unknown(registry, name, what))
    return registry[name]


def unknown(names: Iterable[str], name: str, what: str) -> str:
    """Message about an unknown name, with the nearest known name, or all of them."""
    return f"There is no {what} {name!r}" + nearest(names, name, f"there are {', '.join(names)}")
