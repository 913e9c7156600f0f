"""The folder of a user alone: where it is, and whom it trusts."""

import os

import pytest

from instances.system.files import make_private, private_folder


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return tmp_path


def test_it_is_among_temporary_files_and_for_one_user(temporary):
    folder = private_folder("x")
    assert folder == temporary / f"x-{os.getuid()}"
    assert not folder.exists()
    make_private(folder)
    make_private(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert private_folder("x") == folder


def test_the_runtime_folder_of_the_user_comes_first(temporary, monkeypatch):
    runtime = temporary / "run"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert private_folder("x") == runtime / "x"
    runtime.chmod(0o750)
    assert private_folder("x") == temporary / f"x-{os.getuid()}"


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "open folder"])
def test_what_others_may_have_put_there_is_not_trusted(temporary, kind):
    folder = private_folder("x")
    if kind == "file":
        folder.touch()
    elif kind == "open folder":
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
    else:
        target = temporary / "target"
        if kind == "link":
            target.mkdir(mode=0o700)
        folder.symlink_to(target)
    assert private_folder("x") is None
    with pytest.raises(PermissionError):
        make_private(folder)
