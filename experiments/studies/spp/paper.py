"""Table III of the paper: seconds of an iteration, measured on two testbeds (Luo et al., INFOCOM 2022, Section V-A)."""

from __future__ import annotations

from types import MappingProxyType

__all__ = ["BASELINES", "TABLE", "speed_up"]

#: Planners besides SPP in the paper's words, and here; its PipeDream and HetPipe are synchronous.
BASELINES = MappingProxyType({"data-parallel": "DP", "gpipe": "GPipe", "pipedream": "PipeDream", "hetpipe": "HetPipe"})

_PLANNERS = ("spp", *BASELINES)

_SECONDS: dict[str, dict[str, tuple[float | None, ...]]] = {
    "1080ti-8": {
        "vgg19": (1.799, 2.882, 2.120, 1.949, 2.696),
        "resnet152": (0.732, 0.896, 1.214, None, 0.843),
        "inception-v3": (0.303, 0.420, 0.551, 0.656, 0.408),
        "transformer-base": (0.640, 0.944, 1.234, 1.118, 0.766),
        "bert-large": (0.409, 0.524, 0.472, 0.421, 0.525),
        "xlnet-large": (1.299, 1.388, 1.696, 1.384, 1.628),
        "bert-48": (0.762, None, 1.885, 1.266, 1.377),
    },
    "v100-4": {
        "vgg19": (0.983, 1.245, 1.004, 1.024),
        "resnet152": (0.832, 1.209, 1.041, 0.873),
        "inception-v3": (0.357, 0.663, 0.587, 0.919),
        "transformer-base": (1.065, 2.533, 1.487, 1.830),
        "bert-large": (0.952, 2.269, 1.665, 1.084),
        "xlnet-large": (1.437, 1.842, 1.720, 1.690),
        "bert-48": (0.855, 1.656, 1.199, 1.160),
    },
}

#: By testbed, model and planner; None where the paper ran out of memory. The second testbed is one server, where
#: HetPipe is PipeDream.
TABLE = {
    testbed: {model: dict(zip(_PLANNERS, seconds, strict=False)) for model, seconds in rows.items()}
    for testbed, rows in _SECONDS.items()
}


def speed_up(testbed: str, model: str, planner: str) -> float | None:
    """Time of a planner over that of SPP in the paper, less 1; None where it ran out of memory.

    Examples
    --------
    >>> round(speed_up("v100-4", "inception-v3", "pipedream"), 3)
    1.574
    """
    row = TABLE[testbed][model]
    seconds, least = row[planner], row["spp"]
    assert least is not None
    return None if seconds is None else seconds / least - 1
