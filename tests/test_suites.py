"""Suites are frozen: names, sizes and bandwidths do not move."""

from __future__ import annotations

from pathlib import Path

import pytest

from instances import InputError
from instances.architectures import ARCHITECTURES
from instances.suites import DATA_VARIABLE, SUITES, find_suite
from instances.synthetic import FAMILIES


def test_the_suites_and_their_sizes() -> None:
    sizes = {name: len(suite.entries) for name, suite in SUITES.items()}
    assert sizes == {"quick": 6, "regal-style": 24, "real": len(ARCHITECTURES), "profiles": 9}
    assert all(name == suite.name for name, suite in SUITES.items())


@pytest.mark.parametrize("name", SUITES)
def test_names_are_unique(name: str) -> None:
    names = [entry.name for entry in SUITES[name].entries]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["quick", "regal-style", "real"])
def test_suites_build_the_same_instances_twice(name: str) -> None:
    first, second = SUITES[name].instances(2), SUITES[name].instances(2)
    assert [instance.key for instance in first] == [instance.key for instance in second]
    assert len({instance.key for instance in first}) == len(first)
    assert [instance.name for instance in first] == [entry.name for entry in SUITES[name].entries]
    assert all(instance.k == 2 for instance in first)


def test_quick_holds_networks_and_random_graphs() -> None:
    """At least three networks of 100 nodes or more, and two random graphs."""
    instances = SUITES["quick"].instances(4)
    assert sum(instance.graph.n >= 100 and instance.graph.time_unit == "s" for instance in instances) >= 3
    assert sum(instance.platform.bandwidth == 1 for instance in instances) >= 2


def test_regal_style_has_each_family_in_six_sizes() -> None:
    instances = SUITES["regal-style"].instances(2)
    for family in FAMILIES:
        sizes = [instance.graph.n for instance in instances if instance.name.startswith(family)]
        assert sizes == [50, 80, 110, 140, 170, 200]
    assert {instance.platform.bandwidth for instance in instances} == {1}


def test_real_freezes_batch_and_sequence() -> None:
    for instance in SUITES["real"].instances(2):
        dims = instance.graph.attributes["dims"]
        assert dims["batch"] == 8
        assert dims.get("sequence", 128) == 128
        assert instance.platform.bandwidth == 25e9


def test_profiles_need_their_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    with pytest.raises(InputError, match=f"{DATA_VARIABLE} names; set it"):
        SUITES["profiles"].instances(2)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match="no file"):
        SUITES["profiles"].instances(2)


def test_profiles_are_in_seconds(data: Path) -> None:
    """Inference of these networks takes from a millisecond to a second."""
    instances = SUITES["profiles"].instances(2)
    assert len(instances) == 9
    for instance in instances:
        assert instance.graph.time_unit == "s"
        assert 1e-3 < instance.graph.work.sum() < 1
        assert instance.platform.bandwidth == 25e9


def test_an_unknown_suite_lists_the_names() -> None:
    with pytest.raises(InputError, match=r"did you mean quick.*quick, regal-style, real, profiles"):
        find_suite("quik")
    assert find_suite("real") is SUITES["real"]
