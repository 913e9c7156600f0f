"""What README, packaging and sibling guard promise is true."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from instances import load_graph
from instances.import_guard import SIBLINGS
from instances.partitioning.constraints_file import KINDS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


def blocks(language: str) -> list[str]:
    """Fenced blocks of the README."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    """Command lines of `mtpp` in the README, without their comments."""
    lines = "".join(blocks("sh")).splitlines()
    return [line.split(" #")[0].strip() for line in lines if line.startswith("mtpp ")]


def test_packaging_knows_the_packages() -> None:
    """Wheel, types, import contract and guard speak of the same packages, each marked as typed."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert set(tool["hatch"]["build"]["targets"]["wheel"]["packages"]) == set(SIBLINGS)
    assert set(tool["mypy"]["packages"]) == set(SIBLINGS)
    assert set(tool["importlinter"]["root_packages"]) == set(SIBLINGS)
    assert all((ROOT / package / "py.typed").is_file() for package in SIBLINGS)


def test_version_is_the_same_everywhere() -> None:
    """Packaging, changelog and citation agree."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text()
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()


def test_readme_commands_parse() -> None:
    """Every command line of the README has a verb, options and values that the command line accepts."""
    from mtpp.cli.main import app

    assert len(commands()) >= 5
    group = get_command(app)
    for command in commands():
        _, verb, *arguments = shlex.split(command)
        group.get_command(None, verb).make_context(verb, arguments)


def test_readme_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """They print a certificate, here with one second for it, that all fits, and the cost with a row of one's own."""
    for example, words in zip(blocks("python"), ("ratio", "True", "0.0001"), strict=True):
        exec(compile(example.replace("time_limit=60", "time_limit=1"), "README.md", "exec"), {})
        assert words in capsys.readouterr().out


def test_readme_graph_file_is_read(tmp_path: Path) -> None:
    """Of the files that the README shows, the first has constraints and the second is a graph."""
    rules, text = blocks("json")
    assert set(json.loads(rules)) - {"format"} == set(KINDS)
    path = tmp_path / "tiny.json"
    path.write_text(text)
    graph = load_graph(path)
    assert graph.n == len(json.loads(text)["nodes"])
    assert graph.m == 2


@pytest.mark.parametrize("page", PAGES)
def test_pages_point_to_what_exists(page: str) -> None:
    """Relative links, make targets, tests and notebooks that a page mentions exist."""
    text = (ROOT / page).read_text()
    paths = re.findall(r"\]\((?!https?:)([^)#]+)\)", text) + re.findall(r"`((?:tests|notebooks)/\w[\w./]*)`", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [name for name in re.findall(r"`(test_\w+\.py)`", text) if not list(ROOT.glob(f"tests/**/{name}"))] == []
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"`make (\w+)`", text)) <= targets
