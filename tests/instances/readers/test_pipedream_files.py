"""PipeDream's profiles: units, outputs of lists, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from profile_files import PIPEDREAM, assert_edit_refused, edits, write

from instances import load_graph
from instances.readers.profiles import read_pipedream


def test_pipedream_times_are_milliseconds_and_items_are_tensors(tmp_path: Path) -> None:
    """``__getitem__(i)`` reads output i of the list, everybody else reads all; one size is one tensor."""
    graph = load_graph(write(tmp_path / "net.graph.txt", PIPEDREAM))
    assert (graph.name, graph.time_unit, graph.n) == ("net", "s", 5)
    assert graph.names == ("node1 Input0", "node2 LSTM", "node3 __getitem__", "node4 __getitem__", "node5 Add")
    np.testing.assert_allclose(graph.work, [0, 0.0035, 0, 0, 0.001])
    assert graph.param_bytes.tolist() == [0, 9, 0, 0, 0]
    assert graph.tensors.bytes.tolist() == [0, 60, 20, 10, 60, 20, 7]
    edges = list(zip(graph.edge_tensor.tolist(), graph.edges[:, 1].tolist(), strict=True))
    assert edges == [(0, 1), (0, 3), (1, 2), (1, 4), (2, 3), (2, 4), (3, 4)]


def test_pipedream_counts_the_backward_pass_when_asked(tmp_path: Path) -> None:
    """Both times, and a gradient for each activation."""
    path = write(tmp_path / "net.graph.txt", PIPEDREAM)
    graph = read_pipedream(path, training=True)
    np.testing.assert_allclose(graph.work, [0, 0.0085, 0, 0, 0.001])
    assert graph.tensors.bytes.tolist() == [0, 120, 40, 20, 120, 40, 14]
    assert graph.edges.tolist() == read_pipedream(path).edges.tolist()


@edits(
    ("node3 -- __", "node2 -- __", ", line 3: node 'node2' is given twice"),
    ("\tnode2 -- node3", "\tnode2 -- node9", ", line 7: there is no node 'node9'."),
    ("\tnode2 -- node3", "\tnode2 node3", ", line 7: expected 'id -- description"),
    ("\tnode2 -- node3", "node2 -- node3", ", line 7: expected 'id -- description"),
    ("forward_compute_time=3.5", "forward_compute_time=fast", ", line 2: forward_compute_time is 'fast'"),
    ("forward_compute_time=3.5", "forward_compute_time=nan", ", line 2: forward_compute_time is 'nan'"),
    ("forward_compute_time=3.5", "forward_compute_time=[1; 2]", ", line 2: forward_compute_time is a list"),
    ("forward_compute_time=3.5", "forward_compute_time=-3.5", ", line 2: forward_compute_time is '-3.5'"),
    ("[60; 20; 10]", "[60; 20; ten]", ", line 2: activation_size is 'ten'"),
    ("[60; 20; 10]", "[60; 20", ", line 2: activation_size is '[60; 20'"),
    (", parameter_size=9", "", ", line 2: missing field 'parameter_size'."),
    ("parameter_size=9", "parametersize=9", ", line 2: field 'parametersize' is unknown; known fields are"),
    (
        "backward_compute_time=5",
        "forward_compute_time=5",
        ", line 2: field 'forward_compute_time' is given twice",
    ),
    ("\tnode1 -- node4", "\tnode3 -- node1", ": The edges contain a cycle: 0 (node1 Input0) -> 1 (node2 LSTM)"),
)
def test_a_bad_pipedream_file_is_refused_by_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert_edit_refused(load_graph, tmp_path / "net.graph.txt", PIPEDREAM, old, new, message)


def test_all_published_pipedream_profiles_load(data: Path) -> None:
    sizes = {
        path.name.split(".")[0]: load_graph(path, input_work="keep").n
        for path in (data / "pipedream").glob("*.graph.txt")
    }
    assert sizes == {
        "densenet121": 429,
        "gnmt": 48,
        "nasnetamobile": 921,
        "resnet50": 177,
        "squeezenet1_0": 68,
        "vgg16": 41,
    }
