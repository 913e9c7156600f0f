"""Reading the workloads that were published with Piper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from profile_files import assert_refused, write

from instances import InputError
from instances.readers.profiles import read_piper, recognises_piper


def way(name: str, seconds: Any, parameters: Any = 8.0) -> dict[str, Any]:
    return {"id": name, "timePerSample": seconds, "parameterSize": parameters, "memoryUsageA": 1.0, "syncTimeFw": {}}


def node(id_: Any, seconds: float, **changes: Any) -> dict[str, Any]:
    ways = {"1": [way("vanilla", seconds), way("activation recomp", 2 * seconds)], "2": [way("vanilla", seconds / 2)]}
    return {"id": id_, "name": "layer", "TMPCs": ways, **changes}


def edge(source: Any, target: Any, size: Any) -> dict[str, Any]:
    return {"sourceId": source, "destId": target, "communicationCost": size}


WORKLOAD: dict[str, Any] = {
    "maxDevices": 8,
    "bandwidth": 25e9,
    "nodes": [node(4, 0.25), node(2, 0.5), node(9, 1.0, name="loss")],
    "edges": [edge(4, 2, 100.0), edge(4, 9, 100.0), edge(2, 9, 30.0)],
}


def test_times_are_seconds_and_a_transfer_counts_both_ways(tmp_path: Path) -> None:
    graph = read_piper(write(tmp_path / "bert.json", WORKLOAD))
    assert (graph.name, graph.time_unit, graph.names) == ("bert", "s", ("4 layer", "2 layer", "9 loss"))
    assert graph.work.tolist() == [0.25, 0.5, 1.0]
    assert graph.param_bytes.tolist() == [8, 8, 8]
    assert graph.tensors.bytes.tolist() == [200, 60]
    assert graph.edges.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert graph.source.endswith(", times in s")


def test_other_ways_to_run_a_node_are_chosen_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "bert.json", WORKLOAD)
    assert read_piper(path, configuration="activation recomp").work.tolist() == [0.5, 1.0, 2.0]
    assert read_piper(path, degree=2).work.tolist() == [0.125, 0.25, 0.5]
    with pytest.raises(InputError, match=r"nodes\[0\]\.TMPCs\.2: there is no configuration 'fast'; .* vanilla\.$"):
        read_piper(path, degree=2, configuration="fast")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": [node(4, 1.0), node(4, 1.0)]}, ", nodes[1]: id 4 is taken by nodes[0]."),
        ({"nodes": [node("4", 1.0)]}, ', nodes[0].id: expected a whole number, found "4".'),
        ({"nodes": [node(4, -1.0)]}, ", nodes[0].TMPCs.1[0].timePerSample: the number is -1.0; it must be 0 or more."),
        (
            {"nodes": [node(4, 1.0, TMPCs={})]},
            ", nodes[0].TMPCs: there is no tensor parallelism of degree 1;",
        ),
        ({"nodes": [node(4, 1.0, TMPCs={"1": []})]}, ", nodes[0].TMPCs.1: there is no configuration 'vanilla'"),
        ({"nodes": [node(4, 1.0, TMPCs=[1])]}, ", nodes[0].TMPCs: expected an object {…}, found [1]."),
        ({"edges": [edge(4, 3, 1.0)]}, ", edges[0].destId: no node has id 3."),
        ({"edges": [edge(4, 2, "1")]}, ', edges[0].communicationCost: expected a number, found "1".'),
        ({"edges": [edge(4, 2, 1e308)]}, ": Node 0 (4 layer): output_bytes is inf"),
        ({"edges": [edge(4, 2, 1.0), edge(2, 4, 1.0)]}, ": The edges contain a cycle"),
        ({"nodes": []}, ", edges[0].sourceId: no node has id 4."),
        ({"nodes": [], "edges": []}, ": The graph has no node"),
    ],
)
def test_a_bad_file_is_refused_by_place(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert_refused(read_piper, write(tmp_path / "net.json", WORKLOAD | changes), message)


def test_the_format_is_recognised_by_content() -> None:
    assert recognises_piper(json.dumps(WORKLOAD))
    assert not recognises_piper('{"format": "mtpp-graph/1", "name": "\\"TMPCs\\""}')
    assert not recognises_piper('{"nodes": []}')
