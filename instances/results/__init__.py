"""Results: answers with bounds, the same for all problems."""

from instances.results.bound import STATED, Bound, exceeds
from instances.results.combining import combine
from instances.results.question import Answer, Question
from instances.results.result import PROOF_TOLERANCE, Result, Status

__all__ = ["PROOF_TOLERANCE", "STATED", "Answer", "Bound", "Question", "Result", "Status", "combine", "exceeds"]
