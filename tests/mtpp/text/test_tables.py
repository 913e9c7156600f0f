"""Tables that fit a width, and numbers in the unit that fits."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from mtpp.text.numbers import Scale, bytes_in_words, time_in_words
from mtpp.text.tables import fitted, shortened

WORDS = st.text(st.characters(exclude_categories=()), max_size=70)


@given(
    rows=st.lists(st.tuples(WORDS, st.integers(0, 10**9).map(str), WORDS), min_size=1, max_size=4),
    width=st.integers(30, 200),
)
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, ...]], width: int) -> None:
    """Names of any characters lose their middle; numbers stay whole, and what has no room goes below."""
    text = fitted(["name", "number", "other"], rows, width, words={0, 2})
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert all(number in text for _, number, _ in rows)
    assert all(line.isprintable() for line in text.splitlines())


def test_what_fits_stays_as_it_is() -> None:
    rows = [["bert", "12"], ["a", "7"]]
    assert fitted(["name", "n"], rows, 80) == fitted(["name", "n"], rows, None) == "name   n\nbert  12\na      7"


def test_columns_without_room_go_below_with_the_first() -> None:
    rows = [["a", "1" * 20, "2" * 20], ["b", "3" * 20, "4" * 20]]
    upper, lower = fitted(["name", "x", "y"], rows, 30).split("\n\n")
    assert [line.split() for line in upper.splitlines()[1:]] == [["a", "1" * 20], ["b", "3" * 20]]
    assert [line.split() for line in lower.splitlines()[1:]] == [["a", "2" * 20], ["b", "4" * 20]]


def test_the_first_column_never_stands_alone() -> None:
    rows = [["a", "1" * 20], ["b", "2" * 20]]
    assert fitted(["name", "x"], rows, 10) == fitted(["name", "x"], rows, None)


@given(text=WORDS.filter(str.isprintable), width=st.integers(1, 80))
def test_a_shortened_text_keeps_its_ends(text: str, width: int) -> None:
    short = shortened(text, width)
    assert cell_len(short) <= width
    if cell_len(text) > width:
        head, tail = short.split("…")[0], short.split("…")[-1]
        assert text.startswith(head)
        assert text.endswith(tail)
    else:
        assert short == text


@given(value=st.floats(1e-12, 1e12))
def test_a_time_in_words_is_the_time(value: float) -> None:
    """Up to four digits, and in a unit that leaves at most four before the point."""
    number, unit = time_in_words(value, "ms").split()
    size = {"s": 1e3, "ms": 1.0, "µs": 1e-3, "ns": 1e-6}[unit]
    if not number.startswith("<"):
        assert float(number) * size == pytest.approx(value, rel=1e-3, abs=1e-9 * size)


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [(0.0, "us", "0 µs"), (1.5, "ticks", "1.500 ticks"), (2e-5, "ticks", "0.00002000 ticks"), (math.inf, "s", "∞ s")],
)
def test_other_times(value: float, unit: str, words: str) -> None:
    assert time_in_words(value, unit) == words


def test_sizes_are_decimal() -> None:
    sizes = map(bytes_in_words, (0, 12, 1e3, 2.5e6, 141e9, 3e15))
    assert list(sizes) == ["0 B", "12 B", "1.000 kB", "2.500 MB", "141.0 GB", "3000 TB"]


def test_what_is_rounded_away_is_not_zero() -> None:
    scale = Scale.of_bytes([5e6, 1])
    assert [scale.cell(x) for x in (5e6, 1, 0)] == ["5.000", "<0.001", "0"]
