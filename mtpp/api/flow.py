"""Layers of a decoder on the devices of a cluster: `flow`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from mtpp.questions.flow import FlowLike, FlowWords, flow_instance
from mtpp.questions.words import takes_words

if TYPE_CHECKING:
    from instances.flow.problem import FlowInstance
    from mtpp.certifying.flow import FlowResult
    from mtpp_models import Progress

__all__ = ["flow", "flowed"]


@takes_words(FlowWords)
def flow(question: FlowLike, **words: Unpack[FlowWords]) -> FlowResult:
    """Choose the layers of a decoder that each device holds, so that many requests per second pass, as ``mtpp flow``.

    Parameters
    ----------
    question : FlowInstance, str or path
        Layers, devices with the requests per second that they serve by their number of layers, and links; or a decoder,
        an architecture or a ``config.json``, with `devices`.
    devices : str, path or Machines, optional
        Of the cluster on which a decoder runs, with the rates between them.
    dims : mapping, optional
        Of the decoder: phase, decode by default, context, and batch, the most sequences that a device works at in a
        step; it works at fewer where their caches do not fit beside its layers. The flow counts sequences: tokens in
        decoding, prompts in prefill.
    memory, bandwidth : float or str, optional
        Of devices whose kind states none.
    peak_flops, memory_bandwidth : float or str, optional
        Of the device with speed 1.
    certify : bool
        Whether it is proved how good the answer is.
    time_limit : float
        Seconds for search and proof together, 20 by default.
    seed : int

    Returns
    -------
    Result
        Its answer has the interval of layers of each device, and the flow; its cost is the time for each request, which
        is minimised, and the bound one on that.

    Raises
    ------
    InputError
        If the question or a word is refused.
    """
    return flowed(flow_instance(question, words), words)


def flowed(
    question: FlowInstance, words: FlowWords, on_progress: Callable[[Progress], None] | None = None
) -> FlowResult:
    """As `flow`, with words that are checked."""
    from mtpp.certifying.flow import certify_flow, find_flow

    seed, limit = words["seed"], words["time_limit"]
    if not words["certify"]:
        return find_flow(question, seed, limit)
    return certify_flow(question, seed, limit, on_progress or (lambda moment: None))
