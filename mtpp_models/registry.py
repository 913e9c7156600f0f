"""All models of partitions by name, as used on the command line and in tables, and the bounds that need no solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from instances import InputError, Instance, Partition, Result
from instances.deadline import Deadline, Stopwatch
from instances.errors import OneKindError, Registry, find, unknown
from instances.results import PROOF_TOLERANCE
from mtpp_models.bounds.cuts import pigeonhole, pinned
from mtpp_models.bounds.ideals.ideals import ideals
from mtpp_models.bounds.levels import LEVELS, levels
from mtpp_models.bounds.priced.priced import priced
from mtpp_models.bounds.priced.quick import BISECTION, bisection, priced_quick
from mtpp_models.cuts.max_flow import MOST_PAIRED
from mtpp_models.formulations.formulation import Formulation
from mtpp_models.formulations.guess_bottleneck import GUESS_THE_BOTTLENECK, GUESS_THE_BOTTLENECK_TIGHT
from mtpp_models.formulations.strengthening import Strengthening
from mtpp_models.formulations.superblocks import (
    BOTTLENECK,
    BOTTLENECK_NO_CUT_IO,
    BOTTLENECK_NO_DAG,
    EXACT,
    SuperblockFormulation,
    coarse,
)
from mtpp_models.simple import as_answer, one_block, simple_bound
from mtpp_models.solvers.interface import Controls


@dataclass(frozen=True)
class Algorithm:
    """A method for lower bounds that calls no solver; users see its name, summary and reference."""

    name: str
    summary: str
    reference: str
    run: Callable[[Partition, Controls], Result]  # takes a start; the better that is, the faster it ends
    most_nodes: int | None = None  # for larger graphs, which would take too much memory, it returns the bound *simple*
    exact: bool = False  # whether the bound is the optimum when it runs to its end
    in_order: bool = False  # whether it counts all that is live as an order runs a block, not only the largest need
    literal: bool = False  # whether it takes a graph without reductions, and hard limits of memory, as exact ones do
    kinds: Literal["one", "any"] = "one"  # whether it works for a single kind of devices only
    is_bound: ClassVar[bool] = True

    def is_too_large(self, instance: Instance) -> bool:
        """Whether the graph has so many nodes that the method only returns the bound *simple*."""
        return self.most_nodes is not None and instance.graph.n > self.most_nodes

    def prove(self, instance: Instance, start: Partition | None, controls: Controls) -> Result:
        """The result of the algorithm for the instance, or for a relaxation of it if it ignores constraints.

        In a relaxation, the bound of an exact algorithm counts as optimal only if an answer to the instance reaches it.
        """
        watch, question = Stopwatch(), self._question(instance)
        if start is not None:
            begin = start.under(question)
        elif self.exact:  # the first blocks that windows allow
            begin = Partition(question, question.rules.first, kind=question.machines.sequence[: question.k])
        else:
            begin = one_block(instance)
        if self.is_too_large(instance):
            result = Result(self.name, begin.instance, begin, simple_bound(instance, optimal=False))
        else:
            result = self.run(begin, controls)
        if not isinstance(result, Result):
            raise InputError(f"{self.name} returned {type(result).__name__}, not a Result with its Bound.")
        answer = result.partition if start is not None or self.exact else None
        answer = None if answer is None else as_answer(instance, answer)
        if start is not None and (answer is None or start.bottleneck <= answer.bottleneck):
            answer = start
        bound = result.bound
        if bound is not None and self.exact and question is not instance:
            reached = answer is not None and bound.value >= answer.bottleneck * (1 - PROOF_TOLERANCE)
            bound = replace(bound, optimal=bound.optimal and reached)
        spent = watch.seconds(solve=watch.passed)
        return replace(result, instance=instance, answer=answer, bound=bound, seconds=spent)

    def _question(self, instance: Instance) -> Instance:
        """The instance that the algorithm solves: a relaxation of `instance`, which admits all of its partitions.

        It has no constraints and, unless the algorithm takes it, no hard limit of memory. Over kinds of devices, exact
        algorithms keep the constraints, and the others drop hard limits of memory themselves.
        """
        if instance.is_alike:
            return (
                instance.without_constraints()
                if self.exact or self.literal
                else instance.relaxed(modelled=not self.in_order)
            )
        return instance if self.exact else instance.without_constraints()


Model = Algorithm | Formulation


def _timed(
    prove: Callable[[Partition, Deadline | None], Result],
) -> Callable[[Partition, Controls], Result]:
    """Wrap a method that takes a deadline as one that takes `Controls`."""
    return lambda start, controls: prove(start, controls.deadline)


_ALGORITHMS = (
    Algorithm(
        "simple",
        "the larger of the heaviest node and the work per block",
        "MTPP, Lemma 4.2, eq. (13)",
        lambda start, _: Result("simple", start.instance, start, simple_bound(start.instance)),
        kinds="any",
    ),
    Algorithm(
        "pinned",
        "minimum cut around each node",
        "this project, mtpp_models/bounds/cuts.py",
        _timed(pinned),
        in_order=True,
        kinds="any",
    ),
    Algorithm(
        LEVELS,
        "what blocks can hold up to each node of a path, where memory is tight",
        "this project, mtpp_models/bounds/levels.py",
        _timed(levels),
        in_order=True,
        literal=True,
        kinds="any",
    ),
    Algorithm(
        "pigeonhole",
        "minimum cuts around pairs of nodes, two of which share a block",
        "this project, mtpp_models/bounds/cuts.py",
        _timed(pigeonhole),
        MOST_PAIRED,
        in_order=True,
    ),
    Algorithm(
        "ideals",
        "dynamic program over ideals, for narrow graphs",
        "this project, mtpp_models/bounds/ideals/ideals.py",
        _timed(ideals),
        exact=True,
        in_order=True,
        kinds="any",
    ),
)

_BISECTION = Algorithm(
    BISECTION,
    "cheapest cut into two halves; for two blocks, if nothing overflows, the optimum",
    "this project, mtpp_models/bounds/priced/quick.py",
    bisection,
    MOST_PAIRED,
)

_PRICED_QUICK = Algorithm(
    "priced-quick",
    "cheapest block that is worth its share of prices that are guessed",
    "this project, mtpp_models/bounds/priced/quick.py",
    priced_quick,
    MOST_PAIRED,
)

_PRICED = Algorithm(
    "priced",
    "cheapest block that is worth its share of the best prices of nodes",
    "this project, mtpp_models/bounds/priced/priced.py",
    priced,
    MOST_PAIRED,
    kinds="any",
)

#: Name to model, in order of effort.
MODELS: Registry[Model] = Registry(
    (
        *_ALGORITHMS,
        _BISECTION,
        _PRICED_QUICK,
        BOTTLENECK_NO_DAG,
        BOTTLENECK_NO_CUT_IO,
        BOTTLENECK,
        GUESS_THE_BOTTLENECK,
        GUESS_THE_BOTTLENECK_TIGHT,
        coarse(2),
        _PRICED,
        coarse(4),
        EXACT,
    ),
    "mtpp.models",
    member="prove",
)


def find_model(model: str | Model, parts: Strengthening | None = None) -> Model:
    """The model of a name such as "exact" or "exact+all"; a model is returned as it is.

    Parameters
    ----------
    parts : Strengthening, optional
        Further parts to add to the model.

    Raises
    ------
    InputError
        If the name is unknown, or the model cannot be strengthened.
    """
    if not isinstance(model, str) and not hasattr(model, "prove"):
        raise InputError(f"The model is given by its name, not by {type(model).__name__}.")
    if isinstance(model, str):
        name, plus, text = model.partition("+")
        model = find(MODELS, name, "model")
        if plus:
            model = _strengthened(model, Strengthening.of(text))
    return model if parts is None else _strengthened(model, parts)


def model_for(instance: Instance, model: str | Model, parts: Strengthening | None = None) -> Model:
    """The model that `find_model` returns, if it suits the devices of the question.

    Raises
    ------
    InputError
        As `find_model`, or if the model is for devices that are alike, and those of the question are not.
    """
    chosen = find_model(model, parts)
    if chosen.kinds == "one" and not instance.is_alike:
        if chosen.name.partition("+")[0] not in MODELS:
            remedy = 'make it with kinds="any", if it holds over several kinds'
            raise OneKindError(f"{chosen.name} is for devices that are all alike; {remedy}.")
        names = [name for name, candidate in MODELS.items() if candidate.kinds == "any"]
        raise InputError(unknown(names, chosen.name, "model for several kinds of devices"))
    return chosen


def _strengthened(model: Model, parts: Strengthening) -> Model:
    """The model with these strengthening parts; without parts it is the model as published."""
    if not any(vars(parts).values()):
        return model
    if not isinstance(model, SuperblockFormulation) or not model.is_bound:
        raise InputError(f"The model {model.name} cannot be strengthened; exact and coarse-J can.")
    return model.strengthened(parts)
