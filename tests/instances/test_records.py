"""Records as members of JSON objects: what is written is read again, and all else is refused by its place."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray
from instances.json_files import parse_json
from instances.records import By, Floats, Ints, Limit, Named, read, written


class Link(NamedTuple):
    sender: Annotated[int | None, Named("from")]
    bytes: float
    exact: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    name: str
    order: Literal["free", "fixed"]
    links: tuple[Link, ...]
    counts: tuple[int, ...]
    sizes: tuple[float, ...]
    ends: tuple[str, str, float]
    layers: Mapping[str, tuple[int, ...]]
    memory: Limit
    rate: Annotated[FloatArray, Floats("T", "n")]
    kind: Annotated[IntArray, Ints("n")]
    window: Annotated[FloatArray, Floats("n")] | None = None
    label: Annotated[str, By(lambda value: value.text().lower(), str.upper)] = "none"

    def __post_init__(self) -> None:
        if self.name == "":
            raise InputError("A question needs a name.")


TEXTS = st.text(st.characters(codec="utf-8"), max_size=3)
WHOLE = st.integers(1 - 2**63, 2**63 - 1)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
LINKS = st.builds(Link, st.none() | WHOLE, NUMBERS, st.booleans())


@st.composite
def questions(draw: st.DrawFn) -> Question:
    T, n = draw(st.integers(1, 3)), draw(st.integers(0, 3))
    limits = NUMBERS | st.just(math.inf)
    return Question(
        name=draw(TEXTS.filter(bool)),
        order=draw(st.sampled_from(["free", "fixed"])),
        links=tuple(draw(st.lists(LINKS, max_size=3))),
        counts=tuple(draw(st.lists(WHOLE, max_size=3))),
        sizes=tuple(draw(st.lists(NUMBERS, max_size=3))),
        ends=draw(st.tuples(TEXTS, TEXTS, NUMBERS)),
        layers=draw(st.dictionaries(TEXTS, st.lists(WHOLE, max_size=2).map(tuple), max_size=2)),
        memory=draw(limits),
        rate=draw(arrays(np.float64, (T, n), elements=limits)),
        kind=draw(arrays(np.int64, n, elements=st.integers(-5, 5))),
        window=draw(st.none() | arrays(np.float64, n, elements=limits)),
        label=draw(st.sampled_from(["none", "a"])),
    )


def of_text(document: Any, **sizes: int) -> Question:
    return read(parse_json(json.dumps(document, allow_nan=False), "q.json"), Question, **sizes)


@given(question=questions())
def test_what_is_written_is_read_again(question: Question) -> None:
    again = of_text(written(question))
    for name, item in vars(question).items():
        other = getattr(again, name)
        assert type(other) is type(item)
        assert np.array_equal(other, item) if isinstance(item, np.ndarray) else other == item
    assert written(again) == written(question)


def test_what_is_as_by_default_is_not_written() -> None:
    assert written(Link(None, 2)) == {"from": None, "bytes": 2.0}
    assert written(Link(1, 2, exact=True)) == {"from": 1, "bytes": 2.0, "exact": True}
    assert type(written(Link(1, np.float64(2)))["bytes"]) is float


EXAMPLE: dict[str, Any] = {
    "name": "a",
    "order": "free",
    "links": [{"from": None, "bytes": 1.0}],
    "counts": [1],
    "sizes": [1.0, 2],
    "ends": ["a", "b", 1.0],
    "layers": {"a": [0]},
    "memory": None,
    "rate": [[1.0, None], [2, 3.0]],
    "kind": [0, 1],
}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a member too many": ({"x": 1}, "q.json: unknown field 'x'; known fields are"),
    "a wrong kind of member": ({"name": 1}, "q.json, name: expected a string, found 1."),
    "another choice": ({"order": "any"}, "q.json, order: expected one of 'free', 'fixed', found \"any\"."),
    "a choice of another kind": ({"order": ["free"]}, "q.json, order: expected one of"),
    "no list": ({"links": {}}, "q.json, links: expected a list […], found {}."),
    "no record": ({"links": [1]}, "q.json, links[0]: expected an object {…}, found 1."),
    "a part of a record": ({"links": [{"from": 1}]}, "q.json, links[0]: missing field 'bytes'."),
    "null": ({"links": [{"from": 1, "bytes": None}]}, "q.json, links[0].bytes: expected a number, found null."),
    "a name of Python": ({"links": [{"sender": 1, "bytes": 1}]}, "q.json, links[0]: missing field 'from'."),
    "no truth": ({"links": [{"from": 1, "bytes": 1, "exact": 1}]}, "links[0].exact: expected true or false."),
    "no whole number": ({"counts": [1, 2.5]}, "q.json, counts[1]: expected a whole number, found 2.5."),
    "a truth for a number": ({"counts": [True]}, "q.json, counts[0]: expected a whole number, found true."),
    "a large whole number": ({"counts": [2**63]}, "q.json, counts[0]: the whole number is too large."),
    "a large number": ({"sizes": [10**400]}, "q.json, sizes[0]: the number is too large; it must be finite."),
    "a row too short": ({"ends": ["a", "b"]}, "q.json, ends: there are 2 items; give 3."),
    "a wrong item of a row": ({"ends": ["a", "b", "c"]}, 'q.json, ends[2]: expected a number, found "c".'),
    "a wrong item of a mapping": ({"layers": {"a": 0}}, "q.json, layers.a: expected a list […], found 0."),
    "no array": ({"rate": 1}, "q.json, rate: expected a list […], found 1."),
    "an array too flat": ({"rate": [1, 2]}, "q.json, rate[0]: expected a list […], found 1."),
    "an array too deep": ({"kind": [[0], [1]]}, "q.json, kind[0]: expected a whole number, found [0]."),
    "an array of unequal rows": ({"rate": [[1, 2], [1]]}, "q.json, rate[1]: there are 1 items for n = 2."),
    "arrays of unequal sizes": ({"kind": [0, 1, 2]}, "q.json, kind: there are 3 items for n = 2."),
    "an array with a text": ({"rate": [[1, "2"], [1, 2]]}, 'q.json, rate[0][1]: expected a number, found "2".'),
    "null for a whole number": ({"kind": [0, None]}, "q.json, kind[1]: expected a whole number, found null."),
    "what the record refuses": ({"name": ""}, "q.json: A question needs a name."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_record_is_refused_by_its_place(name: str) -> None:
    change, words = REFUSED[name]
    of_text(EXAMPLE)
    with pytest.raises(InputError) as refusal:
        of_text(EXAMPLE | change)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_caller_may_know_the_sizes() -> None:
    assert of_text(EXAMPLE, T=2, n=2).rate.shape == (2, 2)
    assert of_text(EXAMPLE | {"rate": []}).rate.shape == (0, 0)
    with pytest.raises(InputError, match=r"q.json, rate: there are 2 items for T = 3\."):
        of_text(EXAMPLE, T=3)
