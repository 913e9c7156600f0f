"""A named family of networks with free dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral

from instances.architectures.layers import merge_layers
from instances.architectures.operators import NetworkBuilder
from instances.architectures.training import backward_operators
from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.roofline import DEFAULT_DEVICE, Device

__all__ = ["LEVELS", "Architecture"]

#: What a node can be.
LEVELS = ("operator", "layer")

_LARGEST_DIM = 2**31 - 1


@dataclass(frozen=True)
class Architecture:
    """A network whose batch, sequence or image are free.

    Parameters
    ----------
    name, summary : str
        Name to ask for, and one line about it.
    network : callable
        ``network(net, **sizes)`` records the operators in a `NetworkBuilder`.
    sizes : mapping of str to int
        Free dimensions of the network and their defaults.
    reference : str
        Where the network was published.
    """

    name: str
    summary: str
    network: Callable[..., None]
    sizes: Mapping[str, int]
    reference: str

    @property
    def dims(self) -> dict[str, int]:
        """Defaults of all dimensions: those of the network, and the width of an element [bytes]."""
        return {**self.sizes, "element_bytes": 4}

    def checked(self, dims: Mapping[str, int]) -> dict[str, int]:
        """The same dimensions, if each is one of the network and a positive whole number.

        Raises
        ------
        InputError
            If one is not.
        """
        for dim, value in dims.items():
            if dim not in self.dims:
                raise InputError(f"{self.name}: there is no dimension '{dim}'; it has {', '.join(self.dims)}.")
            if not isinstance(value, Integral) or not 1 <= value <= _LARGEST_DIM:
                raise InputError(
                    f"{self.name}: dimension {dim} is {value}; give a whole number from 1 to {_LARGEST_DIM} for each "
                    f"of {', '.join(self.dims)}."
                )
        return {dim: int(value) for dim, value in dims.items()}

    def build(
        self,
        *,
        level: str = "operator",
        training: bool = False,
        weights_as_nodes: bool = False,
        device: Device = DEFAULT_DEVICE,
        **dims: int,
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
        **dims : int
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
        if level not in LEVELS:
            raise InputError(f"{self.name}: level is {level!r}; give one of {', '.join(LEVELS)}.")
        chosen = {**self.dims, **self.checked(dims)}
        net = NetworkBuilder(chosen["element_bytes"])
        try:
            self.network(net, **{dim: chosen[dim] for dim in self.sizes})
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
