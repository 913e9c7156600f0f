"""Look for false bounds, wrong costs and crashes on new random questions, for as long as it is let: `make hunt`.

Every question comes from a number, its seed, that is printed with what fails. A failing question is made small and
written to a file, and `python tests/helpers/hunt.py --again FILE` tries it again. Exit codes: 0 nothing
found, 1 something was, 2 wrong use.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import math
import multiprocessing
import random
import signal
import sys
import time
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from extremes import graph_of, random_case
from hunted_questions import Question
from hunting import GROUPS, Method
from placement_cases import PlacementCase, random_placement_case
from planning_cases import PipelineCase, random_pipeline_case
from ruled_oracle import RuledCase
from ruled_questions import RuledQuestion, random_ruled_case
from shared_cases import SharedCase, random_shared_case
from shrinking import minimised
from subset_oracle import Case

from instances import InputError
from instances.graph.graph import graph_document
from mtpp_models import SolverFaultError

__all__ = ["Fault", "Tally", "again", "hunt", "try_seeds", "write_fault"]

# Seconds of a batch, after which methods of another group have their turn; faults kept of each method.
_BATCH, _FAULTS = 2.0, 3
# Methods that a question with constraints meets.
_AT_ONCE = 4
# Seconds for one answer, compiling included.
_PATIENCE = 120
_Task = tuple[str, list[str], int, float, str]


@dataclass(frozen=True)
class Fault:
    """A method that failed on a case, and what it said."""

    group: str
    method: str
    seed: int
    case: Any
    message: str


@dataclass
class Tally:
    """Counts by method.

    Parameters
    ----------
    tried, refused, faults : counters
        Questions that a method answered, refused by `InputError`, and failed on.
    worst : dict of str to float
        Largest relative excess of a bound over the optimum.
    examples : list of Fault
        A few of each method.
    """

    tried: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    worst: dict[str, float] = field(default_factory=dict)
    examples: list[Fault] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count what another tally counted."""
        for name in ("tried", "refused", "faults"):
            getattr(self, name).update(getattr(other, name))
        for method, excess in other.worst.items():
            self.worst[method] = max(excess, self.worst.get(method, -math.inf))
        self.examples += other.examples

    def table(self) -> str:
        """Counts a method, aligned."""
        lines = [f"{'method':<28}{'tried':>9}{'refused':>9}{'faults':>8}  worst relative excess"]
        for method in dict.fromkeys((*self.tried, *self.refused, *self.faults)):
            worst = self.worst.get(method, -math.inf)
            excess = f"{worst:.1e}" if worst > 0 else "–"
            counts = f"{self.tried[method]:>9}{self.refused[method]:>9}{self.faults[method]:>8}"
            lines.append(f"{method:<28}{counts}  {excess}")
        return "\n".join(lines)


def question_of(group: str, seed: int) -> Any:
    """What the methods of a group are asked: a pipeline, a placement, or a graph on a platform, maybe with rules."""
    draws = {
        "planners": random_pipeline_case,
        "shared": random_shared_case,
        "placements": random_placement_case,
        "constraints": random_ruled_case,
    }
    draw = draws.get(group, random_case)
    return _asked(draw(random.Random(seed)), seed)


def _asked(case: Any, seed: int) -> Any:
    if isinstance(case, RuledCase):
        return RuledQuestion(case, seed)
    return case if isinstance(case, PipelineCase | PlacementCase) else Question(case, seed)


def try_seeds(group: str, methods: Sequence[Method], seeds: Iterable[int], seconds: float = math.inf) -> Tally:
    """Try the methods on the question of each seed, until the time is up."""
    end, tally = time.monotonic() + seconds, Tally()
    for seed in seeds:
        question = question_of(group, seed)
        for method in _some(group, methods, seed):
            outcome = _outcome(method, question)
            if outcome is None:
                tally.refused[method.name] += 1
            elif isinstance(outcome, str):
                tally.faults[method.name] += 1
                if tally.faults[method.name] <= _FAULTS:
                    case = getattr(question, "case", question)
                    tally.examples.append(Fault(group, method.name, seed, case, outcome))
            else:
                tally.tried[method.name] += 1
                tally.worst[method.name] = max(outcome, tally.worst.get(method.name, -math.inf))
        if time.monotonic() > end:
            break
    return tally


def _some(group: str, methods: Sequence[Method], seed: int) -> Sequence[Method]:
    """Of the many methods of constraints a few, so that there is time for more questions; else all."""
    if group != "constraints" or len(methods) <= _AT_ONCE:
        return methods
    return random.Random(seed).sample(methods, _AT_ONCE)


def _outcome(method: Method, question: Any) -> float | str | None:
    """The excess of a bound; what went wrong; or None where the question is refused."""
    try:
        with _patience(), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            return float(method.check(question))
    except (InputError, SolverFaultError):  # a solver may fail on such numbers, as long as it says so
        return None
    except Exception as error:  # whatever it is, no user shall see it
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    """What does not end is a fault as well; compiled code is not interrupted."""

    def ring(_signal: int, _frame: Any) -> None:
        raise TimeoutError(f"no answer within {_PATIENCE} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(_PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def write_fault(fault: Fault, method: Method, folder: Path) -> Path:
    """Make the case of a fault small and write it, with its graph in the format of the project."""
    kind = fault.message.split(":")[0]

    def fails(case: Any) -> bool:
        try:
            outcome = _outcome(method, _asked(case, fault.seed))
        except (IndexError, ValueError):  # no question at all
            return False
        return isinstance(outcome, str) and outcome.split(":")[0] == kind

    case = minimised(fault.case, fails)
    fields = {"group": fault.group, "method": fault.method, "seed": fault.seed, "message": fault.message}
    written: dict[str, Any] = {**fields, "case": dataclasses.asdict(case)}
    if isinstance(case, Case):
        written["graph"] = graph_document(graph_of(case))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{fault.method}-{fault.seed}.json"
    path.write_text(json.dumps(written, indent=1))
    return path


def again(path: Path, solver: str) -> int:
    """Try what a file of `write_fault` says; 1 if it still fails, else 0."""
    written = json.loads(path.read_text())
    [method] = [m for m in GROUPS(solver)[written["group"]] if m.name == written["method"]]
    kinds = {"planners": PipelineCase, "shared": SharedCase, "placements": PlacementCase, "constraints": RuledCase}
    kind = kinds.get(written["group"], Case)
    outcome = _outcome(method, _asked(kind(**written["case"]), written["seed"]))
    print(f"{method.name}: {outcome}" if isinstance(outcome, str) else f"{method.name}: no fault any more")
    return int(isinstance(outcome, str))


def hunt(methods: dict[str, list[Method]], seconds: float, seed: int, jobs: int, solver: str) -> Tally:
    """Try batches of seeds from `seed` on, groups in turn, with a line of progress, until time is up or Ctrl-C."""
    begin, total = time.monotonic(), Tally()
    batches = _batches(methods, seed, begin + seconds, solver)
    try:
        for tally in map(_batch, batches) if jobs == 1 else _spread(batches, jobs):
            total.add(tally)
            left = max(0.0, begin + seconds - time.monotonic())
            counts = f"{sum(total.tried.values())} answers, {sum(total.faults.values())} faults"
            print(f"\r{counts}, {left:.0f} s left   ", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("\nStopped.", end="", file=sys.stderr)
    print(file=sys.stderr)
    return total


def _spread(batches: Iterator[_Task], jobs: int) -> Iterator[Tally]:
    """What processes make of the batches, each of which is made when one of them is free."""
    deaf = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that counts
    with multiprocessing.Pool(jobs, deaf) as pool:
        running = deque(pool.apply_async(_batch, (task,)) for task in itertools.islice(batches, jobs))
        while running:
            yield running.popleft().get()
            running.extend(pool.apply_async(_batch, (task,)) for task in itertools.islice(batches, 1))


def _batches(methods: dict[str, list[Method]], seed: int, end: float, solver: str) -> Iterator[_Task]:
    """Group, methods, first seed, seconds and solver of one batch after the other; seeds of batches do not meet."""
    batch = 0
    while True:
        for group, chosen in methods.items():
            left = end - time.monotonic()
            if left <= 0:
                return
            names = [method.name for method in chosen]
            yield group, names, seed + 10**6 * batch, min(_BATCH, left), solver
            batch += 1


def _batch(task: _Task) -> Tally:
    group, names, seed, seconds, solver = task
    methods = [method for method in GROUPS(solver)[group] if method.name in names]
    return try_seeds(group, methods, range(seed, seed + 10**6), seconds)


def _chosen(text: str, solver: str) -> dict[str, list[Method]]:
    """Groups and methods by name, all for an empty text."""
    groups, wanted = GROUPS(solver), [name for name in text.replace(",", " ").split() if name]
    names = {*groups, *(method.name for methods in groups.values() for method in methods)}
    for name in wanted:
        if name not in names:
            print(f"There is no method {name!r}; use {', '.join(groups)} or one of their methods.", file=sys.stderr)
            raise SystemExit(2)
    picked = {
        group: [method for method in methods if not wanted or group in wanted or method.name in wanted]
        for group, methods in groups.items()
    }
    return {group: methods for group, methods in picked.items() if methods}


def main() -> int:
    """Hunt, print counts a method, and write what fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--methods", default="", help="groups or methods, separated by commas; default: all")
    parser.add_argument("--solver", default="highs")
    parser.add_argument("--seed", type=int, help="of the first question; default: from the clock")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/hunt"), help="folder for what fails")
    parser.add_argument("--again", type=Path, metavar="FILE", help="try again what is in this file")
    options = parser.parse_args()
    if options.again is not None:
        return again(options.again, options.solver)
    seed = time.time_ns() % 10**12 if options.seed is None else options.seed
    methods = _chosen(options.methods, options.solver)
    print(f"Hunting for {options.seconds:g} s from seed {seed}, {options.solver}, in {', '.join(methods)}.", flush=True)
    total = hunt(methods, options.seconds, seed, options.jobs, options.solver)
    print(total.table())
    kinds = {(fault.method, fault.message.split(":")[0]): fault for fault in total.examples}
    for fault in kinds.values():
        [method] = [m for m in methods[fault.group] if m.name == fault.method]
        path = write_fault(fault, method, options.out)
        print(f"\n{fault.method}, seed {fault.seed}: {fault.message}")
        print(f"  {path}\n  .venv/bin/python tests/helpers/hunt.py --again {path}")
    return int(bool(total.faults))


if __name__ == "__main__":
    raise SystemExit(main())
