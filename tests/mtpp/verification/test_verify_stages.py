"""What a certificate says of stages and crossing tensors: true ones pass, each number that is changed is found."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from certificates import BUFFERED, FULL, PLAIN, Document
from forging import places
from hypothesis import given
from strategies import partitions

from instances import Bound, Partition, Result
from instances.json_files import Value
from instances.partitioning.stated import certificate_from_document
from mtpp.problems.checking import certificate_document, verify
from mtpp.verification.partitioning.costs import faults_of_stages
from mtpp.verification.partitioning.exact_instance import ExactInstance


def document_of(partition: Partition) -> Document:
    answer = Result("by hand", partition.instance, partition, Bound(0.0, "simple"))
    return json.loads(json.dumps(certificate_document([answer])))


@given(partition=partitions())
def test_what_is_written_is_true(partition: Partition) -> None:
    certificate = certificate_from_document(Value(document_of(partition), "c.json"))
    assert certificate.partition is not None
    exact = ExactInstance.of(certificate.instance)
    assert list(faults_of_stages(certificate.instance, exact, certificate.partition)) == []


@pytest.mark.parametrize("original", [PLAIN, FULL, BUFFERED])
def test_each_number_that_is_changed_is_found(original: Document) -> None:
    changed = 0
    for path in places(original["answer"]):
        if path[0] not in ("costs", "crossing"):
            continue
        forged = copy.deepcopy(original)
        place: Any = forged["answer"]
        for key in path[:-1]:
            place = place[key]
        old = place[path[-1]]
        if isinstance(old, dict | list) or old == 0.0:
            continue
        place[path[-1]] = old + "x" if isinstance(old, str) else old + 1 if isinstance(old, int) else old * (1 + 1e-6)
        faults = verify(Value(forged, "c.json")).faults
        assert len(faults) == 1
        assert faults[0].startswith(f"answer.{path[0]}[{path[1]}].{path[2]}: ")
        changed += 1
    assert changed > 40


@pytest.mark.parametrize("member", ["costs", "crossing"])
def test_a_stage_that_is_left_out_is_found(member: str) -> None:
    forged = copy.deepcopy(PLAIN)
    forged["answer"][member].pop()
    (fault,) = verify(Value(forged, "c.json")).faults
    assert fault.startswith(f"answer.{member}: ")


@pytest.mark.parametrize("member", ["costs", "crossing"])
def test_a_certificate_without_them_is_false(member: str) -> None:
    lacking = copy.deepcopy(PLAIN)
    del lacking["answer"][member]
    [fault] = verify(Value(lacking, "c.json")).faults
    assert fault.startswith(f"answer.{member}: '0 items' is claimed")


def test_bug_a_buffer_beside_which_bytes_overflowed() -> None:
    """Bytes were times at a bandwidth of 1, which were too large where those at the bandwidth of the file are not."""
    file = copy.deepcopy(FULL)
    file["question"]["activation_buffer"] = 1e308
    assert verify(Value(file, "c.json")).faults
