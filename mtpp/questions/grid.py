"""Questions of training with degrees of parallelism."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from instances.errors import (
    InputError,
    InputWarning,
    UnknownLayersError,
    WordError,
    assume,
    disregard,
    is_refused,
    word,
)
from instances.graph.display import figures
from mtpp.questions.words import MACHINES, Word
from mtpp.text.numbers import parse_bandwidth, parse_bytes, parse_flops

if TYPE_CHECKING:
    from instances.planning.grid import ConfiguredChain, GridInstance, Servers
    from instances.planning.grid.transformer import Accelerator, Transformer

# Models of plans in a grid: names, configurations of Hugging Face, files of measured layers.


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
    assume("sequence", f"{sequence} tokens a sample")
    assume("dtype", f"numbers in {dtype}")
    assume("attention", f"{words['attention']} attention")
    batch = words["global_batch"]
    sizes = [n for n in _MICRO_BATCHES if batch % n == 0]
    if words["micro_batch"] != "auto":
        sizes = numbers_of("micro_batch", words["micro_batch"])
        for n in sizes:
            if batch % n:
                raise WordError("micro_batch", n, f"it does not divide {batch}, the samples of a step.")
    cps, eps = (_degrees(name, words[name], fixed[name]) for name in ("cp", "ep"))
    if not model.experts:
        disregard("ep")
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
    names = ", ".join(TRANSFORMERS)
    raise InputError(
        f"{text}: there is no such model with configurations; give {names}, a "
        f"config.json of Hugging Face, or a file of mtpp-chain/2 or Piper; plan takes any graph."
    )


def _instead() -> str:
    """Advice for models without costs here."""
    return (
        f"give measured layers in a file of mtpp-chain/2, or {word('microbatches')} to plan, which takes any "
        "graph or module."
    )


def _read(path: str, words: Mapping[str, Any]) -> ConfiguredChain:
    """Layers from a file of mtpp-chain/2, or of Piper."""
    from instances.json_files import parse_json, read_text
    from instances.planning.chains import configured_from_piper
    from instances.planning.grid.configurations import configured_from_document
    from instances.readers.profiles import recognises_piper

    text = read_text(path)
    if recognises_piper(text):
        return configured_from_piper(path, words["time_unit"] or "s")
    if words["time_unit"] is not None:
        raise InputError(f"{path}: its times are in seconds; leave out {word('time_unit')}.")
    return configured_from_document(parse_json(text, path))


def _measured(chain: ConfiguredChain, words: Mapping[str, Any]) -> ConfiguredChain:
    """A chain that has its own times."""
    fixed = {"micro_batch": "auto", "tp": "auto", "cp": "1", "ep": "1", "sequence": None, "dtype": None}
    for name, default in fixed.items():
        if words[name] != default:
            raise InputError(f"{chain.name}: it has its own configurations; leave out {word(name)}.")
    return chain


def _tensor_degrees(model: Transformer, text: str, servers: Servers) -> list[int]:
    """Degrees that are given, which must be possible, or all that are."""
    if text == "auto":
        possible = [t for t in range(1, servers.size + 1) if servers.size % t == 0]
        return [t for t in possible if _divides(model, t)]
    degrees = numbers_of("tp", text)
    for t in degrees:
        if servers.size % t:
            raise WordError("tp", t, f"it does not divide {servers.size}, the devices of a server.")
        model.check_degree(t)
    return degrees


def _degrees(name: str, text: str, fixed: int | None) -> list[int]:
    """Context or expert degrees to choose from: the fixed one, which must be among others that are given."""
    degrees = numbers_of(name, text)
    assume(name, f"{name} {text}")
    if fixed is None:
        return degrees
    if degrees != [1] and fixed not in degrees:
        raise WordError("fix", f"{name}={fixed}", f"{word(name)} has other degrees; leave one of both out.")
    return [fixed]


def _divides(model: Transformer, t: int) -> bool:
    return not is_refused(model.check_degree, t)


def numbers_of(name: str, text: str) -> list[int]:
    """Whole numbers of a word such as 1,2,4, in rising order."""
    if not re.fullmatch(r"[1-9]\d{0,5}(,[1-9]\d{0,5})*", text):
        raise WordError(name, text, "give one or more whole numbers, such as 1,2,4.")
    return sorted({int(part) for part in text.split(",")})


# The question of training in a grid: layers with configurations, servers, the samples of a step.


_DEVICE, _UPDATE_BYTES = "A100-80", 42
_GRADIENT_BYTES, _MOMENT_BYTES, _COPY_BYTES = 4.0, 8.0, 4.0
#: Part of a device's memory that a plan may fill, if nobody says how much; bandwidths that transfers reach.
_FILLED, _REACHED = 0.94, 0.8
_SHARDED = 2  # first stage of ZeRO that divides gradients
_FIXED = ("pp", "tp", "dp", "v", "cp", "ep")


class GridWords(TypedDict, total=False):
    """Words of a plan for a global batch."""

    global_batch: Annotated[int | None, Word("Samples of a step.", None, "G", basic=True, least=1)]
    micro_batch: Annotated[int | str, Word("Samples of a microbatch, or several to choose from.", "auto", "auto|N[,N]")]
    tp: Annotated[int | str, Word("Tensor degrees to choose from.", "auto", "auto|N[,N]")]
    cp: Annotated[int | str, Word("Context degrees to choose from.", "1", "N[,N]")]
    ep: Annotated[int | str, Word("Expert degrees to choose from.", "1", "N[,N]")]
    zero: Annotated[
        int | str, Word("Stages of ZeRO to choose from; of 2 and 3 passes hide what is sent.", "1", "auto|0…3")
    ]
    checkpoint: Annotated[
        str,
        Word(
            "What each layer may recompute: nothing, norms and activations, attention, all.",
            "auto",
            "auto|none|act|core|full",
        ),
    ]
    attention: Annotated[
        str, Word("Attention in one kernel, or in several that keep all scores.", "fused", "fused|eager")
    ]
    fix: Annotated[str | None, Word("Degrees that the plan must have, such as pp=8,tp=4,dp=2,v=2.", None, "NAME=N[,…]")]
    device: Annotated[
        str | None,
        Word(
            "V100-16, V100-32, A100-40, A100-80, H100-80 or H200-141.  [default: A100-80]",
            None,
            "NAME",
            MACHINES,
            basic=True,
        ),
    ]
    price: Annotated[
        float | None, Word("Of an hour of a device, for the cost of a step.", None, "X", MACHINES, least=0)
    ]


@dataclass(frozen=True)
class GridQuestion:
    """A plan in a grid that is asked for, and what its report needs."""

    instance: GridInstance
    device: Accelerator
    price: float | None  # of an hour of a device
    runtime: str | None  # that has to run the plan
    time_limit: float | None  # of the search, and of the bounds [s]


def grid_question(chain: Any, cluster: Any, words: Mapping[str, Any], time_limit: float | None = None) -> GridQuestion:
    """The question of training in a grid.

    Raises
    ------
    InputError
        If a word, the model or the cluster is refused, or no plan can have these degrees.
    """
    if words["global_batch"] is None:
        raise InputError(f"{word('global_batch')} is missing; give the samples of a step.")
    _check_words(words)
    device = _accelerator(words)
    memory = _FILLED * device.memory if words["memory"] is None else parse_bytes(words["memory"], "memory")
    if words["memory"] is None:
        assume("memory", f"{figures(memory, 'bytes')} of memory")
    instance = _instance(chain, cluster, words, device, memory)
    return GridQuestion(instance, device, words["price"], words["runtime"], time_limit)


def _instance(chain: Any, cluster: Any, words: Mapping[str, Any], device: Accelerator, memory: float) -> GridInstance:
    from instances.planning.grid import GridInstance
    from instances.planning.grid.configurations import MODES
    from instances.planning.grid.problem import Fixed, StateBytes

    fixed, servers = _fixed(words["fix"]), _servers(cluster, words)
    assume("zero", f"ZeRO {words['zero']}")
    known = (MODES[0], MODES[-1]) if words["runtime"] else MODES  # what runtimes recompute of each layer by number
    zero, modes = _stages_of_zero(words["zero"], words["runtime"]), _modes(words["checkpoint"], known)
    dtype = words["dtype"] or "bf16"
    chains = chains_of(chain, words, device, servers, {name: fixed.pop(name, None) for name in ("cp", "ep")}, dtype)
    width = _width(chains[0])
    total = words["optimizer_bytes"]
    if total is None:  # of Adam, with a copy in 32 bits of shorter numbers
        total = width + _GRADIENT_BYTES + _MOMENT_BYTES + (_COPY_BYTES if width < _COPY_BYTES else 0)
        assume("optimizer_bytes", f"{total:g} bytes a parameter with its optimizer")
    if total < width + _GRADIENT_BYTES:
        least = f"weights and gradients alone take {width + _GRADIENT_BYTES:g}."
        raise WordError("optimizer_bytes", f"{total:g}", least)
    return GridInstance(
        chains,
        servers,
        words["global_batch"],
        memory=memory,
        state_bytes=StateBytes(width, _GRADIENT_BYTES, total - width - _GRADIENT_BYTES),
        update_time=_UPDATE_BYTES / (_REACHED * device.memory_bandwidth),
        zero=zero,
        modes=modes,
        fixed=Fixed(**fixed),
        full_duplex=words["full_duplex"],
    )


def _check_words(words: Mapping[str, Any]) -> None:
    """Refuse values that are none of a plan for a global batch."""
    if words["dtype"] not in (None, *WIDTHS):
        raise WordError(
            "dtype", words["dtype"], f"times are those of 16-bit numbers; choose one of {', '.join(WIDTHS)}."
        )
    if words["attention"] not in ("fused", "eager"):
        raise WordError("attention", words["attention"], "choose fused or eager.")
    if words["runtime"] not in (None, "megatron", "torchtitan"):
        raise WordError("runtime", words["runtime"], "plans for a global batch are for megatron or torchtitan.")


def _accelerator(words: Mapping[str, Any]) -> Accelerator:
    """The device of the words, with the rates that they give it."""
    from instances.planning.grid.transformer import ACCELERATORS

    name = _DEVICE if words["device"] is None else words["device"]
    if name not in ACCELERATORS:
        raise WordError("device", name, f"choose one of {', '.join(ACCELERATORS)}.")
    accelerator = ACCELERATORS[name]
    if words["peak_flops"] is not None:
        accelerator = replace(accelerator, peak_flops=parse_flops(words["peak_flops"], "peak_flops"))
    if words["memory_bandwidth"] is not None:
        accelerator = replace(
            accelerator, memory_bandwidth=parse_bandwidth(words["memory_bandwidth"], word="memory_bandwidth")
        )
    speed, rate = f"{accelerator.peak_flops / 1e12:g} TFLOP/s", figures(accelerator.memory_bandwidth, "bytes/s")
    assume("device", f"devices like {name} with {speed} and {rate} to their memory")
    return accelerator


def _width(chain: ConfiguredChain) -> float:
    """Bytes of a number of a chain."""
    from instances.planning.problem import ELEMENT_BYTES

    if chain.dtype not in ELEMENT_BYTES:
        names = ", ".join(ELEMENT_BYTES)
        raise InputError(f"{chain.name}: dtype is {chain.dtype}; give one of {names}.")
    return ELEMENT_BYTES[chain.dtype]


def _servers(cluster: Any, words: Mapping[str, Any]) -> Servers:
    """Equal servers such as 8x8; each device has its part of the server's card."""
    from instances.planning.grid import Servers

    shape = re.fullmatch(r"(\d{1,6})x(\d{1,6})", cluster) if isinstance(cluster, str) else None
    if shape is None:
        raise WordError("cluster", str(cluster), "a plan for a global batch needs equal servers such as 8x8.")
    if words["bandwidth"] is None:
        raise WordError(
            "cluster", cluster, f"give {word('bandwidth')} within and between servers, such as 300GB/s,400GB/s."
        )
    rates = str(words["bandwidth"]).split(",") if isinstance(words["bandwidth"], str) else [words["bandwidth"]]
    if len(rates) > 2:
        raise WordError("bandwidth", words["bandwidth"], "give one rate, or one within and one between servers.")
    inner, between = parse_bandwidth(rates[0]), parse_bandwidth(rates[-1])
    nic = [part for part in words["nic"].split(",") if part != "full"]
    if "half" in nic or len(nic) > 1:
        raise WordError("nic", words["nic"], "here cards carry both directions at once; give a rate alone.")
    card = parse_bandwidth(nic[0], word="nic") if nic else between
    count, size = map(int, shape.groups())
    return Servers(count, size, inner, min(between, card / max(size, 1)), _REACHED)


def _stages_of_zero(text: str, runtime: str | None) -> tuple[int, ...]:
    if text != "auto" and not re.fullmatch(r"[0-3](,[0-3])*", text):
        raise WordError("zero", text, "give stages from 0 to 3, or auto.")
    stages = sorted({int(part) for part in (text.split(",") if text != "auto" else "123")})
    if runtime == "megatron":
        stages = [stage for stage in stages if stage < _SHARDED]
    if not stages:
        raise WordError("zero", text, "megatron divides optimizer states alone with a pipeline; give 0 or 1.")
    return tuple(stages)


def _modes(text: str, modes: tuple[str, ...]) -> tuple[str, ...]:
    """Modes of layers that a plan may choose; nothing to recompute is always one."""
    parts = list(modes) if text == "auto" else text.split(",")
    for part in parts:
        if part not in modes:
            raise WordError("checkpoint", part, f"choose from {', '.join(modes)}, or auto.")
    return tuple(dict.fromkeys((modes[0], *parts)))


def _fixed(text: str | None) -> dict[str, int | None]:
    fixed: dict[str, int | None] = {}
    for part in text.split(",") if text else ():
        match = re.fullmatch(r"(\w+)=([1-9]\d{0,5})", part)
        if match is None or match[1] not in _FIXED or match[1] in fixed:
            raise WordError("fix", text, f"give each of {', '.join(_FIXED)} at most once, such as pp=8,tp=4.")
        fixed[match[1]] = int(match[2])
    return fixed
