"""The tool that plants faults finds them, tells which a test notices, and leaves its copy as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutants import Copy, concerned, drawn, importers, try_fault
from mutations import mutations

SOURCE = '''\
"""Numbers."""

from __future__ import annotations

__all__ = ["clip"]

TWO: Literal[2] = "two"


def clip(value: float, low: float = 0.0) -> Literal[1]:
    """At least low, 3 < 4."""
    if value < low:
        raise ValueError(f"{value + 1} is 1 too low" + "!")
    axes_of(None, 8, 4).plot(value, markersize=4, color=default_rng(3))
    held = np.where(value > 5, [value][1:], -1)
    return min(value, held) if not low and value != 700 else 1e-9
'''
CHANGES = [
    "value < low -> value <= low",
    "np.where(value > 5, [value][1:], -1) -> np.where(value > 5, -1, [value][1:])",
    "value > 5 -> value >= 5",
    "5 -> 6",
    "[value][1:] -> [value][:1]",
    "1 -> 2",
    "1 -> 2",
    "not low and value != 700 -> not low or value != 700",
    "not low -> low",
    "value != 700 -> value == 700",
    "min -> max",
    "0.0 -> 1.0",
]
PYPROJECT = """
[tool.hatch.build.targets.wheel]
packages = ["tiny"]
[tool.pytest.ini_options]
markers = ["slow", "notebooks"]
"""
PROJECT = {
    "pyproject.toml": PYPROJECT,
    "tiny/__init__.py": "",
    "tiny/sums.py": "def add(a, b):\n    return a + b\n",
    "tiny/loops.py": "def count(n):\n    while n > 0:\n        n -= 1\n    return n\n",
    "tiny/idle.py": "def same(a):\n    return a * 1\n",
    "tests/conftest.py": 'from hypothesis import settings\nsettings.register_profile("first failure")\n',
    "tests/tiny/test_sums.py": "from tiny.sums import add\n\ndef test_add(): assert add(2, 1) == 3\n",
    "tiny/total.py": "from tiny.sums import add\n\nprint(add(1, 1))\n",
    "tests/pillars/test_all.py": 'import subprocess\n\nASKED = ["python", "-m", "tiny.total", "tiny.idle:same"]\n',
    "tests/tiny/test_others.py": "from tiny.loops import count\n\ndef test_count(): assert count(3) == 0\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in PROJECT.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


def test_sites_are_what_is_computed(tmp_path: Path) -> None:
    """Not in types, texts, messages, looks, seeds; each is written in as many lines as before."""
    path = tmp_path / "clip.py"
    path.write_text(SOURCE)
    sites = mutations(tmp_path, path)
    assert sorted(f"{site.before} -> {site.after}" for site in sites) == sorted(CHANGES)
    for site in sites:
        before, after = SOURCE.splitlines(), site.planted(SOURCE.encode()).decode().splitlines()
        assert [line for line, pair in enumerate(zip(before, after, strict=True), 1) if len(set(pair)) == 2] == [
            site.line
        ]
        assert site.text == before[site.line - 1].strip()
    path.write_text("def f(a):\n    a += (\n        1000 *\n        a\n    )\n    return a\n")
    assert [site.planted(path.read_bytes()).count(b"\n") for site in mutations(tmp_path, path)] == [6, 6]


def test_what_cannot_run_is_not_drawn(project: Path) -> None:
    """A file whose extra is not installed; modules of other systems are no extra."""
    for name, module in (("far", "msvcrt"), ("extra", "no_such_package")):
        (project / "tiny" / f"{name}.py").write_text(f"def f(a):\n    import {module}\n    return a + {module}.b\n")
    files = {site.file for site in drawn(project, 1, 99)}
    assert "tiny/far.py" in files
    assert "tiny/extra.py" not in files


def test_faults_are_drawn_by_a_seed_one_a_file(project: Path) -> None:
    """Those that are known to change nothing are not."""
    sites = drawn(project, 1, 9)
    assert sites == drawn(project, 1, 9)
    assert sorted(site.file for site in sites) == ["tiny/idle.py", "tiny/loops.py", "tiny/sums.py", "tiny/total.py"]
    assert drawn(project, 1, 2) == sites[:2]
    entry = '[[equivalent]]\nfile = "tiny/idle.py"\ntext = "return a * 1"\nbefore = "{}"\nafter = "{}"\nreason = "{}"\n'
    excuse = entry.format("a * 1", "a / 1", "the same") + entry.format("1", "2", "not true, but said")
    (project / "tests" / "mutants.toml").write_text(excuse)
    assert sorted(site.file for site in drawn(project, 1, 9)) == ["tiny/loops.py", "tiny/sums.py", "tiny/total.py"]
    (project / "tiny" / "idle.py").write_text("_ROUNDS, _MORE = 3, 4\n\ndef same(a):\n    return a * 1\n")
    tuned = '[[effort]]\nfile = "tiny/idle.py"\nreason = "the answer does not depend on it"\n'
    (project / "tests" / "mutants.toml").write_text(tuned)
    assert {site.line for seed in range(9) for site in drawn(project, seed, 9) if "idle" in site.file} == {4}
    (project / "tests" / "mutants.toml").write_text(excuse.replace("the same", " "))
    with pytest.raises(ValueError, match="no reason"):
        drawn(project, 1, 9)


def test_near_a_file_are_its_tests_first_and_those_of_its_folder_then(project: Path) -> None:
    """Others reach it through what imports it; names in texts that are run, or have a ``:function``, are imports."""
    read_by = importers(project)
    sums, others, reaching = "tests/tiny/test_sums.py", "tests/tiny/test_others.py", "tests/pillars/test_all.py"
    assert concerned(project, "tiny/sums.py", read_by) == (["tiny/sums.py", sums, others], [reaching])
    assert concerned(project, "tiny/loops.py", read_by) == (["tiny/loops.py", others, sums], [])
    assert concerned(project, "tiny/idle.py", read_by) == (["tiny/idle.py", reaching, others, sums], [])
    assert concerned(project, "tiny/total.py", read_by) == (["tiny/total.py", reaching, others, sums], [])
    golden = "tests/pillars/test_golden.py"
    (project / golden).write_text("import tests.pillars.test_all\n")
    near = ["tiny/sums.py", sums, golden, others]
    assert concerned(project, "tiny/sums.py", importers(project)) == (near, [reaching])


@pytest.mark.parametrize(
    ("before", "limit", "verdict"),
    [
        ("a + b", 120.0, ("killed", "tests/tiny/test_sums.py::test_add")),
        ("a * 1", 120.0, ("survived", "")),
        pytest.param("n -= 1", 3.0, ("killed", "tests/tiny/test_others.py::test_count"), marks=pytest.mark.slow),
    ],
)
def test_a_fault_is_killed_by_a_test_that_fails_or_never_ends(
    project: Path, tmp_path: Path, before: str, limit: float, verdict: tuple[str, str]
) -> None:
    """A loop counts upwards for ever; the copy is then as it was."""
    copy = Copy(project, tmp_path / "copy")
    sites = [site for path in (project / "tiny").glob("*.py") for site in mutations(project, path)]
    (site,) = [site for site in sites if site.before == before]
    assert try_fault(copy, site, concerned(project, site.file, importers(project)), limit) == verdict
    for path in (project / "tiny").glob("*.py"):
        assert (copy.folder / "tiny" / path.name).read_bytes() == path.read_bytes()
        assert (copy.folder / "tiny" / path.name).stat().st_mtime_ns == path.stat().st_mtime_ns


@pytest.mark.parametrize(
    ("code", "ends"), [("time.sleep(2)", True), ("run([executable, '-c', 'while True: pass'])", False)]
)
def test_a_limit_counts_processor_time(project: Path, tmp_path: Path, code: str, ends: bool) -> None:
    """Also that of what a process has started; waiting takes none."""
    script = f"import time\nfrom subprocess import run\nfrom sys import executable\n{code}"
    assert Copy(project, tmp_path / "copy").run("-c", script, limit=1.0)[0] == (0 if ends else None)


def test_a_test_that_fails_anyway_decides_nothing(project: Path, tmp_path: Path) -> None:
    (project / "tests/tiny/test_sums.py").write_text("import tiny.sums\n\ndef test_no(): assert False\n")
    copy = Copy(project, tmp_path / "copy")
    (site,) = mutations(project, project / "tiny/sums.py")
    verdict = try_fault(copy, site, concerned(project, site.file, importers(project)), 120.0)
    assert verdict == ("undecided", "tests/tiny/test_sums.py::test_no fails without it, too")


def test_a_copy_follows_the_project(project: Path, tmp_path: Path) -> None:
    Copy(project, tmp_path / "copy")
    (project / "tiny" / "sums.py").unlink()
    (project / "tiny" / "new.py").write_text("")
    (project / "tiny" / "idle.py").write_text("same = None\n")
    copy = Copy(project, tmp_path / "copy")
    assert sorted(path.name for path in (copy.folder / "tiny").iterdir()) == [
        "__init__.py",
        "idle.py",
        "loops.py",
        "new.py",
        "total.py",
    ]
    assert (copy.folder / "tiny" / "idle.py").read_text() == "same = None\n"
