"""``mtpp place`` and what is no question, no policy or no placement: one line that names it, and nothing is lost."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from command_line import assert_misuse, columns, graph_file, mtpp

from heuristics.placement.placeto import Checkpoint
from instances import ComputationGraph
from instances.graph.graph import save_graph
from instances.machines import Machines
from instances.placement.placement import OrderedPlacement, placement_document
from instances.placement.problem import PlacementInstance


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def saved(name: str, devices: int = 2, factor: float = 1.0) -> None:
    """Write a network with its weights times `factor`."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from heuristics.placement.placeto import network

    made = network.capture(network.create(0, devices=devices, width=4, rounds=1))
    with np.errstate(all="ignore"):
        weights = {key: weight * np.float32(factor) for key, weight in made.weights.items()}
    Checkpoint(made.options, weights).save(name)


def test_families_need_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    """Five thousand digits were an internal fault."""
    seeds = ("", "-1", "1.5", "x", "9" * 19, "9" * 5000)
    assert_misuse(capsys, {f"place nmt-{seed} -k 2": "'nmt-' needs a seed" for seed in seeds})
    assert_misuse(capsys, {f"place {name} -k 2": "'nmt-' needs a seed" for name in ("nmt", "nmt7")})
    assert_misuse(capsys, {"place lstm-1 -k 2": "lstm-1: there is no such file or architecture"})


def test_a_file_may_begin_like_a_family(capsys: pytest.CaptureFixture[str]) -> None:
    graph_file(Path())
    Path("graph.json").rename("nmt-small.json")
    assert mtpp("place nmt-small.json -k 2 --bandwidth 1 --method greedy") == 0
    assert columns(capsys.readouterr().out)["n"] == "3"


def test_policies_that_cannot_be_used_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    saved("good.npz")
    saved("nan.npz", factor=np.nan)
    Path("cut.npz").write_bytes(Path("good.npz").read_bytes()[:3000])
    Path("text.npz").write_text("no policy")
    ask = "place ptb-0 -k 2 --method placeto --policy"
    wrong = {
        f"{ask} missing.npz": "no such file",
        f"{ask} nan.npz": "not finite",
        f"{ask} cut.npz": "no checkpoint of a policy, or it is damaged",
        f"{ask} text.npz": "no checkpoint of a policy, or it is damaged",
        "place ptb-0 -k 2 --policy good.npz": "which the method ordered does not use",
    }
    assert_misuse(capsys, wrong)


def test_a_poisoned_policy_still_gives_a_placement(capsys: pytest.CaptureFixture[str]) -> None:
    """Its logits overflow, which nobody need hear of: what it says is simulated, and no worse than one device."""
    saved("huge.npz", factor=1e38)
    assert mtpp("place ptb-0 -k 2 --method placeto --policy huge.npz") == 0
    said = capsys.readouterr()
    assert float(columns(said.out)["of one device"]) <= 1
    assert "Warning" not in said.err


def test_the_published_network_places_from_a_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    saved("three.npz", devices=3)
    assert mtpp("place ptb-0 -k 3 --method placeto --policy three.npz") == 0
    capsys.readouterr()
    assert_misuse(capsys, {"place ptb-0 -k 2 --method placeto --policy three.npz": "places on 3 devices, not on 2"})


def test_crossed_sequences_name_what_waits_first(capsys: pytest.CaptureFixture[str]) -> None:
    graph = ComputationGraph.from_edges([(0, 1), (2, 3)], [1.0] * 4, [1.0] * 4, names=["a", "b", "c", "d"])
    placement = OrderedPlacement(
        PlacementInstance(graph, Machines.alike(2, 1.0)), [0, 1, 1, 0], [[0, 3], [2, 1]], [[(0, 1)], [(2, 0)]]
    )
    save_graph(graph, "graph.json")
    assert mtpp("place graph.json -k 2 --bandwidth 1 --method ordered --time-limit 0.1 --out stated.json") == 0
    shown = placement_document(placement)
    stated = json.loads(Path("stated.json").read_text())
    stated["answer"] |= {name: shown[name] for name in ("device", "nodes", "bus_order")}
    stated["answer"]["device_order"] = [[3, 0], [1, 2]]
    Path("crossed.json").write_text(json.dumps(stated))
    capsys.readouterr()
    assert mtpp("verify crossed.json") == 1
    assert "node 3 (d), next on device 0, waits for ever" in capsys.readouterr().err


def test_a_checkpoint_that_swells_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights.npy", bytes(2**27))
    assert_misuse(capsys, {"place ptb-0 -k 2 --method placeto --policy bomb.npz": "damaged"})
