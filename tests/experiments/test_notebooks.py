"""Every notebook runs from beginning to end, and is committed as executed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
MOST_CODE_CELLS = 12
# A path from the root of a file system: after a blank, a quote or a bracket, so that neither 1/k nor </td> is one.
MACHINE_PATH = re.compile(r"""(?:^|[\s"'(\[=])(?:(?:/[\w.~-]+){2,}|~/\w|[A-Za-z]:\\)""", flags=re.MULTILINE)
# What cells spend much time by, and less of it.
LESS = {
    "LIMIT": "0.1",
    "SECONDS": "0.3",
    "EFFORT": "0",
    "UPDATES": "2",
    "NODES": "3000",
    "MOVES": "30000",
    "KS": "(2, 4)",
    "COUNTS": "(8, 16)",
    "GIBIBYTES": "(8, 2)",
}
SPENT = re.compile(rf"^({'|'.join(LESS)}) = [\d.(), ]+$", flags=re.MULTILINE)
MANY, FEWER = "brkga-10000", "brkga-100"

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def document(path: Path) -> dict[str, Any]:
    """A notebook as it is written; nbformat, which takes seconds to import, is for its format and for running it."""
    return dict(json.loads(path.read_text()))


def code_cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in document(path)["cells"] if cell["cell_type"] == "code"]


def texts(path: Path) -> Iterator[str]:
    """Everything that a reader sees as text: sources, streams, tables; not pictures."""
    for cell in document(path)["cells"]:
        yield "".join(cell["source"])
        for output in cell.get("outputs", []):
            yield "".join(output.get("text", ""))
            yield from ("".join(data) for kind, data in output.get("data", {}).items() if kind.startswith("text/"))


def test_there_are_notebooks() -> None:
    """The tests below have something to look at."""
    assert NOTEBOOKS


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    """A kernel that has imported nothing; importing takes as long as most notebooks do, so that they share it."""
    pytest.importorskip("ipykernel", reason="the extra 'notebooks' is not installed")
    pytest.importorskip("nbclient", reason="the extra 'notebooks' is not installed")
    from jupyter_client.manager import KernelManager

    manager = KernelManager()
    manager.start_kernel()
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.mark.notebooks
@each_notebook
def test_runs(path: Path, tmp_path: Path, kernel: Any) -> None:
    """No cell fails, and none needs a name or file of before or leaves a file behind in the folder that it runs in.

    What has a limit of some seconds for each of many runs has a tenth of a second, and searches do less.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = SPENT.sub(lambda spent: f"{spent[1]} = {LESS[spent[1]]}", cell.source).replace(MANY, FEWER)
    anew = f"get_ipython().reset(); get_ipython().run_line_magic('cd', '-q {tmp_path}')"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(anew))
    NotebookClient(notebook, km=kernel, timeout=None).execute()
    assert list(tmp_path.iterdir()) == []


def test_they_are_valid() -> None:
    nbformat = pytest.importorskip("nbformat", reason="the extra 'notebooks' is not installed")
    for path in NOTEBOOKS:
        nbformat.validate(nbformat.read(path, as_version=4))


@each_notebook
def test_is_committed_as_executed(path: Path) -> None:
    """Cells are numbered from 1 without a gap; among the outputs is a picture, and neither an error nor a warning."""
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"] == []


@each_notebook
def test_belongs_to_no_machine(path: Path) -> None:
    """No path of the machine that executed it; kernel and metadata are the general ones."""
    assert [match.group() for text in texts(path) for match in MACHINE_PATH.finditer(text)] == []
    notebook = document(path)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert [cell["metadata"] for cell in notebook["cells"] if cell["metadata"]] == []


@each_notebook
def test_is_short_and_begins_with_words(path: Path) -> None:
    """A heading comes first, and the code fits into a few cells."""
    first = document(path)["cells"][0]
    assert first["cell_type"] == "markdown"
    assert "".join(first["source"]).startswith("# ")
    assert len(code_cells(path)) <= MOST_CODE_CELLS


@pytest.mark.parametrize("text", ["/usr/lib/python3/x.py", 'File "/srv/data/x"', "C:\\Users", "(~/x)"])
def test_machine_paths_are_recognised(text: str) -> None:
    """The search above finds what it looks for."""
    assert MACHINE_PATH.search(text)


@pytest.mark.parametrize("text", ["1/k", "</td></tr>", "bound / simple", "$\\tfrac{1}{B}$", "25 GB/s", "mtpp-graph/1"])
def test_what_is_no_machine_path(text: str) -> None:
    """The search above leaves ordinary text alone."""
    assert not MACHINE_PATH.search(text)
