"""Cuts of a decoder by the context that they hold and by how fast they are: `serve`."""

from __future__ import annotations

from typing import Unpack

from instances import Bound, Result
from instances.deadline import Stopwatch
from instances.partitioning.serving import ServingInstance
from instances.runtimes.serving_front import Front
from mtpp.questions.serving import ORDERS, ServingWords, serving_instance
from mtpp.questions.words import GraphLike, takes_words
from mtpp.text.parsing import Quantity
from mtpp_models.bounds.serving import serving_front

__all__ = ["ServingResult", "serve", "served"]

#: Outcome of a search for all cuts that no other beats.
ServingResult = Result[ServingInstance, Front]


@takes_words(ServingWords)
def serve(
    graph: GraphLike, k: int | str | None = None, memory: Quantity | None = None, **words: Unpack[ServingWords]
) -> ServingResult:
    """Find all cuts of a decoder that no other beats in both bottleneck and context, as ``mtpp serve``.

    Parameters
    ----------
    graph : str, path, ComputationGraph or networkx.DiGraph
        A decoder, as for `mtpp.load`; an architecture without a phase is priced for decoding.
    k : int
        Number of stages; of kinds of devices the most that are used, by default all.
    memory : float or str
        Of a device, a hard limit [bytes]; kinds of devices have their own.
    devices : Devices, str or path, optional
        Kinds of devices, as for `partition`.
    bandwidth : float or str, optional
        Between stages; 64 GB/s by default.
    runtime : str
        Only cuts that it can express.
    first : str
        "bottleneck" or "capacity": which of them the answer is best in.
    dims, reader, communication, cost, input_work, time_unit, peak_flops, memory_bandwidth
        As for `mtpp.load`. Times hold at the context of `dims`, which all cuts hold.

    Returns
    -------
    Result
        Its answer is a `Front`: its `points` are the cuts from the fastest to the one with the largest context, and
        one of them is `chosen`, whose `partition`, `bottleneck` and `capacity` it has. `settings` are for the runtime.

    Raises
    ------
    InputError
        If the graph is no decoder with numbered layers, or a word is refused.

    Examples
    --------
    >>> import mtpp
    >>> found = mtpp.serve("llama-3-8b", k=4, memory="24GB", dims={"batch": 32, "element_bytes": 2})
    >>> found.answer.capacity >= found.instance.context
    True
    """
    return served(graph, k, memory, words)


def served(graph: GraphLike, k: int | str | None, memory: Quantity | None, words: ServingWords) -> ServingResult:
    """As `serve`, with words that are checked."""
    question, watch = serving_instance(graph, k, memory, words), Stopwatch()
    found = serving_front(question)
    seconds = watch.seconds(solve=watch.passed)
    if not found.points:
        return Result("front", question, seconds=seconds, impossible=_why_none(question, found.largest))
    front = Front(question, found.points, found.points[ORDERS[words["first"]]], words["runtime"])
    return Result("front", question, front, Bound(front.cost, "front"), seconds)


def _why_none(question: ServingInstance, largest: float) -> str:
    """Why no cut holds the context of a question, where `largest` is the most that one holds [tokens]."""
    if largest < 1:
        return "no cut has room for a single token; give more memory or more stages."
    return (
        f"no cut holds the context of {question.context} tokens whose times count, and {largest:.0f} are the most; "
        "give more memory, more stages or a smaller context."
    )
