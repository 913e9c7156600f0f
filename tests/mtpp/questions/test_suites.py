"""Questions of suites and folders: their bandwidths, their numbers of blocks, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mtpp
from instances import ComputationGraph, InputError, save_graph
from instances.errors import InputWarning
from instances.machines import Kind, Machines
from mtpp.questions.suites import load_targets
from mtpp.text import tables

WORDS: Any = {"bandwidth": None, "memory": None, "activation_buffer": None, "fit": False}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, work in (("a", 1.0), ("b", 2.0)):
        save_graph(ComputationGraph.from_edges([(0, 1)], [work, work], [8.0, 0.0]), tmp_path / f"{name}.json")
    return tmp_path


def test_a_folder_takes_the_bandwidth_of_the_words(folder: Path) -> None:
    found = load_targets([str(folder), "regal-style:4"], "2,3", WORDS)
    assert [(instance.name, instance.k) for instance in found[:4]] == [("a", 2), ("a", 3), ("b", 2), ("b", 3)]
    assert [instance.platform.bandwidth for instance in found[:5]] == [25e9] * 4 + [1.0]
    assert len(found) == 4 + 8
    slow = load_targets([str(folder)], 2, WORDS | {"bandwidth": "8"})
    assert {instance.platform.bandwidth for instance in slow} == {8.0}


def test_settings_of_the_folder_choose_and_refuse(folder: Path) -> None:
    (folder / "suite.toml").write_text("k = [3, 4]\nbandwidth = 2e9\n")
    assert [instance.k for instance in load_targets([str(folder)], "2,3", WORDS)] == [3, 3]
    with pytest.raises(InputError, match=r"^k: .* asks for k = 3, 4 alone"):
        load_targets([str(folder)], 2, WORDS)
    with pytest.raises(InputError, match="has its own bandwidths"):
        load_targets([str(folder)], 3, WORDS | {"bandwidth": "8"})


def test_devices_are_those_of_all_graphs(folder: Path) -> None:
    kinds = Machines((Kind("fast", 1, speed=4.0), Kind("slow", 1, speed=2.0)))
    questions = load_targets([str(folder), "gpt2"], 2, WORDS | {"devices": kinds})
    assert [(asked.name, asked.family, len(asked.machines.kinds)) for asked in questions] == [
        ("a", "a", 2),
        ("b", "b", 2),
        ("gpt2", "gpt2", 2),
    ]
    assert questions[1].works is not None
    assert questions[1].works.tolist() == [[0.5, 0.5], [1.0, 1.0]]
    with pytest.raises(InputError, match=r"kind A100: only what has no times of its own .* give its speed"):
        load_targets([str(folder)], 2, WORDS | {"devices": "1xA100,1xL4"})


def test_one_broken_file_costs_its_graph(folder: Path) -> None:
    (folder / "broken.dot").write_text("digraph {")
    left_out: list[str] = []
    with pytest.warns(InputWarning, match=r"broken\.dot.*left out"):
        assert len(load_targets([str(folder)], 2, WORDS, left_out)) == 2
    assert len(left_out) == 1
    with pytest.warns(InputWarning, match="left out"):
        assert mtpp.compare(folder, 2, "simple")["graph"].tolist() == ["a", "b"]


def test_long_work_says_how_much_is_left(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "PLAIN_SECONDS", 0.0)
    load_targets([str(folder)], 2, WORDS)
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in said] == [f"1 of 2 graphs of {folder}", f"2 of 2 graphs of {folder}"]
