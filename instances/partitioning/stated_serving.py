"""Serving fronts as files state them, and their questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from instances.certificates import SERVE, Envelope, envelope, opened, stated_answer
from instances.errors import InputError
from instances.graph.questions import digest_of, hash_of, nameless
from instances.graph.tensors import FloatArray, IntArray
from instances.json_files import Value
from instances.partitioning.problem import GraphMember, Instance
from instances.records import By, Floats, Ints, Limit, Named, read, written

# Questions of serving as members of files, and in a few words.


@dataclass(frozen=True, eq=False)
class ServedDecoder:
    """The operators of a decoder, the node of the chain that each belongs to, and the runtime that has to take cuts."""

    operators: GraphMember
    layer: Annotated[IntArray, Ints("operators")]  # node of the chain
    runtime: str
    # Bytes of the states of each node of the chain that do not grow with the context, of one batch.
    constant: Annotated[FloatArray, Floats("n")]
    # Their work on each kind of device; None where all are alike.
    works: Annotated[FloatArray, Floats("T", "operators")] | None = None


@dataclass(frozen=True, eq=False)
class ServingQuestion:
    """Question of serving, checked or as a file states it."""

    # The chain, the devices and the constraints.
    instance: Annotated[Instance, Named("chain"), By(Instance.of_document, Instance.document)]
    # Bytes of the cache of each node for one more token of each sequence of a batch.
    token_bytes: Annotated[FloatArray, Floats("n")]
    # Tokens after which the cache of a node does not grow any more.
    window: Annotated[FloatArray, Floats("n")]
    context: int  # tokens of each sequence
    batch: int  # sequences that pass a stage together
    # What the chain was made of; None in questions of one's own.
    source: Annotated[ServedDecoder | None, Named("decoder")] = None
    # Batches in flight, whose caches are all held; None in older files, whose speed counts as many as it needs, and
    # whose context the caches of one.
    in_flight: int | None = None

    problem: ClassVar[str] = "serve"

    def __post_init__(self) -> None:
        if self.in_flight is not None and not 1 <= self.in_flight <= self.instance.k:
            raise InputError(f"in_flight is {self.in_flight}; give 1 to {self.instance.k}, a batch for each stage.")

    @property
    def waits(self) -> bool:
        """Whether there are fewer batches in flight than stages, so that a stage may wait for the next one."""
        return self.in_flight is not None and self.in_flight < self.instance.k

    def document(self) -> dict[str, Any]:
        """The question as the member `question` of a file."""
        return written(self, ServingQuestion)

    @classmethod
    def of_document(cls, value: Value) -> ServingQuestion:
        """The question of such a member; an `InputError` names the place of what is wrong."""
        question = read(value, ServingQuestion)
        with value.refusing():
            _check(question)
        return question

    @property
    def caveats(self) -> tuple[str, ...]:
        """Sentences that belong beside each answer: none."""
        return ()

    @property
    def true_hash(self) -> str:
        """SHA-256 of the whole question, names of nodes included, the same in all versions."""
        return hash_of(self.problem, self.document())

    @property
    def question_words(self) -> str:
        """The question without names, in one line."""
        runtime = "" if self.source is None else f" for {self.source.runtime}"
        beside = {name: item for name, item in self.document().items() if name != "chain"}
        flight = "" if self.in_flight is None else f", {self.in_flight} in flight"
        return (
            f"context {self.context}, batch {self.batch}{flight}, caches {digest_of(nameless(beside))}{runtime}, "
            f"{self.instance.question_words}"
        )

    @property
    def label(self) -> str:
        """Name of the decoder and number of stages."""
        return self.instance.label


def _check(question: ServingQuestion) -> None:
    """Refuse tables that do not fit chain and operators, by an `InputError`."""
    chain, source = question.instance, question.source
    numbers = [question.token_bytes] + ([] if source is None else [source.constant])
    if not chain.by_need:
        raise InputError("chain: the needs of its nodes count; state 'by_need'.")
    if len(question.window) != chain.graph.n or any(not np.isfinite(row).all() for row in numbers):
        raise InputError(f"token_bytes, window and constant are not {chain.graph.n} numbers, finite but for windows.")
    if min(row.min() for row in (*numbers, question.window)) < 0:
        raise InputError("token_bytes, window and constant are 0 or more.")
    if not chain.is_alike and not np.isfinite(chain.work).all():
        raise InputError("All nodes of a front run on each kind; give works that are numbers.")
    if source is None:
        return
    if len(source.layer) != source.operators.n or not ((source.layer >= 0) & (source.layer < chain.graph.n)).all():
        raise InputError(f"decoder.layer: give {source.operators.n} numbers from 0 to {chain.graph.n - 1}.")
    works = source.works
    if not chain.is_alike and (
        works is None or len(works) != chain.kinds or not (np.isfinite(works) & (works >= 0)).all()
    ):
        raise InputError(f"decoder.works: give works of the operators on {chain.kinds} kinds, each 0 or more.")


# Serving fronts in files as raw records: statements that are not checked.


class StatedStage(NamedTuple):
    """A stage of a cut as a file states it."""

    weights: float  # bytes
    first_token: float  # bytes of its caches for one token of each sequence in flight
    activations: float  # bytes
    context: Limit  # tokens


@dataclass(frozen=True)
class StatedPoint:
    """A cut as a file states it."""

    block: tuple[int, ...]
    bottleneck: float
    context: Limit  # tokens
    stages: tuple[StatedStage, ...]
    # Of the device of each stage, None where it is empty; None of devices that are alike.
    kind: tuple[str | None, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class StatedFront:
    """The answer of a file."""

    front: tuple[StatedPoint, ...]
    chosen: int  # of the front
    runtime: str
    # Of the chosen cut for the runtime; empty if there are none.
    settings: Annotated[str, Named("words")]


@dataclass(frozen=True, kw_only=True)
class StatedServing(ServingQuestion, StatedFront, Envelope):
    """A serving question and its front as a file states them; older files lack what the chain was made of."""

    answer_name: ClassVar[str] = "front"
    cost_name: ClassVar[str] = "time a batch"


def serving_from_document(document: Value) -> StatedServing:
    """The front of a file with its question.

    Raises
    ------
    InputError
        If this is none, or it names a field that there is not; the message names the place.
    """
    fields = opened(document, SERVE)
    if fields["bounds"].items() or fields["impossible"].data is not None:
        document.fail("a front has neither bounds nor a reason why there is none; leave them out.")
    question, front = ServingQuestion.of_document(fields["question"]), stated_answer(fields, StatedFront)
    if question.source is not None and question.source.runtime != front.runtime:
        fields["answer"].fail("its runtime is not that of the decoder; give that.")
    return StatedServing(**envelope(fields, SERVE), **vars(question), **vars(front))
