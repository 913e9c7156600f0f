"""Check that version, changelog, citation and tag agree before a release: ``make release``."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

__all__ = ["disagreements", "version"]

ROOT = Path(__file__).resolve().parents[2]


def version(root: Path = ROOT) -> str:
    """The version of the project."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])


def disagreements(root: Path = ROOT) -> Iterator[str]:
    """Yield a sentence for each place that names another version."""
    current = version(root)
    released = re.findall(r"^## \[(\d[\w.]*)\]", (root / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    if released[:1] != [current]:
        yield f"CHANGELOG.md: the newest release is {', '.join(released[:1]) or 'none'}, not {current}."
    if f"\nversion: {current}\n" not in (root / "CITATION.cff").read_text():
        yield f"CITATION.cff: the version is not {current}."


def main() -> int:
    """Print what disagrees, or how to set the tag."""
    tags = subprocess.run(["git", "tag", "--list"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    wrong = [*disagreements(), *([f"The tag v{version()} exists."] if f"v{version()}" in tags else [])]
    print("\n".join(wrong) or f"Ready: git tag -a v{version()} -m 'Version {version()}'")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
