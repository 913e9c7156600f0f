"""Architectures: networks by name, their settings, and how many layers they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np

from instances.architectures.builder import NetworkBuilder, Operator
from instances.architectures.phases import FORWARD, PHASES, Cache, Dim, backward_operators, served_dims
from instances.devices import DEFAULT_DEVICE, Device
from instances.errors import InputError, check_one_of, nearest
from instances.graph.graph import ComputationGraph
from instances.graph.views import merge_graph

# Merging of operators into layers: one node for all operators of a layer.


def merge_layers(graph: ComputationGraph, operators: Sequence[Operator]) -> ComputationGraph:
    """Merge the nodes of each layer; work and parameters of a layer are the sums of its operators'.

    The operators are the record that the graph was made from. The new nodes are called by their layers; tensors inside
    a layer are gone.

    Raises
    ------
    InputError
        If two layers read from each other.
    """
    layer = {operator.name: operator.layer for operator in operators}
    layers = list(dict.fromkeys(layer[name] for name in graph.names))
    number = {name: i for i, name in enumerate(layers)}
    group = np.array([number[layer[name]] for name in graph.names], dtype=np.int64)
    merged, _ = merge_graph(graph, group)
    return replace(merged, names=tuple(layers), attributes=graph.attributes)


# A named family of networks with free dimensions.


#: Levels of nodes.
LEVELS = ("operator", "layer")

_LARGEST_DIM = 2**31 - 1


@dataclass(frozen=True)
class Architecture:
    """Architecture with free dimensions: batch, and sequence or image."""

    name: str  # to ask for
    summary: str  # one line
    network: Callable[..., None]  # ``network(net, **sizes)`` records the operators in a `NetworkBuilder`
    sizes: Mapping[str, int]  # free dimensions of the network and their defaults
    reference: str  # where the network was published
    # Whether it is a decoder that can be served: `network` takes a `Cache`, and there are the dimensions phase, context
    # and kv_bytes of `served_dims`.
    served: bool = False

    @property
    def dims(self) -> dict[str, Dim]:
        """Defaults of the dimensions: those of the network, the width of an element [bytes], and a decoder's phase."""
        return {**self.sizes, "element_bytes": 4, **({"phase": FORWARD} if self.served else {})}

    def checked(self, dims: Mapping[str, Dim]) -> dict[str, Dim]:
        """The same dimensions, if each is one of the network and a positive whole number; a phase is a word.

        Raises
        ------
        InputError
            If one is not.
        """
        names = (*self.dims, *(("context", "kv_bytes") if self.served else ()))
        for dim, value in dims.items():
            if dim not in names:
                end = nearest(names, dim, f"it has {', '.join(names)}")
                raise InputError(f"{self.name}: there is no dimension '{dim}'{end}")
            if dim == "phase":
                check_one_of(f"{self.name}: phase", value, PHASES)
            elif isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= value <= _LARGEST_DIM:
                raise InputError(
                    f"{self.name}: dimension {dim} is {value}; give a whole number from 1 to {_LARGEST_DIM} for each "
                    f"of {', '.join(name for name in names if name != 'phase')}."
                )
        return {dim: value if isinstance(value, str) else int(value) for dim, value in dims.items()}

    def build(
        self,
        *,
        level: str = "operator",
        training: bool = False,
        weights_as_nodes: bool = False,
        device: Device = DEFAULT_DEVICE,
        widths: Callable[[str], float] | None = None,
        **dims: Dim,
    ) -> ComputationGraph:
        """Make the computation graph.

        Parameters
        ----------
        level : {"operator", "layer"}
            Whether a node is an operator, or a layer: the operators of one outermost scope of the network.
        training : bool
            If true, the backward operators follow the forward ones; the rule is that of `backward_operators`.
        weights_as_nodes : bool
            If true, every parameter is a source node without work, as in published operator graphs.
        device : Device
            Turns operations and bytes into seconds.
        widths : function, optional
            From the name of a parameter to its own width [bytes]; by default that is `element_bytes`.
        **dims : int or str
            Dimensions that differ from their defaults.

        Returns
        -------
        ComputationGraph
            Its attributes hold `dims`, `level`, `training`, `flops`, `multiply_adds` and `parameter_count`.

        Raises
        ------
        InputError
            If the level is unknown, or a dimension is unknown, not a positive whole number, or does not suit the
            network.

        Examples
        --------
        >>> from instances.architectures import ARCHITECTURES
        >>> ARCHITECTURES["resnet50"].build(batch=8).attributes["parameter_count"]
        25557032
        """
        check_one_of(f"{self.name}: level", level, LEVELS)
        chosen = self._chosen(dims)
        cache = Cache(int(chosen["context"]), int(chosen["kv_bytes"])) if "phase" in chosen else None
        if training and cache is not None:
            raise InputError(f"{self.name}: phase is {chosen['phase']}, but training keeps no cache; leave out one.")
        net = NetworkBuilder(int(chosen["element_bytes"]), widths)
        try:
            self.network(net, **{dim: chosen[dim] for dim in self.sizes}, **({"cache": cache} if self.served else {}))
        except ValueError as error:  # also of numpy, where the elements of a tensor are too many to count
            raise InputError(f"{self.name}: {error}") from None
        if training:
            net.operators += backward_operators(net.operators)
        listed = ", ".join(f"{dim}={value}" for dim, value in chosen.items())
        step = "forward and backward" if training else "forward"
        roofline = f"{device.peak_flops:g} flop/s and {device.memory_bandwidth:g} bytes/s"
        graph = net.graph(
            device,
            weights_as_nodes=weights_as_nodes,
            name=self.name,
            source=f"parametric architecture at {level} level, {step}, {listed}; roofline at {roofline}",
            attributes={"dims": chosen, "level": level, "training": training},
        )
        return merge_layers(graph, net.operators) if level == "layer" else graph

    def _chosen(self, dims: Mapping[str, Dim]) -> dict[str, Dim]:
        """Complete the dimensions of a graph by their defaults."""
        chosen = self.checked(dims)
        if not self.served:
            return {**self.dims, **chosen}
        try:
            return served_dims({**self.sizes, "element_bytes": 4}, chosen)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None
