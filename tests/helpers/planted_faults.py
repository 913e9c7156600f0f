"""Faults that tests plant into a copy of the sources, and what a user of the copy does."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FAULTS", "USE_RULE", "Fault"]

# What a user of the faulty copy does: prove a bound from a poor start, which leaves room for a false one, and write it.
USE = """
import sys
from mtpp.certifying.certify import from_other_k
from mtpp.problems.checking import certificate_document
from instances import ComputationGraph, Instance, Partition, Platform
from instances.json_files import write_json
from mtpp_models import solve

graph = ComputationGraph.from_edges(
    [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5)], [4.2, 2.6, 1.7, 1.8, 4.8, 4.8], [4.1, 2.0, 4.4, 1.7, 2.3, 3.5]
)
instance = Instance(graph, Platform(3, 2.0))
answer = solve(instance, sys.argv[1], start=Partition(instance, [0] * 6))
if len(sys.argv) > 3:  # carry it to more blocks
    [answer] = from_other_k([answer], instance.with_k(4))
write_json(sys.argv[2], certificate_document([answer]))
"""

# The same for plans and placements, by methods whose answers show the fault.
USE_PLAN = """
import sys
import numpy as np
from mtpp.certifying.methods import certify_plan
from mtpp.problems.checking import certificate_document
from instances.json_files import write_json
from instances.planning import Cluster, LayerChain, TrainingInstance

chain = LayerChain([1.1, 2.3], [2.2, 4.1], [4.0], [3.0], [6.0, 7.0])
instance = TrainingInstance(chain, Cluster.of_servers([2], 2.0), 4)
write_json(sys.argv[2], certificate_document([certify_plan(instance, np.random.default_rng(0), sys.argv[1])]))
"""
USE_PLACEMENT = """
import sys
from mtpp.problems.checking import certificate_document
from instances import Bound, ComputationGraph, Result
from instances.json_files import write_json
from instances.machines import Machines
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)], [1.5, 2.5, 2.0, 1.0], [3.0, 3.0, 3.0, 0.0])
placement = Placement(PlacementInstance(graph, Machines.alike(2, 3.0)), [0, 0, 1, 0])
bound = Bound(placement.instance.lower_bound, "simple")
write_json(sys.argv[2], certificate_document([Result(sys.argv[1], placement.instance, placement, bound)]))
"""

# And for serving fronts.
USE_SERVING = """
import sys
from instances import Instance, Platform
from instances.architectures import ARCHITECTURES
from instances.json_files import write_json
from instances.runtimes import RUNTIMES
from instances.runtimes.serving import serving_chain
from instances.runtimes.serving_front import Front
from mtpp.problems.checking import certificate_document
from instances import Result
from mtpp_models.bounds.serving import serving_front

graph = ARCHITECTURES["gpt2"].build(phase="decode", batch=32)
question = serving_chain(Instance(graph, Platform(3, 64e9, 4e8, fit=True)), RUNTIMES[sys.argv[1]])
points = serving_front(question).points
front = Result("front", question, Front(question, points, points[0], sys.argv[1]))
write_json(sys.argv[2], certificate_document([front]))
"""

# A user whose question has a rule, and who takes a partition, and a bound of *simple*, for an answer to it.
USE_RULE = """
import sys
from mtpp.problems.checking import certificate_document
from instances import ComputationGraph, Instance, Partition, Platform
from instances.json_files import write_json
from mtpp_models import solve

graph = ComputationGraph.from_edges(
    [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], [4.2, 2.6, 1.7, 1.8, 4.8, 4.8], [1.0] * 6, [4.0] * 6
)
fit = sys.argv[1] == "fit"
rules = {
    "together": {"together": [[1, 3]]},
    "windows": {"windows": {5: 2}},
    "at least": {"at_least": [(1, range(6))]},
    "fit": {},
}
instance = Instance(graph, Platform(3, 2.0, 16.0 if fit else float("inf"), 0.0, fit), **rules[sys.argv[1]])
block = [int(digit) for digit in sys.argv[3]]
write_json(sys.argv[2], certificate_document([solve(instance, "simple", start=Partition(instance, block))]))
"""


class Fault(NamedTuple):
    """A line of a file that becomes another one; which bound or planner to ask for; or which pillar falls.

    The pillar is a file of tests, or one of them. With a rule, the user takes the blocks for an answer.
    """

    file: str
    line: str
    planted: str
    use: tuple[str, ...] = ()
    pillar: str = ""
    script: str = USE
    rule: tuple[str, str] | None = None
    words: str = "is claimed"


FAULTS = {
    "time of an AllReduce": Fault(
        "instances/planning/plan.py",
        "_time(2 * (len(stage) - 1) * self.param_bytes[n]",
        "_time((len(stage) - 1) * self.param_bytes[n]",
        ("data-parallel",),
        script=USE_PLAN,
    ),
    "time of a transfer": Fault(
        "instances/planning/plan.py",
        "len(source) * len(target) * slowest)",
        "2 * len(source) * len(target) * slowest)",
        ("gpipe",),
        script=USE_PLAN,
    ),
    "bus of a placement": Fault(
        "instances/placement/placement.py",
        "end = self.now + self.instance.transfer_time(t, source, targets)",
        "end = self.now + 0.9 * self.instance.transfer_time(t, source, targets)",
        ("by hand",),
        script=USE_PLACEMENT,
    ),
    "reduction": Fault(
        "instances/partitioning/symmetry.py",
        "graph.topological_order[graph.work[graph.topological_order] == 0]",
        "graph.topological_order[graph.work[graph.topological_order] <= 5]",
        ("ideals",),
    ),
    "flow": Fault("mtpp_models/cuts/max_flow.py", "\n    return total\n", "\n    return 2 * total\n", ("pinned",)),
    "pair cuts": Fault(
        "mtpp_models/cuts/cuts.py",
        "cost[u, v] = cost[v, u] = flow",
        "cost[u, v] = cost[v, u] = flow + flow // 4",
        ("pigeonhole",),
    ),
    "ideals": Fault(
        "mtpp_models/bounds/ideals/dynamic_program.py",
        "more + max(0.0, cut[j] - sends_on)",
        "more + 5.0 * max(0.0, cut[j] - sends_on)",
        ("ideals",),
    ),
    "absorbed ideals": Fault(
        "mtpp_models/bounds/ideals/dynamic_program.py",
        "if outside[arrays.input_tensor[f]] == 1:",
        "if outside[arrays.input_tensor[f]] >= 1:",
        pillar="mtpp_models/bounds/test_ideals.py::test_a_program_of_its_own_finds_nothing_better",
    ),
    "tensors that pass a node": Fault(
        "mtpp_models/bounds/ideals/dynamic_program.py",
        "_unions(before[reader], first) & ~touch[tensors[read[first]]]",
        "_unions(before[reader], first)",
        pillar="mtpp_models/bounds/test_passing_tensors.py::test_it_does_not_pass_a_reader_beside_a_node_that_it_passes",
    ),
    "tensors that pass a node of a witness": Fault(
        "mtpp/verification/partitioning/ideal_kernels.py",
        "live.before[v, w] & ~live.touch[t, w]",
        "live.before[v, w]",
        pillar="mtpp_models/bounds/test_passing_tensors.py::test_what_a_node_reads_does_not_pass_it",
    ),
    "partition cost": Fault(
        "instances/partitioning/partition.py",
        "work=sums_by(self.block, work, k),",
        "work=0.9 * sums_by(self.block, work, k),",
        ("simple",),
    ),
    "rule of other k": Fault("mtpp/certifying/certify.py", "value / -(-k // j)", "value * j / k", ("ideals", "carry")),
    "rule of groups": Fault(
        "instances/partitioning/constraints.py",
        "for v in np.flatnonzero(block != block[holder[self.group]])[:1]:",
        "for v in np.flatnonzero(block != block[holder[self.group]])[:0]:",
        rule=("together", "001112"),
        words="belong together",
    ),
    "rule of windows": Fault(
        "instances/partitioning/constraints.py",
        "for v in np.flatnonzero((block < self.first) | (block > self.last))[:1]:",
        "for v in np.flatnonzero((block < self.first) & (block > self.last))[:1]:",
        rule=("windows", "000111"),
        words="may be in blocks 2 to 2",
    ),
    "rule of least numbers": Fault(
        "instances/partitioning/constraints.py",
        "for b in np.flatnonzero(counts < least)[:1]:",
        "for b in np.flatnonzero(counts < least - 1)[:1]:",
        rule=("at least", "000111"),
        words="needs at least 1",
    ),
    "contraction of groups": Fault(
        "instances/partitioning/constraints.py",
        "circle = components(group[graph.edges], int(group.max()) + 1, directed=True)",
        "circle = components(group[graph.edges], int(group.max()) + 1, directed=False)",
        rule=("together", "000000"),
    ),
    "hard limit": Fault(
        "instances/partitioning/partition.py",
        "return np.where(self.excess > 0, math.inf, 0.0)",
        "return np.where(self.excess > 16, math.inf, 0.0)",
        rule=("fit", "000000"),
        words="does not fit into the memory",
    ),
    "price tree": Fault(
        "mtpp_models/bounds/priced/blocks.py",
        "    return worth >= 1.0 - _SHORT",
        "    return worth >= 2.0 - _SHORT",
        pillar="mtpp_models/bounds/test_price_tree.py::test_small_prices_count_together",
    ),
    "blocks with nodes before and behind all": Fault(
        "mtpp_models/bounds/priced/relaxation.py", "min(instance.k, n)", "min(instance.k, n - 4)", ("priced",)
    ),
    "flow behind a trial": Fault(
        "mtpp_models/bounds/priced/blocks.py",
        "            copy_flow(flows, 1, 0)",
        "            copy_flow(flows, 0, 1)",
        pillar="mtpp_models/bounds/test_price_tree.py",
    ),
    "leaves of the price tree": Fault(
        "mtpp_models/bounds/priced/trees.py",
        "        self.open, self.done = self.open + self.done, 0\n",
        "        self.open, self.done = self.open, 0\n",
        pillar="mtpp_models/bounds/test_price_tree.py::test_blocks_that_are_passed_by_prove_nothing",
    ),
    "leaves that threads share": Fault(
        "mtpp_models/bounds/priced/trees.py",
        "        self.open, other.open = len(moved), len(remaining)\n",
        "        self.open, other.open = len(moved), 0\n",
        pillar="mtpp_models/bounds/test_tree_threads.py::test_threads_find_and_prove_what_one_does",
    ),
    "leaves that stand aside": Fault(
        "mtpp_models/bounds/priced/prices.py",
        "        return not self._aside, None",
        "        return True, None",
        pillar="mtpp_models/bounds/test_price_tree.py::test_blocks_that_are_passed_by_prove_nothing",
    ),
    "parts of the overflow": Fault(
        "mtpp_models/bounds/priced/relaxation.py",
        "    part = np.arange(_PARTS + 1)[:, None]",
        "    part = np.arange(_PARTS + 3)[:, None]",
        pillar="mtpp_models/bounds/test_price_tree.py::test_the_tree_finds_a_block_below_the_goal_or_proves_that_there_is_none",
    ),
    "parts of the overflow of a witness": Fault(
        "mtpp/verification/partitioning/cuts.py",
        "Fraction(part, 4) for part in range(5))",
        "Fraction(part, 4) for part in range(9))",
        pillar="mtpp/verification/test_price_trees.py::test_no_tree_proves_more_than_the_optimum",
    ),
    "blocks that are relieved": Fault(
        "mtpp_models/bounds/priced/prices.py",
        "        if lower.sum() < k:",
        "        if lower.sum() < 0:",
        pillar="mtpp_models/bounds/test_price_tree.py::test_what_is_done_stays_done_when_blocks_are_relieved",
    ),
    "true cost of a superblock": Fault(
        "mtpp_models/formulations/guess_bottleneck.py",
        "m.y[producer[t], 1] + sum(1 - m.y[v, 2] for v in readers[t])",
        "m.y[producer[t], 1]",
        pillar="mtpp_models/formulations/test_guess_tight.py",
    ),
    "goal of guessed prices": Fault(
        "mtpp_models/bounds/priced/quick.py",
        "                self.value = value = goal",
        "                self.value = value = goal * (1 + self.step)",
        pillar="mtpp_models/bounds/test_priced.py::"
        "test_bug_goals_that_failed_in_a_short_turn_leave_no_small_steps_to_a_long_one",
    ),
    "goal of a race of guessed prices": Fault(
        "mtpp_models/bounds/priced/quick.py",
        "self.value, self.took, self.step = goal, ",
        "self.value, self.took, self.step = goal * 1.1, ",
        pillar="mtpp_models/bounds/test_guessed_prices.py::test_the_value_of_a_guess_is_the_goal_that_it_proved",
    ),
    "heads with communication": Fault(
        "mtpp_models/placement/bounds.py",
        "latest[u] = head[u] + work[u] + apart[v, u]",
        "latest[u] = head[u] + work[u] + 1.25 * apart[v, u]",
        pillar="mtpp_models/placement/test_placement_bounds.py::test_heads_know_that_apart_takes_a_transfer",
    ),
    "context of a stage": Fault(
        "instances/partitioning/serving.py",
        "free = Fraction(memory) - Fraction(activations) - sum(params[v] for v in nodes)",
        "free = Fraction(memory) - sum(params[v] for v in nodes)",
        ("vllm",),
        script=USE_SERVING,
    ),
    "room of an interval": Fault(
        "mtpp_models/bounds/serving.py",
        "free = memory - resident_bytes - peak",
        "free = memory - resident_bytes - resident_bytes // 8 - peak",
        ("vllm",),
        script=USE_SERVING,
        words="another cut",
    ),
    "next point of a front": Fault(
        "mtpp_models/bounds/serving.py",
        "context = point.capacity + 1",
        "context = point.capacity + 1000",
        ("vllm",),
        script=USE_SERVING,
        words="another cut",
    ),
    "solver's margin": Fault(
        "mtpp_models/formulations/formulation.py",
        "return outcome.bound - solver.margin * max(1.0, abs(outcome.bound))",
        "return outcome.bound + 1e-4",
        ("exact",),
    ),
}
