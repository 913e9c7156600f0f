"""Questions of training in a grid, as their documents, as lines of text, and in a few words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from instances.graph.display import figures

__all__ = ["grid_in_words", "grid_lines"]

_NAMES = ("format", "name", "source")


def grid_lines(question: Mapping[str, Any]) -> Iterator[str]:
    """All lines of a question but the first two: its members as JSON, without names of its chains."""
    for name, value in question.items():
        if name != "chains":
            yield f"{name} {json.dumps(value, sort_keys=True)}"
    for chain in question["chains"]:
        members = {name: value for name, value in chain.items() if name not in _NAMES}
        yield f"chain {json.dumps(members, sort_keys=True)}"


def grid_in_words(question: Mapping[str, Any]) -> str:
    """The question without names, in one line."""
    servers, memory = question["servers"], question["memory"]
    words = [f"{question['global_batch']} samples a step", f"{servers['count']} servers of {servers['size']} devices"]
    inner, outer = (figures(servers[name], "bytes/s") for name in ("inner", "outer"))
    words += [f"{inner} in a server, {outer} between servers", f"{len(question['chains'][0]['layers'])} layers"]
    words += [] if memory is None else [f"memory {figures(memory, 'bytes')}"]
    words += [f"{name} {degree}" for name, degree in question["fixed"].items() if degree is not None]
    return ", ".join(words)
