"""What packaging and sibling guard promise is true."""

from __future__ import annotations

import tomllib
from pathlib import Path

from release import disagreements, version

from instances.import_guard import SIBLINGS

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
