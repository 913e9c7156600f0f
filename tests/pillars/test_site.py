"""The site is built without a warning, its links lead somewhere, and it needs no network."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pages import JOURNAL, MANUAL, ROOT
from site_pages import dead_links, loaded_from_elsewhere, pages, read, wide_pages
from typer.main import get_command

import mtpp
from mtpp.cli.main import app

ExtensionError = pytest.importorskip("sphinx.errors", reason="the extra 'docs' is not installed").ExtensionError
pytest.importorskip("furo", reason="the extra 'docs' is not installed")
pytest.importorskip("math_core", reason="the extra 'docs' is not installed")

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
CLAIM = {"paper": "mtpp", "item": "Table 6", "row": "k=2", "column": "ratio", "value": 1.18, "unit": "ratio"}
CLAIM |= {"here": 1.19, "low": 1.185, "high": 1.2, "graphs": 24, "clusters": 24, "verdict": "fails", "why": "a | *b*"}

#: A table of two rows and two columns, one of whose cells is empty.
TABLE = [
    CLAIM | {"item": "Table 7", "row": row, "column": column, "value": value, "note": "of our graphs", "here": here}
    for row, column, value, here in (("k=2", "a", 1.31, 1.32), ("k=2", "b", 1.33, None), ("k=4", "a", 1.34, 1.35))
]
RUNS = {"file": "runs/a.jsonl", "lines": 7, "sha256": "0123abcd"}


@pytest.fixture
def site_code(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import a module of `docs/site`."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site"))
    return importlib.import_module


def make_docs(folder: Path, verdicts: Path) -> subprocess.CompletedProcess[str]:
    """Call ``make docs`` with the packages that are installed here."""
    settings = (f"BIN={Path(sys.executable).parent}", f"SITE={folder}", f"VERDICTS={verdicts}")
    command = ["make", "--silent", "--assume-old=.venv/docs.stamp", "docs", *settings]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_site(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """All pages, with a file of verdicts; of the claims each verdict and its reason is shown as it is written.

    No page scrolls sideways on a telephone.
    """
    verdicts = tmp_path / "verdicts.json"
    verdicts.write_text(
        json.dumps({"format": "mtpp-verdicts/1", "profile": "quick", "runs": [RUNS], "claims": [CLAIM, *TABLE]})
    )
    site = tmp_path / "site"
    done = make_docs(site, verdicts)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(dead_links(site)) == []
    assert list(loaded_from_elsewhere(site)) == []
    assert [(path.name, read(path).repeated) for path in pages(site) if read(path).repeated] == []
    sources = [*ROOT.glob("*.md"), *MANUAL, *JOURNAL, *ROOT.glob("notebooks/*.ipynb")]
    made = [site / path.relative_to(ROOT).with_suffix(".html") for path in sources]
    assert [path for path in made if not path.is_file()] == []
    assert read(site / "docs" / "site" / "mathematics.html").equations > 100
    verbs = read(site / "docs" / "site" / "verbs.html")
    assert {f"mtpp-{name}" for name in get_command(app).list_commands(None)} <= verbs.ids  # type: ignore[attr-defined]
    assert read(site / "notebooks" / "02_the_cost_model.html").equations > 10
    assert [path.name for path in pages(site) if r"\frac" in path.read_text() or r"\mathrm" in path.read_text()] == []
    paper = (site / "docs" / "site" / "papers" / "mtpp.html").read_text()
    cell = '<p>1.31</p>\n<p class="fails">1.32 ✗</p>'
    assert [
        text
        for text in (
            cell,
            "<p>1.33</p>",
            "In the paper: of our graphs.",
            "1.185 to 1.2",
            "fails",
            "a | *b*",
            "0123abcd",
        )
        if text not in paper
    ] == []
    with subtests.test("narrow windows"):
        if BROWSER is None:
            pytest.skip("neither Chromium nor Chrome is installed")
        assert wide_pages(site, BROWSER, tmp_path) == []


def test_pictures_are_drawn_by_their_script(site_code: Callable[[str], Any]) -> None:
    """Each is in a page, and has the colours that follow light and dark, and no others."""
    pictures = site_code("pictures")
    assert sorted(path.stem for path in pictures.FOLDER.iterdir()) == sorted(
        draw.__name__ for draw in pictures.PICTURES
    )
    shown = "".join(page.read_text() for page in MANUAL)
    for path in pictures.FOLDER.iterdir():
        text = path.read_text()
        ElementTree.fromstring(text)
        assert f"site/pictures/{path.name})" in shown
        assert re.findall(r"#[0-9a-f]{6}", text.partition("</style>")[2]) == []


def test_public_names_are_documented_once(site_code: Callable[[str], Any]) -> None:
    """Each where it is defined, and every place that exports it leads there."""
    homes = site_code("public_names").homes()
    assert homes["mtpp", "certify"] == "mtpp.certify"
    assert homes["mtpp", "Result"] == homes["instances", "Result"] == "instances.Result"
    assert homes["mtpp", "HEURISTICS"] == "heuristics.HEURISTICS"
    assert homes["mtpp", "Constraints"] == "mtpp.Constraints"
    assert {name for package, name in homes if package == "mtpp"} == set(mtpp.__all__) - {"__version__"}


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": "mtpp-verdicts/2", "claims": []}'])
def test_other_files_of_verdicts_are_refused(tmp_path: Path, text: str, site_code: Callable[[str], Any]) -> None:
    path = tmp_path / "verdicts.json"
    path.write_text(text)
    with pytest.raises(ExtensionError, match="no file of verdicts"):
        site_code("verdicts").read_verdicts(path)


def test_benchmarks_are_kept_by_processor_and_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site_code: Callable[[str], Any]
) -> None:
    """The least of a commit's inner loops; a second measurement replaces the first, changes stand for none."""
    speed = site_code("speed")
    monkeypatch.setattr(speed, "HISTORY", tmp_path / "speed.csv")
    monkeypatch.setattr(speed, "_RESULTS", tmp_path / "bench")
    for commit, dirty, seconds in (
        ("a" * 40, False, 2.0),
        ("b" * 40, False, 3.0),
        ("a" * 40, False, 1.0),
        ("c", True, 9.0),
    ):
        benchmark = {"name": "test_bound[ideals]", "group": "inner loops", "stats": {"min": seconds}}
        document = {"machine_info": {"cpu": {"brand_raw": "A (R) B"}}, "benchmarks": [benchmark]}
        document |= {"commit_info": {"id": commit, "time": "2026-01-01T00:00:00", "dirty": dirty}}
        (tmp_path / "new.json").write_text(json.dumps(document))
        speed.record(tmp_path / "new.json")
    assert sorted(path.name for path in (tmp_path / "bench" / "A-R-B").iterdir()) == [
        "aaaaaaa.json",
        "bbbbbbb.json",
        "c-dirty.json",
    ]
    assert [(row.commit, row.benchmark, row.milliseconds) for row in speed.read_history()] == [
        ("aaaaaaa", "bound ideals", 1000),
        ("bbbbbbb", "bound ideals", 3000),
    ]


def test_dead_links_and_foreign_files_are_noticed(tmp_path: Path) -> None:
    """A missing file, a missing place, a script from a network; not addresses of other sites."""
    (tmp_path / "a.html").write_text(
        '<p id="x"><a href="b.html#y">1</a><a href="b.html#z">2</a><a href="c.html">3</a><a href="https://d.org">4</a>'
        '<script src="https://d.org/e.js"></script>'
    )
    (tmp_path / "b.html").write_text('<p id="y"><a href="a.html#x">1</a><a href="#y">2</a>')
    (tmp_path / "f.css").write_text("p { background: url('//d.org/g.png') }")
    assert list(dead_links(tmp_path)) == ["a.html: b.html#z", "a.html: c.html"]
    assert list(loaded_from_elsewhere(tmp_path)) == ["a.html: https://d.org/e.js", "f.css: //d.org/g.png"]


@pytest.mark.skipif(BROWSER is None, reason="neither Chromium nor Chrome is installed")
def test_a_wide_page_is_noticed(tmp_path: Path) -> None:
    """Where its text does not break, but not where a box scrolls by itself."""
    assert BROWSER is not None
    site = tmp_path / "site"
    site.mkdir()
    (site / "narrow.html").write_text('<!DOCTYPE html><div style="overflow: auto"><pre>' + "x" * 999)
    (site / "wide.html").write_text("<!DOCTYPE html><pre>" + "x" * 999)
    assert wide_pages(site, BROWSER, tmp_path) == ["wide.html"]
