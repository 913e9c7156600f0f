"""Check of certificates with independent code, in exact rational numbers.

Of the project only records that hold data are imported: neither `Partition`, `Plan` and `Placement`, nor reductions,
searches or models, so that a fault of theirs does not hide here. What a file states decides nothing about the effort:
the limits are the caller's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from instances.certificates.provenance import accepted, older_format
from instances.flow.file import FLOW_CERTIFICATE
from instances.json_files import CERTIFICATE_FORMAT, PLACEMENT_FORMAT, PLAN_FORMAT, TIMED_PLAN_FORMAT, Value
from instances.partitioning.kinds.file import KINDS_CERTIFICATE
from instances.partitioning.stated_serving import SERVING_FORMAT
from instances.placement.stated import ORDERED_FORMAT
from instances.planning.grid.stated import GRID_FORMAT
from mtpp.verification.clock import Limits
from mtpp.verification.faults import unequal
from mtpp.verification.flow.certificate import verify_flow
from mtpp.verification.kinds.certificate import verify_kinds
from mtpp.verification.partitioning.certificate import verify_partition
from mtpp.verification.placement.certificate import verify_placement
from mtpp.verification.planning.grid.plan import verify_grid
from mtpp.verification.planning.plan import verify_plan
from mtpp.verification.planning.timeline import verify_timeline
from mtpp.verification.serving.front import verify_serving
from mtpp.verification.verdict import Verdict

__all__ = ["VERIFIERS", "verify"]

#: Older format of a file to what checks it.
VERIFIERS: dict[str, Callable[[Value, Limits], Verdict]] = {
    CERTIFICATE_FORMAT: verify_partition,
    PLAN_FORMAT: verify_plan,
    TIMED_PLAN_FORMAT: verify_timeline,
    GRID_FORMAT: verify_grid,
    PLACEMENT_FORMAT: verify_placement,
    ORDERED_FORMAT: verify_placement,
    SERVING_FORMAT: verify_serving,
    KINDS_CERTIFICATE: verify_kinds,
    FLOW_CERTIFICATE: verify_flow,
}


def verify(document: Value, *, time_limit: float = 60.0) -> Verdict:
    """Check everything in a certificate, a plan, a placement or a serving front that can be checked.

    Parameters
    ----------
    document : Value
        Of `read_json`.
    time_limit : float
        Seconds for all bounds together, those that are not proved again by then are trusted; and for the cost of a plan
        or a placement.

    Raises
    ------
    InputError
        If the document is none of them, lacks its question, or the parameters of a bound are not of the kind that its
        method needs.
    OutOfTimeError
        If the time ends before the cost of a plan or a placement is known.
    """
    named = older_format(document.check_format(*accepted(*VERIFIERS)))
    verdict = VERIFIERS[named](document, Limits(time_limit))
    stated, true = verdict.certificate.question_hash, verdict.certificate.true_hash
    if stated is None or stated == true:
        return verdict
    return replace(verdict, faults=(*verdict.faults, unequal("question_hash", stated, true)))
