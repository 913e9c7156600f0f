"""The problems."""

from __future__ import annotations

from mtpp.problems.problem import OF_SOLVERS, Format, Named, Problem, Problems

_RERUN, _COMPARE, _FILES = "mtpp.certificates.rerun", "mtpp.questions.verifying", "mtpp.questions.files"
_WRITING, _REPORT, _CHECK = "mtpp.certificates.writing", "mtpp.plots.report", "mtpp.verification"
_ALL = Named("mtpp.problems.problem:all_answers")


def _format(reader: str, verifier: str) -> Format:
    return Format(Named(f"{_FILES}:{reader}"), Named(f"{_CHECK}.{verifier}"))


#: All problems, in the order of the command line.
PROBLEMS = Problems(
    Problem(
        name="partition",
        article="a partition",
        question=Named("instances.partitioning.problem:Instance"),
        formats={
            "mtpp-certificate/1": _format("read_certificate", "partitioning.certificate:verify_partition"),
            "mtpp-kinds/1": _format("read_kinds", "partitioning.certificate:verify_partition"),
        },
        stated=(
            Named("instances.partitioning.stated:Certificate"),
            Named("instances.partitioning.stated_kinds:KindsCertificate"),
        ),
        document=Named(f"{_WRITING}:partition_certificate"),
        compare=Named(f"{_COMPARE}:compare_partition"),
        again={
            **dict.fromkeys(("bisection", "priced", "priced-quick"), Named(f"{_RERUN}:search_again")),
            "carried": Named(f"{_RERUN}:stay"),
            OF_SOLVERS: Named(f"{_RERUN}:solve_again"),
        },
        cut=Named(f"{_FILES}:cut_of_certificate"),
        settings=Named("instances.runtimes:writers"),
        covers=_ALL,
        facts=Named(f"{_REPORT}.partitions:partition_question"),
        sections=Named(f"{_REPORT}.partitions:partition_sections"),
        figure=Named("mtpp.plots.partitions:partition_figure"),
        explain=Named("mtpp.certifying.explain:explain_partition"),
    ),
    Problem(
        name="plan",
        article="a plan",
        question=Named("instances.planning.problem:TrainingInstance"),
        formats={
            "mtpp-plan/1": _format("read_plan", "planning.plan:verify_plan"),
            "mtpp-plan/2": _format("read_timeline", "planning.timeline:verify_timeline"),
        },
        stated=(Named("instances.planning.stated:StatedPlan"), Named("instances.planning.stated:StatedTimeline")),
        document=Named(f"{_WRITING}:plan_certificate"),
        compare=Named(f"{_COMPARE}:compare_plan"),
        again={
            "z-any-order": Named(f"{_RERUN}:plan_again"),
            **dict.fromkeys(("z-fixed", "z-split"), Named(f"{_RERUN}:covered_again")),
        },
        cut=Named(f"{_FILES}:cut_of_plan"),
        settings=Named("instances.runtimes:writers"),
        covers=Named("mtpp_models.planning.solve:covered"),
        facts=Named(f"{_REPORT}.plans:plan_question"),
        sections=Named(f"{_REPORT}.plans:plan_sections"),
        figure=Named("mtpp.plots.plans:plan_figure"),
        explain=Named("mtpp.certifying.explain:explain_plan"),
    ),
    Problem(
        name="train",
        article="a plan for a global batch",
        question=Named("instances.planning.grid.problem:GridInstance"),
        formats={"mtpp-plan/5": _format("read_grid", "planning.grid.plan:verify_grid")},
        stated=(Named("instances.planning.grid.stated:StatedGrid"),),
        document=Named(f"{_WRITING}:grid_certificate"),
        compare=Named(f"{_COMPARE}:compare_grid"),
        again={},
        cut=Named(f"{_FILES}:cut_of_grid"),
        settings=Named("instances.runtimes.training:writers"),
        covers=Named("mtpp_models.planning.grid:covered"),
        facts=Named(f"{_REPORT}.plans:grid_question"),
        sections=Named(f"{_REPORT}.plans:grid_sections"),
        figure=Named("mtpp.plots.plans:grid_figure"),
        explain=Named("mtpp.certifying.explain:explain_grid"),
    ),
    Problem(
        name="place",
        article="a placement",
        question=Named("instances.placement.problem:PlacementInstance"),
        formats={
            f"mtpp-placement/{number}": _format("read_placement", "placement.certificate:verify_placement")
            for number in (1, 2)
        },
        stated=(Named("instances.placement.problem:StatedPlacement"),),
        document=Named(f"{_WRITING}:placement_certificate"),
        compare=Named(f"{_COMPARE}:compare_placement"),
        again=dict.fromkeys(("place-exact", "place-cp"), Named(f"{_RERUN}:place_again")),
        cut=Named(f"{_FILES}:no_cut"),
        settings=Named("instances.runtimes:no_writers"),
        covers=_ALL,
        facts=Named(f"{_REPORT}.plans:placement_question"),
        sections=Named(f"{_REPORT}.plans:placement_sections"),
        figure=Named("mtpp.plots.partitions:placement_figure"),
        explain=Named("mtpp.certifying.explain:explain_placement"),
    ),
    Problem(
        name="flow",
        article="a flow",
        question=Named("instances.flow.problem:FlowInstance"),
        formats={"mtpp-flow/1": _format("read_flow", "flow:verify_flow")},
        stated=(Named("instances.flow.problem:FlowCertificate"),),
        document=Named(f"{_WRITING}:flow_certificate"),
        compare=Named(f"{_COMPARE}:compare_flow"),
        again={},
        cut=Named(f"{_FILES}:no_cut"),
        settings=Named("instances.runtimes:no_writers"),
        covers=_ALL,
        facts=Named(f"{_REPORT}.partitions:flow_question"),
        sections=Named(f"{_REPORT}.partitions:flow_sections"),
        figure=Named("mtpp.plots.plans:flow_figure"),
        explain=Named("mtpp.certifying.explain:explain_flow"),
    ),
    Problem(
        name="serve",
        article="a serving front",
        question=Named("instances.partitioning.serving:ServingInstance"),
        formats={"mtpp-serving/1": _format("read_front", "serving.front:verify_serving")},
        stated=(Named("instances.partitioning.stated_serving:StatedServing"),),
        document=Named(f"{_WRITING}:serving_certificate"),
        compare=Named(f"{_COMPARE}:compare_front"),
        again={},
        cut=Named(f"{_FILES}:cut_of_front"),
        settings=Named("instances.runtimes:writers"),
        covers=_ALL,
        facts=Named(f"{_REPORT}.partitions:front_question"),
        sections=Named(f"{_REPORT}.partitions:front_sections"),
        figure=Named("mtpp.plots.partitions:front_figure"),
        explain=Named("mtpp.certifying.explain:explain_front"),
    ),
)
