"""Deployments of decoders on servers: the part of `serve` with `servers`."""

from __future__ import annotations

from collections.abc import Callable

from instances import Result, combine
from instances.deadline import Stopwatch
from instances.serving.answer import Deployment
from instances.serving.problem import DeploymentInstance
from mtpp.certifying.loop import Method, ignore
from mtpp.certifying.methods import answered
from mtpp_models import Progress, SolveOptions
from mtpp_models.flow.deployments import deployed
from mtpp_models.solvers.interface import Controls

_TIGHT = "weights leave less than 15 % of the memory of a device; there, measured rates differ by up to 1.8 times"

#: Outcome of a search for a deployment, with its proof.
DeploymentResult = Result[DeploymentInstance, Deployment]


def deployment(
    question: DeploymentInstance, time_limit: float | None, on_progress: Callable[[Progress], None] = ignore
) -> DeploymentResult:
    """The best deployment by a time limit [s], and bounds; why there is none if there is none."""

    def search(best: DeploymentResult, controls: Controls) -> DeploymentResult:
        watch = Stopwatch()

        def tell(devices: str, rate: float) -> None:
            controls.report(Progress(f"chains on {devices}", 0.0, None, None, None))

        answer, bounds, reason = deployed(question, controls.deadline, tell)
        seconds = watch.seconds(solve=watch.passed)
        if answer is None:
            return Result("chains", question, seconds=seconds, impossible=reason)
        results = [Result(bound.method, question, answer, bound, seconds) for bound in bounds]
        return combine(*results) if results else Result("chains", question, answer, None, seconds)

    methods = [Method[DeploymentInstance, Deployment]("chains", search, timeless=True, once=True)]
    result = answered(question, methods, SolveOptions(time_limit=time_limit), on_progress)
    answer = result.answer
    is_tight = answer is not None and any(chain.is_tight for _, chain, _ in answer.pools)
    return result.noted(_TIGHT) if is_tight else result
