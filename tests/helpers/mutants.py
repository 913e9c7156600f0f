"""Plant small faults into a copy of the sources and see whether tests notice: `make mutants`.

Which faults is drawn by a seed, at most one a file. First run the tests near the file: its examples, those at its path,
the golden values that it may change, those that import it, and the others of its folder. Then run all that reach it
through others, the pillars among them, the likeliest first, while the time lasts. The limit of each of the two is
processor time, so other work on the machine decides nothing; kernels are compiled before it begins. A fault is killed
if a test fails that passes without it, undecided if the time was over before the near tests were, and survives
otherwise: then a test is missing, or the fault changes nothing that anybody could notice, which a line of
`tests/mutants.toml` says with a reason.

Exit codes: 0 none survived, 1 some did, 2 wrong use.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import psutil
from mutations import Site, excused, mutations, packages, sources

from instances.compiled import kernel_sources

__all__ = ["Copy", "concerned", "drawn", "importers", "main", "missing", "try_fault"]

ROOT = Path(__file__).resolve().parents[2]
# A fault may ask for all the memory there is [bytes].
_MEMORY = 2**34
_OPTIONS = ["-x", "-v", "-rfE", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-profile", "first failure"]
_PYTEST = ["-m", "pytest", *_OPTIONS, "-m", "not notebooks", "tests/conftest.py"]  # which has the profile
# Processor seconds within which a test ends that is said to wait for ever because of a fault.
_SOON = 40.0
# Who takes less than this part of one processor for so many seconds waits for what never comes.
_IDLE, _WINDOW = 0.03, 120.0
# Files that the machine code of all kernels depends on; processor seconds in which a fault lets them compile.
_KERNELS = frozenset(path.relative_to(ROOT).as_posix() for path in kernel_sources())
_COMPILING = 900.0
# Seconds between two looks at the processor time.
_LOOK = 0.25
_LEFT = {"build", "dist", "results"}
# All passed, or there was no test.
_GOOD = (0, 5)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_ENDED = re.compile(r" (PASSED|SKIPPED|XFAIL|XPASS)\b[^:]*$|^[^:]*$")


def drawn(root: Path, seed: int, count: int) -> list[Site]:
    """As many sites, all alike, at most one a file; none of a file that needs what is not installed."""
    sites = [site for path in sources(root) if not missing(root, path) for site in mutations(root, path)]
    random.Random(seed).shuffle(sites)
    is_excused = excused(root)
    first: dict[str, Site] = {}
    for site in sites:
        if not is_excused(site):
            first.setdefault(site.file, site)
    return list(first.values())[:count]


def missing(root: Path, path: Path) -> list[str]:
    """Other projects' packages that a file imports and that are not installed, so that none of its tests runs here."""
    names = {name.partition(".")[0] for name in _imported(path, texts=False)}
    available = sys.stdlib_module_names | {*packages(root)}
    return sorted(name for name in names - available if find_spec(name) is None)


def importers(root: Path) -> dict[str, set[str]]:
    """The files that import each file, by their paths."""
    files = [*sources(root), *sorted((root / "tests").rglob("*.py"))]
    homes = {_module(root, path): path.relative_to(root).as_posix() for path in files}
    readers: dict[str, set[str]] = {}
    for path in files:
        for name in _imported(path):
            if name in homes:
                readers.setdefault(homes[name], set()).add(path.relative_to(root).as_posix())
    return readers


def _module(root: Path, path: Path) -> str:
    """The name by which others import a file; those of `tests/helpers` are found by their own."""
    parts = path.relative_to(root).with_suffix("").parts
    return parts[-1] if parts[:2] == ("tests", "helpers") else ".".join(parts).removesuffix(".__init__")


def _imported(path: Path, *, texts: bool = True) -> Iterator[str]:
    """Names of modules, with `texts` also of those that are run or loaded by their name, as ``module:function`` too."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif texts and isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            yield node.value.partition(":")[0]


def concerned(root: Path, file: str, read_by: dict[str, set[str]]) -> tuple[list[str], list[str]]:
    """Paths of the tests near a file, and of the others that reach it; of each, the likeliest first.

    Near are its own, those of its folder that have its name in theirs, golden values, which see much in little time,
    those that take the fewest steps from import to import, and the others of its folder.
    """
    tests = [path.relative_to(root).as_posix() for path in (root / "tests").rglob("test_*.py")]
    tests = sorted(path for path in tests if not path.startswith("tests/benchmarks/"))
    steps, reached = {file: 0}, [file]
    for source in reached:
        for reader in sorted(read_by.get(source, ())):
            if reader not in steps:
                steps[reader] = steps[source] + 1
                reached.append(reader)
    at, far = Path("tests") / file, len(steps)
    unit_test = at.with_name(f"test_{at.name}").as_posix()
    nearest = min((steps.get(test, far) for test in tests), default=far)
    folder = next(parent for parent in at.parents if (root / parent).is_dir()).as_posix()
    subjects, name = set(_words(file)), set(_words(at.name))

    golden = {test for test in tests if test in steps and test.startswith("tests/pillars/test_golden")}

    def likely(test: str) -> tuple[bool, bool, bool, bool, bool, int, int, str]:
        shared, beside = len(subjects.intersection(_words(test))), test.startswith(f"{folder}/")
        named = beside and not name.isdisjoint(_words(Path(test).name))
        at_once = test != unit_test, not named, test not in golden
        return *at_once, steps.get(test, far) != nearest, not beside, steps.get(test, far), -shared, test

    direct = {unit_test, *golden, *(test for test in tests if steps.get(test) == nearest)}
    near = [test for test in tests if test in direct or test.startswith(f"{folder}/")]
    others = [test for test in tests if test in steps and test not in near]
    return [file, *sorted(near, key=likely)], sorted(others, key=likely)  # the file itself may have examples


def _words(path: str) -> list[str]:
    """What the names of folders and file speak of, in the singular."""
    return [word.removesuffix("s") for word in re.split(r"[/_.]", path) if word not in ("py", "test", "tests")]


def _files(root: Path) -> Iterator[Path]:
    """All that belongs to the project, without what tools and runs leave."""
    for folder, inner, names in os.walk(root):
        left = _LEFT if Path(folder) == root else set()
        inner[:] = [
            name for name in inner if name == ".ci" or not (name.startswith((".", "__pycache__")) or name in left)
        ]
        yield from ((Path(folder) / name).relative_to(root) for name in names)


def _written(path: Path) -> tuple[int, int]:
    return path.stat().st_mtime_ns, path.stat().st_size


class Copy:
    """A copy of the project at a place of its own, which keeps compiled code from one time to the next."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        wanted = set(_files(root))
        for path in set(_files(folder)) - wanted:
            (folder / path).unlink()
        for path in sorted(wanted):
            if not (folder / path).exists() or _written(root / path) != _written(folder / path):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / path, folder / path)

    @contextmanager
    def fault(self, site: Site) -> Iterator[None]:
        """Plant a fault for a while; the file is afterwards as old as before, so that its machine code holds."""
        path = self.folder / site.file
        source, written = path.read_bytes(), path.stat()
        try:
            path.write_bytes(site.planted(source))
            if site.file in _KERNELS:
                self.run("-m", "mtpp", "warm-up", limit=_COMPILING)
            yield
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))

    @contextmanager
    def machine_code(self) -> Iterator[None]:
        """Forget at the end what was compiled meanwhile."""
        before = set(self.folder.rglob("kernels-*"))
        try:
            yield
        finally:
            for left in set(self.folder.rglob("kernels-*")) - before:
                shutil.rmtree(left, ignore_errors=True)

    def run(self, *words: str, limit: float | None = None) -> tuple[int | None, str]:
        """The exit code of Python, None if the processor time was over, and what it printed."""
        environment = os.environ | {"PYTHONPATH": str(self.folder)}
        with tempfile.TemporaryFile("w+", errors="replace") as out:  # a pipe ends with the last grandchild
            process = subprocess.Popen(
                [sys.executable, "-u", *words],
                cwd=self.folder,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = _waited(process, limit)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            out.seek(0)
            return code, out.read()


def _waited(process: subprocess.Popen[bytes], limit: float | None) -> int | None:
    """The exit code, or None when the process and all that it started took more processor time, or nearly none."""
    taken, at_begin, begin = 0.0, 0.0, time.monotonic()
    while True:
        try:
            return process.wait(None if limit is None else _LOOK)
        except subprocess.TimeoutExpired:
            taken = max(taken, _processor_time(process.pid))
        if limit is not None and taken > limit:
            return None
        if time.monotonic() > begin + _WINDOW:
            if taken - at_begin < _IDLE * _WINDOW:
                return None
            at_begin, begin = taken, time.monotonic()


def _processor_time(pid: int) -> float:
    """Seconds of a process, of those that it waited for, and of all that it started and that still run."""
    total = 0.0
    with suppress(psutil.NoSuchProcess):
        for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
    return total


def try_fault(copy: Copy, site: Site, groups: tuple[Sequence[str], Sequence[str]], limit: float) -> tuple[str, str]:
    """Whether the near tests of a fault notice it, or the others, and the one that does, or why nobody knows."""
    near, others = groups
    with copy.machine_code():
        verdict = _tried(copy, site, near, limit)
        if verdict[0] == "survived" and others:
            further = _tried(copy, site, others, limit)
            return further if further[0] == "killed" else verdict
    return verdict


def _tried(copy: Copy, site: Site, group: Sequence[str], limit: float) -> tuple[str, str]:
    with copy.fault(site):
        code, said = copy.run(*_PYTEST, *group, limit=limit)
    if code in _GOOD:
        return "survived", ""
    test = _stopped_at(said, failed=code is not None)
    alone = [*_PYTEST, test] if "::" in test else [*_PYTEST, "--collect-only", *group]
    passes = copy.run(*alone, limit=limit if code is not None else _SOON)[0] in _GOOD
    if code is not None:
        return ("killed", test) if passes else ("undecided", f"{test} fails without it, too")
    if passes and "::" in test:  # it may wait for ever
        with copy.fault(site):
            if copy.run(*alone, limit=limit)[0] not in _GOOD:
                return "killed", test
    return "undecided", "the time was over"


def _stopped_at(said: str, failed: bool) -> str:
    """The test that failed, or else the one that ran at the end."""
    if failed:
        match = _FAILED.search(said)
        return match[1] if match else "a test"
    last = said.rstrip().rpartition("\n")[2]
    return "" if _ENDED.search(last) else last.strip()


def main() -> int:
    """Draw faults, try each, and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of what is drawn (default: the clock)")
    parser.add_argument("--count", type=int, default=30, help="how many faults (default: 30)")
    parser.add_argument("--limit", type=float, default=300.0, help="processor seconds for each of the two runs")
    parser.add_argument("--at", metavar="FILE:LINE", help="try all faults of a line instead")
    parser.add_argument("--folder", type=Path, default=ROOT / ".mutants", help="of the copy (default: .mutants)")
    asked = parser.parse_args()
    sites = drawn(ROOT, asked.seed, asked.count)
    for path in sources(ROOT):
        if lacking := missing(ROOT, path):
            print(f"not drawn: {path.relative_to(ROOT).as_posix()}, as {', '.join(lacking)} is not installed")
    if asked.at:
        file, _, line = asked.at.partition(":")
        if not (ROOT / file).is_file() or not line.isdigit():
            parser.error(f"--at {asked.at}: give a file of a package and a line, such as mtpp/__init__.py:7.")
        sites = [site for site in mutations(ROOT, ROOT / file) if site.line == int(line)]
    print(f"seed {asked.seed}: {len(sites)} faults", flush=True)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    copy, read_by, counts = Copy(ROOT, asked.folder), importers(ROOT), Counter[str]()
    copy.run("-m", "mtpp", "warm-up")
    with suppress(KeyboardInterrupt):
        for site in sites:
            verdict, why = try_fault(copy, site, concerned(ROOT, site.file, read_by), asked.limit)
            counts[verdict] += 1
            print(f"{verdict:<9}  {site}" + (f"  ({why})" if why else ""), flush=True)
    print(", ".join(f"{counts[verdict]} {verdict}" for verdict in ("killed", "survived", "undecided")))
    return int(counts["survived"] > 0)


if __name__ == "__main__":
    sys.exit(main())
