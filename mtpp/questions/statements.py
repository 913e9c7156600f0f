"""Compare a caller's keyword arguments with the question of a file; each is read as by the verb that wrote the file.

A bandwidth is in the time unit of its graph, a cluster as `mtpp plan` takes it, constraints in the names of its nodes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Annotated, Any

import numpy as np

from instances import ComputationGraph, InputError, Instance
from instances.certificates import Envelope
from instances.errors import WordError, printable
from instances.graph.display import figures
from instances.graph.questions import HASH
from instances.machines import Machines
from instances.partitioning.constraints import Constraints, rules_in_words
from instances.partitioning.problem import places_of_kinds
from instances.placement.problem import PlacementInstance
from instances.planning.grid import GridInstance, Servers
from instances.planning.problem import TrainingInstance
from instances.serving.problem import DeploymentInstance
from mtpp.questions.grid import GridWords, cluster_of
from mtpp.questions.partitioning import Blocks, Rules, bandwidth_of, counts_of, devices_of, rules_of, runtime_rules
from mtpp.questions.planning import PlanStepWords, load_cluster
from mtpp.questions.serving import ServersLike, TrafficWords, degrees_of, priced, servers_of
from mtpp.questions.words import LIMITS, MACHINES, Word, without_defaults, words_of
from mtpp.text.numbers import Quantity, parse_bandwidth, parse_bytes, parse_counts, parse_seconds

#: Word to what compares it: the difference between what is stated and the question of a file, None if there is none.
Compare = dict[str, Callable[[], str | None]]

_HASH = re.compile(rf"{HASH}[0-9a-f]{{16,64}}")


@without_defaults
class StatementWords(GridWords, PlanStepWords, TrafficWords, total=False):
    """A caller's statements on a question; others are not compared."""

    question: Annotated[str | object | None, Word("Its hash, as the other verbs print it.", None, "HASH", basic=True)]
    k: Annotated[Blocks | None, Word("Number of blocks, stages or devices.", None, "K", basic=True)]
    bandwidth: Annotated[Quantity | None, Word("Between blocks or devices.", None, "RATE[,RATE]", MACHINES, basic=True)]
    memory: Annotated[Quantity | None, Word("Of a block or device.", None, "BYTES", MACHINES, basic=True)]
    activation_buffer: Annotated[
        Quantity | None, Word("Part of the memory that is kept for activations.", None, "BYTES", MACHINES)
    ]
    fit: Annotated[bool | None, Word("Whether the memory is a hard limit.", None, panel=MACHINES)]
    constraints: Annotated[Rules, Word("Side constraints (mtpp-constraints/1).", None, "FILE")]
    runtime: Annotated[str | None, Word("The runtime that has to express the cut.", None, "NAME")]
    devices: Annotated[
        Machines | str | PathLike[str] | None,
        Word("Devices of several kinds, such as 2xA100,2xT4, or a file.", None, "KINDS|FILE", MACHINES, basic=True),
    ]
    cluster: Annotated[
        str | object | None, Word("Cluster of a plan, as mtpp plan takes it.", None, "CLUSTER", MACHINES)
    ]
    microbatches: Annotated[int | None, Word("Microbatches of a plan.", None, "M")]
    in_flight: Annotated[int | None, Word("Batches in flight of a serving front, or of a flow.", None, "M")]
    servers: Annotated[
        ServersLike | None, Word("Servers of a deployment, as mtpp serve takes them.", None, "SERVERS|FILE", MACHINES)
    ]
    tpot: Annotated[Quantity | None, Word("Of a deployment, the longest time of a token.", None, "TIME", LIMITS)]
    dtype: Annotated[str | None, Word("Element type of a plan.", None, "NAME")]
    sequence: Annotated[int | None, Word("Tokens of a sample of a plan.", None, "N")]


def other_question(stated: Envelope, question: Any) -> str | None:
    """How the question of a file differs from a hash, a question or that of a result; None if they are the same."""
    if isinstance(question, str):
        if not _HASH.fullmatch(question.lower()):
            raise WordError("question", question, f"a hash is {HASH} and 64 digits, of which 16 or more are given.")
        same = stated.true_hash.startswith(question.lower())
        return None if same else f"its hash is {stated.true_hash}, you ask for {question.lower()}"
    instance = getattr(question, "instance", question) if not isinstance(question, Instance) else question
    if not isinstance(getattr(instance, "question_hash", None), str):
        raise InputError(f"A question is an instance, a result or a hash, no {type(question).__name__}.")
    if instance.question_hash == stated.true_hash:
        return None
    if instance.question_words != stated.question_words:
        return f"it is {stated.question_words}; you ask for {instance.question_words}"
    return f"nodes, edges or constraints differ: its hash is {stated.true_hash}, you ask for {instance.question_hash}"


def of_blocks(stated: Envelope, statements: Mapping[str, Any]) -> Compare:
    """For each keyword on partitions and fronts, a function: how the file differs from the user's value, or None."""
    instance: Instance = stated.instance
    platform = instance.platform

    def rules() -> str | None:
        constraints = rules_of(statements.get("constraints"), instance.graph)
        if "runtime" in statements:
            constraints += runtime_rules(statements["runtime"], instance.graph)
        if not instance.is_alike:  # devices that idle are no stages of a runtime
            constraints = replace(constraints, at_least=())
        others = replace(constraints, on=()).canonical(instance.k)
        same = others == instance.constraints.canonical(instance.k)
        if not same or (constraints.on and instance.is_alike):
            true, wanted = (rules_in_words(rules, instance.k) for rules in (instance.constraints, constraints))
            return f"it has {true}, you {f'ask for {wanted}' if constraints else 'state none'}"
        return _other_places(instance, constraints) if not instance.is_alike else None

    def memory() -> str | None:
        if instance.is_alike:
            return _size("memory", platform.memory, statements["memory"])
        return _other_memories(instance.machines, statements["memory"])

    def devices() -> str | None:
        devices = devices_asked(instance, statements, platform.bandwidth)
        if not instance.is_alike:
            return _other_devices(instance.machines, devices, platform.bandwidth, instance.time_unit)
        return _other_alike(instance, devices, devices.total if statements.get("k") is None else instance.k)

    return {
        "k": lambda: unlike("k", platform.k, _single(statements["k"])),
        "bandwidth": lambda: _rate(instance.graph, platform.bandwidth, statements["bandwidth"]),
        "memory": memory,
        "activation_buffer": lambda: _size(
            "activation_buffer", platform.activation_buffer, statements["activation_buffer"]
        ),
        "fit": lambda: unlike("fit", platform.fit, statements["fit"]),
        "constraints": rules,
        "runtime": rules,
        "devices": devices,
    }


def _other_memories(true: Machines, quantity: Quantity) -> str | None:
    """Message if no kind of devices has the stated memory, else None."""
    memory = parse_bytes(quantity, "memory")
    same = memory in (kind.memory for kind in true.kinds)
    return None if same else f"no kind of devices has a memory of {figures(memory, 'bytes')}, which you ask for"


def _other_places(instance: Instance, rules: Constraints) -> str | None:
    """Message on a node that may run on other kinds of devices than stated, None if there is none."""
    places = places_of_kinds(instance.graph, instance.machines, rules)
    for t, v in np.argwhere(places != instance.able)[:1].tolist():
        node, kind = f"node {v} ({instance.graph.names[v]})", instance.machines.kinds[t].name
        return (
            f"{node} can run on {kind}, you ask that it cannot"
            if instance.able[t, v]
            else f"{node} cannot run on {kind}"
        )
    return None


def devices_asked(
    instance: Instance | PlacementInstance, statements: Mapping[str, Any], rate: float, order: str = "free"
) -> Machines:
    """The stated devices, completed with the defaults of the question."""
    if statements.get("bandwidth") is not None:
        rate = bandwidth_of(instance.graph, statements["bandwidth"])
    limit = math.inf if statements.get("memory") is None else parse_bytes(statements["memory"], "memory")
    return devices_of(statements["devices"], rate, limit, order)


def _other_devices(true: Machines, asked: Machines, default: float, time_unit: str) -> str | None:
    """How the devices of a question differ from the stated devices, except works of nodes; None if they do not."""
    names, others = ([kind.name for kind in devices.kinds] for devices in (true, asked))
    in_order = names if true.is_fixed else [name for name in others if name in names]
    if true.order != asked.order:
        return f"its devices are in {true.order} order, you ask for {asked.order} order"
    if (
        set(names) != set(others)
        or others != in_order
        or any(true.counts[names.index(kind.name)] != kind.count for kind in asked.kinds)
    ):
        return f"its devices are {_counted(true)}, you ask for {_counted(asked)}"
    at = [names.index(name) for name in others]
    for t, kind in zip(at, asked.kinds, strict=True):
        true_kind = true.kinds[t]
        if true_kind.memory != kind.memory:
            return unlike(f"memory of {kind.name}", *_apart(true_kind.memory, kind.memory, "bytes"))
        rates = [default if rate is None else rate for rate in (true_kind.bandwidth, kind.bandwidth)]
        if rates[0] != rates[1]:
            return unlike(f"bandwidth of {kind.name}", *_apart(rates[0], rates[1], f"bytes/{time_unit}"))
    between, wanted = true.between, asked.between
    if between is None or wanted is None:
        same = between is None and wanted is None
    else:
        same = np.array_equal(between[np.ix_(at, at)], wanted)
    return None if same else "its rates between kinds are not those that you ask for"


def _other_alike(instance: Instance, devices: Machines, k: int) -> str | None:
    """How the equal devices of a question differ from k of the stated devices; None if they do not."""
    platform, (kind, *more) = instance.platform, devices.kinds
    if more or devices.is_fixed or instance.k != k or k > devices.total:
        return f"its devices are {instance.k} that are alike, you ask for {_counted(devices)}"
    rate = float(devices.between[0, 0]) if devices.between is not None else kind.bandwidth
    if rate is not None and rate != platform.bandwidth:
        return unlike("bandwidth", *_apart(platform.bandwidth, rate, f"bytes/{instance.graph.time_unit}"))
    if kind.memory == platform.memory:
        return None
    return unlike("memory", *_apart(platform.memory, kind.memory, "bytes"))


def _counted(devices: Machines) -> str:
    return ",".join(f"{kind.count}x{printable(kind.name)}" for kind in devices.kinds)


def unstated(instance: Instance, statements: Mapping[str, Any]) -> Iterator[str]:
    """Restrictions of a question, beyond graph and devices, that the caller did not state."""
    platform, rules = instance.platform, instance.constraints
    if "k" not in statements and platform.k != devices_asked(instance, statements, platform.bandwidth).total:
        yield f"k is {platform.k}"
    if "fit" not in statements and platform.fit:
        yield "fit is true"
    if "activation_buffer" not in statements and platform.activation_buffer is not None:
        yield f"activation buffer is {figures(platform.activation_buffer, 'bytes')}"
    if not {"runtime", "constraints"} & statements.keys():
        if rules:
            yield f"constraints are {rules_in_words(rules, platform.k)}"
        if not instance.is_alike:
            yield from filter(None, [_other_places(instance, rules)])


def of_placement(stated: Envelope, statements: Mapping[str, Any]) -> Compare:
    """For each keyword on placements, a function: how the file differs from the user's value, or None."""
    instance: PlacementInstance = stated.instance
    true = instance.machines

    def devices() -> str | None:
        devices = devices_asked(instance, statements, instance.bandwidth, "fixed").in_sequence
        fault = _other_devices(true, devices, instance.bandwidth, instance.time_unit)
        for true_kind, kind in zip(true.kinds, devices.kinds, strict=False):
            if fault is None and (true_kind.speed or 1.0, true_kind.roofline) != (kind.speed or 1.0, kind.roofline):
                fault = f"{kind.name} is not as fast as you ask for"
        return fault

    def rate() -> str | None:
        if "devices" in statements:  # it completes these
            return None
        return _rate(instance.graph, instance.bandwidth, statements["bandwidth"])

    return {
        "k": lambda: unlike("k", instance.devices, _single(statements["k"])),
        "bandwidth": rate,
        "memory": lambda: _other_memories(true, statements["memory"]),
        "devices": devices,
    }


def of_plan(stated: Envelope, statements: Mapping[str, Any]) -> Compare:
    """For each keyword on a plan of microbatches, a function: how the file differs from the user's value, or None."""
    instance: TrainingInstance = stated.instance

    def cluster() -> str | None:
        servers = "+".join(f"1x{size}" for size in instance.cluster.servers)
        cluster = load_cluster(statements.get("cluster", servers), statements.get("bandwidth"))
        if cluster.servers != instance.cluster.servers:
            return f"its cluster has servers of {instance.cluster.servers} devices, you ask for {cluster.servers}"
        same = np.array_equal(cluster.bandwidth, instance.cluster.bandwidth)
        return None if same else "the bandwidths of its cluster are not those that you ask for"

    return {
        "cluster": cluster,
        "bandwidth": cluster,
        "microbatches": lambda: unlike("microbatches", instance.microbatches, statements["microbatches"]),
        "memory": lambda: _size("memory", instance.memory, statements["memory"]),
        "dtype": lambda: unlike("dtype", instance.dtype, statements["dtype"]),
        "sequence": lambda: unlike("sequence", instance.sequence, statements["sequence"]),
    }


def of_grid(stated: Envelope, statements: Mapping[str, Any]) -> Compare:
    """For each keyword on plans for a global batch, a function: how the file differs from the user's value, or None."""
    instance: GridInstance = stated.instance
    chain, servers = instance.chains[0], instance.servers

    def cluster() -> str | None:
        asked, _ = servers_asked(instance, statements)
        if asked.name != servers.name:
            return unlike("cluster", servers.name, asked.name)
        for where, true, rate in (("within", servers.inner, asked.inner), ("between", servers.outer, asked.outer)):
            if true != rate:
                return unlike(f"bandwidth {where} servers", *_apart(true, rate, "bytes/s"))
        return None

    return {
        **dict.fromkeys(("cluster", "bandwidth", "nic"), cluster),
        "memory": lambda: _size("memory", instance.memory, statements["memory"]),
        "global_batch": lambda: unlike("global batch", instance.global_batch, statements["global_batch"]),
        "dtype": lambda: unlike("dtype", chain.dtype, statements["dtype"]),
        "sequence": lambda: unlike("sequence", chain.sequence, statements["sequence"]),
    }


def servers_asked(instance: GridInstance, words: Mapping[str, Any]) -> tuple[Servers, str | None]:
    """The stated servers and their device, as `cluster_of`; with the question's rates if only numbers are stated."""
    servers = instance.servers
    name, rates = words.get("cluster") or servers.name, words.get("bandwidth")
    if rates is None and re.fullmatch(r"\d{1,6}x\d{1,6}", str(name)):
        count, size = map(int, name.split("x"))
        return Servers(count, size, servers.inner, servers.outer), None
    return cluster_of(name, rates, words.get("nic") or "full")


def of_deployment(stated: Envelope, statements: Mapping[str, Any]) -> Compare:
    """For each keyword on deployments, a function: how the file differs from the user's value, or None."""
    question: DeploymentInstance = stated.instance

    def number(name: str, parse: Callable[[Any, str], float], unit: str) -> str | None:
        true, asked = getattr(question, name), parse(statements[name], name)
        return None if true == asked else unlike(name, *_apart(true, asked, unit))

    def servers() -> str | None:
        asked = servers_of(statements["servers"])
        labels = [",".join(printable(server.label) for server in kinds) for kinds in (question.servers, asked)]
        if labels[0] != labels[1]:
            return unlike("servers", *labels)
        for server, other in zip(question.servers, asked, strict=True):
            for name, true in vars(server).items():
                if true != getattr(other, name) and (name, other.price) != ("price", None):
                    return unlike(f"{name} of {printable(server.kind)}", true, getattr(other, name))
        return None

    def degrees() -> str | None:
        asked = degrees_of(statements["degrees"], question.model, question.servers, question.runtime)
        return unlike("degrees", *(",".join(map(str, degrees)) for degrees in (question.degrees, asked)))

    def price() -> str | None:
        asked = priced(question.servers, statements["price"])
        prices = [[server.price for server in kinds] for kinds in (question.servers, asked)]
        return unlike("price", *(",".join("none" if x is None else f"{x:g}" for x in row) for row in prices))

    plain = (*words_of(TrafficWords), "runtime")
    return {
        **{name: partial(lambda name: unlike(name, getattr(question, name), statements[name]), name) for name in plain},
        "input": lambda: unlike("input", question.input, _single(statements["input"], "input")),
        "between": lambda: number("between", lambda rate, name: parse_bandwidth(rate, word=name), "bytes/s"),
        **{name: partial(number, name, parse_seconds, "s") for name in ("tpot", "ttft")},
        "servers": servers,
        "degrees": degrees,
        "price": price,
    }


def unlike(name: str, true: Any, stated: Any) -> str | None:
    """The difference of a value from the stated one, in words; None if there is none."""
    return None if true == stated else f"{name.replace('_', ' ')} is {true}, you ask for {stated}"


def _rate(graph: ComputationGraph, true: float, rate: Quantity) -> str | None:
    bandwidth, unit = bandwidth_of(graph, rate), f"bytes/{graph.time_unit}"
    return None if bandwidth == true else unlike("bandwidth", *_apart(true, bandwidth, unit))


def _size(name: str, true: float | None, quantity: Quantity) -> str | None:
    size = parse_bytes(quantity, name)
    return None if size == true else unlike(name, *_apart(math.inf if true is None else true, size, "bytes"))


def _apart(true: float, stated: float, unit: str) -> tuple[str, str]:
    """Two numbers with their unit, with as many digits as tell them apart."""
    texts = tuple("unlimited" if x == math.inf else figures(x, unit) for x in (true, stated))
    return (texts[0], texts[1]) if texts[0] != texts[1] else (repr(true), repr(stated))


def _single(value: Blocks, name: str = "k") -> int:
    count, *more = counts_of(value) if name == "k" else parse_counts(str(value), name)
    if more:
        raise WordError(name, value, f"a file answers the question for one {name}; give that.")
    return count
