"""Layers of a network, and cuts between them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import TypeAlias

import numpy as np

from instances.errors import InputError, word
from instances.graph.graph import ComputationGraph
from instances.graph.tensors import IntArray
from instances.partitioning.constraints import Constraints
from instances.partitioning.partition import Partition
from instances.partitioning.serving import ServedPartition
from instances.planning.plan import Plan
from instances.serving.model import NO_TOKENS

# Numbered layers of a network, found by the names of its nodes: ``decoder.7``, ``/model/layers.7/attn/MatMul``.


_NUMBER = re.compile(r"(?:^|[./])(?P<stem>[A-Za-z_]\w*)\.(?P<number>[0-9]{1,6})(?=[./]|$)")
#: Characters allowed in a stem: it becomes part of programs and settings.
_PLAIN = re.compile(r"[\w./]+")
_FEWEST = 2


@dataclass(frozen=True, eq=False)
class LayerStack:
    """Numbered layers of a network, with the nodes before and after them.

    Parameters
    ----------
    stem : str
        Name of the layers before their number, such as ``decoder`` or ``model.layers``.
    layers : int
        Their number, L.
    unit : (n,) integers
        0 for a node before the layers, 1 to L for the node of a layer, L + 1 for a node after them. No edge goes to a
        smaller number, and each unit that has nodes reads from the one before it, so that it is in no earlier block.
    """

    stem: str
    layers: int
    unit: IntArray

    @classmethod
    def of(cls, graph: ComputationGraph) -> LayerStack:
        """The layers of a graph.

        Nodes without a number come before the layers if a layer reads from them, directly or not, and they read from
        none; after the layers if no layer reads from them; else they belong to the last layer that they read from.

        Raises
        ------
        InputError
            If its nodes have no numbered layers, those of several stacks, or layers that are not in a row.
        """
        stem, numbers = numbered(graph.names, graph.name, graph.work.tolist())
        unit = np.array([0 if number is None else number + 1 for number in numbers], dtype=np.int64)
        layers, named = int(unit.max()), unit > 0
        start, readers = graph.successors
        order = graph.topological_order.tolist()
        reaches = named.copy()
        for v in reversed(order):
            reaches[v] |= bool(reaches[readers[start[v] : start[v + 1]]].any())
        for v in order:
            if not named[v] and not reaches[v]:
                unit[v] = layers + 1
            below = readers[start[v] : start[v + 1]]
            for reader in below[~named[below]].tolist():
                unit[reader] = max(unit[reader], unit[v])
        return cls(stem, layers, _in_a_row(graph, unit))

    @classmethod
    def of_decoder(cls, graph: ComputationGraph) -> LayerStack:
        """The layers of a decoder, as `of`; networks that predict no tokens are refused."""
        if "labels" in graph.attributes:
            raise InputError(f"{graph.name}: {NO_TOKENS}.")
        return cls.of(graph)

    @property
    def unit_names(self) -> tuple[str, ...]:
        """The names of all units, by their numbers."""
        return ("before", *(f"{self.stem}.{i}" for i in range(self.layers)), "after")

    def members(self, unit: int) -> tuple[int, ...]:
        """The nodes of a unit."""
        return tuple(np.flatnonzero(self.unit == unit).tolist())

    def whole_units(self, front_with_first: bool, back_with_last: bool, every_block: str | None) -> Constraints:
        """The constraints that keep each unit in one block.

        Parameters
        ----------
        front_with_first, back_with_last : bool
            Whether what comes before the layers stays with the first one, and what comes after them with the last.
        every_block : {"layer", "unit"}, optional
            Whether every block needs a layer, or any unit; then the ends are in the first and in the last block.
        """
        units = {u: nodes for u in range(self.layers + 2) if (nodes := self.members(u))}
        needed = tuple(nodes[0] for u, nodes in units.items() if every_block == "unit" or 0 < u <= self.layers)
        if front_with_first:
            units[1] = units.pop(0, ()) + units[1]
        if back_with_last:
            units[self.layers] += units.pop(self.layers + 1, ())
        return Constraints(
            together=tuple(nodes for nodes in units.values() if len(nodes) > 1),
            at_least=() if every_block is None else ((1, needed),),
        )


def numbered(names: Sequence[str], network: str, work: Sequence[float]) -> tuple[str, list[int | None]]:
    """The common stem of the layers' names, and the layer number of each name, None outside the layers.

    If there are several stacks of layers, as in an encoder and a decoder, the one with more than half of the work
    counts, and the layers of others are none.

    Raises
    ------
    InputError
        If there are fewer than two layers, several stacks without such a one, or numbers are missing.

    Examples
    --------
    >>> numbered(["embed", "model.layers.0.mlp", "model.layers.1.mlp", "head"], "tiny", [1, 1, 1, 1])
    ('model.layers', [None, 0, 1, None])
    """
    matches = [_NUMBER.search(name) for name in names]
    stems = [_stem(name, match) for name, match in zip(names, matches, strict=True)]
    numbers: dict[str, set[int]] = {}
    for stem, match in zip(stems, matches, strict=True):
        if stem is not None and match is not None:
            numbers.setdefault(stem, set()).add(int(match["number"]))
    stacks = {stem: layers for stem, layers in numbers.items() if len(layers) >= _FEWEST}
    if not stacks:
        raise InputError(
            f"{network}: its names tell of no layers, such as decoder.0 and decoder.1; give a graph whose nodes are "
            "called after their layers."
        )
    loads = {
        stack: sum(node_work for node_work, other in zip(work, stems, strict=True) if other == stack)
        for stack in stacks
    }
    stem = max(stacks, key=lambda stack: loads[stack])
    layers = stacks[stem]
    if len(stacks) > 1 and 2 * loads[stem] <= sum(work):
        examples = ", ".join(map(_plain, list(stacks)[:3])) + (", …" if len(stacks) > 3 else "")
        raise InputError(
            f"{network} has {len(stacks)} stacks of layers ({examples}), none of them with half of the work; runtimes "
            "number the layers of one."
        )
    if layers != set(range(len(layers))):
        missing = min(set(range(len(layers))) - layers)
        raise InputError(
            f"{network}: there is a layer {_plain(stem)}.{max(layers)}, but none {_plain(stem)}.{missing}."
        )
    return _plain(stem), [
        int(match["number"]) if match is not None and candidate == stem else None
        for candidate, match in zip(stems, matches, strict=True)
    ]


def _stem(name: str, match: re.Match[str] | None) -> str | None:
    """The path before the layer number in a name; None without a number or a path."""
    stem = None if match is None else name[: match.end("stem")]
    return stem if stem is not None and _PLAIN.fullmatch(stem) else None


def _plain(stem: str) -> str:
    """The path of a module as PyTorch writes it, with dots."""
    return stem.strip("/").replace("/", ".")


def _in_a_row(graph: ComputationGraph, unit: IntArray) -> IntArray:
    """(n,) `unit` itself, if each layer reads from the layer before it and none from a later one; else refused."""
    ends = unit[graph.edges]
    for e in np.flatnonzero(ends[:, 0] > ends[:, 1])[:1]:
        u, v = graph.edges[e].tolist()
        raise InputError(
            f"{graph.name}: its layers are not in a row, as {graph.names[v]} of an earlier layer reads from "
            f"{graph.names[u]}."
        )
    units = np.unique(unit)
    linked = {tuple(pair) for pair in np.unique(ends, axis=0).tolist()}
    for before, after in zip(units[:-1].tolist(), units[1:].tolist(), strict=True):
        if (before, after) not in linked:
            name = graph.names[int(np.flatnonzero(unit == after)[0])]
            raise InputError(f"{graph.name}: its layers are not in a row, as {name} reads nothing of the layer before.")
    return unit


# Modules of a network by their paths: those before the layers, the layers, and those after them.
#
# The names of nodes of programs are paths of modules, as ``transformer.h.7.mlp.mm``. Built-in networks have names of
# their own, so that a library that runs them has a table; of others nothing is guessed.


_BUILT_IN = "parametric architecture"
_TRANSFORMERS = "transformers"
#: Of its graphs a node without a path is code of the whole network.
_PROGRAM = "torch.export"
_OWN_STEMS = ("decoder", "encoder")
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")


@dataclass(frozen=True)
class ModuleNames:
    """Paths of modules, without a dot at the end."""

    before: tuple[str, ...]  # in the order in which they run
    stem: str  # of the layers, before their number
    after: tuple[str, ...]

    def layer(self, number: int) -> str:
        """Path of a layer."""
        return f"{self.stem}.{number}"


_LLAMA = ModuleNames(("model.embed_tokens",), "model.layers", ("model.norm", "lm_head"))

#: Built-in network, by how its name begins, to its modules in Hugging Face transformers: with a head, BERT without.
TRANSFORMERS: Mapping[str, ModuleNames] = {
    "bert-": ModuleNames(("embeddings",), "encoder.layer", ("pooler",)),
    "gpt2": ModuleNames(("transformer.wte", "transformer.wpe"), "transformer.h", ("transformer.ln_f", "lm_head")),
    "llama-": _LLAMA,
    "mixtral-": _LLAMA,
}


@dataclass(frozen=True)
class Naming:
    """The names of modules that a network states.

    Parameters
    ----------
    network, stem : str
        Name of the network, and of its layers before their number.
    built_in : bool
        Whether nodes have names of this project, not of a library; then `before` and `after` are names in transformers.
    before, after : tuple of str, optional
        Modules outside of the layers; None if they are not known.
    units : mapping of str to tuple of int
        Modules and single weights outside of the layers' modules, with the units of the nodes that read them.
    """

    network: str
    stem: str
    built_in: bool
    before: tuple[str, ...] | None = None
    after: tuple[str, ...] | None = None
    units: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of_graph(cls, graph: ComputationGraph, stack: LayerStack) -> Naming:
        """The names in a graph; every node with parameters must lie in a module, or the graph states none."""
        if graph.source.startswith(_BUILT_IN):
            return cls(graph.name, stack.stem, True, *_configured(graph, stack.stem))
        holds = graph.param_bytes > 0
        for parameter in graph.parameters:
            holds[list(parameter.users)] = True
        if not holds.any():
            holds = np.ones(graph.n, dtype=bool)
        last = stack.layers + 1
        units: dict[str, dict[int, None]] = {}
        for v in graph.topological_order.tolist():
            path, unit = graph.names[v].strip("/").replace("/", "."), int(stack.unit[v])
            module = path.rpartition(".")[0] or path
            inside = f"{path}.".startswith(f"{stack.stem}.{unit - 1}.")
            root = module == path and (graph.source.startswith(_PROGRAM) or unit not in (0, last))
            if holds[v] and not inside and not root:
                units.setdefault(module, {})[unit] = None
        place = dict(zip(graph.names, stack.unit.tolist(), strict=True))
        stated = graph.attributes.get("weights_elsewhere")
        alone = stated.items() if isinstance(stated, dict) else ()
        by_name: dict[str, tuple[int, ...]] = {name: (place.get(str(reader), 0),) for name, reader in alone}
        by_name |= {name: tuple(numbers) for name, numbers in units.items()}
        before, after = (tuple(module for module, numbers in units.items() if end in numbers) for end in (0, last))
        return cls(graph.name, stack.stem, False, before, after, by_name)

    @classmethod
    def of_chain(cls, network: str, stem: str) -> Naming:
        """The names in a chain, which states those of its layers alone."""
        return cls(network, stem, built_in=stem in _OWN_STEMS)

    def tells(self, library: str) -> bool:
        """Whether the network states the names that its modules have in a library."""
        return not self.built_in or (library == _TRANSFORMERS and self.before is not None)

    def modules(self, builtin: Mapping[str, ModuleNames], library: str, *, ends: bool = False) -> ModuleNames:
        """The names of the modules in a library.

        Parameters
        ----------
        builtin : mapping of str to ModuleNames
            Module names of built-in networks, by the beginnings of the networks' names.
        library : str
            For messages.
        ends : bool
            Whether the modules before and after the layers have to be known, too.

        Raises
        ------
        InputError
            If the names are not known, or are no paths.
        """
        if not self.tells(library):
            match = next((names for start, names in builtin.items() if self.network.startswith(start)), None)
            if match is None:
                raise InputError(
                    f"{self.network}: nothing tells the names of its modules in {library}; give the model itself, as a "
                    "program of torch.export or an ONNX file with the paths of its modules."
                )
            return match
        if ends and self.before is None:
            raise InputError(
                f"{self.network}: a plan tells of its layers alone, not of the modules before and after them; export a "
                "partition of its graph."
            )
        for module in (*(self.before or ()), self.stem, *(self.after or ()), *self.units):
            if not _PATH.fullmatch(module):
                raise InputError(
                    f"{self.network}: {module} is no path of a module; give a graph whose nodes have such."
                )
        return ModuleNames(self.before or (), self.stem, self.after or ())


def _configured(graph: ComputationGraph, stem: str) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Modules before and after the layers, from the configuration; (None, None) for other graphs."""
    stated = graph.attributes.get("modules")
    if not isinstance(stated, dict) or stated.get("layers") != stem:
        return None, None
    before, after = stated.get("before"), stated.get("after")
    if not isinstance(before, list) or not isinstance(after, list):
        return None, None
    return tuple(map(str, before)), tuple(map(str, after))


# Cuts between layers, in the form of runtimes: the number of layers of each stage, and the stages of both ends.


#: What runtimes have words for.
Cut: TypeAlias = Partition | Plan | ServedPartition
#: Name of a kind whose device is on another host, reached there.
_ADDRESS = re.compile(r"[A-Za-z0-9][\w.-]*:[0-9]{1,5}")
_RANGE = " … "
_REMEDY_OF_PLANS = "plan a graph of whole layers, such as one of the level layer."


@dataclass(frozen=True, kw_only=True)
class LayerCut:
    """Stages of consecutive layers."""

    network: str
    stem: str  # name of layers before their number
    k: int  # number of stages
    unit_stage: tuple[
        int, ...
    ]  # (L + 2,) stage of what comes before the layers, of each layer, and of what comes after
    ranks: tuple[int, ...]  # (k,) the device that runs each stage, or the group of replicas
    naming: Naming  # what its modules are called
    replicas: int = 1  # devices that run each stage, each a part of the batch
    microbatches: int | None = None  # of an iteration; None for a partition
    context: int | None = None  # tokens that a sequence may have; None if nothing tells
    batch: int | None = None  # sequences that pass a stage together; None where no memory was kept for their caches
    in_flight: int | None = None  # batches whose caches each stage has room for
    addresses: tuple[str | None, ...] = ()  # (k,) of the host of each stage's device, None for this one; none if alike

    @property
    def layers(self) -> int:
        """Number of layers, L."""
        return len(self.unit_stage) - 2

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """(k,) number of layers of each stage."""
        return tuple(np.bincount(self.unit_stage[1:-1], minlength=self.k).tolist())

    @property
    def first(self) -> int:
        """Stage of the nodes before the layers, such as the embeddings."""
        return self.unit_stage[0]

    @property
    def last(self) -> int:
        """Stage of the nodes after the layers, such as the head."""
        return self.unit_stage[-1]

    @property
    def devices(self) -> int:
        """Number of devices, each replica counted once."""
        return len(set(self.ranks))

    def members(self, stage: int) -> list[int]:
        """The layers of a stage."""
        return [layer for layer, assigned in enumerate(self.unit_stage[1:-1]) if assigned == stage]

    @classmethod
    def of(cls, answer: Cut) -> LayerCut:
        """The cut of a partition, a plan or a serving front.

        Raises
        ------
        InputError
            If a layer is cut, or there are no layers in a row; the message names it.
        """
        if isinstance(answer, ServedPartition):
            return _of_served(answer)
        return _of_partition(answer) if isinstance(answer, Partition) else _of_plan(answer)


def _of_served(point: ServedPartition) -> LayerCut:
    """The cut of a serving front, with the number of sequences and the context for which it has room."""
    cut, question = _of_partition(point.partition), point.question
    if question.in_flight is None:
        return cut
    context = None if math.isinf(point.usable_context) else int(point.usable_context)
    return replace(cut, context=context, batch=question.batch, in_flight=question.in_flight)


def layers_in_words(partition: Partition) -> str:
    """Numbers of layers, such as ``8,9``; over several kinds with their names: ``A100:8,L4:3*2``."""
    counts = LayerCut.of(partition).counts
    if partition.instance.is_alike:
        return ",".join(map(str, counts))
    used = [name for name in partition.kinds_by_name if name is not None]
    stages = [(f"{name}:{count}", len(list(same))) for (name, count), same in groupby(zip(used, counts, strict=True))]
    return ",".join(f"{stage}*{times}" if times > 1 else stage for stage, times in stages)


def _of_partition(partition: Partition) -> LayerCut:
    graph, block, ranks = partition.instance.graph, partition.block, range(partition.instance.k)
    addresses: tuple[str | None, ...] = ()
    if not partition.instance.is_alike:  # an idle device has no stage
        used, block = np.unique(block, return_inverse=True)
        ranks = partition.device[used].tolist()
        names = [name for name in partition.kinds_by_name if name is not None]
        addresses = tuple(name if _ADDRESS.fullmatch(name) else None for name in names)
    stack = LayerStack.of(graph)
    stages: list[int | None] = []
    for unit in range(stack.layers + 2):
        blocks = np.unique(block[list(stack.members(unit))]).tolist()
        if len(blocks) > 1:
            remedy = f"partition or certify it with {word('runtime')} and its name."
            raise InputError(f"{_cut_through(graph.name, stack.stem, stack.layers, unit, blocks)}; {remedy}")
        stages.append(blocks[0] if blocks else None)
    naming = Naming.of_graph(graph, stack)
    dims = graph.attributes.get("dims")
    sizes = dims if isinstance(dims, dict) else {}
    context = next((sizes[name] for name in ("context", "sequence") if type(sizes.get(name)) is int), None)
    return LayerCut(
        network=graph.name,
        stem=stack.stem,
        k=len(ranks),
        unit_stage=_filled(stages),
        ranks=tuple(ranks),
        naming=naming,
        context=context,
        addresses=addresses,
    )


def _of_plan(plan: Plan) -> LayerCut:
    chain = plan.instance.chain
    ends = [name.split(_RANGE) for name in chain.names]
    stem, numbers = numbered([*(e[0] for e in ends), *(e[-1] for e in ends)], chain.name, 2 * chain.forward.tolist())
    layers = 1 + max(number for number in numbers if number is not None)
    begin, end = _units(numbers, layers)
    stages: list[int | None] = [None] * (layers + 2)
    for n in range(plan.n_stages):
        first, final = begin[plan.cuts[n]], end[plan.cuts[n + 1] - 1]
        if stages[first] is not None:
            raise InputError(f"{_cut_through(chain.name, stem, layers, first, [n - 1, n])}; {_REMEDY_OF_PLANS}")
        stages[first : final + 1] = [n] * (final + 1 - first)
    sizes = set(plan.replicas.tolist())
    if len(sizes) > 1:
        raise InputError(
            f"{chain.name}: stages run on {min(sizes)} to {max(sizes)} devices; runtimes replicate all stages alike. "
            "Plan with as many devices as stages, or equal replicas."
        )
    ranks = tuple(plan.groups.index(group) for group in plan.devices)
    return LayerCut(
        network=chain.name,
        stem=stem,
        k=plan.n_stages,
        unit_stage=_filled(stages),
        ranks=ranks,
        naming=Naming.of_chain(chain.name, stem),
        replicas=sizes.pop(),
        microbatches=plan.instance.microbatches,
    )


def _units(numbers: list[int | None], layers: int) -> tuple[list[int], list[int]]:
    """For each layer of a chain, the units of its first and of its last node.

    `numbers` lists the layer numbers of all first nodes, then of all last ones. A node without a number is before the
    layers, after them, or part of the layer before it.
    """
    half, seen = len(numbers) // 2, 0
    begin: list[int] = []
    end: list[int] = []
    for first, final in zip(numbers[:half], numbers[half:], strict=True):
        for number, units in ((first, begin), (final, end)):
            seen = seen if number is None else max(seen, number + 1)
            units.append(layers + 1 if number is None and seen == layers else seen)
    return begin, end


def _filled(stages: list[int | None]) -> tuple[int, ...]:
    """(units,) stage of each unit (front, layers, back); an empty front or back is in the stage beside it."""
    first, last = stages[0], stages[-1]
    inner = [stage for stage in stages[1:-1] if stage is not None]
    return (inner[0] if first is None else first, *inner, inner[-1] if last is None else last)


def _cut_through(network: str, stem: str, layers: int, unit: int, stages: list[int]) -> str:
    name = "before the layers" if unit == 0 else "after the layers" if unit > layers else f"in {stem}.{unit - 1}"
    return (
        f"{network}: what is {name} lies in stages {stages[0]} to {stages[-1]}, and runtimes cut between layers alone"
    )
