"""Plans in a grid that lie in several servers, bounded a second time, in fractions.

Stages lie one after the other. A stage whose replicas all lie in one server has a neighbour elsewhere, or neighbours up
to one that has: all microbatches leave a stage that lies in one server, and their gradients come back. Without such a
stage, all gradients are added up over cards: each ring has half of its devices, at most, in a server.
"""

from __future__ import annotations

from fractions import Fraction

from instances.planning.grid.problem import GridInstance
from mtpp.verification.planning.grid.bounds import Setting, settings_of


def across_servers(question: GridInstance) -> Fraction:
    """Least time of plans whose devices lie in several servers."""
    bounds = (max(min(_leaving(it), _adding_up(it)), Fraction(it.work)) for it in settings_of(question))
    return min(bounds, default=Fraction(0))


#: More than any time of a question.
_NEVER = Fraction(10) ** 400


def _leaving(setting: Setting) -> Fraction:
    """Least time in which all microbatches leave a stage that lies in one server."""
    servers, best = setting.question.servers, _NEVER
    for t in setting.tensor:
        if setting.d * setting.cp * t > servers.size:
            continue
        for layer in setting.chain.layers[:-1]:
            for way in layer.configurations:
                if (way.tp, way.cp, way.ep) == (t, setting.cp, setting.ep):
                    size = Fraction(way.output_bytes)
                    latency = Fraction(servers.latency) if size else Fraction(0)
                    best = min(best, size / (Fraction(servers.reached) * Fraction(servers.outer)) + latency)
    return best * setting.M * (1 if setting.question.full_duplex else 2)


def _adding_up(setting: Setting) -> Fraction:
    """Least time in which devices run all passes, or send what replicas share in them, and then add up gradients."""
    question, servers, copies = setting.question, setting.question.servers, setting.d * setting.cp
    if copies == 1:
        return _NEVER
    w, g = Fraction(question.state_bytes.weights), Fraction(question.state_bytes.gradients)
    summed = (2 * g, g + w, w, Fraction(0))[setting.zero]
    meanwhile = (Fraction(0), Fraction(0), g, 2 * w + g)[setting.zero]
    computed = sent = Fraction(0)
    last = setting.chain.n - 1
    for layer in range(setting.chain.n):
        totals: tuple[list[Fraction], list[Fraction]] = ([], [])
        for t in setting.tensor:
            way = setting.ways[t][layer][0]
            numbers = Fraction(way.parameters) - (Fraction(way.tied_parameters) if layer == last > 0 else 0)
            cards = min(copies // 2, servers.size // t)
            rate = Fraction(servers.reached) * min(Fraction(servers.inner), cards * Fraction(servers.outer))
            ring = numbers * (copies - 1) / copies / rate
            both = Fraction(way.forward) + Fraction(way.input_backward) + Fraction(way.weight_backward)
            totals[0].append(t * (setting.M * both + summed * ring))
            totals[1].append(t * (setting.M * meanwhile + summed) * ring)
        computed, sent = computed + min(totals[0]), sent + min(totals[1])
    return max(computed, sent) / setting.K
