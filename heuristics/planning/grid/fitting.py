"""Recomputation of the layers of all groups, such that each group fits and little time is spent again."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from instances.planning.grid.configurations import Configuration
from instances.planning.grid.problem import GridInstance
from instances.planning.grid.recomputation import chosen_modes
from instances.planning.grid.settings import Setting

__all__ = ["Fitting"]

_Runs = tuple[tuple[int, int], ...]


class Fitting:
    """Modes for plans of one setting; those of a group are found once."""

    def __init__(self, question: GridInstance, setting: Setting) -> None:
        self.question, self.setting = question, setting
        self.M = question.global_batch // (setting.pipelines * setting.micro_batch)
        self._menus: dict[int, list[tuple[Configuration, ...]]] = {}
        self._groups: dict[tuple[_Runs, int, float, float], tuple[str, ...] | None] = {}

    def modes(self, cuts: tuple[int, ...], tensor: tuple[int, ...], part: float = 1.0) -> tuple[str, ...] | None:
        """(L,) modes with which each group fits into a part of its memory; None if one does not.

        In turns a group holds microbatches of all its stages, here as many of each, so that it may need more.
        """
        S, runs = len(tensor), tuple(pairwise(cuts))
        v, modes = len(runs) // S, np.empty(cuts[-1], dtype=object)
        for g, t in enumerate(tensor):
            first = S - g if v == 1 else 2 * (S - g) - 1 + (v - 1) * S
            key = (runs[g::S], t, min(v * self.M, first) / v, part)
            if key not in self._groups:
                self._groups[key] = self._fitting(*key)
            found = self._groups[key]
            if found is None:
                return None
            modes[_by_depth(key[0])] = found
        return tuple(modes.tolist())

    def least(self, cuts: tuple[int, ...], tensor: tuple[int, ...], modes: tuple[str, ...]) -> float:
        """Time that the plan is not below: all passes of a group, and those that the groups before it do alone [s]."""
        S, times = len(tensor), np.zeros(len(cuts) - 1)
        for n, (begin, end) in enumerate(pairwise(cuts)):
            menus = self.menus(tensor[n % S])
            for layer in range(begin, end):
                times[n] += next(w.forward + w.backward for w in menus[layer] if w.recompute == modes[layer])
        groups = self.M * times.reshape(-1, S).sum(axis=0)
        return float((groups + np.cumsum(times[:S]) - times[:S]).max())

    def menus(self, t: int) -> list[tuple[Configuration, ...]]:
        """Ways to run each layer, the one without recomputation first."""
        if t not in self._menus:
            chain, degrees = (
                self.question.chain(self.setting.micro_batch),
                (t, self.setting.context, self.setting.expert),
            )
            allowed = self.question.modes
            menus = {
                kind: tuple(way for way in layer.modes(degrees) if way.recompute in allowed)
                for kind, layer in chain.kinds.items()
            }
            self._menus[t] = [menus[layer.kind] for layer in chain.layers]
        return self._menus[t]

    def _fitting(self, runs: _Runs, t: int, held: float, part: float) -> tuple[str, ...] | None:
        menus = self.menus(t)
        ways = [menus[layer] for layer in _by_depth(runs)]
        plain = [menus[layer][0] for begin, end in runs for layer in range(begin, end)]
        room = part * self.question.memory - self.kept(plain, whole=len(plain) == self.question.layers)
        return chosen_modes(ways, held, room)

    def kept(self, layers: list[Configuration], *, whole: bool) -> float:
        """Bytes of parameters, gradients and optimizer of a group."""
        one = self.setting
        D = one.pipelines * one.context
        return sum(self.question.kept_bytes(layers, one.zero, (D, D // one.expert), whole=whole))


def _by_depth(runs: _Runs) -> list[int]:
    """Layers of all stages of a group, the first of each stage, then the second ones."""
    depth = max(end - begin for begin, end in runs)
    return [begin + i for i in range(depth) for begin, end in runs if begin + i < end]
