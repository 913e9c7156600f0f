"""Where an answer comes from, apart from what it says: the member ``provenance`` of certificates.

A file of a newer format holds the hash of its question as ``question_hash``, and in ``provenance`` all that neither
belongs to the question nor is checked, by its place: ``{"instance.name": "bert-base", "bounds[0].seconds": 0.5}``. All
other members are of the question, which is written in one way only, or checked. `with_provenance` and `opened` turn
documents of older formats, which hold everything in its place, into these and back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from instances.json_files import Value

__all__ = ["BOUND_FORMATS", "Opened", "accepted", "check_written", "older_format", "opened", "with_provenance"]

#: Formats with a provenance, and those with everything in its place that they stand for.
BOUND_FORMATS = {
    "mtpp-certificate/2": "mtpp-certificate/1",
    "mtpp-plan/3": "mtpp-plan/1",
    "mtpp-plan/4": "mtpp-plan/2",
    "mtpp-plan/6": "mtpp-plan/5",
    "mtpp-placement/3": "mtpp-placement/1",
    "mtpp-placement/4": "mtpp-placement/2",
    "mtpp-serving/2": "mtpp-serving/1",
    "mtpp-kinds/2": "mtpp-kinds/1",
    "mtpp-flow/2": "mtpp-flow/1",
}
_NEWER = {older: newer for newer, older in BOUND_FORMATS.items()}

_BOUND = r"bounds\[\d+\](\.parameters\.proof)*"
_GRAPH = r"\.(name|source|attributes|parameters\[\d+\]\.name)"
#: What needs no check, by its place.
_FREE = re.compile(
    rf"instance\.name|{_BOUND}\.(solver|version|seconds|parameters\.(time_limit|gap|threads|seed|model|by))"
    rf"|instance\.(graph|operators){_GRAPH}|instance\.(chain\.(name|source)|chains\[\d+\]\.(name|source)|cluster\.name)"
    r"|impossible\.reason|steps|notes|repeatable|basis|planner|order_name|seed|time_limit|version|graph|chain|cluster|partition\.graph"
)
_STEP = re.compile(r"\.?([a-z_]+)|\[(\d{1,9})\]")
_MOST_PLACES = 10**6
_FOR_PEOPLE = ("basis", "notes", "repeatable")
_OPTIMAL = re.compile(rf"{_BOUND}\.optimal")


class Opened(NamedTuple):
    """A document in the older format, with everything in its place."""

    document: Value
    question_hash: str | None  # as the file states it; None in older formats


def older_format(named: str) -> str:
    """The format with everything in its place that stands behind a format."""
    return BOUND_FORMATS.get(named, named)


def accepted(*formats: str) -> tuple[str, ...]:
    """The older formats, and the newer ones of each."""
    return (*formats, *(_NEWER[older] for older in formats if older in _NEWER))


def with_provenance(document: Mapping[str, Any], question_hash: str) -> dict[str, Any]:
    """The newer format of a document in an older one."""
    provenance: dict[str, Any] = {}
    kept = _without_free(document, "", provenance)
    head = {"format": _NEWER[document["format"]], "question_hash": question_hash}
    return head | {name: item for name, item in kept.items() if name != "format"} | {"provenance": provenance}


def opened(document: Value, *formats: str) -> Opened:
    """The document in one of the older formats, as it is where it is one.

    Raises
    ------
    InputError
        If it is neither, or its provenance names a place that there is not or that needs a check.
    """
    named = document.check_format(*accepted(*formats))
    if named in formats:
        return Opened(document, None)
    fields = document.open_members(("question_hash", "provenance"))
    places = fields["provenance"].open_members(())
    if len(places) > _MOST_PLACES:
        fields["provenance"].fail(f"there are {len(places)} entries; give {_MOST_PLACES} or fewer.")
    whole = {name: item for name, item in document.data.items() if name not in ("question_hash", "provenance")}
    for place in _present(whole, ""):
        document.fail(f"{place}: this is no part of the question, and belongs into 'provenance'.")
    copied: set[int] = set()
    for place, item in places.items():
        if place in _FOR_PEOPLE:
            continue
        if not _FREE.fullmatch(place):
            fields["provenance"].fail(f"'{place[:80]}' is no place of what needs no check.")
        if not _put(whole, place, item.data, copied):
            fields["provenance"].fail(f"there is no place '{place[:80]}' in this file.")
    whole["format"] = BOUND_FORMATS[named]
    return Opened(Value(whole, document.file, document.path), fields["question_hash"].text())


def check_written(value: Value, expected: Mapping[str, Any]) -> None:
    """Refuse a question that is not written as it is read, so that nothing in it goes unread.

    Raises
    ------
    InputError
        The message names the first place that differs.
    """
    place = _difference(value.data, expected, value.path)
    if place is not None:
        value.fail(f"{place} is not written as this project writes it; write the file anew.")


def _without_free(value: Any, path: str, provenance: dict[str, Any]) -> Any:
    """A copy without what belongs into the provenance, which takes it."""
    if isinstance(value, Mapping):
        kept = {}
        for name, item in value.items():
            place = f"{path}.{name}" if path else name
            if _FREE.fullmatch(place):
                provenance |= {} if item is None else {place: item}
            elif not _OPTIMAL.fullmatch(place):
                kept[name] = _without_free(item, place, provenance)
        return kept
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return [_without_free(item, f"{path}[{i}]", provenance) for i, item in enumerate(value)]
    return value


def _present(document: dict[str, Any], path: str) -> list[str]:
    """The first place that holds what belongs into the provenance, or is known to older formats alone."""
    provenance: dict[str, Any] = {}
    kept = _without_free(document, path, provenance)
    if provenance:
        return [next(iter(provenance))]
    return [] if kept == document else ["bounds: 'optimal'"]


def _put(whole: dict[str, Any], place: str, item: Any, copied: set[int]) -> bool:
    """Put an item to its place, in copies of what is on the way; return whether there is such a place."""
    steps = [name or int(index) for name, index in _STEP.findall(place)]
    at: Any = whole
    for step in steps[:-1]:
        in_object = isinstance(step, str) and isinstance(at, dict) and step in at
        if not in_object and not (isinstance(step, int) and isinstance(at, list) and step < len(at)):
            return False
        inner = at[step]
        if id(inner) not in copied:
            if not isinstance(inner, dict | list):
                return False
            at[step] = inner = inner.copy()
            copied.add(id(inner))
        at = inner
    if not isinstance(at, dict):
        return False
    at[steps[-1]] = item
    return True


def _difference(found: Any, expected: Any, path: str) -> str | None:
    """The first place where two documents differ; numbers are equal whether whole or not."""
    if isinstance(found, dict) and isinstance(expected, Mapping):
        for name in [*found, *expected]:
            place = f"{path}.{name}"
            if name not in found or name not in expected:
                return place
            if (deeper := _difference(found[name], expected[name], place)) is not None:
                return deeper
        return None
    if isinstance(found, list) and isinstance(expected, list | tuple):
        if len(found) != len(expected):
            return path
        pairs = enumerate(zip(found, expected, strict=True))
        return next((bad for i, (a, b) in pairs if (bad := _difference(a, b, f"{path}[{i}]")) is not None), None)
    return None if found == expected and isinstance(found, bool) == isinstance(expected, bool) else path
