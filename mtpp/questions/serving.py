"""Questions of serving: cuts of a decoder, and deployments on servers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict, cast

from instances import Instance
from instances.architectures import ARCHITECTURES
from instances.architectures.transformers import Encoder
from instances.devices import DEFAULT_DEVICE
from instances.errors import (
    InputError,
    InputWarning,
    UnknownLayersError,
    WordError,
    assume,
    check_one_of,
    find,
    is_refused,
    nearest,
    printable,
    word,
)
from instances.graph.display import figures, how_many
from instances.json_files import read_json
from instances.machines import Kind, Machines
from instances.partitioning.partition import Partition
from instances.partitioning.serving import ServedPartition, ServingInstance
from instances.planning.grid.transformer import TRANSFORMERS, Transformer, transformer_of
from instances.readers.huggingface.files import configuration_file, find_record, find_stored
from instances.readers.huggingface.record import Decoder
from instances.runtimes import RUNTIMES, Runtime
from instances.runtimes.layers import LayerStack
from instances.runtimes.runtime import NodeRuntime
from instances.runtimes.serving import DEFAULT_LINK, serving_chain
from instances.serving.model import SERVERS_FORMAT, ServedModel, Servers, servers_of_document, servers_of_text
from instances.serving.problem import CACHES, DEGREES, OBJECTIVES, TOPOLOGIES, WEIGHTS, DeploymentInstance
from instances.serving.transformers import served_model, with_stored
from mtpp.questions.partitioning import (
    DevicesWords,
    bandwidth_of,
    counts_of,
    devices_of,
    memory_limits,
    runtime_rules,
    works_of_kinds,
)
from mtpp.questions.reading import DecoderWords, decoder_words, device_of, is_decoder, read_graph
from mtpp.questions.words import LIMITS, MACHINES, GraphLike, Word, chosen, path_of, pick
from mtpp.text.numbers import Quantity, parse_bandwidth, parse_counts, parse_seconds

# Cuts for serving: a decoder cut into stages that hold caches of keys and values.


#: Which point of the front is the answer, by what counts first.
ORDERS = {"bottleneck": 0, "capacity": -1}


class ServingWords(DevicesWords, DecoderWords, total=False):
    """Keyword arguments of `mtpp.serve`."""

    bandwidth: Annotated[
        Quantity | None, Word("Between stages.  [default: 64GB/s]", None, "RATE", MACHINES, basic=True)
    ]
    runtime: Annotated[
        str | None,
        Word("Cuts that this runtime can express (mtpp list runtimes).  [default: vllm]", None, "NAME", basic=True),
    ]
    first: Annotated[str, Word("What counts first in the answer.", "bottleneck", "bottleneck|capacity")]
    in_flight: Annotated[
        int | None,
        Word(
            "Batches in flight, at most k; all stages hold the caches of all.  [default: one for each stage, or one "
            "where the runtime works at one alone]",
            None,
            "M",
            basic=True,
            least=1,
        ),
    ]


#: Whose cuts fronts have, if nobody says more.
DEFAULT_RUNTIME = "vllm"


def layer_runtime(name: str) -> Runtime:
    """The runtime of this name; refused unless it cuts between layers.

    Raises
    ------
    InputError
        If the runtime is unknown, or takes the stage of each operator instead of each layer.
    """
    runtime = find(RUNTIMES, name, "runtime")
    if isinstance(runtime, NodeRuntime):
        raise WordError(
            "runtime",
            name,
            "it takes the stage of each operator, and layers are cut here; name a runtime of layers.",
        )
    return runtime


def serving_instance(
    graph: GraphLike, k: int | str | None, memory: Quantity | None, words: ServingWords
) -> ServingInstance:
    """The problem of cutting a decoder, as a chain of layers, into stages on devices.

    Raises
    ------
    InputError
        If a keyword argument or the graph is refused.
    """
    if k is None and words["devices"] is None:
        raise InputError(f"{word('k')} is missing; give the number of stages.")
    count, *more = [None] if k is None else counts_of(k)
    if more:
        raise WordError("k", k, "give one number of stages.")
    runtime = layer_runtime(words["runtime"] or DEFAULT_RUNTIME)
    assume("runtime", f"cuts that {runtime.name} can express")
    reading = decoder_words(pick(DecoderWords, words), served=is_decoder(graph))
    loaded = read_graph(graph, reading)
    limit, _ = memory_limits(memory, None)
    rate = bandwidth_of(loaded, words["bandwidth"], DEFAULT_LINK)
    if words["devices"] is None:
        if memory is None:
            raise InputError(
                f"{word('memory')} is missing; give that of a device, or its name: {word('devices')} {count or 1}xL4"
            )
        if limit == math.inf:
            raise WordError("memory", memory, "any context fits; give that of a device.")
        runtime_rules(runtime.name, loaded, [count or 1])
        devices, works, stages = Machines.alike(count or 1, rate, limit), None, None
    else:
        devices = devices_of(words["devices"], rate, limit)
        for kind in devices.kinds:
            if kind.memory == math.inf:
                raise WordError(
                    "memory", None, f"kind {printable(kind.name)} has no limit, and any context fits; give one."
                )
        works = works_of_kinds(graph, loaded, devices, reading)
        if count is not None and count > devices.total:
            raise WordError("k", k, f"there are {devices.total} devices; give no more.")
        stages = min(count or devices.total, LayerStack.of(loaded).layers)  # a stage has a layer
    question = Instance(loaded, devices, k=stages, works=works, fit=True)
    return serving_chain(question, runtime, _in_flight(question.k, runtime, words))


def _in_flight(k: int, runtime: Runtime, words: ServingWords) -> int:
    """Number of batches in flight, by default as many as stages and runtime allow; a `WordError` if more."""
    in_flight, limit = words["in_flight"], 1 if runtime.one_batch else k
    if in_flight is None:
        assume("in_flight", f"{how_many(limit, 'batch')} in flight")
        return limit
    if in_flight > limit and runtime.one_batch:
        raise WordError("in_flight", in_flight, f"{runtime.name} has one batch in flight; leave it out.")
    if in_flight > k:
        raise WordError(
            "in_flight", in_flight, f"{how_many(k, 'stage')} work at {how_many(k, 'batch')}; give 1 to {k}."
        )
    return in_flight


def serving_terms(words: ServingWords, point: ServedPartition, kinds: Sequence[Kind], *, priced: bool) -> str:
    """Text on the conditions of a front: context, devices and number widths of its speeds, and batches in flight.

    It also says where the chosen cut, `point`, has room for more tokens than the model takes. Devices of stated `kinds`
    are named, and a device that priced the graph.
    """
    question = point.question
    dims = question.instance.graph.attributes["dims"]
    terms = [f"{question.context} tokens of context"]
    if kinds:
        terms.append(f"devices {', '.join(f'{kind.count}x{printable(kind.name)}' for kind in kinds)}")
        if (words["runtime"] or DEFAULT_RUNTIME) == DEFAULT_RUNTIME:
            assume("memory", "all memory of each device, of which vLLM takes 90 % by default")
    elif priced:
        device = device_of(words) or DEFAULT_DEVICE
        rate = figures(device.memory_bandwidth, "bytes/s")
        terms.append(f"devices of {device.peak_flops / 1e12:g} TFLOP/s, {rate} to their memory")
    if "element_bytes" in dims:
        width, kept = dims["element_bytes"], dims.get("kv_bytes", dims["element_bytes"])
        terms.append(f"numbers of {width} bytes" + ("" if kept == width else f", of {kept} in caches"))
    assert question.in_flight is not None
    caches = f"{how_many(question.in_flight, 'batch')} of {how_many(question.batch, 'sequence')} in flight"
    taken = f", and the model takes {point.usable_context} tokens" if point.usable_context < point.capacity else ""
    return f"times: {', '.join(terms)}; contexts: {caches}{taken}"


def throughput_at_most_context(
    ask: Callable[[ServingWords], ServingInstance], words: ServingWords, point: ServedPartition
) -> float | None:
    """Throughput of a cut at its usable context [1/time unit]; None if its times there cannot be computed.

    Parameters
    ----------
    ask : callable
        Function of keyword arguments that returns the question of the cut.
    """
    if point.usable_context == math.inf:
        return None
    sequence = point.question.instance.graph.attributes["dims"]["sequence"]
    dims = {**(words["dims"] or {}), "sequence": sequence, "context": int(point.usable_context)}
    try:
        question = ask(cast(ServingWords, {**words, "dims": dims}))
    except InputError:  # tensors of more elements than can be counted
        return None
    cut = point.partition
    there = ServedPartition(question, Partition(question.instance, cut.block, kind=cut.kind))
    return there.throughput if there.capacity >= point.usable_context else None  # latent keys may grow, too


# Deployments: chains of stages with tensor degrees on servers.


#: Servers as words give them.
ServersLike = str | PathLike[str] | Servers | Sequence[Servers]

#: Runtimes that have one tensor degree for all stages of a chain, and those whose stages are single devices.
ONE_DEGREE, NO_DEGREE = ("vllm", "sglang", "tensorrt-llm"), ("llama-cpp", "exo")


class TrafficWords(TypedDict, total=False):
    """Keyword arguments: traffic of a deployment, and options of its service."""

    between: Annotated[Quantity | None, Word("Between two servers.  [default: 50GB/s]", None, "RATE", MACHINES)]
    input: Annotated[
        int | str | None,
        Word("Tokens of a prompt, in the mean; of a front several.  [default: 1000]", None, "N[,N]", least=1),
    ]
    output: Annotated[int | None, Word("Tokens that follow it.  [default: 1000]", None, "N", least=1)]
    kv: Annotated[str | None, Word("Width of keys and values.  [default: bf16]", None, "|".join(CACHES))]
    reserve: Annotated[
        str | None, Word("Room for all tokens of a sequence, or for their mean.  [default: full]", None, "full|mean")
    ]
    degrees: Annotated[str | None, Word("Tensor degrees to choose from.  [default: all]", None, "N[,N]")]
    batch: Annotated[
        int | None, Word("The most sequences of a batch.  [default: 4096]", None, "N", least=1, most=65536)
    ]
    ttft: Annotated[Quantity | None, Word("The longest time to the first token: 1s.", None, "TIME", LIMITS)]
    objective: Annotated[
        str | None,
        Word(
            "Most tokens a second, the quickest single sequence, or the cheapest token.  [default: throughput]",
            None,
            "|".join(OBJECTIVES),
        ),
    ]
    topology: Annotated[
        str | None,
        Word("One chain of stages, or several side by side.  [default: replicas]", None, "|".join(TOPOLOGIES)),
    ]
    prefill: Annotated[
        str | None,
        Word(
            "Prompts beside decoding, on servers of their own, or elsewhere.  [default: mixed]",
            None,
            "mixed|pools|none",
        ),
    ]
    price: Annotated[str | None, Word("Of an hour of each server, in their order: 24.5,6.", None, "X[,X]", MACHINES)]


class WorkloadWords(TrafficWords, total=False):
    """Keyword arguments: a workload for a deployment, and its limits."""

    weights: Annotated[
        str | PathLike[str] | None,
        Word(
            "With servers the width of weights, or which file of weights counts beside a config.json.  "
            "[default: as stored, as quantised, or bf16]",
            None,
            "|".join((*WEIGHTS, "FILE")),
        ),
    ]
    tpot: Annotated[Quantity | None, Word("The longest time of a token: 50ms.", None, "TIME", LIMITS, basic=True)]
    time_limit: Annotated[float | None, Word("For a deployment with its proof, or none.", 60.0, "SECONDS", LIMITS)]


class DeploymentWords(WorkloadWords, total=False):
    """Keyword arguments: a deployment on servers."""

    servers: Annotated[
        ServersLike | None,
        Word(
            "Servers as 2x8xH100,1x4xL4 (count, devices, kind; mtpp list devices) or a file (mtpp-servers/1): stages "
            "with tensor degrees and replicas for a workload.",
            None,
            "SERVERS|FILE",
            MACHINES,
            basic=True,
        ),
    ]
    front: Annotated[
        int | None,
        Word(
            "The best deployment for each of N limits of the time of a token, from the quickest one on.",
            None,
            "N",
            LIMITS,
            least=1,
            most=100,
        ),
    ]


class OnServersWords(WorkloadWords, total=False):
    """Keyword arguments of `mtpp.serve` in addition to `servers` and `front`."""

    runtime: Annotated[str | None, Word("That has to run each chain.", None, "NAME")]


class ServeWords(ServingWords, DeploymentWords, total=False):
    """Keyword arguments of `mtpp.serve`."""


def refuse_deployment(words: ServeWords) -> None:
    """Raise an `InputError` for keyword arguments of deployments if no servers are given."""
    for name in chosen(DeploymentWords, words):
        if name == "weights" and str(words["weights"]) not in WEIGHTS:
            continue  # a file, which is a word of reading, too
        raise WordError(name, words[name], f"it is for {word('servers')}; give these, or leave it out.")  # type: ignore[literal-required]


# Tokens of a prompt, and of an output, where nobody says them.
_TOKENS = 1000


class _Decoder(NamedTuple):
    """A decoder, with the defaults for serving that its configuration implies."""

    model: ServedModel
    longest: int | None = None  # most tokens of a sequence; None if nothing states it
    quantized: str | None = None  # numbers of its weights, as `Decoder` has them
    source: str = ""  # of the bytes of its weights, where a file says them


def model_of(model: Any, weights: Any = None) -> ServedModel:
    """The decoder from a name, a configuration or a record.

    Parameters
    ----------
    weights : str or path, optional
        Number format of the weights, or the file of weights that belongs to a configuration.

    Raises
    ------
    InputError
        If the model is no decoder, or the costs of its layers are unknown.
    """
    return _decoder_of(model, weights).model


def _decoder_of(model: Any, weights: Any) -> _Decoder:
    if isinstance(model, ServedModel):
        return _Decoder(model)
    if isinstance(model, Transformer):
        return _Decoder(served_model(model), model.positions or None)
    if not isinstance(model, str | PathLike):
        raise InputError(f"A model to be deployed is a name or a config.json, no {type(model).__name__}.")
    text = fspath(model)
    if text in TRANSFORMERS:
        longest = ARCHITECTURES[text].longest if text in ARCHITECTURES else None
        return _Decoder(served_model(TRANSFORMERS[text]), longest)
    record = find_record(text)
    if record is None:
        decoders = [name for name, sizes in TRANSFORMERS.items() if not is_refused(served_model, sizes)]
        end = nearest(decoders, text, f"give {', '.join(decoders)} or a config.json")
        raise InputError(f"{text}: there is no such decoder{end}")
    return _configured(text, *record, weights)


def _configured(text: str, name: str, record: Decoder | Encoder, doubts: list[str], weights: Any) -> _Decoder:
    """Decoder of a configuration; doubts about it become warnings.

    `weights` is a number format, or the path of a weight file; by default the stored files beside the configuration
    count.
    """
    loaded, stored = record, None
    folder, file = (configuration_file(text) or Path()).parent, None if weights is None else path_of("weights", weights)
    if file is not None and not any(path.exists() or path.suffix for path in (folder / file, file)):
        check_one_of("weights", str(file), WEIGHTS)
    if isinstance(record, Decoder) and str(file) not in WEIGHTS:
        loaded, stored, more = find_stored(text, record, file)
        doubts = [*doubts, *more]
    try:
        served = served_model(transformer_of(loaded, name))
    except UnknownLayersError as error:
        raise InputError(f"{str(error).removesuffix('.')}; serve it with {word('k')} and {word('memory')}.") from None
    source = ""
    if isinstance(loaded, Decoder) and stored is not None and stored.tensors:
        source = stored.source
        served, more = with_stored(served, loaded, stored)
        doubts = [*doubts, *more]
    for doubt in doubts:
        warnings.warn(doubt, InputWarning, stacklevel=2)
    if not isinstance(record, Decoder):
        return _Decoder(served)
    return _Decoder(served, record.longest, record.quantized, source)


def servers_of(servers: ServersLike) -> tuple[Servers, ...]:
    """Read the servers from a text, a file or objects.

    Raises
    ------
    InputError
        If the text or file names no servers.
    """
    if isinstance(servers, Servers):
        return (servers,)
    if not isinstance(servers, str | PathLike):
        parts = servers if isinstance(servers, Sequence) else ()
        objects = tuple(part for part in parts if isinstance(part, Servers))
        if not objects or len(objects) < len(parts):
            raise WordError("servers", servers, "give a text such as 2x8xH100, a file, or one or more Servers.")
        return objects
    text = fspath(servers)
    from_text = servers_of_text(text)
    if from_text is not None:
        return from_text
    if not text.endswith(".json"):
        raise WordError("servers", text, f"give them as 2x8xH100,1x4xL4, or a file of {SERVERS_FORMAT}.")
    return servers_of_document(read_json(text))


def degrees_of(
    text: str | None, model: ServedModel, servers: Sequence[Servers], runtime: str | None
) -> tuple[int, ...]:
    """Tensor degrees to try: the given ones, or all that divide the heads and fit into a server."""
    largest = max(server.devices for server in servers)
    if text is not None:
        degrees = tuple(sorted(set(parse_counts(str(text), "degrees"))))
        for degree in degrees:
            model.check_degree(degree)
            if degree not in DEGREES or degree > largest:
                raise WordError("degrees", text, f"give powers of 2 up to {largest}, the devices of a server.")
    else:
        heads = [shape.heads for shape in model.shapes]
        degrees = tuple(t for t in DEGREES if t <= largest and all(count % t == 0 for count in heads))
    if runtime in NO_DEGREE:
        if 1 not in degrees:
            raise WordError("degrees", text, f"a stage of {runtime} is a single device; give 1.")
        degrees = (1,)
    return degrees


def deployment_instances(model: Any, k: Any, memory: Any, words: ServeWords) -> list[DeploymentInstance]:
    """The question of a deployment, or those of a front: one for each number of tokens of a prompt."""
    if words["front"] is None:
        return [deployment_instance(model, k, memory, words)]
    if words["objective"] not in (None, "throughput"):
        raise WordError("front", words["front"], f"it is of the most tokens a second; leave out {word('objective')}.")
    inputs = [None] if words["input"] is None else parse_counts(str(words["input"]), "input")
    return [deployment_instance(model, k, memory, {**words, "input": count}) for count in inputs]


def deployment_instance(model: Any, k: Any, memory: Any, words: ServeWords) -> DeploymentInstance:
    """The question of a deployment on the given servers.

    Parameters
    ----------
    model : str, path, Transformer or ServedModel
    k, memory
        Arguments of fronts, which deployments refuse.
    words : ServeWords

    Raises
    ------
    InputError
        If a keyword argument or the model is refused.
    """
    for name in ("k", "memory"):
        if (value := {"k": k, "memory": memory}[name]) is not None:
            raise WordError(
                name, value, f"{word('servers')} say how many devices there are, and their memory; leave it out."
            )
    for name in chosen(ServingWords, words):
        if name not in ("runtime", "weights"):
            raise WordError(name, words[name], f"it is none of {word('servers')}; leave it out.")  # type: ignore[literal-required]
    runtime = words["runtime"]
    if runtime is not None and runtime not in (*ONE_DEGREE, *NO_DEGREE):
        raise WordError("runtime", runtime, f"deployments are for {', '.join((*ONE_DEGREE, *NO_DEGREE))}.")
    given = words["servers"]
    assert given is not None
    decoder, servers = _decoder_of(model, words["weights"]), servers_of(given)
    served = decoder.model
    if words["price"] is not None:
        servers = priced(servers, words["price"])
    names = ("input", "output", "weights", "kv", "reserve", "batch", "objective", "topology", "prefill")
    values: dict[str, Any] = {name: words[name] for name in names if words[name] is not None}  # type: ignore[literal-required]
    if "input" in values:
        values["input"], *others = parse_counts(str(values["input"]), "input")
        if others:
            raise WordError("input", words["input"], f"several are for {word('front')}; give one, or that, too.")
    values |= _lengths(values, decoder)
    if decoder.source or "weights" not in values:
        values["weights"] = decoder.quantized or "bf16"
        stored = f"bytes of weights as in {decoder.source}" if decoder.source else "weights of 2 bytes"
        assume("weights", f"weights in {decoder.quantized}" if decoder.quantized and not decoder.source else stored)
        if decoder.quantized == "" and not decoder.source:
            doubt = f"{served.name}: in what numbers its weights are quantised is not known; {word('weights')} says it."
            warnings.warn(doubt, InputWarning, stacklevel=2)
    values["weights"] = str(values["weights"])
    assume("kv", f"caches of {CACHES['bf16']:g} bytes")
    between = 50e9 if words["between"] is None else parse_bandwidth(words["between"], word="between")
    if words["between"] is None and sum(server.count for server in servers) > 1:
        assume("between", f"{figures(between, 'bytes/s')} between servers")
    for name in ("tpot", "ttft"):
        given = words[name]  # type: ignore[literal-required]
        values[name] = math.inf if given is None else parse_seconds(given, name)
    return DeploymentInstance(
        served,
        servers,
        between,
        degrees=degrees_of(words["degrees"], served, servers, runtime),
        uniform=runtime in ONE_DEGREE,
        runtime=runtime,
        **values,
    )


def _lengths(words: Mapping[str, Any], decoder: _Decoder) -> dict[str, int]:
    """Lengths of prompts and outputs; defaults are chosen within the longest context."""
    room = math.inf if decoder.longest is None else decoder.longest
    lengths = {}
    for name, other in (("input", "output"), ("output", "input")):
        if name in words:
            lengths[name] = words[name]
            continue
        rest = room - words[other] if other in words else room / 2
        lengths[name] = int(min(_TOKENS, max(1, rest)))
        assume(name, f"{'prompts' if name == 'input' else 'outputs'} of {lengths[name]} tokens")
    if sum(lengths.values()) > room:
        sequence = f"prompts of {lengths['input']} and outputs of {lengths['output']}"
        raise InputError(f"{sequence}: {decoder.model.name} takes sequences of {decoder.longest} tokens; give less.")
    return lengths


def priced(servers: Sequence[Servers], text: Any) -> tuple[Servers, ...]:
    """The servers with the prices in a text."""
    parts = str(text).split(",")
    try:
        prices = [float(part) for part in parts]
    except ValueError:
        raise WordError("price", text, "give a number for each kind of servers, such as 24.5,6.") from None
    if len(prices) != len(servers):
        raise WordError("price", text, f"give {how_many(len(servers), 'number')}, one for each kind of servers.")
    try:
        return tuple(replace(server, price=price) for server, price in zip(servers, prices, strict=True))
    except InputError as error:
        raise WordError("price", text, str(error)) from None
