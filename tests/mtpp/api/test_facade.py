"""`import mtpp`: light, complete, and in the words of the command line."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from command_line import PATH
from matplotlib.figure import Figure
from typer.main import get_command

import mtpp
from instances import InputError, save_graph, save_partition
from instances.readers import load_graph
from mtpp.cli.main import app

ROOT = Path(mtpp.__file__).parent.parent
PAIR = mtpp.ComputationGraph.from_edges([(0, 1)], [2, 3], [4, 0], names=("a", "b"), name="pair")


def test_importing_it_loads_nothing_heavy() -> None:
    """What a name needs is loaded when it is asked for; a typing mistake is an AttributeError."""
    program = "import sys, mtpp; dir(mtpp); print([m for m in sys.modules if m.split('.')[0] in sys.argv[1:]])"
    heavy = ["numpy", "scipy", "pandas", "networkx", "numba", "pyomo", "matplotlib", "instances", "experiments"]
    run = subprocess.run(
        [sys.executable, "-c", program, *heavy],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout == "[]\n"
    with pytest.raises(AttributeError, match="no attribute 'certifi'"):
        mtpp.certifi  # noqa: B018


def test_every_name_is_there() -> None:
    assert set(dir(mtpp)) == set(mtpp.__all__)
    assert all(getattr(mtpp, name) is not None for name in mtpp.__all__)


#: Words that a file of the command line stands for, or that Python says in another way.
TRANSLATED = {
    *("graph", "chain", "blocks", "devices", "dim", "out", "plot", "export", "start", "json", "quiet"),
    *("constraints", "colour_classes", "throughput", "solution", "stated_bound", "explain", "plot_progress", "runtime"),
    *("model", "stages", "calibrate", "trace", "help", "help_all", "unequal"),
}
#: Words that belong to the graph: those of `mtpp.load`.
READING = {
    *("dims", "level", "training", "reader", "communication", "input_work", "time_unit", "cost", "weights"),
    *("peak_flops", "memory_bandwidth"),
}


@pytest.mark.parametrize("verb", ["partition", "bound", "certify", "plan", "place", "split", "run"])
def test_words_and_defaults_are_those_of_the_command_line(verb: str) -> None:
    function: Callable[..., Any] = getattr(mtpp, verb)
    words = inspect.signature(function).parameters
    assert verb in inspect.getdoc(function)  # type: ignore[operator]
    options = get_command(app).commands[verb].params  # type: ignore[attr-defined]
    for option in options:
        if option.name in TRANSLATED or (option.name in READING and "reading" in words):
            continue
        default = words[option.name].default
        assert default == option.default or (option.required and default is inspect.Parameter.empty), option.name
    told = {option.name for option in options} | {"k", "reading", "dims", "start"}
    assert set(words) - told <= TRANSLATED | {"args", "kwargs", "observe"}  # objects, which no option can hold


@pytest.mark.parametrize(("bandwidth", "rate"), [(None, 25e9), (2, 2.0), (np.float32(2), 2.0), ("16Gbps", 2e9)])
def test_quantities_are_numbers_or_texts(bandwidth: Any, rate: float) -> None:
    result = mtpp.partition(PAIR, 2, "kahn", bandwidth=bandwidth, memory="1KiB" if rate == 2 else 2**30)
    platform = result.instance.platform
    assert (platform.bandwidth, platform.memory) == (rate, 1024 if rate == 2 else 2**30)
    assert result.partition is not None


@pytest.mark.parametrize("k", [[1, 2], (1, 2), np.array([1, 2]), "1,2", range(1, 3), [1, 2, 1]])
def test_several_k_give_a_list(k: Any) -> None:
    assert [result.instance.k for result in mtpp.certify(PAIR, k, bandwidth=1, time_limit=60)] == [1, 2]
    assert mtpp.partition(PAIR, np.int64(2), "kahn").instance.k == 2
    assert [result.instance.k for result in mtpp.partition(PAIR, [2], "kahn")] == [2]


def test_a_graph_may_come_from_anywhere(tmp_path: Path) -> None:
    digraph: nx.DiGraph[str] = nx.DiGraph([("a", "b")], name="pair")
    digraph.nodes["a"].update(work=2, output_bytes=4)
    digraph.nodes["b"].update(work=3)
    save_graph(PAIR, tmp_path / "pair.json")
    given = [PAIR, digraph, tmp_path / "pair.json", str(tmp_path / "pair.json")]
    assert {mtpp.load(graph).content_hash for graph in given} == {PAIR.content_hash}
    layers = mtpp.load("bert-base", level="layer", dims={"batch": 2}, peak_flops=1e12)
    slow = load_graph("bert-base", level="layer", dims={"batch": 2})
    assert layers.n == slow.n
    assert layers.work.sum() > slow.work.sum()


def test_a_device_is_one_of_the_words() -> None:
    device = {"peak_flops": "1TFLOP/s", "memory_bandwidth": 15e9}
    loads = [mtpp.load("gnmt"), mtpp.load("gnmt", **device)]
    placed = [mtpp.place("gnmt", 2, "single", **words) for words in ({}, device)]
    planned = [mtpp.plan("gnmt", "2x1", 2, bandwidth="1PB/s", **words) for words in ({}, device)]
    for first, second in ([graph.work.sum() for graph in loads], [x.cost for x in placed], [x.cost for x in planned]):
        assert second == pytest.approx(100 * first, rel=0.05)
    with pytest.raises(InputError, match="must be positive"):
        mtpp.place("gnmt", 2, peak_flops=0)


def test_an_instance_is_a_whole_question(tmp_path: Path) -> None:
    instance = mtpp.Instance(PAIR, mtpp.Platform(2, 1.0))
    found = mtpp.partition(instance, method="kahn")
    assert found.instance is instance
    assert mtpp.partition(instance, 1, "kahn").instance.k == 1
    assert mtpp.bound(instance, model="pinned", start=found).partition is not None
    save_partition(found.partition, tmp_path / "start.json")
    assert mtpp.bound(instance, model="pinned", start=tmp_path / "start.json").partition is not None
    with pytest.raises(InputError, match="bandwidth: the instance 'pair' has its own"):
        mtpp.certify(instance, bandwidth=3)


def test_solve_searches_and_proves() -> None:
    result = mtpp.solve(PAIR, 2, bandwidth=1, time_limit=60)
    assert result.status.value == "optimal"
    assert result.cost == 5
    assert mtpp.solve(PAIR, 2, "exact+all", bandwidth=1, time_limit=60).proved


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mtpp.partition(PAIR), InputError, "k is missing"),
        (lambda: mtpp.partition(PAIR, 2.5), InputError, "k=2.5: give the number of blocks"),
        (lambda: mtpp.partition(PAIR, []), InputError, "There is no k"),
        (lambda: mtpp.partition(PAIR, 0), InputError, "k=0: the number of blocks"),
        (lambda: mtpp.partition(PAIR, 2, "khan"), InputError, "did you mean kahn"),
        (lambda: mtpp.partition(PAIR, 2, bandwith=3), TypeError, "did you mean bandwidth"),
        (lambda: mtpp.load(PAIR, levle="layer"), TypeError, "did you mean level"),
        (lambda: mtpp.load(PAIR, level="layer"), InputError, "leave out level"),
        (lambda: mtpp.load([(0, 1)]), InputError, "A graph is the name .* or a networkx.DiGraph, no list"),
        (lambda: mtpp.partition(7, 2), InputError, "A graph is the name .*, no int"),
        (lambda: mtpp.certify(mtpp.LayerChain([1], [1], [], [], [1], [1]), 2), InputError, "no LayerChain"),
        (lambda: mtpp.load("bert-base", dims={"batch": True}), InputError, "dimension batch is True"),
        (lambda: mtpp.explain(mtpp.bound(PAIR, 2, "simple", bandwidth=1)), InputError, "nothing to explain"),
        (lambda: mtpp.load("bert-bse"), InputError, "did you mean bert-base"),
        (lambda: mtpp.partition(PAIR, 2, bandwidth="25 parsecs"), InputError, "not understood"),
        (lambda: mtpp.partition(PAIR, 2, bandwidth=float("nan")), InputError, "nan"),
        (lambda: mtpp.partition(PAIR, 2, bandwidth=-1), InputError, "must be positive"),
        (lambda: mtpp.partition(PAIR, 2, activation_buffer=3), InputError, "give that as well"),
        (lambda: mtpp.bound(PAIR, 2, solver="hihgs"), InputError, "did you mean highs"),
        (lambda: mtpp.bound(PAIR, 2, time_limit=0), InputError, "time_limit=0: give more than 0"),
        (lambda: mtpp.place(PAIR), InputError, "devices is missing; give k"),
        (lambda: mtpp.place(PAIR, 2, "aneal"), InputError, "did you mean anneal"),
        (lambda: mtpp.plan("simulation", "2x2", 4, bandwidth=1e9, planner="sp"), InputError, "did you mean spp"),
        (lambda: mtpp.plan("simulation", "2x2", 4), InputError, "give bandwidth within and between servers"),
    ],
)
def test_what_is_refused_is_told_in_one_line(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as refused:
        call()
    assert "\n" not in str(refused.value)


def test_plans_and_placements_are_results_as_well() -> None:
    chain = mtpp.LayerChain([1, 1], [2, 2], forward_bytes=[8], backward_bytes=[8], param_bytes=[4, 4])
    planned = mtpp.plan(chain, mtpp.Cluster.of_servers([2], 1e3), 4, "spp")
    named = mtpp.plan(chain, "1x2", 4, "spp", bandwidth="1kB/s")
    placed = mtpp.place(PAIR, 2, "heft", bandwidth=1)
    assert planned.cost == named.cost
    assert planned.ratio >= 1
    assert placed.answer.fits
    assert placed.bound.value <= placed.cost
    for result in (planned, placed, mtpp.partition(PAIR, 2, "kahn")):
        assert isinstance(result.plot(), Figure)
        assert repr(result).startswith("<Result")
        assert "\n" not in repr(result)
        assert result._repr_html_().count("<table>") == 2


def test_a_result_without_an_answer_cannot_be_drawn() -> None:
    with pytest.raises(InputError, match="found no answer to draw"):
        mtpp.bound(PAIR, 2, "pinned", bandwidth=1).plot()


def test_the_path_of_the_tests_is_read(folder: Path) -> None:
    assert mtpp.load("path.json").n == len(PATH["nodes"])  # type: ignore[arg-type]


def test_a_solved_model_loads_no_statistics() -> None:
    """Pyomo imports scipy.stats where SciPy is there before it: half a second in each process."""
    program = (
        "import sys, mtpp; path = mtpp.ComputationGraph.from_edges([(0, 1)], [2, 3], [4, 0]);"
        "mtpp.bound(path, 2, bandwidth=1, model='exact');"
        "print([name for name in ('pyomo', 'scipy.sparse', 'scipy.optimize', 'scipy.stats') if name in sys.modules]);"
        "import scipy; print(scipy.stats.rankdata([2, 1]).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['pyomo', 'scipy.sparse']", "[2.0, 1.0]"]
