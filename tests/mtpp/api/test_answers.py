"""Answers in Python: saved, read, verified, explained and exported as on the command line."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import mtpp as run
from true_files import originals

import mtpp
from instances import InputError
from instances.placement.placement import Placement
from mtpp.problems.checking import result_document

PATH = mtpp.ComputationGraph.from_edges(
    [(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0], name="path", names=("a", "b", "c")
)
MOVING = ("seconds", "version", "recheck")


def document(path: Path | str) -> Any:
    """Content of a file without what differs from run to run, and without the words that change what is assumed."""

    def still(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: still(item) for name, item in value.items() if name.rpartition(".")[2] not in MOVING}
        if isinstance(value, str) and value.startswith("Assumed: "):
            return value.partition(";")[0]
        return [still(item) for item in value] if isinstance(value, list) else value

    return still(json.loads(Path(path).read_text()))


def graph_file(folder: Path) -> str:
    from instances import save_graph

    save_graph(PATH, folder / "path.json")
    return str(folder / "path.json")


def test_a_certificate_of_python_is_that_of_the_command_line(tmp_path: Path) -> None:
    """All bounds are in it, not only the best."""
    graph = graph_file(tmp_path)
    result = mtpp.certify(graph, k=2, bandwidth=1, time_limit=30)
    assert result.save(tmp_path / "python.json") == tmp_path / "python.json"
    assert run(f"certify {graph} -k 2 --bandwidth 1 --time-limit 30 --out {tmp_path}/line.json") == 0
    assert document(tmp_path / "python.json") == document(tmp_path / "line.json")
    assert [part.bound.method for part in result.parts if part.bound is not None] == ["simple", "pinned", "ideals"]


def test_a_partition_a_plan_a_placement_and_a_front_are_those_of_the_command_line(tmp_path: Path) -> None:
    graph = graph_file(tmp_path)
    mtpp.partition(graph, 2, "kahn", bandwidth=1).save(tmp_path / "a1.json")
    assert run(f"partition {graph} -k 2 --method kahn --bandwidth 1 --out {tmp_path}/a2.json") == 0
    mtpp.plan("simulation", "2x2", 4, bandwidth="128Gbps,32Gbps", effort=0).save(tmp_path / "b1.json")
    words = "plan simulation --cluster 2x2 --microbatches 4 --bandwidth 128Gbps,32Gbps --effort 0"
    assert run(f"{words} --out {tmp_path}/b2.json") == 0
    mtpp.place(graph, 2, "heft", bandwidth=1).save(tmp_path / "c1.json")
    assert run(f"place {graph} -k 2 --method heft --bandwidth 1 --out {tmp_path}/c2.json") == 0
    mtpp.serve("gpt2", 2, "1GB", dims={"batch": 4}).save(tmp_path / "d1.json")
    assert run(f"serve gpt2 -k 2 --memory 1GB --dim batch=4 --out {tmp_path}/d2.json") == 0
    for letter in "abcd":
        assert document(tmp_path / f"{letter}1.json") == document(tmp_path / f"{letter}2.json")


def test_a_plan_file_names_its_planner(tmp_path: Path) -> None:
    plan = mtpp.plan("simulation", "2x2", 4, bandwidth="128Gbps,32Gbps", effort=0, seed=3, time_limit=20)
    origin = document(plan.save(tmp_path / "plan.json"))["provenance"]
    assert (origin["planner"], origin["seed"], origin["time_limit"]) == ("improved", 3, 20)


@pytest.mark.slow
def test_what_was_saved_is_read(tmp_path: Path) -> None:
    """Costs are computed anew, bounds are stated and prove nothing."""
    saved = [
        mtpp.certify(PATH, k=2, bandwidth=1),
        mtpp.place(PATH, 2, bandwidth=1, time_limit=0.2),
        mtpp.place(PATH, 2, "heft", bandwidth=1),
        mtpp.plan("simulation", "2x2", 4, bandwidth="128Gbps,32Gbps", effort=0),
    ]
    for number, result in enumerate(saved):
        again = mtpp.read(result.save(tmp_path / f"{number}.json"))
        assert again.cost == pytest.approx(result.cost, rel=1e-12)
        assert again.instance.key == result.instance.key
        assert again.bound is not None
        assert not again.bound.proved
        assert not again.proved
    front = mtpp.serve("gpt2", 2, "1GB", dims={"batch": 4})
    again = mtpp.read(front.save(tmp_path / "front.json"))
    documents = [result_document(result) for result in (again, front)]
    assert documents[0] | {"provenance": None} == documents[1] | {"provenance": None}
    found = mtpp.partition(PATH, 2, "kahn", bandwidth=1)
    assert mtpp.read(found.save(tmp_path / "partition.json")).cost == found.cost
    (tmp_path / "hand.json").write_text(json.dumps({"block": found.partition.block.tolist()}))
    assert mtpp.read(tmp_path / "hand.json", PATH, bandwidth=1).cost == found.cost
    with pytest.raises(InputError, match="it does not hold its graph"):
        mtpp.read(tmp_path / "hand.json")
    with pytest.raises(InputError, match="it holds its question"):
        mtpp.read(tmp_path / "0.json", PATH)


@pytest.mark.parametrize("name", sorted(originals()))
def test_bug_what_was_read_could_not_be_saved_again(name: str, tmp_path: Path) -> None:
    """Only partitions could: of other problems no file held a bound that is stated. It proves nothing there, either."""
    (tmp_path / "first.json").write_text(json.dumps(originals()[name]))
    first = mtpp.read(tmp_path / "first.json")
    file = first.save(tmp_path / "second.json")
    again = mtpp.read(file)
    assert (again.cost, again.instance.key) == (first.cost, first.instance.key)
    verdict = mtpp.verify(file)
    assert verdict.faults == ()
    stated = [check for check in verdict.checks if check.claim.method == "stated"]
    assert all(check.proved is None or name.startswith("certificate") for check in stated)
    if first.cost is not None and stated:
        forged = json.loads(file.read_text())
        forged["bounds"][0]["value"] = forged["bound"] = 2 * first.cost
        file.write_text(json.dumps(forged))
        assert mtpp.verify(file).faults


def test_a_file_with_a_false_bound_is_not_read(tmp_path: Path) -> None:
    file = mtpp.certify(PATH, k=2, bandwidth=1).save(tmp_path / "certificate.json")
    stated = json.loads(file.read_text())
    stated["bounds"][-1]["value"] = stated["bound"] = 7.0
    file.write_text(json.dumps(stated))
    with pytest.raises(InputError, match=r"the bound 7 of ideals is above the cost; it is false\."):
        mtpp.read(file)
    assert mtpp.verify(file).faults
    with pytest.raises(InputError, match="is above the bottleneck; it is false"):
        mtpp.explain(file)


def test_results_and_files_are_verified(tmp_path: Path) -> None:
    result = mtpp.certify(PATH, k=2, bandwidth=1)
    for answer in (result, result.save(tmp_path / "certificate.json"), mtpp.serve("gpt2", 2, "1GB")):
        verdict = mtpp.verify(answer)
        assert verdict.faults == ()
        assert not verdict.rests_on_trust
        assert "\n" not in repr(verdict)
    assert mtpp.verify(result, graph=PATH).faults == ()
    other = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 5], output_bytes=[1, 1, 0], names=PATH.names)
    [fault] = mtpp.verify(result, graph=other).faults
    assert "the work of node 2 (c) is 4.0, there 5.0" in fault


def test_partitions_are_explained() -> None:
    given = mtpp.Partition(mtpp.Instance(PATH, mtpp.Platform(2, 1.0)), [0, 1, 1])
    found = mtpp.explain(given, time_limit=5)
    assert found.better is not None
    assert found.better.bottleneck == 6
    assert found.sentences()[0].startswith("Its ratio is 1.3333")


def test_placements_are_explained() -> None:
    """A bus is named wherever anything passes, however short that takes."""
    alone = mtpp.place(PATH, 2, "single", bandwidth=2, search_only=True)
    apart = replace(alone, answer=Placement(alone.instance, [0, 1, 0]))
    assert mtpp.explain(apart).sentences()[1:] == [
        "Device 0 is the busiest: it computes 6.000 s, 60.0% of the step.",
        "The bus out of device 0 is the busiest: it moves 500.0 ms, 5.0% of the step.",
        "Longest path and even share of the work take 9.000 s, 90.0% of the step on any devices.",
        "Device 0 holds most: 1 B.",
    ]
    assert not any("bus" in line.split() for line in mtpp.explain(alone).sentences())


@pytest.mark.slow
def test_bug_answers_of_all_problems_are_explained_and_drawn(tmp_path: Path) -> None:
    """`explain` knew partitions alone, and flows and plans for a global batch had no picture."""
    rates = "128Gbps,32Gbps"
    clusters = "2xA100,2xL4@1GB/s"
    results = {
        "slowest": mtpp.plan("simulation", "2x2", 4, bandwidth=rates, effort=0),
        "Group": mtpp.train("gpt2", "1x4", global_batch=8, bandwidth="300GB/s,50GB/s", sequence=64, time_limit=1),
        "busiest": mtpp.place(PATH, 2, "heft", bandwidth=1),
        "full": mtpp.flow("gpt2", devices=clusters, dims={"batch": 8, "element_bytes": 2}, time_limit=1),
        "least context": mtpp.serve("gpt2", 2, "1GB", dims={"batch": 4}),
    }
    for word, result in results.items():
        told = "\n".join(mtpp.explain(result).sentences())
        assert word in told
        assert result.answer is not None
        assert result.plot().axes
        again = mtpp.explain(result.save(tmp_path / "answer.json")).sentences()
        assert any(word in line for line in again)
        assert "Question" in mtpp.report(tmp_path / "answer.json")


def test_exports_say_what_the_command_line_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = mtpp.certify("gpt2", k=2, level="layer", runtime="vllm", time_limit=3)
    file = result.save(tmp_path / "gpt2.json")
    capsys.readouterr()
    assert run(f"export {file} --for vllm") == 0
    said = capsys.readouterr().out
    assert said == mtpp.export(file, "vllm", out=tmp_path / "words") == (tmp_path / "words").read_text()
    assert said.splitlines()[-1] == mtpp.export(result, "vllm").strip()
    assert (tmp_path / "words.certificate.json").read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda folder: mtpp.bound(PATH, 2, "simple", bandwidth=1).plot(), "found no answer to draw"),
        (lambda folder: mtpp.partition(PATH, 2, "kahn", bandwidth=1).save(folder), "folder|directory"),
        (lambda folder: mtpp.partition(PATH, 2, "kahn", bandwidth=1).save(folder / "no" / "such.json"), "No such"),
        (lambda folder: mtpp.read(folder / "none.json"), "there is no such file"),
        (lambda folder: mtpp.verify(folder / "none.json"), "there is no such file"),
        (lambda folder: mtpp.verify(PATH), "no ComputationGraph"),
        (lambda folder: mtpp.explain(PATH), "no ComputationGraph"),
        (lambda folder: mtpp.export(PATH, "vllm"), "holds no cut"),
        (lambda folder: mtpp.explain(mtpp.bound(PATH, 2, "simple", bandwidth=1)), "nothing to explain"),
        (lambda folder: mtpp.export(mtpp.place(PATH, 2, "heft", bandwidth=1), "vllm"), "holds no cut"),
    ],
)
def test_wrong_use_is_one_line(call: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises((InputError, OSError), match=message) as refused:
        call(tmp_path)
    assert "\n" not in str(refused.value)


def test_an_export_does_not_replace_its_source(tmp_path: Path) -> None:
    file = mtpp.serve("gpt2", 2, "1GB").save(tmp_path / "front.json")
    before = file.read_bytes()
    with pytest.raises(InputError, match="this is the file that the cut is read from"):
        mtpp.export(file, "vllm", out=file)
    assert file.read_bytes() == before


def test_what_is_impossible_is_saved_with_its_proof(tmp_path: Path) -> None:
    result = mtpp.certify(
        mtpp.ComputationGraph.from_edges([(0, 1)], [1, 1], param_bytes=[9, 9]), 2, memory="1B", fit=True
    )
    assert result.impossible is not None
    file = result.save(tmp_path / "none.json")
    assert result.impossible in (mtpp.read(file).impossible or "")
    verdict = mtpp.verify(file)
    assert (verdict.faults, verdict.rests_on_trust) == ((), False)


def test_threads_save_at_the_same_time(tmp_path: Path) -> None:
    """The file is always that of one of them, and no draft is left."""
    result = mtpp.partition(PATH, 2, "kahn", bandwidth=1)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: result.save(tmp_path / "p.json"), range(40)))
    assert mtpp.read(tmp_path / "p.json").cost == result.cost
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]


def test_only_a_rerun_lets_the_solver_speak_again() -> None:
    result = mtpp.bound(PATH, 2, "exact", bandwidth=1, start=mtpp.partition(PATH, 2, "kahn", bandwidth=1))
    assert [check.confirmed for check in mtpp.verify(result).checks] == [False]
    assert [check.confirmed for check in mtpp.verify(result, rerun=True).checks] == [True]


@pytest.mark.parametrize("verb", ["verify", "explain", "report", "export --for vllm", "certify bert-base -k 2 --start"])
def test_bug_a_model_in_place_of_an_answer_is_told_how_to_get_one(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was said to be invalid JSON, cut short, or without a manifest."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "llama", "hidden_size": 8}))
    network = tmp_path / "model.onnx"
    network.write_bytes(b"\x08\x08")
    for model in ("bert-base", str(config), str(tmp_path), str(network)):
        assert run(f"{verb} {model}") == 2
        assert f"{model}: this is a model, no answer; certify it with --out answer.json" in capsys.readouterr().err
