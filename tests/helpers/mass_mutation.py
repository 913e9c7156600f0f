"""Mass mutation of answer files: one random change in a true file of each format, and what `mtpp verify` makes of it.

``make forgeries COUNT=100000`` tries many, the tests a few. A file with a change is refused in one line, false, of
another question by its hash, or changed where its provenance is. What is accepted otherwise has to be true by the
judgement here: the same numbers up to rounding, another order or other devices at the same cost, a lower bound than the
true one, another witness of a proved bound, or a bound that is listed as trusted.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from certificates import Document
from true_files import originals

import mtpp
from instances import InputError
from instances.graph.questions import nameless
from instances.json_files import parse_json
from mtpp.problems.checking import verify
from mtpp.verification.verdict import OutOfTimeError, Verdict

VALUES: list[Any] = [
    None, True, False, 0, 1, 2, -1, 7, 10**6, 2**63, 10**400, 0.0, 0.5, -0.5, 1e-300, 1e308, -1e308,
    math.nan, math.inf, "", "s", "simple", "highs", "exact", "carried", "fp16", [], [0], [[0]], {}, {"nodes": [0]},
]  # fmt: skip
FACTORS = [0.0, 0.5, 2.0, -1.0, 1 - 1e-6, 1 + 1e-6, 0.999, 1.001, 10.0, 1e6]
CHANGES = ["value", "scale", "scale", "add", "text", "drop", "double", "swap", "extra", "kind"]
_ROUNDING, _NOTHING = 2e-9, 1e-290


Path = tuple[str | int, ...]


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Paths of everything in a document."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


@cache
def patterns(name: str) -> dict[str, list[Path]]:
    """Paths of a true file by their pattern, in which all places of a list are one."""
    paths: dict[str, list[Path]] = {}
    for path in places(originals()[name]):
        paths.setdefault(pattern_of(path), []).append(path)
    return paths


def pattern_of(path: Path) -> str:
    words = ["[]" if isinstance(key, int) else re.sub(r"\d+", "#", key) for key in path]
    return ".".join(words)


@dataclass(frozen=True)
class Mutant:
    """A file with one change."""

    name: str
    change: str
    path: Path
    text: str  # of the file


def mutant(rng: random.Random) -> Mutant:
    """A true file with one random change at a random pattern; at times with the hash that its question has by then."""
    name = rng.choice(sorted(originals()))
    file, by_pattern = copy.deepcopy(originals()[name]), patterns(name)
    path = rng.choice(by_pattern[rng.choice(sorted(by_pattern))])
    place: Any = file
    for key in path[:-1]:
        place = place[key]
    change = rng.choice(CHANGES)
    _apply(rng, change, place, path[-1])
    if rng.random() < 0.3:
        _hash_again(file)
    return Mutant(name, change, path, json.dumps(file))


def _apply(rng: random.Random, change: str, place: Any, key: Any) -> None:
    old = place[key]
    numeric = isinstance(old, int | float) and not isinstance(old, bool)
    if change == "drop":
        del place[key]
    elif change == "extra":
        extra = old if isinstance(old, dict) else place
        if isinstance(extra, dict):
            extra[rng.choice(["optimal", "more", "nodes", "seconds", "name", "fit", "solver"])] = rng.choice(VALUES)
        else:
            extra.append(rng.choice(VALUES))
    elif change == "double" and isinstance(place, list):
        place.insert(key, copy.deepcopy(old))
    elif change == "swap":
        other = rng.choice([*range(len(place))] if isinstance(place, list) else sorted(place))
        place[key], place[other] = place[other], old
    elif change == "scale" and numeric:
        place[key] = old * rng.choice(FACTORS) if old else rng.choice([1, 1.0, -1])
    elif change == "add" and numeric:
        place[key] = old + rng.choice([-1, 1, 0.5, 1e-3])
    elif change == "text" and isinstance(old, str) and old:
        at = rng.randrange(len(old))
        place[key] = old[:at] + rng.choice(["", "x", "0", old[at] * 2]) + old[at + 1 :]
    elif change == "kind":
        place[key] = str(old) if numeric else [old]
    else:
        place[key] = copy.deepcopy(rng.choice(VALUES))


def _hash_again(file: Document) -> None:
    """What a careful forger does: state the hash of the question that the file holds now."""
    try:
        file["question_hash"] = verify(parse_json(json.dumps(file), "c.json"), time_limit=5.0).certificate.true_hash
    except Exception:
        return


def outcome(sample: Mutant) -> str:
    """What becomes of a mutant; "FORGED" if something false is accepted, or refused in more than a line."""
    original = originals()[sample.name]
    try:
        document = parse_json(sample.text, "c.json")
        verdict = verify(document, time_limit=5.0)
    except InputError as error:
        return "refused" if str(error).startswith("c.json") and "\n" not in str(error) else "FORGED"
    except OutOfTimeError:
        return "out of time"
    if verdict.faults:
        assert all("\n" not in fault for fault in verdict.faults)
        return "false"
    if verdict.certificate.true_hash != original["question_hash"]:
        return "another question"
    if "provenance" in sample.path:
        return "provenance"
    if alike(nameless(document.data["question"]), nameless(original["question"])) and sample.path[0] == "question":
        return "a name"
    return _judged(original, document.data, verdict)


def _judged(original: Document, file: Document, verdict: Verdict) -> str:
    """What is true of a file that is accepted as an answer to the same question."""
    kept, without = _unordered(original), _unordered(file)
    if alike(kept, without):
        return "the same"
    unworded = file["answer"] and file["answer"].get("words") == "" != original["answer"]["words"]
    if unworded and "kinds" in file["question"]["chain"]:
        return "no words" if alike(kept["answer"] | {"words": ""}, without["answer"]) else "FORGED"
    if alike(_answerless(kept), _answerless(without)):
        return "another answer" if _as_good(original, file) else "FORGED"
    if file["impossible"] is not None and file["impossible"]["proof"] is None:
        return "trusted" if verdict.rests_on_trust else "FORGED"
    if without.get("bounds") is None or not alike(_rest(kept), _rest(without)):
        return "FORGED"
    true = {bound["method"]: bound["value"] for bound in original["bounds"]}
    for check in verdict.checks:
        limit = true.get(check.claim.method, max(true.values()))
        if check.proved is not None and check.proved > limit * (1 + _ROUNDING) and check.proved > max(true.values()):
            return "FORGED"
    return "trusted" if any(check.proved is None for check in verdict.checks) else "true bounds"


def _unordered(file: Document) -> Document:
    """What is not free in a file; its question, whose hash is the same, aside."""
    document = {name: item for name, item in file.items() if name not in ("provenance", "question")}
    if document["impossible"] is not None:
        document["impossible"] = document["impossible"] | {"reason": ""}
    document["bounds"] = [_boundless(bound) for bound in document["bounds"]]
    return document


def _boundless(bound: Document) -> Document:
    """A bound without its origin."""
    kept = {name: item for name, item in bound.items() if name != "provenance"}
    if "proof" in kept["parameters"]:
        kept["parameters"] = kept["parameters"] | {"proof": _boundless(kept["parameters"]["proof"])}
    return kept


def _answerless(file: Document) -> Document:
    """What is left without orders, devices and times, which several answers of the same cost may have.

    Any cut of a serving front may be the chosen one; its cost is that of the first.
    """
    free = {"plan": "devices", "partition": "order", "place": "sequence", "flow": "intervals", "serve": "chosen"}
    names = (free[file["problem"]],) if file["problem"] in free else ("starts", "sent")
    kept = {name: item for name, item in (file["answer"] or {}).items() if name not in names}
    return file | {"answer": kept}


def _as_good(original: Document, file: Document) -> bool:
    """Whether another order costs the same by the code that makes answers, or devices are linked as the others were.

    Passes and transfers may begin later than as soon as they can.
    """
    if file["problem"] == "plan":
        bandwidth = file["question"]["cluster"]["bandwidth"]
        one, other = ([v for group in document["answer"]["devices"] for v in group] for document in (original, file))
        return len(set(other)) == len(one) and all(
            bandwidth[a][b] == bandwidth[c][d] for a, c in zip(one, other, strict=True)
            for b, d in zip(one, other, strict=True)
        )  # fmt: skip
    with tempfile.NamedTemporaryFile("w", suffix=".json") as opened:
        json.dump(file, opened)
        opened.flush()
        cost = mtpp.read(opened.name).answer.cost
    answers = (original["answer"], file["answer"])
    times = [[*answer.get("starts", ()), *answer.get("sent", ())] for answer in answers]
    later = all(before <= then for rows in zip(*times, strict=True) for before, then in zip(*rows, strict=True))
    return alike(cost, file["cost"]) and later


def _rest(file: Document) -> Document:
    """What is left of a file without its bounds and what sums them up."""
    return {name: item for name, item in file.items() if name not in ("bounds", "bound", "ratio")}


def alike(value: Any, other: Any) -> bool:
    """Whether two values are the same but for the rounding of numbers."""
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(alike(value[name], other[name]) for name in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(alike, value, other))
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, int | float) and isinstance(other, int | float):
        return math.isclose(value, other, rel_tol=_ROUNDING, abs_tol=_NOTHING)
    return bool(value == other)


def tried(count: int, seed: int) -> tuple[Counter[str], list[Mutant]]:
    """Outcomes of so many mutants, and those that forge something."""
    rng, counts, forged = random.Random(seed), Counter[str](), list[Mutant]()
    for _ in range(count):
        sample = mutant(rng)
        result = outcome(sample)
        counts[result] += 1
        forged += [sample] if result == "FORGED" else []
    return counts, forged


def main() -> int:
    """Try mutants, and print what became of them."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    words = parser.parse_args()
    counts, forged = tried(words.count, words.seed)
    changed = words.count - counts["the same"] - counts["provenance"]
    files = f"files of {len(originals())} kinds"
    print(f"{words.count} changes (seed {words.seed}) in {files}:")
    for name, count in counts.most_common():
        print(f"{count:8d} {name}")
    print(f"{changed} changed a question, an answer or a bound; {len(forged)} of them were accepted though false")
    for sample in forged[:20]:
        print(f"  {sample.name}: {sample.change} at {'.'.join(map(str, sample.path))}")
    return 1 if forged else 0


if __name__ == "__main__":
    sys.exit(main())
