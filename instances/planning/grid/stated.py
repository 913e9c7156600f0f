"""Questions and plans with degrees as files state them; nothing is checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from instances.certificates import PLANNING, Envelope, accepted, check_question, check_written, envelope, opened
from instances.errors import InputError
from instances.json_files import Value
from instances.planning.grid.configurations import (
    CHAIN,
    CONFIGURED_FORMAT,
    NONE,
    Configuration,
    ConfiguredChain,
    ConfiguredLayer,
)
from instances.planning.grid.problem import Fixed, GridInstance, Servers, StateBytes

# Questions of training in a grid and chains of configured layers, ``mtpp-chain/2``, from their JSON documents.


_QUESTION = (
    "chains",
    "servers",
    "global_batch",
    "memory",
    "state_bytes",
    "update_time",
    "zero",
    "modes",
    "fixed",
    "full_duplex",
)
_NUMBERS = tuple(field.name for field in fields(Configuration) if field.name not in ("tp", "cp", "ep", "recompute"))
_MOST_LAYERS = 10_000


def configured_from_document(document: Value) -> ConfiguredChain:
    """Build a chain from its JSON document.

    ``layers`` have a ``name``, a ``kind`` whose ``configurations`` stand in ``kinds``, or ``configurations`` of their
    own, and then may have ``forward_bytes``, which each device sends on unless a configuration says otherwise.

    Raises
    ------
    InputError
        If it is not a chain; the message names the place.
    """
    document.check_format(CONFIGURED_FORMAT)
    members = document.members(("format", "layers"), ("kinds", *CHAIN))
    kinds = (
        {kind: _ways(value, None) for kind, value in members["kinds"].open_members(()).items()}
        if "kinds" in members
        else {}
    )
    items = members["layers"].items()
    if len(items) > _MOST_LAYERS:
        members["layers"].fail(f"there are {len(items)} layers; give at most {_MOST_LAYERS}.")
    layers = []
    for number, item in enumerate(items):
        layer = item.members((), ("name", "kind", "configurations", "forward_bytes", "backward_bytes"))
        name = layer["name"].text() if "name" in layer else str(number)
        kind = layer["kind"].text() if "kind" in layer else f"layer {number}"
        if "configurations" in layer:
            ways = _ways(layer["configurations"], layer.get("forward_bytes"))
        elif kind in kinds:
            ways = kinds[kind]
        else:
            item.fail("it has neither configurations nor a kind that has some.")
        layers.append(_layer(item, name, kind, ways))
    facts = _facts(members)
    try:
        return ConfiguredChain(tuple(layers), **facts)
    except InputError as error:
        document.fail(str(error))


def _facts(members: dict[str, Value]) -> dict[str, Any]:
    """Members of a chain beside its layers, without those that are missing or null."""
    reads = {"micro_batch": Value.whole, "sequence": Value.whole, "flops": Value.number}
    stated = [name for name in CHAIN if name in members and members[name].data is not None]
    return {name: reads.get(name, Value.text)(members[name]) for name in stated}


def _ways(value: Value, sent: Value | None) -> tuple[Configuration, ...]:
    """Configurations of a layer; output bytes default to `sent`, parts of the backward pass to the forward time."""
    configurations = []
    for item in value.items():
        members = item.members(
            ("forward", "parameters", "stored_bytes"),
            ("tp", "cp", "ep", "recompute", *(name for name in _NUMBERS if name != "forward")),
        )
        values: dict[str, Any] = {name: members[name].whole() for name in ("tp", "cp", "ep") if name in members}
        values["recompute"] = members["recompute"].text() if "recompute" in members else NONE
        values |= {name: members[name].number() for name in _NUMBERS if name in members}
        values.setdefault("output_bytes", 0.0 if sent is None else sent.number())
        for name in ("input_backward", "weight_backward"):
            values.setdefault(name, values["forward"])
        try:
            configurations.append(Configuration(**values))
        except InputError as error:
            item.fail(str(error))
    return tuple(configurations)


def _layer(item: Value, name: str, kind: str, ways: tuple[Configuration, ...]) -> ConfiguredLayer:
    try:
        return ConfiguredLayer(name, kind, ways)
    except InputError as error:
        item.fail(str(error))


def question_from_document(document: Value) -> GridInstance:
    """Build a question from the member of a plan file.

    Raises
    ------
    InputError
        If it is none; the message names the place.
    """
    members = document.members(_QUESTION)
    memory = members["memory"].optional_number()
    servers = members["servers"].members(("count", "size", "inner", "outer", "reached"))
    state = members["state_bytes"].members(("weights", "gradients", "optimizer"))
    fixed = members["fixed"].members(("pp", "tp", "dp", "v"))
    try:
        return GridInstance(
            tuple(configured_from_document(chain) for chain in members["chains"].items()),
            Servers(
                servers["count"].whole(),
                servers["size"].whole(),
                servers["inner"].number(),
                servers["outer"].number(),
                servers["reached"].number(),
            ),
            members["global_batch"].whole(),
            memory=math.inf if memory is None else memory,
            state_bytes=StateBytes(**{name: value.number() for name, value in state.items()}),
            update_time=members["update_time"].number(),
            zero=tuple(members["zero"].whole_numbers()),
            modes=tuple(mode.text() for mode in members["modes"].items()),
            fixed=Fixed(**{name: None if value.data is None else value.whole() for name, value in fixed.items()}),
            full_duplex=members["full_duplex"].truth(),
        )
    except InputError as error:
        if str(error).startswith(document.file):
            raise
        document.fail(str(error))


# Plans in a grid as raw records: what a file states, nothing of it checked.


GRID_FORMAT = "mtpp-plan/5"
#: Numbers of each device that works.
RANK = ("rank", "server", "gpu", "stage", "tp", "cp", "dp")

_CERTIFIED = ("instance", "time", "bound", "ratio", "bounds")
_GRID = ("pp", "tp", "cp", "ep", "dp", "v")
_PLAN = ("grid", "micro_batch", "global_batch", "zero", "cuts", "modes", "ranks", "memory", "starts", "sent", "key")
_PROVENANCE = ("planner", "time_limit", "version", "seed")


@dataclass(frozen=True, kw_only=True)
class StatedGrid(Envelope):
    """A plan in a grid as a file states it; nothing is checked but kinds of values and the question."""

    answer_name: ClassVar[str] = "plan"
    cost_name: ClassVar[str] = "time"

    instance: GridInstance
    key: str
    groups: int
    tensor: tuple[int, ...]
    context: int
    expert: int
    pipelines: int
    turns: int
    micro_batch: int
    global_batch: int
    zero: int
    cuts: tuple[int, ...]
    modes: tuple[str, ...]
    ranks: tuple[tuple[int, ...], ...]  # of each device: rank, server, device there, stage, tp, cp, dp
    memory: tuple[tuple[float, ...], ...]
    starts: tuple[tuple[float, ...], ...]
    sent: tuple[tuple[float, ...], ...]

    @property
    def label(self) -> str:
        """Name of the question, and its hash."""
        return f"{self.instance.label}, question {self.instance.key[:12]}"


def grid_from_document(document: Value) -> StatedGrid:
    """Read a plan file.

    Raises
    ------
    InputError
        If it is none, or lacks its question; the message names the place.
    """
    document.check_format(*accepted(GRID_FORMAT))
    check_question(document, _CERTIFIED, "plan")
    document, stated_hash = opened(document, GRID_FORMAT)
    members = document.members(("format", *_PLAN, *_CERTIFIED), _PROVENANCE)
    grid = members["grid"].members(_GRID)
    question = question_from_document(members["instance"])
    if stated_hash is not None:
        check_written(members["instance"], question.document())
    return StatedGrid(
        **envelope(members, "time", PLANNING, stated_hash),
        instance=question,
        key=members["key"].text(),
        groups=grid["pp"].whole(),
        tensor=tuple(grid["tp"].whole_numbers()),
        context=grid["cp"].whole(),
        expert=grid["ep"].whole(),
        pipelines=grid["dp"].whole(),
        turns=grid["v"].whole(),
        micro_batch=members["micro_batch"].whole(),
        global_batch=members["global_batch"].whole(),
        zero=members["zero"].whole(),
        cuts=tuple(members["cuts"].whole_numbers()),
        modes=tuple(item.text() for item in members["modes"].items()),
        ranks=tuple(
            tuple(rank[name].whole() for name in RANK)
            for rank in (item.members(RANK) for item in members["ranks"].items())
        ),
        memory=_rows(members["memory"]),
        starts=_rows(members["starts"]),
        sent=_rows(members["sent"]),
    )


def _rows(value: Value) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row.numbers()) for row in value.items())
