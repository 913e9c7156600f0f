"""Written models: names that solvers accept and people read, the unit of time, the file of names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import instances

from instances import ComputationGraph, InputError, Instance, Platform
from instances.json_files import read_json
from instances.random_graphs import regal_style
from mtpp_models import MODELS, Formulation, ScaledInstance, build, solve, write_model
from mtpp_models.exchange.files import builders
from mtpp_models.solvers.modeling import Labels, pyo

# What LP files allow, less what some solver does not; CBC takes 100 characters, with what Pyomo adds to a row.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,92}")


@pytest.fixture(scope="module")
def instance() -> Instance:
    return Instance(regal_style("erdos-renyi", 30, seed=2), Platform(4, 1.0))


@pytest.mark.parametrize("suffix", [".lp", ".mps"])
def test_a_written_model_has_the_same_optimum(tmp_path: Path, suffix: str) -> None:
    import highspy

    instance = Instance(regal_style("watts-strogatz", 12, seed=0), Platform(3, 1.0))
    (file,) = write_model(instance, "exact", tmp_path / f"model{suffix}")
    highs = highspy.Highs()
    highs.setOptionValue("log_to_console", False)
    highs.readModel(str(file))
    highs.run()
    result = solve(instance, "exact")
    assert result.partition is not None
    unit = ScaledInstance.near(instance, None).unit
    assert highs.getInfo().objective_function_value * unit == pytest.approx(result.partition.bottleneck, rel=1e-4)


def test_each_case_is_a_file(tmp_path: Path, instance: Instance) -> None:
    files = write_model(instance, "guess-the-bottleneck", tmp_path / "guess.lp")
    assert [file.name for file in files] == ["guess-1.lp", "guess-2.lp", "guess-3.lp", "guess-4.lp"]
    assert "c_e_slowest_" in files[1].read_text()
    assert (tmp_path / "guess-4.names.json").exists()


@pytest.mark.parametrize(("name", "model"), [("model.txt", "exact"), ("model.lp", "simple"), ("model.lp", "exakt")])
def test_bad_exports_are_refused_in_one_line(tmp_path: Path, instance: Instance, name: str, model: str) -> None:
    with pytest.raises(InputError) as error:
        write_model(instance, model, tmp_path / name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("suffix", [".lp", ".mps"])
def test_files_say_names_and_the_unit_of_time(tmp_path: Path, suffix: str) -> None:
    names = ("/model/layers.7/mlp/the down proj", "b\n\\* \x1b[2J", "é")
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], [3e-3, 1e-3, 2e-3], [1, 1, 1], names=names)
    (file,) = write_model(Instance(graph, Platform(2, 1e3), name="x\ny \\* é"), "exact", tmp_path / f"m{suffix}")
    text, document = file.read_text(), read_json(tmp_path / "m.names.json").data
    unit = document["unit"]
    assert document["time_unit"] == "s"
    head = text.splitlines()[:3]
    assert all(line.startswith(("\\ ", "* ")) and line.isascii() for line in head)
    assert head[1][2:].startswith(f"unit of time: {unit!r} s;")
    assert "y.layers_7_mlp_the_down_proj.1" in text
    assert document["nodes"] == dict(zip(["layers_7_mlp_the_down_proj", "b_2J", "__2"], names, strict=True))
    assert document["components"]["slowest"].startswith("(6)")


TEXTS = st.text(max_size=30) | st.sampled_from(["a", "A", "a.", "a__1", "1", "-", "a-1", "a 1", "x" * 50])


@given(st.lists(TEXTS, min_size=1, max_size=12))
def test_nodes_have_short_names_of_their_own(names: list[str]) -> None:
    labels = Labels(ComputationGraph.from_edges([], [1.0] * len(names), names=tuple(names)))
    assert len({label.lower() for label in labels.nodes}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_]{1,32}", label) for label in labels.nodes)


@given(instances(max_nodes=5))
def test_variables_and_rows_have_names_of_their_own(instance: Instance) -> None:
    for model in MODELS.values():
        if not isinstance(model, Formulation):
            continue
        built = next(iter(builders(instance, model).values()))()
        for kind in (pyo.Var, pyo.Constraint):
            names = [built.labels(part) for part in built.model.component_data_objects(kind)]
            assert len(set(names)) == len(names)
            assert all(NAME.fullmatch(name) for name in names)


def test_a_node_of_several_outputs_tells_its_tensors_apart() -> None:
    graph = ComputationGraph.from_edges([(0, 1, 0), (0, 2, 1)], [1, 1, 1], [[1, 1], [1], []], names=("a", "b", "c"))
    assert build(Instance(graph, Platform(2, 1.0))).labels.tensors == ["a__o0", "a__o1", "b"]
