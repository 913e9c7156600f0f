"""Check of certificates with independent code, in exact rational numbers.

Of the project only records that hold data are imported: neither `Partition`, `Plan` and `Placement`, nor reductions,
searches or models, so that a fault of theirs does not hide here. What a file states decides nothing about the effort:
the limits are the caller's.
"""

from __future__ import annotations

from collections.abc import Callable

from instances.flow.file import FLOW_CERTIFICATE
from instances.json_files import CERTIFICATE_FORMAT, PLACEMENT_FORMAT, PLAN_FORMAT, TIMED_PLAN_FORMAT, Value
from instances.partitioning.kinds.file import KINDS_CERTIFICATE
from instances.partitioning.stated_serving import SERVING_FORMAT
from instances.placement.stated import ORDERED_FORMAT
from mtpp.verification.clock import Limits
from mtpp.verification.flow.certificate import verify_flow
from mtpp.verification.kinds.certificate import verify_kinds
from mtpp.verification.partitioning.certificate import verify_partition
from mtpp.verification.partitioning.ideals import PAIRS
from mtpp.verification.placement.certificate import verify_placement
from mtpp.verification.planning.plan import verify_plan
from mtpp.verification.planning.timeline import verify_timeline
from mtpp.verification.serving.front import verify_serving
from mtpp.verification.verdict import Verdict

__all__ = ["VERIFIERS", "verify"]

#: Format of a file to what checks it.
VERIFIERS: dict[str, Callable[[Value, Limits], Verdict]] = {
    CERTIFICATE_FORMAT: verify_partition,
    PLAN_FORMAT: verify_plan,
    TIMED_PLAN_FORMAT: verify_timeline,
    PLACEMENT_FORMAT: verify_placement,
    ORDERED_FORMAT: verify_placement,
    SERVING_FORMAT: verify_serving,
    KINDS_CERTIFICATE: verify_kinds,
    FLOW_CERTIFICATE: verify_flow,
}


def verify(document: Value, *, ideals: bool = False, time_limit: float = 60.0, pairs: int = PAIRS) -> Verdict:
    """Check everything in a certificate, a plan, a placement or a serving front that can be checked.

    Parameters
    ----------
    document : Value
        Of `read_json`.
    ideals : bool
        Run a plain program over ideals again, which may take minutes.
    time_limit : float
        Seconds for all bounds together, those that are not proved again by then are trusted; and for the cost of a plan
        or a placement.
    pairs : int
        Most pairs of ideals to look at.

    Raises
    ------
    InputError
        If the document is none of them, lacks its question, or the parameters of a bound are not of the kind that its
        method needs.
    OutOfTimeError
        If the time ends before the cost of a plan or a placement is known.
    """
    return VERIFIERS[document.check_format(*VERIFIERS)](document, Limits(time_limit, ideals, pairs))
