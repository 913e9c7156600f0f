"""Certificate files hold what a check needs, and are read without believing them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from certificates import plain
from hypothesis import given
from strategies import partitions

from instances import Bound, ComputationGraph, InputError, Instance, Partition, Platform, Result
from instances.certificates import recheck
from instances.json_files import read_json, write_json
from instances.partitioning.stated import certificate_from_document
from mtpp.problems.checking import certificate_document
from mtpp_models import MODELS
from mtpp_models.registry import find_model


def answer(k: int = 2, memory: float = math.inf) -> Result:
    """A partition of a path with a bound that has a witness."""
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [3.0, 1.0, 2.0], [1.0, 1.0, 0.0], name="path")
    instance = Instance(graph, Platform(k, math.inf, memory), "question")
    partition = Partition(instance, [0, k - 1, k - 1])
    return Result("pinned", instance, partition, Bound(3.0, "pinned", witness={"nodes": [0]}), {"solve": 0.25})


def test_a_certificate_survives_the_file(tmp_path: Path) -> None:
    """What is read is what was known; infinite rates and sizes come back."""
    known = answer()
    write_json(tmp_path / "c.json", certificate_document([known]))
    read = certificate_from_document(read_json(tmp_path / "c.json"))
    assert read.instance.key == known.instance.key
    assert read.instance.name == "question"
    assert (read.cost, read.bound, read.ratio) == (3.0, 3.0, 1.0)
    assert read.partition is not None
    assert read.partition.block == (0, 1, 1)
    assert read.instance.platform == known.instance.platform
    [claim] = read.claims
    assert (claim.place, claim.method, claim.value) == ("bounds[0]", "pinned", 3.0)
    assert (claim.parameters.data, claim.solver, claim.recheck) == ({"nodes": [0]}, None, "minimum cuts")


def test_a_solver_is_named_with_its_version(tmp_path: Path) -> None:
    """Such bounds are trusted; those of other runs of the same question stand beside them."""
    first = answer()
    proof = Result("exact", first.instance, bound=Bound(2.5, "exact", optimal=False), solver="highs 1.15.1")
    document = certificate_document([first, proof])
    entry = document["bounds"][1]
    origin = {"solver": "highs", "version": "1.15.1", "seconds": 0.0}
    assert entry == {"method": "exact", "value": 2.5, "parameters": {}, "recheck": "trusted", "provenance": origin}
    assert document["bound"] == 3.0
    write_json(tmp_path / "c.json", document)
    claim = certificate_from_document(read_json(tmp_path / "c.json")).claims[1]
    assert (claim.solver, claim.version) == ("highs", "1.15.1")


def test_a_bound_alone_is_a_certificate(tmp_path: Path) -> None:
    """What is missing is null."""
    document = certificate_document([Result("simple", answer().instance, bound=Bound(3.0, "simple"))])
    assert [document[name] for name in ("answer", "cost", "ratio")] == [None, None, None]
    write_json(tmp_path / "c.json", document)
    assert certificate_from_document(read_json(tmp_path / "c.json")).partition is None


@given(partitions())
def test_every_partition_can_be_written(partition: Partition) -> None:
    """The document is plain JSON whatever the numbers are."""
    result = Result("simple", partition.instance, partition, Bound(0.0, "simple"))
    document = certificate_document([result])
    assert json.loads(json.dumps(document, allow_nan=False)) == document


@pytest.mark.parametrize(
    ("method", "kind"),
    [("simple", "formula"), ("pigeonhole", "minimum cuts"), ("ideals", "ideals"), ("coarse-4", "trusted")],
)
def test_methods_know_what_rechecks_them(method: str, kind: str) -> None:
    assert recheck(method) == kind


@pytest.mark.parametrize("model", [*MODELS, "exact+all", "exact+all-joins-cuts", "coarse-4+cuts+windows", "exact:lp"])
def test_every_model_may_stand_in_a_certificate(model: str) -> None:
    """Of solvers and without, strengthened and relaxed."""
    assert recheck(model) is not None
    assert find_model(model.removesuffix(":lp")) is not None


@pytest.mark.parametrize(
    "name", ["coarse-8", "coarse-٣", "coarse-2+cuts+all-all", "exact+", "exact+magic", "simple+all", "", "exact:lp:lp"]
)
def test_what_is_no_model_may_not(name: str) -> None:
    """Neither here nor there."""
    assert recheck(name) is None
    with pytest.raises(InputError):
        find_model(name)


def misspell(document: dict[str, Any]) -> None:
    document["bounds"][0]["vlaue"] = document["bounds"][0].pop("value")


def add(document: dict[str, Any]) -> None:
    document["comment"] = "hello"


def other_format(document: dict[str, Any]) -> None:
    document["format"] = "mtpp-certificate/9"


def no_graph(document: dict[str, Any]) -> None:
    document["question"]["graph"] = "bert-base"


def cycle(document: dict[str, Any]) -> None:
    document["question"]["graph"]["edges"].append([1, 0])


def no_blocks(document: dict[str, Any]) -> None:
    document["question"]["k"] = 0


def half_a_block(document: dict[str, Any]) -> None:
    document["answer"]["block"][1] = 0.5


def yes(document: dict[str, Any]) -> None:
    document["bounds"][0]["optimal"] = "yes"


def text(document: dict[str, Any]) -> None:
    document["cost"] = "3"


def loose(document: dict[str, Any]) -> None:
    document["bounds"][0]["parameters"] = [0]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (misspell, "bounds[0]: "),
        (add, "unknown field 'comment'"),
        (other_format, "format: "),
        (no_graph, "question.graph: "),
        (cycle, "question.graph: "),
        (no_blocks, "question: "),
        (half_a_block, "answer.block[1]: "),
        (yes, "bounds[0]: "),
        (text, "cost: "),
        (loose, "bounds[0].parameters: "),
    ],
)
def test_what_is_no_certificate_is_refused(change: Any, place: str, tmp_path: Path) -> None:
    """The message is one line with the file and the place."""
    document = plain(certificate_document([answer()]))
    change(document)
    write_json(tmp_path / "c.json", document)
    with pytest.raises(InputError) as refused:
        certificate_from_document(read_json(tmp_path / "c.json"))
    assert "c.json" in str(refused.value)
    assert place in str(refused.value)
    assert "\n" not in str(refused.value)
