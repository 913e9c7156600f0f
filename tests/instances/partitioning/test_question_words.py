"""Questions in one line: whatever their hash covers is stated there, names aside."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kinds_cases import chain
from strategies import questions

from instances import Instance
from instances.machines import Kind, Machines
from instances.partitioning.constraints import Constraints

# Values that are near one another, so that six digits are not enough.
_CHOICES: dict[str, list[Any]] = {
    "counts": [(2, 1), (1, 2)],
    "memories": [(2.0**53, math.inf), (2.0**53 - 1, math.inf), (2.0**53, 9.0)],
    "speeds": [(1.0, 2.0), (1.0, 2.0 + 2**-40)],
    "bandwidths": [(1.0, 2.0), (1.0, None), (1.0 + 2**-40, 2.0)],
    "order": ["free", "fixed"],
    "rates": [None, ((1.0, 1.0), (1.0, 1.0)), ((1.0, 1.0), (1.0 - 2**-40, 1.0))],
    "bandwidth": [1.0, 3.0],
    "activation_buffer": [None, 0.0, 2.0**53, 2.0**53 - 1],
    "fit": [False, True],
    "constraints": [
        Constraints(),
        Constraints(on=((0, ("x",)),)),
        Constraints(on=((1, ("x",)),)),
        Constraints(on=tuple((v, ("x",)) for v in range(10))),
        Constraints(on=tuple((v, ("x",)) for v in range(1, 11))),
        Constraints(windows=((0, 0, 1),)),
        Constraints(windows=tuple((v, 0, 1) for v in range(10))),
        Constraints(windows=tuple((v, 0, 1) for v in range(9))),
        Constraints(together=((0, 1),)),
        Constraints(uncut=(1,)),
    ],
    "params": [1.0, 2.0],
}
_FACTS = {name: st.sampled_from(values) for name, values in _CHOICES.items()}


def _question(
    counts: Any,
    memories: Any,
    speeds: Any,
    bandwidths: Any,
    order: str,
    rates: Any,
    bandwidth: float,
    params: float,
    **words: Any,
) -> Instance:
    graph = chain([1.0] * 12, [1.0] * 11, param_bytes=[params] * 12)
    columns = zip(("x", "y"), counts, speeds, memories, bandwidths, strict=True)
    kinds = [Kind(name, n, speed=s, memory=m, bandwidth=b) for name, n, s, m, b in columns]
    return Instance(graph, Machines(kinds, order, rates, bandwidth), **words)


@given(st.fixed_dictionaries(_FACTS), st.sampled_from(sorted(_FACTS)), st.data())
def test_bug_all_that_is_hashed_of_kinds_is_stated(facts: dict[str, Any], name: str, data: st.DataObject) -> None:
    """They hid what has to fit, the buffer, and which nodes may be on which kinds."""
    one, other = _question(**facts), _question(**facts | {name: data.draw(_FACTS[name])})
    assert (one.question_hash == other.question_hash) == (one.question_words == other.question_words)


@given(questions(), questions())
def test_all_that_is_hashed_is_stated(one: Instance, other: Instance) -> None:
    assert (one.question_hash == other.question_hash) == (one.question_words == other.question_words)
