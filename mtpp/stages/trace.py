"""A measured run as a trace that Perfetto and ``chrome://tracing`` show."""

from __future__ import annotations

from typing import Any

from mtpp.stages.trial import Trial

__all__ = ["chrome_trace"]

_MICRO = 1e6


def chrome_trace(trial: Trial) -> dict[str, Any]:
    """Trace of all computations, in microseconds from the first one on; a process is a stage."""
    begin = float(trial.events[:, :, 0].min())
    events: list[dict[str, Any]] = []
    for number, (stage, rows) in enumerate(zip(trial.manifest.stages, trial.events.tolist(), strict=True)):
        name = f"stage {number}, block {stage.block}"
        events.append({"name": "process_name", "ph": "M", "pid": number, "tid": 0, "args": {"name": name}})
        for request, (start, end, processor) in enumerate(rows):
            events.append(
                {
                    "name": f"request {request}",
                    "cat": "computing",
                    "ph": "X",
                    "pid": number,
                    "tid": 0,
                    "ts": (start - begin) * _MICRO,
                    "dur": (end - start) * _MICRO,
                    "args": {"request": request, "processor_us": processor * _MICRO, "predicted_s": stage.time},
                }
            )
    return {"traceEvents": events, "displayTimeUnit": "ms"}
