"""Settings of runtimes, judged by the installed programs: `check`."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from instances.errors import InputError, WordError, printable
from instances.json_files import read_text
from instances.registry import find
from instances.runtimes import RUNTIMES
from instances.runtimes.parser_process import PACKAGES
from instances.system.fresh_python import SubprocessError, run_module
from mtpp.questions.words import path_of

__all__ = ["check"]

_SECONDS = 120.0
#: Runtimes whose parser holds the words against a model, and what that is.
_NEEDS_MODEL = {"accelerate": "the folder of its config.json", "openvino": "its ONNX file"}


def check(words: str | PathLike[str], runtime: str, *, model: str | PathLike[str] | None = None) -> str:
    """Let the installed runtime say whether it takes a file of settings, as ``mtpp check``.

    Parameters
    ----------
    words : path
        As `export` writes it; for onnxruntime-genai it is in the folder of the stages. It is read, and never run.
    runtime : str
        A name of ``mtpp list runtimes`` whose program has a parser that can be called.
    model : path, optional
        What the words are held against: the folder of a configuration of transformers for accelerate, the ONNX file for
        openvino.

    Returns
    -------
    str
        The program with its release, and what it has read.

    Raises
    ------
    InputError
        If the program refuses the words, is not installed, or no parser of it can be called.
    """
    file, found = path_of("words", words), find(RUNTIMES, runtime, "runtime")
    if found.name not in PACKAGES:
        why = f"no parser of it can be called; those of {', '.join(PACKAGES)} can."
        raise WordError("runtime", runtime, why)
    if (model is None) == (found.name in _NEEDS_MODEL):
        if model is not None:
            raise WordError("model", str(model), f"the parser of {found.name} takes none; leave it out.")
        raise WordError("model", None, f"{found.name} holds words against a model; give {_NEEDS_MODEL[found.name]}.")
    read_text(file)
    given = [] if model is None else [_existing(model)]
    try:
        done = run_module("instances.runtimes.parser_process", found.name, file.absolute(), *given, seconds=_SECONDS)
    except SubprocessError:
        raise InputError(f"{file}: {found.name} has said nothing within {_SECONDS:g} s.") from None
    verdict, _, told = done.stdout.decode(errors="replace").strip().partition("\n")
    if verdict == "missing":
        raise InputError(f"{told}; install it beside mtpp, as make runtimes does.")
    if verdict != "ok":
        said = told or f"its program ended with {done.returncode}"
        raise InputError(f"{file}: refused by {printable(said)}")
    return printable(told)


def _existing(model: str | PathLike[str]) -> Path:
    path = path_of("model", model).absolute()
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder.")
    return path
