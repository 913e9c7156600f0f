"""Syntax trees in several threads."""

from __future__ import annotations

import ast
import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from instances.system import files

TEXT = Path(files.__file__).read_bytes() * 5


@pytest.fixture
def _collections_give_way() -> Iterator[None]:
    """Each collection of garbage lets other threads go on, as hypothesis and finalizers do."""
    thresholds = gc.get_threshold()
    gc.callbacks.append(_give_way)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*thresholds)
    gc.callbacks.remove(_give_way)


def _give_way(*_: object) -> None:
    time.sleep(0)


@pytest.mark.usefixtures("_collections_give_way")
def test_threads_make_trees_at_the_same_time() -> None:
    with ThreadPoolExecutor(4) as pool:
        trees = list(pool.map(files.syntax_tree, [TEXT] * 40))
    assert {ast.dump(tree) for tree in trees} == {ast.dump(ast.parse(TEXT))}
    assert gc.isenabled()
