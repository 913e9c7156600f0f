"""Small profile files of Microsoft Research and PipeDream, for tests to read or to damage, and their refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from instances import InputError


def msr_node(id_: Any, latency: Any = 2.0, **changes: Any) -> dict[str, Any]:
    return {"id": id_, "name": f"n{id_}", "fpgaLatency": latency, "cpuLatency": 9.0, "size": 5.0, **changes}


def msr_edge(source: int, target: int, size: Any = 100.0, cost: Any = 0.5) -> dict[str, Any]:
    return {"sourceId": source, "destId": target, "size": size, "cost": cost}


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def assert_refused(read: Callable[[Path], object], path: Path, message: str) -> None:
    """The refusal begins with the file and the place, and is one line."""
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)


def edits(*rows: tuple[str, str, str]) -> pytest.MarkDecorator:
    """Run a test for each row: what to replace in a good text, by what, and how the refusal begins or what it says."""
    return pytest.mark.parametrize(("old", "new", "message"), rows)


def assert_edit_refused(
    read: Callable[[Path], object], path: Path, text: str, old: str, new: str, message: str
) -> None:
    """The text is refused once its `old` part is replaced, as by `assert_refused`."""
    assert old in text
    assert_refused(read, write(path, text.replace(old, new)), message)


MSR = {
    "maxFPGAs": 2,
    "nodes": [msr_node(7), msr_node(3, 4.0), msr_node(40)],
    "edges": [msr_edge(7, 3), msr_edge(7, 40), msr_edge(7, 40, 30.0, 0.25), msr_edge(3, 40, 0.0, 0.0)],
}


PIPEDREAM = """\
node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, parameter_size=0.000
node2 -- LSTM(8, 4) -- forward_compute_time=3.5, backward_compute_time=5, activation_size=[60; 20; 10], parameter_size=9
node3 -- __getitem__(0) -- forward_compute_time=0, backward_compute_time=0, activation_size=60.0, parameter_size=0.0
node4 -- __getitem__(1) -- forward_compute_time=0, backward_compute_time=0, activation_size=20.0, parameter_size=0.0
node5 -- Add -- forward_compute_time=1, backward_compute_time=0, activation_size=7, parameter_size=0.0 -- stage_id=1
\tnode1 -- node2
\tnode2 -- node3
\tnode2 -- node4
\tnode2 -- node5
\tnode1 -- node4
"""
