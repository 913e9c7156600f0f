"""Registries: entries of this project, of programs, and of installed packages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from instances import InputError, InputWarning
from instances.errors import Registry, find


@dataclass(frozen=True)
class Entry:
    name: str


@dataclass(frozen=True)
class Point:
    """Entry point of an installed package; one without an entry fails."""

    value: str
    entry: Any = None

    def load(self) -> Any:
        if self.entry is None:
            raise ModuleNotFoundError("No module named 'gone'")
        return self.entry


def registry(monkeypatch: pytest.MonkeyPatch, *points: Point) -> Registry[Entry]:
    monkeypatch.setattr("instances.errors.entry_points", lambda group: points)
    return Registry([Entry("a"), Entry("b")], "mtpp.tests")


def test_entries_are_found_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    known = registry(monkeypatch)
    assert list(known) == ["a", "b"]
    assert known.register(Entry("c")) is known["c"]
    assert list(known) == ["a", "b", "c"]
    with pytest.raises(InputError, match=r"'a' is taken in mtpp\.tests; give another name"):
        known.register(Entry("a"))


def test_installed_packages_are_asked_on_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    known = registry(monkeypatch, Point("other:c", Entry("c")))
    assert len(known) == 2
    assert find(known, "c", "entry").name == "c"
    with pytest.raises(InputError, match="There is no entry 'd'"):
        find(known, "d", "entry")


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (Point("gone:x"), "gone:x of mtpp.tests is left out: ModuleNotFoundError: No module named 'gone'"),
        (Point("other:a", Entry("a")), "other:a of mtpp.tests is left out: InputError: 'a' is taken"),
        (Point("other:n", 3), "other:n of mtpp.tests is left out: InputError: int has no name"),
    ],
)
def test_a_bad_entry_point_is_a_warning(point: Point, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left out, and the others stay."""
    known = registry(monkeypatch, point, Point("other:c", Entry("c")))
    with pytest.warns(InputWarning, match=message):
        known.load()
    assert list(known) == ["a", "b", "c"]
    known.load()  # once
