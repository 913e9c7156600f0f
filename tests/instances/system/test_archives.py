"""Archives of files: what is written is read, and nothing else."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from instances.errors import InputError
from instances.system.files import read_archive, write_archive

FILES = {"a.b-1.code": bytes(range(256)) * 9, "empty.code": b""}
HERE = {"python": "311", "processor": "any"}


def read(path: Path) -> tuple[dict[str, str], dict[str, bytes]]:
    return read_archive(path, "test/1", {"python": {"311"}, "processor": {"mine", "any"}})


def forged(path: Path, listed: Any, content: bytes = b"") -> Path:
    """An archive whose hash is right, whatever is in it."""
    packed = gzip.compress((listed if isinstance(listed, bytes) else json.dumps(listed).encode()) + b"\n" + content)
    path.write_bytes(f"test/1 {hashlib.sha256(packed).hexdigest()}\n".encode() + packed)
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Byte by byte; the same files make the same archive."""
    for name in ("one", "two"):
        write_archive(tmp_path / name, "test/1", HERE, FILES)
    assert read(tmp_path / "one") == (HERE, FILES)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_every_byte_counts(tmp_path: Path) -> None:
    """Of an archive that is cut, longer, or has a changed byte, nothing is taken."""
    path = tmp_path / "archive"
    write_archive(path, "test/1", HERE, FILES)
    whole = path.read_bytes()
    changed = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in range(len(whole))]
    for content in (*changed, *(whole[:i] for i in range(len(whole))), whole + b"\0", whole + whole):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"no archive|cut"):
            read(path)


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ({"python": "312", "processor": "any"}, "another python, 312; here it is 311"),
        ({"python": "311", "processor": "yours"}, "another processor, yours; here it is any or mine"),
        ({"python": "311"}, "another processor, None"),
        ({"python": 311, "processor": "any"}, "another python, 311"),
        ({"python": ["311"], "processor": "any"}, "another python"),
        ({"python": "\n\x1b" * 10_000, "processor": "any"}, "another python"),
    ],
)
def test_what_was_made_for_others_is_refused(conditions: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said) as refused:
        read(forged(tmp_path / "archive", {"conditions": conditions, "files": {}}))
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    "name", ["../a", "/a", "a/b", "..", ".", "", "a\\b", "C:a", "a b", "a\n", "a\0", ".a", "a..b", "ä", "a" * 10_000]
)
def test_names_are_of_files_in_one_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read(forged(tmp_path / "archive", {"conditions": HERE, "files": {name: 1}}, b"x"))


@pytest.mark.parametrize("size", [-1, 2, 0, 2**28, 2**28 + 1, 2**70, 1.0, "1", None, True, [1]])
def test_sizes_are_what_they_say(size: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read(forged(tmp_path / "archive", {"conditions": HERE, "files": {"a": size}}, b"x"))


@pytest.mark.parametrize(
    "listed", [[], None, {"files": {}}, {"conditions": [], "files": {}}, b"{", b"[" * 10**6, b"\xff"]
)
def test_lists_of_another_form_are_refused(listed: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read(forged(tmp_path / "archive", listed))


def test_what_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    """A stream is unpacked as far as its list of files says, and no further."""
    with pytest.raises(InputError):
        read(forged(tmp_path / "archive", {"conditions": HERE, "files": {"a": 1}}, bytes(2**26)))
    with pytest.raises(InputError):
        read(forged(tmp_path / "archive", b"x" * 2**23))
    packed = b"no gzip"
    (tmp_path / "archive").write_bytes(f"test/1 {hashlib.sha256(packed).hexdigest()}\n".encode() + packed)
    with pytest.raises(InputError, match="cannot be unpacked"):
        read(tmp_path / "archive")
    with open(tmp_path / "archive", "wb") as sparse:
        sparse.truncate(2**40)
    with pytest.raises(InputError, match="MiB"):
        read(tmp_path / "archive")
