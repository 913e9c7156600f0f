"""The same seed gives the same answer where no time limit has a say; where one may have had, the answer says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from command_line import mtpp

import mtpp as api
from instances.random_graphs import regal_style
from mtpp.problems.checking import result_document

SMALL = regal_style("erdos-renyi", 12, seed=1)
#: Small questions of all problems without a time limit, by functions that answer them.
QUESTIONS: dict[str, Callable[[], Any]] = {
    "partition": lambda: api.partition(SMALL, k=3, bandwidth=1.0, method="local-search", seed=3),
    "bound": lambda: api.bound(SMALL, k=3, bandwidth=1.0, model="exact", time_limit=None),
    "certify": lambda: api.certify(SMALL, k=3, bandwidth=1.0, time_limit=None),
    "two threads": lambda: api.certify(SMALL, k=3, bandwidth=1.0, time_limit=None, threads=2),
    "kinds": lambda: api.certify("gpt2", level="layer", devices="1xL4,1xT4", time_limit=None),
    "plan": lambda: api.plan("simulation", "2x2", 4, bandwidth="128Gbps,32Gbps", network="shared", effort=0),
    "train": lambda: api.train("gpt2", "1x2", global_batch=4, device="A100-40", bandwidth="300GB/s,400GB/s"),
    "place": lambda: api.place(regal_style("erdos-renyi", 8, seed=1), k=2, bandwidth=1.0, time_limit=None),
    "flow": lambda: api.flow("gpt2", devices="1xA100,2xL4", dims={"batch": 8}, time_limit=None),
    "serve": lambda: api.serve("llama-3-8b", k=4, memory="24GB", dims={"batch": 32, "element_bytes": 2}),
}


def timeless(document: Any) -> Any:
    """A document without seconds."""
    if isinstance(document, Mapping):
        return {name: timeless(item) for name, item in document.items() if not name.endswith("seconds")}
    return [timeless(item) for item in document] if isinstance(document, list) else document


@pytest.mark.parametrize("name", QUESTIONS)
def test_same_seed_same_answer(name: str) -> None:
    """Three runs without a time limit write the same, but for seconds."""
    written = set[str]()
    for _ in range(3):
        answer = QUESTIONS[name]()
        document = result_document(answer)
        assert "repeatable" not in document.get("provenance", {})
        written.add(json.dumps(timeless(document)))
    assert len(written) == 1


def test_bug_three_runs_gave_three_partitions(capsys: pytest.CaptureFixture[str]) -> None:
    """A search whose moves are counted reaches a bound at once, under a time limit too."""
    found = set[str]()
    for _ in range(3):
        assert mtpp("certify inception-v3 -k 8 --dim batch=8 --time-limit 600 --json") == 0
        document = json.loads(capsys.readouterr().out)
        assert "repeatable" not in document["provenance"]
        found.add(json.dumps(document["answer"]))
    assert len(found) == 1


def test_an_answer_says_that_a_time_limit_may_have_had_a_say(capsys: pytest.CaptureFixture[str]) -> None:
    """Its bound comes from methods that the clock ends; the command line knows no limit, too."""
    command = "bound bert-base -k 2 --model ideals --json --time-limit"
    for limit, said in ((600, True), ("none", False)):
        assert mtpp(f"{command} {limit}") == 0
        assert ("repeatable" in json.loads(capsys.readouterr().out)["provenance"]) == said
