"""``mtpp place``, ``mtpp flow`` and ``mtpp serve``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

from instances.errors import assumptions
from instances.partitioning.serving import ServedPartition
from instances.runtimes.layers import layers_in_words
from instances.serving.problem import DeploymentInstance
from mtpp.cli import options
from mtpp.cli.command import Files, command
from mtpp.cli.exit_codes import INTERRUPTED
from mtpp.cli.printing import Printing
from mtpp.problems.checking import result_document
from mtpp.questions.placement import FlowWords, PlacementWords, PlaceWords, flow_instance, placement_instance
from mtpp.questions.serving import ServeWords, deployment_instances
from mtpp.questions.words import pick
from mtpp.text.numbers import bytes_in_words, or_dash, tokens_in_words
from mtpp.text.tables import fitted, terminal_width

if TYPE_CHECKING:
    from heuristics.placement import PlacementResult
    from mtpp.api.planning import ServingResult
    from mtpp.certifying.methods import DeploymentResult, FlowResult

# The verb ``mtpp place``: a placement, and what is printed of it.


@command
def place(
    *,
    graph: Annotated[
        str,
        options.argument(
            metavar="GRAPH", help="An architecture, a file, or a graph of a family: nmt-SEED, cifar10-SEED, ptb-SEED."
        ),
    ],
    k: Annotated[
        int | None, options.of_question("-k", metavar="K", help="Number of devices.  [default: as in --devices]")
    ] = None,
    method: Annotated[str, options.of_search(metavar="NAME", help="See mtpp list placers.")] = "ordered",
    words: PlaceWords,
    files: Files,
    printing: Printing,
) -> int:
    """Place the nodes of a step on devices, data going back and forth, so that the step is short.

    Exit code 1 if a device needs more than its memory, 5 if it is proved that every placement does, 3 if a solver
    fails; what only a solver claims is marked in the file, and mtpp verify says so.

    Example: mtpp place inception-v3 --training --dim batch=32 -k 4 --plot placement.png
    """
    files.check()
    instance = placement_instance(graph, k, pick(PlacementWords, words))

    from mtpp.api.planning import placed

    return printing.answer(
        (f"{instance.graph.name} on {instance.devices} devices, {method}", "step time"),
        lambda live, on_fault: placed(instance, method, words, live.show, on_fault),
        files,
        lambda result: printing.rows([placement_row(result)]),
    )


def placement_row(answer: PlacementResult) -> dict[str, str]:
    """Table row of a placement; times are those of single nodes even if groups were searched."""
    placement, instance, unit = answer.answer, answer.instance, answer.instance.time_unit
    assert placement is not None
    assert answer.bound is not None
    return {
        "instance": instance.graph.name,
        "n": str(instance.graph.n),
        "k": str(instance.devices),
        "method": answer.method,
        f"step time [{unit}]": f"{placement.step_time:.6g}",
        "of one device": f"{placement.relative_time:.4f}",
        f"bound [{unit}]": f"{answer.bound.value:.6g}",
        **({} if answer.bound.method == "simple" else {"by": answer.by}),
        "ratio": or_dash(answer.ratio, ".4f"),
        "peak [GiB]": f"{placement.peak_memory.max() / 2**30:.3g}",
        "fits": "yes" if placement.fits else "no",
    }


# The verb ``mtpp flow``: layers of a decoder on the devices of a cluster.


@command
def flow(
    *,
    question: Annotated[
        str,
        options.argument(
            metavar="QUESTION",
            help="A file of layers, devices and links (mtpp-flow-question/1, helix-instance), or with --devices a "
            "decoder (mtpp list architectures, config.json).",
        ),
    ],
    words: FlowWords,
    files: Files,
    printing: Printing,
) -> int:
    """Choose the layers of a decoder that each device holds, so that as many requests per second as possible pass.

    Devices that hold the same layers share the requests. It is proved how many could pass at the most. Of a decoder
    the flow counts sequences: tokens in decoding, which is the default, prompts in prefill. In decoding all devices
    step together, and batches take turns: each device holds the caches of all that are in flight.

    Example: mtpp flow llama-3-70b --devices 4xA100,8xL4,12xT4 --dim batch=32 --dim element_bytes=2
    """
    files.check()
    instance = flow_instance(question, words)

    from mtpp.api.planning import flowed

    return printing.answer(
        (instance.label, instance.cost_name),
        lambda live, _: flowed(instance, words, live.show),
        files,
        lambda result: printing.rows([_flow_row(result)]),
        printing.part_table,
    )


def _flow_row(result: FlowResult) -> dict[str, str]:
    assert result.answer is not None
    bound, turned, unit = result.bound, result.answer.turns, result.instance.rate_unit
    return {
        "instance": result.instance.name,
        "devices": str(result.instance.n),
        "layers": str(result.instance.layers),
        f"flow [{unit}]": f"{result.answer.flow:.7g}",
        **({"in flight": ", ".join(str(turns.in_flight) for turns in turned)} if turned else {}),
        f"at most [{unit}]": "–" if bound is None or bound.value == 0 else f"{1 / bound.value:.7g}",
        "by": result.by,
        "ratio": or_dash(result.ratio, ".6f"),
        "status": result.status.value,
        "seconds": f"{result.spent:.2f}",
    }


# The verb ``mtpp serve``: cuts of a decoder by the context that they hold and by how fast they are.


@command
def serve(
    *,
    graph: options.Graph,
    k: Annotated[
        str | None, options.of_question("-k", metavar="K", help="Number of stages.  [default: all of --devices]")
    ] = None,
    memory: Annotated[
        str | None, options.of_machines(metavar="BYTES", help="Of a device, a hard limit: 24GB, 24GiB.")
    ] = None,
    words: ServeWords,
    files: Files,
    printing: Printing,
) -> int:
    """Cut a decoder for serving: the largest context that fits, the shortest cycle, and all that lies between.

    Each row is a cut that no other beats in both; that is proved. A cycle leads from one token of a sequence to its
    next. Times hold at the context of --dim, which all cuts hold; without a phase it is decoding. The context is that
    of each sequence of the batches in flight, at most what the model takes; tokens are those that fit. The throughput
    counts sequences: tokens in decoding, prompts in prefill.

    With --servers a decoder is deployed on servers in place of that: stages with tensor degrees, several chains side by
    side, for the prompts, outputs and limits of --help-all. With --front there are the best ones for several times of
    a token.

    Example: mtpp serve llama-3-70b --servers 2x8xH100 --input 1000 --output 500 --tpot 50ms --out deployment.json
    """
    from mtpp.api.planning import served

    files.check()
    if words["servers"] is not None:
        questions = deployment_instances(graph, k, memory, words)
        if words["front"] is None:
            return deploy(questions[0], words, files, printing)
        return _deploy_front(questions, words, files, printing)

    def tables(result: ServingResult) -> None:
        front = result.answer
        assert front is not None
        printing.detail(_stages(front.chosen), (front.settings or front.unsettled).removesuffix("\n"))

    return printing.answer(
        (f"{graph}, {words['devices'] or f'k = {k}'}", "time a batch"),
        lambda *_: served(graph, k, memory, words),
        files,
        lambda result: printing.rows(_front_rows(result)),
        tables,
    )


def deploy(question: DeploymentInstance, words: ServeWords, files: Files, printing: Printing) -> int:
    """Find and print the deployment of a decoder on servers."""
    from mtpp.api.planning import deployment

    return printing.answer(
        (question.label, question.cost_name),
        lambda live, _: deployment(question, words["time_limit"], live.show),
        files,
        lambda result: printing.rows([_deployment_row(result)]),
        printing.part_table,
    )


def _deploy_front(questions: Sequence[DeploymentInstance], words: ServeWords, files: Files, printing: Printing) -> int:
    """Find, print and draw the best deployments for several limits of the time of a token."""
    from mtpp.api.planning import deployment_front

    instances: list[DeploymentInstance] = []
    with printing.answers(_front_row, instances, Files(out=files.out)) as answers:
        with printing.working(questions[0].label, questions[0].cost_name) as live:
            results = deployment_front(questions, words["front"] or 1, words["time_limit"], live.show)
        instances += [result.instance for result in results]
        for result in results:
            noted = result.noted(*assumptions())
            answers.add(noted, partial(result_document, noted))
    if files.plot is not None and any(result.answer is not None for result in results):
        from mtpp.plots.partitions import plot_deployments
        from mtpp.plots.style import save_figure

        save_figure(plot_deployments(results), files.plot)
    return INTERRUPTED if any(result.interrupted for result in results) else answers.exit_code()


def _front_row(result: DeploymentResult) -> dict[str, str]:
    row = {"context": str(math.ceil(result.instance.resident_tokens))}
    if result.answer is None:
        return row | {"status": result.status.value}
    row |= {
        name: cell
        for name, cell in _deployment_row(result).items()
        if name not in ("servers", "chains", "seconds", "by")
    }
    return row | {"chains": result.answer.words}


def _deployment_row(result: DeploymentResult) -> dict[str, str]:
    answer, bound = result.answer, result.bound
    assert answer is not None
    chains = [chain for chain, _ in answer.chains]
    limit = {} if answer.instance.objective == "cost" else {"at most": f"{1 / bound.value:.6g}" if bound else "–"}
    price = {} if answer.price is None else {"price of 1e6": f"{answer.price:.4g}"}
    return {
        "servers": ",".join(servers.label for servers in answer.instance.servers),
        "chains": str(sum(count for _, count in answer.chains)),
        "tokens/s": f"{answer.rate:.6g}",
        **limit,
        "by": result.by,
        "ratio": or_dash(result.ratio, ".4f"),
        "tpot [ms]": f"{answer.tpot * 1e3:.4g}",
        "ttft [ms]": f"{answer.ttft * 1e3:.4g}",
        "in flight": "+".join(f"{chain.chain.batches}x{chain.chain.batch}" for chain in chains),
        "context": str(math.ceil(answer.instance.resident_tokens)),
        **price,
        "status": result.status.value,
        "seconds": f"{result.spent:.2f}",
    }


def _front_rows(result: ServingResult) -> list[dict[str, str]]:
    """Table row of each cut: speeds at the question's context and, in column "there", at the cut's largest context."""
    question, front, unit, rows = result.instance, result.answer, result.instance.time_unit, []
    assert front is not None
    for point, full in zip(front.points, front.full_throughput, strict=True):
        assert point.cycle is not None
        assert question.in_flight is not None
        there = {f"there [1/{unit}]": "–" if full is None else _rate(full)}
        rows.append(
            {
                "layers": layers_in_words(point.partition),
                f"cycle [{unit}]": f"{point.cycle:.6g}",
                f"throughput at {question.context} [1/{unit}]": _rate(point.throughput),
                "context": tokens_in_words(point.usable_context),
                **(there if any(speed is not None for speed in front.full_throughput) else {}),
                "tokens": tokens_in_words(question.in_flight * question.batch * point.capacity),
            }
        )
    return rows


def _rate(value: float) -> str:
    return "–" if value == math.inf else f"{value:.6g}"


def _stages(point: ServedPartition) -> str:
    """Table of the stages' memory at the usable context, and of the context each has room for."""
    partition = point.partition
    at = min(point.usable_context, 1e15)
    kinds = [""] * partition.instance.k if partition.instance.is_alike else partition.kinds_by_name
    rows = [
        [
            str(n),
            *([kind] if kind else []),
            f"{cost:.6g}",
            *map(bytes_in_words, (weights, cache, peak, weights + cache + peak)),
            tokens_in_words(capacity),
        ]
        for n, (kind, cost, weights, cache, peak, capacity) in enumerate(
            zip(
                kinds,
                partition.block_costs.tolist(),
                partition.param_bytes.tolist(),
                point.cache_bytes(at).tolist(),
                partition.peaks.tolist(),
                point.stage_capacity,
                strict=True,
            )
        )
        if kind is not None
    ]
    device = ["device"] if any(kinds) else []
    header = [
        "stage",
        *device,
        f"time [{point.question.instance.time_unit}]",
        "weights",
        "KV" if point.usable_context == math.inf else f"KV at {tokens_in_words(point.usable_context)}",
        "activations",
        "sum",
        "room",
    ]
    return fitted(header, rows, terminal_width())
