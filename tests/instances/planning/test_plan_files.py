"""Chains and clusters from files, networks and the settings of the paper."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planning_oracles import random_instance

from instances import InputError, load_graph
from instances.devices import cluster_document
from instances.json_files import read_json, write_json
from instances.planning import Cluster, TrainingInstance
from instances.planning.chains import SWEEPS, TESTBEDS, TRAINED_MODELS, collapse, random_cluster, simulation
from instances.planning.plan_files import load_chain, read_chain, read_cluster
from instances.planning.problem import chain_document
from instances.planning.stated import plan_from_document
from mtpp.certifying.methods import certify_plan
from mtpp.problems.checking import certificate_document, verify
from mtpp.questions.files import cut_of_plan


def test_files_give_back_what_was_saved(tmp_path: Path) -> None:
    """Bit by bit, for chains and clusters."""
    instance = random_instance(np.random.default_rng(0), 4, 3, 2)
    write_json(tmp_path / "chain.json", chain_document(instance.chain))
    write_json(tmp_path / "cluster.json", cluster_document(instance.cluster))
    again = TrainingInstance(read_chain(tmp_path / "chain.json"), read_cluster(tmp_path / "cluster.json"), 2)
    assert again.key == instance.key
    assert load_chain(tmp_path / "chain.json").names == instance.chain.names


@pytest.mark.parametrize("options", [{}, {"full_duplex": True, "memory": 1e6}, {"replica_share": [1.0, 0.6, 0.4]}])
def test_a_certificate_holds_a_plan(options: dict[str, Any], tmp_path: Path) -> None:
    """With its question it still reads as an answer, and as a record that says what was known."""
    instance, path = random_instance(np.random.default_rng(0), 4, 3, 2, **options), tmp_path / "plan.json"
    answer = certify_plan(instance, np.random.default_rng(0), "pipedream")
    write_json(path, certificate_document([answer]))
    assert cut_of_plan(read_json(path))[0].devices == answer.answer.plan.devices
    stated = plan_from_document(read_json(path))
    assert stated.instance.key == instance.key
    assert (stated.cost, stated.bound, stated.ratio) == (answer.cost, answer.bound.value, answer.ratio)
    verdict = verify(read_json(path))
    assert verdict.faults == ()
    assert float(verdict.cost) == pytest.approx(answer.cost, rel=1e-12)
    aside = certify_plan(instance, np.random.default_rng(0), "hetpipe-stage")
    if aside.answer.plan is None:
        with pytest.raises(InputError, match="side by side"):
            certificate_document([aside])


def test_clusters_are_read_from_tables_and_from_servers(tmp_path: Path) -> None:
    """A CSV table, a JSON table, and JSON with one bandwidth within and between servers, are the same cluster."""
    cluster = Cluster.of_servers([2, 1], 4.0, 2.0)
    (tmp_path / "table.csv").write_text("0,4,2\n4,0,2\n2,2,0\n")
    assert (read_cluster(tmp_path / "table.csv").bandwidth == cluster.bandwidth).all()
    short = {"format": "mtpp-cluster/1", "servers": [2, 1], "within": [4, 9], "between": 2}
    (tmp_path / "short.json").write_text(json.dumps(short))
    assert read_cluster(tmp_path / "short.json").content_hash == cluster.content_hash


def refusal(read: Callable[[Path], object], path: Path, text: str) -> str:
    """Write a file and read it: one line that names it."""
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0,1\n1\n", "line 2: 1 numbers, but 2 before"),
        ("0,fast\n1,0\n", "line 1: expected numbers"),
        ("0,1\n", "shape"),
        ('{"format": "mtpp-cluster/1", "servers": [2]}', "either 'bandwidth', or 'within'"),
        ('{"format": "mtpp-cluster/1", "servers": [2], "within": "fast"}', "within: expected a number"),
        ('{"format": "mtpp-cluster/1", "servers": [2], "within": [1, 2]}', "There are 1 servers"),
        ('{"format": "mtpp-chain/1", "servers": [2]}', "this is 'mtpp-chain/1'; expected 'mtpp-cluster/1'"),
        ('{"format": "mtpp-cluster/1", "bandwidth": [[0, 1], [1]]}', "not a table"),
    ],
)
def test_broken_clusters_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    assert re.search(complaint, refusal(read_cluster, tmp_path / "cluster", text))


@pytest.mark.parametrize(
    ("layers", "complaint"),
    [
        ("[]", "no layer"),
        ('[{"forward": 1}]', "missing field 'backward'"),
        ('[{"forward": 1, "backward": 1, "speed": 1}]', "unknown field 'speed'"),
        ('[{"forward": 1, "backward": -1}]', "backward is -1"),
        ('[{"forward": 1, "backward": 1, "forward_bytes": 3}]', "no layer after the last"),
    ],
)
def test_broken_chains_are_refused(tmp_path: Path, layers: str, complaint: str) -> None:
    path = tmp_path / "chain.json"
    message = refusal(load_chain, path, f'{{"format": "mtpp-chain/1", "layers": {layers}}}')
    assert re.search(complaint, message)
    assert message.startswith(str(path))


@pytest.mark.parametrize("name", ["bert-base", "resnet50", "inception-v3", "transformer-base"])
def test_architectures_become_chains(name: str) -> None:
    """Of tens of layers, with the work and parameters of the graph."""
    graph = load_graph(name)
    chain = collapse(graph)
    assert 20 <= chain.n <= 120
    assert chain.forward.sum() == pytest.approx(graph.work.sum())
    assert chain.param_bytes.sum() >= graph.parameter_total * (1 - 1e-12)
    assert (chain.forward + chain.backward > 0).all()


def test_profiles_become_chains(data: Path) -> None:
    """With the profile's own backward times, which the file gives in ms."""
    path = data / "pipedream" / "vgg16.graph.txt"
    chain = load_chain(path, input_work="keep")
    times = re.findall(r"backward_compute_time=([\d.]+)", path.read_text())
    assert chain.backward.sum() == pytest.approx(sum(map(float, times)) / 1000)
    assert chain.forward.sum() == pytest.approx(load_graph(path, input_work="keep").work.sum())
    assert chain.n > 30


def test_the_settings_of_the_paper() -> None:
    """27 layers, 340 million parameters, 32 devices with bandwidths in their ranges; sweeps and testbeds exist."""
    instance = simulation(5)
    assert (instance.chain.n, instance.cluster.n, instance.microbatches) == (27, 32, 32)
    assert 330e6 < instance.chain.param_bytes.sum() / 4 < 345e6
    same = instance.cluster.server[:, None] == instance.cluster.server
    gbps = instance.cluster.bandwidth / 1.25e8
    assert 32 <= gbps[~same].min() <= gbps[~same].max() <= 40
    within = np.array([gbps[4 * h, 4 * h + 1] for h in range(8)])
    assert ((within[:3] >= 96) & (within[:3] <= 128)).all()
    assert ((within[3:] >= 160) & (within[3:] <= 200)).all()
    assert (gbps == gbps.T).all()
    for parameter, values in SWEEPS.values():
        for value in values:
            assert simulation(0, **{parameter: value}).cluster.n == 32  # type: ignore[arg-type]
    assert {name: build().n for name, build in TESTBEDS.items()} == {"1080ti-8": 8, "v100-4": 4}
    assert random_cluster(np.random.default_rng(1)).content_hash != instance.cluster.content_hash


def test_the_models_of_table_ii() -> None:
    """Seven models; a microbatch of BERT-48 is half as large on the second testbed."""
    assert len(TRAINED_MODELS) == 7
    vgg = TRAINED_MODELS["vgg19"].instance("v100-4")
    assert vgg.microbatches == 8
    assert vgg.chain.param_bytes.sum() / 4 == pytest.approx(144e6, rel=0.01)
    small = TRAINED_MODELS["transformer-base"]
    assert small.instance("v100-4").chain.param_bytes.sum() == pytest.approx(4 * small.parameters, rel=1e-9)
    deep = TRAINED_MODELS["bert-48"].samples
    assert deep["1080ti-8"] == 2 * deep["v100-4"]
    with pytest.raises(InputError, match="testbed is 'a100'; "):
        TRAINED_MODELS["vgg19"].instance("a100")
