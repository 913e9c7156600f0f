"""Whatever a stranger writes into a certificate: nothing false counts as proved, nothing crashes, nothing hangs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from certificates import BUFFERED, FULL, PLAIN, RULED, Document, check, entry, settle
from exact import exact_costs, needed_optimum
from forging import forgeries, write
from hypothesis import HealthCheck, given, settings

from instances import InputError, Instance, Partition
from instances.json_files import Value, read_json
from mtpp.cli.main import main
from mtpp.problems.checking import verify


def instance_of(document: Document) -> Instance:
    return Instance.of_document(Value(document["question"], "c.json"))


@settings(max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(forged=forgeries((PLAIN, FULL, BUFFERED, RULED), settle))
def test_nothing_false_is_proved(forged: Document, tmp_path: Path) -> None:
    """Brute force in rational numbers is the judge of all that is left without fault."""
    write(tmp_path, forged)
    try:
        verdict = verify(read_json(tmp_path / "c.json"), time_limit=2.0)
    except InputError:
        return
    if verdict.faults:
        return
    instance = instance_of(forged)
    if verdict.cost is not None:
        partition = Partition(instance, forged["answer"]["block"], forged["answer"]["order"])
        assert math.isfinite(partition.bottleneck)
        free = replace(instance, fit=False)
        assert verdict.cost == max(exact_costs(Partition(free, partition.block, partition.order)))
    if verdict.proved_bound is not None and instance.k <= 4:
        best = needed_optimum(instance)
        assert best is None or verdict.proved_bound <= best


Forgery = Callable[[Document], None]


def memory_that_swallows(document: Document) -> None:
    document["question"]["memory"] = 1e30
    document["cost"] = document["cost"] / 5
    document["bounds"] = [entry(document, "simple")]
    document["bounds"][0]["value"] = document["bound"] = document["cost"]
    document["ratio"] = 1.0


def carried_from_nothing(document: Document) -> None:
    document["bounds"] = [bound for bound in document["bounds"] if bound["method"] != "ideals"]
    entry(document, "carried")["parameters"] = {"from_k": 1, "value": 4 * document["cost"]}
    entry(document, "carried")["value"] = document["cost"]
    settle(document)


def carried_without_proof(document: Document) -> None:
    document["bounds"] = [bound for bound in document["bounds"] if bound["method"] != "ideals"]
    value = document["cost"]
    entry(document, "carried").update(value=value, parameters={"from_k": 4, "value": value})
    settle(document)


def nothing_at_all(document: Document) -> None:
    document.update(answer=None, cost=None, bound=None, ratio=None, bounds=[])


def below_the_digits_of_a_solver(document: Document) -> None:
    document["bounds"] = [entry(document, "exact")]
    settle(document)


def carried_from_a_solver(document: Document) -> None:
    carried_from_nothing(document)
    proof = entry(document, "exact") | {"value": 4 * document["cost"]}
    entry(document, "carried")["parameters"]["proof"] = proof


def carried_from_itself(document: Document) -> None:
    carried_from_nothing(document)
    for _ in range(20):
        deeper = copy.deepcopy(entry(document, "carried"))
        entry(document, "carried")["parameters"] = {"from_k": 3, "value": deeper["value"], "proof": deeper}


def carried_from_another_value(document: Document) -> None:
    entry(document, "carried")["parameters"]["proof"]["value"] *= 0.5
    entry(document, "carried")["value"] = document["cost"]
    entry(document, "carried")["parameters"]["value"] = document["cost"]
    settle(document)


def carried_from_false_ideals(document: Document) -> None:
    carried = entry(document, "carried")
    carried["value"] = carried["parameters"]["value"] = document["cost"] * (1 - 1e-8)
    carried["parameters"]["proof"]["value"] = carried["parameters"]["value"]
    settle(document)


def unknown_method(document: Document) -> None:
    entry(document, "exact")["method"] = "oracle"


def unknown_part(document: Document) -> None:
    entry(document, "exact")["method"] = "exact+magic"


def program_as_solver(document: Document) -> None:
    entry(document, "exact")["provenance"]["solver"] = "/bin/true"


def no_name_as_solver(document: Document) -> None:
    entry(document, "exact")["provenance"]["solver"] = ""


def unknown_parameter(document: Document) -> None:
    entry(document, "simple")["parameters"]["proved"] = True


def exact_at_the_bottleneck(document: Document) -> None:
    entry(document, "exact")["value"] = document["cost"]
    settle(document)


def huge_value(document: Document) -> None:
    entry(document, "exact")["value"] = 1e308


def huge_k(document: Document) -> None:
    document["question"]["k"] = 10**9


def huge_work(document: Document) -> None:
    for node in document["question"]["graph"]["nodes"]:
        node["work"] = 1.7e308


def tiny_bandwidth(document: Document) -> None:
    document["question"]["bandwidth"] = 5e-324


def many_blocks(document: Document) -> None:
    document["answer"]["stages"] = [[]] * 2 * 10**5


def many_nodes(document: Document) -> None:
    entry(document, "pigeonhole")["parameters"]["nodes"] = [0, 2, 4, 5] * 10**5


def many_bounds(document: Document) -> None:
    document["bounds"] += [entry(document, "simple")] * 20_000 + [entry(document, "exact") | {"value": 10.4501}]
    settle(document)


@pytest.mark.parametrize(
    ("forge", "codes"),
    [
        (memory_that_swallows, {1}),
        (carried_from_nothing, {1}),
        (carried_without_proof, {4}),
        (nothing_at_all, {2}),
        (below_the_digits_of_a_solver, {4}),
        (carried_from_a_solver, {1}),
        (carried_from_itself, {1}),
        (carried_from_another_value, {1}),
        (carried_from_false_ideals, {1}),
        (unknown_method, {2}),
        (unknown_part, {2}),
        (program_as_solver, {2}),
        (no_name_as_solver, {2}),
        (unknown_parameter, {2}),
        (exact_at_the_bottleneck, {0, 4}),
        (huge_value, {1}),
        (huge_k, {1, 2}),
        (huge_work, {1, 2}),
        (tiny_bandwidth, {1, 2}),
        (many_blocks, {1}),
        (many_nodes, {1}),
        (many_bounds, {1}),
    ],
)
@pytest.mark.slow
def test_named_forgeries(forge: Forgery, codes: set[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1 is false, 2 is refused, 4 is trusted: nobody who reads the code is deceived."""
    forged = copy.deepcopy(PLAIN)
    forge(forged)
    assert main(["verify", write(tmp_path, forged), "--time-limit", "2"]) in codes
    assert "Traceback" not in capsys.readouterr().err


def test_a_false_trusted_bound_is_never_called_proved(tmp_path: Path) -> None:
    """Its ratio stands apart, and the exit code says so."""
    forged = copy.deepcopy(PLAIN)
    carried_without_proof(forged)
    verdict = check(forged, tmp_path)
    assert verdict.stated_ratio == 1
    assert verdict.proved_ratio is not None
    assert verdict.proved_ratio > Fraction(101, 100)
    assert verdict.rests_on_trust
