"""Statement of a certificate that no partition fits, as a raw record: not checked."""

from __future__ import annotations

from typing import NamedTuple

from instances.json_files import Value

__all__ = ["PROOFS", "StatedImpossible", "read_impossible"]

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
    kind = proof.open_members(("kind",))["kind"]
    if kind.text() not in PROOFS:
        kind.fail(f"there is no such proof; known are {', '.join(PROOFS)}.")
    members = proof.members(("kind", *PROOFS[kind.text()]))
    numbers = {name: members[name].whole() for name in PROOFS[kind.text()]}
    for name, number in numbers.items():
        count = n if name == "node" else k
        if not 0 <= number < count:
            members[name].fail(f"it is {number}; there are {count}.")
    return StatedImpossible(reason, kind.text(), numbers)
