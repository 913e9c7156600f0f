"""Serving fronts in files: true ones hold, and no number of them can be changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from certificates import front_file, hashed
from hypothesis import given
from hypothesis import strategies as st
from serving_oracle import serving_questions

from instances import ComputationGraph, InputError, Instance, Platform
from instances.architectures import ARCHITECTURES
from instances.json_files import Value
from instances.partitioning.partition import Partition
from instances.partitioning.serving import ServingInstance
from instances.runtimes import RUNTIMES
from instances.runtimes.serving import serving_chain
from mtpp.problems.checking import verify
from mtpp_models.bounds.serving import serving_front


def faults(stated: dict[str, Any]) -> tuple[str, ...]:
    return verify(Value(hashed(stated), "front.json")).faults


def asked(stated: dict[str, Any], **change: Any) -> dict[str, Any]:
    """The file with another question; `chain` is a change of the chain."""
    question = stated["question"]
    chain = question["chain"] | change.pop("chain", {})
    return stated | {"question": question | {"chain": chain} | change}


def answered(stated: dict[str, Any], **change: Any) -> dict[str, Any]:
    """The file with another answer."""
    return stated | {"answer": stated["answer"] | change}


def gpt2_question(
    runtime: str, network: str = "gpt2", in_flight: int | None = None, context: int = 128
) -> ServingInstance:
    graph = ARCHITECTURES[network].build(phase="decode", batch=32, context=context)
    platform = Platform(3, 64e9, 4e8 if network == "gpt2" else 2e10, fit=True)
    return serving_chain(Instance(graph, platform), RUNTIMES[runtime], in_flight)


def gpt2() -> dict[str, Any]:
    return front_file(gpt2_question("vllm"))


def in_tenths(
    work: list[float], outputs: list[float], sizes: list[float], tokens: list[float], k: int, memory: float
) -> ServingInstance:
    """A chain of numbers whose sums floats round."""
    n = len(work)
    graph = ComputationGraph.from_edges(
        [(v, v + 1) for v in range(n - 1)], work=work, output_bytes=outputs, param_bytes=sizes
    )
    return ServingInstance(
        instance=Instance(graph, Platform(k, 1.0, memory, fit=True), need=np.zeros(n), by_need=True),
        token_bytes=np.array(tokens),
        window=np.full(n, np.inf),
        context=1,
        batch=1,
    )


def test_a_context_is_exact_where_sums_are_not() -> None:
    """Weights of 0.1 + 0.1 + 0.1 are less than their sum in floats: there is room for a token more."""
    question = replace(in_tenths([1.0] * 3, [0.0] * 3, [0.1] * 3, [0.1, 0.0, 0.0], 1, 1.6), context=13)
    stated = front_file(question)
    assert [point["context"] for point in stated["answer"]["front"]] == [13]
    assert faults(stated) == ()


def test_cuts_whose_bottlenecks_differ_by_rounding_are_as_slow() -> None:
    """0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1 in floats, but the cut that holds less is beaten all the same."""
    stated = front_file(
        in_tenths([0.3, 0.3, 0.1, 0.2], [0.2, 0.1, 0.0, 0.2], [0.2, 0.2, 0.3, 0.1], [0.0, 0.1, 0.0, 0.3], 3, 1.7)
    )
    assert [point["context"] for point in stated["answer"]["front"]] == [5]
    assert faults(stated) == ()


@pytest.mark.parametrize("size", [1e-8, 1e-300])
def test_more_tokens_than_floats_count_are_refused(size: float) -> None:
    """One more is no other number there."""
    with pytest.raises(InputError, match="has room for more than 9007199254740992 tokens"):
        in_tenths([1.0] * 2, [0.0] * 2, [1.0] * 2, [size] * 2, 1, 1e9)
    stated = front_file(in_tenths([1.0] * 2, [0.0] * 2, [1.0] * 2, [1.0] * 2, 1, 1e9))
    stated["question"]["token_bytes"] = [size] * 2
    assert any("which cannot be stated exactly" in fault for fault in faults(stated))


@given(serving_questions(), st.data())
def test_true_fronts_hold_and_shorter_ones_do_not(question: ServingInstance, data: st.DataObject) -> None:
    """Whatever the question, the front is proved again; without one of its cuts it is false."""
    stated = front_file(question)
    if not stated["answer"]["front"]:
        assert any("no cut" in fault for fault in faults(stated))
        return
    assert faults(stated) == ()
    lost = data.draw(st.integers(0, len(stated["answer"]["front"]) - 1))
    assert faults(answered(stated, front=stated["answer"]["front"][:lost] + stated["answer"]["front"][lost + 1 :]))


def test_forged_numbers_are_found() -> None:
    """Each number of a cut, the cut itself, and a question that the front is not of."""
    stated = gpt2()
    assert len(stated["answer"]["front"]) > 1
    assert faults(stated) == ()
    point = stated["answer"]["front"][0]
    forged = [
        {"bottleneck": point["bottleneck"] * 0.999},
        {"context": point["context"] + 1},
        {"context": None},
        {"block": point["block"][:-1]},
        {"block": [0, *point["block"][:-1]]},
        {"block": [0] * len(point["block"])},
        {"stages": point["stages"][:-1]},
        {"stages": [point["stages"][0] | {"weights": 1.0}, *point["stages"][1:]]},
    ]
    for change in forged:
        assert faults(answered(stated, front=[point | change, *stated["answer"]["front"][1:]])), change
    assert faults(answered(stated, front=stated["answer"]["front"][::-1]))
    for change in ({"context": 10**6}, {"chain": {"memory": 5e8}}, {"chain": {"k": 4}}):
        assert faults(asked(stated, **change)), change


def test_batches_in_flight_are_proved_and_what_older_files_leave_out_is_said() -> None:
    """Their caches and the way through the stages count; older files count the caches of one, and a line says so."""
    for in_flight in (1, 2, 3):
        stated = front_file(gpt2_question("vllm", context=32, in_flight=in_flight))
        verdict = verify(Value(stated, "front.json"))
        assert verdict.faults == ()
        assert not any("caches" in row for row in verdict.headlines())
        for other in {None, 1, 2, 3} - {in_flight}:
            assert faults(asked(stated, in_flight=other)), other
        assert any("cost" in fault for fault in faults(stated | {"cost": stated["cost"] * 0.999}))
    old = verify(Value(gpt2(), "front.json"))
    assert old.faults == ()
    assert ("caches", "contexts count those of one batch in flight, and the speed needs up to 3") in old.headlines()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"in_flight": 0}, "in_flight is 0; give 1 to 3"),
        ({"in_flight": 4}, "in_flight is 4; give 1 to 3"),
        ({"chain": {"memory": None}}, "memory"),
        ({"chain": {"memory": -1.0}}, "memory is -1"),
        ({"chain": {"need": [1.0]}}, "chain: need: give 14 numbers"),
        ({"chain": {"by_need": False}}, "the needs of its nodes count"),
        ({"token_bytes": [None] * 14}, "not 14 numbers, finite"),
        ({"token_bytes": [-1.0] * 14}, "are 0 or more"),
        ({"chain": {"k": 10**9}}, "number of blocks"),
        ({"what": 1}, "unknown field"),
    ],
)
def test_what_is_no_front_is_refused(change: dict[str, Any], words: str) -> None:
    """In one line with the place."""
    stated = gpt2()
    with pytest.raises(InputError, match=words) as error:
        faults(asked(stated, **change))
    assert "front.json" in str(error.value)


def test_infinite_contexts() -> None:
    """Null stands for any context."""
    stated = gpt2()
    stated["question"]["token_bytes"] = [0.0] * 14
    assert any("inf is recomputed" in fault for fault in faults(stated))


@pytest.mark.parametrize("name", [name for name in RUNTIMES if name != "openvino"])
def test_words_are_those_of_the_answer(name: str) -> None:
    """Read by the rules of the runtime; those of another cut are found, and what is no words."""
    question = gpt2_question(name, "llama-3-8b" if name == "torchtitan" else "gpt2")
    points = serving_front(question).points
    words = RUNTIMES[name].settings(points[0].partition)
    stated = front_file(question, name)
    assert stated["answer"]["words"] == words
    assert faults(stated) == ()
    block = points[0].partition.block.copy()
    block[1 + int(np.flatnonzero(np.diff(block[1:-1]))[0])] += 1
    other = RUNTIMES[name].settings(Partition(question.instance.without_constraints(), block))
    assert any("words: they have the layers" in fault for fault in faults(answered(stated, words=other)))
    digit = next(i for i in reversed(range(len(words))) if words[i].isdigit() and words[i] != "9")
    for forged in ("", words[:digit] + "9" + words[digit + 1 :], words[: len(words) // 2], "[" * 10**5):
        assert len(faults(answered(stated, words=forged))) <= 1  # and nothing fails
    assert any("does not take them" in fault for fault in faults(answered(stated, words="nothing")))


def test_dimensions_are_those_of_the_graph() -> None:
    """Of files without operators by what the graph was built with, else caches are held against their operators."""
    stated = gpt2()
    bare = stated | {"question": {name: item for name, item in stated["question"].items() if name != "decoder"}}
    for name, number in (("batch", 31), ("batch", 0), ("context", 127)):
        found = faults(asked(bare, **{name: number}))
        assert any(f"question.{name}: it is {number}" in fault for fault in found)
    assert any("question.batch: it is 0" in fault for fault in faults(asked(stated, batch=0)))
    found = faults(asked(stated, context=127))
    assert any(fault.startswith("question.token_bytes[1]: 196608.0 is claimed") for fault in found)
