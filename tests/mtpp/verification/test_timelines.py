"""Plans with all their times: what is true passes, and each false number is named."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from answer_files import covered_plan_file
from certificates import plain
from shared_plans import random_orders, random_plan, random_question

from heuristics.planning.execution import warmed_up
from heuristics.planning.orders import execute_orders, interleaved, portfolio, zero_bubble
from instances import InputError
from instances.devices import NetworkCards
from instances.json_files import Value
from instances.planning import Cluster, Iteration, LayerChain, Plan, TrainingInstance
from instances.planning.operations import PassLists
from mtpp.problems.checking import rerun, verify
from mtpp.verification.verdict import Verdict
from mtpp_models.planning.solve import class_of

Document = dict[str, Any]


def written(plan: Plan, orders: PassLists) -> Document:
    timeline = execute_orders(plan, orders, "by hand")
    return covered_plan_file("by hand", Iteration(plan.instance, (timeline,)))


def check(document: Document) -> Verdict:
    return verify(Value(document, "plan.json"))


def question(**options: Any) -> TrainingInstance:
    chain = LayerChain(
        forward=[1.1, 2.3, 1.7, 2.9],
        backward=[2.2, 4.1, 3.7, 5.9],
        forward_bytes=[4, 3, 2],
        backward_bytes=[3, 4, 5],
        param_bytes=[6, 7, 8, 9],
        input_backward=[1.0, 2.0, 1.5, 3.0],
        name="four",
    )
    network = options.pop("network", NetworkCards())
    return TrainingInstance(chain, Cluster.of_servers([2, 2], 2.0, 1.0, "pairs"), 4, network=network, **options)


def split_plan(**options: Any) -> Document:
    """Two replicated stages, each on two servers, so that AllReduces and transfers share cards."""
    plan = Plan(question(**options), (0, 2, 4), ((0, 2), (1, 3)))
    return written(plan, zero_bubble(plan, 1, 2)[0])


def interleaved_plan() -> Document:
    plan = Plan(question(), (0, 1, 2, 3, 4), ((0,), (2,)) * 2)
    return written(plan, interleaved(2, 2, 4))


def test_what_the_simulator_makes_is_true() -> None:
    """Random plans in random orders, also interleaved ones, with recomputation, half-duplex cards and whole samples."""
    rng = np.random.default_rng(0)
    for number in range(50):
        instance = random_question(rng, ties=bool(number % 2))
        plan = random_plan(rng, instance, repeated=number % 3 == 0)
        if len(plan.groups) < plan.n_stages and instance.microbatches % len(plan.groups):
            continue
        orders = random_orders(rng, plan)
        if not any(kind == 3 for order in orders for kind, _, _ in order) and number % 4 == 1:
            plan = replace(plan, instance=replace(instance, recomputation=True))
            plan = replace(plan, recompute=(True,) * plan.n_stages)
        verdict = check(written(plan, orders))
        assert verdict.faults == ()
        assert verdict.proved_bound is not None
        again = rerun(verdict, time_limit=10.0)
        assert not again.faults
        assert not again.rests_on_trust


def _later(kind: str, row: int, place: int, by: float) -> Callable[[Document], None]:
    def forge(document: Document) -> None:
        for moments in ("starts", "ends"):
            document["answer"][moments][kind][row][place] += by

    return forge


def _set(*path: Any, to: Any) -> Callable[[Document], None]:
    def forge(document: Document) -> None:
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return forge


def _swap_passes(document: Document) -> None:
    order = document["answer"]["order"][0]
    order[0], order[1] = order[1], order[0]


def _faster_card(document: Document) -> None:
    document["question"]["network"]["rates"] = [100.0, 100.0]


def _shorter(kind: str, row: int, place: int) -> Callable[[Document], None]:
    def forge(document: Document) -> None:
        start, end = document["answer"]["starts"][kind][row][place], document["answer"]["ends"][kind][row][place]
        document["answer"]["ends"][kind][row][place] = start + 0.9 * (end - start)

    return forge


def _drop_weights(document: Document) -> None:
    document["answer"]["order"][1] = [cell for cell in document["answer"]["order"][1] if "W" not in cell]


FORGERIES: dict[str, tuple[Callable[[Document], None], str]] = {
    "a shorter time": (_set("cost", to=10.0), "cost"),
    "a longer time": (_set("cost", to=1000.0), "cost"),
    "a pass that starts too early": (_later("forward", 1, 0, -0.5), "before|lasts|starts"),
    "a pass that is too short": (_shorter("forward", 0, 0), "0F0 lasts"),
    "a backward pass that is too short": (_shorter("backward", 1, 2), "1I2 lasts"),
    "gradients of weights that are too short": (_shorter("weights", 1, 3), "1W3 lasts"),
    "a transfer that is too short": (_shorter("send", 0, 1), "send of stage 0 runs for"),
    "gradients that are too fast": (_shorter("receive", 0, 3), "receive|overlap|runs for"),
    "an AllReduce that is too fast": (_shorter("allreduce", 0, 0), "allreduce of stage 0 runs for"),
    "an AllReduce that starts early": (_later("allreduce", 0, 1, -3.0), "allreduce of stage 1"),
    "a transfer before its pass": (_later("send", 0, 0, -1.0), "send of stage 0"),
    "gradients before their pass": (_later("receive", 0, 0, -5.0), "receive of stage 0|overlap"),
    "weights before inputs": (_later("weights", 0, 0, -30.0), "before"),
    "passes in another order": (_swap_passes, "starts before the pass before it ends"),
    "a pass that is left out": (_drop_weights, "stage 1 does not run both passes"),
    "less memory than needed": (_set("answer", "peak_bytes", 0, to=1.0), "peak_bytes"),
    "a device twice": (_set("answer", "devices", 1, to=[0, 3]), "used twice"),
    "a device that is not there": (_set("answer", "devices", 1, to=[1, 9]), "does not exist"),
    "cuts of another chain": (_set("answer", "cuts", to=[0, 2, 3]), "cuts do not rise"),
    "recomputation that nobody allowed": (_set("answer", "recompute", 0, to=True), "recomputes"),
    "a bound above the time": (_set("bounds", 0, "value", to=500.0), "above the time"),
    "a false even share": (_set("bounds", 1, "value", to=26.0), "is proved"),
    "a bound for other plans": (_set("bounds", 0, "method", to="z-fixed"), "class split"),
    "another hash": (_set("question_hash", to="q2:0"), "question_hash"),
    "faster cards": (_faster_card, "question_hash|runs for"),
    "a time before the start": (_set("answer", "starts", "forward", 0, 0, to=-1.0), "before the iteration"),
    "a missing time": (_set("answer", "starts", "send", 0, 0, to=None), "none where there is one"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_planted_faults_are_named(name: str) -> None:
    forge, words = FORGERIES[name]
    document = plain(split_plan())
    forge(document)
    verdict = check(document)
    assert any(re.search(words, fault) for fault in verdict.faults), verdict.faults
    assert all("\n" not in fault for fault in verdict.faults)


@pytest.mark.parametrize("document", [split_plan(), interleaved_plan()], ids=["split", "interleaved"])
def test_each_time_that_is_changed_is_found(document: Document) -> None:
    """Every single start and end, up and down."""
    rng = np.random.default_rng(1)
    for moments in ("starts", "ends"):
        for kind, rows in document["answer"][moments].items():
            for n, row in enumerate(rows):
                for m in rng.permutation(len(row))[:2].tolist():
                    used = document["answer"]["starts"][kind][n][m] != document["answer"]["ends"][kind][n][m]
                    if row[m] is None or not used:
                        continue
                    for by in (-0.01, 0.01):
                        forged = copy.deepcopy(document)
                        forged["answer"][moments][kind][n][m] = max(0.0, row[m] + by)
                        if forged["answer"][moments][kind][n][m] != row[m]:
                            assert check(forged).faults, (moments, kind, n, m, by)


def test_an_idle_card_lets_a_delay_pass() -> None:
    """A schedule may wait: what starts and ends later, and disturbs nothing, is still a schedule."""
    plan = Plan(question(), (0, 4), ((0,),))
    document = written(plan, warmed_up([1], 4))
    for moments in ("starts", "ends"):
        document["answer"][moments]["backward"][0][3] += 1.0
        document["answer"][moments]["allreduce"][0][0] += 1.0
    assert any(fault.startswith("cost") for fault in check(document).faults)
    document["cost"] += 1.0
    assert [fault for fault in check(document).faults if not fault.startswith("ratio")] == []


def test_bounds_hold_for_the_class_of_the_plan() -> None:
    """Interleaved plans are certified by the bound for any plan alone."""
    assert [claim["method"] for claim in interleaved_plan()["bounds"]] == ["work-any"]
    assert [claim["method"] for claim in split_plan()["bounds"]] == ["z-split", "work-any"]
    plan = Plan(question(), (0, 2, 4), ((0, 1), (2, 3)))
    assert class_of(execute_orders(plan, warmed_up([2, 1], 4))) == "fixed"


def test_strange_files_are_refused_in_one_line() -> None:
    for forge in (
        _set("answer", "order", 0, 0, to="0X0"),
        _set("answer", "order", 0, 0, to=3),
        _set("answer", "starts", "forward", to="now"),
        _set("question", "network", to={"half": False, "rates": [0.0, 1.0]}),
        _set("question", "network", to={"half": False, "rates": [1.0]}),
        _set("question", "samples", to=0),
        _set("provenance", to=1),
        _set("more", to=1),
    ):
        document = copy.deepcopy(split_plan())
        forge(document)
        with pytest.raises(InputError) as refusal:
            check(document)
        assert "\n" not in str(refusal.value)


def test_bug_transfers_too_short_to_show_slowed_down_what_came_later() -> None:
    """One that starts and ends at the same time, as floats have it, was counted as running to the end."""
    rare = 1e-12
    chain = LayerChain([1.0, 5.0, 6.0], [1.0, 3.0, 1.0], [4945.0, 594.0], [2e-12, 5.0], [4e4, 1e-12, 4e11])
    instance = TrainingInstance(chain, Cluster(np.full((4, 4), rare), (1, 1, 2)), 2, network=NetworkCards())
    plan = Plan(instance, (0, 1, 2, 3), ((3,), (2, 0), (1,)))
    for _, orders in portfolio(plan):
        assert check(written(plan, orders)).faults == ()


@pytest.mark.parametrize(
    ("order", "waits"),
    [
        ([["0B0", "0F0", "0F1", "0B1"], ["1F0", "1B0", "1F1", "1B1"]], "0B0"),
        ([["0F0", "0B0", "0F1", "0B1"], ["1F0", "1F1", "1B0", "1B1"]], "0B0"),
        ([["0F0", "0F1", "0B0", "0B1"], ["1B0", "1F0", "1F1", "1B1"]], "0B0"),
    ],
)
def test_an_order_that_waits_for_ever_names_the_first_pass_that_does(order: list[list[str]], waits: str) -> None:
    """Whatever the times are; groups may wait for each other."""
    chain = LayerChain([1.0, 1.0], [2.0, 2.0], [1.0], [1.0], [1.0, 1.0])
    instance = TrainingInstance(chain, Cluster.of_servers((1, 1), 1.0, 1.0), 2, network=NetworkCards())
    plan = Plan(instance, (0, 1, 2), ((0,), (1,)))
    document = written(plan, next(iter(portfolio(plan)))[1])
    assert check(document).faults == ()
    document["answer"]["order"] = order
    assert f"plan: {waits} waits for ever in this order" in check(document).faults
