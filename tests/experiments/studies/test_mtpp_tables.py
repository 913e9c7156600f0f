"""Tables against numbers computed by hand, and their renderings."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import mtpp

from experiments.studies.mtpp import (
    COLUMNS,
    bound_table,
    certificate_table,
    closing_rows,
    gap_table,
    heuristic_table,
    instance_rows,
    primal_table,
    profile_ratios,
    run_frame,
    running_times,
    time_table,
)
from instances import InputError
from mtpp.runs.statistics import geometric_mean
from mtpp.text.tables import FORMATS


def run(
    instance: str, k: int, method: str, value: float | None, *, optimal: bool = True, **other: Any
) -> dict[str, Any]:
    """A run as a file holds it; `value` is None for a failed one."""
    heuristic = method in ("kahn", "random-1")
    return {
        "key": f"{instance}{k}{method}{other}",
        "question": f"{instance}-{k}",
        "instance": instance,
        "k": k,
        "n": 10,
        "m": 20,
        "communication_over_work": 0.5,
        "method": method,
        "kind": "heuristic" if heuristic else "model",
        "bottleneck": value if heuristic else None,
        "bound": None if heuristic else value,
        "optimal": None if heuristic or value is None else optimal,
        "seconds": 1.5,
        "error": "boom" if value is None else None,
        "solver": None if heuristic else "highs",
        "time_limit": None,
        "parameters": {},
        "seed": 0,
        "version": "1",
        **other,
    }


#: Two instances at k = 2 and one at k = 4. Instance a: simple 10, partitions 40 and 20; b: simple 5, partition 5.
RUNS = [
    run("a", 2, "exact", 16.0, optimal=False),
    run("a", 2, "random-1", 20.0),
    run("a", 2, "kahn", 40.0),
    run("a", 2, "simple", 10.0),
    run("a", 2, "bottleneck", 12.5),
    run("b", 2, "simple", 5.0),
    run("b", 2, "kahn", 5.0),
    run("b", 2, "random-1", None),
    run("b", 2, "bottleneck", None),
    run("b", 2, "exact", 5.0),
    run("a", 4, "simple", 8.0),
    run("a", 4, "kahn", 18.0),
    run("a", 4, "bottleneck", 8.0),
    run("a", 4, "exact", 7.0, optimal=False),
]


def test_heuristics_over_simple() -> None:
    """Means over instances: kahn 40/10 and 5/5 give 2; a missing partition leaves its cell empty."""
    table = heuristic_table(run_frame(RUNS))
    header, rows = table.rows()
    assert header == ["", "k=2", "k=4"]
    assert rows == [["kahn", "2.000", "2.250"], ["random-1", "–", "–"]]
    assert table.note == (
        "Geometric mean over the instances (k=2: 2, k=4: 1); no interval from fewer than 8 networks, so that small "
        "differences say nothing. 2 of 6 runs are missing."
    )


def test_bounds_over_simple() -> None:
    """A bound missing or below simple counts as simple, a missing one as not solved; rows in order of effort."""
    _, rows = bound_table(run_frame(RUNS)).rows()
    assert rows == [
        ["simple", "1.000 (100 %)", "1.000 (100 %)"],
        ["bottleneck", f"{math.sqrt(1.25):.3f} (50 %)", "1.000 (100 %)"],
        ["exact", f"{math.sqrt(1.6):.3f} (50 %)", "1.000 (0 %)"],
    ]


def test_bug_a_relaxation_below_simple_was_shown_as_simple() -> None:
    """Its value is what is asked for."""
    runs = [run("a", 2, "simple", 8.0), run("a", 2, "exact:lp", 4.0), run("a", 2, "bottleneck", 4.0)]
    assert bound_table(run_frame(runs)).grid[2].to_dict() == {"simple": 1.0, "bottleneck": 1.0, "exact:lp": 0.5}


def test_best_over_best_only_falls() -> None:
    """Each row takes one more bound into account, also where it is weaker than an earlier one."""
    table = certificate_table(run_frame(RUNS))
    assert list(table.grid.index) == ["simple", "+ bottleneck", "+ exact"]
    assert table.grid[2].tolist() == pytest.approx([math.sqrt(2), math.sqrt(1.6), math.sqrt(1.25)])
    assert table.grid[4].tolist() == pytest.approx([2.25, 2.25, 2.25])


def test_without_any_partition_the_certificate_is_missing() -> None:
    """An instance without partition empties its column."""
    table = certificate_table(run_frame([run("a", 2, "simple", 1.0), run("a", 2, "kahn", None)]))
    assert table.rows()[1] == [["simple", "–"]]


def test_all_zero_work_has_ratio_one() -> None:
    """0 over 0 is 1 in every table."""
    frame = run_frame([run("z", 2, method, 0.0) for method in ("simple", "kahn", "exact")])
    for table in (heuristic_table(frame), bound_table(frame), certificate_table(frame)):
        assert (table.grid == 1.0).all(axis=None)


def test_something_over_zero_is_infinite() -> None:
    """A positive bottleneck over a zero bound is shown as infinite."""
    frame = run_frame([run("z", 2, "simple", 0.0), run("z", 2, "kahn", 1.0)])
    assert heuristic_table(frame).rows()[1] == [["kahn", "∞"]]


def test_configurations_of_one_method_are_different_rows() -> None:
    """Runs of two solvers are told apart by name, and only where they differ; relaxations come first."""
    runs = [run("a", 2, method, 1.0) for method in ("simple", "kahn", "exact", "exact:lp")]
    frame = run_frame([*runs, run("a", 2, "exact", 1.0, solver="scip")])
    assert list(bound_table(frame).grid.index) == ["simple", "exact:lp", "exact solver=highs", "exact solver=scip"]


def test_a_run_without_a_time_limit_says_so_beside_others() -> None:
    runs = [run("a", 2, "simple", 1.0), run("a", 2, "exact", 1.0), run("a", 2, "exact", 1.0, time_limit=60.0)]
    labels = run_frame(runs)["label"].tolist()
    assert labels == ["simple", "exact time_limit=60.0", "exact time_limit=none"]


def test_strengthened_models_are_ordered_by_their_parts() -> None:
    """None, one, all but one, all; each after the model that it strengthens."""
    names = ("exact+all", "exact+all-joins", "exact+cuts", "exact+all:lp", "exact", "coarse-4+all", "coarse-4")
    frame = run_frame([run("a", 2, name, 1.0) for name in ("simple", *names)])
    assert list(bound_table(frame).grid.index[1:]) == [*names[:-3:-1], "exact+all:lp", "exact", *names[2::-1]]


def test_seconds_of_bounds() -> None:
    """(1 + 1) (1 + 7) is the square of 1 + 3; what failed has no time."""
    pair = [run("a", 2, "exact", 1.0, seconds=1.0), run("b", 2, "exact", 1.0, seconds=7.0)]
    failed = [run("a", 2, "bottleneck", None), run("b", 2, "bottleneck", 1.0)]
    frame = run_frame(
        [*pair, *failed, run("a", 2, "simple", 1.0, seconds=0.0), run("b", 2, "simple", 1.0, seconds=0.0)]
    )
    assert time_table(frame).rows()[1] == [["simple", "0.000"], ["bottleneck", "–"], ["exact", "3.000"]]


def test_integrals_end_with_the_longest_run_of_a_question() -> None:
    """A search without a trace counts at its end; a bound from its first moment on."""
    trace = [[1.0, 10.0, None], [3.0, 8.0, 4.0]]
    frame = run_frame(
        [
            run("a", 2, "kahn", 10.0, seconds=2.0),
            run("a", 2, "simple", 4.0, seconds=0.0),
            run("a", 2, "exact", 4.0, seconds=9.0, bottleneck=8.0, trace=trace),
        ]
    )
    assert primal_table(frame).grid.to_numpy().tolist() == [[pytest.approx(2 + 7 * 0.2)]]
    assert gap_table(frame).grid.to_numpy().tolist() == [[pytest.approx(3 + 6 * 0.5)]]


def test_the_first_bound_to_reach_the_best_partition() -> None:
    """By seconds; of b none does, which is not asked for k = 4, and a failed run has no bound."""
    runs = [run("a", 2, "kahn", 8.0), run("a", 2, "simple", 4.0, seconds=0.0), run("a", 2, "exact", 8.0, seconds=9.0)]
    runs += [run("a", 2, "ideals", 8.0, seconds=2.0), run("b", 2, "kahn", 8.0), run("b", 2, "simple", 4.0)]
    runs += [run("b", 2, "exact", None), run("a", 4, "kahn", 4.0), run("a", 4, "simple", 4.0, seconds=0.0)]
    frame = run_frame(runs)
    header, rows = closing_rows(frame)
    assert header == ["", "k=2", "k=4"]
    assert rows == [["simple", "0 %", "100 %"], ["ideals", "50 %", "0 %"], ["none", "50 %", "0 %"]]
    header, rows = instance_rows(frame)
    assert header[-2:] == ["k=2", "k=4"]
    assert [row[-2:] for row in rows] == [["ideals", "simple"], ["none", "–"]]


def test_simple_is_required() -> None:
    """Without the reference there is no table."""
    with pytest.raises(InputError, match="'simple'"):
        run_frame([run("a", 2, "kahn", 1.0)])
    with pytest.raises(InputError, match="no run"):
        run_frame([])


def test_a_missing_simple_costs_its_question_alone() -> None:
    """The other instance is compared as if the first were not there; a field of any run has it, too."""
    runs = [one for one in RUNS if (one["instance"], one["k"], one["method"]) != ("a", 2, "simple")]
    assert heuristic_table(run_frame(runs)).grid[2].tolist()[:1] == [1.0]
    runs[1] |= {"simple": 10.0}
    assert heuristic_table(run_frame(runs)).grid[2].tolist()[:1] == [2.0]


def test_cells_have_intervals_and_say_what_is_not_told_apart() -> None:
    """kahn and random-1 differ by less than their spread, mine by more."""
    rng, runs = np.random.default_rng(3), []
    for i in range(24):
        name = f"net{i // 2}" + "-layer" * (i % 2)
        ratios = {"kahn": 1.2, "random-1": 1.2, "mine": 1.4}
        runs += [run(name, 2, "simple", 1.0)]
        runs += [heuristic_run(name, m, r * np.exp(rng.normal(0, 0.02))) for m, r in ratios.items()]
    table = heuristic_table(run_frame(runs))
    cells = table.cells.set_index("row")
    assert set(cells["graphs"]) == {24}
    assert set(cells["clusters"]) == {12}
    assert (cells["low"] < cells["value"]).all()
    assert (cells["high"] > cells["value"]).all()
    assert cells["value"].to_dict() == pytest.approx({"kahn": 1.2, "random-1": 1.2, "mine": 1.4}, rel=0.02)
    shown = {row[0]: row[1] for row in table.rows()[1]}
    assert list(shown) == ["kahn", "random-1", "mine"], "methods of others come last"
    assert sum(cell.endswith("≈") for cell in shown.values()) == 1
    assert not shown["mine"].endswith("≈")
    assert "of 12 networks, [95 % interval]. ≈: not told apart from the best" in table.note


def heuristic_run(instance: str, method: str, value: float | None, **other: Any) -> dict[str, Any]:
    return run(instance, 2, "kahn", value, **other) | {"method": method, "key": f"{instance}{method}{other}"}


def test_seeds_are_averaged_and_one_that_failed_empties_the_cell() -> None:
    """The geometric mean of 1 and 4 is 2."""
    runs = [run("a", 2, "simple", 1.0), *(heuristic_run("a", "random-1", v, seed=s) for s, v in enumerate((1.0, 4.0)))]
    assert heuristic_table(run_frame(runs)).grid[2].tolist() == [pytest.approx(2.0)]
    assert np.isnan(heuristic_table(run_frame([*runs, heuristic_run("a", "random-1", None, seed=9)])).grid[2]).all()


def test_sources_of_a_method_have_a_row_each() -> None:
    """A method that changed is not mixed with what it was."""
    runs = [
        run("a", 2, "simple", 1.0),
        *(heuristic_run("a", "kahn", v, sources=8 * h) for h, v in (("ab", 2.0), ("cd", 3.0))),
    ]
    assert heuristic_table(run_frame(runs)).grid[2].to_dict() == {
        "kahn sources=abababab": pytest.approx(2.0),
        "kahn sources=cdcdcdcd": pytest.approx(3.0),
    }


def test_the_last_run_of_a_key_counts() -> None:
    runs = [run("a", 2, "simple", 1.0), run("a", 2, "kahn", None), run("a", 2, "kahn", 2.0)]
    assert heuristic_table(run_frame(runs)).grid[2].tolist() == [2.0]


def test_csv_files_hold_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`mtpp table --from` makes tables of files of runs; runs of other studies do not count."""
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    other = {"kind": "training", "method": "spp"}
    for file, runs in zip(files, (RUNS[:7], [*RUNS[7:], RUNS[0] | other | {"key": "other"}]), strict=True):
        file.write_text("".join(json.dumps({"schema": "mtpp-run/1", **one}) + "\n" for one in runs))
    assert mtpp(f"table --from {files[0]} {files[1]} --tables {tmp_path / 'tables'}") == 0
    assert "Table 3" in capsys.readouterr().out
    written = pd.read_csv(tmp_path / "tables" / "table2.csv")
    assert tuple(written.columns) == COLUMNS
    expected = bound_table(run_frame(RUNS)).numbers
    pd.testing.assert_frame_equal(written, expected.reset_index(drop=True), check_dtype=False)
    assert written["value"].dtype == float
    assert mtpp(f"table --from {files[0]} --json") == 0
    assert json.loads(capsys.readouterr().out)["tables"][1]["numbers"][0]["item"] == "table1"


def test_damaged_lines_are_told_and_do_not_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "runs.jsonl"
    lines = [json.dumps({"schema": "mtpp-run/1", **one}) for one in RUNS]
    file.write_text("\n".join([*lines, '{"schema": "mtpp-run/1", "k', *lines[:1]]) + "\n")
    assert mtpp(f"table --from {file}") == 0
    assert f"line {len(lines) + 1} is not a run and does not count" in capsys.readouterr().err
    file.write_text("nonsense\n")
    assert mtpp(f"table --from {file}") == 2
    assert mtpp(f"table --from {tmp_path / 'none.jsonl'}") == 2


def test_data_of_the_figures() -> None:
    """Figures show runs that ended, and ratios to the best bound."""
    frame = run_frame(RUNS)
    assert running_times(frame) == {"simple": [1.5] * 3, "bottleneck": [1.5] * 2, "exact": [1.5] * 3}
    ratios = profile_ratios(frame)
    assert ratios["kahn"] == pytest.approx([40 / 16, 1.0, 18 / 8])
    assert ratios["random-1"] == pytest.approx([20 / 16, math.nan], nan_ok=True)


def test_instances_are_listed_once() -> None:
    """Every instance says n, m and communication over work."""
    header, rows = instance_rows(run_frame(RUNS))
    assert header[:4] == ["instance", "n", "m", "comm/work"]
    assert [row[:4] for row in rows] == [["a", "10", "20", "0.500"], ["b", "10", "20", "0.500"]]


def test_geometric_mean() -> None:
    """Hand-computed, with the conventions for infinite and missing values."""
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([1.0, math.inf]) == math.inf
    assert math.isnan(geometric_mean([1.0, math.nan]))


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("txt", "name     k=2\na_b   50 % –"),
        ("md", "| name | k=2 |\n| :-- | --: |\n| a_b | 50 % – |"),
        ("csv", "name,k=2\na_b,50 % –"),
        (
            "tex",
            "\\begin{tabular}{lr}\n\\toprule\nname & k=2 \\\\\n\\midrule\n"
            "a\\_b & 50 \\% -- \\\\\n\\bottomrule\n\\end{tabular}",
        ),
    ],
)
def test_renderings(style: str, expected: str) -> None:
    """One table in each format."""
    assert FORMATS[style](["name", "k=2"], [["a_b", "50 % –"]]) == expected
