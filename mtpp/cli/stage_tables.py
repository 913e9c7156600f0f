"""Tables below the result: what each stage of a partition is and costs, and what crosses each cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from instances import Partition
from instances.errors import printable
from instances.graph.tensors import FloatArray, IntArray
from instances.partitioning.stage_records import Crossing, Stage
from instances.partitioning.stages import crossings, stages
from mtpp.text.numbers import Scale, bytes_in_words
from mtpp.text.tables import fitted

__all__ = ["crossing_table", "stage_table", "tables"]

# Of many stages and cuts, so many are shown; of the tensors of a cut, and of those of all cuts together.
_MOST_ROWS, _MOST_A_CUT, _MOST_TENSORS = 64, 16, 64


def tables(partition: Partition, width: int | None) -> list[str]:
    """The stages of a partition and what crosses between them, as text.

    Parameters
    ----------
    width : int, optional
        Of the terminal.
    """
    found, moved = stages(partition), crossings(partition)
    shown = [stage_table(partition, found, width)]
    return [*shown, crossing_table(partition, found, moved, width)] if moved else shown


def stage_table(partition: Partition, found: Sequence[Stage], width: int | None) -> str:
    """One row a stage, of very many stages those that cost most; empty ones are counted.

    Parameters
    ----------
    found : sequence of Stage
        Of the partition.
    width : int, optional
        Of the terminal.
    """
    cheapest_first = sorted(found, key=lambda stage: stage.cost)
    hidden = cheapest_first[: max(0, len(found) - _MOST_ROWS)]
    shown = sorted(cheapest_first[len(hidden) :], key=lambda stage: stage.stage)
    time = Scale.of_times((stage.cost for stage in shown), partition.instance.time_unit)
    times = ["work", "receive", "send", *(["overflow"] if any(stage.overflow for stage in found) else []), "cost"]
    states = {"states": "state_bytes"} if any(stage.state_bytes for stage in found) else {}
    sizes = {"parameters": "param_bytes", **states, "peak": "peak_bytes"}
    size = Scale.of_bytes(getattr(stage, field) for stage in shown for field in sizes.values())
    on = [f" {printable(name)}" for name in partition.kind_names] or [""] * partition.instance.k
    rows = [
        [
            f"{stage.stage}{on[stage.stage]}",
            stage.first,
            stage.last if stage.nodes > 1 else "",
            str(stage.nodes),
            *(time.cell(getattr(stage, name)) for name in times),
            f"{stage.share:.1%}",
            *(size.cell(getattr(stage, field)) for field in sizes.values()),
        ]
        for stage in shown
    ]
    header = ["stage", "first node", "last node", "nodes", *(f"{name} [{time.unit}]" for name in times), "share"]
    table = fitted([*header, *(f"{name} [{size.unit}]" for name in sizes)], rows, width, words={0, 1, 2})
    notes = []
    if hidden:
        notes.append(f"… {len(hidden)} more stages, each at most {hidden[-1].share:.1%} of the bottleneck")
    if empty := partition.instance.k - len(found):
        notes.append(f"empty: {empty} of {partition.instance.k} stages")
    return "\n".join([table, *notes])


def crossing_table(partition: Partition, found: Sequence[Stage], moved: Sequence[Crossing], width: int | None) -> str:
    """The tensors that cross each cut between two stages that follow each other, largest first.

    A tensor crosses a cut if it is made before and read behind it, so that one of many stages is in several cuts.

    Parameters
    ----------
    found : sequence of Stage
        Of the partition.
    moved : sequence of Crossing
        At least one, of the partition.
    width : int, optional
        Of the terminal.
    """
    before = np.array([stage.stage for stage in found[:-1]])
    source = np.array([tensor.source for tensor in moved])
    last = np.array([tensor.readers[-1] for tensor in moved])
    size = np.array([tensor.bytes for tensor in moved])
    totals = _totals(np.searchsorted(before, source), np.searchsorted(before, last), size, len(before))
    shown = np.sort(np.argsort(-totals, kind="stable")[:_MOST_ROWS])
    largest = float(totals[shown].max())
    sizes = Scale.of_bytes([largest])
    times = Scale.of_times([largest / partition.instance.platform.bandwidth], partition.instance.time_unit)
    most = min(_MOST_A_CUT, max(1, _MOST_TENSORS // len(shown)))
    outputs = np.diff(partition.instance.graph.output_start)
    rows: list[list[str]] = []
    for cut in shown.tolist():
        crossing = np.flatnonzero((source <= before[cut]) & (last > before[cut]))
        crossing = crossing[np.argsort(-size[crossing], kind="stable")]
        label = f"{before[cut]}|{found[cut + 1].stage}"
        rows += _cut_rows(label, [moved[i] for i in crossing.tolist()], most, outputs, (sizes, times))
    header = ["cut", "tensor", "from", "to", f"size [{sizes.unit}]", f"time [{times.unit}]"]
    table = fitted(header, rows, width, words={0, 1, 3})
    left = len(before) - len(shown)
    return (
        f"{table}\n… {left} more cuts, each of at most {bytes_in_words(float(totals[shown].min()))}" if left else table
    )


def _cut_rows(
    label: str, crossing: Sequence[Crossing], most: int, outputs: IntArray, scales: tuple[Scale, Scale]
) -> Iterator[list[str]]:
    """A tensor in a row with its cut; of several, the cut has a row of its own with the sums."""

    def numbers(tensors: Sequence[Crossing]) -> list[str]:
        sums = (sum(tensor.bytes for tensor in tensors), sum(tensor.time for tensor in tensors))
        return [scale.cell(total) for scale, total in zip(scales, sums, strict=True)]

    if len(crossing) > 1:
        yield [label, f"{len(crossing)} tensors", "", "", *numbers(crossing)]
        label = ""
    most += len(crossing) == most + 1  # a row that says "1 more" says less than the tensor
    for tensor in crossing[:most]:
        name = f"{tensor.producer}:{tensor.output}" if outputs[tensor.node] > 1 else tensor.producer
        yield [label, name, str(tensor.source), _ranges(tensor.readers), *numbers([tensor])]
    if rest := crossing[most:]:
        yield ["", f"… {len(rest)} more", "", "", *numbers(rest)]


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in order, runs of them by their ends: 1–3,5."""
    cuts = [i for i in range(1, len(numbers)) if numbers[i] != numbers[i - 1] + 1]
    runs = [numbers[i:j] for i, j in zip([0, *cuts], [*cuts, len(numbers)], strict=True)]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def _totals(first: IntArray, behind: IntArray, size: FloatArray, count: int) -> FloatArray:
    """(count,) bytes of each cut, where each tensor crosses the cuts from `first` to before `behind`."""
    change = np.zeros(count + 1)
    np.add.at(change, first, size)
    np.subtract.at(change, behind, size)
    return np.maximum(0.0, np.cumsum(change[:count]))
