"""The decision process of Placeto: visit the nodes of a graph one after another, and choose a device for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from heuristics.method import Limits
from heuristics.orders.orders import kahn
from heuristics.placement.simulator import SimulatorArrays, Workspace, penalised, workspace
from instances import ComputationGraph
from instances.compiled import compiled
from instances.errors import InputError
from instances.graph.tensors import FloatArray, IntArray
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

#: In which order nodes are visited; a random one is topological, and drawn anew for each sweep.
Order = Literal["topological", "reverse", "random"]
#: What an episode starts from: no node placed, all of them on device 0, or each on a random one. In the paper,
#: arbitrary placements; from none, the first sweep is list scheduling by a learned rule.
Start = Literal["empty", "single", "random"]
#: Relations between two nodes.
ANCESTOR, DESCENDANT, PARALLEL = 2, 3, 4


class PlacementArrays:
    """An instance, flattened once for all episodes on it."""

    def __init__(self, instance: PlacementInstance) -> None:
        self.instance = instance
        self.arrays = SimulatorArrays.of(instance)
        self.relation = relations(instance.graph)
        self.space = workspace(self.arrays)


def relations(graph: ComputationGraph) -> NDArray[np.int8]:
    """(n, n) what node u is to node v, at [v, u]: ANCESTOR, DESCENDANT, PARALLEL, or 0 for v itself."""
    before = np.zeros((graph.n, graph.n), dtype=bool)
    start, parent = graph.predecessors
    for v in graph.topological_order:
        parents = parent[start[v] : start[v + 1]]
        before[v] = before[parents].any(axis=0)
        before[v, parents] = True
    relation = np.full(before.shape, PARALLEL, dtype=np.int8)
    relation[before] = ANCESTOR
    relation[before.T] = DESCENDANT
    np.fill_diagonal(relation, 0)
    return relation


class Environment:
    """Parallel episodes on one question, all of them at the same node.

    Parameters
    ----------
    question : PlacementArrays
    start : (e, n) integers
        Devices that the episodes begin with; -1 in a whole row where no node is placed yet. Then the simulations leave
        out what is not placed, and the first visit of a node also places its ancestors that are not.
    order : (steps,) integers
        The node of each step.

    Attributes
    ----------
    place : (e, n) integers
        Current device of each node, or -1.
    begin, end : (e, n) floats
        When each node runs.
    objective : (e,) floats
        Penalised time of the current placements.
    history : list of (e,) floats
        The objective at the start and after each step.
    best : (e,) floats
        Least objective of the complete placements of each episode so far, and where none is, that of device 0.
    best_place : (e, n) integers
        The placement of that objective.
    simulations : int
        Calls of the simulator, also those for a part of the nodes. A step that leaves a node where it is needs none.
    """

    def __init__(self, question: PlacementArrays, start: IntArray, order: IntArray) -> None:
        self.question, self.order = question, order
        self.place = np.maximum(start, 0).astype(np.int64)
        self.begin, self.end = np.empty(self.place.shape), np.empty(self.place.shape)
        self.objective = np.empty(len(self.place))
        self.simulations = self._move(0, np.full(len(self.place), -1))
        self.best, self.best_place = self.objective.copy(), self.place.copy()
        empty = start[:, 0] < 0
        self.place[empty], self.begin[empty], self.end[empty], self.objective[empty] = -1, 0.0, 0.0, 0.0
        self.history = [self.objective.copy()]

    @property
    def step(self) -> int:
        """Number of steps done."""
        return len(self.history) - 1

    @property
    def finished(self) -> bool:
        """Whether there is no node left to visit."""
        return self.step == len(self.order)

    @property
    def node(self) -> int:
        """The node to place next."""
        return int(self.order[self.step])

    def act(self, device: IntArray) -> None:
        """Put the node on ``device[i]`` in episode i, and go on to the next node."""
        self.simulations += self._move(self.node, device)
        better = (self.objective < self.best) & (self.place >= 0).all(axis=1)
        self.best[better] = self.objective[better]
        self.best_place[better] = self.place[better]
        self.history.append(self.objective.copy())

    def answer(self) -> Placement:
        """The best placement of all steps of all episodes."""
        return Placement(self.question.instance, self.best_place[self.best.argmin()])

    def last(self) -> Placement:
        """The best of the placements that the episodes ended with."""
        return Placement(self.question.instance, self.place[self.objective.argmin()])

    def _move(self, node: int, device: IntArray) -> int:
        question = self.question
        return _move(
            node,
            device,
            self.place,
            self.begin,
            self.end,
            self.objective,
            question.arrays,
            question.relation,
            question.space,
        )


@compiled
def _move(
    v: int,
    device: IntArray,
    place: IntArray,
    begin: FloatArray,
    end: FloatArray,
    objective: FloatArray,
    arrays: SimulatorArrays,
    relation: NDArray[np.int8],
    space: Workspace,
) -> int:
    """Put v on ``device[i]`` in each episode i and simulate changed placements; return the number of simulations.

    On device -1, v stays unplaced and the present placement is simulated, unless v is unplaced already.
    """
    simulations = 0
    for i in range(len(place)):
        if place[i, v] != device[i]:
            if place[i, v] < 0:
                place[i][(relation[v] == ANCESTOR) & (place[i] < 0)] = device[i]
            if device[i] >= 0:
                place[i, v] = device[i]
            objective[i] = penalised(arrays, place[i], space)
            placed = place[i] >= 0
            begin[i], end[i] = placed * space.start, placed * space.end
            simulations += 1
    return simulations


#: Maps environments of e episodes to (e, k) logits each.
Scorer = Callable[[Sequence[Environment]], Sequence[FloatArray]]


def play_episodes(
    instance: PlacementInstance,
    score: Scorer,
    rng: np.random.Generator,
    starts: Sequence[Start],
    *,
    drawn: Sequence[bool] = (),
    sweeps: int = 1,
    order: Order = "topological",
    limits: Limits | None = None,
) -> Environment:
    """Place a graph with a trained policy, one episode from each start; an evaluation is a simulation.

    Once a limit is reached, the remaining nodes stay where they are.

    Parameters
    ----------
    drawn : sequence of bool
        Which of the episodes draw their devices; all others take the likeliest ones.
    sweeps : int
        How often each node is visited.
    """
    limits, question = limits or Limits(), PlacementArrays(instance)
    count = limits.allow(len(starts))
    places = np.concatenate([start_place(question, start, 1, rng) for start in starts[:count]])
    noise = np.array([*drawn, *[False] * len(starts)])[:count, None]
    episodes = Environment(question, places, traversal(question, order, sweeps, rng))

    def choose(active: Sequence[Environment]) -> list[IntArray]:
        simulations = episodes.simulations + count  # after this step
        if limits.allow(simulations) < simulations or limits.reached(float(episodes.best.min()) * instance.total_work):
            return [episodes.place[:, episodes.node]]
        return [(rows + noise * rng.gumbel(size=rows.shape)).argmax(axis=1) for rows in score(active)]

    roll_out([episodes], choose)
    return episodes


def roll_out(
    environments: Sequence[Environment], choose: Callable[[Sequence[Environment]], Sequence[IntArray]]
) -> None:
    """Step all environments together to their ends; they may differ in size, and those that are finished drop out.

    `choose` maps the unfinished environments to a device per episode, (e,) integers for each.
    """
    while active := [environment for environment in environments if not environment.finished]:
        for environment, device in zip(active, choose(active), strict=True):
            environment.act(device)


def start_place(question: PlacementArrays, start: Start, episodes: int, rng: np.random.Generator) -> IntArray:
    """(episodes, n) one placement to start from, the same for all episodes."""
    n, k = question.instance.graph.n, question.instance.devices
    match start:
        case "empty":
            place = np.full(n, -1)
        case "single":
            place = np.zeros(n, dtype=np.int64)
        case "random":
            place = rng.integers(k, size=n)
        case _:
            raise InputError(f"start is {start!r}; choose one of {', '.join(get_args(Start))}.")
    return np.tile(place, (episodes, 1))


def traversal(question: PlacementArrays, order: Order, sweeps: int, rng: np.random.Generator) -> IntArray:
    """(sweeps · n,) the node of each step.

    Sources without work, such as weights, come last in each sweep: where to keep them depends on their readers.
    """
    graph = question.instance.graph
    match order:
        case "topological":
            orders = [graph.topological_order] * sweeps
        case "reverse":
            orders = [graph.topological_order[::-1]] * sweeps
        case "random":
            orders = [kahn(graph, rng.random(graph.n)) for _ in range(sweeps)]
        case _:
            raise InputError(f"order is {order!r}; choose one of {', '.join(get_args(Order))}.")
    free = (question.arrays.inputs == 0) & (question.instance.work == 0)
    return np.concatenate([nodes[np.argsort(free[nodes], kind="stable")] for nodes in orders])
