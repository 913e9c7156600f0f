"""Conversion of a decoder to the serving question: a node for each layer, one before them and one after them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from instances.devices.platform import Platform
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.graph.memory import touched_bytes
from instances.graph.merging import merge_graph
from instances.graph.tensors import FloatArray
from instances.machines import Machines
from instances.partitioning.problem import Instance
from instances.partitioning.serving import ServingInstance
from instances.partitioning.serving_lines import ServedDecoder
from instances.runtimes.layer_stack import LayerStack
from instances.runtimes.runtime import LayerRuntime, Runtime

__all__ = ["DEFAULT_LINK", "serving_chain"]

#: Between stages if nobody says more [bytes/s].
DEFAULT_LINK = 64e9


def serving_chain(
    graph: ComputationGraph,
    platform: Platform,
    runtime: Runtime,
    devices: Machines | None = None,
    works: FloatArray | None = None,
) -> ServingInstance:
    """The serving question of a decoder in a phase.

    Parameters
    ----------
    graph : ComputationGraph
        At operator level, which has the activations inside of layers; its states are caches at the context of its
        dimensions, and grow with it.
    platform : Platform
        Of alike devices; of several kinds its k, bandwidth and `fit` count.
    runtime : Runtime
        Says which cuts are legal.
    devices : Devices, optional
        Of several kinds; then the most that are used is k. What the runtime keeps with a layer is one node with it.
    works : (T, operators) floats
        Work of the operators on each kind, as the runtime sees them.

    Returns
    -------
    ServingInstance
        The activations are those of the graph's own dimensions. The attribute ``caches`` of the graph says which layers
        hold a window of tokens at most, and which bytes do not grow with the context; those count as weights.

    Raises
    ------
    InputError
        If the graph has no layers in a row, or no dimensions of a cache.
    """
    graph = runtime.seen(graph)
    dims = graph.attributes.get("dims", {})
    if "context" not in dims or "batch" not in dims:
        raise InputError(
            f"{graph.name}: it tells of no cache of keys and values; give a decoder with phase=decode or phase=prefill."
        )
    context, batch = int(dims["context"]), int(dims["batch"])
    stack = LayerStack.of(graph)
    unit = stack.unit
    if devices is not None and isinstance(runtime, LayerRuntime):
        lowest, highest = int(runtime.front_with_first), stack.layers + 1 - int(runtime.back_with_last)
        unit = np.clip(unit, lowest, highest)
    units, unit = np.unique(unit, return_inverse=True)
    merged, _ = merge_graph(graph, unit)
    names = tuple(stack.unit_names[u] for u in units)
    caches = graph.attributes.get("caches", {})
    window = np.array([caches.get(name, {}).get("window", np.inf) for name in names])
    constant = np.array([float(caches.get(name, {}).get("constant", 0)) for name in names])
    tokens = np.minimum(context, window)
    token_bytes = np.divide(merged.state_bytes - constant, tokens, out=np.zeros(len(names)), where=tokens > 0)
    chain = replace(
        merged,
        names=names,
        param_bytes=merged.param_bytes + constant,
        name=graph.name,
        source=graph.source,
        attributes={"dims": dims},
        state_bytes=np.zeros(merged.n),
    )
    need = np.zeros(chain.n)
    np.maximum.at(need, unit, touched_bytes(graph))
    rules = runtime.rules(chain)
    if devices is None or works is None:
        instance = Instance(chain, platform, constraints=rules, need=need, by_need=True)
    else:
        machines, rows = replace(devices, bandwidth=platform.bandwidth), [np.bincount(unit, row) for row in works]
        instance = Instance(chain, machines, need=need, by_need=True, k=platform.k, works=rows, fit=platform.fit)
    return ServingInstance(
        instance=instance,
        token_bytes=token_bytes,
        window=window,
        context=context,
        batch=batch,
        source=ServedDecoder(graph, unit, runtime.name, constant, works),
    )
