"""Whether methods differ: `significance`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instances import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["significance"]

#: Columns that hold a number a run, and whether less is better.
_VALUES = {"bottleneck": True, "ratio": True, "seconds": True, "bound": False}
_COLUMNS = (
    *("first", "second", "ratio", "low", "high", "p", "holm", "better"),
    *("wins", "ties", "losses", "questions", "clusters"),
)


def significance(frame: pd.DataFrame, value: str = "bottleneck", cluster: str | None = None) -> pd.DataFrame:
    """Compare every two methods of a frame of `mtpp.compare`, and say which differences are more than chance.

    A difference counts where 1 is outside of the 95 % interval of the ratio, and p, corrected for the number of pairs,
    is below 0.05. Graphs of one network are one cluster; with fewer than 8 clusters nothing is told apart.

    Parameters
    ----------
    frame : DataFrame
        With the columns graph, k, method, solver and that of `value`; several seeds of a method are averaged.
    value : str
        Column to compare: "bottleneck", "ratio" or "seconds", where less is better, or "bound", where more is.
    cluster : str, optional
        Column with the network of a graph. By default the column "cluster" if there is one, else the name of the graph
        without "-layer" and "-training".

    Returns
    -------
    DataFrame
        A row for each two methods. `ratio` is the geometric mean of first over second over the questions (graph and k)
        that both answered, `low` and `high` its bootstrap interval; `p` is that of Wilcoxon's signed-rank test on the
        means of the clusters (zeros as Pratt), `holm` its correction (Holm); `better` the better method, missing where
        they cannot be told apart; `wins`, `ties` and `losses` count questions, for the first method; `questions` and
        `clusters` are what this rests on.

    Raises
    ------
    InputError
        If a column is missing, or `value` is none of these.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [(f"g{i}", 2, m, None, c + i % 3) for i in range(12) for m, c in (("a", 10.0), ("b", 11.0))]
    >>> frame = pd.DataFrame(rows, columns=["graph", "k", "method", "solver", "bottleneck"])
    >>> significance(frame)[["first", "second", "better", "wins", "clusters"]].values.tolist()
    [['a', 'b', 'a', 12, 12]]
    """
    import numpy as np
    import pandas as pd

    from mtpp.runs.statistics.intervals import cluster_of
    from mtpp.runs.statistics.pairs import compare_pairs

    _check(frame, value, cluster)
    rows = frame.copy()
    if cluster is None and "cluster" not in rows:
        rows["cluster"] = rows["graph"].map(cluster_of)
    rows["label"] = _labels(rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows["log"] = np.log(rows[value].to_numpy(dtype=float))
    grid = rows.pivot_table(index=["graph", "k"], columns="label", values="log", aggfunc="mean", sort=False)
    networks = rows.drop_duplicates(["graph", "k"]).set_index(["graph", "k"])[cluster or "cluster"]
    columns = {str(name): np.exp(grid[name].to_numpy()) for name in dict.fromkeys(rows["label"]) if name in grid}
    if len(columns) < 2:
        raise InputError("There are no two methods with values to compare; give a frame of two methods at least.")
    less_is_better = _VALUES[value]
    made = []
    for pair in compare_pairs(columns, networks.reindex(grid.index).tolist()):
        better = None
        if pair.told_apart:
            better = pair.first if (pair.ratio < 1) == less_is_better else pair.second
        wins, losses = (pair.less, pair.more) if less_is_better else (pair.more, pair.less)
        made.append((*pair[:7], better, wins, pair.ties, losses, pair.questions, pair.clusters))
    return pd.DataFrame(made, columns=list(_COLUMNS))


def _check(frame: Any, value: str, cluster: str | None) -> None:
    if value not in _VALUES:
        raise InputError(f"value={value!r}: choose one of {', '.join(_VALUES)}.")
    needed = ("graph", "k", "method", value, *([cluster] if cluster else []))
    for name in needed:
        if name not in getattr(frame, "columns", ()):
            raise InputError(f"The frame has no column {name!r}; give one of mtpp.compare.")


def _labels(rows: pd.DataFrame) -> pd.Series[str]:
    """Methods, with their solver where one method ran with several."""
    method = rows["method"].astype(str)
    if "solver" not in rows:
        return method
    several = rows.groupby("method")["solver"].transform("nunique") > 1
    return method.where(~several, method + " " + rows["solver"].astype(str))
