"""`mtpp verify` accepts what is true, and no number that can be checked can be forged."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from brute_force import best_partition
from hypothesis import HealthCheck, given, settings
from strategies import instances

import experiments
from experiments.certificate_files import certificate_document, read_certificate
from experiments.cli import main
from experiments.recheck import Network, work_bound
from experiments.verdicts import Verdict
from experiments.verifying import verify
from instances import Bound, ComputationGraph, Instance, Partition, Platform, Result, SharedParameter
from instances.documents import Value, write_json
from instances.serialization import graph_from_document
from mtpp_models import solve

Document = dict[str, Any]

# The optimum of 3 blocks, {0, 1, 3}, {2, 4}, {5}, is above all bounds by minimum cuts; each of these has one witness.
EDGES = [(0, 1), (1, 2, 0), (1, 3, 1), (2, 4), (3, 4), (4, 5)]
GRAPH = ComputationGraph.from_edges(
    EDGES,
    [4.2, 2.6, 1.7, 1.8, 4.8, 4.8],
    [[4.1], [2.0, 0.3], [4.4], [1.7], [2.3], [3.5]],
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    parameters=(SharedParameter("table", 2.0, (0, 4)),),
    name="six",
)


def answers(instance: Instance) -> list[Result]:
    """The optimum and bounds of every kind, all of them true."""
    best = best_partition(instance)
    n, network = instance.graph.n, Network(instance)
    alone = [network.least_cost([v], 2 * best.bottleneck) for v in range(n)]
    node = alone.index(max(alone))
    pairs = {pair: network.least_cost(pair, 100.0) for pair in combinations(range(n), 2)}
    groups = combinations(range(n), min(n, instance.k + 1))
    crowd = max(groups, key=lambda group: min((pairs[pair] for pair in combinations(group, 2)), default=0.0))
    least = min((pairs[pair] for pair in combinations(crowd, 2)), default=0.0)
    relaxed = Instance(instance.graph, Platform(instance.k, instance.platform.bandwidth))
    optimum = best_partition(relaxed).bottleneck
    finer = best_partition(relaxed.with_k(instance.k + 1)).bottleneck
    bounds = [
        Bound(work_bound(instance), "simple"),
        Bound(alone[node], "pinned", witness={"nodes": [node]}),
        Bound(optimum * (1 - 1e-12), "ideals"),
    ]
    if n > instance.k:
        bounds.append(Bound(least, "pigeonhole", witness={"nodes": list(crowd)}))
    found = [Result(bound.method, instance, best, bound, {"solve": 0.5}) for bound in bounds]
    if not instance.has_overflow:
        carried = Bound(finer, "carried", witness={"from_k": instance.k + 1, "value": finer})
        found.append(Result("carried", instance, best, carried))
    exact = Bound(optimum * (1 - 1e-6), "exact", witness={"time_limit": 60.0, "gap": 0.0})
    return [*found, Result("exact", instance, best, exact, {"solve": 0.5}, "highs 1.0")]


def document(**platform: Any) -> Document:
    """A true certificate."""
    return certificate_document(answers(Instance(GRAPH, Platform(**{"k": 3, "bandwidth": 2.0, **platform}))))


PLAIN = document()
FULL = document(memory=9.0)  # with true peaks, so that the order counts
BUFFERED = document(memory=8.0, activation_buffer=2.0)


def check(document: Document, folder: Path, **options: Any) -> Verdict:
    write_json(folder / "c.json", document)
    return verify(read_certificate(folder / "c.json"), **options)


def settle(document: Document) -> None:
    """What a careful forger does: recompute all that follows from the other numbers."""
    instance, partition = document["instance"], document["partition"]
    graph = graph_from_document(Value(instance["graph"], "c.json"))
    instance["graph_hash"] = partition["graph_hash"] = graph.content_hash
    for name in ("k", "bandwidth", "memory", "activation_buffer"):
        partition[name] = instance[name]
    partition["stages"] = [[] for _ in range(instance["k"])]
    for v in partition["order"][: len(partition["block"])]:
        partition["stages"][partition["block"][v] % instance["k"]].append(graph.names[v])
    partition["bottleneck"] = document["bottleneck"]
    document["bound"] = max(entry["value"] for entry in document["bounds"])
    document["ratio"] = max(1.0, document["bottleneck"] / document["bound"])


def numbers(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of all numbers in a document."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(item, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def is_free(document: Document, path: tuple[str | int, ...]) -> bool:
    """Seconds and what only a solver can check, a bound below the bottleneck and its parameters, are believed."""
    if path[0] != "bounds":
        return False
    bound = document["bounds"][path[1]]
    trusted = bound["method"] == "exact" and bound["value"] < document["bottleneck"]
    return path[2] == "seconds" or (path[2] == "parameters" and bound["recheck"] == "trusted") or trusted


def entry(document: Document, method: str) -> Document:
    return next(bound for bound in document["bounds"] if bound["method"] == method)


@pytest.mark.parametrize("document", [PLAIN, FULL, BUFFERED], ids=["no limit", "peaks", "buffer"])
def test_what_is_true_is_accepted(document: Document, tmp_path: Path) -> None:
    """Everything but a solver's word is proved again."""
    verdict = check(document, tmp_path, ideals=True)
    assert verdict.faults == ()
    assert verdict.bottleneck == pytest.approx(document["bottleneck"], rel=1e-12)
    trusted = {c.claim.method for c in verdict.checks if c.proved is None}
    assert trusted == {"exact", "carried"} & {bound["method"] for bound in document["bounds"]}
    proved = [c.claim.value for c in verdict.checks if c.proved is not None]
    assert verdict.proved_ratio == pytest.approx(document["bottleneck"] / max(proved), rel=1e-8)
    assert verdict.stated_ratio == pytest.approx(document["ratio"], rel=1e-12)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=instances(max_nodes=5, max_k=3))
def test_no_true_certificate_is_refused(question: Instance, tmp_path: Path) -> None:
    """Zero weights, huge ratios, shared parameters, overflow with and without a buffer."""
    assert check(certificate_document(answers(question)), tmp_path, ideals=True).faults == ()


@pytest.mark.parametrize("factor", [1 + 1e-6, 2.0])
@pytest.mark.parametrize("name", ["no limit", "peaks", "buffer"])
def test_every_number_counts(name: str, factor: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each number in turn is made larger: exit code 1, or 2 where the file makes no sense any more."""
    original = {"no limit": PLAIN, "peaks": FULL, "buffer": BUFFERED}[name]
    accepted = []
    for path in numbers(original):
        forged = copy.deepcopy(original)
        *parents, last = path
        place: Any = forged
        for key in parents:
            place = place[key]
        place[last] = place[last] + 1 if isinstance(place[last], int) or place[last] == 0 else place[last] * factor
        write_json(tmp_path / "c.json", forged)
        code = main(["verify", str(tmp_path / "c.json"), "--ideals"])
        if code == 0 and not is_free(forged, path):
            accepted.append(path)
        assert code in (0, 1, 2)
    assert accepted == []
    assert "Traceback" not in capsys.readouterr().err


Forgery = Callable[[Document], None]


def other_block(document: Document) -> None:
    document["partition"]["block"][1] = 1


def backward_block(document: Document) -> None:
    document["partition"]["block"] = document["partition"]["block"][::-1]


def short_block(document: Document) -> None:
    document["partition"]["block"].pop()


def bottleneck(document: Document) -> None:
    document["bottleneck"] *= 0.999


def order(document: Document) -> None:
    document["partition"]["order"][:2] = [1, 0]


def work(document: Document) -> None:
    document["instance"]["graph"]["nodes"][2]["work"] = 0.5


def output_bytes(document: Document) -> None:
    document["instance"]["graph"]["nodes"][1]["output_bytes"] = [0.0, 0.0]


def lost_edge(document: Document) -> None:
    document["instance"]["graph"]["edges"].remove([1, 2, 0])


def fewer_blocks(document: Document) -> None:
    document["instance"]["k"] = 2


def more_blocks(document: Document) -> None:
    document["instance"]["k"] = 4


def faster(document: Document) -> None:
    document["instance"]["bandwidth"] *= 2


def little_memory(document: Document) -> None:
    document["instance"]["memory"] = 5.0


@pytest.mark.parametrize(
    "forge",
    [other_block, backward_block, short_block, bottleneck, order, work, output_bytes, lost_edge, fewer_blocks,
     more_blocks, faster, little_memory],
)  # fmt: skip
def test_a_careful_forger_is_caught(forge: Forgery, tmp_path: Path) -> None:
    """Even if hash, copies and ratio are made to fit."""
    forged = copy.deepcopy(PLAIN)
    forge(forged)
    settle(forged)
    assert check(forged, tmp_path).faults != ()


@pytest.mark.parametrize("method", ["simple", "pinned", "pigeonhole", "ideals", "carried"])
@pytest.mark.parametrize("factor", [1 + 1e-6, 1.5])
def test_a_bound_that_is_too_high_is_named(method: str, factor: float, tmp_path: Path) -> None:
    """With the claimed value; the check comes from the method, so the label "trusted" does not help."""
    forged = copy.deepcopy(PLAIN)
    bound = entry(forged, method)
    bound["value"] *= factor
    settle(forged)
    place = f"bounds[{forged['bounds'].index(bound)}] ({method}): "
    [fault] = [fault for fault in check(forged, tmp_path, ideals=True).faults if fault.startswith(place)]
    assert repr(bound["value"]) in fault
    bound |= {"recheck": "solver", "solver": "highs", "version": "1.0"}
    assert any(fault.startswith(place) for fault in check(forged, tmp_path).faults)


def test_a_solver_cannot_be_trusted_beyond_the_partition(tmp_path: Path) -> None:
    """A bound above a bottleneck is false whoever says it."""
    forged = copy.deepcopy(PLAIN)
    entry(forged, "exact")["value"] = forged["bottleneck"] * 1.01
    settle(forged)
    [fault] = check(forged, tmp_path).faults
    assert "above the bottleneck" in fault


def test_what_the_formula_proves_needs_no_trust(tmp_path: Path) -> None:
    """A solver, or ideals that were too many, that say no more than *simple* does."""
    weak = copy.deepcopy(PLAIN)
    for method in ("exact", "ideals", "carried"):
        entry(weak, method)["value"] = entry(weak, "simple")["value"]
    settle(weak)
    assert all(c.proved is not None for c in check(weak, tmp_path).checks)


@pytest.mark.parametrize("method", ["exact", "magic"])
def test_nobody_is_not_trusted(method: str, tmp_path: Path) -> None:
    """A bound that nothing checks needs the name of a solver."""
    forged = copy.deepcopy(PLAIN)
    entry(forged, "exact").update(method=method, solver=None, version=None)
    [fault] = check(forged, tmp_path).faults
    assert "no solver" in fault


@pytest.mark.parametrize(
    ("method", "nodes", "reason"),
    [
        ("pinned", [5], "only"),
        ("pinned", [0, 2], "it takes 1"),
        ("pinned", [6], "does not exist"),
        ("pigeonhole", [0, 2, 4], "it takes 4"),
        ("pigeonhole", [0, 0, 2, 4], "twice"),
        ("pigeonhole", [-1, 0, 2, 4], "does not exist"),
        ("pigeonhole", [0, 1, 4, 5], "only"),
    ],
)
def test_the_nodes_must_carry_the_bound(method: str, nodes: list[int], reason: str, tmp_path: Path) -> None:
    forged = copy.deepcopy(PLAIN)
    entry(forged, method)["parameters"]["nodes"] = nodes
    [fault] = check(forged, tmp_path).faults
    assert f"({method})" in fault
    assert reason in fault


@pytest.mark.parametrize(("value", "faults"), [(7.5, 0), (7.6, 1)])
def test_two_blocks_of_three_hold_two_at_most(value: float, faults: int, tmp_path: Path) -> None:
    """Of 3 blocks the first two are merged, so half of a bound for 2 blocks holds, not two thirds."""
    carried = copy.deepcopy(PLAIN)
    entry(carried, "carried").update(value=value, parameters={"from_k": 2, "value": 15.0})
    assert len(check(carried, tmp_path).faults) == faults


def test_no_bound_is_carried_to_more_blocks_with_finite_memory(tmp_path: Path) -> None:
    """Merged blocks would share the memory of one."""
    forged = copy.deepcopy(BUFFERED)
    forged["bounds"].append(entry(PLAIN, "carried") | {"value": 7.0, "parameters": {"from_k": 2, "value": 14.0}})
    [fault] = check(forged, tmp_path).faults
    assert "finite memory" in fault


def test_ideals_are_left_alone_unless_asked_for(tmp_path: Path) -> None:
    """Then they count with what is trusted."""
    verdict = check(PLAIN, tmp_path)
    [ideals] = [c for c in verdict.checks if c.claim.method == "ideals"]
    assert ideals.proved is None
    assert "--ideals" in ideals.how
    assert verdict.faults == ()


def test_too_many_ideals_are_said(tmp_path: Path) -> None:
    verdict = check(PLAIN, tmp_path, ideals=True, pairs=3)
    [ideals] = [c for c in verdict.checks if c.claim.method == "ideals"]
    assert (ideals.proved, ideals.how) == (None, "not re-checked: more than 3 pairs of ideals")
    assert verdict.faults == ()


def test_rerun_finds_what_only_a_solver_can(tmp_path: Path) -> None:
    """A poor partition leaves room for a false exact bound, which holds until a solver is asked again."""
    instance = Instance(GRAPH, Platform(3, 2.0))
    poor = Partition(instance, [0] * 6)
    proof = solve(instance, "exact", start=poor)
    assert proof.bound is not None
    true = certificate_document([Result("exact", instance, poor, proof.bound, {"solve": 1.0}, proof.solver)])
    [found] = check(true, tmp_path, rerun=True).checks
    assert proof.solver is not None
    assert found.how == f"trusted from {proof.solver}, solved again with {proof.solver}"
    forged = copy.deepcopy(true)
    forged["bounds"][0]["value"] = forged["bound"] = proof.bound.value * 1.01
    forged["ratio"] = poor.bottleneck / forged["bound"]
    assert check(forged, tmp_path).faults == ()
    [fault] = check(forged, tmp_path, rerun=True).faults
    assert fault.startswith("bounds[0] (exact): ")


def test_the_command_says_what_is_proved_and_what_is_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two ratios, apart; one row per bound."""
    write_json(tmp_path / "c.json", PLAIN)
    assert main(["verify", str(tmp_path / "c.json")]) == 0
    head, table = capsys.readouterr().out.split("\n\n")
    assert "re-proved here alone" in head
    assert "with ideals, not re-checked (--ideals does)" in head
    assert "trusted from highs 1.0" in table
    assert [line.split()[0] for line in table.splitlines()[1:]] == [bound["method"] for bound in PLAIN["bounds"]]


def test_the_command_names_the_false_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, with what is claimed and what is true; nothing is headlined."""
    forged = copy.deepcopy(PLAIN)
    forged["ratio"] = 1.25
    write_json(tmp_path / "c.json", forged)
    assert main(["verify", str(tmp_path / "c.json")]) == 1
    streams = capsys.readouterr()
    assert "ratio: 1.25 is claimed, " in streams.err
    assert "re-proved here alone" not in streams.out


def test_the_command_refuses_what_is_no_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(tmp_path / "c.json", {"format": "mtpp-graph/1"})
    assert main(["verify", str(tmp_path / "c.json")]) == 2
    assert main(["verify", str(tmp_path / "none.json")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_certify_writes_what_verify_accepts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one verb to the other, several files at once."""
    monkeypatch.chdir(tmp_path)
    write_json("six.json", PLAIN["instance"]["graph"])
    assert main(["certify", "six.json", "-k", "2,3", "--bandwidth", "2", "--time-limit", "10", "--out", "c.json"]) == 0
    assert main(["verify", "c-k2.json", "c-k3.json", "--ideals"]) == 0
    forged = json.loads(Path("c-k2.json").read_text())
    forged["bottleneck"] *= 0.9
    write_json("c-k2.json", forged)
    assert main(["verify", "c-k2.json", "c-k3.json"]) == 1


def test_verify_is_independent(tmp_path: Path) -> None:
    """It imports neither the searches nor the models, nor their packages."""
    write_json(tmp_path / "c.json", PLAIN)
    script = (
        "import sys; from experiments.cli import main\n"
        "assert main(['verify', sys.argv[1], '--ideals']) == 0\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "sys.exit(', '.join({'heuristics', 'mtpp_models', 'pyomo', 'numba', 'highspy'} & loaded) or 0)"
    )
    root = str(Path(experiments.__file__).parent.parent)
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "c.json")],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
