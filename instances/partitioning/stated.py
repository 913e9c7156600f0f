"""Partitions as files state them; nothing is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from instances.certificates import KINDS, PARTITION, SERVE, Envelope, envelope, opened, stated_answer
from instances.errors import InputError
from instances.graph.questions import QuestionRecord, digest_of, hash_of, nameless
from instances.graph.tensors import FloatArray, IntArray
from instances.json_files import Value
from instances.partitioning.problem import GraphMember, Instance
from instances.records import By, Floats, Ints, Limit, Named, read, written

# Records of the stages of an answer and of the tensors between them, as files and tables hold them.


@dataclass(frozen=True, kw_only=True)
class StageReport:
    """A block that is not empty: what it holds and what it costs.

    Parameters
    ----------
    stage : int
        Number of the block.
    first, last : str
        Names of the first and the last node that it executes.
    nodes : int
    receive, work, overflow, send, cost : float
        The terms of eq. (3) and their sum, in the time unit of the work.
    share : float
        Cost over bottleneck, from 0 to 1.
    param_bytes, state_bytes, peak_bytes : float
        Its parameters, its states and its peak of activations [bytes].
    """

    stage: int
    first: str
    last: str
    nodes: int
    receive: Limit
    work: Limit
    overflow: Limit
    send: Limit
    cost: Limit
    share: Limit
    param_bytes: Limit
    state_bytes: Limit
    peak_bytes: Limit


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """A tensor that is read outside the block that makes it.

    Parameters
    ----------
    producer : str
        Name of the node that makes it.
    node, output : int
        Number of that node, and of the tensor among its outputs.
    source : int
        Block of the producer.
    readers : tuple of int
        Other blocks that read it, in order.
    bytes : float
    time : float
        To move it once, in the time unit of the work.
    """

    producer: str
    node: int
    output: int
    source: int
    readers: tuple[int, ...]
    bytes: Limit
    time: Limit


# Statement of a certificate that no partition fits, as a raw record: not checked.


#: Kind of a proof to the numbers that it names.
PROOFS: dict[str, tuple[str, ...]] = {"sum": (), "node": ("node",), "windows": ("first", "last"), "ideals": ()}


class StatedImpossible(NamedTuple):
    """Reason why there is no partition, and its proof, as a file states them."""

    reason: str  # in words
    kind: str | None  # of `PROOFS`; None if the file has no proof
    numbers: dict[str, int]  # that it names, of nodes and blocks


def read_impossible(value: Value, n: int, k: int) -> StatedImpossible:
    """Read the member `impossible` of a certificate of a graph with n nodes and of k blocks.

    Raises
    ------
    InputError
        If its proof is none of `PROOFS`, or names what does not exist.
    """
    fields = value.members(("reason", "proof"))
    reason, proof = fields["reason"].text(), fields["proof"]
    if proof.data is None:
        return StatedImpossible(reason, None, {})
    kind = proof.open_members(("kind",))["kind"].one_of(PROOFS)
    members = proof.members(("kind", *PROOFS[kind]))
    numbers = {name: members[name].whole() for name in PROOFS[kind]}
    for name, number in numbers.items():
        count = n if name == "node" else k
        if not 0 <= number < count:
            members[name].fail(f"it is {number}; there are {count}.")
    return StatedImpossible(reason, kind, numbers)


# Partitions in files as raw records: statements that are not checked.


@dataclass(frozen=True, kw_only=True)
class Stated:
    """A partition as a file states it; nothing is checked yet."""

    block: tuple[int, ...]
    order: tuple[int, ...]
    stages: tuple[tuple[str, ...], ...]  # names of the nodes of each block, in order
    # Name of the kind of each block, None where it is empty; none of devices that are alike.
    kind: tuple[str | None, ...] = ()
    costs: tuple[StageReport, ...] = ()  # of devices that are alike
    crossing: tuple[Crossing, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Certificate(Envelope):
    """Certificate of a partition as its file states it: a question, and claims that are not checked yet."""

    instance: Instance
    partition: Stated | None
    impossible: StatedImpossible | None = None

    answer_name: ClassVar[str] = "partition"


def certificate_from_document(document: Value) -> Certificate:
    """The certificate of a partition.

    Raises
    ------
    InputError
        If this is not a certificate, its graph or platform is invalid, its constraints contradict one another, or it
        names an unknown field, method or solver; the message names the place.
    """
    fields = opened(document, PARTITION)
    if fields["answer"].data is None and not fields["bounds"].items() and fields["impossible"].data is None:
        document.fail("it holds neither a partition nor a bound; there is nothing to check.")
    instance = Instance.of_document(fields["question"])
    if instance.need is not None or instance.by_need:
        fields["question"].fail(
            "its nodes have needs, which only chains of serving have; leave 'need' and 'by_need' out."
        )
    partition = None if fields["answer"].data is None else stated_answer(fields, Stated)
    if partition is not None and bool(partition.kind) == instance.is_alike:
        fields["answer"].fail("'kind' is of devices of several kinds alone; give it for these.")
    if partition is not None and not instance.is_alike and (partition.costs or partition.crossing):
        fields["answer"].fail("'costs' and 'crossing' are of devices that are alike; leave them out.")
    impossible = fields["impossible"]
    return Certificate(
        **envelope(fields, PARTITION if instance.is_alike else KINDS),
        instance=instance,
        partition=partition,
        impossible=None if impossible.data is None else read_impossible(impossible, instance.graph.n, instance.k),
    )


# Serving fronts as files state them, and their questions.


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


@dataclass(frozen=True, eq=False, repr=False)
class ServingQuestion(QuestionRecord):
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
    cost_name: ClassVar[str] = "time a batch"

    def __post_init__(self) -> None:
        if self.in_flight is not None and not 1 <= self.in_flight <= self.instance.k:
            raise InputError(f"in_flight is {self.in_flight}; give 1 to {self.instance.k}, a batch for each stage.")

    @property
    def waits(self) -> bool:
        """Whether there are fewer batches in flight than stages, so that stages may wait for a batch."""
        return self.in_flight is not None and self.in_flight < self.instance.k

    def document(self) -> dict[str, Any]:
        """The question as the member `question` of a file."""
        return written(self, ServingQuestion)

    @classmethod
    def of_document(cls, value: Value) -> ServingQuestion:
        """The question from the member `question` of a file; an `InputError` names the place of an error."""
        question = read(value, ServingQuestion)
        with value.refusing():
            _check(question)
        return question

    @property
    def true_hash(self) -> str:
        """SHA-256 of the whole question, names of nodes included, the same in all versions."""
        return hash_of(self.problem, self.document())

    @property
    def question_words(self) -> str:
        """The question in one line, with sizes and digests but no names of graph, nodes or devices."""
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

    @property
    def time_unit(self) -> str:
        """Time unit of the costs."""
        return self.instance.time_unit

    def _facts(self) -> dict[str, str]:
        return {"question": self.label}


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

    weights: float  # bytes of its weights
    first_token: float  # bytes of its caches for one token of each sequence in flight
    activations: float  # bytes of its activations
    context: Limit  # largest context that fits [tokens]


@dataclass(frozen=True)
class StatedPoint:
    """A point of a serving front as a file states it: a partition, its bottleneck and its context."""

    block: tuple[int, ...]
    bottleneck: float  # [time unit of the graph]
    context: Limit  # largest context that fits [tokens]
    stages: tuple[StatedStage, ...]
    # Of the device of each stage, None where it is empty; None of devices that are alike.
    kind: tuple[str | None, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class StatedFront:
    """The answer of a serving file: a front, and its chosen point."""

    front: tuple[StatedPoint, ...]
    chosen: int  # index of the chosen point
    runtime: str
    # Of the chosen cut for the runtime; empty if there are none.
    settings: Annotated[str, Named("words")]


@dataclass(frozen=True, kw_only=True)
class StatedServing(ServingQuestion, StatedFront, Envelope):
    """A serving question and its front as a file states them; older files lack what the chain was made of."""

    answer_name: ClassVar[str] = "front"


def serving_from_document(document: Value) -> StatedServing:
    """The front of a file with its question.

    Raises
    ------
    InputError
        If this is no serving front, or it names an unknown field; the message names the place.
    """
    fields = opened(document, SERVE)
    if fields["bounds"].items() or fields["impossible"].data is not None:
        document.fail("a front has neither bounds nor a reason why there is none; leave them out.")
    question, front = ServingQuestion.of_document(fields["question"]), stated_answer(fields, StatedFront)
    if question.source is not None and question.source.runtime != front.runtime:
        fields["answer"].fail("its runtime is not that of the decoder; give that.")
    return StatedServing(**envelope(fields, SERVE), **vars(question), **vars(front))
