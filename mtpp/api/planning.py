"""Functions of planning, placement, flow and serving."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np

from heuristics import Limits
from heuristics.placement import PlacementResult, search_placement
from heuristics.placement.annealing import Tell
from heuristics.placement.placeto import Checkpoint
from heuristics.planning.orders import execute_orders
from instances import Bound, ComputationGraph, Result
from instances.deadline import Stopwatch
from instances.devices import Cluster
from instances.errors import InputError, WordError, is_refused, word
from instances.flow.problem import FlowInstance
from instances.graph.display import how_many
from instances.json_files import read_text
from instances.partitioning.serving import ServingInstance
from instances.placement.networks import group_nodes
from instances.placement.problem import PlacementInstance
from instances.planning import Iteration, LayerChain, Plan
from instances.planning.grid.transformer import Transformer
from instances.runtimes import RUNTIMES, Runtime
from instances.runtimes.serving_front import Front
from instances.serving.model import ServedModel
from instances.serving.problem import DeploymentInstance
from mtpp.certifying.loop import ignore
from mtpp.certifying.methods import (
    DEPLOYMENT_METHODS,
    DeploymentResult,
    FlowResult,
    PlanResult,
    PlanSearch,
    answered,
    certify_plan,
    flow_methods,
    placement_methods,
)
from mtpp.questions.partitioning import devices_of, runtime_of
from mtpp.questions.placement import FlowLike, FlowWords, PlacementWords, PlaceWords, flow_instance, placement_instance
from mtpp.questions.planning import PlanningQuestion, PlanSearchWords, PlanWords, plan_question
from mtpp.questions.reading import is_decoder
from mtpp.questions.serving import (
    DEFAULT_RUNTIME,
    ORDERS,
    OnServersWords,
    ServersLike,
    ServeWords,
    ServingWords,
    deployment_instances,
    refuse_deployment,
    serving_instance,
    serving_terms,
    throughput_at_most_context,
)
from mtpp.questions.words import GraphLike, pick, solve_options, takes_words
from mtpp.text.numbers import Quantity
from mtpp_models import Progress, SolveOptions, SolverNotAvailableError
from mtpp_models.bounds.serving import serving_front
from mtpp_models.placement.cp import CP_SOLVER, cp_version
from mtpp_models.solvers.registry import find_solver

if TYPE_CHECKING:
    import networkx as nx


# Layers of a decoder on the devices of a cluster: `flow`.


@takes_words(FlowWords)
def flow(question: FlowLike, **words: Unpack[FlowWords]) -> FlowResult:
    """Choose the layers of a decoder that each device holds, so that many requests per second pass, as ``mtpp flow``.

    Parameters
    ----------
    question : FlowInstance, str or path
        Layers, devices with the requests per second that they serve by their number of layers, and links; or a decoder,
        an architecture or a ``config.json``, with `devices`.
    devices : str, path or Machines, optional
        Devices of the cluster on which a decoder runs, with the rates between them.
    dims : mapping, optional
        Dimensions of the decoder: phase (decode by default), context, and batch, the most sequences of a device in a
        step; it takes fewer if the caches of all that are in flight do not fit beside its layers. The flow counts
        sequences: tokens in decoding, prompts in prefill.
    in_flight : int, optional
        Batches of sequences in flight, whose caches all devices hold; by default as many as are best.
    memory : float or str, optional
        Upper limit for the memory of a device [bytes]; by default the memory of its kind.
    bandwidth : float or str, optional
        Bandwidth of devices whose kind states none.
    peak_flops, memory_bandwidth : float or str, optional
        Rates of the device with speed 1.
    search_only : bool
        Whether nothing is proved.
    time_limit : float
        Seconds for search and proof together, 20 by default.
    seed : int

    Returns
    -------
    Result
        Its answer has the interval of layers of each device and the flow; of a decoder in decoding also the batches in
        flight, the sequences that each device takes in a step, and its time. The cost is the time per request, which
        is minimised; the bound is a lower bound on that time.

    Raises
    ------
    InputError
        If the question or an argument is refused.
    """
    return flowed(flow_instance(question, words), words)


def flowed(question: FlowInstance, words: FlowWords, on_progress: Callable[[Progress], None] = ignore) -> FlowResult:
    """As `flow`, from keyword arguments that are already checked."""
    methods = flow_methods(words["seed"], search_only=words["search_only"])
    options = solve_options(words, words["time_limit"])
    prefills = words["devices"] is not None and question.steps is None
    bare = "layers without embeddings and head, " if prefills else ""
    return answered(question, methods, options, on_progress).noted(bare + question.terms)


# Cuts of a decoder by the context that they hold and by how fast they are: `serve`.


#: Outcome of a search for all cuts that no other beats.
ServingResult = Result[ServingInstance, Front]


@overload
def serve(
    graph: GraphLike, k: int | str | None = None, memory: Quantity | None = None, **words: Unpack[ServingWords]
) -> ServingResult: ...
@overload
def serve(
    graph: str | PathLike[str] | Transformer | ServedModel,
    *,
    servers: ServersLike,
    front: None = None,
    **words: Unpack[OnServersWords],
) -> DeploymentResult: ...
@overload
def serve(
    graph: str | PathLike[str] | Transformer | ServedModel,
    *,
    servers: ServersLike,
    front: int,
    **words: Unpack[OnServersWords],
) -> list[DeploymentResult]: ...
@takes_words(ServeWords)
def serve(
    graph: GraphLike | Transformer | ServedModel,
    k: int | str | None = None,
    memory: Quantity | None = None,
    **words: Unpack[ServeWords],
) -> ServingResult | DeploymentResult | list[DeploymentResult]:
    """Find all cuts of a decoder that no other beats in both speed and context, as ``mtpp serve``.

    Parameters
    ----------
    graph : str, path, ComputationGraph or networkx.DiGraph
        A decoder, as for `mtpp.load`; an architecture without a phase is priced for decoding.
    k : int
        Number of stages; with kinds of devices the largest number of devices in use, by default all.
    memory : float or str
        Memory of a device, a hard limit [bytes]; of a kind of devices at most that of the kind.
    devices : Devices, str or path, optional
        Kinds of devices, as for `partition`.
    bandwidth : float or str, optional
        Between stages; 64 GB/s by default.
    runtime : str
        Only cuts that it can express.
    first : str
        "bottleneck" or "capacity": whether the answer is the fastest cut, or the one with the largest context.
    in_flight : int, optional
        Batches in flight, 1 to k, whose caches all stages hold; by default one for each stage. A stage is busy for as
        many times its time in a cycle, and a batch needs the sum of the stages; the longer of the two counts.
    servers : str, path, or Servers, optional
        Servers such as "2x8xH100,1x4xL4", or a file (mtpp-servers/1): then chains of stages with tensor degrees are
        deployed side by side for a workload, and of the arguments above only `runtime` may be given.
    front : int, optional
        Number of limits of the time of a token, from the quickest one to `tpot`: the best deployment for each limit.
    between : float or str
        Rate between two servers; 50 GB/s by default.
    input, output : int
        Mean tokens of a prompt and of the output after it; 1000 by default. For a front several inputs, as "500,4000".
    weights, kv : str
        Widths of weights (bf16, fp16, fp8, int8, fp4, int4) and of keys and values (bf16, fp16, fp8, int8). By default
        weights beside a ``config.json`` have the bytes of their file; `weights` may name it, as for `mtpp.load`.
    reserve : str
        "full" or "mean": room for all tokens of a sequence, or for their mean over its time.
    degrees : str
        Tensor degrees to choose from, such as "1,2,4"; by default all that divide the heads.
    batch : int
        The most sequences of a batch; 4096 by default.
    tpot, ttft : float or str
        Limits of the time of a token, and to the first one [s].
    objective : str
        "throughput", "latency" (a single sequence) or "cost" (of a token).
    topology : str
        "replicas" or "chain".
    prefill : str
        "mixed", or "none" where prompts run elsewhere.
    price : str
        Price of an hour of each server, in their order.
    time_limit : float
        Time for a deployment with its proof [s]; 60 by default.
    dims, reader, communication, cost, input_work, time_unit, peak_flops, memory_bandwidth
        As for `mtpp.load`. Times hold at the context of `dims`, which all cuts hold.

    Returns
    -------
    Result
        Its answer is a `Front`: its `points` are the cuts from the fastest to the one with the largest context, each
        with its `cycle` and `throughput` at the context of `dims` and its `capacity`; `full_throughput` has the
        throughput of each at its `usable_context`, which is its capacity but no more than the model takes. One of them
        is `chosen`, whose `partition`, `bottleneck` and `capacity` the answer has. `settings` are for the runtime.
        With `servers` it is a `Deployment`, with `rate` [tokens/s], `tpot`, `ttft` [s] and `chains`; with `front` there
        is a list of results, none of which beats another one in rate, time of a token and context.

    Raises
    ------
    InputError
        If the graph is no decoder with numbered layers, or an argument is refused.

    Examples
    --------
    >>> import mtpp
    >>> front = mtpp.serve("llama-3-8b", k=4, memory="24GB", dims={"batch": 32, "element_bytes": 2})
    >>> front.answer.capacity >= front.instance.context
    True
    """
    if words["servers"] is None:
        return served(graph, k, memory, words)  # type: ignore[arg-type]
    questions = deployment_instances(graph, k, memory, words)
    if words["front"] is None:
        return deployment(questions[0], words["time_limit"])
    return deployment_front(questions, words["front"], words["time_limit"])


def served(graph: GraphLike, k: int | str | None, memory: Quantity | None, words: ServeWords) -> ServingResult:
    """As `serve` without servers, from keyword arguments that are already checked."""
    refuse_deployment(words)
    question, watch = serving_instance(graph, k, memory, words), Stopwatch()
    outcome = serving_front(question)
    seconds = watch.seconds(solve=watch.passed)
    if not outcome.points:
        return Result("front", question, seconds=seconds, impossible=_why_none(question, outcome.largest))
    priced, ask = is_decoder(graph), partial(serving_instance, graph, k, memory)
    rates = tuple(throughput_at_most_context(ask, words, point) if priced else None for point in outcome.points)
    front = Front(
        question, outcome.points, outcome.points[ORDERS[words["first"]]], words["runtime"] or DEFAULT_RUNTIME, rates
    )
    kinds = () if words["devices"] is None else devices_of(words["devices"], math.inf, math.inf).kinds
    terms = serving_terms(words, front.chosen, kinds, priced=priced)
    full = "times are at full rates of devices, which runs do not reach; those of deployments are at what runs reached"
    caveats = RUNTIMES[front.runtime].caveats_on(kind.name for kind in kinds)
    notes = (terms, *([full] if priced else []), *caveats)
    return Result("front", question, front, Bound(front.cost, "front"), seconds, notes=notes)


def _why_none(question: ServingInstance, largest: float) -> str:
    """Why no cut holds the question's context, if the largest possible one is `largest` [tokens]."""
    if largest < 1:
        return (
            f"no cut has room for a single token of each sequence in flight; give more {word('memory')} or more stages."
        )
    assert question.in_flight is not None
    fewer = " or fewer batches in flight" if question.in_flight > 1 else ""
    return (
        f"no cut holds the context of {question.context} tokens whose times count for "
        f"{how_many(question.in_flight, 'batch')} in flight, and {largest:.0f} are the most; give more memory, more "
        f"stages, a smaller context{fewer}."
    )


# Placements of a step on devices: `place`.


@takes_words(PlaceWords)
def place(
    graph: str | PathLike[str] | ComputationGraph | nx.DiGraph[Any] | PlacementInstance,
    k: int | None = None,
    method: str = "ordered",
    **words: Unpack[PlaceWords],
) -> PlacementResult:
    """Place the nodes of a step on devices, with transfers in both directions, as ``mtpp place``.

    Parameters
    ----------
    graph : str, path, ComputationGraph, networkx.DiGraph or PlacementInstance
        As for `mtpp.load`, or a graph of a family such as "nmt-0"; an instance is a whole question.
    k : int
        Number of devices.
    method : str
        A name of `mtpp.PLACERS`.
    bandwidth : float or str, optional
        Out of each device; 7.6e9 for a family, 25 GB/s otherwise.
    memory : float or str, optional
        Memory of a device; no limit by default.
    dims, training, reader, cost, input_work, time_unit, peak_flops, memory_bandwidth
        As for `mtpp.load`.
    devices : Machines, str or path, optional
        Devices that differ, a text such as "4xA100,6xL4@1.25GB/s", or a file; k may then be left out. Kinds with a
        roofline price the graph, the speed of others divides its works.
    groups : int, optional
        Search with at most this many groups of nodes; by default with single nodes.
    policy : str or path, optional
        A checkpoint for the method *placeto*; by default it trains for this graph alone.
    seed : int
    time_limit : float
        Seconds of the search, and as many again of the proof; 5 by default.
    search_only : bool
        Whether nothing is proved. A proof also takes solvers if the graph is small; one that is missing or fails is a
        warning.
    solver, threads, solver_options, log
        As in `SolveOptions`, for the proof; the solver may be "cp-sat", too.

    Returns
    -------
    Result
        Its answer is a `Placement`, whose `fits` says whether no device needs more than its memory; that of *ordered*
        an `OrderedPlacement`. Where it is proved that none fits, there is no answer, and `impossible` says why.

    Raises
    ------
    InputError
        If the graph or an argument is refused, or there is no such placer.

    Examples
    --------
    >>> import mtpp
    >>> graph = mtpp.ComputationGraph.from_edges([(0, 2), (1, 2)], work=[2, 2, 1], output_bytes=[1, 1, 0])
    >>> mtpp.place(graph, k=2, bandwidth=1).answer.step_time
    4.0
    """
    instance = placement_instance(graph, k, pick(PlacementWords, words))

    def warn(fault: SolverNotAvailableError) -> None:
        warnings.warn(str(fault), RuntimeWarning, stacklevel=4)

    return placed(instance, method, words, on_fault=warn)


def placed(
    instance: PlacementInstance,
    method: str,
    words: PlaceWords,
    on_progress: Callable[[Progress], None] = ignore,
    on_fault: Callable[[SolverNotAvailableError], None] = ignore,
) -> PlacementResult:
    """As `place`, from keyword arguments that are already checked; listeners as for `answered`."""
    search_only, groups = words["search_only"], words["groups"]
    if not search_only:
        solver = words["solver"]
        cp_version() if solver == CP_SOLVER else find_solver(
            solver, (CP_SOLVER,)
        )  # before the search, which may take a while
    policy = None if words["policy"] is None else Checkpoint.load(fspath(words["policy"]))
    grouping = None if groups is None else group_nodes(instance.graph, groups)
    rng = np.random.default_rng(words["seed"])

    def search(limits: Limits, tell: Tell) -> PlacementResult:
        return search_placement(instance, method, rng, limits, grouping, tell, policy)

    options = solve_options(words, words["time_limit"])
    methods = placement_methods(instance, search, search_only=search_only)
    answer = answered(instance, methods, options if search_only else options.doubled(), on_progress, on_fault)
    answer = replace(answer, method=answer.parts[0].method)  # that of the search, which may have a new name
    return answer if grouping is None else answer.noted(f"searched with {grouping.graph.n} groups of nodes")


# Plans of pipelined training: `plan`.


@takes_words(PlanWords)
def plan(
    chain: str | PathLike[str] | LayerChain | ComputationGraph | nx.DiGraph[Any],
    cluster: str | PathLike[str] | Cluster,
    microbatches: int | None = None,
    planner: str = "improved",
    **words: Unpack[PlanWords],
) -> PlanResult:
    """Plan pipelined training and bound how much faster a plan could be, as ``mtpp plan``.

    Parameters
    ----------
    chain : str, path, LayerChain, ComputationGraph or networkx.DiGraph
        A chain file, a PipeDream profile, an architecture, a graph, or "simulation".
    cluster : str, path or Cluster
        A file, servers as "8x4", a testbed of the paper, or "simulation-SEED".
    microbatches : int
        Microbatches of an iteration.
    planner : str
        A name of `mtpp.PLANNERS`.
    bandwidth : float or str, optional
        Bandwidth of servers: one rate, or one within and one between them as "128Gbps,32Gbps".
    memory : float or str, optional
        Memory of a device; no limit by default.
    network : str
        "shared" if servers share network cards, "paper" if links share nothing.
    nic : str
        Network card of a server: "full" or "half" duplex, and its rate, such as "25GB/s,half".
    dtype : str, optional
        "fp32" by default, "bf16", "fp16" or "fp8"; that of an architecture, and of the bytes of a file.
    sequence : int, optional
        Tokens of a sample.
    optimizer_bytes : float, optional
        Bytes a parameter, with its gradient and the optimizer's state; 16 by default.
    parameter_copies : float, optional
        The same for each byte of parameters; 4 by default for the paper's network.
    samples : int, optional
        Samples of a microbatch, of which each replica takes whole ones.
    recompute : bool
        Whether stages that do not fit may keep their input alone.
    runtime : str, optional
        Only plans that it can express, of a graph with layers: a name of ``mtpp list runtimes``.
    full_duplex : bool
        Whether links carry both directions at once.
    dims, input_work, time_unit, peak_flops, memory_bandwidth
        As for `mtpp.load`.
    effort : int
        0 to 3, of "improved" on shared cards.
    orders : str
        Orders of passes that it may choose there, such as "auto", "unsplit", "zb" or "interleaved"; or a CSV file with
        the order for the plan that is found.
    time_limit : float, optional
        For the search [s].
    seed : int

    Returns
    -------
    Result
        Its answer is an `Iteration`, which has the plan.

    Raises
    ------
    InputError
        If an argument is refused, or no plan fits into memory.

    Examples
    --------
    >>> import mtpp
    >>> mtpp.plan("simulation", "2x2", 4, bandwidth="128Gbps,32Gbps").answer.plan.n_stages > 0
    True
    """
    return planned(plan_question(chain, cluster, microbatches, words, planner, pick(PlanSearchWords, words)))


def planned(question: PlanningQuestion, on_progress: Callable[[Progress], None] = ignore) -> PlanResult:
    """As `plan`, for a checked question, with the order of passes of a file if one is given."""
    words, planner, runtime = question.search, question.planner, question.runtime
    orders, seed, limit = words["orders"], words["seed"], words["time_limit"]
    from_file = orders.endswith(".csv")
    legal = None if runtime is None else partial(_legal, runtime_of(runtime))
    reorder = partial(_in_listed_order, path=Path(orders)) if from_file else None
    search = PlanSearch(planner, words["effort"], "unsplit" if from_file else orders, limit, legal, reorder)
    result = certify_plan(question.instance, np.random.default_rng(seed), planner, search, on_progress)
    provenance = {"planner": planner, "seed": seed, "time_limit": limit}
    parts = tuple(replace(part, provenance=provenance) for part in result.parts)
    return replace(result, provenance=provenance, parts=parts)


def _legal(runtime: Runtime, plan: Plan) -> bool:
    """Whether the runtime can express a plan."""
    return not is_refused(runtime.settings, plan)


def _in_listed_order(iteration: Iteration, path: Path) -> Iteration:
    """The plan executed in the order of passes that a CSV file states."""
    from instances.planning.plan_files import read_schedule

    plan = iteration.plan
    if plan is None or plan.instance.network is None:
        why = "only a single pipeline on shared network cards takes an order; choose another planner."
        raise WordError("orders", path, why)
    orders = read_schedule(read_text(path), plan, str(path))
    try:
        return Iteration(plan.instance, (execute_orders(plan, orders, path.name),))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


# Deployments of decoders on servers: the part of `serve` with `servers`.


_TIGHT = "weights leave less than 15 % of the memory of a device; there, measured rates differ by up to 1.8 times"


def deployment(
    question: DeploymentInstance, time_limit: float | None, on_progress: Callable[[Progress], None] = ignore
) -> DeploymentResult:
    """The best deployment within a time limit [s], with bounds; or why there is none."""
    result = answered(question, DEPLOYMENT_METHODS, SolveOptions(time_limit=time_limit), on_progress)
    answer = result.answer
    chains = [] if answer is None else [chain for _, chain, _ in answer.pools]
    constants = question.constants
    reached = f"{constants.flops:.1%} of products and {constants.bytes:.1%} of the rate to memory"
    notes = [f"times are at parts of full rates that were fitted to runs of TensorRT-LLM: {reached}"]
    notes += [_TIGHT] if any(chain.is_tight for chain in chains) else []
    if question.objective != "latency" and question.batch in [chain.chain.batch for chain in chains]:
        notes.append(f"a batch has the most sequences that it may have, {question.batch}; {word('batch')} changes it")
    if question.runtime is not None:
        notes += RUNTIMES[question.runtime].caveats_on(servers.kind for servers in question.servers)
    return result.noted(*notes)


def deployment_front(
    questions: Sequence[DeploymentInstance],
    count: int,
    time_limit: float | None,
    on_progress: Callable[[Progress], None] = ignore,
) -> list[DeploymentResult]:
    """The best deployments under `count` limits on the time per token, the quickest first.

    The limits form a geometric sequence from the least possible time per token to that of the question or, without one,
    of the deployment with the most tokens a second. Limits that no deployment keeps are left out, and so are
    deployments that are no faster than under a smaller limit. `time_limit` [s] is for each deployment.
    """
    front = list[DeploymentResult]()
    for question in questions:
        loosest, points = deployment(question, time_limit, on_progress), list[DeploymentResult]()
        for tpot in _limits(question, loosest, count, time_limit):
            points.append(deployment(replace(question, tpot=tpot), time_limit, on_progress))
            if points[-1].interrupted:
                break
        best = 0.0
        for point in [*points, loosest]:
            rate = 0.0 if point.answer is None else point.answer.rate
            if rate > best or (point is loosest and not best):
                front.append(point)
            best = max(best, rate)
        if any(point.interrupted for point in [*points, loosest]):
            break
    return front


def _limits(
    question: DeploymentInstance, loosest: DeploymentResult, count: int, time_limit: float | None
) -> Iterator[float]:
    """All limits on the time per token but the last, rounded up to three digits [s]."""
    decoding = question.pools[1] if question.prefill == "pools" else question
    quickest = deployment(replace(decoding, objective="latency"), time_limit).answer
    if loosest.answer is None or quickest is None:
        return
    lowest, highest = quickest.tpot, loosest.answer.tpot
    for i in range(count - 1):
        tpot = lowest * (highest / lowest) ** (i / (count - 1))
        unit = 10.0 ** (math.floor(math.log10(tpot)) - 2)
        if (rounded := float(f"{math.ceil(tpot / unit) * unit:.3g}")) < highest:
            yield rounded
