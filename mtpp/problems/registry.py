"""Registry of the problems, with the classes and functions that belong to each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from typing import Any

from instances.json_files import Value

# Record of a problem: names of what it has of its own, which are imported when they are first used.


#: In place of a method: all that a solver is named for.
OF_SOLVERS = "solver"


@dataclass(frozen=True)
class Named:
    """Function or class by "module:name", such as "instances.flow.answer:FlowAnswer"; imported when called."""

    path: str

    def __post_init__(self) -> None:
        module, _, name = self.path.partition(":")
        if not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
            raise TypeError(f"{self.path!r} names nothing; give module:name.")

    def load(self) -> Any:
        """The function or class."""
        return _loaded(self.path)

    def __call__(self, *values: Any, **words: Any) -> Any:
        """Call it."""
        return self.load()(*values, **words)


def all_answers(method: str) -> str:
    """Text for bounds on all answers: empty."""
    return ""


@cache
def _loaded(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Record of a problem: all that distinguishes it from other problems.

    Raises
    ------
    TypeError
        If a member is missing, empty or of a wrong type.
    """

    name: str  # its verb, and its function in Python
    article: str  # an answer in messages, such as "a plan"
    question: Named  # class of its instances
    stated: tuple[Named, ...]  # classes of what its files state
    state: Named  # from an answer to the member `answer` of its file
    #: A result without an answer to the member `impossible` of its file; refuses one where there has to be an answer.
    without: Named = Named("mtpp.problems.checking:needs_answer")
    read: Named  # from the document of a file to a `Result`, with costs computed anew
    verify: Named  # from the document and `Limits` to a `Verdict`, with code of its own
    #: What a file states and `Statements` to what compares them, by word.
    compare: Named
    #: Method of a bound that is only trusted to what runs it again; `OF_SOLVERS` stands for all others with a solver.
    again: Mapping[str, Named] = field(default_factory=dict)
    #: A file to the cut that runtimes take, and what it states of all answers; refuses files without one.
    cut: Named = Named("mtpp.questions.files:no_cut")
    settings: Named = Named("instances.runtimes:no_writers")  # runtimes, by default all, to what writes a cut for each
    #: The method of a bound to the answers that it holds for, in words; empty for all.
    covers: Named = Named("mtpp.problems.registry:all_answers")
    facts: Named  # from an answer to its question, label to text, for a page
    sections: Named  # from an answer and its bound to the sections of a page
    figure: Named  # from an answer and its bound to a picture
    #: A result and `SolveOptions` to what is found out about it, and whether Ctrl-C ended that early.
    explain: Named

    def __post_init__(self) -> None:
        for member in fields(self):
            value = getattr(self, member.name)
            items = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else [value]
            if value in ("", ()) or not all(isinstance(item, str | Named) for item in items):
                raise TypeError(f"The problem {self.name!r} lacks {member.name}.")


class Problems:
    """All problems, found by name, by an instance, or by the record of a file.

    Raises
    ------
    TypeError
        If a name or a class of instances is registered twice.
    """

    def __init__(self, *problems: Problem) -> None:
        self._names = dict[str, Problem]()
        self._classes = dict[str, Problem]()
        for problem in problems:
            self.add(problem)

    def add(self, problem: Problem) -> None:
        """Register a problem."""
        classes = [problem.question.path, *(named.path for named in problem.stated)]
        for registered, names in ((self._names, [problem.name]), (self._classes, classes)):
            for name in names:
                if name in registered:
                    raise TypeError(f"{name} of the problem {problem.name!r} is registered twice.")
        self._names[problem.name] = problem
        self._classes |= dict.fromkeys(classes, problem)

    def remove(self, name: str) -> None:
        """Remove a problem."""
        gone = self._names.pop(name)
        self._classes = {path: problem for path, problem in self._classes.items() if problem is not gone}

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._names.values())

    def __getitem__(self, name: str) -> Problem:
        return self._names[name]

    def of(self, record: object) -> Problem:
        """The problem of an instance, or of the record of a file.

        Raises
        ------
        TypeError
            If the record belongs to no problem.
        """
        for kind in type(record).__mro__:
            problem = self._classes.get(f"{kind.__module__}:{kind.__qualname__}")
            if problem is not None:
                return problem
        raise TypeError(f"{type(record).__name__} is no question of {', '.join(self._names)}.")

    def named(self, value: Value) -> Problem:
        """The problem named in a file; an `InputError` if there is none."""
        return self._names[value.one_of(self._names)]


#: All problems, in the order of the command line.
PROBLEMS = Problems(
    Problem(
        name="partition",
        article="a partition",
        question=Named("instances.partitioning.problem:Instance"),
        stated=(Named("instances.partitioning.stated:Certificate"),),
        state=Named("instances.partitioning.partition_file:partition_document"),
        without=Named("mtpp.problems.checking:without_partition"),
        read=Named("mtpp.questions.files:read_certificate"),
        verify=Named("mtpp.verification.partitioning.certificate:verify_partition"),
        compare=Named("mtpp.questions.verifying:compare_partition"),
        again={
            **dict.fromkeys(("bisection", "priced", "priced-quick"), Named("mtpp.certifying.rerun:search_again")),
            "carried": Named("mtpp.certifying.rerun:stay"),
            OF_SOLVERS: Named("mtpp.certifying.rerun:solve_again"),
        },
        cut=Named("mtpp.questions.files:cut_of_certificate"),
        settings=Named("instances.runtimes:writers"),
        facts=Named("mtpp.plots.report.partitions:partition_question"),
        sections=Named("mtpp.plots.report.partitions:partition_sections"),
        figure=Named("mtpp.plots.partitions:partition_figure"),
        explain=Named("mtpp.certifying.explain:explain_partition"),
    ),
    Problem(
        name="plan",
        article="a plan",
        question=Named("instances.planning.problem:TrainingInstance"),
        stated=(Named("instances.planning.stated:StatedPlan"), Named("instances.planning.stated:StatedTimeline")),
        state=Named("mtpp.problems.checking:state_plan"),
        read=Named("mtpp.questions.files:read_plan"),
        verify=Named("mtpp.verification.planning.timeline:verify_any_plan"),
        compare=Named("mtpp.questions.verifying:compare_plan"),
        again={
            "z-any-order": Named("mtpp.certifying.rerun:plan_again"),
            **dict.fromkeys(("z-fixed", "z-split"), Named("mtpp.certifying.rerun:covered_again")),
        },
        cut=Named("mtpp.questions.files:cut_of_plan"),
        settings=Named("instances.runtimes:writers"),
        covers=Named("mtpp_models.planning.solve:covered"),
        facts=Named("mtpp.plots.report.plans:plan_question"),
        sections=Named("mtpp.plots.report.plans:plan_sections"),
        figure=Named("mtpp.plots.plans:plan_figure"),
        explain=Named("mtpp.certifying.explain:explain_plan"),
    ),
    Problem(
        name="train",
        article="a plan for a global batch",
        question=Named("instances.planning.grid.problem:GridInstance"),
        stated=(Named("instances.planning.stated:StatedGrid"),),
        state=Named("instances.planning.grid.plan:grid_document"),
        read=Named("mtpp.questions.files:read_grid"),
        verify=Named("mtpp.verification.planning.grid.plan:verify_grid"),
        compare=Named("mtpp.questions.verifying:compare_grid"),
        cut=Named("mtpp.questions.files:cut_of_grid"),
        settings=Named("instances.runtimes.training:writers"),
        covers=Named("mtpp_models.planning.grid:covered"),
        facts=Named("mtpp.plots.report.plans:grid_question"),
        sections=Named("mtpp.plots.report.plans:grid_sections"),
        figure=Named("mtpp.plots.plans:grid_figure"),
        explain=Named("mtpp.certifying.explain:explain_grid"),
    ),
    Problem(
        name="place",
        article="a placement",
        question=Named("instances.placement.problem:PlacementInstance"),
        stated=(Named("instances.placement.problem:StatedPlacement"),),
        state=Named("instances.placement.placement:placement_document"),
        read=Named("mtpp.questions.files:read_placement"),
        verify=Named("mtpp.verification.placement.certificate:verify_placement"),
        compare=Named("mtpp.questions.verifying:compare_placement"),
        again=dict.fromkeys(("place-exact", "place-cp"), Named("mtpp.certifying.rerun:place_again")),
        facts=Named("mtpp.plots.report.plans:placement_question"),
        sections=Named("mtpp.plots.report.plans:placement_sections"),
        figure=Named("mtpp.plots.partitions:placement_figure"),
        explain=Named("mtpp.certifying.explain:explain_placement"),
    ),
    Problem(
        name="flow",
        article="a flow",
        question=Named("instances.flow.problem:FlowInstance"),
        stated=(Named("instances.flow.problem:FlowCertificate"),),
        state=Named("mtpp.problems.checking:state_flow"),
        without=Named("mtpp.problems.checking:bounds_alone"),
        read=Named("mtpp.questions.files:read_flow"),
        verify=Named("mtpp.verification.flow.certificate:verify_flow"),
        compare=Named("mtpp.questions.verifying:compare_flow"),
        facts=Named("mtpp.plots.report.partitions:flow_question"),
        sections=Named("mtpp.plots.report.partitions:flow_sections"),
        figure=Named("mtpp.plots.plans:flow_figure"),
        explain=Named("mtpp.certifying.explain:explain_flow"),
    ),
    Problem(
        name="deploy",
        article="a deployment",
        question=Named("instances.serving.problem:DeploymentInstance"),
        stated=(Named("instances.serving.problem:StatedDeployment"),),
        state=Named("instances.serving.answer:deployment_document"),
        read=Named("mtpp.questions.files:read_deployment"),
        verify=Named("mtpp.verification.serving.deployment:verify_deployment"),
        compare=Named("mtpp.questions.verifying:compare_deployment"),
        cut=Named("mtpp.questions.files:cut_of_deployment"),
        settings=Named("instances.runtimes.serving:writers"),
        covers=Named("mtpp_models.flow.deployments:covered"),
        facts=Named("mtpp.plots.report.plans:deployment_question"),
        sections=Named("mtpp.plots.report.plans:deployment_sections"),
        figure=Named("mtpp.plots.plans:deployment_figure"),
        explain=Named("mtpp.certifying.explain:explain_deployment"),
    ),
    Problem(
        name="serve",
        article="a serving front",
        question=Named("instances.partitioning.serving:ServingInstance"),
        stated=(Named("instances.partitioning.stated:StatedServing"),),
        state=Named("instances.runtimes.serving_front:front_document"),
        read=Named("mtpp.questions.files:read_front"),
        verify=Named("mtpp.verification.serving.front:verify_serving"),
        compare=Named("mtpp.questions.verifying:compare_front"),
        cut=Named("mtpp.questions.files:cut_of_front"),
        settings=Named("instances.runtimes:writers"),
        facts=Named("mtpp.plots.report.partitions:front_question"),
        sections=Named("mtpp.plots.report.partitions:front_sections"),
        figure=Named("mtpp.plots.partitions:front_figure"),
        explain=Named("mtpp.certifying.explain:explain_front"),
    ),
)
