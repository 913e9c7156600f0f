"""What the paper says of its experiments (SPP, Section V), against what was measured here."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from experiments.studies.spp.frames import TITLES, by_stages, mean_ratios, percent, points
from experiments.studies.spp.jobs import TABLE_III

__all__ = ["Claim", "claims"]

#: What the paper calls the planners that it compares with; its PipeDream is synchronous.
_PAPER = {"data-parallel": "DP", "gpipe": "GPipe", "pipedream": "PipeDream", "hetpipe": "HetPipe"}


class Claim(NamedTuple):
    """What the paper says of a figure, whether it is so here, and what was measured."""

    figure: str
    text: str
    holds: bool
    measured: str


def claims(frame: pd.DataFrame) -> list[Claim]:
    """What the paper says in Section V, against `frame`."""
    tables = [figure for figure in TITLES if figure.startswith(TABLE_III)]
    return [
        _fastest(frame, "6", "SPP outperforms all for all numbers of microbatches"),
        _use(frame),
        _stable(frame),
        _fastest(frame, "8", "SPP outperforms all in all topologies"),
        _faster_than_pipedream(frame),
        _similar(frame),
        _fewer_stages(frame),
        *(_fastest(frame, figure, "SPP outperforms all in all cases") for figure in tables),
    ]


#: A spread of times below this is "stable" or "similar"; times that are as near as that are equal.
_STABLE, _TIE = 1.15, 1e-6


def _fastest(frame: pd.DataFrame, figure: str, text: str) -> Claim:
    """Whether SPP is faster than all in the paper everywhere; and where another one comes closest."""
    over = mean_ratios(frame, figure)[list(_PAPER)]
    values = over.to_numpy()
    row, column = map(int, np.unravel_index(np.nanargmin(values), values.shape))
    closest = float(values[row, column])
    measured = f"closest: {list(_PAPER.values())[column]} at {over.index[row]}, {percent(closest)}"
    return Claim(figure, text, closest > 1 + _TIE, measured)


def _use(frame: pd.DataFrame) -> Claim:
    used = points(frame, "6", "spp").groupby("label", sort=False)["utilisation"].mean()
    measured = f"{used.iloc[0]:.0%} to {used.iloc[-1]:.0%}"
    return Claim("6", "more microbatches, better use of the devices", bool(used.is_monotonic_increasing), measured)


def _stable(frame: pd.DataFrame) -> Claim:
    steady, falling = (
        {method: _spread(frame, "7", method) for method in methods}
        for methods in (("spp", "gpipe", "pipedream"), ("data-parallel", "hetpipe"))
    )
    text = "SPP, GPipe and PipeDream are stable over bandwidths, DP and HetPipe are not"
    measured = ", ".join(f"{method} x {spread:.2f}" for method, spread in (steady | falling).items())
    return Claim("7", text, max(steady.values()) < _STABLE < min(falling.values()), measured)


def _faster_than_pipedream(frame: pd.DataFrame) -> Claim:
    over = mean_ratios(frame, "9")["pipedream"]
    text = "over 20 % faster than PipeDream (synchronous) for all numbers of layers"
    return Claim("9", text, bool((over > 1.2).all()), ", ".join(map(percent, over)))


def _similar(frame: pd.DataFrame) -> Claim:
    spread = _spread(frame, "10", "spp")
    return Claim("10", "SPP's time is similar for all sizes of activations", spread < _STABLE, f"x {spread:.2f}")


def _fewer_stages(frame: pd.DataFrame) -> Claim:
    _, workloads, times = by_stages(frame)
    best, least = int(times.argmin()) + 1, int(workloads.argmin()) + 1
    text = "the least W is not the least time, which has fewer stages"
    return Claim("11", text, best < least, f"time: {best} stages, W: {least}")


def _spread(frame: pd.DataFrame, figure: str, method: str) -> float:
    """Slowest over fastest point of a planner."""
    times = points(frame, figure, method).groupby("label")["time"].mean()
    return float(times.max() / times.min())
