"""Chains of configured layers from documents: what is refused, in one line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from instances.errors import InputError
from instances.json_files import parse_json
from instances.planning.grid.configurations import configured_from_document


@pytest.mark.parametrize(
    ("facts", "way", "message"),
    [
        ({"sequence": 0}, {}, r"^c\.json: sequence is 0; give a whole number"),
        ({"flops": -1}, {}, r"^c\.json: flops is -1\.0; it must be above 0"),
        ({"flops": 0}, {}, "flops is 0"),
        ({"overlap": "grads"}, {}, r"^c\.json, overlap: this is 'grads'; give one of tp, none\.$"),
        ({"micro_batch": 10**30}, {}, r"^c\.json, micro_batch: the whole number is too large\.$"),
        ({}, {"tied_parameters": 5}, "tied_parameters is 5; it must be at most 1, all parameters"),
        ({"layers": [{"configurations": []}]}, {}, "no configuration; give each at least one"),
    ],
)
def test_bug_chains_with_impossible_numbers_are_refused(
    facts: dict[str, Any], way: dict[str, Any], message: str
) -> None:
    """A model use below 0, and memory below 0 as more was tied than there is, were planned with."""
    ways = [{"forward": 1, "parameters": 1, "stored_bytes": 1} | way]
    document = {"format": "mtpp-chain/2", "layers": [{"configurations": ways}] * 2} | facts
    with pytest.raises(InputError, match=message):
        configured_from_document(parse_json(json.dumps(document), "c.json"))


@pytest.mark.parametrize(
    ("source", "members"),
    [
        ("unfused attention, hidden tensor collectives, a roofline", ("eager", "tp")),
        ("fused attention, a roofline", ("fused", "none")),
        ("measured", ("", "")),
    ],
)
def test_files_of_an_earlier_version_say_in_their_source_how_layers_run(source: str, members: tuple[str, str]) -> None:
    ways = [{"forward": 1, "parameters": 1, "stored_bytes": 1}]
    document = {"format": "mtpp-chain/2", "layers": [{"configurations": ways}], "source": source}
    chain = configured_from_document(parse_json(json.dumps(document), "c.json"))
    assert (chain.attention, chain.overlap) == members
