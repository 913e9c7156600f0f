"""Questions of all problems as documents, whose hash names them.

A question is an object of a file: its fields are the members, written in one way only. A hash of a question is the
SHA-256 of its problem and these members as JSON in ASCII with sorted names, without blanks, floats with the fewest
digits that give them back, without names that change no cost (see `nameless`). The members are everything on which
costs and rules depend: two questions with the same hash have the same answers at the same costs.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Any, ClassVar, Self

from instances.graph.display import Displayed, figures
from instances.graph.graph import ComputationGraph
from instances.json_files import Value
from instances.records import read, written

#: What all hashes of this version begin with.
HASH = "q2:"
#: Names of graphs, chains and clusters in files, and what else of them no cost or rule reads.
_NAMES = ("name", "source", "attributes")
#: What runtimes are told of a chain, the same.
_RUN = ("model", "attention", "overlap")


class QuestionRecord(Displayed):
    """Base of the questions of all problems: records whose fields are members of files, and whose hash names them."""

    #: The problem, as hashes name it.
    problem: ClassVar[str]

    def document(self) -> dict[str, Any]:
        """The question as the member `question` of a file: all that costs and rules depend on, and its names."""
        return written(self)

    @classmethod
    def of_document(cls, value: Value) -> Self:
        """Read a question from the member of a file; an `InputError` names the place of an error."""
        return read(value, cls)

    @cached_property
    def question_hash(self) -> str:
        """SHA-256 of the whole question, names of nodes included, the same in all versions ("q2:" and 64 digits)."""
        return hash_of(self.problem, self.document())

    @property
    def key(self) -> str:
        """Hash that tells one question from another; it names the question in files of runs."""
        return self.question_hash

    @property
    def question_words(self) -> str:
        """The question in one line, with sizes and digests but no names of graph, nodes or devices."""
        raise NotImplementedError

    @property
    def caveats(self) -> tuple[str, ...]:
        """Sentences to print beside each answer, about limits of the cost model that its numbers do not show."""
        return ()

    @property
    def cost_name(self) -> str:
        """Noun of the costs of answers."""
        return "time"

    @property
    def time_unit(self) -> str:
        """Time unit of the costs."""
        return "s"


class GraphQuestion(QuestionRecord):
    """Base of the questions of one graph, whose time unit is that of the graph."""

    graph: ComputationGraph

    @property
    def time_unit(self) -> str:
        """Time unit of the costs."""
        return self.graph.time_unit


def hash_of(problem: str, question: dict[str, Any]) -> str:
    """Hash of the members of a question of a problem ("q2:" and 64 hexadecimal digits)."""
    named = {"problem": problem, "question": nameless(question)}
    text = json.dumps(named, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"{HASH}{hashlib.sha256(text.encode()).hexdigest()}"


def nameless(question: dict[str, Any]) -> dict[str, Any]:
    """The members of a question without names: neither its name nor those of its parts (graph, chain, cluster, …)."""
    return {
        name: _nameless(item, ("name",) if isinstance(item, dict) else ())
        for name, item in question.items()
        if name != "name"
    }


def digest_of(item: Any) -> str:
    """First digits of a hash of lists and numbers, shown where these are too long to print [12 digits]."""
    return hashlib.sha256(str(item).encode()).hexdigest()[:12]


def _nameless(item: Any, names: tuple[str, ...]) -> Any:
    """A copy of a JSON value without the members called `names`, in files that it contains as well."""
    if isinstance(item, dict):
        is_file = isinstance(item.get("format"), str)
        if is_file:
            ignored = _RUN if item["format"].startswith("mtpp-chain/") else ()
            names, item = _NAMES, {name: value for name, value in item.items() if name not in ignored}
        members = {name: _nameless(value, ()) for name, value in item.items() if name not in names}
        if is_file and "parameters" in item:  # of a graph; their order means nothing
            shared = _nameless(item["parameters"], ("name",))
            members["parameters"] = sorted(shared, key=lambda parameter: (parameter["users"], parameter["bytes"]))
        return members
    if isinstance(item, list) and item and isinstance(item[0], dict):
        return [_nameless(value, names) for value in item]
    return item


# A graph as a part of a question.


def graph_in_words(graph: ComputationGraph) -> str:
    """Text with size and work of a graph, and the first digits of its hash."""
    work = figures(float(graph.work.sum()), graph.time_unit)
    return f"{graph.n} nodes, {graph.m} edges, work {work}, graph {graph.content_hash[:12]}"
