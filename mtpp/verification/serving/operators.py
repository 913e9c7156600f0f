"""The chain of a serving front, made a second time of the operators of its decoder.

A node of the chain takes the time of its operators one after the other and holds their parameters. It needs room for
the most that one of them reads and makes. Of their states, caches at the stated context, it holds the part that does
not grow as parameters, and the rest grows by a token each, up to the window: which part and how far the file states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from operator import add

from instances.graph.graph import ComputationGraph
from instances.graph.tensors import FloatArray
from instances.partitioning.stated_serving import StatedServing
from mtpp.verification.faults import is_near, unequal
from mtpp.verification.fractions import as_float

__all__ = ["faults_of_chain"]

_Tensors = Counter[tuple[int, tuple[int, ...]]]


def faults_of_chain(stated: StatedServing) -> Iterator[str]:
    """Yield all numbers of the chain that its operators contradict; none where the file holds no operators."""
    source, chain = stated.source, stated.instance.graph
    if source is None or stated.context < 1:  # what is less is named elsewhere
        return
    operators, layer = source.operators, source.layer.tolist()
    if operators.time_unit != chain.time_unit:
        yield unequal("instance.graph.time_unit", chain.time_unit, operators.time_unit)
    if set(layer) != set(range(chain.n)):
        yield "instance.layer: a node of the chain has no operator"
        return
    held, shared = _held(operators, layer, chain.n)
    fixed, states = [*map(Fraction, source.constant.tolist())], _sums(operators.state_bytes.tolist(), layer, chain.n)
    columns = {
        **_works_of_kinds(stated, source.works, layer),
        "graph.work": (chain.work.tolist(), _sums(operators.work.tolist(), layer, chain.n)),
        "graph.param_bytes": (chain.param_bytes.tolist(), [*map(add, held, fixed)]),
        "graph.state_bytes": (chain.state_bytes.tolist(), [Fraction(0)] * chain.n),
        "need": (stated.need.tolist(), _needs(operators, layer, chain.n)),
        "token_bytes": (
            stated.token_bytes.tolist(),
            [
                (state - still) / Fraction(min(stated.context, window)) if window > 0 else Fraction(0)
                for state, still, window in zip(states, fixed, stated.window.tolist(), strict=True)
            ],
        ),
    }
    for name, (claimed, true) in columns.items():
        for v, (one, other) in enumerate(zip(claimed, true, strict=True)):
            if not is_near(one, other):
                yield unequal(f"instance.{name}[{v}]", one, as_float(other))
    for v, (state, still, window) in enumerate(zip(states, fixed, stated.window.tolist(), strict=True)):
        if window == 0 and state > still:
            yield f"instance.window[{v}]: it is 0, and a cache of the operators grows"
    yield from _unequal_tensors(_tensors(chain, list(range(chain.n))), _tensors(operators, layer))
    if sorted((p.users, p.bytes) for p in chain.parameters) != shared:
        yield "instance.graph.parameters: they are not those that operators of several nodes share"


def _sums(values: list[float], layer: list[int], n: int) -> list[Fraction]:
    total = [Fraction(0)] * n
    for node, value in zip(layer, values, strict=True):
        total[node] += Fraction(value)
    return total


def _works_of_kinds(
    stated: StatedServing, works: FloatArray | None, layer: list[int]
) -> dict[str, tuple[list[float], list[Fraction]]]:
    """Works of the chain on each kind as they are stated, and as they are by its operators."""
    if works is None or stated.instance.is_alike:
        return {}
    rows = zip(stated.instance.work.tolist(), works.tolist(), strict=True)
    return {f"kinds[{t}].works": (row, _sums(own, layer, stated.instance.graph.n)) for t, (row, own) in enumerate(rows)}


def _held(operators: ComputationGraph, layer: list[int], n: int) -> tuple[list[Fraction], list[tuple[object, float]]]:
    """Parameters of each node alone, and those that several nodes share."""
    held, shared = _sums(operators.param_bytes.tolist(), layer, n), []
    for parameter in operators.parameters:
        users = tuple(sorted({layer[v] for v in parameter.users}))
        if len(users) == 1:
            held[users[0]] += Fraction(parameter.bytes)
        elif users:
            shared.append((users, float(parameter.bytes)))
    return held, sorted(shared)


def _needs(operators: ComputationGraph, layer: list[int], n: int) -> list[Fraction]:
    """The most bytes that an operator of each node reads and makes."""
    touched = [Fraction(0)] * operators.n
    tensors = operators.tensors
    start, readers = tensors.start.tolist(), tensors.consumers.tolist()
    for t, (producer, size) in enumerate(zip(tensors.producer.tolist(), tensors.bytes.tolist(), strict=True)):
        for v in (producer, *readers[start[t] : start[t + 1]]):
            touched[v] += Fraction(size)
    most = [Fraction(0)] * n
    for node, size in zip(layer, touched, strict=True):
        most[node] = max(most[node], size)
    return most


def _tensors(graph: ComputationGraph, place: list[int]) -> _Tensors:
    """Bytes by the place that makes them and the other places that read them."""
    found: _Tensors = Counter()
    tensors = graph.tensors
    start, readers = tensors.start.tolist(), tensors.consumers.tolist()
    for t, (producer, size) in enumerate(zip(tensors.producer.tolist(), tensors.bytes.tolist(), strict=True)):
        home = place[producer]
        reading = tuple(sorted({place[v] for v in readers[start[t] : start[t + 1]]} - {home}))
        if reading:
            found[home, reading] += Fraction(size)  # type: ignore[assignment]
    return found


def _unequal_tensors(claimed: _Tensors, true: _Tensors) -> Iterator[str]:
    for home, reading in claimed.keys() | true.keys():
        one, other = Fraction(claimed[home, reading]), Fraction(true[home, reading])
        if not is_near(as_float(one), other):
            where = f"from node {home} to {', '.join(map(str, reading))}"
            yield unequal(f"instance.graph: bytes {where}", as_float(one), as_float(other))
