"""Answer files as a stranger may write them: true ones, in which a few things are replaced, scaled or left out."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from certificates import Document
from hypothesis import strategies as st

NASTY: list[Any] = [
    0, -1, 1, 2, 3, 4, 5, 7, 10**9, 2**63 - 1, 2**64, 10**400, -0.0, 0.5, 1e-320, 1e-12, 1e18, 1e30, 1e308, -1e308, 9.0,
    None, True, False, "", "highs", "simple", "ideals", "carried", "exact", "priced", "magic", "/bin/sh", "asl:/bin/sh",
    "trusted", "formula", "\u001b[2J", "ok\nratio        1.000000 by bounds re-proved here alone", [], {}, [[]], [0],
    [0, 1, 2, 3], [1e308], {"nodes": [0]}, {"nodes": []}, {"from_k": 1, "value": 40.0}, {"prices": [1.0] * 6},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of everything in a document."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


@st.composite
def forgeries(draw: st.DrawFn, originals: Sequence[Document], settle: Callable[[Document], None]) -> Document:
    """A true file with one to three things replaced, scaled, exchanged, doubled or left out; then perhaps settled."""
    original = draw(st.sampled_from(originals))
    forged = copy.deepcopy(original)
    for _ in range(draw(st.integers(1, 3))):
        *parents, last = draw(st.sampled_from(list(places(original))))
        place: Any = forged
        try:
            for key in parents:
                place = place[key]
            old = place[last]
        except (KeyError, IndexError, TypeError):
            continue  # gone with an earlier one
        if not isinstance(place, dict | list):
            continue  # now a text
        change = draw(st.sampled_from(["replace", "replace", "scale", "drop", "double", "exchange"]))
        if change == "drop":
            del place[last]
        elif change == "double" and isinstance(place, list):
            place.append(copy.deepcopy(old))
        elif change == "scale" and isinstance(old, int | float) and not isinstance(old, bool):
            factor = draw(st.sampled_from([1 - 1e-6, 1 + 1e-6, 0.999, 1.001, 2, 0.5, 1e6, 1e-6]))
            with contextlib.suppress(OverflowError):
                place[last] = old * factor
        elif change == "exchange" and isinstance(place, list):
            other = draw(st.integers(0, len(place) - 1))
            place[last], place[other] = place[other], old
        else:
            place[last] = copy.deepcopy(draw(st.sampled_from(NASTY)))
    if draw(st.booleans()):
        with contextlib.suppress(LookupError, TypeError, AttributeError, ValueError, ArithmeticError):
            settle(forged)  # unless it is too broken to make the rest fit
    return forged


def write(folder: Path, document: Document) -> str:
    """The file as a stranger writes it; Python's own writer takes what ours refuses."""
    (folder / "c.json").write_text(json.dumps(document))
    return str(folder / "c.json")
