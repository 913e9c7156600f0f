"""Look-up by name, with a suggestion if the name is misspelled."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Protocol, TypeVar

from instances.errors import InputError, InputWarning, nearest

T = TypeVar("T")


class Named(Protocol):
    """Entry of a registry."""

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
        Those of this project, in their order.
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
    """The entry of a registry, or an `InputError` that calls it a `what`, such as "heuristic".

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
    """Message about a name that is not among `names`, with the nearest of them or all."""
    return f"There is no {what} {name!r}" + nearest(names, name, f"there are {', '.join(names)}")
