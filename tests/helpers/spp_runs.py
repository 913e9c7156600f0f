"""Runs of the study of pipelined training that are made up, and small questions of its kind."""

from __future__ import annotations

from experiments.studies.spp.jobs import (
    BOTH_SIDES,
    BOUND,
    CALIBRATION,
    GUARANTEES,
    SETTINGS,
    STAGES,
    TABLE,
    TITLES,
    Question,
    TrainingJob,
    jobs_of,
    training_frame,
)
from experiments.studies.spp.tables import claims
from heuristics.planning import PLANNERS
from instances.planning import Cluster, LayerChain, TrainingInstance
from instances.planning.chains import TRAINED_MODELS
from mtpp.runs.job import Run

TIMES = {
    "spp": 1.0,
    "improved": 0.9,
    "data-parallel": 1.5,
    "gpipe": 1.8,
    "pipedream": 1.3,
    "pipedream-hierarchical": 1.4,
    "pipedream-original": 1.7,
    "hetpipe": 2.0,
    "hetpipe-stage": 1.9,
}


def tiny(microbatches: int = 2, servers: tuple[int, ...] = (1, 1)) -> TrainingInstance:
    chain = LayerChain([1.0, 1.0], [2.0, 2.0], [4.0], [4.0], [6.0, 6.0], name="tiny")
    return TrainingInstance(chain, Cluster.of_servers(servers, 2.0, 1.0), microbatches)


def asked() -> list[Question]:
    """Two points of each figure and row of each table, on two clusters; each an instance of its own."""
    points = [(figure, label) for figure in (*TITLES, "11") for label in ("first", "second")]
    return [
        Question(figure, label, tiny(2 * n + copy + 2)) for n, (figure, label) in enumerate(points) for copy in (0, 1)
    ]


def made_up(everything: list[Question], times: dict[str, float] = TIMES, **changes: dict[str, float]) -> list[Run]:
    """Runs with given times, others in the figures and points of `changes`, as in ``figure_6_second``."""
    runs = []
    for question in everything:
        if question.figure == "11":
            job = TrainingJob(question.instance, STAGES)
            runs.append(job.record(1.0, workloads=[3.0, 2.0, 1.0], times=[3.0, 2.0, 2.5]))
            continue
        here = times | changes.get(f"figure_{question.figure}_{question.label}", {})
        for method in PLANNERS:
            job = TrainingJob(question.instance, method)
            utilisation = 0.5 if question.label == "first" else 0.8
            runs.append(job.record(1.0, time=here[method], utilisation=utilisation, stages=2))
        runs.append(TrainingJob(question.instance, BOUND).record(1.0, bound=0.8))
        kept = {name: [1.0, 2.0] for name in ("Lemma 1", "Lemma 2", "Theorem 1")}
        runs.append(TrainingJob(question.instance, GUARANTEES).record(1.0, guarantees=kept))
        runs.append(TrainingJob(question.instance, BOTH_SIDES).record(1.0, time=0.8))
        runs.append(TrainingJob(question.instance, CALIBRATION).record(1.0, settings={}, needs={}))
    return runs


def as_in_the_paper(**changes: float) -> tuple[list[Question], list[Run]]:
    """Questions and runs whose times are those of the paper, except for planners of `changes`, which take a factor."""
    everything, runs = [], []
    for testbed, models in TABLE.items():
        for model, seconds in models.items():
            everything.append(Question(f"III {testbed}", model, TRAINED_MODELS[model].instance(testbed)))
            times = {name: [(s or 9.0) * changes.get(name, 1.0)] * len(SETTINGS) for name, s in seconds.items()}
            needs = {name: 1e9 if s else 1e11 for name, s in seconds.items()}
            job = TrainingJob(everything[-1].instance, CALIBRATION)
            runs.append(job.record(1.0, settings=times, needs=needs))
    return everything, runs


def failures(everything: list[Question], method: str) -> list[Run]:
    jobs = [job for job in jobs_of(everything) if job.method == method]
    return [job.record(error="The process died while it worked on this run (killed)") for job in jobs]


def verdicts(**changes: dict[str, float]) -> dict[str, list[bool | None]]:
    """Of each source, whether its claims hold."""
    everything = asked()
    holds: dict[str, list[bool | None]] = {}
    for claim in claims(training_frame(everything, made_up(everything, **changes))):
        holds.setdefault(claim.source, []).append(claim.holds)
    return holds
