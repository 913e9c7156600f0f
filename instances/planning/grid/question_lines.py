"""Questions of training in a grid as lines of text, and in a few words."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from instances.graph.display import figures
from instances.planning.grid.question_document import chain_document, question_document

if TYPE_CHECKING:
    from instances.planning.grid.problem import GridInstance

__all__ = ["grid_in_words", "grid_lines"]

_NAMES = ("format", "name", "source")


def grid_lines(instance: GridInstance) -> Iterator[str]:
    """All lines of a question but the first two: its members as JSON, without names of its chains."""
    for name, value in question_document(instance).items():
        if name != "chains":
            yield f"{name} {json.dumps(value, sort_keys=True)}"
    for chain in instance.chains:
        members = {name: value for name, value in chain_document(chain).items() if name not in _NAMES}
        yield f"chain {json.dumps(members, sort_keys=True)}"


def grid_in_words(instance: GridInstance) -> str:
    """The question without names, in one line."""
    servers, fixed = instance.servers, instance.fixed
    words = [f"{instance.global_batch} samples a step", f"{servers.count} servers of {servers.size} devices"]
    words += [f"{figures(servers.inner, 'bytes/s')} in a server, {figures(servers.outer, 'bytes/s')} between servers"]
    words += [f"{instance.layers} layers"]
    words += [f"memory {figures(instance.memory, 'bytes')}"] if math.isfinite(instance.memory) else []
    degrees = {name: getattr(fixed, name) for name in ("pp", "tp", "dp", "v")}
    words += [f"{name} {degree}" for name, degree in degrees.items() if degree is not None]
    return ", ".join(words)
