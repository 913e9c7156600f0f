"""What the paper says of its experiments (SPP, Section V), against what was measured here."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from experiments.studies.claim import Claim
from experiments.studies.spp.frames import TITLES, by_stages, mean_ratios, percent, points
from experiments.studies.spp.jobs import TABLE_III

__all__ = ["claims"]

#: What the paper calls the planners that it compares with; its PipeDream is synchronous.
_PAPER = {"data-parallel": "DP", "gpipe": "GPipe", "pipedream": "PipeDream", "hetpipe": "HetPipe"}

#: A spread of times below this is "stable" or "similar"; times that are as near as that are equal.
_STABLE, _TIE = 1.15, 1e-6


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


def _fastest(frame: pd.DataFrame, figure: str, text: str) -> Claim:
    """Whether SPP is faster than all in the paper everywhere; and where another one comes closest."""
    over = mean_ratios(frame, figure)[list(_PAPER)]
    values = over.to_numpy()
    if np.isnan(values).all():
        return Claim(figure, text, None, "–")
    row, column = map(int, np.unravel_index(np.nanargmin(values), values.shape))
    closest = float(values[row, column])
    measured = f"closest: {list(_PAPER.values())[column]} at {over.index[row]}, {percent(closest)}"
    faster = closest > 1 + _TIE
    return Claim(figure, text, None if faster and np.isnan(values).any() else faster, measured)


def _use(frame: pd.DataFrame) -> Claim:
    used = points(frame, "6", "spp").groupby("label", sort=False)["utilisation"].mean()
    measured = f"{used.iloc[0]:.0%} to {used.iloc[-1]:.0%}"
    return _claim("6", "more microbatches, better use of the devices", used.is_monotonic_increasing, measured, used)


def _stable(frame: pd.DataFrame) -> Claim:
    steady, falling = (
        {method: _spread(frame, "7", method) for method in methods}
        for methods in (("spp", "gpipe", "pipedream"), ("data-parallel", "hetpipe"))
    )
    text = "SPP, GPipe and PipeDream are stable over bandwidths, DP and HetPipe are not"
    spreads = steady | falling
    measured = ", ".join(f"{method} {_factor(spread)}" for method, spread in spreads.items())
    holds = max(steady.values()) < _STABLE < min(falling.values())
    return _claim("7", text, holds, measured, spreads.values())


def _faster_than_pipedream(frame: pd.DataFrame) -> Claim:
    over = mean_ratios(frame, "9")["pipedream"]
    text = "over 20 % faster than PipeDream (synchronous) for all numbers of layers"
    return _claim("9", text, bool((over > 1.2).all()), ", ".join(map(percent, over)), over)


def _similar(frame: pd.DataFrame) -> Claim:
    spread = _spread(frame, "10", "spp")
    text = "SPP's time is similar for all sizes of activations"
    return _claim("10", text, spread < _STABLE, _factor(spread), [spread])


def _fewer_stages(frame: pd.DataFrame) -> Claim:
    text = "the least W is not the least time, which has fewer stages"
    _, workloads, times = by_stages(frame)
    if not len(times):
        return Claim("11", text, None, "–")
    best, least = int(times.argmin()) + 1, int(workloads.argmin()) + 1
    return Claim("11", text, best < least, f"time: {best} stages, W: {least}")


def _claim(figure: str, text: str, holds: bool, measured: str, numbers: Iterable[float]) -> Claim:
    """A claim that is undecided where a number is missing."""
    return Claim(figure, text, None if any(map(np.isnan, numbers)) else bool(holds), measured)


def _spread(frame: pd.DataFrame, figure: str, method: str) -> float:
    """Slowest over fastest point of a planner; NaN if a point is missing."""
    times = points(frame, figure, method).groupby("label")["time"].mean()
    return float(times.max(skipna=False) / times.min(skipna=False))


def _factor(spread: float) -> str:
    return "–" if np.isnan(spread) else f"x {spread:.2f}"
