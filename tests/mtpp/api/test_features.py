"""Measures of graphs against what brute force counts."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import networkx as nx
import pandas as pd
import pytest
from command_line import mtpp as run_verb
from transformers_configurations import LLAMA, written
from weight_files import gguf, tensors_of_gguf

import mtpp
from instances import InputError, InputWarning
from instances.random_graphs import regal_style


def counted(graph: mtpp.ComputationGraph) -> tuple[int, int, int]:
    """Nodes of the longest path, of the largest antichain, and the number of ideals, by trying all sets."""
    edges = graph.edges.tolist()
    plain = nx.DiGraph(edges)
    plain.add_nodes_from(range(graph.n))
    reach = {v: nx.descendants(plain, v) for v in plain}
    sets = [s for size in range(graph.n + 1) for s in itertools.combinations(range(graph.n), size)]
    width = max(len(s) for s in sets if not any(b in reach[a] for a in s for b in s))
    ideals = sum(all(u in s for u, v in edges if v in s) for s in map(set, sets))
    return nx.dag_longest_path_length(plain, default_weight=1) + 1, width, ideals


@pytest.mark.parametrize("seed", range(12))
def test_structure_is_that_of_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    n = rng.randint(1, 9)
    edges = [(u, v) for u in range(n) for v in range(u + 1, n) if rng.random() < 0.3]
    graph = mtpp.ComputationGraph.from_edges(edges, work=[rng.randint(0, 3) for _ in range(n)])
    (row,) = mtpp.features(graph, bandwidth=1).to_dict("records")
    assert (row["depth"], row["width"], row["ideals"]) == counted(graph)
    assert pd.isna(row["heaviest_over_share"])


def test_a_count_ends_at_its_limit() -> None:
    graph = mtpp.ComputationGraph.from_edges([], work=[1] * 10)
    for limit, ideals in ((1023, None), (1024, 1024)):
        (row,) = mtpp.features(graph, most_ideals=limit, bandwidth=1).to_dict("records")
        assert (row["ideals"] if ideals else None) == ideals
    assert mtpp.features(regal_style("erdos-renyi", 150, 0), bandwidth=1)["ideals"].isna().all()


def test_rows_name_graphs_and_measure_shares() -> None:
    edges = [(0, 1), (0, 2), (1, 3), (2, 3)]
    graph = mtpp.ComputationGraph.from_edges(edges, [1, 2, 2, 3], [4, 1, 1, 0], [1, 2, 3, 4])
    frame = mtpp.features({"one": graph, "two": graph}, k=[2, 4], bandwidth=2, memory="5B")
    assert frame[["graph", "k"]].values.tolist() == [["one", 2], ["one", 4], ["two", 2], ["two", 4]]
    assert frame["heaviest_over_share"].tolist() == [3 / 4, 3 / 2] * 2
    assert frame["params_over_memory"].tolist() == [1.0, 0.5] * 2
    assert frame["communication_over_work"].tolist() == pytest.approx([3 / 8] * 4)
    equal = mtpp.ComputationGraph.from_edges(edges, [1, 2, 2, 3], [4, 1, 1, 0])
    assert mtpp.features(equal, bandwidth=1)["families"].tolist() == [1]


def test_the_verb_prints_the_frame(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_verb("features squeezenet gnmt -k 4 --json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["graph"] for row in rows] == ["squeezenet", "gnmt"]
    assert rows[0]["params_over_memory"] is None
    assert run_verb("features squeezenet -k 4") == 0
    assert "heaviest over share" in capsys.readouterr().out


def test_weights_beside_a_configuration_are_chosen(tmp_path: Path) -> None:
    """In its folder too, which is one model and no suite; without a choice among several it is refused."""
    files = {"q8.gguf": gguf(tensors_of_gguf(8)), "q4.gguf": gguf(tensors_of_gguf(2))}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    path = written(tmp_path, LLAMA)
    found = {}
    for graph, name in itertools.product((path, tmp_path), files):
        (row,) = mtpp.features(graph, 2, memory="1kB", weights=name).to_dict("records")
        found[graph, name] = row["params_over_memory"]
    assert found[path, "q8.gguf"] == found[tmp_path, "q8.gguf"] > found[path, "q4.gguf"] == found[tmp_path, "q4.gguf"]
    with pytest.raises(InputError, match=r"choose one, as in weights='q4\.gguf'"):
        mtpp.features(tmp_path, 2)
    assert run_verb(f"features {tmp_path} -k 2 --weights q8.gguf --quiet") == 0
    frame = mtpp.compare(tmp_path, 2, "kahn", weights="q4.gguf")
    assert frame["n"].tolist() == [36]


def test_dimensions_of_networks_are_given_as_a_refusal_says() -> None:
    frame = mtpp.features(["bert-base", "gnmt"], 2, dims={"batch": 4}, memory="8GB")
    assert (frame["params_over_memory"] > 0).all()
    assert run_verb("features bert-base -k 2 --dim batch=4 --quiet") == 0
    with pytest.raises(InputError, match="dims: the graphs of quick have their own sizes; leave this option out"):
        mtpp.features("quick", 2, dims={"batch": 4})


def test_bug_models_in_a_folder_took_no_dimensions_and_weights(tmp_path: Path) -> None:
    """They were refused although the message about a file proposed them."""
    (tmp_path / "q8.gguf").write_bytes(gguf(tensors_of_gguf(8)))
    (tmp_path / "q4.gguf").write_bytes(gguf(tensors_of_gguf(2)))
    (tmp_path / "suite.toml").write_text("bandwidth = 1e9\n")
    written(tmp_path, LLAMA)
    with pytest.warns(InputWarning, match="This file is left out"):
        (row,) = mtpp.features(tmp_path, 2, memory="1kB", weights="q8.gguf").to_dict("records")
    with pytest.warns(InputWarning, match="This file is left out"):
        (other,) = mtpp.features(tmp_path, 2, memory="1kB", weights="q4.gguf", dims={"batch": 4}).to_dict("records")
    assert row["graph"] == other["graph"] == "config"
    assert row["params_over_memory"] > other["params_over_memory"]


@pytest.mark.parametrize("most", [0, 2.5, True])
def test_a_wrong_limit_is_refused(most: object) -> None:
    with pytest.raises(InputError, match="most_ideals"):
        mtpp.features("squeezenet", most_ideals=most)
