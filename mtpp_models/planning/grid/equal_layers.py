"""Models of equal layers between their ends whose plans take no longer than those of a model of any layers.

Of layers between the first and the last that differ, some count as equal ones with the least of all their numbers, and
the others take no time and no room. Which ones are best depends on what limits a plan, so there are two such models:
those whose number times their least parameters is most, and those whose number times their least time is most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from instances.planning.grid.configurations import NONE, Configuration, ConfiguredChain, ConfiguredLayer, Degrees
from instances.planning.grid.problem import GridInstance

__all__ = ["relaxations"]


def relaxations(question: GridInstance) -> list[GridInstance]:
    """Questions of equal layers between the ends whose plans all take no longer, other ones than each other."""
    kept = dict.fromkeys(tuple(_most(one, weight) for one in question.chains) for weight in (_parameters, _time))
    return [replace(question, chains=tuple(map(_equal_between_ends, question.chains, layers))) for layers in kept]


def _parameters(layer: ConfiguredLayer) -> float:
    return layer.configurations[0].parameters + layer.configurations[0].expert_parameters


def _time(layer: ConfiguredLayer) -> float:
    return layer.configurations[0].forward + layer.configurations[0].backward


def _most(chain: ConfiguredChain, weight: Callable[[ConfiguredLayer], float]) -> tuple[int, ...]:
    """Those layers between the ends whose number times their least weight is most."""
    weights = [weight(layer) for layer in chain.layers[1:-1]]
    _, least = max((number * value, value) for number, value in enumerate(sorted(weights, reverse=True), start=1))
    return tuple(place for place, value in enumerate(weights, start=1) if value >= least)


def _equal_between_ends(chain: ConfiguredChain, layers: Sequence[int]) -> ConfiguredChain:
    """Chain of the ends and, between them, these layers with the least numbers of any, in all ways to run one.

    What is sent is that of any layer between the ends.
    """
    first, *between, last = chain.layers
    if len({layer.kind for layer in between}) == 1:
        return chain
    sent: dict[Degrees, float] = {}
    for layer in between:
        for one in layer.configurations:
            sent[one.degrees] = min(one.output_bytes, sent.get(one.degrees, one.output_bytes))
    ways: dict[tuple[Degrees, str], Configuration] = {}
    for layer in map(chain.layers.__getitem__, layers):
        for one in layer.configurations:
            way = one.degrees, one.recompute
            least = ways.get(way, one)
            numbers = {
                name: min(getattr(least, name), value) for name, value in vars(one).items() if isinstance(value, float)
            }
            ways[way] = replace(one, **numbers | {"output_bytes": sent[one.degrees]})
    alike = [replace(one, forward=ways[one.degrees, NONE].forward) for one in ways.values()]
    equal = ConfiguredLayer("between", "between", tuple(alike))
    return replace(chain, layers=(first, *[equal] * len(layers), last))
