"""Partitions as files state them; nothing is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from instances.certificates import KINDS, PARTITION, Envelope, envelope, opened, stated_answer
from instances.json_files import Value
from instances.partitioning.problem import Instance
from instances.records import Limit

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
    """A tensor that some other block reads than the one that makes it.

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
    """Why there is no partition at all."""

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
    cost_name: ClassVar[str] = "bottleneck"


def certificate_from_document(document: Value) -> Certificate:
    """The certificate of a partition.

    Raises
    ------
    InputError
        If this is not a certificate, its graph or platform is none, its constraints contradict one another, or it names
        a field, a method or a solver that this project does not have; the message names the place.
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
