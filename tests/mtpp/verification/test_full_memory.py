"""Plans of strangers that fill the memory of their devices."""

from __future__ import annotations

import pytest
from certificates import hashed, plain

from heuristics.planning.execution import execute
from instances.json_files import Value
from instances.planning import Cluster, Iteration, LayerChain, Plan, TrainingInstance
from mtpp.certifying.methods import PlanResult
from mtpp.problems.checking import certificate_document, verify


@pytest.mark.parametrize(("memory", "fits"), [(76.0, True), (76 * (1 - 1e-6), False), (92.0, True)])
def test_a_stage_may_fill_the_memory(memory: float, fits: bool) -> None:
    """Four copies of 13 bytes of parameters, and 6 bytes for each of four microbatches, are 76 in the first stage."""
    chain = LayerChain([1, 2, 3, 4], [2, 2, 2, 2], [4, 4, 4], [4, 4, 4], [6, 7, 4, 4], [3, 3, 3, 3])
    free = TrainingInstance(chain, Cluster.of_servers((1, 1), 2.0, 1.0), 4)
    plan = Plan(free, (0, 2, 4), ((0,), (1,)))
    schedule = execute(plan, [4, 4])
    document = plain(certificate_document([PlanResult("by hand", free, Iteration(free, (schedule,)))]))
    document["question"]["memory"] = memory
    faults = verify(Value(hashed(document), "plan.json")).faults
    assert not faults if fits else ["needs 76.0 bytes" in fault for fault in faults] == [True]
