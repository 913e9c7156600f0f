"""Pictures of deployments."""

from __future__ import annotations

from matplotlib.figure import Figure

from instances.graph.display import figures
from instances.results import Bound
from instances.serving.answer import Deployment
from mtpp.plots.report.plans import memory_chart, time_chart
from mtpp.plots.sections import Section
from mtpp.plots.style import chart_height, draw
from mtpp.text.tables import drawn


def deployment_figure(answer: Deployment, bound: Bound | None = None) -> Figure:
    """Times of the stages, above what fills their devices."""
    height = chart_height(sum(len(chain.chain.stages) for _, chain, _ in answer.pools))
    figure = Figure(figsize=(11, 2 * height), layout="constrained")
    above, below = figure.subplots(2, 1)
    limit = ""
    if bound is not None and answer.instance.objective != "cost":
        limit = f", at most {figures(1 / bound.value, 'tokens/s')}"
    title = f"{drawn(answer.instance.label)}: {figures(answer.rate, 'tokens/s')}{limit}"
    draw(Section("", chart=time_chart(answer)), above).set_title(title, loc="left")
    draw(Section("", chart=memory_chart(answer)), below)
    return figure
