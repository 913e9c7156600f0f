"""Build the wheel, with machine code, and the source distribution into dist/, and try the wheel: ``make wheel``.

It is installed with ONNX into an empty environment outside of the checkout, where `mtpp certify` answers without
compiling anything, and other commands do; then into one of each further interpreter that is named.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from onnx_models import model, save

from instances.deadline import processor_seconds

ROOT = Path(__file__).resolve().parents[2]
FIRST = "certify bert-base -k 4 --out bert.json"
OTHERS = (
    "verify bert.json",
    "split net.onnx -k 2 --out stages",
    "run stages --requests 3",
    "report bert.json --out a.html",
)


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
    for python in (sys.executable, *sys.argv[1:]):
        try_wheel(wheel, python)


def try_wheel(wheel: Path, python: str) -> None:
    """Run commands where nothing else is installed; this interpreter has its machine code in the wheel."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        run(python, "-m", "venv", place)
        programs = place / ("Scripts" if os.name == "nt" else "bin")
        run(programs / "python", "-m", "pip", "install", "-qq", "--no-compile", f"{wheel}[onnx]")
        save(place, model("net (float[2, 8] x) => (float[2, 8] y) { a = Relu(x) b = Tanh(a) y = Relu(b) }"))
        for command in (FIRST, *OTHERS):
            before = processor_seconds()
            _, err = run(
                *(programs / "mtpp", *command.split()),
                folder=place,
                NUMBA_CACHE_DIR="",
                XDG_CACHE_HOME=str(place / "caches"),
            )
            if "compiling" in err and python == sys.executable:
                sys.exit(f"mtpp {command} compiles where the wheel is installed: {err}")
            if command == FIRST:
                seconds = f"{processor_seconds() - before:.1f} s"
                print(f"{python}: the first mtpp {FIRST} took {seconds} of processors, parsing included.")


if __name__ == "__main__":
    main()
