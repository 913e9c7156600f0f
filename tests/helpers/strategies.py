"""Hypothesis strategies for tiny computation graphs, instances, partitions and placements."""

from __future__ import annotations

import math
from dataclasses import replace

from extremes import random_case
from hypothesis import strategies as st
from placement_oracle import table
from subset_oracle import Case

from instances import ComputationGraph, InputError, Instance, Partition, Platform, SharedParameter
from instances.machines import Machines
from instances.partitioning.constraints import Constraints
from instances.placement.placement import Placement
from instances.placement.problem import PlacementInstance

_MODERATE = (
    st.just(0.0),
    st.just(3.0),
    st.integers(0, 9).map(float),
    st.floats(0.0, 10.0, allow_subnormal=False).map(lambda x: round(x, 6)),
)
_HUGE_RATIO = st.sampled_from([0.0, 1e-9, 1.0, 1e9])


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 7, huge_ratio: bool = True) -> ComputationGraph:
    """A random graph: several outputs per node or none, unread tensors, shared parameters, states, any weights.

    Weights are all zero, all equal, whole numbers, floats or, with `huge_ratio`, from 1e-9 to 1e9.
    """
    n = draw(st.integers(1, max_nodes))
    numbers = draw(st.sampled_from((*_MODERATE, _HUGE_RATIO) if huge_ratio else _MODERATE))
    sizes = draw(st.sampled_from((*_MODERATE, _HUGE_RATIO) if huge_ratio else _MODERATE))
    order = draw(st.permutations(range(n)))
    density = draw(st.sampled_from([0, 1, 2, 4]))
    outputs, edges = [], []
    for position, u in enumerate(order):
        later = order[position + 1 :]
        count = draw(st.sampled_from([1, 1, 1, 2, 0]))
        outputs.append((u, draw(st.lists(sizes, min_size=count, max_size=count))))
        for output in range(count):
            if later and density:
                readers = draw(st.lists(st.sampled_from(later), max_size=density, unique=True))
                edges += [(u, v, output) for v in readers]
    parameters = tuple(
        SharedParameter(f"p{i}", draw(sizes), tuple(draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True))))
        for i in range(draw(st.sampled_from([0, 0, 1, 2])))
    )
    return ComputationGraph.from_edges(
        edges,
        draw(st.lists(numbers, min_size=n, max_size=n)),
        [size for _, size in sorted(outputs)],
        draw(st.lists(sizes, min_size=n, max_size=n)),
        parameters=parameters,
        state_bytes=draw(
            st.sampled_from([0, 0, n]).flatmap(lambda count: st.lists(sizes, min_size=count, max_size=count))
        ),
    )


@st.composite
def instances(
    draw: st.DrawFn, max_nodes: int = 7, max_k: int = 4, huge_ratio: bool = True, overflow: bool | None = None
) -> Instance:
    """A random graph on a random platform.

    `overflow` True gives finite memory, with or without an activation buffer, False infinite memory, and None either.
    """
    graph = draw(graphs(max_nodes, huge_ratio))
    finite = draw(st.booleans()) if overflow is None else overflow
    memory = draw(st.sampled_from([0.0, 1.0, 5.0, 12.5, 40.0])) if finite else math.inf
    buffer = draw(st.sampled_from([None, 0.0, 2.0, 10.0]))
    bandwidth = draw(st.sampled_from([1.0, 0.25, 3.0, 1e3]))
    return Instance(graph, Platform(draw(st.integers(1, max_k)), bandwidth, memory, buffer))


@st.composite
def orders(draw: st.DrawFn, graph: ComputationGraph) -> list[int]:
    """A random topological order."""
    waiting = {v: {int(u) for u in graph.edges[graph.edges[:, 1] == v, 0]} for v in range(graph.n)}
    order: list[int] = []
    while waiting:
        v = draw(st.sampled_from(sorted(v for v, before in waiting.items() if not before)))
        del waiting[v]
        for before in waiting.values():
            before.discard(v)
        order.append(v)
    return order


@st.composite
def partitions(draw: st.DrawFn, max_nodes: int = 7, huge_ratio: bool = True, overflow: bool | None = None) -> Partition:
    """A random instance with a random partition, run in a random order."""
    instance = draw(instances(max_nodes, huge_ratio=huge_ratio, overflow=overflow))
    graph = instance.graph
    block = [0] * graph.n
    for v in draw(orders(graph)):
        lowest = max((block[u] for u in graph.edges[graph.edges[:, 1] == v, 0]), default=0)
        block[v] = draw(st.integers(lowest, instance.k - 1))
    return Partition(instance, block, draw(orders(graph)))


@st.composite
def heavy_overflows(draw: st.DrawFn) -> Instance:
    """At most 4 nodes whose parameters, and maybe outputs, take up to 1e11 times as long to move as the work takes.

    The memory holds a multiple of the unit, or just some of the parameters, so that overflows are now as huge as the
    parameters and now as small as the work.
    """
    unit = 10.0 ** draw(st.integers(3, 10))
    small = st.integers(0, 9).map(float)
    large = small.map(lambda x: x * unit) | st.sampled_from([1.0, 3.0, unit + 1.0, unit / 3])
    n = draw(st.integers(1, 4))
    edges = [(u, v) for v in range(n) for u in range(v) if draw(st.booleans())]
    numbers = (small, large, draw(st.sampled_from([small, large])))
    work, params, outputs = (draw(st.lists(values, min_size=n, max_size=n)) for values in numbers)
    users = st.lists(st.integers(0, n - 1), min_size=1, unique=True)
    parameters = tuple(
        SharedParameter(f"p{i}", draw(large), tuple(draw(users))) for i in range(draw(st.integers(0, 1)))
    )
    graph = ComputationGraph.from_edges(edges, work, outputs, params, parameters=parameters)
    held = sum(size for size in params if draw(st.booleans())) + draw(st.sampled_from([-9.0, -1.0, 0.0, 3.0]))
    memory = draw(st.sampled_from([0.0, unit, 12 * unit, max(0.0, held), max(0.0, held)]))
    buffer = draw(st.sampled_from([0.0, 0.0, 2.0, unit]))
    return Instance(graph, Platform(draw(st.integers(2, 3)), 1.0, memory, buffer))


def extreme_cases(most_nodes: int = 5) -> st.SearchStrategy[Case]:
    """Tiny graphs on extreme platforms, as plain lists; some have costs that are too large for floats."""
    return st.randoms(use_true_random=False).map(lambda r: random_case(r, most_nodes))


@st.composite
def compositions(draw: st.DrawFn, k: int) -> list[int]:
    """Ordered positive sizes with the sum k."""
    ends = [b for b in range(1, k) if draw(st.booleans())]
    return [end - start for start, end in zip([0, *ends], [*ends, k], strict=True)]


@st.composite
def placements(draw: st.DrawFn, max_nodes: int = 7, is_symmetric: bool = False) -> Placement:
    """A placement of a small graph, with gaps, broadcasts, ties, zeros and, unless `is_symmetric`, unlike devices."""
    graph = draw(graphs(max_nodes, huge_ratio=False).filter(lambda graph: graph.work.sum() > 0))
    k, rates, memories = draw(st.integers(1, 4)), [1.0, 0.5, 3.0, math.inf], [math.inf, 1.0, 9.0]
    machines = Machines.alike(k, draw(st.sampled_from(rates)), draw(st.sampled_from(memories)))
    if not is_symmetric and draw(st.booleans()):
        columns = ([0.5, 1.0, 3.0], memories, *[rates] * k)
        speeds, memory, *rows = (draw(st.tuples(*[st.sampled_from(column)] * k)) for column in columns)
        machines = table(speeds, memory, rows)
    instance = PlacementInstance(
        graph, machines, draw(st.sampled_from([0.0, 0.5])), draw(st.sampled_from([0.0, 0.5])), draw(st.booleans())
    )
    return Placement(instance, draw(st.lists(st.integers(0, k - 1), min_size=graph.n, max_size=graph.n)))


@st.composite
def constraints(draw: st.DrawFn, graph: ComputationGraph, k: int) -> Constraints:
    """Up to two constraints of each kind, which may contradict one another."""
    nodes = st.integers(0, graph.n - 1)
    blocks = st.integers(0, k - 1)
    spans = draw(st.lists(st.tuples(nodes, blocks, blocks), max_size=2))
    return Constraints(
        together=tuple(map(tuple, draw(st.lists(st.lists(nodes, max_size=3), max_size=2)))),
        windows=tuple((v, min(a, b), max(a, b)) for v, a, b in spans),
        uncut=tuple(draw(st.lists(nodes, max_size=1))),
        at_least=tuple(
            (draw(st.integers(0, 2)), tuple(draw(st.lists(nodes, max_size=5))))
            for _ in range(draw(st.sampled_from([0, 0, 1, 2])))
        ),
    )


@st.composite
def constrained(draw: st.DrawFn, max_nodes: int = 5, max_k: int = 3) -> tuple[ComputationGraph, int, Constraints]:
    """A random graph, a number of blocks, and constraints."""
    graph = draw(graphs(max_nodes))
    k = draw(st.integers(1, max_k))
    return graph, k, draw(constraints(graph, k))


@st.composite
def questions(draw: st.DrawFn, max_nodes: int = 5, max_k: int = 3, peaks: bool = True) -> Instance:
    """A random instance with constraints that do not contradict one another; the memory may be a hard limit."""
    plain = draw(instances(max_nodes, max_k, huge_ratio=False))
    platform = plain.platform
    if not peaks and platform.activation_buffer is None:
        platform = replace(platform, activation_buffer=0.0)
    platform = replace(platform, fit=math.isfinite(platform.memory) and draw(st.booleans()))
    try:
        return Instance(plain.graph, platform, constraints=draw(constraints(plain.graph, plain.k)))
    except InputError:
        return Instance(plain.graph, platform)
