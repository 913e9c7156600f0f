"""A file says which question it answers: by its hash, in words, and against what the caller states."""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from answer_files import plan_result
from certificates import GRAPH, Document, answers, hashed
from command_line import mtpp as run

import mtpp
from instances import Bound, ComputationGraph, InputError, Instance, Platform, Result, SharedParameter
from instances.devices import NetworkCards
from instances.json_files import Value, write_json
from instances.machines import Machines
from instances.partitioning.constraints import Constraints
from instances.placement.problem import PlacementInstance
from mtpp.problems.checking import certificate_document, verify


def path(**more: Any) -> ComputationGraph:
    return ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], work=[1] * 4, output_bytes=[1, 1, 1, 0], **more)


def bound(**platform: Any) -> Document:
    question = Instance(GRAPH, Platform(**{"k": 3, "bandwidth": 2.0, **platform}))
    return dict(json.loads(json.dumps(certificate_document(answers(question)))))


def test_the_hash_is_the_same_in_all_versions() -> None:
    """A golden value, and its computation from the description in the manual."""
    golden = "q2:5bdd83cd7653f972dedbbc20a9184b96a970fdc7153d665ea330d629b9398e4a"
    assert Instance(path(), Platform(2, 1.0)).question_hash == golden
    nodes = [{"name": str(v), "work": 1.0, "param_bytes": 0.0, "output_bytes": float(v < 3)} for v in range(4)]
    graph = {"format": "mtpp-graph/1", "time_unit": "s", "nodes": nodes, "edges": [[0, 1], [1, 2], [2, 3]]}
    question = {"k": 2, "bandwidth": 1.0, "graph": graph | {"parameters": []}}
    text = json.dumps({"problem": "partition", "question": question}, sort_keys=True, separators=(",", ":"))
    assert golden == f"q2:{hashlib.sha256(text.encode()).hexdigest()}"


QUESTION = Instance(path(), Platform(2, 1.0, 8.0))
OTHERS = {
    "k": QUESTION.with_platform(Platform(3, 1.0, 8.0)),
    "bandwidth": QUESTION.with_platform(Platform(2, 2.0, 8.0)),
    "memory": QUESTION.with_platform(Platform(2, 1.0, 9.0)),
    "buffer": QUESTION.with_platform(Platform(2, 1.0, 8.0, 0.0)),
    "fit": QUESTION.with_platform(Platform(2, 1.0, 8.0, fit=True)),
    "unit": replace(QUESTION, graph=path(time_unit="h")),
    "names": replace(QUESTION, graph=path(names=("a", "b", "c", "d"))),
    "parameters": replace(QUESTION, graph=path(parameters=(SharedParameter("", 1.0, (0, 1)),))),
    "together": replace(QUESTION, constraints=Constraints(together=((0, 1),))),
    "windows": replace(QUESTION, constraints=Constraints(windows=((0, 0, 0),))),
    "uncut": replace(QUESTION, constraints=Constraints(uncut=(1,))),
    "at least": replace(QUESTION, constraints=Constraints(at_least=((1, (0, 3)),))),
    "need": replace(QUESTION, by_need=True),
    "placement": PlacementInstance(path(), Machines.alike(2, 1.0, 8.0)),
}


def test_whatever_costs_or_rules_read_is_in_the_hash() -> None:
    hashes = {name: question.question_hash for name, question in OTHERS.items()} | {"": QUESTION.question_hash}
    assert len(set(hashes.values())) == len(hashes)


def test_questions_with_other_hashes_are_others_in_words() -> None:
    """All that is hashed is stated, if only as a hash; names are not."""
    words = {name: question.question_words for name, question in OTHERS.items() if name != "names"}
    assert len({*words.values(), QUESTION.question_words}) == len(OTHERS)


def test_what_means_the_same_has_one_hash() -> None:
    """Names of graphs, the order of constraints, groups that overlap, windows of all blocks."""
    named = replace(QUESTION, graph=path(name="other", source="x", attributes={"a": 1}), name="z")
    assert named.question_hash == QUESTION.question_hash
    several = replace(QUESTION, constraints=Constraints(together=((2, 1), (0, 1)), windows=((3, 0, 1),), uncut=(2, 1)))
    one = replace(QUESTION, constraints=Constraints(together=((0, 1, 2),), uncut=(1, 2, 2)))
    assert several.question_hash == one.question_hash


def _other_hash(document: Document) -> None:
    document["question_hash"] = f"q2:{'0' * 64}"


def _slower(document: Document) -> None:
    document["question"]["bandwidth"] = 2e6


def _hours(document: Document) -> None:
    document["question"]["graph"]["time_unit"] = "h"


@pytest.mark.parametrize("forge", [_other_hash, _slower, _hours])
def test_a_question_that_is_changed_has_another_hash(forge: Any) -> None:
    document = bound()
    forge(document)
    assert any(fault.startswith("question_hash: ") for fault in verify(Value(document, "c.json")).faults)


REFUSED: dict[str, tuple[Any, str]] = {
    "a member that nobody reads": (lambda d: d["question"].update(more="x"), "unknown field 'more'"),
    "optimal": (lambda d: d["bounds"][0].update(optimal=True), "optimal"),
    "a witness that nobody reads": (lambda d: d["bounds"][0]["parameters"].update(nodes=[0]), "unknown field 'nodes'"),
    "a cost beside the answer": (lambda d: d.update(bottleneck=1.0), "unknown field 'bottleneck'"),
    "a question of another problem": (lambda d: d.update(problem="plan"), "c.json, question: missing field 'chain'"),
    "no problem": (lambda d: d.update(problem="x"), "c.json, problem: this is 'x'; give one of"),
    "work beyond all numbers": (
        lambda d: d["question"]["graph"]["nodes"][5].update(work=1e308),
        "c.json, question: .* exceed the largest number",
    ),
    "no hash": (lambda d: d.pop("question_hash"), "question_hash"),
    "null for a hash": (lambda d: d.update(question_hash=None), "question_hash: expected a string"),
    "needs of nodes": (lambda d: d["question"].update(by_need=True), "only chains of serving"),
    "a solver that there is not": (
        lambda d: d["bounds"][0]["provenance"].update(solver="/bin/sh"),
        "this is '/bin/sh'; give",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_binds_nothing_is_refused(name: str) -> None:
    forge, words = REFUSED[name]
    document = bound()
    forge(document)
    with pytest.raises(InputError, match=words) as refusal:
        verify(Value(document, "c.json"))
    assert "\n" not in str(refusal.value)


def test_bug_a_forged_name_passed_for_the_bandwidth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The question comes first; whatever the file is called comes last, in quotes."""
    document = bound(bandwidth=2e15)
    document["question"]["name"] = "six, 25 GB/s"
    write_json(tmp_path / "c.json", document)
    run(f"verify {tmp_path}/c.json")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("question   k 3, 2000 TB/s, memory unlimited, no constraints; 6 nodes, 6 edges, work")
    assert lines[1].split() == ["hash", document["question_hash"]]
    assert lines[2] == "compared   nothing: is this what you asked?"
    assert '"six, 25 GB/s, k = 3"' in next(line for line in lines if line.startswith("file "))


def test_the_caller_states_the_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document, file = bound(memory=9.0), str(tmp_path / "c.json")
    write_json(file, document)
    write_json(tmp_path / "own.json", document["question"]["graph"])
    own = tmp_path / "own.json"
    assert run(f"verify {file} -k 3 --bandwidth 2 --memory 9 --graph {own}") == 0
    assert "compared   -k, --bandwidth, --memory, --graph" in capsys.readouterr().out
    assert run(f"verify {file} --question {document['question_hash'][:19]}") == 0
    for stated, fault in {
        "-k 4": "k is 3, you ask for 4",
        "--bandwidth 25GB/s": "bandwidth is 2 bytes/s, you ask for 25 GB/s",
        "--memory 9.0000001": "memory is 9.0, you ask for 9.0000001",
        "--fit": "fit is False, you ask for True",
        f"--question q2:{'0' * 64}": f"its hash is {document['question_hash']}",
    }.items():
        assert run(f"verify {file} {stated}") == 1
        assert f"question: {fault}" in capsys.readouterr().err
    for refused in (
        "--cluster 2x2",
        "-k 2,3",
        "--question xyz",
        f"--question {'75dac0c46aa5a1de' * 4}",
        "--bandwidth fast",
    ):
        assert run(f"verify {file} {refused}") == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_python_states_it_as_well(tmp_path: Path) -> None:
    question = Instance(GRAPH, Platform(3, 2.0))
    write_json(tmp_path / "c.json", bound())
    file = tmp_path / "c.json"
    assert mtpp.verify(file, question=question).faults == ()
    assert mtpp.verify(file, question=question.question_hash, k=3).compared == ("question", "k")
    (fault,) = mtpp.verify(file, question=question.with_k(2)).faults
    assert fault.startswith("question: it is k 3, ")
    (fault,) = mtpp.verify(file, question=replace(question, graph=replace(GRAPH, names=tuple("abcdef")))).faults
    assert fault.startswith("question: nodes, edges or constraints differ")
    with pytest.raises(InputError, match="an instance, a result or a hash, no int"):
        mtpp.verify(file, question=7)


def test_constraints_are_compared_by_what_they_mean(tmp_path: Path) -> None:
    question = Instance(GRAPH, Platform(3, 2.0), constraints=Constraints(together=((1, 2),)))
    write_json(tmp_path / "c.json", certificate_document(answers(question)))
    assert mtpp.verify(tmp_path / "c.json", constraints={"together": [["2", "1"]]}).faults == ()
    (fault,) = mtpp.verify(tmp_path / "c.json", constraints={"together": [["0", "1"]]}).faults
    assert fault == "question: it has together 1 2, you ask for together 0 1"


def test_plans_and_placements_are_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rates = "--bandwidth 128Gbps,32Gbps"
    assert run(f"plan simulation --cluster 2x2 {rates} --microbatches 4 --effort 0 --out p.json") == 0
    stated = f"--cluster 2x2 {rates} --microbatches 4 --dtype fp32 --sequence 384 --graph simulation"
    assert run(f"verify p.json {stated}") in (0, 4)
    assert run("verify p.json --bandwidth 128Gbps,30Gbps --dtype bf16 --sequence 128 --microbatches 8") == 1
    assert capsys.readouterr().err.count("question: ") == 4
    assert run("place nmt-0 -k 2 --method heft --out q.json") == 0
    assert run("verify q.json -k 2 --bandwidth 7.6e9") == 0
    assert run("verify q.json -k 4 --memory 1GB") == 1


def test_bug_dtype_sequence_and_planner_of_a_plan_were_free() -> None:
    """The first two belong to the question now, and the last one to the provenance."""
    new = json.loads(json.dumps(certificate_document([plan_result("improved", network=NetworkCards(), dtype="bf16")])))
    assert verify(Value(new, "p.json")).faults == ()
    for name, value in (("dtype", "fp16"), ("sequence", 77)):
        forged = copy.deepcopy(new)
        forged["question"][name] = value
        assert any("question_hash" in fault for fault in verify(Value(forged, "p.json")).faults)


def test_bug_a_front_had_no_defence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half the bytes of a token, no activations and rows to match: the operators contradict them."""
    assert run("serve gpt2 -k 2 --memory 1GB --dim batch=4 --out f.json") == 0
    assert run("verify f.json -k 2 --memory 1GB --for vllm --graph gpt2 --dim batch=4") == 0
    assert run("verify f.json --graph gpt2 --dim batch=8") == 1
    true = json.loads(Path("f.json").read_text())
    for name, factor in (("token_bytes", 0.5), ("need", 0.0)):
        forged = copy.deepcopy(true)
        chained = name == "need"
        holder = forged["question"]["chain"] if chained else forged["question"]
        holder[name] = [factor * size for size in holder[name]]
        faults = verify(Value(forged, "f.json")).faults
        assert any(fault.startswith(f"question.{'chain.' * chained}{name}[1]: ") for fault in faults)
    for change in ({"chosen": 0, "words": ""}, {"words": true["answer"]["words"].replace("8", "9")}):
        assert verify(Value(true | {"answer": true["answer"] | change}, "f.json")).faults
    with pytest.raises(InputError, match="its runtime is not that of the decoder"):
        verify(Value(true | {"answer": true["answer"] | {"runtime": "sglang"}}, "f.json"))
    write_json("bare.json", hashed(true | {"question": {k: v for k, v in true["question"].items() if k != "decoder"}}))
    capsys.readouterr()
    assert run("verify bare.json") == 4
    assert "need and token_bytes: the file does not hold the operators" in capsys.readouterr().out


def test_what_is_not_checked_in_time_has_a_code_of_its_own(tmp_path: Path) -> None:
    """6, where it was 1, which says false; of several files 1 and 2 are worse, 4 and 0 better."""
    n = 400
    graph = ComputationGraph.from_edges([], work=[1.0] * n)
    question = Instance(graph, Platform(n - 1, 1.0))
    pairs = Result("pigeonhole", question, None, Bound(2.0, "pigeonhole", witness={"nodes": list(range(n))}))
    write_json(tmp_path / "slow.json", certificate_document([pairs]))
    write_json(tmp_path / "trusted.json", bound())
    write_json(tmp_path / "false.json", bound() | {"ratio": 7.0})
    names = {name: f"{tmp_path}/{name}.json" for name in ("slow", "trusted", "false")}
    assert run(f"verify {names['slow']} --time-limit 0.2") == 6
    assert run(f"verify {names['trusted']} {names['slow']} --time-limit 0.2") == 6
    assert run(f"verify {names['slow']} {names['false']} --time-limit 0.2") == 1
