"""The picture of a serving front on its page."""

from __future__ import annotations

import re

import mtpp


def test_the_cuts_of_a_front_go_from_side_to_side() -> None:
    """The fastest cut is at the left with the least context, the slowest at the right with the most."""
    page = mtpp.report(mtpp.serve("gpt2", 3, "500MB", dims={"batch": 32, "context": 8}))
    found = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="6"', page)
    across, up = ([float(one[axis]) for one in found] for axis in (0, 1))
    assert len(found) > 1
    assert across == sorted(across)
    assert up == sorted(up, reverse=True)
    assert (across[0], across[-1]) == (110, 690)
    assert (up[0], up[-1]) == (230, 30)
