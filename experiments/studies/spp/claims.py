"""Statements of the paper on its planner and its experiments (SPP), compared with measurements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from experiments.studies.claim import PaperClaim
from experiments.studies.spp.frames import by_stages, mean_ratios, mean_times, percent, points
from experiments.studies.spp.jobs import BOTH_SIDES, GUARANTEES
from experiments.studies.spp.measures import STABLE, cycles
from experiments.studies.spp.paper import BASELINES
from experiments.studies.spp.table_iii import cells

__all__ = ["claims"]

#: Times that are as near as that are equal.
_TIE = 1e-6
_MUCH = 1.2

#: The statements of the lemmas and the theorem, by the name of `Guarantee`.
_PROVED = {
    "Lemma 1": "PE takes at most M + 4 S - 4 cycles and the longest AllReduce",
    "Lemma 2": "W of PRM is at most 1 + Φ times the least, at least the work of a device",
    "Theorem 1": "SPP takes at most (2 + (4 V - 4) / M) (1 + Φ) times as long as any plan on all devices",
}
#: Cycles of the example with 2 stages and 6 microbatches.
_CYCLES = (2, 6, 10)
#: From how many stages on W is flat, and the stages of SPP's choice.
_FLAT, _STAGES = 4, 6
#: Planners whose largest speed-up the paper names.
_NAMED = ("gpipe", "pipedream", "hetpipe")


def claims(frame: pd.DataFrame) -> list[PaperClaim]:
    """Compare the statements of the paper with `frame`, that of `training_frame`."""
    return [
        *_guarantees(frame),
        _polynomial(frame),
        _example(),
        _never_above_data_parallel(frame),
        _fastest(frame, "6", "SPP outperforms all for all numbers of microbatches"),
        _use(frame),
        _stable(frame),
        _fastest(frame, "8", "SPP outperforms all in all topologies"),
        _faster_than_pipedream(frame),
        _stable_over_layers(frame),
        _similar(frame),
        _grows(frame),
        _flat(frame),
        _fewer_stages(frame),
        _six(frame),
        *_table_iii(cells(frame)),
    ]


def _guarantees(frame: pd.DataFrame) -> Iterator[PaperClaim]:
    """Left and right sides of the guarantees, once a question; a bound replaces the optimum, so nothing is refuted."""
    runs = frame[(frame["method"] == GUARANTEES) & frame["error"].isna()].drop_duplicates("question")
    sides = runs["guarantees"].to_list() if "guarantees" in runs else []
    for name, text in _PROVED.items():
        pairs = [guarantees[name] for guarantees in sides]
        kept = sum(left <= right * (1 + _TIE) for left, right in pairs)
        nearest = max((left / right for left, right in pairs if right > 0), default=math.nan)
        measured = f"{kept} of {len(pairs)} questions, left side at most {nearest:.0%} of the right one"
        measured += "" if kept == len(pairs) else ", where a bound stands for the least, so nothing is refuted"
        yield PaperClaim("text", f"{name}: {text}", True if pairs and kept == len(pairs) else None, measured)


def _polynomial(frame: pd.DataFrame) -> PaperClaim:
    """Proved by the loops, of which the seconds are an example; they are no proof, and refute nothing."""
    runs = points(frame, "9", "spp").groupby("label", sort=False)["seconds"].mean()
    shown = ", ".join(f"{seconds:.2g} s at {label} layers" for label, seconds in runs.dropna().items())
    return PaperClaim(
        "text", "SPP takes polynomial time", True, f"its loops: L² V² + L V³ a stage count; {shown or '–'}"
    )


def _example() -> PaperClaim:
    stages, microbatches, said = _CYCLES
    took = cycles(stages, microbatches)
    text = f"PE takes {said} cycles for {stages} stages and {microbatches} microbatches"
    return PaperClaim("Figure 4", text, took == said, f"{took} cycles")


def _never_above_data_parallel(frame: pd.DataFrame) -> PaperClaim:
    times = frame.drop_duplicates(["question", "method"]).pivot_table(
        index="question", columns="method", values="time", dropna=False
    )
    times = times.reindex(columns=["spp", "data-parallel"]).dropna()
    over = times["spp"] / times["data-parallel"]
    measured = f"{(over <= 1 + _TIE).sum()} of {len(over)} questions, at most {over.max():.3f}"
    return PaperClaim(
        "text", "SPP is never slower than DP", bool((over <= 1 + _TIE).all()) if len(over) else None, measured
    )


def _fastest(frame: pd.DataFrame, figure: str, text: str) -> PaperClaim:
    """Whether SPP is faster than all in the paper everywhere; and where another one comes closest."""
    over = mean_ratios(frame, figure)[list(BASELINES)]
    values = over.to_numpy()
    if np.isnan(values).all():
        return PaperClaim(f"Figure {figure}", text, None, "no runs")
    row, column = map(int, np.unravel_index(np.nanargmin(values), values.shape))
    closest = float(values[row, column])
    label, rival = over.index[row], list(BASELINES)[column]
    measured = f"closest: {BASELINES[rival]} at {label}, {percent(closest)}"
    faster = closest > 1 + _TIE
    if not faster:
        measured += _with_both_sides(frame, figure, label, rival)
    return PaperClaim(f"Figure {figure}", text, None if faster and np.isnan(values).any() else faster, measured)


def _with_both_sides(frame: pd.DataFrame, figure: str, label: str, rival: str) -> str:
    """Words on SPP when it also tries the larger side of each cut first, which the paper leaves open; may be empty."""
    ours, other = (mean_times(frame, figure, method).get(label, math.nan) for method in (BOTH_SIDES, rival))
    return "" if math.isnan(ours) else f"; with both sides of each cut first {percent(other / ours)}"


def _use(frame: pd.DataFrame) -> PaperClaim:
    used = points(frame, "6", "spp").groupby("label", sort=False)["utilisation"].mean()
    measured = f"{used.iloc[0]:.0%} to {used.iloc[-1]:.0%}" if len(used) else "no runs"
    return _claim("6", "more microbatches, better use of the devices", used.is_monotonic_increasing, measured, used)


def _stable(frame: pd.DataFrame) -> PaperClaim:
    steady, falling = (
        {method: _spread(mean_times(frame, "7", method)) for method in methods}
        for methods in (("spp", "gpipe", "pipedream"), ("data-parallel", "hetpipe"))
    )
    text = "SPP, GPipe and PipeDream are stable over bandwidths, DP and HetPipe are not"
    spreads = steady | falling
    measured = ", ".join(f"{method} {_factor(spread)}" for method, spread in spreads.items())
    holds = max(steady.values()) < STABLE < min(falling.values())
    return _claim("7", text, holds, measured, spreads.values())


def _faster_than_pipedream(frame: pd.DataFrame) -> PaperClaim:
    over = mean_ratios(frame, "9")["pipedream"]
    text = "over 20 % faster than PipeDream (synchronous) for all numbers of layers"
    measured = ", ".join(map(percent, over))
    both = mean_times(frame, "9", "pipedream") / mean_times(frame, "9", BOTH_SIDES)
    if both.notna().all() and len(both):
        measured += f"; with both sides of each cut first {', '.join(map(percent, both))}; this PipeDream minimises W"
    return _claim("9", text, bool((over > _MUCH).all()), measured, over)


def _stable_over_layers(frame: pd.DataFrame) -> PaperClaim:
    spreads = {}
    for method in ("spp", "pipedream"):
        times = mean_times(frame, "9", method)
        numbered = all(str(label).isdigit() for label in times.index)
        spreads[method] = _spread(times / times.index.astype(float)) if numbered else math.nan
    measured = ", ".join(f"{method} {_factor(spread)}" for method, spread in spreads.items())
    text = "SPP and PipeDream are stable over layers (time a layer)"
    return _claim("9", text, max(spreads.values()) < STABLE, measured, spreads.values())


def _similar(frame: pd.DataFrame) -> PaperClaim:
    spread = _spread(mean_times(frame, "10", "spp"))
    text = "SPP's time is similar for all sizes of activations"
    return _claim("10", text, spread < STABLE, _factor(spread), [spread])


def _grows(frame: pd.DataFrame) -> PaperClaim:
    spread = _spread(mean_times(frame, "10", "gpipe"))
    text = "GPipe's time grows with the activations"
    return _claim("10", text, spread > STABLE, _factor(spread), [spread])


def _flat(frame: pd.DataFrame) -> PaperClaim:
    text = f"W falls with the stages, and is stable from {_FLAT} on"
    _, workloads, _ = by_stages(frame)
    if len(workloads) < _FLAT:
        return PaperClaim("Figure 11", text, None, "too few stages")
    first, later = workloads[0], workloads[_FLAT - 1 :]
    spread = float(later.max() / later.min())
    where = int(later.argmin()) + _FLAT
    measured = f"{first:.3g} s with one, {later.min():.3g} with {where}, {workloads[-1]:.3g} with {len(workloads)}"
    return PaperClaim(
        "Figure 11", text, bool(spread < STABLE and first > later.max()), f"{measured}; {_factor(spread)}"
    )


def _fewer_stages(frame: pd.DataFrame) -> PaperClaim:
    text = "the least W is not the least time, which has fewer stages"
    _, workloads, times = by_stages(frame)
    if not len(times):
        return PaperClaim("Figure 11", text, None, "no runs")
    best, least = int(times.argmin()) + 1, int(workloads.argmin()) + 1
    return PaperClaim("Figure 11", text, 1 < best < least, f"time: {best} stages, W: {least}")


def _six(frame: pd.DataFrame) -> PaperClaim:
    text = f"SPP takes {_STAGES} stages"
    _, _, times = by_stages(frame)
    if len(times) < _STAGES:
        return PaperClaim("Figure 11", text, None, "too few stages")
    best = int(times.argmin()) + 1
    return PaperClaim(
        "Figure 11", text, best == _STAGES, f"{best}, {times[best - 1] / times[_STAGES - 1]:.3f} of {_STAGES}"
    )


def _table_iii(table: pd.DataFrame) -> Iterator[PaperClaim]:
    """The sentences of Section V-A on Table III; one cell that is not measured leaves them open."""
    rivals = table[(table["planner"] != "spp") & table["paper"].notna()]
    over = rivals["speed-up"]
    open_ = over.isna().any()

    def claim(text: str, holds: bool, measured: str) -> PaperClaim:
        return PaperClaim(
            "Table III", text, None if open_ else bool(holds), "not all runs are there" if open_ else measured
        )

    faster = int((over > _TIE).sum())
    ties = rivals[over.abs() <= _TIE]
    measured = f"{faster}; DP is what SPP chooses in {len(ties)}" if len(ties) else str(faster)
    yield claim(f"SPP outperforms all in all {len(over)} cells", faster == len(over), measured)
    for planner in _NAMED:
        largest = rivals[rivals["planner"] == planner]["paper speed-up"].max()
        here = rivals[rivals["planner"] == planner]["speed-up"].max()
        text = f"SPP is up to {100 * largest:.0f} % faster than {BASELINES[planner]}"
        yield claim(text, abs(here / largest - 1) < STABLE - 1, f"up to {100 * here:.0f} %")
    reduced = rivals[rivals["planner"].isin(("data-parallel", "hetpipe"))]["speed-up"]
    many = int((reduced > _MUCH - 1).sum())
    text = "more than 20 % faster than DP and HetPipe in most cases"
    yield claim(text, 2 * many > len(reduced), f"{many} of {len(reduced)}")
    yield _out_of_memory(table)


def _out_of_memory(table: pd.DataFrame) -> PaperClaim:
    text = "two cells run out of memory: DP on BERT-48 and PipeDream on ResNet152, 1080Ti x 8"
    said = table[table["paper"].isna()]
    if said["memory"].isna().any():
        return PaperClaim("Table III", text, None, "not all runs are there")
    needs = ", ".join(f"{cell['model']} {cell['memory'] / 2**30:.1f} GiB" for cell in said.to_dict("records"))
    others = int((table["fits"].eq(False) & table["paper"].notna()).sum())
    measured = f"they need {needs}; {others} cells that the paper ran need more than is there"
    return PaperClaim("Table III", text, bool(said["fits"].eq(False).all() and others == 0), measured)


def _claim(figure: str, text: str, holds: bool, measured: str, numbers: Iterable[float]) -> PaperClaim:
    """A claim that is undecided where a number is missing."""
    values = list(numbers)
    missing = not values or any(map(np.isnan, values))
    return PaperClaim(f"Figure {figure}", text, None if missing else bool(holds), measured)


def _spread(times: pd.Series) -> float:
    """Slowest over fastest point; NaN if one is missing."""
    return float(times.max(skipna=False) / times.min(skipna=False)) if len(times) else math.nan


def _factor(spread: float) -> str:
    return "–" if np.isnan(spread) else f"x {spread:.2f}"
