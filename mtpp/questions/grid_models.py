"""Models of plans in a grid: names, configurations of Hugging Face, files of measured layers."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instances.errors import InputError, InputWarning, UnknownLayersError, WordError, is_refused, word

if TYPE_CHECKING:
    from instances.planning.grid import ConfiguredChain, Servers
    from instances.planning.grid.transformer import Accelerator, Transformer

__all__ = ["WIDTHS", "chains_of"]

#: Bytes of a number of each type that there are times of.
WIDTHS = {"bf16": 2, "fp16": 2}

_SEQUENCE = 2048
_MICRO_BATCHES = (1, 2, 4)


def chains_of(
    chain: Any,
    words: Mapping[str, Any],
    device: Accelerator,
    servers: Servers,
    fixed: dict[str, int | None],
    dtype: str,
) -> tuple[ConfiguredChain, ...]:
    """The layers of a model for each size of microbatches.

    Raises
    ------
    InputError
        If there is no such model, or a degree or size does not suit it.
    """
    from instances.planning.grid import ConfiguredChain
    from instances.planning.grid.layers import Clockwork, LayerCosts, configured

    model = _model(chain, words)
    if isinstance(model, ConfiguredChain):
        return (_measured(model, words),)
    if words["time_unit"] is not None:
        raise InputError(f"{model.name}: its times are estimated; leave out {word('time_unit')}.")
    sequence = words["sequence"] or min(_SEQUENCE, model.positions or _SEQUENCE)
    if model.positions and sequence > model.positions:
        raise WordError("sequence", sequence, f"{model.name} knows {model.positions} positions; give at most that.")
    batch = words["global_batch"]
    sizes = [n for n in _MICRO_BATCHES if batch % n == 0]
    if words["micro_batch"] != "auto":
        sizes = numbers_of("micro_batch", words["micro_batch"])
        for n in sizes:
            if batch % n:
                raise WordError("micro_batch", n, f"it does not divide {batch}, the samples of a step.")
    cps, eps = (_degrees(name, words[name], fixed[name]) for name in ("cp", "ep"))
    tps = _tensor_degrees(model, words["tp"], servers)
    degrees = tuple((t, c, e) for t in tps for c in cps for e in eps)
    clock = Clockwork(device, servers.inner)
    return tuple(
        configured(
            LayerCosts(
                model, clock, n, sequence, WIDTHS[dtype], words["attention"] == "fused", servers.outer, servers.size
            ),
            degrees,
            dtype,
        )
        for n in sizes
    )


def _model(chain: Any, words: Mapping[str, Any]) -> ConfiguredChain | Transformer:
    """Measured layers, or a model whose layers are estimated."""
    from instances.architectures import ARCHITECTURES
    from instances.planning.grid import ConfiguredChain
    from instances.planning.grid.transformer import TRANSFORMERS, Transformer, transformer_of
    from instances.readers.huggingface.files import find_record

    if isinstance(chain, ConfiguredChain | Transformer):
        return chain
    if not isinstance(chain, str | PathLike):
        raise InputError(
            f"A model of a grid is a name, a file or a chain of configurations, no {type(chain).__name__}; {_instead()}"
        )
    text = fspath(chain)
    if text in TRANSFORMERS:
        return TRANSFORMERS[text]
    try:
        if (found := find_record(text)) is not None:
            name, record, doubts = found
            for doubt in doubts:
                warnings.warn(doubt, InputWarning, stacklevel=2)
            return transformer_of(record, name)
    except UnknownLayersError as error:
        raise InputError(f"{str(error).removesuffix('.')}; {_instead()}") from None
    if Path(text).is_file():
        return _read(text, words)
    if text in ARCHITECTURES:
        raise InputError(f"{text}: no costs are known of its layers; {_instead()}")
    known = ", ".join(TRANSFORMERS)
    raise InputError(
        f"{text}: there is no such model with configurations; give {known}, a "
        f"config.json of Hugging Face, or a file of mtpp-chain/2 or Piper; {word('microbatches')} plans any graph."
    )


def _instead() -> str:
    """Advice for models without costs here."""
    return (
        f"give measured layers in a file of mtpp-chain/2, or {word('microbatches')} in place of "
        f"{word('global_batch')}, which plans any graph or module."
    )


def _read(path: str, words: Mapping[str, Any]) -> ConfiguredChain:
    """Layers from a file of mtpp-chain/2, or of Piper."""
    from instances.json_files import parse_json, read_text
    from instances.planning.chains import configured_from_piper
    from instances.planning.grid.question_file import configured_from_document
    from instances.readers.piper import recognises_piper

    text = read_text(path)
    if recognises_piper(text):
        return configured_from_piper(path, words["time_unit"] or "s")
    if words["time_unit"] is not None:
        raise InputError(f"{path}: its times are in seconds; leave out {word('time_unit')}.")
    return configured_from_document(parse_json(text, path))


def _measured(chain: ConfiguredChain, words: Mapping[str, Any]) -> ConfiguredChain:
    """A chain that has its own times."""
    own = {"micro_batch": "auto", "tp": "auto", "cp": "1", "ep": "1", "sequence": None, "dtype": None}
    for name, default in own.items():
        if words[name] != default:
            raise InputError(f"{chain.name}: it has its own configurations; leave out {word(name)}.")
    return chain


def _tensor_degrees(model: Transformer, given: str, servers: Servers) -> list[int]:
    """Degrees that are given, which must be possible, or all that are."""
    if given == "auto":
        possible = [t for t in range(1, servers.size + 1) if servers.size % t == 0]
        return [t for t in possible if _divides(model, t)]
    degrees = numbers_of("tp", given)
    for t in degrees:
        if servers.size % t:
            raise WordError("tp", t, f"it does not divide {servers.size}, the devices of a server.")
        model.check_degree(t)
    return degrees


def _degrees(name: str, given: str, fixed: int | None) -> list[int]:
    """Context or expert degrees to choose from: the fixed one, which must be among others that are given."""
    degrees = numbers_of(name, given)
    if fixed is None:
        return degrees
    if degrees != [1] and fixed not in degrees:
        raise WordError("fix", f"{name}={fixed}", f"{word(name)} has other degrees; leave one of both out.")
    return [fixed]


def _divides(model: Transformer, t: int) -> bool:
    return not is_refused(model.check_degree, t)


def numbers_of(name: str, given: str) -> list[int]:
    """Whole numbers of a word such as 1,2,4, in rising order."""
    if not re.fullmatch(r"[1-9]\d{0,5}(,[1-9]\d{0,5})*", given):
        raise WordError(name, given, "give one or more whole numbers, such as 1,2,4.")
    return sorted({int(part) for part in given.split(",")})
