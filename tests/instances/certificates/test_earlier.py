"""Answer files of earlier versions are refused with the verb that writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from certificates import GRAPH

import mtpp
from instances import InputError, Instance, Platform, read_partition
from instances.json_files import Value, write_json
from mtpp.problems.checking import read_result, verify


@pytest.mark.parametrize(
    ("named", "verb"),
    [
        ("mtpp-certificate/1", "certify"),
        ("mtpp-kinds/1", "certify"),
        ("mtpp-flow/2", "flow"),
        ("mtpp-plan/2", "plan"),
        ("mtpp-placement/1", "place"),
        ("mtpp-serving/1", "serve"),
    ],
)
def test_files_of_earlier_versions_are_refused(named: str, verb: str) -> None:
    for read in (verify, read_result):
        with pytest.raises(InputError) as refusal:
            read(Value({"format": named}, "k.json"))
        assert (
            str(refusal.value) == f"k.json: {named} is a format of an earlier version; write it anew with mtpp {verb}."
        )


def test_partition_files_of_earlier_versions_are_refused(tmp_path: Path) -> None:
    """Without their format they are partitions by hand."""
    path, blocks = tmp_path / "p.json", {"k": 3, "block": [0] * GRAPH.n}
    write_json(path, {"format": "mtpp-partition/1", **blocks})
    for read in (mtpp.read, lambda file: read_partition(file, Instance(GRAPH, Platform(3, 2.0)))):
        with pytest.raises(InputError, match=r"mtpp-partition/1 is a format of an earlier version"):
            read(path)
    write_json(path, blocks)
    assert read_partition(path, Instance(GRAPH, Platform(3, 2.0))).block.tolist() == blocks["block"]
