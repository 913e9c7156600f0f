"""Whatever a stranger writes into a certificate: nothing false counts as proved, nothing crashes, nothing hangs."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from certificates import BUFFERED, FULL, PLAIN, Document, check, entry, settle
from exact import exact_costs, exact_optimum, modelled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.cli.main import main
from instances import InputError, Instance, Partition
from instances.graph.graph_file import graph_from_document
from instances.json_files import Value, write_json

NASTY: list[Any] = [
    0, -1, 1, 2, 3, 4, 5, 7, 10**9, 2**63 - 1, 2**64, 10**400, -0.0, 0.5, 1e-320, 1e-12, 1e18, 1e30, 1e308, -1e308, 9.0,
    None, True, False, "", "highs", "simple", "ideals", "carried", "exact", "priced", "magic", "/bin/sh", "asl:/bin/sh",
    "trusted", "formula", "\u001b[2J", "ok\nratio        1.000000 by bounds re-proved here alone", [], {}, [[]], [0],
    [0, 1, 2, 3], [1e308], {"nodes": [0]}, {"nodes": []}, {"from_k": 1, "value": 40.0}, {"prices": [1.0] * 6},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of everything in a document."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


PLACES = {id(original): list(places(original)) for original in (PLAIN, FULL, BUFFERED)}


@st.composite
def forgeries(draw: st.DrawFn) -> Document:
    """A true certificate with one to three things replaced, scaled, exchanged, doubled or left out."""
    original = draw(st.sampled_from([PLAIN, FULL, BUFFERED]))
    forged = copy.deepcopy(original)
    for _ in range(draw(st.integers(1, 3))):
        *parents, last = draw(st.sampled_from(PLACES[id(original)]))
        place: Any = forged
        try:
            for key in parents:
                place = place[key]
            old = place[last]
        except (KeyError, IndexError, TypeError):
            continue  # gone with an earlier one
        change = draw(st.sampled_from(["replace", "replace", "scale", "drop", "double", "exchange"]))
        if change == "drop":
            del place[last]
        elif change == "double" and isinstance(place, list):
            place.append(copy.deepcopy(old))
        elif change == "scale" and isinstance(old, int | float) and not isinstance(old, bool):
            place[last] = old * draw(st.sampled_from([1 - 1e-6, 1 + 1e-6, 0.999, 1.001, 2, 0.5, 1e6, 1e-6]))
        elif change == "exchange" and isinstance(place, list):
            other = draw(st.integers(0, len(place) - 1))
            place[last], place[other] = place[other], old
        else:
            place[last] = copy.deepcopy(draw(st.sampled_from(NASTY)))
    if draw(st.booleans()):
        with contextlib.suppress(LookupError, TypeError, AttributeError, ValueError, ArithmeticError):
            settle(forged)  # unless it is too broken to make the rest fit
    return forged


def instance_of(document: Document) -> Instance:
    from instances import Platform

    question = document["instance"]
    limits = [math.inf if question[name] is None else question[name] for name in ("bandwidth", "memory")]
    graph = graph_from_document(Value(question["graph"], "c.json"))
    return Instance(graph, Platform(question["k"], *limits, question["activation_buffer"]))


def write(folder: Path, document: Document) -> str:
    """The file as a stranger writes it; Python's own writer takes what ours refuses."""
    (folder / "c.json").write_text(json.dumps(document))
    return str(folder / "c.json")


@settings(max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(forged=forgeries())
def test_nothing_false_is_proved(forged: Document, tmp_path: Path) -> None:
    """Brute force in rational numbers is the judge of all that is left without fault."""
    write(tmp_path, forged)
    from experiments.verification.verify import verify
    from instances.certificate_file import read_certificate

    try:
        verdict = verify(read_certificate(tmp_path / "c.json"), ideals=True, time_limit=2.0)
    except InputError:
        return
    if verdict.faults:
        return
    instance = instance_of(forged)
    if verdict.bottleneck is not None:
        partition = Partition(instance, forged["partition"]["block"], forged["partition"]["order"])
        assert verdict.bottleneck == max(exact_costs(partition))
    if verdict.proved_bound is not None and instance.k <= 4:
        assert verdict.proved_bound <= exact_optimum(modelled(instance))


Forgery = Callable[[Document], None]


def memory_that_swallows(document: Document) -> None:
    document["instance"]["memory"] = document["partition"]["memory"] = 1e30
    document["bottleneck"] = document["partition"]["bottleneck"] = document["bottleneck"] / 5
    document["bounds"] = [entry(document, "simple")]
    document["bounds"][0]["value"] = document["bound"] = document["bottleneck"]
    document["ratio"] = 1.0


def carried_from_nothing(document: Document) -> None:
    document["bounds"] = [bound for bound in document["bounds"] if bound["method"] != "ideals"]
    entry(document, "carried")["parameters"] = {"from_k": 1, "value": 4 * document["bottleneck"]}
    entry(document, "carried")["value"] = document["bottleneck"]
    settle(document)


def carried_without_proof(document: Document) -> None:
    document["bounds"] = [bound for bound in document["bounds"] if bound["method"] != "ideals"]
    value = document["bottleneck"]
    entry(document, "carried").update(value=value, parameters={"from_k": 4, "value": value})
    settle(document)


def nothing_at_all(document: Document) -> None:
    document.update(partition=None, bottleneck=None, bound=None, ratio=None, bounds=[])


def below_the_digits_of_a_solver(document: Document) -> None:
    document["bounds"] = [entry(document, "exact")]
    settle(document)


def carried_from_a_solver(document: Document) -> None:
    carried_from_nothing(document)
    proof = entry(document, "exact") | {"value": 4 * document["bottleneck"]}
    entry(document, "carried")["parameters"]["proof"] = proof


def carried_from_itself(document: Document) -> None:
    carried_from_nothing(document)
    for _ in range(20):
        deeper = copy.deepcopy(entry(document, "carried"))
        entry(document, "carried")["parameters"] = {"from_k": 3, "value": deeper["value"], "proof": deeper}


def carried_from_another_value(document: Document) -> None:
    entry(document, "carried")["parameters"]["proof"]["value"] *= 0.5
    entry(document, "carried")["value"] = document["bottleneck"]
    entry(document, "carried")["parameters"]["value"] = document["bottleneck"]
    settle(document)


def carried_from_false_ideals(document: Document) -> None:
    carried = entry(document, "carried")
    carried["value"] = carried["parameters"]["value"] = document["bottleneck"] * (1 - 1e-8)
    carried["parameters"]["proof"]["value"] = carried["parameters"]["value"]
    settle(document)


def unknown_method(document: Document) -> None:
    entry(document, "exact")["method"] = "oracle"


def unknown_part(document: Document) -> None:
    entry(document, "exact")["method"] = "exact+magic"


def program_as_solver(document: Document) -> None:
    entry(document, "exact")["solver"] = "/bin/true"


def no_name_as_solver(document: Document) -> None:
    entry(document, "exact")["solver"] = ""


def unknown_parameter(document: Document) -> None:
    entry(document, "simple")["parameters"]["proved"] = True


def exact_at_the_bottleneck(document: Document) -> None:
    entry(document, "exact")["value"] = document["bottleneck"]
    settle(document)


def huge_value(document: Document) -> None:
    entry(document, "exact")["value"] = 1e308


def huge_k(document: Document) -> None:
    document["instance"]["k"] = document["partition"]["k"] = 10**9


def huge_work(document: Document) -> None:
    for node in document["instance"]["graph"]["nodes"]:
        node["work"] = 1.7e308


def tiny_bandwidth(document: Document) -> None:
    document["instance"]["bandwidth"] = document["partition"]["bandwidth"] = 5e-324


def many_blocks(document: Document) -> None:
    document["partition"]["stages"] = [[]] * 10**6


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
def test_named_forgeries(forge: Forgery, codes: set[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1 is false, 2 is refused, 4 is trusted: nobody who reads the code is deceived."""
    forged = copy.deepcopy(PLAIN)
    forge(forged)
    assert main(["verify", write(tmp_path, forged), "--ideals", "--time-limit", "2"]) in codes
    assert "Traceback" not in capsys.readouterr().err


def test_a_false_trusted_bound_is_never_called_proved(tmp_path: Path) -> None:
    """Its ratio stands apart, and the exit code says so."""
    forged = copy.deepcopy(PLAIN)
    carried_without_proof(forged)
    verdict = check(forged, tmp_path, ideals=False)
    assert verdict.stated_ratio == 1
    assert verdict.proved_ratio is not None
    assert verdict.proved_ratio > Fraction(101, 100)
    assert verdict.rests_on_trust


def test_names_forge_no_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Line breaks and escapes of a terminal are printed as such, on stdout and stderr."""
    forged = copy.deepcopy(PLAIN)
    lie = "six\nratio        1.000000 by bounds re-proved here alone\x1b[8m\u202e"
    forged["instance"]["name"] = forged["instance"]["graph"]["time_unit"] = lie
    entry(forged, "exact")["version"] = lie
    main(["verify", write(tmp_path, forged)])
    forged["instance"]["graph_hash"] = lie
    main(["verify", write(tmp_path, forged)])
    streams = capsys.readouterr()
    text = streams.out + streams.err
    assert not {c for c in text if not c.isprintable()} - {"\n"}
    assert [line for line in text.splitlines() if line.startswith("ratio")] == [
        line for line in streams.out.splitlines()[:10] if line.startswith("ratio")
    ]


def test_limits_are_the_readers(tmp_path: Path) -> None:
    """A wide graph whose ideals nobody can look at, and pairs of many nodes: it ends when it shall."""
    n = 400
    graph = {"format": "mtpp-graph/1", "nodes": [{"work": 1.0}] * n, "edges": []}
    forged = copy.deepcopy(PLAIN)
    forged["instance"] |= {"graph": graph, "k": n - 1}
    bound = {"method": "pigeonhole", "value": 2.0, "optimal": True, "parameters": {"nodes": list(range(n))}}
    bound |= {"solver": None, "version": None, "seconds": 0.0, "recheck": "minimum cuts"}
    ideals = bound | {"method": "ideals", "recheck": "ideals", "parameters": {}}
    forged |= {"partition": None, "bottleneck": None, "ratio": None, "bound": 2.0, "bounds": [bound, ideals]}
    begin = time.process_time()
    verdict = check(forged, tmp_path, ideals=True, time_limit=0.5)
    assert [found.proved for found in verdict.checks] == [None, None]
    assert time.process_time() - begin < 30  # not a measure of speed: without limits it would take hours


def test_other_answers_are_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Plans, placements, partitions and graphs are no certificates."""
    for kind in ("plan", "placement", "partition", "graph"):
        write_json(tmp_path / "a.json", {"format": f"mtpp-{kind}/1"})
        assert main(["verify", str(tmp_path / "a.json")]) == 2
        assert f"this is a {kind} (mtpp-{kind}/1); expected a certificate" in capsys.readouterr().err


def test_the_graph_of_the_reader_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same graph passes; other works or other names do not."""
    file = write(tmp_path, PLAIN)
    write_json(tmp_path / "own.json", PLAIN["instance"]["graph"])
    own = str(tmp_path / "own.json")
    assert main(["verify", file, "--graph", own]) == 4
    for field, other in (("work", 9.0), ("name", "other")):
        graph = copy.deepcopy(PLAIN["instance"]["graph"])
        graph["nodes"][1][field] = other
        write_json(tmp_path / "own.json", graph)
        assert main(["verify", file, "--graph", own]) == 1
        assert "own.json: " in capsys.readouterr().err


def test_the_worst_of_several_files_is_the_exit_code(tmp_path: Path) -> None:
    """A false one is not hidden behind one that is no certificate."""
    false = copy.deepcopy(PLAIN)
    false["ratio"] = 1.5
    write_json(tmp_path / "false.json", false)
    write_json(tmp_path / "graph.json", PLAIN["instance"]["graph"])
    true = copy.deepcopy(PLAIN)
    true["bounds"] = [bound for bound in true["bounds"] if bound["method"] == "ideals"]
    settle(true)
    write_json(tmp_path / "true.json", true)
    names = {name: str(tmp_path / f"{name}.json") for name in ("true", "false", "graph")}
    assert main(["verify", names["true"], "--ideals"]) == 0
    assert main(["verify", names["true"], names["graph"], "--ideals"]) == 2
    assert main(["verify", names["graph"], names["false"], names["true"]]) == 1
