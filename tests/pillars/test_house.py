"""What packaging and sibling guard promise is true."""

from __future__ import annotations

import tomllib
from pathlib import Path

from release import disagreements, version
from size import Size, size

from instances.system.import_guard import SIBLINGS

ROOT = Path(__file__).resolve().parents[2]


def test_packaging_knows_the_packages() -> None:
    """Wheel, types, import contract and guard speak of the same packages, each marked as typed."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert set(tool["hatch"]["build"]["targets"]["wheel"]["packages"]) == set(SIBLINGS)
    assert set(tool["mypy"]["packages"]) == set(SIBLINGS)
    assert set(tool["importlinter"]["root_packages"]) == set(SIBLINGS)
    assert all((ROOT / package / "py.typed").is_file() for package in SIBLINGS)


def test_version_is_the_same_everywhere() -> None:
    """Packaging, changelog and citation agree."""
    assert list(disagreements()) == []


def test_another_version_is_noticed(tmp_path: Path) -> None:
    """In the changelog as well as in the citation."""
    for name in ("pyproject.toml", "CHANGELOG.md", "CITATION.cff"):
        (tmp_path / name).write_text((ROOT / name).read_text().replace(f'version = "{version()}"', 'version = "99.0"'))
    assert len(list(disagreements(tmp_path))) == 2


def test_code_lines_are_those_with_tokens(tmp_path: Path) -> None:
    """Docstrings, comments and blank lines are none; a statement over three lines is three."""
    path = tmp_path / "some.py"
    path.write_text(
        '"""A\nmodule."""\n\nimport os  # a comment\n# another\ndef f():\n    """Words."""\n    return (\n 1,\n    )\n'
    )
    assert size(path) == Size(files=1, code=5, imports=1)
