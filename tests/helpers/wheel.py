"""Build the wheel, with machine code, and the source distribution into dist/, and try the wheel: ``make wheel``.

It is installed into an empty environment outside of the checkout, where the first `mtpp certify` answers without
compiling anything.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

from instances.deadline import processor_seconds

ROOT = Path(__file__).resolve().parents[2]
FIRST = ("certify", "bert-base", "-k", "4")


def run(*command: str | Path, folder: Path = ROOT, **variables: str) -> tuple[str, str]:
    """What a command prints on stdout and stderr; it has to end well."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr or done.stdout}")
    return done.stdout, done.stderr


def main() -> None:
    code = json.loads(run(sys.executable, "-m", "mtpp", "warm-up", "--json")[0])["folder"]
    for kind in ("sdist", "wheel"):
        run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", "dist", MTPP_MACHINE_CODE=code)
    wheel = max((ROOT / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    print(f"{wheel}: {wheel.stat().st_size >> 20} MiB")
    with TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place, with_pip=True)
        programs = place / ("Scripts" if os.name == "nt" else "bin")
        run(programs / "python", "-m", "pip", "install", "-qq", str(wheel))
        before = processor_seconds()
        out, err = run(
            programs / "mtpp", *FIRST, folder=place, NUMBA_CACHE_DIR="", XDG_CACHE_HOME=str(place / "caches")
        )
        if "compiling" in err:
            sys.exit(f"mtpp {' '.join(FIRST)} compiles where the wheel is installed: {err}")
        print(f"{out}The first mtpp {' '.join(FIRST)} took {processor_seconds() - before:.1f} s of processors.")


if __name__ == "__main__":
    main()
