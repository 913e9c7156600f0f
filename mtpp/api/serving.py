"""Cuts of a decoder by the context that they hold and by how fast they are: `serve`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from instances.certificates.provenance import with_provenance
from instances.errors import InputError
from instances.graph.display import Displayed, Rows, figures
from instances.json_files import Value, check_writable, write_json
from instances.partitioning.kinds.answer import served_cut
from instances.partitioning.kinds.problem import UnlikeInstance
from instances.partitioning.serving import ServedPartition, ServingInstance
from instances.partitioning.stated_serving import serving_from_document
from mtpp.questions.serving import ORDERS, ServingWords, layer_runtime, serving_instance
from mtpp.questions.words import GraphLike, path_of, takes_words
from mtpp.text.parsing import Quantity
from mtpp_models.bounds.serving import ServingFront, serving_front

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ServingResult", "serve", "served"]


@dataclass(frozen=True, eq=False, repr=False)
class ServingResult(Displayed):
    """All cuts that no other beats in both bottleneck and context, and the one that is the answer."""

    question: ServingInstance
    front: ServingFront
    answer: ServedPartition | None  # None if no cut holds the context asked for
    runtime: str

    @property
    def points(self) -> tuple[ServedPartition, ...]:
        """The cuts, from the fastest to the one with the largest context."""
        return self.front.points

    @property
    def settings(self) -> str:
        """The answer as the runtime takes it; empty without one, or where it cannot say the devices of the stages."""
        return "" if self.answer is None or self.unsettled else self._settings()

    @property
    def unsettled(self) -> str:
        """Why the runtime cannot be told on which devices the stages are; empty if it can."""
        if self.answer is None or not isinstance(self.question.instance, UnlikeInstance):
            return ""
        try:
            self._settings()
        except InputError as error:
            return str(error)
        return ""

    def _settings(self) -> str:
        assert self.answer is not None
        return layer_runtime(self.runtime).settings(self.answer.partition)

    @property
    def impossible(self) -> str | None:
        """Why there is no answer; None if there is one."""
        if self.points:
            return None
        if self.front.largest < 1:
            return "no cut has room for a single token; give more memory or more stages."
        return (
            f"no cut holds the context of {self.question.context} tokens whose times count, and "
            f"{self.front.largest:.0f} are the most; give more memory, more stages or a smaller context."
        )

    @classmethod
    def of(cls, document: Value) -> ServingResult:
        """The front of a file; what its cuts cost and hold is computed anew.

        Raises
        ------
        InputError
            If the file is refused, or names no cut of its front as the answer.
        """
        stated = serving_from_document(document)
        if not 0 <= stated.answer < len(stated.front):
            document.fail(f"there is no cut {stated.answer} among {len(stated.front)}.")
        try:
            numbers = stated.token_bytes, stated.window, stated.context, stated.batch
            question = ServingInstance(stated.instance, *numbers, stated.source)
            points = tuple(ServedPartition(question, served_cut(stated.instance, point)) for point in stated.front)
        except InputError as error:
            document.fail(str(error))
        return cls(question, ServingFront(points, points[-1].capacity), points[stated.answer], stated.runtime)

    def document(self) -> dict[str, Any]:
        """The JSON document of a serving front."""
        from instances.runtimes.serving_file import serving_document

        answer = None if self.answer is None else self.points.index(self.answer)
        more = {"answer": answer, "runtime": self.runtime, "words": self.settings}
        document = serving_document(self.question, self.points) | more
        return document if self.question.source is None else with_provenance(document, self.question.question_hash)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write question, front and answer as a JSON file, and return its path.

        Raises
        ------
        InputError
            If there is no cut to write.
        OSError
            If the file cannot be written.
        """
        if self.answer is None:
            raise InputError(f"{self.question.instance.label}: {self.impossible}")
        file = path_of("path", path)
        check_writable(file)
        write_json(file, self.document())
        return file

    def summary(self) -> str:
        """A few aligned lines for people."""
        return "\n".join(f"{label:<11} {text}" for label, text in {"question": self._title(), **self._facts()}.items())

    def plot(self) -> Figure:
        """Draw the front.

        Raises
        ------
        InputError
            If there is no cut.
        """
        if self.answer is None:
            raise InputError(f"{self.question.instance.label}: {self.impossible}")
        from mtpp.plots.serving import plot_front

        figure = plot_front(self.front).figure
        return figure  # type: ignore[return-value]

    def _title(self) -> str:
        return self.question.instance.label

    def _facts(self) -> Mapping[str, str]:
        if self.answer is None:
            return {"impossible": self.impossible or ""}
        unit = self.question.instance.time_unit
        return {
            "runtime": self.runtime,
            "bottleneck": figures(self.answer.bottleneck, unit),
            "context": figures(self.answer.capacity, "tokens"),
            "cuts": str(len(self.points)),
        }

    def _rows(self) -> Rows | None:
        rows = [[figures(point.bottleneck), figures(point.capacity)] for point in self.points]
        return (f"bottleneck [{self.question.instance.time_unit}]", "context [tokens]"), rows


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
    ServingResult

    Raises
    ------
    InputError
        If the graph is no decoder with numbered layers, or a word is refused.

    Examples
    --------
    >>> import mtpp
    >>> found = mtpp.serve("llama-3-8b", k=4, memory="24GB", dims={"batch": 32, "element_bytes": 2})
    >>> found.answer.capacity >= found.question.context
    True
    """
    return served(graph, k, memory, words)


def served(graph: GraphLike, k: int | str | None, memory: Quantity | None, words: ServingWords) -> ServingResult:
    """As `serve`, with words that are checked."""
    question = serving_instance(graph, k, memory, words)
    front = serving_front(question)
    answer = front.points[ORDERS[words["first"]]] if front.points else None
    return ServingResult(question, front, answer, words["runtime"])
