"""Piper's workloads as layers with all their degrees and what they recompute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import mtpp
from profile_files import assert_refused, write

from instances.planning.chains import configured_from_piper


def way(name: str, time: float, sent: float = 0.0, **changes: Any) -> dict[str, Any]:
    numbers = {"timePerSample": time, "parameterSize": 8.0, "memoryUsageA": 60.0, "memoryUsageB": 16.0}
    return {"id": name, **numbers, "syncTimeFw": {}, "syncTimeBw": {"9": sent}, **changes}


def node(id_: int, time: float) -> dict[str, Any]:
    again = way("activation recomp", 1.5 * time, memoryUsageA=6.0, memoryUsageB=66.0)
    return {
        "id": id_,
        "name": "layer",
        "TMPCs": {"1": [way("vanilla", time), again], "2": [way("vanilla", time / 2, 5.0)]},
    }


def edge(source: int, target: int, size: float) -> dict[str, Any]:
    return {"sourceId": source, "destId": target, "communicationCost": size}


def workload(*layers: int) -> dict[str, Any]:
    """A mask that all layers read, and layers in a row."""
    mask = {**node(0, 0.0), "name": "tensor"}
    edges = [edge(0, i, 2.0) for i in layers] + [edge(i, i + 1, 10.0) for i in layers[:-1]]
    return {"maxDevices": 8, "nodes": [mask, *(node(i, 0.75 * i) for i in layers)], "edges": edges}


def test_layers_have_all_degrees_and_ways(tmp_path: Path) -> None:
    chain = configured_from_piper(write(tmp_path / "net.json", workload(1, 2)))
    assert (chain.name, chain.dtype, [layer.name for layer in chain.layers]) == ("net", "fp32", ["1 layer", "2 layer"])
    plain, again, shared = chain.layers[0].configurations
    assert (plain.tp, plain.forward, plain.backward, plain.parameters) == (1, 0.25, 0.5, 4.0)  # the mask joins it
    assert (again.recompute, again.forward, again.backward, again.working_bytes) == ("full", 0.25, 0.875, 100.0)
    assert (plain.stored_bytes, again.stored_bytes, plain.output_bytes) == (120.0, 12.0, 12.0)
    assert (shared.tp, shared.forward, shared.output_bytes) == (2, 0.125, 22.0)  # two tensors are joined for the next
    assert chain.layers[1].configurations[0].output_bytes == 0.0


def test_times_may_be_in_milliseconds(tmp_path: Path) -> None:
    chain = configured_from_piper(write(tmp_path / "net.json", workload(1, 2)), "ms")
    assert chain.layers[1].configurations[0].forward == 0.5e-3


def change(*path: Any, to: Any) -> dict[str, Any]:
    document = workload(1, 2)
    place: Any = document["nodes"]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return document


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (change(1, "TMPCs", "2", to=[]), ", nodes[1].TMPCs.2: there is no configuration 'vanilla'."),
        (change(2, "TMPCs", to={"1": [way("vanilla", 1.0)]}), ", nodes[2].TMPCs: '"),
        (change(0, "TMPCs", "x", to=[]), ", nodes[0].TMPCs.x: a tensor degree is a whole number, 1 or more."),
        (
            change(0, "TMPCs", "1", 1, "id", to="fast"),
            ", nodes[0].TMPCs.1[1].id: this is 'fast'; give one of vanilla, activation",
        ),
        (change(0, "TMPCs", "2", 0, "memoryUsageA", to=-1.0), ", nodes[0].TMPCs.2[0].memoryUsageA: the number is -1.0"),
        (change(0, "TMPCs", "2", 0, "syncTimeBw", to=3), ", nodes[0].TMPCs.2[0].syncTimeBw: expected an object"),
    ],
)
def test_holes_are_one_line(document: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert_refused(configured_from_piper, write(tmp_path / "net.json", document), message)


def test_a_workload_is_planned_and_verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "net.json", workload(*range(1, 8)))
    command = "train net.json --cluster 1x4 --bandwidth 1GB/s --global-batch 4"
    assert mtpp(f"{command} --time-unit ms --fix pp=2,v=2 --out plan.json") == 0
    assert "4 + 4 + 8 bytes a parameter" in capsys.readouterr().out
    assert mtpp("verify plan.json") == 0
    assert "turns-grid" in capsys.readouterr().out  # though no two layers are equal
    assert mtpp(f"{command} --tp 1") == 2
    assert "it has its own configurations; leave out --tp" in capsys.readouterr().err
    assert mtpp("train gpt2 --time-unit ms --cluster 1x4 --bandwidth 1GB/s --global-batch 4") == 2
    assert "its times are estimated; leave out --time-unit" in capsys.readouterr().err
