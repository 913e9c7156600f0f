"""A question as plain arrays for one size of microbatches and one context and expert degree."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from instances.deadline import Deadline
from instances.graph.tensors import FloatArray, IntArray
from instances.planning.grid.configurations import Configuration, ConfiguredChain, ConfiguredLayer
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.recomputation import Fronts, Menus, fronts_of

__all__ = ["GridArrays"]

#: Caps on the memory in which a layer recomputes.
_CAPS = 16


@dataclass(eq=False)
class GridArrays:
    """Layers with T tensor degrees; sums are those before each layer."""

    degrees: IntArray  # (T,): tensor degrees, in rising order
    forward: FloatArray  # (T, L + 1): sums [s]
    backward: FloatArray  # (T, L + 1): sums, where nothing is recomputed [s]
    parameters: FloatArray  # (2, T, L + 1): sums of dense numbers and of those of experts
    largest: FloatArray  # (T, L): dense numbers of each layer
    output: FloatArray  # (T, L): bytes that a device sends after each layer
    tied: FloatArray  # (T,): numbers that the last layer shares with the first
    menus: Menus
    _fronts: Fronts | None = field(default=None, init=False, repr=False)

    @property
    def caps(self) -> FloatArray:
        """(T, W) as `Menus.caps`."""
        return self.menus.caps

    def fronts(self, deadline: Deadline) -> Fronts | None:
        """Fronts of what layers may recompute, found once; None if they are too many, or the deadline comes first."""
        if self._fronts is None:
            self._fronts = fronts_of(self.menus, deadline)
        return self._fronts

    @classmethod
    def of(cls, question: GridInstance, chain: ConfiguredChain, context: int, expert: int) -> GridArrays | None:
        """Arrays of all tensor degrees that fit into a server and that the question allows; None if there is none."""
        size, wanted = question.servers.size, question.fixed.tp
        degrees = [
            (t, c, e)
            for t, c, e in chain.degrees
            if (c, e) == (context, expert) and t * c <= size and size % t == 0 and wanted in (None, t)
        ]
        if not degrees:
            return None
        kinds = list(chain.kinds.values())
        plain = [[layer.modes(one)[0] for layer in kinds] for one in degrees]
        places = {kind: place for place, kind in enumerate(chain.kinds)}
        of = np.array([places[layer.kind] for layer in chain.layers])

        def table(name: str) -> FloatArray:
            values = np.array([[float(getattr(layer, name)) for layer in row] for row in plain])
            return np.ascontiguousarray(values[:, of])

        def sums(name: str) -> FloatArray:
            return np.insert(np.cumsum(table(name), axis=1), 0, 0.0, axis=1)

        return cls(
            degrees=np.array([t for t, _, _ in degrees]),
            forward=sums("forward"),
            backward=sums("backward"),
            parameters=np.stack((sums("parameters"), sums("expert_parameters"))),
            largest=table("parameters"),
            output=table("output_bytes"),
            tied=np.ascontiguousarray(table("tied_parameters")[:, -1]) * (chain.n > 1),
            menus=_menus(question, kinds, of, degrees),
        )


def _menus(
    question: GridInstance, kinds: list[ConfiguredLayer], of: IntArray, degrees: list[tuple[int, int, int]]
) -> Menus:
    """Ways to run each layer, given one layer of each kind, and the kind of each layer."""
    ways = [
        [[way for way in layer.modes(one) if way.recompute in question.modes] for layer in kinds] for one in degrees
    ]
    most = max(len(menu) for row in ways for menu in row)
    shape = (len(degrees), len(kinds), most)
    stored, working, again = np.zeros(shape), np.zeros(shape), np.full(shape, np.inf)
    for t, row in enumerate(ways):
        for layer, menu in enumerate(row):
            for j, way in enumerate(menu):
                stored[t, layer, j], working[t, layer, j] = way.stored_bytes, way.working_bytes
                again[t, layer, j] = way.backward - menu[0].backward
    caps = [_some(np.unique(sizes[there])) for sizes, there in zip(working, np.isfinite(again), strict=True)]
    for sizes, least in zip(working, caps, strict=True):  # at most as much as it is, so that times remain bounds
        sizes[:] = least[np.maximum(np.searchsorted(least, sizes, side="right") - 1, 0)]
    width = max(map(len, caps))
    alike: dict[tuple[Configuration, ...], int] = {}
    number = np.array([alike.setdefault(layer.configurations, len(alike)) for layer in kinds])
    return Menus(
        np.ascontiguousarray(stored[:, of]),
        np.ascontiguousarray(working[:, of]),
        np.ascontiguousarray(again[:, of]),
        kind=number[of],
        caps=np.array([np.pad(row, (0, width - len(row)), mode="edge") for row in caps]),
    )


def _some(values: FloatArray) -> FloatArray:
    """At most `_CAPS` of rising values, the first and the last among them."""
    return values[np.unique(np.linspace(0, len(values) - 1, min(len(values), _CAPS)).astype(np.int64))]
