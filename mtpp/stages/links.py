"""Measurement of the time to pass bytes from one process to another on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mtpp.stages.records import Received, Sent, TensorRecord
from mtpp.stages.runner import Pipeline, StageJob

__all__ = ["LinkSpeed", "measure_link"]

# Bytes of the messages; from the second on they count for the rate.
_SIZES = (64, 2**18, 2**20, 2**22, 2**24)
_MESSAGES = 40


@dataclass(frozen=True)
class LinkSpeed:
    """A link between two processes.

    Parameters
    ----------
    sizes : sequence of int
        Of the messages that were sent [bytes].
    send, receive : sequences of float
        Median processor time to write a message of each size, and to read it [s].
    latency : float
        Median time from the end of writing a small message to the beginning of reading it [s].
    """

    sizes: Sequence[int]
    send: Sequence[float]
    receive: Sequence[float]
    latency: float

    @property
    def bandwidth(self) -> float:
        """Bytes per second of the slower side, the median over the larger messages."""
        slower = [max(pair) for pair in zip(self.send, self.receive, strict=True)]
        rates = [size / max(time, 1e-9) for size, time in zip(self.sizes[1:], slower[1:], strict=True)]
        return float(np.median(rates))

    def document(self) -> dict[str, Any]:
        """Convert to a JSON object."""
        return {
            "bandwidth": self.bandwidth,
            "latency": self.latency,
            "messages": [
                {"bytes": size, "send": send, "receive": receive}
                for size, send, receive in zip(self.sizes, self.send, self.receive, strict=True)
            ],
        }


def measure_link(timeout: float = 60.0) -> LinkSpeed:
    """Send messages of several sizes from one process to another, each on a core of its own if there are two.

    Processor time counts, so that what else runs here does not; a message is written once and read once.

    Raises
    ------
    StageError
        If a process dies or hangs.
    """
    send, receive, latency = [], [], 0.0
    for size in _SIZES:
        message = TensorRecord("message", "uint8", (size,))
        jobs = [
            StageJob("the sender", (), (Sent(message, (1,)),)),
            StageJob("the receiver", (Received(message, 0),), ()),
        ]
        with Pipeline(jobs, requests=_MESSAGES, timeout=timeout) as pipeline:
            pipeline.start()
            pipeline.run(_MESSAGES)
            events = pipeline.run(_MESSAGES)
        if size == _SIZES[0]:
            latency = float(np.median(np.maximum(events[1, :, 0] - events[0, :, 1], 0.0)))
        send.append(float(np.median(events[0, :, 2])))
        receive.append(float(np.median(events[1, :, 2])))
    return LinkSpeed(_SIZES, send, receive, latency)
