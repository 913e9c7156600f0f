"""Questions of flow in files ``mtpp-flow-question/1``, published clusters, and certificates, ``mtpp-flow/1``.

A question holds `name`, `layers`, `kinds`, a list of objects with `devices`, numbers or names, and
`capacity_by_layers`, requests per second by number of layers, and `links`, a list of rows with two ends and requests
per second; ends are devices, "source" or "sink". Published clusters have the same members, the format
``helix-instance``, and perhaps `published` intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from instances.certificates.claims import FLOW, Envelope, envelope
from instances.certificates.provenance import check_written, opened
from instances.errors import InputError
from instances.flow.problem import FlowInstance, rates_of, table_of
from instances.json_files import Value, read_json

__all__ = [
    "FLOW_CERTIFICATE",
    "FLOW_QUESTION",
    "FlowCertificate",
    "flow_from_document",
    "flow_question_document",
    "read_flow_question",
]

FLOW_QUESTION, PUBLISHED, FLOW_CERTIFICATE = "mtpp-flow-question/1", "helix-instance", "mtpp-flow/1"

_MEMBERS = ("name", "layers", "kinds", "links")


@dataclass(frozen=True, kw_only=True)
class FlowCertificate(Envelope):
    """Certificate of a flow as its file states it."""

    instance: FlowInstance
    interval: tuple[tuple[int, int], ...] | None  # of each device
    flow: float | None  # requests/s

    answer_name: ClassVar[str] = "placement of layers"
    cost_name: ClassVar[str] = "time"

    @property
    def label(self) -> str:
        """Name of the question, and its hash."""
        return f"{self.instance.label}, question {self.instance.key}"


def read_flow_question(path: str | Path) -> FlowInstance:
    """Read a question.

    Raises
    ------
    InputError
        If the file is none; the message names the place.
    """
    document = read_json(path)
    document.check_format(FLOW_QUESTION, PUBLISHED)
    return question_from_members(document, ("format",))


def question_from_members(document: Value, beside: tuple[str, ...] = ()) -> FlowInstance:
    """The question of an object; an `InputError` names the place of what is wrong."""
    fields = document.members((*beside, *_MEMBERS), ("source", "published"))
    layers = fields["layers"].whole()
    devices: list[str] = []
    kind: list[int] = []
    rows: list[dict[int, float]] = []
    for t, item in enumerate(fields["kinds"].items()):
        members = item.members(("devices", "capacity_by_layers"))
        for device in members["devices"].items():
            devices.append(_name(device))
            kind.append(t)
        rows.append(
            {
                _count(text, value): value.number()
                for text, value in members["capacity_by_layers"].open_members(()).items()
            }
        )
    for name in devices:
        if devices.count(name) > 1 or name in ("source", "sink"):
            fields["kinds"].fail(f"two devices are called {name}, or one is called as an end; give each its own name.")
    links = [_link(row) for row in fields["links"].items()]
    try:
        if not 1 <= layers <= 4096:
            raise InputError(f"There are {layers} layers; give 1 to 4096.")
        capacity, rates = table_of(layers, rows), rates_of(devices, links)
        published = _published(fields["published"], devices) if "published" in fields else {}
        return FlowInstance(
            fields["name"].text(),
            layers,
            tuple(devices),
            np.array(kind, dtype=np.int64),
            capacity,
            np.array(rates),
            published,
        )
    except InputError as error:
        document.fail(str(error))


def flow_question_document(instance: FlowInstance) -> dict[str, Any]:
    """Members of a question."""
    names = [*instance.devices, "source", "sink"]
    return {
        "name": instance.name,
        "layers": instance.layers,
        "kinds": [
            {
                "devices": [instance.devices[i] for i in np.flatnonzero(instance.kind == t).tolist()],
                "capacity_by_layers": {str(c): row[c] for c in range(len(row)) if row[c] > 0},
            }
            for t, row in enumerate(instance.capacity.tolist())
        ],
        "links": sorted(
            [names[u], names[v], instance.rates[u, v].item()] for u, v in np.argwhere(instance.rates > 0).tolist()
        ),
    }


def flow_from_document(document: Value) -> FlowCertificate:
    """The certificate of a file; an `InputError` if it is none."""
    document, stated_hash = opened(document, FLOW_CERTIFICATE)
    fields = document.members(("format", "instance", "intervals", "flow", "time", "bound", "ratio", "bounds"))
    interval = None
    instance = question_from_members(fields["instance"])
    if fields["intervals"].data is not None:
        members = fields["intervals"].members(instance.devices)
        rows = [members[name].whole_numbers() for name in instance.devices]
        if any(len(row) != 2 for row in rows):
            fields["intervals"].fail("expected two whole numbers a device.")
        interval = tuple((row[0], row[1]) for row in rows)
    if stated_hash is not None:
        check_written(fields["instance"], flow_question_document(instance))
    flow = fields["flow"].optional_number()
    return FlowCertificate(
        **envelope(fields, "time", FLOW, stated_hash), instance=instance, interval=interval, flow=flow
    )


def _name(value: Value) -> str:
    return str(value.whole()) if isinstance(value.data, int) and not isinstance(value.data, bool) else value.text()


def _count(text: str, value: Value) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9 and str(int(text)) == text):
        value.fail("its name is no number of layers.")
    return int(text)


def _link(row: Value) -> tuple[str, str, float]:
    items = row.items()
    if len(items) != 3:
        row.fail("expected two ends and a rate.")
    return _name(items[0]), _name(items[1]), items[2].number()


def _published(value: Value, devices: list[str]) -> dict[int, tuple[int, int]]:
    found = {}
    for name, row in value.open_members(("intervals",))["intervals"].open_members(()).items():
        ends = row.whole_numbers()
        if name not in devices or len(ends) != 2:
            row.fail("expected the two ends of the layers of a device.")
        found[devices.index(name)] = (ends[0], ends[1])
    return found
