"""Places of the stages of all pipelines on servers, such that no tensor group leaves its server."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instances.graph.tensors import IntArray

__all__ = ["PLACINGS", "place"]

#: Which devices are neighbours: the replicas of a stage, as Megatron-LM does, or the stages of a pipeline.
PLACINGS = ("stages", "pipelines")


def place(count: int, size: int, widths: Sequence[int], pipelines: int, placing: str) -> IntArray | None:
    """First device of each stage of each pipeline.

    Wider groups come first, so that degrees that divide one another leave no gaps; each goes to the first server that
    has room.

    Parameters
    ----------
    count, size : int
        Servers and their devices.
    widths : (S,) integers
        Devices of a stage of one pipeline, which lie in one server.
    pipelines : int
    placing : str
        One of `PLACINGS`.

    Returns
    -------
    (S, pipelines) integers, or None if they do not fit
    """
    wide = np.repeat(np.array(widths), pipelines)
    stage, pipeline = np.divmod(np.arange(wide.size), pipelines)
    keys = (pipeline, stage, -wide) if placing == "stages" else (stage, pipeline, -wide)
    first, used = np.empty(wide.size, dtype=np.int64), np.zeros(count, dtype=np.int64)
    start = 0  # servers before it have no room for groups that are no wider
    for group in np.lexsort(keys).tolist():
        while start < count and used[start] == size:
            start += 1
        server = start
        while server < count and used[server] + wide[group] > size:
            server += 1
        if server == count:
            return None
        first[group] = server * size + used[server]
        used[server] += wide[group]
    return first.reshape(len(widths), pipelines)
