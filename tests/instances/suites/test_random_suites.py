"""Random suites of any length begin with the frozen one, and have as many graphs of each family."""

from __future__ import annotations

from collections import Counter

import pytest

from instances import InputError
from instances.random_graphs import GRAPH_MODELS
from instances.suites import SUITES, find_suite, is_suite


def names(word: str) -> list[str]:
    return [entry.name for entry in find_suite(word).entries]


def test_the_first_24_are_those_of_the_frozen_suite() -> None:
    frozen = [instance.key for instance in SUITES["regal-style"].instances(4)]
    assert [instance.key for instance in find_suite("regal-style:24").instances(4)] == frozen
    assert names("regal-style:1000")[:24] == names("regal-style:24") == names("regal-style")


@pytest.mark.parametrize("count", [4, 8, 24, 28, 1000])
def test_families_are_equally_many_and_sizes_spread(count: int) -> None:
    entries = find_suite(f"regal-style:{count}").entries
    assert len({entry.name for entry in entries}) == len(entries) == count
    assert set(Counter(entry.name.rsplit("-", 2)[0] for entry in entries).values()) == {count // 4}
    sizes = [int(entry.name.split("-")[-2]) for entry in entries]
    assert all(50 <= n <= 200 for n in sizes)
    if count == 1000:
        assert set(sizes) == set(range(50, 201))
    assert all(entry.family == entry.name for entry in entries)


def test_a_longer_list_goes_on_where_a_shorter_one_ends() -> None:
    assert names("regal-style:400")[:100] == names("regal-style:100")
    assert find_suite("regal-style:28").instances(2)[-1].graph.n == 50 + 93 * 7 % 151


def test_the_families_are_those_of_the_random_graphs() -> None:
    assert names("regal-style:4") == [f"{family}-50-1" for family in GRAPH_MODELS]


@pytest.mark.parametrize("count", ["", "0", "-4", "6", "1e3", "many", "100004", "9" * 5000, "٤"])
def test_other_numbers_are_refused(count: str) -> None:
    assert is_suite(f"regal-style:{count}")
    with pytest.raises(InputError, match=r"^regal-style:.*: N must be a multiple of 4, up to 100000") as refused:
        find_suite(f"regal-style:{count}")
    assert find_suite(str(refused.value).rpartition(" ")[2].removesuffix("."))
