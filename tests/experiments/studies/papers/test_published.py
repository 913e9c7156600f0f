"""Numbers of the papers: they agree with one another, and what stands in code agrees with them."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest

from experiments.studies.papers.numbers import PAPERS, comparison, numbers, table_iii, value_of
from experiments.studies.placeto import CELLS, DESIGNS
from experiments.studies.spp.jobs import TABLE, place_of, speed_up
from experiments.studies.spp.tables import _CYCLES, _FLAT, _MUCH, _STAGES

KS = (2, 4, 8, 16, 32, 64)


def test_all_numbers_are_there_once_and_can_be_held_against_something() -> None:
    found = numbers()
    assert len(found) == 459
    assert Counter(one.paper for one in found) == {"mtpp": 251, "spp": 127, "placeto": 81}
    assert set(PAPERS) == {one.paper for one in found}
    assert len({one[:4] for one in found}) == 459
    counts = Counter(comparison(one).comparable for one in found)
    assert counts == {"same": 87, "shape": 172, "no": 131, "setting": 69}
    for one in found:
        held = comparison(one)
        assert (held.kind in ("equal", "at most", "at least", "order")) == (held.comparable in ("same", "shape"))
        assert held.why or held.comparable == "setting"


@pytest.mark.parametrize(
    ("cell", "expert", "scotch"),
    [(0, 1.28, 1.54), (1, 1.15, 1.74), (2, None, None), (3, None, None), (4, 0.86, 1.28), (5, 0.84, 1.22)],
)
def test_bug_expert_and_scotch_were_exchanged(cell: int, expert: float | None, scotch: float | None) -> None:
    """By the order of the paper's text, and by its sentence that Placeto is 7.8 % faster than the expert."""
    assert (CELLS[cell].expert, CELLS[cell].scotch) == (expert, scotch)


def test_sentences_of_placeto_follow_from_its_table() -> None:
    inception = CELLS[0]
    assert inception.expert is not None
    assert round(100 * (1 - inception.placeto / inception.expert), 1) == 7.8
    names = [f"{network} {devices} GPUs" for network in ("Inception-V3", "NMT", "NASNet") for devices in (2, 4)]
    for name, cell in zip(names, CELLS, strict=True):
        reduction, factor = (value_of("placeto", "Table 1", name, c) for c in ("runtime reduction", "speedup factor"))
        assert 100 * (1 - cell.placeto / cell.recurrent) == pytest.approx(reduction, abs=0.1)
        assert cell.recurrent_samples / cell.placeto_samples == pytest.approx(factor, rel=0.03)
    assert (DESIGNS["partitioner"][1], DESIGNS["aggregator"][1]) == (0.13, 0.2)


def test_tables_of_mtpp_agree_with_one_another() -> None:
    """Table 3 begins with the last row of Table 1, Table 6 with that of Table 4; bounds never fall down a column."""
    for first, last in (("Table 1", "Table 3"), ("Table 4", "Table 6")):
        for k in KS:
            column = [value_of("mtpp", last, row, f"k={k}") for row in ("simple", "bottleneck", "exact")]
            assert column[0] == value_of("mtpp", first, "brkga-10000", f"k={k}")
            assert column == sorted(column, key=lambda x: -(x or 0))


def test_table_iii_has_the_speed_ups_of_its_seconds() -> None:
    """But for DP of XLNet on 1080Ti, where 6.77 to 6.93 % fit the seconds and 6.7 is printed."""
    off = []
    for cell in table_iii():
        testbed, model, planner = place_of(cell.row, cell.column)
        assert TABLE[testbed][model][planner] == cell.number
        if cell.note.startswith("SPP is"):
            said, gain = Decimal(cell.note.split()[2]), speed_up(testbed, model, planner)
            assert gain is not None
            seconds, least = Decimal(cell.value), Decimal(str(TABLE[testbed][model]["spp"]))
            half = Decimal("0.0005")
            low, high = ((seconds - half) / (least + half) - 1) * 100, ((seconds + half) / (least - half) - 1) * 100
            if not low - Decimal("0.05") <= said <= high + Decimal("0.05"):
                off.append((cell.row, cell.column))
    assert off == [("XLNet-large, 1080Ti-8", "DP")]
    assert sum(cell.value == "OOM" for cell in table_iii()) == 2


def test_what_stands_in_code_is_what_the_papers_say() -> None:
    schedule = [value_of("spp", "Fig. 4", "cycle schedule", column) for column in ("stages", "microbatches")]
    cycles = value_of("spp", "Fig. 4", "cycle schedule, 2 stages, 6 microbatches", "cycles")
    assert [*schedule, cycles] == list(_CYCLES)
    faster = value_of(
        "spp", "Fig. 9", "BERT-large, BERT-48, BERT-72: SPP against PipeDream", "faster on each, more than"
    )
    assert faster == pytest.approx(100 * (_MUCH - 1))
    assert value_of("spp", "Fig. 11", "W_PRM, BERT-large on 32 GPUs", "stable from") == _FLAT
    assert value_of("spp", "Fig. 11", "SPP's choice", "stages") == _STAGES
    for planner, name in (("gpipe", "GPipe"), ("pipedream", "PipeDream"), ("hetpipe", "HetPipe")):
        largest = max(
            speed_up(testbed, model, planner) or 0
            for testbed in TABLE
            for model in TABLE[testbed]
            if planner in TABLE[testbed][model]
        )
        assert value_of("spp", "Section I", f"SPP against {name}", "faster, up to") == int(100 * largest)
