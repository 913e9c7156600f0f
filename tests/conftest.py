"""What every test may ask for: a solver, a folder with a graph, the published data, reproducible examples."""

from __future__ import annotations

import gc
import json
import math
import os
import random
import signal
import time
from collections.abc import Callable, Generator
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from command_line import PATH
from hypothesis import Phase, is_hypothesis_test, settings

# The same examples in every run and no deadline.
settings.load_profile("ci")
# For those who ask only whether a test fails.
settings.register_profile("first failure", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate])
# A run draws a third of the examples that a test names; `make long` draws new ones by a seed, many times as many.
LONG, MORE = "long", 20
PART, LEAST = 3, 12
settings.register_profile(LONG, settings.get_profile("ci"), derandomize=False)

# Of what is imported and collected nothing is garbage, and of what tests make little.
gc.set_threshold(20_000)

# A shell lets what runs behind it ignore Ctrl-C, and processes hand that on; tests of Ctrl-C need it.
signal.signal(signal.SIGINT, signal.default_int_handler)

_BEGIN = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--solver",
        action="append",
        default=[],
        metavar="NAME[,NAME]",
        help="solvers for the tests that take one; may be repeated (default: all that are installed)",
    )
    parser.addoption(
        "--seconds",
        type=float,
        default=math.inf,
        help="with --hypothesis-profile long: seconds after which no further test begins (default: none)",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Take test files as tests alone; as documentation too, one that cannot be imported would have none in silence."""
    return [found for found in (yield) if type(found) is not DoctestModule]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that takes a `solver` once per solver."""
    if "solver" in metafunc.fixturenames:
        metafunc.parametrize("solver", _solvers(metafunc.config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Examples of the façade that run stages need an extra; what takes long begins first, so that none ends alone."""
    for item in items:
        if item.name == "mtpp.api.stages.split" and find_spec("onnxruntime") is None:
            item.add_marker(pytest.mark.skip(reason="the extra 'onnx' is not installed"))
    items.sort(key=lambda item: not any(item.get_closest_marker(name) for name in ("notebooks", "slow")))
    drawing = [item for item in items if is_hypothesis_test(getattr(item, "obj", None))]
    if config.getoption("--hypothesis-profile") is None:
        _draw(drawing, lambda named: max(min(named, LEAST), named // PART))
    if config.getoption("--hypothesis-profile") == LONG:
        _draw(drawing, lambda named: MORE * named)
        _keep(drawing, config, items)


def _draw(items: list[pytest.Item], number: Callable[[int], int]) -> None:
    """Let tests draw a number of examples that follows from what they name, which no profile changes."""
    for function in {item.obj for item in items}:  # a function may be that of several items
        own = function._hypothesis_internal_use_settings
        function._hypothesis_internal_use_settings = settings(own, max_examples=number(own.max_examples))


def _keep(drawing: list[pytest.Item], config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that draw examples and the slow ones, in another order for each seed."""
    kept = [item for item in items if item in drawing or item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = random.Random(str(config.getoption("--hypothesis-seed"))).sample(kept, len(kept))


def pytest_collection_finish() -> None:
    """Tests and modules stay to the end: looking at them again, as at what may be garbage, takes a twentieth of all."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin nothing when the time for all is over."""
    if time.monotonic() > _BEGIN + item.config.getoption("--seconds"):
        pytest.skip("the time is over")


def _solvers(config: pytest.Config) -> list[str]:
    from mtpp_models import available_solvers  # here, so that the other tests do not wait for it

    installed = available_solvers()
    asked = [name for names in config.getoption("--solver") for name in names.split(",")]
    for name in asked:
        if name not in installed:
            raise pytest.UsageError(f"--solver {name} is not available; installed are {', '.join(installed)}.")
    return asked or list(installed)


@pytest.fixture(scope="session")
def data() -> Path:
    """Folder of the published profile graphs."""
    folder = os.environ.get("MTPP_DATA")
    if not folder:
        pytest.skip("MTPP_DATA is not set; it names the folder of the published profile graphs")
    if not Path(folder).is_dir():
        pytest.fail(f"MTPP_DATA names {folder}, which is not a folder")
    return Path(folder)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with the graph of a path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "path.json").write_text(json.dumps(PATH))
    return tmp_path
