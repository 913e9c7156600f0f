"""Trained networks as files: weights as plain arrays, and how they were made. Nothing in them is code."""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from instances.errors import InputError
from instances.json_files import check_readable, check_writable, parse_json

SCHEMA = "mtpp-policy/1"
_POLICY = "placeto"
#: Bytes of all arrays of a file.
_LARGEST = 2**26
_BROKEN = (zipfile.BadZipFile, zlib.error, SyntaxError, MemoryError, RecursionError)
_HEAD = "checkpoint"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The published network with its weights."""

    options: Mapping[str, Any]  # its arguments
    weights: Mapping[str, NDArray[np.float32]]  # its parameters by name
    about: Mapping[str, Any] = field(default_factory=dict)  # how it was trained; free text and numbers

    def save(self, path: str | Path) -> None:
        """Write a file that `load` reads on any machine."""
        head = {"schema": SCHEMA, "policy": _POLICY, "options": dict(self.options), "about": dict(self.about)}
        check_writable(path)
        with Path(path).open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **{_HEAD: np.array(json.dumps(head)), **self.weights})

    @classmethod
    def load(cls, path: str | Path) -> Checkpoint:
        """Read a file that `save` wrote.

        Raises
        ------
        InputError
            If there is no such file, it is something else, or it is damaged.
        OSError
            If it cannot be read.
        """
        check_readable(path)
        with Path(path).open("rb") as file:
            return cls._read(file, str(path))

    @classmethod
    def _read(cls, file: IO[bytes], name: str) -> Checkpoint:
        try:
            arrays = _arrays(file)
            head = parse_json(str(arrays.pop(_HEAD)), name).open_members(("schema", "policy", "options", "about"))
        except (KeyError, NotImplementedError, OSError, RuntimeError, TypeError, ValueError, *_BROKEN):
            raise InputError(f"{name} is no checkpoint of a policy, or it is damaged; train one and save it.") from None
        schema, policy = head["schema"].text(), head["policy"].text()
        if schema != SCHEMA:
            raise InputError(f"{name} has schema {schema!r}, not {SCHEMA!r}; use the version that wrote it.")
        if policy != _POLICY:
            raise InputError(f"{name} has policy {policy!r}, not {_POLICY!r}; train one and save it.")
        for key, weight in arrays.items():
            if weight.dtype.kind != "f" or not np.isfinite(weight).all():
                raise InputError(f"{name}: the weights '{key}' are not finite numbers; train a policy and save it.")
        options, about = ({k: v.data for k, v in head[key].open_members(()).items()} for key in ("options", "about"))
        return cls(options, arrays, about)


def _arrays(file: IO[bytes]) -> dict[str, NDArray[Any]]:
    """Read the arrays of an ``.npz`` file; allocate none before its stated size is checked."""
    arrays = {}
    with zipfile.ZipFile(file) as archive:
        if sum(member.file_size for member in archive.infolist()) > _LARGEST:
            raise ValueError("too large")
        for member in archive.infolist():
            data = io.BytesIO(archive.read(member))
            if np.lib.format.read_magic(data) != (1, 0):
                raise ValueError("an array of another version")
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(data)
            content = data.read()
            if dtype.kind not in "fU" or math.prod(shape) * dtype.itemsize != len(content):
                raise ValueError("not as many numbers as it says")
            array = np.frombuffer(bytearray(content), dtype).reshape(shape, order="F" if by_columns else "C")
            arrays[member.filename.removesuffix(".npy")] = array
    return arrays
