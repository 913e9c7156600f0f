"""Table III of the paper: seconds of an iteration, measured on two testbeds (Luo et al., INFOCOM 2022, Section V-A)."""

from __future__ import annotations

from types import MappingProxyType

from experiments.studies.papers.verdicts import table_iii

#: Planners besides SPP in the paper's words, and here; its PipeDream and HetPipe are synchronous.
BASELINES = MappingProxyType({"data-parallel": "DP", "gpipe": "GPipe", "pipedream": "PipeDream", "hetpipe": "HetPipe"})

#: Models of the paper, and as they are called here.
_MODELS = {
    "VGG19": "vgg19",
    "ResNet152": "resnet152",
    "Inception-V3": "inception-v3",
    "Transformer": "transformer-base",
    "BERT-large": "bert-large",
    "XLNet-large": "xlnet-large",
    "BERT-48": "bert-48",
}


def place_of(row: str, column: str) -> tuple[str, str, str]:
    """Testbed, model and planner of a cell of the table, as they are called here.

    Examples
    --------
    >>> place_of("VGG19, 1080Ti-8", "DP")
    ('1080ti-8', 'vgg19', 'data-parallel')
    """
    model, testbed = row.split(", ")
    planners = {name: planner for planner, name in BASELINES.items()} | {"SPP": "spp"}
    return testbed.lower(), _MODELS[model], planners[column]


def _table() -> dict[str, dict[str, dict[str, float | None]]]:
    table: dict[str, dict[str, dict[str, float | None]]] = {}
    for cell in table_iii():
        testbed, model, planner = place_of(cell.row, cell.column)
        table.setdefault(testbed, {}).setdefault(model, {})[planner] = cell.number
    return table


#: By testbed, model and planner; None where the paper ran out of memory. The second testbed is one server, where
#: HetPipe is PipeDream.
TABLE = _table()


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
