"""Questions of planning: layers, clusters and settings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from os import PathLike, fspath
from pathlib import Path
from typing import Annotated, Any, TypedDict, cast

from instances.devices import Device, NetworkCards
from instances.errors import InputError, WordError, assume, disregard, find, nearest, one_of, said, word
from instances.json_files import beside, missing
from instances.planning import Cluster, LayerChain, TrainingInstance
from instances.planning.problem import ELEMENT_BYTES
from instances.readers.huggingface.files import find_architecture
from instances.runtimes import RUNTIMES
from instances.runtimes.modules import whole_layers
from mtpp.questions.grid import GridReportWords, GridWords, rates_of_servers
from mtpp.questions.partitioning import DeviceMemoryWords, memory_of
from mtpp.questions.reading import ChainWords, DeviceWords, TimeUnitWords, device_of, read_graph
from mtpp.questions.words import LIMITS, MACHINES, SEARCH, SeedWords, Word, chosen, pick
from mtpp.text.numbers import Quantity, parse_bandwidth

# Clusters from texts: servers such as ``8x4``, testbeds, files; and the cards of their servers.


_SIMULATION = "simulation"
_MOST_DEVICES = 256
_SERVERS = re.compile(r"\d{1,18}x\d{1,18}(\+\d{1,18}x\d{1,18})*")


def load_cluster(cluster: str | PathLike[str] | Cluster, bandwidth: Quantity | None = None) -> Cluster:
    """Make a cluster from a text, a file or an object.

    Parameters
    ----------
    cluster : str, path or Cluster
        A file; servers such as ``8x4`` or ``6x2+3x4+1x8``; a testbed of the paper; ``simulation-SEED``, one of its
        random clusters.
    bandwidth : float or str, optional
        For servers: one rate, or one within and one between them.

    Raises
    ------
    InputError
        If there is no such cluster, or the bandwidth is missing or of no use.

    Examples
    --------
    >>> load_cluster("2x1+1x2", "16GB/s,4GB/s").servers
    (1, 1, 2)
    """
    if not isinstance(cluster, str | PathLike | Cluster):
        raise InputError(f"A cluster is a text, a file or a mtpp.Cluster, no {type(cluster).__name__}.")
    text = cluster.name if isinstance(cluster, Cluster) else fspath(cluster)
    if isinstance(cluster, str) and _SERVERS.fullmatch(cluster):
        return _of_servers(cluster, bandwidth)
    if bandwidth is not None:
        raise WordError("bandwidth", bandwidth, f"the cluster {text} has its own; leave this option out.")
    return cluster if isinstance(cluster, Cluster) else _named(text)


def _named(text: str) -> Cluster:
    import numpy as np

    from instances.planning.chains import TESTBEDS, random_cluster
    from instances.planning.plan_files import read_cluster

    if text in TESTBEDS:
        return TESTBEDS[text]()
    if match := re.fullmatch(rf"{_SIMULATION}-(\d+)", text):
        return random_cluster(np.random.default_rng(int(match[1])))
    if not Path(text).is_file():
        examples = f"servers such as 8x4, {', '.join(TESTBEDS)} or {_SIMULATION}-0"
        end = nearest([*TESTBEDS, *beside(text)], Path(text).name, f"give one, {examples}")
        raise WordError("cluster", text, f"there is no such file{end}")
    return read_cluster(text)


def _of_servers(text: str, bandwidth: Quantity | None) -> Cluster:
    if bandwidth is None:
        raise WordError(
            "cluster", text, f"give {word('bandwidth')} within and between servers, such as 128Gbps,32Gbps."
        )
    parts = [(int(count), int(size)) for part in text.split("+") for count, size in [part.split("x")]]
    devices = sum(count * size for count, size in parts)
    if not 0 < devices <= _MOST_DEVICES or any(size == 0 for _, size in parts):
        raise WordError("cluster", text, f"these are {devices} devices; give from 1 to {_MOST_DEVICES}.")
    servers = [size for count, size in parts for _ in range(count)]
    within, between = rates_of_servers(bandwidth)
    return Cluster.of_servers(servers, within, between, name=text)


def network_of(nic: str, servers: int) -> NetworkCards:
    """The network cards of servers, from a text such as "full", "half" or "25GB/s,half"."""
    words = nic.split(",")
    half = "half" in words
    rates = [part for part in words if part not in ("full", "half")]
    if len(rates) > 1 or len(words) > 2:
        raise WordError("nic", nic, f"give full or half, and at most one rate, such as {said('nic', '25GB/s,half')}.")
    if not rates:
        return NetworkCards(half)
    rate = parse_bandwidth(rates[0], word="nic")
    if rate == math.inf:
        raise WordError("nic", nic, "it must be finite; leave the rate out for that of the links.")
    return NetworkCards(half, (rate,) * servers)


# The question of planning: a chain of layers, a cluster, microbatches, and the words of training.


_SIMULATED_TOKENS = 384
# Mixed precision training with Adam, and the paper's.
_DTYPE, _OPTIMIZER_BYTES, _PAPER_COPIES = "fp32", 16.0, 4.0


class TrainedStepWords(TypedDict, total=False):
    """Keyword arguments: links and optimizer of a step of training."""

    nic: Annotated[
        str,
        Word(
            "A server's card: both directions at once or not, and its rate.", "full", "full|half|RATE[,half]", MACHINES
        ),
    ]
    optimizer_bytes: Annotated[
        float | None,
        Word(
            "Bytes a parameter, with its gradient and the optimizer's state.  [default: 16, mixed precision Adam; of a "
            "global batch 18, with gradients in 32 bits]",
            metavar="X",
            least=0,
            most=1e6,
        ),
    ]
    full_duplex: Annotated[bool, Word("Links carry both directions at once.", False, panel=MACHINES)]


class _TrainedWords(TrainedStepWords, DeviceMemoryWords, total=False):
    """Keyword arguments common to plans of microbatches and plans for a global batch."""

    bandwidth: Annotated[
        Quantity | None,
        Word(
            "Of servers as 8x4: within them, and between them if that differs, such as 128Gbps,32Gbps or 16GB/s; "
            "a bare number is in bytes per second.",
            metavar="RATE[,RATE]",
            panel=MACHINES,
            basic=True,
        ),
    ]
    dtype: Annotated[
        str | None,
        Word(
            "fp32, bf16, fp16 or fp8.  [default: fp32, of a global batch bf16, or fp16 where the device has no bf16]",
            metavar="NAME",
            basic=True,
        ),
    ]
    sequence: Annotated[int | None, Word("Tokens of a sample.", metavar="N", basic=True, least=1)]
    runtime: Annotated[
        str | None,
        Word(
            "Only plans that this runtime can express: whole layers, equal replicas (mtpp list runtimes). For a global "
            "batch megatron or torchtitan, whose settings can be exported.",
            metavar="NAME",
            basic=True,
        ),
    ]


class PlanStepWords(TrainedStepWords, total=False):
    """Keyword arguments: network and microbatches of a planned training step."""

    network: Annotated[
        str, Word("Cards that servers share, or links that share nothing.", "shared", "shared|paper", MACHINES)
    ]
    parameter_copies: Annotated[
        float | None,
        Word(
            "The same for each byte of parameters.  [default of the paper's network: 4]", metavar="X", least=0, most=1e6
        ),
    ]
    samples: Annotated[int | None, Word("Samples of a microbatch, whole ones for each replica.", metavar="Q", least=1)]
    recompute: Annotated[bool, Word("Stages that do not fit may keep their input alone.", False)]


class PlanningWords(ChainWords, PlanStepWords, _TrainedWords, total=False):
    """Keyword arguments of planning, without chain, cluster and microbatches."""


class TrainingWords(GridWords, GridReportWords, _TrainedWords, DeviceWords, TimeUnitWords, total=False):
    """Keyword arguments of training, without model and cluster."""

    memory: Annotated[
        Quantity | None,
        Word("Of a device: 16GB, 16GiB.  [default: 94 % of what it has]", None, "BYTES", MACHINES, basic=True),
    ]


class TrainWords(TrainingWords, total=False):
    """Keyword arguments of `mtpp.train`."""

    time_limit: Annotated[
        float | None,
        Word("For the search, and as much for bounds.  [default: none]", None, "SECONDS", LIMITS, basic=True),
    ]


class PlanSearchWords(SeedWords, total=False):
    """Keyword arguments: settings of the search for a plan."""

    effort: Annotated[
        int, Word("Of improved: 3 searches until the time limit, 2 as long as it pays.", 2, "0…3", SEARCH)
    ]
    orders: Annotated[
        str,
        Word(
            "Of passes: auto, unsplit, 1f1b, pe, gpipe, zb-h1, zb, interleaved; or a CSV file for the plan found.",
            "auto",
            "NAME|FILE",
            SEARCH,
        ),
    ]
    time_limit: Annotated[float | None, Word("For the search.  [default: none]", None, "SECONDS", LIMITS, basic=True)]


class PlanWords(PlanningWords, PlanSearchWords, total=False):
    """Keyword arguments of `mtpp.plan`."""


@dataclass(frozen=True)
class PlanningQuestion:
    """The problem of planning with microbatches, and the settings of its search."""

    instance: TrainingInstance
    planner: str
    search: PlanSearchWords
    runtime: str | None  # that has to express the plan


def plan_question(
    chain: Any,
    cluster: Any,
    microbatches: int | None,
    words: PlanningWords,
    planner: str,
    search: PlanSearchWords,
) -> PlanningQuestion:
    """The problem of planning a chain on a cluster with a number of microbatches, with the settings of its search.

    Raises
    ------
    InputError
        If a keyword argument, the chain or the cluster is refused, or there are no microbatches.
    """
    if microbatches is None:
        raise InputError(f"{word('microbatches')} is missing; give how many an iteration has.")
    instance = _training_instance(chain, cluster, microbatches, words)
    return PlanningQuestion(instance, planner, search, words["runtime"])


def _training_instance(chain: Any, cluster: Any, microbatches: int, words: PlanningWords) -> TrainingInstance:
    if isinstance(microbatches, bool) or not isinstance(microbatches, Integral):
        raise WordError("microbatches", microbatches, "give a whole number.")
    if microbatches < 1:
        raise WordError("microbatches", microbatches, "it must be at least 1.")
    dtype = words["dtype"]
    if words["optimizer_bytes"] is not None and words["parameter_copies"] is not None:
        raise InputError(f"{word('optimizer_bytes')} and {word('parameter_copies')} say the same; give one of them.")
    if dtype is not None and dtype not in ELEMENT_BYTES:
        raise WordError("dtype", dtype, one_of(ELEMENT_BYTES, dtype).removeprefix("; "))
    paper = words["network"] == "paper"
    if paper:
        _check_paper(words)
    device = device_of(words)
    memory = memory_of(words["memory"])
    sequence = _default_sequence(chain, words) if words["sequence"] is None else words["sequence"]
    layers, devices = chain_of(chain, words, device), load_cluster(cluster, words["bandwidth"])
    question = partial(TrainingInstance, layers, devices, microbatches, words["full_duplex"], memory)
    _assume(words)
    disregard("dims.phase")  # a step of training has one alone
    if paper:
        return question(parameter_copies=_or(words["parameter_copies"], _PAPER_COPIES))
    copies = _or(words["optimizer_bytes"], _OPTIMIZER_BYTES) / ELEMENT_BYTES[dtype or _DTYPE]
    return question(
        parameter_copies=_or(words["parameter_copies"], copies),
        network=network_of(words["nic"], len(devices.servers)),
        samples=words["samples"],
        recomputation=words["recompute"],
        dtype=dtype or _DTYPE,
        sequence=sequence,
    )


def question_like(true: TrainingInstance, chain: Any, words: PlanningWords) -> TrainingInstance:
    """The problem of `chain` and `words`, with microbatches, cluster, memory, number type and sequence of `true`.

    Raises
    ------
    InputError
        As `plan_question`.
    """
    same: dict[str, Any] = {"bandwidth": None, "memory": None}
    if true.network is not None and words["network"] != "paper":
        same |= {"dtype": true.dtype, "sequence": true.sequence}
    question = _training_instance(chain, true.cluster, true.microbatches, cast(PlanningWords, {**words, **same}))
    return replace(question, memory=true.memory)


def _assume(words: PlanningWords) -> None:
    """Note the defaults of a question, except those of its chain."""
    if words["network"] == "paper":
        assume("network", "links that share nothing")
        if words["parameter_copies"] is None:
            assume("parameter_copies", f"{_PAPER_COPIES:g} bytes for each byte of parameters")
        return
    assume("network", "cards that servers share")
    assume("nic", "full-duplex cards")
    if words["dtype"] is None:
        assume("dtype", f"numbers in {_DTYPE}")
    if words["optimizer_bytes"] is None and words["parameter_copies"] is None:
        assume("optimizer_bytes", f"{_OPTIMIZER_BYTES:g} bytes a parameter with its optimizer")


def _check_paper(words: PlanningWords) -> None:
    """Raise an `InputError` for keyword arguments that do not apply to the paper's network."""
    values = {
        "nic": None if words["nic"] == "full" else words["nic"],
        "dtype": words["dtype"],
        "sequence": words["sequence"],
        "optimizer_bytes": words["optimizer_bytes"],
        "samples": words["samples"],
        "recompute": words["recompute"] or None,
    }
    for name, value in values.items():
        if value is not None:
            shared = said("network", "shared")
            raise InputError(f"{word(name)}: the paper's network has no such thing; choose {shared}.")


def _default_sequence(chain: object, words: PlanningWords) -> int | None:
    """Default sequence length of the chain; None if its source has none."""
    if isinstance(chain, str) and chain == _SIMULATION:
        return _SIMULATED_TOKENS
    sequence = (words["dims"] or {}).get("sequence", _default_dims(chain).get("sequence"))
    return sequence if isinstance(sequence, int) else None


def chain_of(chain: Any, words: PlanningWords, device: Device | None) -> LayerChain:
    """The layers of a chain, an architecture, a module, a graph or a file; an `InputError` if refused."""
    from instances.planning.chains import collapse
    from instances.planning.plan_files import is_chain_file, load_chain

    defaults, stated = _default_dims(chain), words["dims"]
    dims = _dims(defaults, words)
    if isinstance(chain, LayerChain):
        if read := chosen(ChainWords, words):
            raise InputError(f"{chain.name}: it is no file; leave out {', '.join(map(word, read))}.")
        return chain
    if isinstance(chain, str | PathLike):
        text = fspath(chain)
        if text == _SIMULATION:
            return _simulation(words)
        if not (defaults or Path(text).exists()) and nearest([_SIMULATION], text) != ".":
            raise missing(text, "file or architecture", names=[_SIMULATION])
        if stated and Path(text).is_file() and Path(text).suffix != ".onnx" and not defaults:
            first = "=".join(map(str, next(iter(stated.items()))))
            raise WordError("dims", first, "only architectures and ONNX models have dimensions; leave this option out.")
        if is_chain_file(text):
            return load_chain(text, input_work=words["input_work"], time_unit=words["time_unit"], device=device)
    reading: Any = {**pick(ChainWords, words), "dims": dims or None}
    graph = read_graph(chain, reading)
    if words["runtime"] is not None:
        graph = whole_layers(graph, find(RUNTIMES, words["runtime"], "runtime"))
    return collapse(graph, trained_only=words["network"] == "shared")  # the paper's network keeps its numbers


def _simulation(words: PlanningWords) -> LayerChain:
    """The chain of the paper's simulation."""
    from instances.planning.chains import bert_chain

    if names := chosen(ChainWords, words):
        raise InputError(f"{_SIMULATION}: this chain has no options; leave out {', '.join(map(word, names))}.")
    if words["dtype"] not in (None, _DTYPE):
        raise WordError("dtype", words["dtype"], f"the simulation is one in {_DTYPE}; leave this option out.")
    if words["sequence"] is None:
        assume("sequence", f"{_SIMULATED_TOKENS} tokens a sample")
    return bert_chain(sequence=_SIMULATED_TOKENS if words["sequence"] is None else words["sequence"])


def _dims(defaults: Mapping[str, Any], words: PlanningWords) -> dict[str, Any]:
    """The stated dimensions of an architecture, with those that dtype and sequence imply."""
    dims = dict(words["dims"] or {})
    dtype = words["dtype"]
    others = {"element_bytes": dtype and ELEMENT_BYTES[dtype], "sequence": words["sequence"]}
    for name, value in others.items():
        if value is not None and name in defaults and dims.setdefault(name, value) != value:
            raise WordError("dims", f"{name}={dims[name]}", f"another option says {value}; leave one out.")
    return dims


def _default_dims(chain: object) -> dict[str, Any]:
    """Dimensions of an architecture with their defaults; empty for anything else."""
    architecture = find_architecture(chain)
    return {} if architecture is None else dict(architecture.dims)


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
