"""Words: declared once, the same in Python, on the command line and in signatures; refused in one line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

import mtpp
from instances import InputError
from instances.errors import WordError, spelling
from mtpp.cli.main import app
from mtpp.cli.options import option_of, spelled
from mtpp.questions.partitioning import BoundWords, CertifyWords, PartitionWords
from mtpp.questions.placement import PlaceWords
from mtpp.questions.planning import PlanWords, TrainWords
from mtpp.questions.serving import ServingWords
from mtpp.questions.stages import SplitWords
from mtpp.questions.words import checked, words_of

PATH = mtpp.ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
VERBS = {
    "partition": PartitionWords,
    "bound": BoundWords,
    "certify": CertifyWords,
    "plan": PlanWords,
    "train": TrainWords,
    "place": PlaceWords,
    "serve": ServingWords,
    "split": SplitWords,
}


@pytest.mark.parametrize("verb", VERBS)
def test_python_and_the_command_line_have_the_same_words(verb: str) -> None:
    """Each word is a keyword and an option, with one default."""
    parameters = inspect.signature(getattr(mtpp, verb)).parameters
    options = {option.name: option for option in get_command(app).commands[verb].params}  # type: ignore[attr-defined]
    for name, (_, word) in words_of(VERBS[verb]).items():
        assert parameters[name].default == word.default
        if word.only_python:
            assert name not in options
            continue
        assert option_of(name) in options[name].opts
        assert options[name].default == word.default


def test_all_words_have_a_help_that_names_no_option() -> None:
    for kind in VERBS.values():
        for name, (_, word) in words_of(kind).items():
            assert word.help.endswith((".", "]")), name
            assert "--" not in word.help, name


def test_words_that_are_not_given_have_their_defaults() -> None:
    words = checked(PartitionWords, {"fit": True})
    assert words["fit"]
    assert words["level"] == "operator"
    assert words["bandwidth"] is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mtpp.certify(PATH, k=True), "k=True: give the number of blocks"),
        (lambda: mtpp.certify(PATH, k=0), "k=0: the number of blocks must be 1 or more"),
        (lambda: mtpp.certify(PATH, k=[2, True]), "give the number of blocks"),
        (lambda: mtpp.certify(PATH, k=float("nan")), "k=nan: give the number of blocks"),
        (lambda: mtpp.certify(PATH, k="2,x"), "'x' is not a whole number"),
        (lambda: mtpp.certify(PATH, 2, bandwidth=float("nan")), "bandwidth=nan: give a number, or a text with a unit"),
        (lambda: mtpp.certify(PATH, 2, bandwidth="abc"), "bandwidth='abc': not understood"),
        (lambda: mtpp.certify(PATH, 2, bandwidth=True), "bandwidth=True: give a number"),
        (lambda: mtpp.certify(PATH, 2, bandwidth=[1]), r"bandwidth=\[1\]: give a number"),
        (lambda: mtpp.certify(PATH, 2, fit="yes"), "fit='yes': give True or False"),
        (lambda: mtpp.certify(PATH, 2, seed=1.5), "seed=1.5: give a whole number"),
        (lambda: mtpp.certify(PATH, 2, seed=-1), "seed=-1: it must be at least 0"),
        (lambda: mtpp.certify(PATH, 2, seed=None), "^seed: it needs a value, not None"),
        (lambda: mtpp.certify(PATH, 2, fit=None), "^fit: it needs a value, not None"),
        (lambda: mtpp.certify(PATH, 2, time_limit=float("nan")), "time_limit=nan: give a number"),
        (lambda: mtpp.certify(PATH, 2, level=3), "level=3: give a text"),
        (lambda: mtpp.partition(PATH, 2, method=3), "no int"),
        (lambda: mtpp.partition(PATH, 2, method=lambda: 1), "<lambda>: a heuristic takes an instance, a generator"),
        (lambda: mtpp.certify(PATH, k=10**5000), "k='a number of many digits': the number of blocks must be 1000000"),
        (lambda: mtpp.partition(PATH, 2, "khan"), "did you mean kahn"),
        (lambda: mtpp.bound(PATH, 2, start=mtpp.bound(PATH, 2, "simple", bandwidth=1), bandwidth=1), "no partition"),
        (lambda: mtpp.bound(PATH, 2, start=3, bandwidth=1), "no int"),
        (lambda: mtpp.plan(PATH, "2x2", 4), "give bandwidth within and between servers"),
        (lambda: mtpp.plan(3, "2x2", 4, bandwidth=1e9), "no int"),
        (lambda: mtpp.plan("gnmt", 7, 4), "no int"),
        (lambda: mtpp.place(PATH, k=True), "k=True"),
        (lambda: mtpp.place(PATH, k=0), "k=0"),
        (lambda: mtpp.place(PATH, k=2.7), "k=2.7"),
        (lambda: mtpp.place(PATH, k=[2, 3]), "give one number of devices"),
        (lambda: mtpp.certify(PATH, k="auto"), "mtpp.least_k"),
        (lambda: mtpp.split(PATH, 2, out="stages"), "an ONNX file or a PyTorch module, no ComputationGraph"),
        (lambda: mtpp.plan("gnmt", "2x2", True, bandwidth=1e9), "microbatches"),
        (lambda: mtpp.plan("gnmt", "2x2", 0, bandwidth=1e9), "microbatches"),
        (lambda: mtpp.plan("gnmt", "2x2", 2.5, bandwidth=1e9), "microbatches"),
        (lambda: mtpp.serve("gpt2", 2, None), "memory is missing"),
        (lambda: mtpp.partition(PATH, b"24"), "give the number of blocks"),
        (lambda: mtpp.partition(PATH, {2: 3}), "give the number of blocks"),
        (lambda: mtpp.load("bert-base", dims=3), "dims=3: give a mapping"),
        (
            lambda: mtpp.load("bert-base", dims=["batch=x"]),
            "dims='batch=x': give name=number, for example dims='batch=8'",
        ),
        (lambda: mtpp.load("bert-base", dims=[2]), "give a mapping"),
        (lambda: mtpp.certify(PATH, 2, constraints=3), "constraints=3: give a file, a mapping or mtpp.Constraints"),
        (lambda: mtpp.certify(PATH, 2, bandwidth=10**400), "it is too large"),
        (lambda: mtpp.plan("gnmt", "1x2", 4, None, bandwidth=1e9), "given by its name, not by NoneType"),
        (lambda: mtpp.place(PATH, 2, 3, bandwidth=1), "given by its name, not by int"),
        (lambda: mtpp.bound(PATH, 2, None, bandwidth=1), "model: give a Formulation, an Algorithm, a name"),
        (lambda: mtpp.export("vllm", 3), "given by its name, not by int"),
        (lambda: mtpp.explain(None), "There is no partition to explain"),
        (lambda: mtpp.read(None), "give a path, no NoneType"),
        (lambda: mtpp.run(3), "give a path, no int"),
        (lambda: mtpp.run("stages", queue=0), "queue=0: it must be at least 1"),
        (lambda: mtpp.run("stages", requests=2.5), "give a whole number"),
        (lambda: mtpp.run("stages", timeout=0), "timeout=0: it must be at least 0.1"),
        (lambda: mtpp.run("stages", fusion="yes"), "give True or False"),
        (lambda: mtpp.serve("gpt2", 2, "1MB").plot(), "no cut has room"),
        (lambda: mtpp.serve("gpt2", 2, "1MB").save("front.json"), "no cut has room"),
        (lambda: mtpp.certify(PATH, 2, bandwidth=1).save(None), "saved to a path, no NoneType"),
        (lambda: mtpp.serve("gpt2", 2, "1GB", runtime="vlm"), "did you mean vllm"),
    ],
)
def test_wrong_words_are_one_line_of_python(call: Callable[[], Any], message: str) -> None:
    """They name the parameter with its value, and no option."""
    with pytest.raises(InputError, match=message) as refused:
        call()
    assert "\n" not in str(refused.value)
    assert "--" not in str(refused.value)


@pytest.mark.parametrize("verb", [*VERBS, "load", "solve", "least_k", "compare", "read", "verify", "explain", "export"])
def test_a_misspelled_word_is_named(verb: str) -> None:
    arguments = {"out": "x"} if verb == "split" else {}
    with pytest.raises(TypeError, match=r"There is no word '(bandwidht|peak_flop)'"):
        getattr(mtpp, verb)(PATH, 2, "kahn", **arguments, **{"peak_flop" if verb == "load" else "bandwidht": 3})


def test_words_are_spelled_as_options_on_the_command_line() -> None:
    token = spelling.set(spelled)
    try:
        assert str(WordError("time_limit", 3, "no.")) == "--time-limit 3: no."
        assert str(WordError("dims", "batch=x", "no.")) == "--dim batch=x: no."
        assert str(WordError("runtime", "vlm", "no.")) == "--for vlm: no."
        assert str(WordError("fit", True, "no.")) == "--fit: no."
    finally:
        spelling.reset(token)
    assert str(WordError("time_limit", 3, "no.")) == "time_limit=3: no."


def test_numbers_of_numpy_are_numbers() -> None:
    found = [mtpp.partition(PATH, k, "kahn", bandwidth=np.float64(1)) for k in (2, np.int64(2))]
    assert [result.cost for result in found] == [6, 6]
    assert [result.cost for result in mtpp.partition(PATH, np.array([1, 2]), "kahn", bandwidth=1)] == [9, 6]


def test_a_heuristic_of_the_caller() -> None:
    """A function is a method as well; what it returns is checked."""

    def one_block(instance: mtpp.Instance, rng: object, limits: object) -> mtpp.Partition:
        return mtpp.Partition(instance, [0] * instance.graph.n)

    found = mtpp.partition(PATH, 2, one_block, bandwidth=1)
    assert (found.method, found.cost) == ("one_block", 9)
    with pytest.raises(InputError, match="returned list, not a Partition"):
        mtpp.partition(PATH, 2, lambda instance, rng, limits: [0, 0, 1], bandwidth=1)


@pytest.mark.parametrize("name", [name for name in mtpp.__all__ if inspect.isfunction(getattr(mtpp, name))])
def test_docstrings_name_every_parameter(name: str) -> None:
    """Those of words come from their help, in words of Python, beside what the docstring says itself."""
    function = getattr(mtpp, name)
    section = (inspect.getdoc(function) or "").partition("\nParameters\n----------\n")[2].partition("\n\n")[0]
    lines = re.findall(r"^([*\w, ]+?)(?: :.*)?$", section, flags=re.MULTILINE)
    documented = [text.strip(" *") for line in lines for text in line.split(",")]
    assert sorted(documented) == sorted(set(documented))
    assert set(inspect.signature(function).parameters) == set(documented)


@pytest.mark.parametrize("value", [None, "2", [2], b"2", 2 + 0j, np.array([2, 3]), True])
@pytest.mark.parametrize(
    "call",
    [
        lambda value: mtpp.hunt("simple", seconds=value),
        lambda value: mtpp.plan("simulation", "1x2", value, bandwidth="16GB/s"),
        lambda value: mtpp.calibrate(value),
        lambda value: mtpp.plot_trace(value),
        lambda value: mtpp.compare(value, 2, ["kahn"]),
        lambda value: mtpp.features(value, 2),
        lambda value: mtpp.hunt(value, seconds=0.1),
        lambda value: mtpp.plan(value, "1x2", 2, bandwidth="16GB/s"),
    ],
)
def test_bug_wrong_types_were_faults_of_this_project(call: Callable[[Any], Any], value: Any) -> None:
    """A TypeError, ValueError or AttributeError came of an order of texts, the truth of an array, or no iterator."""
    with pytest.raises((InputError, OSError)) as refused:
        call(value)
    assert "\n" not in str(refused.value)
