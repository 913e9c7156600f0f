"""Checkpoints of strangers: damaged or ill-fitting weights are refused in one line."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heuristics.placement.placeto import Checkpoint
from instances import InputError


def checkpoint() -> Checkpoint:
    """A network without rounds of messages: two devices, embeddings of width 1."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from heuristics.placement.placeto import network

    return network.capture(network.create(0, devices=2, width=1, rounds=0))


def saved(path: Path, change: Callable[[dict[str, Any]], None], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """A checkpoint with some of its members changed."""
    checkpoint().save(path)
    with zipfile.ZipFile(path) as archive:
        members: dict[str, Any] = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def array(value: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, value, allow_pickle=False)
    return file.getvalue()


def header(shape: str, content: bytes = b"") -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + content


DEEP = "[" * 9000 + "]" * 9000
FIRST = "head.0.weight.npy"
HEAD = {"schema": "mtpp-policy/1", "policy": "placeto", "options": {}, "about": {}}
DAMAGED: dict[str, dict[str, bytes]] = {
    "a header of 4 TB": {FIRST: header("(1000000000000,)")},
    "a header of overflowing size": {FIRST: header("(4294967296, 4294967296)")},
    "a negative shape": {FIRST: header("(-1, -4)", bytes(16))},
    "a deep header": {FIRST: header("(" * 50 + ")" * 50)},
    "texts": {FIRST: array(np.array(["a", "b"]))},
    "whole numbers": {FIRST: array(np.zeros((16, 8), dtype=int))},
    "nan": {FIRST: array(np.full((16, 8), np.nan, np.float32))},
    "inf": {FIRST: array(np.full((16, 8), np.inf, np.float32))},
    "no array": {FIRST: b"nonsense"},
    "too many bytes": {FIRST: header("(2,)", bytes(9))},
    "a bomb": {FIRST: array(np.zeros(2**25, np.float32))},
    "deep JSON": {"checkpoint.npy": array(np.array(DEEP))},
    "no object": {"checkpoint.npy": array(np.array("[]"))},
    "no schema": {"checkpoint.npy": array(np.array(json.dumps({**HEAD, "schema": "mtpp-policy/2"})))},
    "no policy": {"checkpoint.npy": array(np.array(json.dumps({**HEAD, "policy": 1})))},
    "no options": {"checkpoint.npy": array(np.array(json.dumps({**HEAD, "options": [1]})))},
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_bug_a_damaged_checkpoint_is_refused_in_one_line(tmp_path: Path, damage: str) -> None:
    """These were tracebacks, gigabytes, or policies that ran."""
    path = saved(tmp_path / "policy.npz", lambda members: members.update(DAMAGED[damage]))
    with pytest.raises(InputError, match=r"policy\.npz") as caught:
        Checkpoint.load(path)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("change", ["missing", "transposed", "twice as wide", "none"])
def test_bug_weights_that_do_not_fit_together_are_refused(tmp_path: Path, change: str) -> None:
    def damage(members: dict[str, Any]) -> None:
        if change == "missing":
            del members[FIRST]
        elif change == "none":
            for name in set(members) - {"checkpoint.npy"}:
                del members[name]
        else:
            weight = np.load(io.BytesIO(members[FIRST]))
            members[FIRST] = array(weight.T if change == "transposed" else np.hstack((weight, weight)))

    from heuristics.placement.placeto import network

    with pytest.raises(InputError, match="is damaged"):
        network.restore(Checkpoint.load(saved(tmp_path / "policy.npz", damage)))


@pytest.mark.parametrize(
    "options", [{"width": 10**9}, {"width": "a"}, {"width": 4000}, {"depth": 3}, {"width": -1}, {"width": True}]
)
def test_bug_options_that_do_not_fit_the_weights_are_refused(options: dict[str, Any]) -> None:
    good = checkpoint()
    from heuristics.placement.placeto import network

    with pytest.raises(InputError, match="is damaged"):
        network.restore(Checkpoint({"rounds": 0, "pooled": False, **options}, good.weights))


def test_other_policies_are_refused_in_one_line(tmp_path: Path) -> None:
    head = array(np.array(json.dumps({**HEAD, "policy": "orders"})))
    path = saved(tmp_path / "policy.npz", lambda members: members.update({"checkpoint.npy": head}))
    with pytest.raises(InputError, match=r"policy\.npz has policy 'orders'"):
        Checkpoint.load(path)
