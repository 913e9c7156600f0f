"""Questions of training with degrees of parallelism."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

from instances.architectures import ARCHITECTURES
from instances.errors import (
    InputError,
    InputWarning,
    UnknownLayersError,
    WordError,
    assume,
    check_one_of,
    disregard,
    is_refused,
    nearest,
    one_of,
    said,
    unknown,
    warn_if_given,
    word,
)
from instances.graph.display import figures
from instances.json_files import beside, parse_json, read_text
from instances.planning.grid import ConfiguredChain, GridInstance, Servers
from instances.planning.grid.accelerators import (
    DTYPES,
    RUNTIMES,
    Accelerator,
    Constants,
    constants_of,
    listed_servers,
    read_accelerator,
)
from instances.planning.grid.configurations import FULL, MODES, NONE, configured_from_document
from instances.planning.grid.problem import Fixed, StateBytes
from instances.planning.grid.transformer import TRANSFORMERS, Transformer, transformer_of
from instances.planning.problem import ELEMENT_BYTES
from instances.readers.huggingface.files import find_record
from instances.readers.profiles import recognises_piper
from mtpp.questions.reading import rates_of_device
from mtpp.questions.words import MACHINES, Word
from mtpp.text.numbers import parse_bandwidth, parse_bytes, parse_counts

if TYPE_CHECKING:
    from instances.planning.grid.estimates import Calibration, Estimate
    from instances.planning.grid.layers import Routing

# Models of plans with degrees of parallelism: names, configurations of Hugging Face, files of measured layers.


_SEQUENCE = 2048
#: Tokens of a sequence from which it may be divided, and those of a part, at least; experts that are divided, at most.
_LONG, _PART, _FEW_EXPERTS = 8192, 2048, 16
_MICRO_BATCHES = (1, 2, 4)


def _estimated(
    model: Transformer, words: Mapping[str, Any], basis: _Basis, servers: Servers, fixed: dict[str, int | None]
) -> tuple[Estimate, tuple[ConfiguredChain, ...]]:
    """Estimate of the layer times of a model, and the chain of layers for each size of microbatches."""
    from instances.planning.grid.estimates import Estimate

    if words["time_unit"] is not None:
        raise InputError(f"{model.name}: its times are estimated; leave out {word('time_unit')}.")
    sequence = words["sequence"] or min(_SEQUENCE, model.positions or _SEQUENCE)
    if model.positions and sequence > model.positions:
        raise WordError("sequence", sequence, f"{model.name} knows {model.positions} positions; give at most that.")
    assume("runtime", "times as in Megatron-LM")
    assume("sequence", f"{sequence} tokens a sample")
    assume("dtype", f"numbers in {basis.dtype}")
    assume("attention", f"{words['attention']} attention")
    batch = words["global_batch"]
    sizes = [n for n in _MICRO_BATCHES if batch % n == 0]
    if words["micro_batch"] != "auto":
        sizes = sorted(parse_counts(words["micro_batch"], "micro_batch"))
        for n in sizes:
            if batch % n:
                raise WordError("micro_batch", n, f"it does not divide {batch}, the samples of a step.")
    tps = _tensor_degrees(model, words["tp"], servers)
    _degrees("tp", words["tp"], fixed["tp"], tps)
    cps = _degrees("cp", words["cp"], fixed["cp"], _context_degrees(sequence, servers))
    eps = _degrees("ep", words["ep"], fixed["ep"], _expert_degrees(model, servers))
    experts = "the experts of a layer" if model.experts else f"as {model.name} has no experts"
    _check_divides("cp", cps, fixed["cp"], [sequence], "the tokens of a sample")
    _check_divides("ep", eps, fixed["ep"], model.experts or [1], experts)
    degrees = tuple((t, c, e) for t in tps for c in cps if servers.has_room(t, c) for e in eps)
    if not degrees:
        why = f"with tp {words['tp']} it fills no server of {servers.size} and no whole servers; choose others."
        raise WordError("cp", words["cp"], why)
    modes, _ = _modes(words)
    fused, routing = words["attention"] == "fused", _routing(model, words)
    estimate = Estimate(model, sequence, *basis[:4], servers, fused, routing, modes)
    return estimate, tuple(estimate.chain(n, degrees) for n in sizes)


def _context_degrees(sequence: int, servers: Servers) -> list[int]:
    """Powers of 2 that leave each device a sufficient part of a long sequence."""
    largest = sequence // _PART if sequence >= _LONG else 1
    powers = [2**n for n in range(largest.bit_length())]
    return [cp for cp in powers if sequence % cp == 0 and cp <= servers.devices] or [1]


def _expert_degrees(model: Transformer, servers: Servers) -> list[int]:
    """Common divisors of all numbers of experts; only 1 without experts."""
    if not model.experts:
        disregard("ep", "etp", "imbalance", "dispatch")
        for name in ("etp", "imbalance", "dispatch"):
            warn_if_given(name, f"{model.name} has no experts")
        return [1]
    largest = min(*model.experts, servers.devices)
    return [ep for ep in range(1, largest + 1) if all(count % ep == 0 for count in model.experts)]


def _routing(model: Transformer, words: Mapping[str, Any]) -> Routing:
    """Distribution of tokens to experts; by default few experts are divided among tensor ranks."""
    from instances.planning.grid.layers import Routing

    etp, dispatch = words["etp"], words["dispatch"]
    whole = bool(model.experts) and (str(etp) == "1" or (etp == "auto" and max(model.experts) > _FEW_EXPERTS))
    if model.experts and etp == "auto":
        assume("etp", "whole experts on a device" if whole else "experts divided by the tensor degree")
    if model.experts:
        assume("imbalance", f"the busiest experts get {float(words['imbalance']):g} times an even share")
        assume("dispatch", f"a token goes to a server {dispatch if dispatch == 'once' else 'for each expert'}")
    return Routing(whole, float(words["imbalance"]), dispatch == "copies")


def _check_divides(name: str, degrees: list[int], fixed: int | None, counts: Iterable[int], what: str) -> None:
    """Refuse a given degree that does not divide all counts; `what` they are."""
    for degree in degrees:
        for count in counts:
            if count % degree:
                why = f"it does not divide {count}, {what}."
                raise WordError(name, degree, why) if fixed is None else WordError("fix", f"{name}={degree}", why)


def _model(chain: Any, words: Mapping[str, Any]) -> ConfiguredChain | Transformer:
    """Measured layers, or a model whose layer times are estimated."""
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
        if (configured := find_record(text)) is not None:
            name, record, doubts = configured
            for doubt in doubts:
                warnings.warn(doubt, InputWarning, stacklevel=2)
            return transformer_of(record, name)
    except UnknownLayersError as error:
        raise InputError(f"{str(error).removesuffix('.')}; {_instead()}") from None
    is_file = Path(text).is_file()
    if is_file and Path(text).suffix not in (".onnx", ".pt2"):
        return _read(text, words)
    if text in ARCHITECTURES or is_file:
        raise InputError(f"{text}: no costs are known of its layers; {_instead()}")
    rest = f"give {', '.join(TRANSFORMERS)}, a config.json of Hugging Face, or a file of mtpp-chain/2 or Piper"
    end = nearest([*TRANSFORMERS, *beside(text)], Path(text).name, f"{rest}; plan takes any graph")
    raise InputError(f"{text}: there is no such model with configurations{end}")


def _instead() -> str:
    """Advice for models whose costs are unknown."""
    return (
        f"give measured layers in a file of mtpp-chain/2, or {word('microbatches')} to plan, which takes any "
        "graph or module."
    )


def _read(path: str, words: Mapping[str, Any]) -> ConfiguredChain:
    """Read layers from a file mtpp-chain/2, or of Piper."""
    from instances.planning.chains import configured_from_piper

    text = read_text(path)
    if recognises_piper(text):
        return configured_from_piper(path, words["time_unit"] or "s")
    if words["time_unit"] is not None:
        raise InputError(f"{path}: its times are in seconds; leave out {word('time_unit')}.")
    return configured_from_document(parse_json(text, path))


def _measured(chain: ConfiguredChain, words: Mapping[str, Any]) -> ConfiguredChain:
    """The chain, whose layers have measured times, after a check that no keyword argument asks for estimates."""
    fixed = {"micro_batch": "auto", "tp": "auto", "cp": "auto", "ep": "auto", "sequence": None, "dtype": None}
    for name, default in fixed.items():
        if words[name] != default:
            raise InputError(f"{chain.name}: it has its own configurations; leave out {word(name)}.")
    return chain


def _tensor_degrees(model: Transformer, text: str, servers: Servers) -> list[int]:
    """The given degrees, which must be possible, or all possible ones."""
    if text == "auto":
        possible = [t for t in range(1, servers.size + 1) if servers.size % t == 0]
        return [t for t in possible if not is_refused(model.check_degree, t)]
    degrees = sorted(parse_counts(text, "tp"))
    for t in degrees:
        if servers.size % t:
            raise WordError("tp", t, f"it does not divide {servers.size}, the devices of a server.")
        model.check_degree(t)
    return degrees


def _degrees(name: str, text: str, fixed: int | None, possible: list[int]) -> list[int]:
    """The degrees to try: the fixed one, else those of the text, else all possible ones."""
    degrees = possible if text == "auto" else sorted(parse_counts(text, name))
    if fixed is None:
        return degrees
    if text != "auto" and fixed not in degrees:
        raise WordError("fix", f"{name}={fixed}", f"{word(name)} has other degrees; leave one of both out.")
    return [fixed]


# The question of training with degrees of parallelism: layers with configurations, servers, the samples of a step.


_DEVICE = "A100-80"
#: Rates below it have no unit [bytes/s].
_BARE = 1e6
_GRADIENT_BYTES, _MOMENT_BYTES, _COPY_BYTES = 4.0, 8.0, 4.0
#: Part of a device's memory that a plan may fill, if nobody says how much.
_FILLED = 0.94
_SHARDED = 2  # first stage of ZeRO that divides gradients
_FIXED = ("pp", "tp", "dp", "v", "cp", "ep")


class GridWords(TypedDict, total=False):
    """Keyword arguments: plans for a global batch, and how their layers are timed."""

    global_batch: Annotated[int | None, Word("Samples of a step.", None, "G", basic=True, least=1)]
    micro_batch: Annotated[int | str, Word("Samples of a microbatch, or several to choose from.", "auto", "auto|N[,N]")]
    tp: Annotated[int | str, Word("Tensor degrees to choose from.", "auto", "auto|N[,N]")]
    cp: Annotated[int | str, Word("Context degrees to choose from.", "auto", "auto|N[,N]")]
    ep: Annotated[int | str, Word("Expert degrees to choose from.", "auto", "auto|N[,N]")]
    etp: Annotated[
        str, Word("Whether a device has whole experts, or its part of each by its tensor degree.", "auto", "auto|1|tp")
    ]
    imbalance: Annotated[
        float, Word("Tokens of the busiest experts, in multiples of an even share.", 1.0, "X", least=1, most=1000)
    ]
    dispatch: Annotated[
        str,
        Word("A token goes to a server once, or once for each of its experts there.", "once", "once|copies"),
    ]
    overlap: Annotated[
        str,
        Word(
            "Whether tensor collectives hide behind products; auto: as in the runs that were measured.",
            "auto",
            "auto|none|tp",
        ),
    ]
    zero: Annotated[
        int | str, Word("Stages of ZeRO to choose from; of 2 and 3 passes hide what is sent.", "1", "auto|0…3")
    ]
    checkpoint: Annotated[
        str,
        Word(
            "What layers recompute: one for all, full:N for the first N of each stage, or several to choose from for "
            "each layer: nothing, norms and activations, attention, half (every other product), all.",
            "auto",
            "auto|none|act|core|half|full[:N]",
        ),
    ]
    attention: Annotated[
        str, Word("Attention in one kernel, or in several that keep all scores.", "fused", "fused|eager")
    ]
    fix: Annotated[str | None, Word("Degrees that the plan must have, such as pp=8,tp=4,dp=2,v=2.", None, "NAME=N[,…]")]
    device: Annotated[
        str | None,
        Word(
            "Such as H100, or a file (mtpp-device/1); mtpp list devices.  [default: A100, or the cluster's]",
            None,
            "NAME|FILE",
            MACHINES,
            basic=True,
        ),
    ]
    calibration: Annotated[
        str | None,
        Word(
            "Constants fitted to measured steps, by mtpp train calibrate (mtpp-calibration/1).", None, "FILE", MACHINES
        ),
    ]


class GridReportWords(TypedDict, total=False):
    """Keyword arguments: additional numbers to print of a plan for a global batch."""

    top: Annotated[int, Word("Plans of other degrees to show beside the best.", 0, "N", least=0, most=1000)]
    tokens: Annotated[
        float | None, Word("Of a whole training, whose days and price are shown.", None, "N", least=1, most=1e18)
    ]
    price: Annotated[
        float | None, Word("Of an hour of a device, for the cost of a step.", None, "X", MACHINES, least=0)
    ]


class _Basis(NamedTuple):
    """Basis of the times of operators: device, number type, runtime, constants and calibration."""

    dtype: str
    device: Accelerator
    runtime: str | None
    constants: Constants
    calibration: Calibration | None


@dataclass(frozen=True)
class GridQuestion:
    """Which degrees of parallelism train a model fastest on a cluster: the problem, and the settings of its report."""

    instance: GridInstance
    estimate: Estimate | None  # what its times rest on; None if they were measured
    calibration: Calibration | None
    peak_flops: float  # of a device [1/s]
    price: float | None  # of an hour of a device
    tokens: float | None  # of a whole training
    top: int  # plans of other degrees beside the best, at most
    runtime: str | None  # that has to run the plan
    time_limit: float | None  # of the search, and of the bounds [s]


def grid_question(chain: Any, cluster: Any, words: Mapping[str, Any], time_limit: float | None = None) -> GridQuestion:
    """The problem of training on a cluster with degrees of parallelism, with the settings of its report.

    Raises
    ------
    InputError
        If a keyword argument, the model or the cluster is refused, or no plan can have these degrees.
    """
    from instances.planning.grid.estimates import UPDATE_BYTES
    from instances.planning.grid.layers import REACHED

    if words["global_batch"] is None:
        raise InputError(f"{word('global_batch')} is missing; give the samples of a step.")
    if cluster is None:
        raise InputError(f"{word('cluster')} is missing; give equal servers such as 8x8 or 16xDGX-H100.")
    _check_words(words)
    servers, of_servers = (
        (cluster, None) if isinstance(cluster, Servers) else cluster_of(cluster, words["bandwidth"], words["nic"])
    )
    basis, runtime = _basis(words, of_servers), words["runtime"]
    memory = _FILLED * basis.device.memory if words["memory"] is None else parse_bytes(words["memory"], "memory")
    if words["memory"] is None:
        assume("memory", f"{figures(memory, 'bytes')} of memory")
    assume("zero", f"ZeRO {words['zero']}")
    fixed, zero = _fixed(words["fix"]), _stages_of_zero(words["zero"], runtime)
    modes, fixed["recomputed"] = _modes(words)
    shared = {"tp": fixed.get("tp"), **{name: fixed.pop(name, None) for name in ("cp", "ep")}}
    model, estimate = _model(chain, words), None
    if isinstance(model, ConfiguredChain):
        chains: tuple[ConfiguredChain, ...] = (_measured(model, words),)
    else:
        check_range("memory", words["memory"], memory, "bytes", (1e9, 4e12))
        estimate, chains = _estimated(model, words, basis, servers, shared)
    instance = GridInstance(
        chains,
        replace(servers, reached=REACHED),
        words["global_batch"],
        memory=memory,
        state_bytes=_state_bytes(_width(chains[0]), words["optimizer_bytes"]),
        update_time=UPDATE_BYTES / (REACHED * basis.device.memory_bandwidth),
        zero=zero,
        modes=modes,
        fixed=Fixed(**fixed),
        full_duplex=words["full_duplex"],
    )
    peak = basis.device.peak_flops if estimate is None else estimate.peak_flops
    return GridQuestion(
        instance if estimate is None else estimate.timed(instance),
        estimate,
        basis.calibration,
        peak,
        words["price"],
        words["tokens"],
        words["top"],
        runtime,
        time_limit,
    )


def question_like(true: GridInstance, chain: Any, words: Mapping[str, Any]) -> GridInstance:
    """The problem of `chain` and `words`, with global batch, servers, memory, number type and sequence of `true`.

    Raises
    ------
    InputError
        As `grid_question`.
    """
    model, servers, layers = _model(chain, words), true.servers, true.chains[0]
    same: dict[str, Any] = {"global_batch": true.global_batch, "memory": None}
    if not isinstance(model, ConfiguredChain):
        same |= {"dtype": layers.dtype, "sequence": layers.sequence}
    plain = Servers(servers.count, servers.size, servers.inner, servers.outer)
    return replace(grid_question(model, plain, {**words, **same}).instance, memory=true.memory)


def _state_bytes(width: float, total: float | None) -> StateBytes:
    """Bytes per parameter for weights, gradients and the optimizer.

    Gradients have 32 bits, unless the total is that of Adam with gradients as wide as weights, such as 2 + 2 + 12.
    """
    adam = _MOMENT_BYTES + (_COPY_BYTES if width < _COPY_BYTES else 0)  # a copy in 32 bits of shorter numbers
    if total is None:
        total = width + _GRADIENT_BYTES + adam
        assume("optimizer_bytes", f"{total:g} bytes a parameter with its optimizer")
    gradients = width if total == 2 * width + adam else _GRADIENT_BYTES
    if total < width + gradients:
        raise WordError("optimizer_bytes", f"{total:g}", f"weights and gradients alone take {width + gradients:g}.")
    return StateBytes(width, gradients, total - width - gradients)


def _check_words(words: Mapping[str, Any]) -> None:
    """Refuse a dtype or a runtime that is not known for a global batch."""
    if words["dtype"] not in (None, *DTYPES):
        end = one_of(DTYPES, words["dtype"])
        raise WordError("dtype", words["dtype"], f"times are those of 16-bit or 8-bit products{end}")
    if words["runtime"] not in (None, *RUNTIMES):
        end = one_of(RUNTIMES, words["runtime"])
        raise WordError("runtime", words["runtime"], f"it has no plans for a global batch{end}")


def _basis(words: Mapping[str, Any], of_servers: str | None) -> _Basis:
    """The device with the rates of the keyword arguments, by default that of the servers, and its constants."""
    from instances.planning.grid.estimates import read_calibration

    name = words["device"] or of_servers or _DEVICE
    try:
        device = read_accelerator(name)
    except InputError as error:
        raise WordError("device", name, str(error)) from None
    if of_servers is not None and read_accelerator(of_servers) != device:
        warnings.warn(
            f"{word('device')}: the servers of {word('cluster')} have {of_servers}; {device.name} counts, with "
            "the links of these servers.",
            InputWarning,
            stacklevel=2,
        )
    for name, rate in rates_of_device(words).items():
        try:
            device = replace(device, **{name: rate})  # type: ignore[arg-type]
        except InputError as error:
            raise WordError(name, words[name], str(error)) from None
    dtype, runtime, calibration = words["dtype"] or device.half or "bf16", words["runtime"], None
    constants = constants_of(device, dtype, runtime)
    if words["calibration"] is not None:
        calibration = read_calibration(words["calibration"])
        calibration.check(device.name, dtype, runtime)
        constants = calibration.constants
    if words["overlap"] != "auto":
        constants = replace(constants, tp_exposed=float(words["overlap"] == "none"))
    assume("overlap", f"{constants.tp_exposed:.0%} of tensor collectives exposed")
    memory_rate = figures(device.memory_bandwidth, "bytes/s")
    speed = f"{device.peak_flops / 1e12:g} TFLOP/s" + f" ({device.eight:g} times that with 8 bits)" * (dtype == "fp8")
    if words["device"] is None:
        assume("device", f"devices like {device.name} with {speed} and {memory_rate} to their memory")
    return _Basis(dtype, device, runtime, constants, calibration)


def _width(chain: ConfiguredChain) -> float:
    """Bytes per stored element of a chain's tensors; 2 where only products are 8-bit."""
    check_one_of(f"{chain.name}: dtype", chain.dtype, ELEMENT_BYTES)
    return DTYPES.get(chain.dtype, ELEMENT_BYTES[chain.dtype])


def cluster_of(cluster: Any, bandwidth: Any, nic: str = "full") -> tuple[Servers, str | None]:
    """Equal servers such as 8x8 or 16xDGX-H100, and the device of those known by name.

    Each device has its share of the server's card.

    Raises
    ------
    InputError
        If the text names no servers, or a rate is missing or refused.
    """
    shape = re.fullmatch(r"(\d{1,6})x(\d{1,6})", cluster) if isinstance(cluster, str) else None
    named = re.fullmatch(r"(\d{1,6})x([A-Za-z][\w-]*)", cluster) if isinstance(cluster, str) else None
    device, size = None, 0
    inner = between = 0.0
    if named is not None:
        servers = {name.lower(): server for name, server in listed_servers().items()}
        if named[2].lower() not in servers:
            raise WordError("cluster", cluster, unknown(listed_servers(), named[2], "server"))
        server = servers[named[2].lower()]
        device, size, inner, between = server.device, server.devices, server.inner * 1e9, server.outer * 1e9
    elif shape is not None:
        size = int(shape[2])
    elif isinstance(cluster, str) and (match := re.fullmatch(r"(\d{1,6}x\d{1,6})x(\w.*)", cluster)):
        raise WordError(
            "cluster", cluster, f"give both by themselves: {said('cluster', match[1])}, {said('device', match[2])}."
        )
    else:
        names = ", ".join(listed_servers())
        why = f"a plan for a global batch needs equal servers such as 8x8, or by name such as 16xDGX-H100 ({names})."
        raise WordError("cluster", str(cluster), why)
    count = int((named or shape or "0x")[1])
    if bandwidth is None and named is None:
        where = "the server, such as 300GB/s" if count == 1 else "and between servers, such as 300GB/s,400GB/s"
        raise WordError("cluster", cluster, f"give {word('bandwidth')} within {where}.")
    if bandwidth is not None:
        inner, between = rates_of_servers(bandwidth, _check_unit)
    parts = [part for part in nic.split(",") if part != "full"]
    if "half" in parts or len(parts) > 1:
        raise WordError("nic", nic, "here cards carry both directions at once; give a rate alone.")
    card = parse_bandwidth(parts[0], word="nic") if parts else between
    outer = between if named is not None and not parts else min(between, card / max(size, 1))
    check_range("bandwidth", bandwidth, inner, "bytes/s", (1e9, 1e13), "within a server")
    if count > 1:
        check_range("bandwidth", bandwidth, outer, "bytes/s", (1e7, inner), "of a device to other servers")
    return Servers(count, size, inner, outer), device


def rates_of_servers(bandwidth: Any, check: Callable[[Any], None] = lambda rate: None) -> tuple[float, float]:
    """Rates within and between servers, from a value with one rate or two."""
    rates = bandwidth.split(",") if isinstance(bandwidth, str) else [bandwidth]
    if len(rates) > 2:
        raise WordError("bandwidth", bandwidth, "give one rate, or one within and one between servers.")
    for rate in rates:
        check(rate)
    first, last = parse_bandwidth(rates[0]), parse_bandwidth(rates[-1])
    if math.inf in (first, last):
        raise WordError("bandwidth", bandwidth, "it must be finite.")
    return first, last


def _check_unit(rate: Any) -> None:
    """Refuse a rate that is a small number without a unit."""
    try:
        number = float(rate)
    except (TypeError, ValueError):
        return
    if number < _BARE:
        raise WordError("bandwidth", rate, f"{number:g} bytes a second; write {rate}GB/s.")


def check_range(name: str, given: Any, value: float, unit: str, limits: tuple[float, float], what: str = "") -> None:
    """Raise a `WordError` for a number outside the limits of real machines, which is probably in another unit."""
    low, high = limits
    if not low <= value <= high:
        of = f" {what}" if what else ""
        why = f"that is {figures(value, unit)}{of}; give from {figures(low, unit)} to {figures(high, unit)}."
        raise WordError(name, f"{value:g}" if given is None else given, why)


def _stages_of_zero(text: str, runtime: str | None) -> tuple[int, ...]:
    if text != "auto" and not re.fullmatch(r"[0-3](,[0-3])*", text):
        raise WordError("zero", text, "give stages from 0 to 3, or auto.")
    stages = sorted({int(part) for part in (text.split(",") if text != "auto" else "123")})
    if runtime == "megatron":
        stages = [stage for stage in stages if stage < _SHARDED]
    if not stages:
        raise WordError("zero", text, "megatron divides optimizer states alone with a pipeline; give 0 or 1.")
    return tuple(stages)


def _modes(words: Mapping[str, Any]) -> tuple[tuple[str, ...], int | None]:
    """Modes of recomputation to choose from, and the stated number of recomputing layers, if any.

    With a single mode, all layers that have it use it. Runtimes recompute all of a layer or, as torchtitan does, half.
    """
    text, runtime = words["checkpoint"], words["runtime"]
    possible = MODES if runtime is None else {"torchtitan": (NONE, "half", FULL)}.get(runtime, (NONE, "core", FULL))
    if match := re.fullmatch(rf"{FULL}:([1-9]\d{{0,4}})", text):
        return (NONE, FULL), int(match[1])
    automatic = [NONE, FULL] if runtime else [NONE, "act", *["core"] * (words["attention"] == "eager"), FULL]
    parts = automatic if text == "auto" else text.replace("selective", possible[1]).split(",")
    for part in parts:
        if part not in possible:
            raise WordError("checkpoint", part, one_of((*possible, "auto"), part).removeprefix("; "))
    return tuple(sorted(dict.fromkeys(parts), key=MODES.index)), None


def _fixed(text: str | None) -> dict[str, int | None]:
    fixed: dict[str, int | None] = {}
    for part in text.split(",") if text else ():
        match = re.fullmatch(r"(\w+)=([1-9]\d{0,5})", part)
        if match is None or match[1] not in _FIXED or match[1] in fixed:
            names = f"give each of {', '.join(_FIXED)} at most once, with a whole number from 1"
            raise WordError("fix", text, f"{names}, such as pp=8,tp=4.")
        fixed[match[1]] = int(match[2])
    return fixed
